//! The course of group time turns after the page was written.

use super::*;

/// The leader turns its clock in two seconds, by 150 ppm for one second. That is nothing to a reader before.
#[test]
fn a_turn_to_come_makes_the_error_no_larger_before_it() {
    let mut map = synchronised(NOW, 1_000);
    let line = map.known.path.last;
    let at = |raw: u64, ns: i64, rate| Line { raw, ns, rate };
    let (turn, end) = (NOW + 2 * SECOND, NOW + 3 * SECOND);
    let fast = Slope::of_units(42_221_246_506);
    let then = at(turn, line.at(turn), fast);
    map.shown = Course { first: line, then: line, last: line };
    map.known.path = Course { first: line, then, last: at(end, then.at(end), Slope::default()) };
    let words = words_of(plan(&map, &Words::UNKNOWN, NOW, rates())).expect("stated");
    for ms in [0, 1, 500, 1_999] {
        let raw = NOW + ms * 1_000_000;
        let (page, own) = (words.at(raw).error_ns, map.error_ns(raw).expect("known"));
        assert!((own..own + 20).contains(&page), "after {ms} ms: {page}, and not {own}");
    }
    for raw in [turn + SECOND / 2, end, end + SECOND] {
        let (page, own) = (words.at(raw).error_ns, map.error_ns(raw).expect("known"));
        assert!(page >= own && own >= 75_000, "{page}, and not {own}");
    }
}

/// The leader promised nothing for later than in three seconds, when the bound begins to grow fast, and turns its clock soon.
#[test]
fn a_turn_that_is_near_makes_the_error_grow_by_no_more_than_it_does() {
    let fast = Slope::of_units(168_884_986_026);
    let mut map = synchronised(NOW, 1_000);
    let line = map.known.path.last;
    let (turn, end) = (NOW + 1_000_003, NOW + SECOND);
    let rate = Slope::of_units(2_814_749_767);
    let then = Line { raw: turn, ns: line.at(turn), rate };
    let last = Line { raw: end, ns: then.at(end), rate: Slope::default() };
    map.known.path = Course { first: line, then, last };
    map.shown = map.known.path;
    map.known.bound = Bound {
        growth: Slope::default(),
        later: fast,
        last: fast,
        later_raw: NOW + 3 * SECOND,
        last_raw: NOW + 3 * SECOND,
        ..map.known.bound
    };
    let words = words_of(plan(&map, &Words::UNKNOWN, NOW, rates())).expect("stated");
    for ms in [0, 1, 2, 500, 999] {
        let raw = NOW + ms * 1_000_000;
        let (page, own) = (words.at(raw).error_ns, map.error_ns(raw).expect("known"));
        assert!((own..own + 30).contains(&page), "after {ms} ms: {page}, and not {own}");
    }
}
