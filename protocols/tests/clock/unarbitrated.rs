//! What becomes of a clock in views after which nothing arbitrates, and when an arbiter is back.

use conclave_protocols::Epoch;
use conclave_protocols::clock::State;
use conclave_protocols::policy::ClockAlgorithm;

use crate::lapse::{contradict, two_times};
use crate::pods::{LEASE, MS, Pods, SECOND};

/// Those that missed no view go on.
#[test]
fn a_time_from_before_a_missed_view_does_not_come_back_where_nothing_arbitrates() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = two_times(algorithm, &[0]);
        pods.are_arbitrated = false;
        pods.enter(4, 3, &[2, 3, 4]);
        let mut number = Epoch::UNARBITRATED.0;
        for members in [&[2, 3, 4, 0][..], &[3, 4, 0]] {
            number += 1;
            pods.enter(number, 0, members);
            pods.pass(SECOND, members);
            assert_eq!(
                pods.state(0),
                State::Unsynchronised,
                "{algorithm:?}: nobody gave it a time"
            );
            for one in [3, 4] {
                assert_eq!(pods.state(one), State::Synchronised, "{algorithm:?}: {one}");
            }
        }
        pods.all[0].is_cut_off = false;
        pods.pass(SECOND, &[3, 4, 0]);
        assert_eq!(pods.state(0), State::Synchronised, "{algorithm:?}");
        assert!(!contradict(&pods, 0, 3), "{algorithm:?}");
    }
}

/// With an arbiter it would go on stating that time, whatever becomes of the others.
#[test]
fn a_member_that_is_cut_off_with_a_common_time_goes_on_where_nothing_arbitrates() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = two_times(algorithm, &[4]);
        pods.are_arbitrated = false;
        pods.enter(Epoch::UNARBITRATED.0 + 1, 0, &[4]);
        pods.pass(2 * LEASE, &[4]);
        assert_eq!(pods.state(4), State::Synchronised, "{algorithm:?}");
        assert!(!contradict(&pods, 4, 3), "{algorithm:?}");
    }
}

/// Others may have left such a view for another one meanwhile, and have begun a time there.
#[test]
fn a_time_in_common_where_nothing_arbitrates_is_not_safe_once_something_does() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = two_times(algorithm, &[]);
        pods.are_arbitrated = false;
        pods.enter(4, 3, &[2, 3, 4]);
        pods.pass(2 * SECOND, &[2, 3, 4]);
        pods.are_arbitrated = true;
        pods.all[4].is_cut_off = true;
        pods.begin(5, 4, &[2, 3, 4], &[2, 3, 4]);
        assert_eq!(pods.state(4), State::Unsynchronised, "{algorithm:?}: it has had no lease");
        pods.lead(&[4]);
        assert_eq!(pods.state(4), State::Synchronised, "{algorithm:?}: nobody else leads");
        pods.pass(LEASE + MS, &[2, 3]);
        assert_eq!(pods.state(4), State::Unsynchronised, "{algorithm:?}: others may by now");
    }
}

/// It may be in no view for long, as in a group that is full, and others may have begun another time meanwhile.
#[test]
fn a_member_states_no_time_from_before_there_was_an_arbiter() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = two_times(algorithm, &[]);
        pods.are_arbitrated = false;
        pods.enter(4, 3, &[2, 3, 4]);
        pods.pass(2 * SECOND, &[2, 3, 4]);
        assert!(pods.all[4].transfer.arbitrated(), "{algorithm:?}: it is news");
        assert_eq!(pods.state(4), State::Unsynchronised, "{algorithm:?}");
        assert!(!pods.all[4].transfer.arbitrated(), "{algorithm:?}: it is none");
        pods.are_arbitrated = true;
        pods.begin(5, 4, &[2, 3, 4], &[2, 3, 4]);
        pods.pass(SECOND, &[2, 3, 4]);
        assert_eq!(pods.state(4), State::Synchronised, "{algorithm:?}");
    }
}

/// What its leader states arrives after it has learned of the arbiter.
#[test]
fn a_member_learns_no_time_from_before_there_was_an_arbiter() {
    for algorithm in ClockAlgorithm::ALL {
        for is_late in [false, true] {
            let mut pods = Pods::new(algorithm, 2);
            pods.are_arbitrated = false;
            pods.all[1].is_cut_off = true;
            pods.enter(1, 0, &[0, 1]);
            assert_eq!(pods.state(1), State::Unsynchronised, "{algorithm:?}");
            if is_late {
                assert!(!pods.all[1].transfer.arbitrated(), "{algorithm:?}: it shows no time");
            }
            pods.all[1].is_cut_off = false;
            pods.pass(10 * SECOND, &[]);
            assert_eq!(pods.state(1) == State::Unsynchronised, is_late, "{algorithm:?}");
        }
    }
}

/// No view is known that both were made from: each may have begun a time of its own.
#[test]
fn members_of_views_that_number_themselves_state_no_time_in_one_with_an_arbiter() {
    for algorithm in ClockAlgorithm::ALL {
        let mut pods = two_times(algorithm, &[]);
        pods.are_arbitrated = false;
        for one in [1, 3] {
            pods.enter(Epoch::UNARBITRATED.0 + 1, 0, &[one]);
        }
        pods.pass(2 * SECOND, &[1, 3]);
        assert!(contradict(&pods, 1, 3), "{algorithm:?}: each has its own");
        pods.are_arbitrated = true;
        for one in [1, 3] {
            pods.all[one].is_cut_off = true;
        }
        pods.begin(5, 4, &[3, 1], &[3, 1]);
        pods.lead(&[1, 3]);
        for one in [1, 3] {
            assert_eq!(pods.state(one), State::Unsynchronised, "{algorithm:?}: {one}");
            pods.all[one].is_cut_off = false;
        }
        pods.pass(2 * LEASE, &[1, 3]);
        for one in [1, 3] {
            assert_eq!(pods.state(one), State::Synchronised, "{algorithm:?}: {one}");
        }
        assert!(!contradict(&pods, 1, 3), "{algorithm:?}");
    }
}
