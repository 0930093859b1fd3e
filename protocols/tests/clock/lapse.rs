//! Whether a view may begin another group time, and what becomes of a clock that had the former one.

use conclave_protocols::clock::State;
use conclave_protocols::policy::ClockAlgorithm;

use crate::pods::{LEASE, MS, Pods, SECOND};

/// The first alone, and then with four others, of which none has the time yet.
fn grown(algorithm: ClockAlgorithm) -> Pods {
    let mut pods = Pods::new(algorithm, 5);
    pods.enter(1, 0, &[0]);
    pods.pass(300 * MS, &[0]);
    assert_eq!(pods.state(0), State::Synchronised, "{algorithm:?}");
    for other in 1..5 {
        pods.all[other].is_cut_off = true;
    }
    pods.enter(2, 1, &[0, 1, 2, 3, 4]);
    pods
}

/// Three of them go on without the first and another, of which the first alone has the time, and at the worst moment: the
/// leases of the two have just been extended.
fn left_behind(algorithm: ClockAlgorithm) -> Pods {
    let mut pods = grown(algorithm);
    for other in 1..5 {
        pods.all[other].is_cut_off = false;
    }
    pods.all[0].is_cut_off = true;
    pods.enter(3, 2, &[2, 3, 4]);
    pods
}

#[test]
fn a_time_that_not_all_have_is_shown_for_as_long_as_nobody_else_leads() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = grown(algorithm);
        pods.pass(300 * MS, &[0]);
        assert_eq!(pods.state(0), State::Synchronised, "{algorithm:?}");
        pods.pass(LEASE - MS, &[]);
        assert_eq!(
            pods.state(0),
            State::Synchronised,
            "{algorithm:?}: another may lead from now on"
        );
        pods.pass(2 * MS, &[]);
        assert_eq!(pods.state(0), State::Unsynchronised, "{algorithm:?}");
        pods.pass(100 * MS, &[0]);
        assert_eq!(pods.state(0), State::Synchronised, "{algorithm:?}: nobody else led");
    }
}

#[test]
fn within_a_second_after_all_have_the_time_all_know_that() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = grown(algorithm);
        pods.pass(2 * SECOND, &[0]);
        for pod in &mut pods.all {
            pod.is_cut_off = false;
        }
        pods.pass(SECOND, &[0, 1, 2, 3, 4]);
        for index in 0..5 {
            assert_eq!(pods.map(index).void_from, u64::MAX, "{algorithm:?}: pod {index}");
        }
    }
}

#[test]
fn a_time_that_all_have_is_shown_for_good() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = grown(algorithm);
        for pod in &mut pods.all {
            pod.is_cut_off = false;
        }
        pods.pass(10 * SECOND, &[0, 1, 2, 3, 4]);
        pods.all[1].is_cut_off = true;
        pods.pass(10 * LEASE, &[]);
        for index in 0..5 {
            assert_ne!(pods.state(index), State::Unsynchronised, "{algorithm:?}: pod {index}");
            assert_eq!(pods.map(index).void_from, u64::MAX, "{algorithm:?}: pod {index}");
        }
        // In the next view it is found out anew: a member that missed that may have none in the one after it.
        pods.enter(3, 2, &[0, 2, 3, 4]);
        pods.pass(LEASE, &[0, 2, 3, 4]);
        assert_eq!(pods.map(2).void_from, u64::MAX, "{algorithm:?}");
    }
}

/// The other of its view never enters that, and begins the next alone.
#[test]
fn a_leader_that_never_had_a_lease_in_its_view_shows_no_time_beside_another() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = grown(algorithm);
        for pod in &mut pods.all {
            pod.is_cut_off = false;
        }
        pods.pass(10 * SECOND, &[0, 1, 2, 3, 4]);
        pods.pass(2 * LEASE, &[]);
        pods.all[0].is_cut_off = true;
        pods.begin(3, 2, &[0, 1], &[0]);
        assert_eq!(pods.state(0), State::Synchronised, "{algorithm:?}: its lease is on its way");
        pods.enter(4, 3, &[1]);
        for _ in 0..20 {
            pods.pass(LEASE / 10, &[1]);
            let both = [0, 1].map(|index| pods.state(index) != State::Unsynchronised);
            assert!(both != [true, true] || !pods.are_apart(0, 1), "{algorithm:?}");
        }
        let states = [0, 1].map(|index| pods.state(index));
        assert_eq!(states, [State::Unsynchronised, State::Synchronised], "{algorithm:?}");
    }
}

/// The register took its view in, and its answer is late. By then the other has begun the next.
#[test]
fn a_leader_that_learns_late_of_its_view_shows_no_time_beside_another() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = grown(algorithm);
        for pod in &mut pods.all {
            pod.is_cut_off = false;
        }
        pods.enter(3, 2, &[0, 1]);
        pods.pass(10 * SECOND, &[0, 1]);
        let asked = pods.now;
        pods.all[0].is_cut_off = true;
        pods.enter(5, 4, &[1]);
        pods.pass(LEASE / 10 * 6, &[1]);
        pods.asked = Some(asked);
        pods.begin(4, 3, &[0, 1], &[0]);
        assert_eq!(pods.state(0), State::Synchronised, "{algorithm:?}: it has the time");
        for _ in 0..20 {
            pods.pass(LEASE / 20, &[1]);
            let both = [0, 1].map(|index| pods.state(index) != State::Unsynchronised);
            assert!(both != [true, true], "{algorithm:?}");
        }
        let states = [0, 1].map(|index| pods.state(index));
        assert_eq!(states, [State::Unsynchronised, State::Synchronised], "{algorithm:?}");
    }
}

/// The same leader follows another in the next view, which it is cut off from before it has a lease there.
#[test]
fn a_leader_of_a_view_without_a_lease_shows_nothing_in_the_next_before_it_has_one() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = Pods::new(algorithm, 8);
        pods.enter(1, 0, &[0]);
        pods.pass(300 * MS, &[0]);
        pods.enter(2, 1, &[0, 1]);
        pods.pass(10 * SECOND, &[0, 1]);
        pods.pass(2 * LEASE, &[]);
        pods.all[0].is_cut_off = true;
        pods.begin(3, 2, &[0, 1], &[0]);
        pods.pass(LEASE, &[]);
        assert_eq!(
            pods.state(0),
            State::Unsynchronised,
            "{algorithm:?}: the other may be elsewhere"
        );
        pods.begin(4, 3, &[1, 0, 5, 6, 7], &[0]);
        assert_eq!(pods.state(0), State::Unsynchronised, "{algorithm:?}");
        pods.enter(5, 4, &[5, 6, 7]);
        pods.pass(2 * LEASE, &[5, 6, 7]);
        let states = [0, 5].map(|index| pods.state(index));
        assert_eq!(states, [State::Unsynchronised, State::Synchronised], "{algorithm:?}");
    }
}

#[test]
fn a_member_without_the_time_keeps_it_from_being_common() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = grown(algorithm);
        for other in 1..4 {
            pods.all[other].is_cut_off = false;
        }
        pods.pass(10 * SECOND, &[0, 1, 2, 3]);
        for index in 0..4 {
            assert_eq!(pods.state(index), State::Synchronised, "{algorithm:?}");
            assert_ne!(pods.map(index).void_from, u64::MAX, "{algorithm:?}: one has it not");
        }
    }
}

#[test]
fn a_leader_that_begins_another_time_waits_until_the_former_is_shown_no_more() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = left_behind(algorithm);
        pods.pass(LEASE - MS, &[2, 3, 4]);
        for index in [2, 3, 4] {
            assert_eq!(pods.state(index), State::Unsynchronised, "{algorithm:?}: too early");
        }
        pods.pass(SECOND, &[2, 3, 4]);
        for index in [2, 3, 4] {
            assert_eq!(pods.state(index), State::Synchronised, "{algorithm:?}");
        }
        assert_eq!(pods.state(0), State::Unsynchronised, "{algorithm:?}");

        // The first comes back, and does not show its own time any more, nor does it go back.
        pods.all[0].is_cut_off = false;
        let before = pods.shown(0);
        pods.all[2].is_cut_off = true;
        pods.enter(4, 3, &[2, 3, 4, 0]);
        pods.lead(&[0]);
        assert_eq!(
            pods.state(0),
            State::Unsynchronised,
            "{algorithm:?}: it has yet to hear the leader"
        );
        pods.all[2].is_cut_off = false;
        pods.pass(SECOND, &[2, 3, 4, 0]);
        assert!(pods.shown(0) >= before, "{algorithm:?}");
        assert_eq!(pods.state(0), State::Synchronised, "{algorithm:?}");
        assert!(!pods.are_apart(0, 3), "{algorithm:?}");
        // It was an hour behind, and stated nothing: it is set.
        assert!(
            pods.map(0).error_ns(pods.now).is_some_and(|error| error < 20 * MS),
            "{algorithm:?}"
        );
    }
}

#[test]
fn a_member_that_comes_back_with_a_later_time_is_not_set_back() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = Pods::new(algorithm, 5);
        pods.enter(1, 0, &[4]);
        pods.pass(300 * MS, &[4]);
        for other in 0..4 {
            pods.all[other].is_cut_off = true;
        }
        pods.enter(2, 1, &[0, 1, 2, 3, 4]);
        for other in 0..4 {
            pods.all[other].is_cut_off = false;
        }
        pods.all[4].is_cut_off = true;
        pods.enter(3, 2, &[0, 1, 2]);
        pods.pass(2 * SECOND, &[0, 1, 2]);
        let before = pods.shown(4);
        pods.all[4].is_cut_off = false;
        pods.enter(4, 3, &[0, 1, 2, 4]);
        pods.pass(SECOND, &[0, 1, 2, 4]);
        assert_eq!(pods.state(4), State::Synchronised, "{algorithm:?}");
        assert!(pods.shown(4) >= before, "{algorithm:?}");
        assert!(!pods.are_apart(0, 4), "{algorithm:?}");
        // Hours are not slewed in a second: its error has the difference.
        assert!(pods.map(4).error_ns(pods.now) > Some(3_000 * SECOND), "{algorithm:?}");
    }
}

#[test]
fn a_leader_without_a_time_takes_what_a_member_has_that_shows_none() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = grown(algorithm);
        pods.pass(SECOND, &[]);
        for pod in &mut pods.all {
            pod.is_cut_off = false;
        }
        assert_eq!(pods.state(0), State::Unsynchronised, "{algorithm:?}");
        let before = pods.shown(0);
        let elapsed = pods.now;
        pods.enter(3, 2, &[4, 0]);
        pods.pass(SECOND, &[4, 0]);
        let passed = i64::try_from(pods.now - elapsed).expect("a short time");
        for index in [4, 0] {
            assert_eq!(pods.state(index), State::Synchronised, "{algorithm:?}");
            let off = pods.shown(index).abs_diff(before + passed);
            assert!(off < MS, "{algorithm:?}: the group has another time, by {off} ns");
        }
    }
}

/// T1 is common among 2, 3 and 4; 0 has T0 of before, lapsed, and is to be a member again, as is 1 without a time.
pub(crate) fn two_times(algorithm: ClockAlgorithm, cut: &[usize]) -> Pods {
    let mut pods = left_behind(algorithm);
    pods.pass(2 * SECOND, &[2, 3, 4]);
    assert_eq!(pods.state(3), State::Synchronised);
    assert_eq!(pods.state(0), State::Unsynchronised);
    pods.all[0].is_cut_off = false;
    for one in cut {
        pods.all[*one].is_cut_off = true;
    }
    pods
}

/// Whether these two state times that cannot both be right.
pub(crate) fn contradict(pods: &Pods, one: usize, two: usize) -> bool {
    let states = |index| matches!(pods.state(index), State::Synchronised | State::Holdover);
    states(one) && states(two) && pods.are_apart(one, two)
}

#[test]
fn a_leader_that_missed_a_view_does_not_go_on_with_the_time_that_it_had() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = two_times(algorithm, &[2, 3, 0, 1, 4]);
        pods.enter(4, 3, &[2, 3, 4, 0, 1]);
        for one in [0, 1, 4] {
            pods.all[one].is_cut_off = false;
        }
        pods.enter(5, 4, &[0, 4, 1]);
        for _ in 0..20 {
            pods.pass(100 * MS, &[0, 4, 1]);
            for one in [0, 1, 4] {
                assert!(!contradict(&pods, one, 3), "{algorithm:?}: {one}");
            }
        }
        for one in [0, 1, 4] {
            assert_eq!(pods.state(one), State::Synchronised, "{algorithm:?}: {one}");
        }
    }
}

#[test]
fn a_time_from_before_a_missed_view_is_not_begun_anew_while_another_is_shown() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = two_times(algorithm, &[2, 3, 0, 1, 4]);
        pods.enter(4, 3, &[2, 3, 4, 0, 1]);
        for one in [0, 1] {
            pods.all[one].is_cut_off = false;
        }
        let before = pods.shown(0);
        let since = pods.now;
        pods.enter(5, 4, &[1, 0]);
        for _ in 0..20 {
            pods.pass(100 * MS, &[0, 1]);
            assert!(!contradict(&pods, 1, 3), "{algorithm:?}");
        }
        assert_eq!(pods.state(1), State::Synchronised, "{algorithm:?}");
        let passed = i64::try_from(pods.now - since).expect("a short time");
        assert!(
            pods.shown(1).abs_diff(before + passed) < MS,
            "{algorithm:?}: it is the former time"
        );
    }
}

#[test]
fn members_of_one_view_take_the_time_that_one_of_them_did_not_miss() {
    for algorithm in ClockAlgorithm::ALL {
        for order in [[0, 3, 1], [1, 0, 3]] {
            let mut pods = two_times(algorithm, &[0, 1]);
            pods.enter(4, 3, &[2, 3, 4, 0, 1]);
            for one in [0, 1] {
                pods.all[one].is_cut_off = false;
            }
            let (before, since) = (pods.shown(3), pods.now);
            pods.enter(5, 4, &order);
            for _ in 0..40 {
                pods.pass(100 * MS, &order);
                for (one, two) in [(0, 3), (1, 3), (0, 1)] {
                    assert!(!contradict(&pods, one, two), "{algorithm:?} {order:?}: {one}, {two}");
                }
            }
            let passed = i64::try_from(pods.now - since).expect("a short time");
            assert!(pods.shown(3).abs_diff(before + passed) < MS, "{algorithm:?} {order:?}");
            assert!(
                pods.map(3).error_ns(pods.now).is_some_and(|error| error < 20 * MS),
                "{algorithm:?} {order:?}"
            );
        }
    }
}

/// T1 is common among 2, 3 and 4. Two have T0 of before, lapsed, 0 and 1; 5 is new.
fn two_lapsed(algorithm: ClockAlgorithm) -> Pods {
    let mut pods = Pods::new(algorithm, 6);
    pods.enter(1, 0, &[0]);
    pods.pass(300 * MS, &[0]);
    for other in [2, 3, 4] {
        pods.all[other].is_cut_off = true;
    }
    pods.enter(2, 1, &[0, 1, 2, 3, 4]);
    pods.pass(3 * SECOND, &[0, 1]);
    assert_eq!(pods.state(1), State::Synchronised, "{algorithm:?}");
    for one in 0..5 {
        pods.all[one].is_cut_off = one < 2;
    }
    pods.enter(3, 2, &[2, 3, 4]);
    pods.pass(3 * SECOND, &[2, 3, 4]);
    assert_eq!(pods.map(3).void_from, u64::MAX, "{algorithm:?}");
    for one in [0, 1] {
        pods.all[one].is_cut_off = false;
    }
    pods
}

/// The one that is silent may be the only one that would outvote them.
#[test]
fn two_that_missed_a_view_do_not_outvote_one_that_did_not_while_another_is_silent() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = two_lapsed(algorithm);
        pods.all[2].is_cut_off = true;
        let (before, since) = (pods.shown(3), pods.now);
        let all = [5, 3, 0, 1, 2];
        pods.enter(4, 3, &all);
        for silent in [true, false] {
            pods.all[2].is_cut_off = silent;
            for _ in 0..30 {
                pods.pass(100 * MS, &all);
                for one in [0, 1, 5] {
                    for two in [2, 3] {
                        assert!(!contradict(&pods, one, two), "{algorithm:?}: {one} and {two}");
                    }
                }
            }
        }
        let passed = i64::try_from(pods.now - since).expect("a short time");
        assert_eq!(pods.state(5), State::Synchronised, "{algorithm:?}");
        assert!(pods.shown(5).abs_diff(before + passed) < MS, "{algorithm:?}");
    }
}

#[test]
fn one_that_missed_a_view_does_not_stand_for_one_that_answers_late() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = two_lapsed(algorithm);
        let (before, since) = (pods.shown(3), pods.now);
        pods.all[3].is_cut_off = true;
        pods.enter(4, 3, &[5, 0, 3]);
        for late in [true, false] {
            pods.all[3].is_cut_off = late;
            for _ in 0..30 {
                pods.pass(100 * MS, &[5, 0, 3]);
                for one in [0, 5] {
                    assert!(!contradict(&pods, one, 3), "{algorithm:?}: {one}");
                }
            }
        }
        let passed = i64::try_from(pods.now - since).expect("a short time");
        assert_eq!(pods.state(5), State::Synchronised, "{algorithm:?}");
        assert!(pods.shown(5).abs_diff(before + passed) < MS, "{algorithm:?}");
    }
}

/// All had the time. One misses a view, and takes part in the next without the time, which it then goes on from alone.
#[test]
fn what_all_had_before_a_view_that_one_missed_is_not_common_in_the_next() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = Pods::new(algorithm, 3);
        pods.enter(1, 0, &[0, 1, 2]);
        pods.pass(10 * SECOND, &[0, 1, 2]);
        assert_eq!(pods.map(1).void_from, u64::MAX, "{algorithm:?}");
        pods.all[2].is_cut_off = true;
        pods.begin(2, 1, &[0, 1, 2], &[0, 1]);
        pods.pass(SECOND, &[0, 1]);
        pods.all[0].is_cut_off = true;
        pods.enter(3, 2, &[1, 2]);
        pods.pass(100 * MS, &[1, 2]);
        pods.enter(4, 3, &[2]);
        for _ in 0..20 {
            pods.pass(LEASE / 10, &[2]);
            let [zero, one, two] = [0, 1, 2].map(|at| pods.state(at) != State::Unsynchronised);
            assert!(!(two && (zero || one)), "{algorithm:?}: {zero} {one}");
        }
        assert_eq!(pods.state(2), State::Synchronised, "{algorithm:?}");
    }
}

/// The other was never in the view that this one led, and leads the next.
#[test]
fn a_leader_of_a_view_alone_shows_nothing_in_the_next_of_the_same_members_before_it_has_a_lease() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = Pods::new(algorithm, 2);
        pods.enter(1, 0, &[0, 1]);
        pods.pass(10 * SECOND, &[0, 1]);
        pods.pass(2 * LEASE, &[]);
        pods.all[0].is_cut_off = true;
        pods.begin(2, 1, &[0, 1], &[0]);
        pods.pass(LEASE, &[]);
        pods.begin(3, 2, &[1, 0], &[0, 1]);
        assert_eq!(pods.state(0), State::Unsynchronised, "{algorithm:?}");
        pods.enter(4, 3, &[1]);
        pods.pass(2 * LEASE, &[1]);
        let states = [0, 1].map(|index| pods.state(index));
        assert_eq!(states, [State::Unsynchronised, State::Synchronised], "{algorithm:?}");
    }
}
