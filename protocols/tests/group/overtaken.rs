//! What is heard twice, or later than what was sent after it: links may break and be made anew at any
//! moment, and what they then bring again counts for nothing.

use std::time::Duration;

use conclave_protocols::member::LockEvent;
use conclave_protocols::member::message::PeerMessage;
use conclave_protocols::policy::{Policy, Timing};

use crate::bench::{Bench, Link, SECOND};
use crate::peer_rules::{among_members, policy, until_held};

const MILLI: Duration = Duration::from_millis(1);

/// What a member last sent to another, of that name.
fn latest(bench: &Bench, from: usize, to: usize, name: &str) -> PeerMessage {
    (*bench.sent(from, to, name).last().expect("it said so")).clone()
}

/// A promise from before a member entered was heard once more while the leader asked who holds what:
/// it struck the hold, the next view began without it, and two were in the critical section.
#[test]
fn rule_29_a_promise_that_is_repeated_strikes_no_hold() {
    for algorithm in among_members() {
        let mut bench = Bench::group(3, policy(algorithm));
        bench.wait(SECOND);
        let before = latest(&bench, 1, 0, "promise");
        bench.enter(1, "a");
        until_held(&mut bench, 1, "a", SECOND * 3);
        bench.wait(SECOND);
        let epoch = bench.record().epoch;
        bench.way(bench.node(2), bench.node(0), Link::Held);
        let joiner = bench.start();
        bench.wait(MILLI * 300);
        assert_eq!(bench.record().epoch, epoch, "{algorithm:?}: the leader waits for an answer");
        bench.deliver(bench.members[1].me(), 0, before);
        bench.free(bench.node(2), bench.node(0));
        bench.wait(SECOND * 2);
        assert!(bench.record().epoch > epoch && bench.holds(1, "a"), "{algorithm:?}");
        bench.enter(joiner, "a");
        for _ in 0..150 {
            bench.wait(MILLI * 100);
            assert!(!(bench.holds(1, "a") && bench.holds(joiner, "a")), "{algorithm:?}");
        }
        let refused = |event: &LockEvent| matches!(event, LockEvent::Lost(_));
        assert!(!bench.lock_events(1, "a").any(refused), "{algorithm:?}: it is extended");
    }
}

#[test]
fn rule_8_a_heartbeat_that_is_repeated_gets_no_promise() {
    let mut bench = Bench::group(3, Policy::default());
    bench.wait(SECOND);
    let before = latest(&bench, 0, 1, "heartbeat");
    bench.stop(0);
    bench.wait(SECOND);
    bench.forget();
    bench.deliver(bench.members[0].me(), 1, before);
    assert_eq!(bench.sent(1, 0, "promise").len(), 0);
}

/// A request that was given up was heard again, and granted: nobody was in the critical section, and all
/// others waited for a whole lease.
#[test]
fn a_request_that_is_overtaken_by_its_release_lets_nobody_in() {
    let mut bench = Bench::group(3, Policy::default());
    bench.enter(1, "a");
    let before = latest(&bench, 1, 0, "request");
    bench.wait(MILLI * 10);
    bench.exit(1, "a");
    bench.deliver(bench.members[1].me(), 0, before);
    bench.enter(2, "a");
    assert!(bench.holds(2, "a"));
}

/// Answers to a closed admission were counted though what they listed was not heard, because the leader had no
/// leader lease in that moment. It had a majority again a moment later, took its table for whole, and a lock that one
/// of them held was free in the next view.
#[test]
fn rule_29_an_answer_whose_list_is_not_heard_does_not_count() {
    let timing = Timing { leader_lease: MILLI * 600, heartbeat: MILLI * 120, ..Timing::default() };
    for algorithm in among_members() {
        let mut bench = Bench::group(4, Policy { timing, ..policy(algorithm) });
        bench.enter(2, "a");
        until_held(&mut bench, 2, "a", SECOND * 3);
        bench.wait(SECOND);
        // From right after a heartbeat on the leader hears nobody, and all hear it.
        let beats = bench.sent(0, 1, "heartbeat").len();
        while bench.sent(0, 1, "heartbeat").len() == beats {
            bench.wait(MILLI);
        }
        bench.exit(2, "a");
        bench.enter(1, "a");
        let epoch = bench.record().epoch;
        if !bench.holds(1, "a") || bench.is_extended(1, "a") {
            // This one takes longer to admit the next.
            continue;
        }
        for other in 1..4 {
            bench.way(bench.node(other), bench.node(0), Link::Held);
        }
        bench.wait(MILLI * 340);
        let joiner = bench.start();
        while bench.leader().is_some() {
            bench.wait(MILLI);
        }
        for other in 1..4 {
            bench.free(bench.node(other), bench.node(0));
        }
        bench.enter(joiner, "a");
        bench.enter(3, "a");
        for _ in 0..150 {
            bench.wait(MILLI * 100);
            let holders = (0..5).filter(|member| bench.holds(*member, "a")).count();
            assert!(holders <= 1, "{algorithm:?}");
        }
        assert!(bench.record().epoch > epoch, "{algorithm:?}");
    }
}
