//! `lockDelay`: how long a lock stays closed after a hold that ended without being given back,
//! whichever algorithm grants it and whatever becomes of the view. Rules 20, 25, 28 and 30 of `docs/views.md`.

use std::time::Duration;

use conclave_protocols::LocalTime;
use conclave_protocols::ids::Epoch;
use conclave_protocols::member::Command;
use conclave_protocols::member::message::{PeerMessage, TableHold};
use conclave_protocols::policy::{LockAlgorithm, LockPolicy, Policy};

use crate::bench::{Bench, Link, SECOND};
use crate::peer_rules::until_held;

const MILLI: Duration = Duration::from_millis(1);

const DELAY: Duration = Duration::from_secs(40);

fn group(members: usize, algorithm: LockAlgorithm, lock_delay: Duration) -> Bench {
    let lock = LockPolicy { algorithm, lock_delay, ..LockPolicy::default() };
    Bench::group(members, Policy { locks: vec![lock], ..Policy::default() })
}

/// Member 4 of five took the lock and died; member 3 wants it. Returns when it comes free.
fn holder_dies(algorithm: LockAlgorithm) -> (Bench, LocalTime) {
    let mut bench = group(5, algorithm, DELAY);
    bench.enter(4, "a");
    until_held(&mut bench, 4, "a", SECOND * 3);
    bench.wait(SECOND);
    bench.stop(4);
    bench.enter(3, "a");
    let free = bench.now.after(bench.policy.timing.member_lease).after(DELAY);
    (bench, free)
}

/// The lock comes free then: a heartbeat earlier if the last promise was, or up to two later, since a
/// leader looks at what is due once in each.
fn comes_free(bench: &mut Bench, next: usize, free: LocalTime, what: &str) {
    let heartbeat = bench.policy.timing.heartbeat;
    while bench.now.after(heartbeat) < free {
        assert!(!bench.holds(next, "a"), "{what}: {:?} too early", free - bench.now);
        bench.wait(MILLI * 10);
    }
    while !bench.holds(next, "a") {
        assert!(bench.now < free.after(heartbeat * 2), "{what}: too late");
        bench.wait(MILLI * 10);
    }
}

/// The joins begin while the holder has yet to be missed, while its lease runs, when the lock is closed
/// and nobody holds it, and when the holder was left out.
#[test]
fn a_lock_stays_closed_for_no_longer_when_eight_members_join() {
    for algorithm in LockAlgorithm::ALL {
        for begin in [0, 3_000, 10_600, 13_000] {
            let (mut bench, free) = holder_dies(algorithm);
            let epoch = bench.record().epoch;
            bench.wait(MILLI * begin);
            for _ in 0..8 {
                bench.start();
                bench.wait(SECOND * 2);
            }
            assert!(bench.record().epoch.0 >= epoch.0 + 8 || algorithm != LockAlgorithm::Central);
            assert_eq!(bench.record().members.len(), 12);
            comes_free(&mut bench, 3, free, &format!("{algorithm:?} from {begin} ms"));
        }
    }
}

#[test]
fn a_lock_stays_closed_without_any_view_change_but_that_for_the_dead_member() {
    for algorithm in LockAlgorithm::ALL {
        let (mut bench, free) = holder_dies(algorithm);
        comes_free(&mut bench, 3, free, &format!("{algorithm:?}"));
    }
}

#[test]
fn a_lock_stays_closed_when_the_leader_lease_is_handed_on() {
    for algorithm in LockAlgorithm::ALL {
        let (mut bench, free) = holder_dies(algorithm);
        bench.wait(SECOND * 13);
        for (leader, next) in [(0, 1), (1, 2)] {
            bench.command(leader, Command::Leave);
            bench.wait(SECOND * 2);
            assert_eq!(bench.leader(), Some(next));
        }
        comes_free(&mut bench, 3, free, &format!("{algorithm:?}"));
    }
}

/// The next leader knows of it as a member of the view that began with it.
#[test]
fn a_closure_that_a_view_began_with_outlives_its_leader() {
    for algorithm in LockAlgorithm::ALL {
        let (mut bench, free) = holder_dies(algorithm);
        bench.wait(SECOND * 13);
        bench.start();
        bench.wait(SECOND * 3);
        bench.stop(0);
        bench.wait(SECOND * 5);
        assert_eq!(bench.leader(), Some(1), "{algorithm:?}");
        bench.enter(2, "b");
        until_held(&mut bench, 2, "b", SECOND * 2);
        bench.exit(2, "b");
        comes_free(&mut bench, 3, free, &format!("{algorithm:?}"));
    }
}

/// Nobody holds it, so nobody has to be waited for.
#[test]
fn a_view_is_settled_though_a_lock_is_closed() {
    let (mut bench, _) = holder_dies(LockAlgorithm::Central);
    bench.wait(SECOND * 11);
    bench.start();
    bench.wait(SECOND * 2);
    assert!(!bench.holds(3, "a"));
    let heartbeats = bench.sent(0, 1, "heartbeat");
    let Some(PeerMessage::Heartbeat(heartbeat)) = heartbeats.last() else {
        panic!("no heartbeat: {heartbeats:?}")
    };
    let list = heartbeat.list.as_ref().expect("a list");
    assert!(list.rest.is_zero() && list.outsiders.is_empty(), "{list:?}");
}

#[test]
fn what_a_leader_held_itself_stays_closed_when_its_leader_lease_comes_back() {
    for algorithm in LockAlgorithm::ALL {
        let mut bench = group(3, algorithm, SECOND * 5);
        bench.enter(0, "a");
        until_held(&mut bench, 0, "a", SECOND * 3);
        bench.enter(1, "a");
        let until = bench.deadline(0, "a").expect("it holds");
        for other in [1, 2] {
            bench.link(bench.node(0), bench.node(other), Link::Held);
        }
        bench.wait(bench.now.until(until));
        assert!(!bench.holds(0, "a"));
        for other in [1, 2] {
            bench.free(bench.node(0), bench.node(other));
        }
        let epoch = bench.record().epoch;
        while bench.now < until.after(SECOND * 5) {
            assert!(!bench.holds(1, "a"), "{algorithm:?}");
            bench.wait(MILLI * 10);
        }
        until_held(&mut bench, 1, "a", SECOND * 3);
        assert_eq!(bench.record().epoch, epoch, "{algorithm:?}");
    }
}

/// Its leader has not missed it for a whole member lease when it is back. It has sealed the view by then,
/// and enters the next.
#[test]
fn what_a_member_lost_that_is_back_stays_closed() {
    for algorithm in LockAlgorithm::ALL {
        let mut bench = group(3, algorithm, DELAY);
        bench.enter(2, "a");
        until_held(&mut bench, 2, "a", SECOND * 3);
        bench.wait(SECOND);
        bench.link(bench.node(0), bench.node(2), Link::Held);
        bench.enter(1, "a");
        let free = bench.now.after(bench.policy.timing.member_lease).after(DELAY);
        let until = bench.deadline(2, "a").expect("it holds");
        bench.wait(bench.now.until(until));
        assert!(!bench.holds(2, "a") && !bench.holds(1, "a"), "{algorithm:?}");
        bench.free(bench.node(0), bench.node(2));
        comes_free(&mut bench, 1, free, &format!("{algorithm:?}"));
    }
}

/// It stood still, and with it its timers, so that it never left the view. It counts by its own clock, and
/// the leader a little longer.
#[test]
fn what_a_member_lost_that_never_left_stays_closed() {
    for algorithm in LockAlgorithm::ALL {
        let mut bench = group(3, algorithm, DELAY);
        bench.enter(2, "a");
        until_held(&mut bench, 2, "a", SECOND * 3);
        bench.wait(SECOND);
        bench.enter(1, "a");
        let until = bench.deadline(2, "a").expect("it holds");
        bench.stop(2);
        bench.wait(bench.now.until(until));
        bench.go_on(2);
        bench.wait(SECOND * 3);
        let epoch = bench.record().epoch;
        while bench.now < until.after(DELAY) {
            assert!(!bench.holds(1, "a"), "{algorithm:?}");
            bench.wait(MILLI * 10);
        }
        until_held(&mut bench, 1, "a", SECOND * 2);
        assert_eq!(bench.record().epoch, epoch, "{algorithm:?}: the lock was taken for stalled");
    }
}

/// A member that enters a view late would keep the lock closed for as much longer.
#[test]
fn a_view_that_is_announced_late_says_how_long_a_lock_is_closed_from_then_on() {
    let (mut bench, _) = holder_dies(LockAlgorithm::RicartAgrawala);
    bench.wait(SECOND * 13);
    bench.forget();
    bench.start();
    let announced = |bench: &Bench| -> Vec<TableHold> {
        let heartbeats = bench.sent(0, 2, "heartbeat");
        let announcements = heartbeats.iter().filter_map(|message| {
            let PeerMessage::Heartbeat(heartbeat) = message else { return None };
            heartbeat.announcement.as_deref()
        });
        announcements.flat_map(|announcement| announcement.carried.holds.clone()).collect()
    };
    while announced(&bench).is_empty() {
        bench.wait(MILLI * 10);
    }
    let first = announced(&bench)[0].rest.expect("nobody holds it");
    let begun = bench.now;
    bench.stop(2);
    bench.wait(SECOND * 5);
    assert_eq!(announced(&bench).len(), 1, "nobody asked again");
    let asks = PeerMessage::Refusal { floor: Epoch(bench.record().epoch.0 - 1) };
    bench.deliver(bench.members[2].me(), 0, asks);
    assert_eq!(announced(&bench).len(), 2);
    let last = announced(&bench)[1].rest.expect("still closed");
    let passed = first.saturating_sub(last);
    assert!(passed > SECOND * 4 && passed <= bench.now - begun, "{passed:?}");
}

/// A holder's promises got lost until it lost the lock by time; one more arrived, and it died. What the leader knew
/// to be the highest token was no token of this lock, but of the view before, or of other locks that were
/// forgotten: the lock was taken for given back, and granted within its delay.
#[test]
fn rule_30_a_lock_that_was_lost_stays_closed_whatever_tokens_others_had() {
    for algorithm in LockAlgorithm::ALL {
        for (carried, others) in [(false, false), (true, false), (false, true), (true, true)] {
            let free = LockPolicy { names: vec!["x".to_owned()], ..LockPolicy::default() };
            let closed = LockPolicy { algorithm, lock_delay: DELAY, ..LockPolicy::default() };
            let policy = Policy { locks: vec![free, closed], ..Policy::default() };
            let mut bench = Bench::group(5, policy);
            bench.wait(SECOND * 2);
            for _ in 0..if others { 10 } else { 0 } {
                bench.enter(0, "x");
                bench.wait(MILLI * 300);
                bench.exit(0, "x");
            }
            bench.enter(3, "a");
            until_held(&mut bench, 3, "a", SECOND * 3);
            bench.wait(SECOND);
            if carried {
                bench.start();
                bench.wait(SECOND * 3);
            }
            assert!(bench.holds(3, "a") && bench.leader() == Some(0), "{algorithm:?}");
            bench.way(bench.node(3), bench.node(0), Link::Cut);
            while bench.holds(3, "a") {
                bench.wait(MILLI * 10);
            }
            let lost = bench.now;
            bench.free(bench.node(3), bench.node(0));
            bench.wait(MILLI * 300);
            bench.stop(3);
            bench.enter(1, "a");
            while bench.now < lost.after(DELAY) {
                let case = (algorithm, carried, others);
                assert!(!bench.holds(1, "a"), "{case:?}: after {:?}", bench.now - lost);
                bench.wait(MILLI * 100);
            }
            until_held(&mut bench, 1, "a", SECOND * 3);
        }
    }
}
