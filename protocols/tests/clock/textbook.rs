//! Worked examples, by hand from the rules of the textbook.

use std::time::Duration;

use conclave_protocols::LocalTime;
use conclave_protocols::clock::berkeley::messages_per_round;
use conclave_protocols::clock::{Exchange, GroupClock, Params, VirtualClock, resync_interval};
use conclave_protocols::policy::Averaging;

use crate::still::{Group, MS, leading, params, synchronised, synchronised_within};

const MINUTE: i64 = 60_000 * MS;
const HOUR_NS: u64 = 3_600_000_000_000;

/// Clocks that show this at raw zero; only the first is known to be right.
fn daemon_and_vague<const N: usize>(shown_ns: [i64; N]) -> Group {
    let mut clocks = shown_ns.map(|ns| synchronised_within(ns, HOUR_NS));
    clocks[0] = leading(shown_ns[0]);
    Group::new(params(), clocks.to_vec())
}

/// Clocks that show this at raw zero and are known to an hour, averaged by a rule.
fn vague<const N: usize>(averaging: Averaging, shown_ns: [i64; N]) -> Group {
    let clocks = shown_ns.map(|ns| synchronised_within(ns, HOUR_NS));
    Group::new(Params { averaging, ..params() }, clocks.to_vec())
}

#[test]
fn the_clocks_of_three_o_clock_meet_at_five_past() {
    let mut group = daemon_and_vague([180, 205, 170].map(|minutes| minutes * MINUTE));
    group.one_round(LocalTime(0));
    assert_eq!(group.deltas(), [(1, -20 * MINUTE), (2, 15 * MINUTE)]);
    let slewing: Vec<i64> =
        group.members.iter().map(|m| m.clock().map().reading(0).slewing_ns).collect();
    assert_eq!(slewing, [5 * MINUTE, -20 * MINUTE, 15 * MINUTE]);

    let course: Vec<Vec<i64>> = (0..100).map(|i| group.shown(i * 1_000_000_000_000)).collect();
    assert!(course.is_sorted_by(|a, b| a.iter().zip(b).all(|(a, b)| a < b)), "no clock goes back");
    let much_later = 3_000_000 * 1_000_000_000;
    let five_past = 185 * MINUTE + 3_000_000_000 * MS;
    assert_eq!(group.shown(much_later), [five_past; 3]);
}

#[test]
fn four_clocks_around_zero_meet_at_their_mean() {
    let mut group = daemon_and_vague([0, -300, 500, 200].map(|ms| ms * MS));
    group.one_round(LocalTime(0));
    assert_eq!(group.deltas(), [(1, 400 * MS), (2, -400 * MS), (3, -100 * MS)]);
    assert_eq!(group.members[0].clock().map().reading(0).slewing_ns, 100 * MS);
}

/// Of 2:00 to 4:00, 2:25 to 4:25 and 1:50 to 3:50 all have 2:25 to 3:50 in common, of which 3:07:30 is the middle.
#[test]
fn clocks_whose_intervals_agree_meet_in_the_middle_of_what_they_have_in_common() {
    let mut group = vague(Averaging::Intervals, [180, 205, 170].map(|minutes| minutes * MINUTE));
    group.one_round(LocalTime(0));
    let half = MINUTE / 2;
    assert_eq!(group.deltas(), [(1, -35 * half), (2, 35 * half)]);
    let mut group = vague(Averaging::Intervals, [0, -300, 500, 200].map(|ms| ms * MS));
    group.one_round(LocalTime(0));
    assert_eq!(group.deltas(), [(1, 400 * MS), (2, -400 * MS), (3, -100 * MS)]);
}

#[test]
fn by_the_median_the_clock_in_the_middle_does_not_move() {
    let mut group = vague(Averaging::Median, [180, 205, 170].map(|minutes| minutes * MINUTE));
    group.one_round(LocalTime(0));
    assert_eq!(group.deltas(), [(1, -25 * MINUTE), (2, 10 * MINUTE)]);
    let mut group = vague(Averaging::Median, [0, -300, 500, 200].map(|ms| ms * MS));
    group.one_round(LocalTime(0));
    assert_eq!(group.deltas(), [(1, 400 * MS), (2, -400 * MS), (3, -100 * MS)]);
}

#[test]
fn corrections_add_up_to_nothing() {
    for n in 2..=16_i64 {
        // Offsets of which n is a divisor have a whole mean.
        let others = (1..n).map(|i| synchronised(n * (i * i * 7919 % 1009)));
        let clocks = [leading(0)].into_iter().chain(others).collect();
        let mut group = Group::new(params(), clocks);
        group.one_round(LocalTime(0));
        let of_daemon = group.members[0].clock().map().reading(0).slewing_ns;
        let of_others: i64 = group.deltas().iter().map(|(_, delta)| delta).sum();
        assert_eq!(of_daemon + of_others, 0, "n = {n}");
    }
}

#[test]
fn a_round_costs_a_poll_an_answer_and_an_adjustment_for_each_other_member() {
    for n in 2..=16 {
        for is_synchronised in [true, false] {
            let clock = |i| {
                if is_synchronised {
                    synchronised(i)
                } else {
                    VirtualClock::new(i, crate::still::rates())
                }
            };
            let mut group = Group::new(params(), (0..i64::from(n)).map(clock).collect());
            group.one_round(LocalTime(0));
            assert_eq!(group.sent.len(), messages_per_round(n) as usize, "n = {n}");
        }
    }
    assert_eq!((messages_per_round(2), messages_per_round(5), messages_per_round(16)), (3, 12, 45));
}

#[test]
fn clocks_that_drift_apart_are_compared_before_the_precision_is_used_up() {
    let interval =
        |precision_ms, ppm| resync_interval(Duration::from_millis(precision_ms), ppm).as_secs();
    assert_eq!(interval(1, 1), 500);
    assert_eq!(interval(1, 10), 50);
    assert_eq!(interval(50, 1), 25_000);
    assert_eq!(interval(2_000, 10), 100_000);
    assert_eq!(interval(72, 10), 3_600);
    assert_eq!(resync_interval(Duration::from_millis(1), 0), Duration::MAX);
}

/// Accuracy is how far clocks are from the true time at most, here zero, and precision how far they are from one another.
#[test]
fn clocks_are_as_precise_as_twice_their_accuracy_and_may_be_precise_without_being_accurate() {
    let accuracy = 3 * MS;
    let shown = |ns| {
        let reading = synchronised_within(ns, accuracy.unsigned_abs()).map().reading(0);
        (reading.now_ns, reading.error_ns.expect("it is known"))
    };
    for (one, other) in [(accuracy, -accuracy), (accuracy, 0), (-accuracy, -accuracy)] {
        let ((one, of_one), (other, of_other)) = (shown(one), shown(other));
        assert!(one.unsigned_abs() <= of_one && other.unsigned_abs() <= of_other, "both hold zero");
        let precision = one.abs_diff(other);
        assert!(precision <= 2 * accuracy.unsigned_abs() && precision <= of_one + of_other);
    }
    // Both are an hour late.
    let mut group = Group::new(params(), vec![leading(60 * MINUTE), synchronised(60 * MINUTE)]);
    group.one_round(LocalTime(0));
    assert_eq!(group.deltas(), [(1, 0)], "and nobody notices");
    assert_eq!(group.shown(0), [60 * MINUTE; 2]);
}

#[test]
fn cristian_s_offset_is_exact_when_both_ways_take_as_long() {
    for (sent, asked, answered, received, offset, error) in [
        (1000, 1060, 1065, 1025, 50, 10),
        (1000, 1010, 1015, 1025, 0, 10),
        (1000, 997, 999, 1010, -7, 4),
    ] {
        let found = Exchange { sent, asked, answered, received }.offset();
        assert_eq!((found.ns, found.error_ns), (offset, error));
    }
}

#[test]
fn one_reading_is_wrong_by_half_the_time_that_the_other_took() {
    // In tenths, so that halves are whole: the other is 50 ahead and takes 5 to answer.
    let by_one_reading = Exchange::of_one_reading(10_000, 10_650, 10_250).offset();
    assert_eq!((by_one_reading.ns, by_one_reading.error_ns), (525, 125));
    let by_four_stamps =
        Exchange { sent: 10_000, asked: 10_600, answered: 10_650, received: 10_250 }.offset();
    assert_eq!(10_250 + by_four_stamps.ns, 10_750);
}
