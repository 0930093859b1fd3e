//! Locks that a member may enter again without a message (rule 32 of `docs/views.md`), with the real
//! member.

use std::time::Duration;

use conclave_protocols::member::{Command, LockEvent};
use conclave_protocols::policy::{Caching, LockAlgorithm, LockPolicy, Policy};
use conclave_protocols::protocol::Named;

use crate::bench::{Bench, Link, SECOND};

const MILLI: Duration = Duration::from_millis(1);

/// The algorithms by which somebody may enter again without a message, and which name nobody as the
/// holder of a token.
const CACHED: [LockAlgorithm; 3] =
    [LockAlgorithm::Central, LockAlgorithm::RicartAgrawala, LockAlgorithm::Superpeers];

fn group(algorithm: LockAlgorithm, caching: Caching) -> Bench {
    let locks = vec![LockPolicy { algorithm, caching, ..LockPolicy::default() }];
    let mut bench = Bench::group(4, Policy { locks, ..Policy::default() });
    bench.wait(SECOND * 2);
    bench.forget();
    bench
}

fn cached(algorithm: LockAlgorithm) -> Bench {
    group(algorithm, Caching::Enabled)
}

/// How many messages of locks were sent so far.
fn messages(bench: &Bench) -> usize {
    let of_locks = ["request", "grant", "release", "queued", "wanted", "in_use", "reply"];
    bench.sent.iter().filter(|(.., message)| of_locks.contains(&message.name())).count()
}

/// What each entry of a member cost.
fn costs(bench: &Bench, member: usize) -> Vec<u64> {
    let cost = |event: &LockEvent| match event {
        LockEvent::Entered { messages, .. } => Some(*messages),
        LockEvent::Queued(_)
        | LockEvent::Extended { .. }
        | LockEvent::Left { .. }
        | LockEvent::Renewed { .. }
        | LockEvent::Lost(_) => None,
    };
    bench.lock_events(member, "a").filter_map(cost).collect()
}

/// A member enters and leaves, so often.
fn sections(bench: &mut Bench, member: usize, times: usize) {
    for _ in 0..times {
        bench.enter(member, "a");
        assert!(bench.holds(member, "a"));
        bench.exit(member, "a");
    }
}

fn assert_rising(bench: &Bench, tokens: &[u64]) {
    assert!(
        tokens.is_sorted_by(|one, next| one < next),
        "{tokens:?} of {:?}",
        bench.record().epoch
    );
}

#[test]
fn a_member_that_was_in_section_last_enters_again_without_a_message_and_with_a_higher_token() {
    for algorithm in CACHED {
        let mut bench = cached(algorithm);
        sections(&mut bench, 2, 1);
        let first = messages(&bench);
        sections(&mut bench, 2, 5);
        assert_eq!(messages(&bench), first, "{algorithm:?}");
        assert_eq!(costs(&bench, 2)[1..], [0; 5]);
        assert_rising(&bench, &bench.tokens(2, "a"));
    }
}

#[test]
fn without_caching_each_entry_asks() {
    for algorithm in CACHED {
        let mut bench = group(algorithm, Caching::Disabled);
        sections(&mut bench, 2, 2);
        let costs = costs(&bench, 2);
        assert_eq!((costs[0] > 0, costs[0]), (true, costs[1]));
    }
}

/// The token of a stamp would go back: a member that asks only now has a lower one than one that has entered
/// again and again by itself.
#[test]
fn a_member_that_asks_after_others_entered_again_gets_a_higher_token_than_all_of_theirs() {
    for algorithm in CACHED {
        let mut bench = cached(algorithm);
        let mut tokens = Vec::new();
        for (member, times) in [(2, 5), (3, 1), (1, 4), (2, 1), (0, 3), (3, 2)] {
            let before = bench.tokens(member, "a").len();
            sections(&mut bench, member, times);
            tokens.extend_from_slice(&bench.tokens(member, "a")[before..]);
        }
        assert_eq!(tokens.len(), 16);
        assert_rising(&bench, &tokens);
    }
}

#[test]
fn what_is_kept_goes_at_once_to_a_member_that_asks_and_what_is_used_when_it_is_left() {
    for algorithm in CACHED {
        let mut bench = cached(algorithm);
        sections(&mut bench, 2, 2);
        bench.enter(3, "a");
        assert!(bench.holds(3, "a"), "nobody was in the critical section");
        bench.exit(3, "a");
        bench.enter(3, "a");
        bench.enter(2, "a");
        assert!(bench.holds(3, "a") && !bench.holds(2, "a"));
        bench.wait(MILLI * 600);
        let contended = |event: &LockEvent| matches!(event, LockEvent::Extended { contended, .. } if *contended);
        assert!(bench.lock_events(3, "a").any(contended), "it is told");
        bench.exit(3, "a");
        assert!(bench.holds(2, "a"), "it did not keep what another wants");
    }
}

#[test]
fn with_a_coordinator_the_holder_is_notified_at_once_that_another_waits() {
    let mut bench = cached(LockAlgorithm::Central);
    bench.enter(2, "a");
    bench.enter(3, "a");
    let contended =
        |event: &LockEvent| matches!(event, LockEvent::Extended { contended, .. } if *contended);
    assert!(bench.lock_events(2, "a").any(contended), "no heartbeat has passed");
}

/// A try is refused as soon as its member knows that it would have to wait.
#[test]
fn nobody_waits_for_what_is_only_kept() {
    for algorithm in CACHED {
        let mut bench = cached(algorithm);
        sections(&mut bench, 2, 1);
        for member in [3, 0, 1] {
            bench.enter(member, "a");
            let notified: Vec<_> = bench.lock_events(member, "a").collect();
            assert!(
                matches!(notified[..], [LockEvent::Entered { .. }]),
                "{algorithm:?}: {notified:?}"
            );
            bench.exit(member, "a");
        }
        bench.enter(1, "a");
        bench.enter(3, "a");
        let last = bench.lock_events(3, "a").last();
        assert!(matches!(last, Some(LockEvent::Queued(Some(_)))), "{algorithm:?}: {last:?}");
    }
}

/// The leader extends the grant, not the entry.
#[test]
fn a_member_that_enters_again_all_the_time_goes_on_as_long_as_it_likes() {
    for algorithm in CACHED {
        let mut bench = cached(algorithm);
        for _ in 0..200 {
            bench.enter(2, "a");
            let until = bench.deadline(2, "a").expect("it enters");
            assert!(until > bench.now.after(SECOND * 8), "{algorithm:?}");
            bench.wait(MILLI * 60);
            bench.exit(2, "a");
            bench.wait(MILLI * 60);
        }
        assert!(costs(&bench, 2)[1..].iter().all(|cost| *cost == 0));
        let lost = |event: &LockEvent| matches!(event, LockEvent::Lost(_));
        assert!(!bench.lock_events(2, "a").any(lost));
    }
}

#[test]
fn a_lost_message_about_what_is_kept_costs_heartbeats() {
    for lost in ["wanted", "in_use"] {
        let mut bench = cached(LockAlgorithm::Central);
        bench.enter(2, "a");
        bench.lost = Some(lost);
        bench.enter(3, "a");
        assert_eq!(bench.lock_events(3, "a").count(), 0, "{lost}");
        bench.lost = None;
        bench.wait(MILLI * 600);
        let notified = bench.lock_events(3, "a").last();
        assert!(matches!(notified, Some(LockEvent::Queued(Some(_)))), "{lost}: {notified:?}");
        bench.exit(2, "a");
        assert!(bench.holds(3, "a"), "it keeps nothing that is wanted");
    }
    let mut bench = cached(LockAlgorithm::Central);
    sections(&mut bench, 2, 1);
    bench.lost = Some("wanted");
    bench.enter(3, "a");
    bench.wait(MILLI * 600);
    assert!(bench.holds(3, "a"), "the acknowledgment of a promise says it too");
}

#[test]
fn what_is_not_used_for_long_is_not_kept() {
    for algorithm in CACHED {
        let mut bench = cached(algorithm);
        sections(&mut bench, 2, 1);
        bench.wait(Duration::from_millis(4_900));
        sections(&mut bench, 2, 1);
        bench.wait(Duration::from_millis(4_900));
        sections(&mut bench, 2, 1);
        bench.wait(Duration::from_millis(5_100));
        sections(&mut bench, 2, 1);
        let costs = costs(&bench, 2);
        assert_eq!((costs[1], costs[2]), (0, 0));
        assert_eq!((costs[3], costs[0] > 0), (costs[0], true));
    }
}

#[test]
fn what_is_kept_counts_for_no_hold() {
    let mut bench = cached(LockAlgorithm::Central);
    sections(&mut bench, 2, 1);
    assert_eq!(bench.members[2].hold_counts(), (0, 0));
    bench.enter(2, "a");
    assert_eq!(bench.members[2].hold_counts(), (1, 0));
}

#[test]
fn rule_32_a_seal_does_not_list_what_is_kept() {
    let mut bench = cached(LockAlgorithm::Central);
    sections(&mut bench, 2, 3);
    bench.stop(0);
    while bench.leader().is_none_or(|leader| leader == 0) {
        bench.wait(MILLI * 10);
    }
    bench.enter(3, "a");
    assert!(bench.holds(3, "a"), "all have sealed, and nobody was in the critical section");
    assert!(bench.tokens(3, "a") > bench.tokens(2, "a"));
    bench.enter(2, "a");
    assert!(!bench.holds(2, "a"));
}

#[test]
fn rule_32_if_its_keeper_is_silent_the_lock_comes_free_with_its_lease_above_all_it_may_have_used() {
    let mut bench = cached(LockAlgorithm::Central);
    sections(&mut bench, 2, 1);
    bench.wait(MILLI * 300);
    sections(&mut bench, 2, 7);
    bench.cut_off(2);
    sections(&mut bench, 2, 9);
    bench.stop(2);
    bench.enter(3, "a");
    bench.wait(SECOND * 4);
    assert!(!bench.holds(3, "a"));
    bench.wait(SECOND * 7);
    assert!(bench.holds(3, "a"));
    assert!(
        bench.tokens(3, "a")[0]
            > *bench.tokens(2, "a").last().expect("it was in the critical section")
    );
}

#[test]
fn rule_32_nobody_enters_again_when_the_lease_is_over() {
    let mut bench = cached(LockAlgorithm::Central);
    sections(&mut bench, 2, 1);
    bench.way(bench.node(2), bench.node(0), Link::Cut);
    for _ in 0..4 {
        sections(&mut bench, 2, 1);
        bench.wait(SECOND * 2);
    }
    bench.wait(SECOND * 2);
    bench.enter(2, "a");
    assert!(!bench.holds(2, "a"));
    let lost = |event: &LockEvent| matches!(event, LockEvent::Lost(_));
    assert!(!bench.lock_events(2, "a").any(lost), "no application held it");
}

/// A request that is put into the queue because a promise lists it states nothing about tokens.
#[test]
fn rule_32_tokens_that_nobody_reported_do_not_come_again() {
    let mut bench = cached(LockAlgorithm::Central);
    sections(&mut bench, 2, 1);
    bench.wait(MILLI * 300);
    sections(&mut bench, 2, 7);
    // Its release and its next request are lost, and what its promise lists is not.
    bench.lost = Some("release");
    bench.wait(SECOND * 6);
    bench.lost = Some("request");
    bench.enter(2, "a");
    bench.lost = None;
    bench.wait(SECOND);
    assert!(bench.holds(2, "a"));
    assert_rising(&bench, &bench.tokens(2, "a"));
}

#[test]
fn rule_32_a_member_that_has_entered_again_goes_on_in_the_next_view() {
    for algorithm in CACHED {
        let mut bench = cached(algorithm);
        sections(&mut bench, 2, 3);
        bench.enter(2, "a");
        bench.enter(3, "a");
        bench.command(0, Command::Leave);
        bench.wait(SECOND * 20);
        assert_eq!(bench.leader(), Some(1));
        assert!(bench.holds(2, "a"), "{algorithm:?}");
        assert_eq!(bench.tokens(2, "a").len(), 4, "it did not enter anew");
        bench.exit(2, "a");
        assert!(bench.holds(3, "a"));
        assert!(bench.tokens(3, "a")[0] > bench.tokens(2, "a")[3]);
    }
}

#[test]
fn rule_32_what_is_kept_ends_with_the_view() {
    for algorithm in CACHED {
        let mut bench = cached(algorithm);
        sections(&mut bench, 2, 3);
        bench.command(0, Command::Leave);
        bench.wait(SECOND * 2);
        sections(&mut bench, 3, 1);
        sections(&mut bench, 2, 1);
        assert!(costs(&bench, 2).last() > Some(&0));
        assert!(bench.tokens(2, "a")[3] > bench.tokens(3, "a")[0]);
    }
}

#[test]
fn a_member_that_is_about_to_end_keeps_nothing() {
    for end in [Command::Drain, Command::Leave] {
        let mut bench = cached(LockAlgorithm::Central);
        sections(&mut bench, 2, 3);
        let drains = matches!(end, Command::Drain);
        bench.command(2, end);
        assert_eq!(bench.sent(2, 0, "release").len(), 1);
        if drains {
            sections(&mut bench, 2, 1);
            assert_eq!(bench.sent(2, 0, "release").len(), 2);
        }
        bench.enter(3, "a");
        assert!(bench.holds(3, "a"));
    }
}
