//! What a page states is no less than what the clock states, and no earlier than what was read.

mod both;
mod turns;

use conclave_clock_page::{Reader, Stated, Status};
use conclave_protocols::LocalTime;
use conclave_protocols::clock::{
    Bound, Correction, Course, Known, Line, Rates, Shown, Slope, State, Transfer, VirtualClock,
};
use tokio::sync::watch;

use super::plan::{ERROR_MAX_NS, VOID_NS};
use super::*;
use crate::group::slot;

/// Where nobody has read the time but on the page.
fn plan(map: &ClockMap, published: &Words, now: u64, rates: Rates) -> Plan {
    plan::plan(map, published, None, now, rates)
}

/// Numbers by chance, from a seed (`SplitMix64`).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn signed(&mut self, size: i64) -> i64 {
        self.below(2 * size.unsigned_abs() + 1).cast_signed() - size
    }

    /// Up to 600 parts per million either way, and every third time none.
    fn rate(&mut self) -> Slope {
        let size = (1_i64 << 48) / 1_000_000 * 600;
        Slope::of_units(if self.below(3) == 0 { 0 } else { self.signed(size) })
    }

    fn line(&mut self, raw: u64) -> Line {
        Line { raw, ns: raw.cast_signed() + self.signed(2_000_000), rate: self.rate() }
    }

    /// A course that is anywhere at each of its turns. The last may be after the page is void.
    fn course(&mut self) -> Course {
        let mut raws = [(); 3].map(|()| NOW - SECOND + self.below(4 * SECOND));
        if self.below(4) == 0 {
            raws[2] = NOW + 2 * VOID_NS;
        }
        raws.sort_unstable();
        let [first, then, last] = raws.map(|raw| self.line(raw));
        Course { first, then, last }
    }

    fn map(&mut self) -> ClockMap {
        let growth = |chance: &mut Self| Slope::of_units(chance.rate().units().abs());
        let raw = NOW - SECOND + self.below(2 * SECOND);
        let never = self.below(4) == 0;
        let mut turns = [(); 2]
            .map(|()| if never { u64::MAX } else { NOW - 2 * SECOND + self.below(6 * SECOND) });
        turns.sort_unstable();
        let [later_raw, last_raw] = turns;
        let error_ns = self.below(5_000_000);
        let [growth, later, last] = [(); 3].map(|()| growth(self));
        let bound = Bound { raw, error_ns, growth, later_raw, later, last_raw, last };
        let mut map = synchronised(0, 0);
        (map.shown, map.known) = (self.course(), Known { path: self.course(), bound, ..map.known });
        map.synced_raw = Some(NOW - self.below(3 * SECOND));
        map
    }

    /// Any reading from now on while the words state something, often one next to a turn.
    fn reading(&mut self, map: &ClockMap, words: &Words) -> u64 {
        let (shown, path, bound) = (map.shown, map.known.path, map.known.bound);
        let turns = [shown.then, shown.last, path.then, path.last].map(|line| line.raw);
        let turns =
            [&turns[..], &[words.b.raw, words.c.raw, bound.raw, bound.later_raw, bound.last_raw]]
                .concat();
        let near = turns[usize::try_from(self.below(9)).expect("small")];
        let raw = match self.below(3) {
            0 => near.saturating_add_signed(self.signed(2)),
            1 => NOW + self.below(5 * SECOND),
            _ => NOW + self.below(VOID_NS),
        };
        raw.clamp(NOW, words.void_after_raw)
    }
}

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 500_000 * SECOND;

fn rates() -> Rates {
    Params::from(&ClockPolicy::default()).rates()
}

/// A clock that shows a time at a raw reading, runs as its raw clock does, was synchronised then, and surely is right.
fn synchronised(raw: u64, ns: i64) -> ClockMap {
    let mut map = VirtualClock::new(0, rates()).map();
    let line = Line { raw, ns, rate: Slope::default() };
    map.shown = Course { first: line, then: line, last: line };
    map.known = Known { path: map.shown, bound: Bound { raw, ..map.known.bound }, ..map.known };
    (map.synced_raw, map.fresh_for_ns) = (Some(raw), 3 * SECOND);
    map
}

fn facts(clock: OsClock) -> Facts {
    let policy = ClockPolicy::default();
    Facts { shown: None, epoch: 7, members: 3, policy, host: clock.host_at(clock.raw().0) }
}

fn now_ns() -> (u64, i64) {
    let raw = OsClock::default().raw().0;
    (raw, raw.cast_signed())
}

fn words_of(plan: Plan) -> Option<Words> {
    match plan {
        Plan::State { words, .. } => Some(words),
        Plan::Keep | Plan::Wait(_) | Plan::Nothing => None,
    }
}

#[test]
fn a_page_never_states_less_than_the_clock_does() {
    let seed = 11;
    let mut chance = Chance(seed);
    let mut stated = 0;
    for round in 0..3_000 {
        let map = chance.map();
        let Some(words) = words_of(plan(&map, &Words::UNKNOWN, NOW, rates())) else { continue };
        stated += 1;
        for _ in 0..60 {
            let raw = chance.reading(&map, &words);
            let (page, own) = (words.at(raw), map.reading(raw));
            assert_eq!(page.time_ns, own.now_ns, "seed {seed}, round {round}, {raw}: {map:?}");
            let (less, more) = (Some(page.error_ns), own.error_ns);
            assert!(less >= more, "seed {seed}, round {round}, {raw}: {less:?} {more:?} {map:?}");
        }
    }
    assert!(stated > 1_000, "{stated}");
}

/// Group time turns in a second, and on for longer than the page states anything. Readers do not follow it meanwhile.
#[test]
fn a_page_states_what_group_time_gains_until_the_page_is_void() {
    let mut map = synchronised(NOW, 0);
    let (turn, end) = (NOW + SECOND, NOW + 2 * VOID_NS);
    let path = &mut map.known.path;
    path.then =
        Line { raw: turn, rate: Slope::of_units((1 << 48) / 1_000_000 * 150), ..path.first };
    path.then.ns = path.first.at(turn);
    path.last = Line { raw: end, ns: path.then.at(end), ..path.first };
    let words = words_of(plan(&map, &Words::UNKNOWN, NOW, rates())).expect("stated");
    for raw in [NOW, turn, turn + SECOND, NOW + 100 * SECOND, words.void_after_raw] {
        let (page, own) = (Some(words.at(raw).error_ns), map.error_ns(raw));
        assert!(page >= own, "{raw}: {page:?} {own:?}");
    }
}

#[test]
fn a_page_that_differs_from_the_clock_states_that_too_and_time_does_not_fall_on_it() {
    let seed = 12;
    let mut chance = Chance(seed);
    let mut stated = 0;
    for round in 0..3_000 {
        let map = chance.map();
        let piece = conclave_clock_page::Piece {
            raw: NOW - SECOND,
            ns: chance.line(NOW - SECOND).ns,
            rate: 0,
        };
        let published = Words {
            a: piece,
            void_after_raw: u64::MAX,
            bound_ns: 0,
            status: Stated::Synchronised,
            ..Words::UNKNOWN
        };
        let Some(words) = words_of(plan(&map, &published, NOW, rates())) else { continue };
        stated += 1;
        for _ in 0..60 {
            let raw = chance.reading(&map, &words);
            let page = words.at(raw);
            let needed = map.known.bound.at(raw) + map.known.path.at(raw).abs_diff(page.time_ns);
            assert!(page.error_ns > needed, "seed {seed}, round {round}, {raw}: {map:?}");
            if raw < NOW + Writer::PLAN_NS {
                assert_eq!(
                    page.time_ns,
                    published.at(raw).time_ns,
                    "seed {seed}, round {round}, {raw}"
                );
            }
        }
        // The map itself may fall: it is any.
        let [before, after] = [1, 0].map(|less| words.at(words.b.raw - less).time_ns);
        assert!(before <= after, "seed {seed}, round {round}: {before} {after} {words:?}");
    }
    assert!(stated > 1_000, "{stated}");
}

#[test]
fn a_page_is_void_when_its_error_passes_100_ms_and_1000_s_after_the_last_synchronisation() {
    let mut map = synchronised(NOW - SECOND, 0);
    let void = |map: &ClockMap| {
        words_of(plan(map, &Words::UNKNOWN, NOW, rates())).map(|words| words.void_after_raw)
    };
    map.known.bound.growth = Slope::default();
    (map.known.bound.later, map.known.bound.error_ns) = (Slope::default(), 5);
    assert_eq!(void(&map), Some(NOW - SECOND + VOID_NS));
    map.known.bound.growth = Slope::of_units((1 << 48) / 1_000);
    let words = words_of(plan(&map, &Words::UNKNOWN, NOW, rates())).expect("stated");
    let last = words.void_after_raw;
    assert!((NOW + 98 * SECOND..NOW + 100 * SECOND).contains(&last), "{last}");
    assert!(words.at(last).error_ns <= ERROR_MAX_NS);
    assert!(map.error_ns(last + 1_000_000).is_some_and(|error| error > ERROR_MAX_NS));
    assert_eq!(words.at(last + 1).status, Status::Unknown);
    assert_eq!(words.at(NOW + 2 * SECOND).status, Status::Synchronised);
    assert_eq!(words.at(NOW + 2 * SECOND + 1).status, Status::Holdover);
    map.known.bound.error_ns = ERROR_MAX_NS;
    assert_eq!(plan(&map, &words, NOW, rates()), Plan::Nothing);
    map.synced_raw = Some(NOW - VOID_NS - 1);
    assert_eq!(plan(&map, &words, NOW, rates()), Plan::Nothing);
    map.synced_raw = None;
    assert_eq!(plan(&map, &words, NOW, rates()), Plan::Keep);
}

#[test]
fn a_page_is_void_from_where_the_clock_is() {
    let map = |void_from| {
        let mut map = synchronised(NOW - SECOND, 0);
        map.void_from = void_from;
        map
    };
    let ends = NOW + SECOND;
    let words = words_of(plan(&map(ends), &Words::UNKNOWN, NOW, rates())).expect("stated");
    assert_eq!(
        [ends - 1, ends].map(|raw| words.at(raw).status),
        [Status::Synchronised, Status::Unknown]
    );
    assert_eq!([ends - 1, ends].map(|raw| map(ends).error_ns(raw).is_some()), [true, false]);
    for past in [0, 1, NOW] {
        assert_eq!(plan(&map(past), &words, NOW, rates()), Plan::Nothing, "{past}");
    }
}

/// It stated a time for good while nothing arbitrated. From then on it states one only while nobody else leads.
#[test]
fn a_page_states_nothing_once_there_is_an_arbiter_until_somebody_leads() {
    for leads in [true, false] {
        let mut clock = VirtualClock::new(0, rates());
        let shown = Shown { raw: LocalTime(NOW), ns: clock.map().now_ns(NOW) };
        assert!(clock.adjust(
            LocalTime(NOW),
            shown,
            Correction { delta_ns: 0, ahead_ns: 0, error_ns: 5 }
        ));
        let mut transfer = Transfer::new(clock);
        transfer.enter(leads.then_some(LocalTime(0)), true, false);
        let published = plan(&transfer.map(), &Words::UNKNOWN, NOW, rates());
        let words = words_of(published).expect("stated");
        assert!(words.void_after_raw > NOW + 10 * SECOND, "{leads}");
        transfer.enter(leads.then_some(LocalTime(0)), true, true);
        assert_eq!(plan(&transfer.map(), &words, NOW, rates()), Plan::Nothing, "{leads}");
        assert!(transfer.led(LocalTime(NOW + SECOND)));
        let led = words_of(plan(&transfer.map(), &words, NOW, rates())).expect("stated");
        assert_eq!(led.void_after_raw, NOW + SECOND - 1, "{leads}");
    }
}

#[test]
fn a_page_whose_words_are_void_begins_anew() {
    let published = words_of(plan(&synchronised(NOW, 0), &Words::UNKNOWN, NOW, rates())).unwrap();
    let map = synchronised(NOW + 2 * VOID_NS, 0);
    let Plan::State { words, begins_anew } = plan(&map, &published, NOW + 2 * VOID_NS, rates())
    else {
        panic!("nothing is stated")
    };
    assert!(begins_anew);
    assert_eq!(words.at(NOW + 2 * VOID_NS).time_ns, 0);
}

#[test]
fn a_new_life_goes_on_with_the_page_and_shows_no_time_before_one_that_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page");
    let clock = OsClock::default();
    let facts = facts(clock);
    for off_ns in [-40_000, 40_000] {
        // Both are of the page's own time, not of the moment.
        let (raw, ns) = now_ns();
        let mut life = ClockPage::open(&path, clock).unwrap();
        state_nothing(&mut life.writer, life.domain ^ 1);
        assert_eq!(life.publish(&synchronised(raw, ns), &facts), Outcome::Published);
        drop(life);
        let mut next = ClockPage::open(&path, clock).unwrap();
        let before = *next.writer.published();
        let map = synchronised(raw, ns + off_ns);
        let mut unsynchronised = map;
        unsynchronised.synced_raw = None;
        assert_eq!(next.publish(&unsynchronised, &facts), Outcome::Unchanged);
        assert_eq!(Reader::open(&path).unwrap().words(), Some(before));
        assert_eq!(next.publish(&map, &facts), Outcome::Published);
        let words = Reader::open(&path).unwrap().words().unwrap();
        let begins = words.published_raw;
        assert_eq!(words.at(begins).time_ns, before.at(begins).time_ns);
        let times = (0..10_000).map(|step| words.at(begins + step * 100_000).time_ns);
        assert!(times.is_sorted());
        // It was slewed to the clock, by 500 parts per million, and says by how much it was off.
        let met = words.at(begins + SECOND);
        assert!(met.time_ns.abs_diff(map.now_ns(begins + SECOND)) <= 1, "{met:?}");
        assert!((40_000..140_000).contains(&words.at(begins).error_ns), "{words:?}");
        // A second less is too far, and behind: what readers may have seen is later.
        let good = map;
        let ahead = synchronised(raw, ns + off_ns + SECOND.cast_signed());
        let behind = synchronised(raw, ns + off_ns - SECOND.cast_signed());
        let now =
            || Reader::open(&path).unwrap().words().map(|words| words.at(words.published_raw));
        let seen = words.at(clock.raw().0).time_ns;
        let mut lapsed = behind;
        lapsed.void_from = 0;
        for lives in [1, 1, 2, 1] {
            let outcome = next.publish(&behind, &facts);
            assert!(matches!(outcome, Outcome::Waits(900_000_000..1_100_000_000)), "{outcome:?}");
            assert_eq!(now().map(|now| now.status), Some(Status::Unknown));
            assert_eq!(next.publish(&lapsed, &facts), Outcome::Published);
            if lives == 2 {
                drop(next);
                next = ClockPage::open(&path, clock).unwrap();
            }
        }
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(next.publish(&good, &facts), Outcome::Published, "it has passed that");
        let words = Reader::open(&path).unwrap().words().unwrap();
        let begins = words.published_raw;
        assert!(words.at(begins).time_ns > seen);
        // A second more is too far as well: the page is set.
        assert_eq!(next.publish(&ahead, &facts), Outcome::Published);
        let words = Reader::open(&path).unwrap().words().unwrap();
        let begins = words.published_raw;
        assert_eq!(words.at(begins).time_ns, ahead.now_ns(begins));
        assert!(words.at(begins).error_ns < 1_000_000, "of the time since {raw} alone");
    }
}

#[test]
fn a_page_that_missed_a_map_goes_on_with_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page");
    let clock = OsClock::default();
    let mut page = ClockPage::open(&path, clock).unwrap();
    let (raw, ns) = now_ns();
    assert_eq!(
        page.publish(&synchronised(raw - SECOND, ns - SECOND.cast_signed()), &facts(clock)),
        Outcome::Published
    );
    // Of a plan that came late, the second piece is in force already.
    let mut map = synchronised(raw - SECOND, ns - SECOND.cast_signed());
    let begins = raw - 20_000_000;
    map.shown.then =
        Line { raw: begins, ns: map.shown.first.at(begins), rate: Slope::of_units(1 << 38) };
    map.shown.last = Line {
        raw: raw + 10 * SECOND,
        ns: map.shown.then.at(raw + 10 * SECOND),
        rate: Slope::default(),
    };
    map.known.path = map.shown;
    assert_eq!(page.publish(&map, &facts(clock)), Outcome::Published);
    assert_eq!(page.publish(&map, &facts(clock)), Outcome::Published);
    let at = page.writer.published().published_raw + SECOND / 10;
    let apart = page.writer.published().at(at).time_ns.abs_diff(map.now_ns(at));
    assert!(apart <= 100, "{apart}");
}

#[test]
fn the_page_of_another_clock_states_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page");
    let clock = OsClock::default();
    let (raw, ns) = now_ns();
    let mut page = ClockPage::open(&path, clock).unwrap();
    assert_eq!(page.publish(&synchronised(raw, ns), &facts(clock)), Outcome::Published);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.now().status, Status::Synchronised);
    page.domain += 1;
    assert_eq!(page.publish(&synchronised(raw, ns), &facts(clock)), Outcome::Published);
    ClockPage::open(&path, clock).unwrap();
    assert_eq!(reader.now().status, Status::Unknown);
    assert_ne!(clock_domain(), 0);
    assert_eq!(clock_domain(), clock_domain());
}

#[test]
fn a_page_states_what_is_known_of_the_group_and_of_utc() {
    let folder = tempfile::tempdir().unwrap();
    let clock = OsClock::default();
    let mut page = ClockPage::open(&folder.path().join("page"), clock).unwrap();
    let (raw, ns) = now_ns();
    let mut facts = facts(clock);
    let synchronization = crate::os_clock::Synchronization {
        synchronized: true,
        max_error_ns: 5_000,
        estimated_error_ns: 1,
    };
    facts.host.synchronization = Some(synchronization);
    assert_eq!(page.publish(&synchronised(raw, ns), &facts), Outcome::Published);
    let words = *page.writer.published();
    assert_eq!((words.epoch, words.members, words.used), (7, 3, 3));
    assert_eq!((words.max_drift_ppb, words.wander_ppb), (100_000, 15_000));
    assert_eq!(words.utc_bound_ns, 5_000 + facts.host.wall.error_ns);
    let utc = words.at(words.published_raw).time_ns + words.utc_offset_ns;
    assert!(utc.abs_diff(clock.wall_ns()) < SECOND, "{utc}");
    facts.host.synchronization =
        Some(crate::os_clock::Synchronization { synchronized: false, ..synchronization });
    facts.policy = ClockPolicy { max_drift_ppm: 200, max_wander_ppb: 1_000, ..facts.policy };
    assert_eq!(page.publish(&synchronised(raw, ns), &facts), Outcome::Published);
    let words = page.writer.published();
    assert_eq!((words.max_drift_ppb, words.wander_ppb), (200_000, 1_000));
    assert_eq!(page.writer.published().utc_bound_ns, u64::MAX);
}

#[tokio::test]
async fn a_disruption_that_ends_is_published_although_no_map_comes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page");
    let clock = OsClock::default();
    let metrics = Metrics::new("orders");
    let (mut group, _slot) = slot::open("orders", "shop-0", clock, metrics.clone());
    let (raw, ns) = now_ns();
    let mut map = synchronised(raw, ns);
    (map.disrupted_until, map.fresh_for_ns) = (raw + 300_000_000, u64::MAX / 2);
    let (_maps, time) = watch::channel(map);
    group.time = time;
    let page = ClockPage::open(&path, clock).unwrap();
    tokio::spawn(page.keep(group, metrics.clone()));
    let reader = Reader::open(&path).unwrap();
    for status in [Status::Disrupted, Status::Synchronised] {
        let until = async {
            while reader.now().status != status {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), until)
            .await
            .unwrap_or_else(|_| panic!("{status:?}"));
    }
    assert_eq!(metrics.clock.page_published.get(), 2);
}
