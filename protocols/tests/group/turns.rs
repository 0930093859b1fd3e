//! Several applications of one member take a lock in one turn (rule 40 of `docs/views.md`), with the real member.

use std::time::Duration;

use conclave_protocols::member::{LockEvent, Node};
use conclave_protocols::policy::{LockAlgorithm, LockPolicy, Policy};

use crate::bench::{Bench, Link, SECOND};

const MILLI: Duration = Duration::from_millis(1);

fn group(algorithm: LockAlgorithm) -> Bench {
    let locks = vec![LockPolicy { algorithm, ..LockPolicy::default() }];
    let mut bench = Bench::group(4, Policy { locks, ..Policy::default() });
    bench.wait(SECOND * 2);
    bench.forget();
    bench
}

fn enter(bench: &mut Bench, member: usize) {
    bench.enter(member, "a");
    bench.wait(SECOND);
}

fn last(bench: &Bench, member: usize) -> u64 {
    *bench.tokens(member, "a").last().expect("it was in the critical section")
}

fn costs(bench: &Bench, member: usize) -> Vec<u64> {
    let cost = |event: &LockEvent| match event {
        LockEvent::Left { messages, .. } => Some(*messages),
        LockEvent::Entered { .. }
        | LockEvent::Queued(_)
        | LockEvent::Extended { .. }
        | LockEvent::Renewed { .. }
        | LockEvent::Lost(_) => None,
    };
    bench.lock_events(member, "a").filter_map(cost).collect()
}

#[test]
fn what_is_passed_on_has_a_higher_token_each_time_and_costs_no_message() {
    for algorithm in LockAlgorithm::ALL {
        for member in [0, 2] {
            let mut bench = group(algorithm);
            enter(&mut bench, member);
            bench.exit(member, "a");
            let alone = costs(&bench, member);
            enter(&mut bench, member);
            enter(&mut bench, 3);
            let sent = bench.sent.len();
            for _ in 0..5 {
                bench.pass(member, "a", "next");
            }
            assert_eq!(bench.sent.len(), sent, "{algorithm:?}: no other member hears of it");
            assert!(bench.holds(member, "a") && !bench.holds(3, "a"), "{algorithm:?}");
            assert_eq!(bench.tokens(member, "a").len(), 7);
            bench.wait(SECOND * 2);
            assert!(bench.is_extended(member, "a"), "{algorithm:?}");
            bench.exit(member, "a");
            bench.wait(SECOND * 2);
            assert!(bench.holds(3, "a"), "{algorithm:?}");
            let mut tokens = bench.tokens(member, "a");
            tokens.push(last(&bench, 3));
            assert!(tokens.is_sorted_by(|one, next| one < next), "{algorithm:?}: {tokens:?}");
            if algorithm == LockAlgorithm::Central {
                assert_eq!(costs(&bench, member), [alone[0]; 2], "a turn costs what an entry does");
            }
        }
    }
}

#[test]
fn a_lock_that_was_passed_on_comes_free_with_the_lease_above_all_tokens_that_may_have_been_used() {
    for algorithm in [LockAlgorithm::Central, LockAlgorithm::RicartAgrawala] {
        let mut bench = group(algorithm);
        enter(&mut bench, 2);
        bench.pass(2, "a", "next");
        bench.cut_off(2);
        for _ in 0..9 {
            bench.pass(2, "a", "next");
        }
        assert!(bench.holds(2, "a"), "its lease runs");
        bench.stop(2);
        bench.enter(3, "a");
        bench.wait(SECOND * 40);
        assert!(bench.holds(3, "a"), "{algorithm:?}");
        assert!(last(&bench, 3) > last(&bench, 2), "{algorithm:?}");
    }
}

/// Its hold is reported, and the next view begins with that.
#[test]
fn a_member_that_has_sealed_passes_nothing_on() {
    for algorithm in LockAlgorithm::ALL {
        let mut bench = group(algorithm);
        enter(&mut bench, 2);
        let before = last(&bench, 2);
        bench.stop(0);
        for other in [1, 3] {
            bench.way(bench.node(2), bench.node(other), Link::Held);
        }
        while bench.sent(2, 1, "seal").is_empty() && bench.sent(2, 3, "seal").is_empty() {
            bench.wait(MILLI);
        }
        assert!(bench.holds(2, "a"), "{algorithm:?}: its lease runs");
        bench.pass(2, "a", "next");
        assert!(!bench.holds(2, "a"), "{algorithm:?}: {before} was reported");
        for other in [1, 3] {
            bench.free(bench.node(2), bench.node(other));
        }
        bench.wait(SECOND * 40);
        assert!(bench.holds(2, "a") && last(&bench, 2) > before, "{algorithm:?}: it asked anew");
    }
}

#[test]
fn the_leader_knows_for_whom_it_passed_something_on() {
    let mut bench = group(LockAlgorithm::Central);
    enter(&mut bench, 0);
    bench.pass(0, "a", "next");
    enter(&mut bench, 3);
    let owner = |event: &LockEvent| {
        let LockEvent::Queued(Some(holder)) = event else { return None };
        Some((holder.note.owner.clone(), holder.token))
    };
    let holder = bench.lock_events(3, "a").find_map(owner).expect("it was notified");
    let token = holder.1.expect("a token").get();
    assert_eq!((holder.0.as_str(), token), ("next", last(&bench, 0)));
}

#[test]
fn a_member_that_does_not_hold_asks_like_anybody() {
    for algorithm in LockAlgorithm::ALL {
        let mut bench = group(algorithm);
        enter(&mut bench, 3);
        bench.pass(2, "a", "next");
        bench.wait(SECOND);
        assert!(bench.holds(3, "a") && !bench.holds(2, "a"), "{algorithm:?}");
        bench.exit(3, "a");
        bench.wait(SECOND * 2);
        assert!(bench.holds(2, "a"), "{algorithm:?}");
    }
}

/// Nobody can say how many tokens a lost holder used, so each costs what one grant may use, and no more.
#[test]
fn lost_holders_do_not_use_up_the_tokens_while_the_register_is_away() {
    let mut bench = group(LockAlgorithm::Central);
    let epoch = bench.record().epoch;
    for member in 0..4 {
        bench.link(bench.node(member), Node::Register, Link::Cut);
    }
    for round in 0..4 {
        enter(&mut bench, 2);
        bench.cut_off(2);
        bench.enter(3, "a");
        let begun = bench.now;
        while !bench.holds(3, "a") && bench.now - begun < SECOND * 12 {
            bench.wait(MILLI * 100);
        }
        assert!(bench.holds(3, "a"), "round {round}");
        bench.exit(3, "a");
        bench.exit(2, "a");
        for other in [0, 1, 3] {
            bench.free(bench.node(2), bench.node(other));
        }
        bench.wait(MILLI * 500);
    }
    bench.enter(3, "another");
    bench.wait(SECOND);
    assert!(bench.holds(3, "another"));
    assert_eq!((bench.record().epoch, bench.leader()), (epoch, Some(0)));
}

/// One grant may use so many tokens and no more: then the member asks anew, and the tokens go on rising.
#[test]
fn a_turn_that_has_used_up_the_tokens_of_its_grant_asks_anew() {
    let mut bench = group(LockAlgorithm::Central);
    enter(&mut bench, 2);
    bench.forget();
    for _ in 0..5_000 {
        bench.pass(2, "a", "next");
        assert!(bench.holds(2, "a"));
    }
    let tokens = bench.tokens(2, "a");
    assert_eq!(tokens.len(), 5_000);
    assert!(tokens.is_sorted_by(|one, next| one < next));
    assert_eq!(bench.sent(2, 0, "request").len(), 1);
}
