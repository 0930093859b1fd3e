//! The formulas, at their edges and beside an exact model.

use crate::course::{growth, near_growth};
use crate::{Piece, Stated, Status, Words};

/// A rate of one in a thousand, rounded down.
const PER_MILLE: i64 = (1 << 48) / 1_000;

#[test]
fn a_course_is_a_line_before_its_point_too() {
    let piece = Piece { raw: 1_000, ns: 5, rate: 1 << 47 };
    assert_eq!(piece.at(1_000), 5);
    assert_eq!(piece.at(1_010), 20);
    assert_eq!(piece.at(990), -10);
    // Rounded down on both sides.
    assert_eq!(piece.at(1_001), 6);
    assert_eq!(piece.at(999), 3);
}

#[test]
fn a_slow_clock_loses_what_its_rate_says() {
    let piece = Piece { raw: 0, ns: 0, rate: -PER_MILLE };
    assert_eq!(piece.at(1_000_000), 999_000);
    let stopped = Piece { raw: 0, ns: 7, rate: -(1 << 48) };
    assert_eq!(stopped.at(u64::MAX), 7);
}

#[test]
fn a_reading_takes_the_piece_that_has_begun() {
    let piece = |raw, ns| Piece { raw, ns, rate: 0 };
    let words = Words { a: piece(0, 0), b: piece(10, 100), c: piece(20, 200), ..Words::UNKNOWN };
    assert_eq!([9, 10, 19, 20].map(|raw| words.at(raw).time_ns), [9, 100, 109, 200]);
    // A second piece that would begin after the third never does.
    let words = Words { b: piece(20, 100), c: piece(10, 200), ..words };
    assert_eq!([19, 20].map(|raw| words.at(raw).time_ns), [19, 210]);
}

#[test]
fn time_stays_at_the_edges_of_its_type() {
    let fast = Piece { raw: 0, ns: i64::MAX, rate: i64::MAX };
    assert_eq!(fast.at(u64::MAX), i64::MAX);
    assert_eq!(Piece { raw: u64::MAX, ns: i64::MIN, ..fast }.at(0), i64::MIN);
    let back = Piece { raw: 0, ns: 0, rate: i64::MIN };
    assert_eq!(back.at(u64::MAX), i64::MIN);
    assert_eq!(Piece { raw: u64::MAX, ..back }.at(0), i64::MAX);
}

#[test]
fn an_error_grows_from_its_reading_and_otherwise_from_a_later_one() {
    let words = Words {
        bound_raw: 1_000,
        bound_ns: 50,
        growth: PER_MILLE,
        later_raw: 1_000_000,
        later_growth: -PER_MILLE,
        ..stated()
    };
    assert_eq!(words.at(0).error_ns, 50);
    assert_eq!(words.at(1_001).error_ns, 51, "rounded up");
    assert_eq!(words.at(1_000_000).error_ns, 50 + 999);
    assert_eq!(words.at(9_000_000).error_ns, 50 + 1_000, "each rounded up");
    let reading = words.at(1_001);
    assert_eq!((reading.earliest_ns, reading.latest_ns), (1_001 - 51, 1_001 + 51));
}

#[test]
fn an_error_stays_at_the_edges_of_its_type() {
    let words = Words { bound_ns: u64::MAX, growth: i64::MAX, ..stated() };
    assert_eq!(words.at(u64::MAX).error_ns, u64::MAX);
    assert_eq!(words.at(u64::MAX).earliest_ns, i64::MIN);
    assert_eq!(words.at(u64::MAX).latest_ns, i64::MAX);
    let words = Words { bound_ns: 5, growth: i64::MIN, later_growth: i64::MIN, ..stated() };
    assert_eq!(words.at(u64::MAX).error_ns, 0);
}

#[test]
fn a_clock_is_in_holdover_once_its_words_are_stale_and_unknown_once_they_are_void() {
    let words = Words { stale_after_raw: 100, void_after_raw: 200, ..stated() };
    let status = |words: Words| [100, 101, 200, 201].map(|raw| words.at(raw).status);
    let (fresh, stale, void) = (Status::Synchronised, Status::Holdover, Status::Unknown);
    assert_eq!(status(words), [fresh, stale, stale, void]);
    let untrue = Status::Disrupted;
    assert_eq!(
        status(Words { status: Stated::Disrupted, ..words }),
        [untrue, untrue, untrue, void]
    );
    assert_eq!(status(Words { status: Stated::Unknown, ..words }), [void; 4]);
    let reading = words.at(201);
    assert_eq!(reading.error_ns, u64::MAX);
    assert_eq!((reading.earliest_ns, reading.latest_ns), (i64::MIN, i64::MAX));
    assert_eq!(reading.time_ns, 201, "the course goes on");
}

#[test]
fn every_word_gives_what_an_exact_model_gives() {
    let mut numbers = Numbers(7);
    for _ in 0..200_000 {
        let [raw, x, ns, rate] = [(); 4].map(|()| numbers.any());
        let (ns, rate) = (ns.cast_signed(), rate.cast_signed());
        let piece = Piece { raw, ns, rate };
        let passed = i128::from(x) - i128::from(raw);
        let exact = i128::from(ns) + passed + floor_of_share(passed, rate);
        let exact = exact.clamp(i64::MIN.into(), i64::MAX.into());
        assert_eq!(i128::from(piece.at(x)), exact, "{piece:?} at {x}");
        let exact = -floor_of_share(-i128::from(x), rate);
        assert_eq!(growth(x, rate), exact, "{x} at {rate}");
        let near = i64::try_from(exact).ok().filter(|near| *near > i64::MIN);
        assert_eq!(near_growth(x, rate), near, "{x} at {rate}");
    }
}

#[test]
fn no_words_are_too_strange_to_be_evaluated() {
    let mut numbers = Numbers(11);
    for _ in 0..200_000 {
        let words = Words::of_payload(&[(); 25].map(|()| numbers.any()));
        let raw = numbers.any();
        let reading = words.at(raw);
        let grown = growth(raw.saturating_sub(words.bound_raw), words.growth);
        let later = growth(raw.saturating_sub(words.later_raw), words.later_growth);
        let error = (i128::from(words.bound_ns) + grown + later).clamp(0, u64::MAX.into());
        let is_known = reading.status != Status::Unknown;
        assert!(!is_known || i128::from(reading.error_ns) == error, "{words:?} at {raw}");
        assert!(reading.earliest_ns <= reading.time_ns && reading.time_ns <= reading.latest_ns);
    }
}

/// The greatest whole number that is not above `passed * rate / 2^48`, by additions of whole numbers and remainders. No
/// product is made.
fn floor_of_share(passed: i128, rate: i64) -> i128 {
    let rate = if passed < 0 { -i128::from(rate) } else { i128::from(rate) };
    let unit = 1_i128 << 48;
    let (mut whole, mut rest) = (0, 0);
    for bit in (0..65).rev() {
        (whole, rest) = (2 * whole, 2 * rest);
        if passed.unsigned_abs() >> bit & 1 == 1 {
            whole += rate.div_euclid(unit);
            rest += rate.rem_euclid(unit);
        }
        whole += rest.div_euclid(unit);
        rest = rest.rem_euclid(unit);
    }
    whole
}

fn stated() -> Words {
    Words {
        status: Stated::Synchronised,
        bound_ns: 0,
        stale_after_raw: u64::MAX,
        void_after_raw: u64::MAX,
        ..Words::UNKNOWN
    }
}

/// The numbers of `SplitMix64` from a seed, many of them small, large or at an edge.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn any(&mut self) -> u64 {
        let number = self.next();
        match self.next() % 8 {
            0 => number % 4,
            1 => (number % 4).wrapping_neg(),
            2 => i64::MAX.cast_unsigned() + number % 3,
            3 => (1 << 48) + number % 3,
            4 => number >> 32,
            5 => (number >> 32).wrapping_neg(),
            _ => number,
        }
    }
}
