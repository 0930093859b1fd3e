//! The rules of locks in the leader lease protocol, one by one, with the real member. Their numbers are
//! those of `docs/views.md`.

use std::time::Duration;

use conclave_protocols::Epoch;
use conclave_protocols::member::message::PeerMessage;
use conclave_protocols::member::{Command, LockEvent, LostReason, Node};
use conclave_protocols::policy::{LockAlgorithm, LockPolicy, Policy, Timing};
use conclave_protocols::record::{CEILING_STEP, Record};
use conclave_protocols::time::hold;

use crate::bench::{Bench, Link, SECOND};

const MILLI: Duration = Duration::from_millis(1);

fn three() -> Bench {
    Bench::group(3, Policy::default())
}

fn five() -> Bench {
    Bench::group(5, Policy::default())
}

#[test]
fn rule_20_nothing_is_granted_while_a_member_that_did_not_seal_may_hold() {
    let mut bench = five();
    bench.enter(2, "reported");
    bench.enter(4, "unreported");
    bench.stop(0);
    bench.stop(4);
    bench.wait(SECOND * 3);
    assert_eq!(bench.leader(), Some(1));
    let over = bench.now;
    bench.enter(3, "unreported");
    bench.enter(3, "free");
    bench.wait(SECOND * 6);
    assert!(!bench.holds(3, "free") && !bench.holds(3, "unreported"));
    assert!(bench.holds(2, "reported"), "who reported a hold goes on holding");
    bench.wait(SECOND * 4);
    assert!(bench.holds(3, "free") && bench.holds(3, "unreported"));
    assert!(bench.now <= over.after(SECOND * 11));
}

#[test]
fn rule_20_when_all_sealed_nothing_waits() {
    let mut bench = three();
    bench.enter(2, "a");
    bench.stop(0);
    while bench.leader() != Some(1) {
        bench.wait(MILLI * 10);
    }
    bench.enter(1, "b");
    assert!(bench.holds(1, "b") && bench.holds(2, "a"));
}

/// A holder that is in no view any more keeps others out through any number of views.
#[test]
fn rule_20_an_entry_of_an_outsider_is_carried_with_its_rest() {
    let mut bench = five();
    bench.enter(4, "a");
    bench.stop(4);
    let stopped = bench.now;
    bench.wait(SECOND * 2);
    bench.enter(3, "a");
    for (leader, next) in [(0, 1), (1, 2)] {
        bench.command(leader, Command::Leave);
        bench.wait(SECOND);
        assert_eq!(bench.leader(), Some(next));
        assert!(!bench.record().settled);
    }
    bench.wait(SECOND * 5);
    assert!(bench.now < stopped.after(SECOND * 10) && !bench.holds(3, "a"));
    bench.wait(SECOND * 4);
    assert!(bench.holds(3, "a"));
}

/// What a leader that is alone holds itself ends with its leader lease; a lease from before it led does not.
#[test]
fn rule_21_a_view_is_not_settled_while_its_leader_holds_by_an_older_lease() {
    let mut bench = Bench::group(2, Policy::default());
    bench.enter(1, "a");
    bench.stop(0);
    while bench.leader() != Some(1) {
        bench.wait(MILLI * 10);
    }
    bench.wait(SECOND);
    let alone = bench.record();
    assert_eq!(alone.members.len(), 1);
    assert!(bench.deadline(1, "a").is_some() && !alone.settled);
}

#[test]
fn rule_22_a_leaders_hold_that_nobody_heard_of_ends_with_its_leader_lease() {
    let mut bench = three();
    bench.enter(0, "a");
    let until = bench.deadline(0, "a");
    assert_eq!(until, bench.members[0].leader_lease());
    bench.cut_off(0);
    bench.wait(Duration::from_millis(1_450));
    assert!(!bench.holds(0, "a"));
    let lost = LockEvent::Lost(LostReason::LeaseExpired);
    assert!(bench.lock_events(0, "a").any(|event| *event == lost));
}

/// Its application may be at work until the last deadline of which it was notified.
#[test]
fn rule_22_after_resigning_own_holds_are_carried_like_others() {
    let mut bench = three();
    bench.enter(0, "a");
    bench.enter(2, "a");
    bench.command(0, Command::Drain);
    assert_eq!(bench.leader(), Some(1));
    bench.wait(SECOND * 12);
    assert!(bench.holds(0, "a") && !bench.holds(2, "a"));
    bench.exit(0, "a");
    assert!(bench.holds(2, "a"));
}

#[test]
fn rule_23_nothing_is_granted_without_a_leader_lease() {
    let mut bench = three();
    bench.cut_off(0);
    bench.wait(SECOND * 2);
    bench.enter(0, "a");
    assert!(!bench.holds(0, "a"));
}

#[test]
fn rule_23_a_token_begins_with_the_view_and_rises() {
    let mut bench = three();
    let mut last = bench.record().epoch.0 << 20;
    for _ in 0..2 {
        for member in [1, 2, 0] {
            bench.enter(member, "a");
            bench.exit(member, "a");
            let token = *bench.tokens(member, "a").last().expect("it was given one");
            assert!(token > last);
            last = token;
        }
        let leader = bench.leader().expect("one leads");
        bench.command(leader, Command::Drain);
        bench.wait(SECOND * 3);
        assert_eq!(last >> 20, bench.tokens(1, "a").last().expect("several") >> 20);
        assert!(bench.record().epoch.0 << 20 > last);
    }
}

/// A lock that nobody uses is forgotten. Neither its tokens nor its requests' numbers come again.
#[test]
fn rule_23_a_forgotten_lock_goes_on_counting() {
    let mut bench = three();
    for _ in 0..3 {
        bench.enter(1, "a");
        bench.exit(1, "a");
    }
    let tokens = bench.tokens(1, "a");
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
}

#[test]
fn rule_24_a_hold_that_a_view_does_not_know_runs_out_in_it() {
    let mut bench = five();
    bench.enter(4, "a");
    bench.wait(SECOND);
    bench.cut_off(4);
    bench.stop(0);
    bench.wait(SECOND * 3);
    assert_eq!(bench.leader(), Some(1));
    let notified = bench.deadline(4, "a").expect("it was told so before it was cut off");
    for other in 1..4 {
        bench.free(bench.node(4), bench.node(other));
    }
    bench.wait(SECOND * 2);
    assert_eq!(bench.record().members.len(), 4, "it is back");
    bench.enter(3, "a");
    while !bench.holds(3, "a") {
        assert!(bench.deadline(4, "a").is_none_or(|until| until == notified));
        bench.wait(MILLI * 100);
    }
    assert!(bench.now > notified);
}

#[test]
fn rule_25_a_dead_holder_is_waited_out_without_a_new_view() {
    let mut bench = five();
    let epoch = bench.record().epoch;
    bench.enter(4, "a");
    bench.enter(3, "a");
    bench.stop(4);
    bench.wait(MILLI * 9_700);
    assert!(!bench.holds(3, "a"));
    bench.wait(MILLI * 600);
    assert!(bench.holds(3, "a"));
    assert_eq!(bench.record().epoch, epoch);
}

#[test]
fn waiters_keep_their_places_when_the_leader_changes() {
    let mut bench = five();
    for member in [3, 1, 4, 2] {
        bench.enter(member, "a");
        bench.wait(MILLI * 10);
    }
    bench.link(bench.node(1), bench.node(3), Link::Held);
    bench.command(0, Command::Drain);
    bench.wait(MILLI * 100);
    bench.free(bench.node(1), bench.node(3));
    for member in [3, 1, 4, 2] {
        bench.wait(SECOND);
        assert!(bench.holds(member, "a"), "{member} is next");
        assert_eq!(bench.tokens(member, "a").len(), 1);
        bench.exit(member, "a");
    }
}

#[test]
fn waiters_keep_their_places_when_the_leader_dies() {
    let mut bench = five();
    for member in [3, 1, 4, 2] {
        bench.enter(member, "a");
        bench.wait(MILLI * 10);
    }
    bench.stop(0);
    bench.wait(SECOND * 5);
    for member in [3, 1, 4, 2] {
        assert!(bench.holds(member, "a"), "{member} is next");
        bench.exit(member, "a");
    }
}

/// The grant is known to the leader and was lost on its way: the member lists the lock as one that
/// it waits for, in answer to a later heartbeat.
#[test]
fn a_grant_that_was_lost_is_sent_again_with_the_same_token() {
    let mut bench = three();
    bench.enter(0, "a");
    bench.enter(1, "a");
    bench.link(bench.node(0), bench.node(1), Link::Cut);
    bench.exit(0, "a");
    bench.free(bench.node(0), bench.node(1));
    assert!(!bench.holds(1, "a"));
    bench.wait(SECOND);
    assert!(bench.holds(1, "a"));
    assert_eq!(bench.sent(0, 1, "grant").len(), 2);
    let first = bench.tokens(0, "a")[0];
    assert_eq!(bench.tokens(1, "a"), [first + 1]);
}

#[test]
fn a_release_that_was_lost_is_understood_from_the_next_request() {
    let mut bench = three();
    bench.enter(1, "a");
    bench.link(bench.node(1), bench.node(0), Link::Cut);
    bench.exit(1, "a");
    bench.free(bench.node(1), bench.node(0));
    bench.enter(1, "a");
    assert!(bench.holds(1, "a"));
}

#[test]
fn a_lock_stays_closed_after_a_holder_was_lost_if_the_policy_says_so() {
    let careful =
        LockPolicy { names: vec!["a".to_owned()], lock_delay: SECOND * 5, ..LockPolicy::default() };
    let policy = Policy { locks: vec![LockPolicy::default(), careful], ..Policy::default() };
    let mut bench = Bench::group(5, policy);
    for lock in ["a", "b"] {
        bench.enter(4, lock);
        bench.enter(3, lock);
    }
    bench.stop(4);
    bench.wait(SECOND * 11);
    assert!(bench.holds(3, "b") && !bench.holds(3, "a"));
    bench.wait(SECOND * 5);
    assert!(bench.holds(3, "a"));
    bench.exit(3, "a");
    bench.enter(2, "a");
    assert!(bench.holds(2, "a"), "after a release it opens at once");
}

/// A lease was given for the longer wait. Were the shorter one in force at once, a member that waits it
/// out would enter beside a holder that was cut off.
#[test]
fn a_shorter_member_lease_comes_into_force_after_the_longer_leases() {
    let mut bench = five();
    bench.enter(4, "a");
    bench.wait(SECOND);
    let notified = bench.deadline(4, "a").expect("it holds");
    let timing = Timing { member_lease: SECOND * 4, ..Timing::default() };
    bench.policy = Policy { generation: 2, timing, ..Policy::default() };
    for member in 0..5 {
        bench.command(member, Command::Policy(Box::new(bench.policy.clone())));
    }
    bench.stop(4);
    bench.wait(SECOND);
    assert_eq!(bench.record().policy, bench.policy);
    assert_eq!(bench.record().timing.member_lease, SECOND * 10);
    bench.stop(0);
    bench.enter(3, "a");
    while !bench.holds(3, "a") {
        bench.wait(MILLI * 100);
    }
    assert!(bench.now > notified);
    bench.wait(SECOND * 15);
    assert_eq!(bench.record().timing.member_lease, SECOND * 4, "and after a while it is in force");
    assert!(bench.deadline(3, "a") <= Some(bench.now.after(hold(SECOND * 4))));
}

/// Tokens that near their ceiling have it raised, without a new view.
#[test]
fn the_ceiling_is_raised_before_it_is_reached() {
    let mut bench = three();
    let low = Record { ceiling: bench.record().epoch, nonce: 3, ..bench.record().clone() };
    bench.register.put(Some(low));
    bench.command(0, Command::Drain);
    bench.wait(SECOND);
    let record = bench.record().clone();
    assert!(record.ceiling > record.epoch);
    assert_eq!(record.ceiling, Epoch(record.epoch.0 + CEILING_STEP));
}

#[test]
fn a_message_of_another_view_says_nothing() {
    let mut bench = three();
    bench.enter(0, "a");
    bench.link(bench.node(1), bench.node(0), Link::Held);
    bench.enter(1, "b");
    let old = bench.record().epoch;
    bench.command(0, Command::Drain);
    bench.free(bench.node(1), bench.node(0));
    bench.wait(SECOND);
    assert!(bench.record().epoch > old && bench.holds(1, "b"));
    let requests = bench.sent(1, 0, "request");
    assert!(matches!(requests[..], [PeerMessage::Service(message)] if message.epoch == old));
}

/// The leader asks itself, and hears from itself that it must wait, and who holds.
#[test]
fn a_leader_that_must_wait_learns_the_holder() {
    let mut bench = three();
    let leader = bench.leader().expect("somebody leads");
    bench.enter(1, "a");
    bench.enter(leader, "a");
    let mut notified = bench.lock_events(leader, "a");
    let holder = notified.find_map(|event| match event {
        LockEvent::Queued(note) => note.as_ref().map(|note| note.member),
        LockEvent::Entered { .. }
        | LockEvent::Extended { .. }
        | LockEvent::Left { .. }
        | LockEvent::Renewed { .. }
        | LockEvent::Lost(_) => None,
    });
    assert_eq!(holder.map(Node::Member), Some(bench.node(1)));
}

/// A member had used tokens of a lock that members grant among themselves, and forgotten it. The floor that this
/// left took its next grant of the leader, whose request was lost, above what the leader had numbered; it died, and
/// the leader gave that
/// token, or one below it, to the next.
#[test]
fn rule_23_a_leader_knows_the_token_of_each_grant_whatever_floor_its_holder_had() {
    let among = LockPolicy {
        names: vec!["x".to_owned()],
        algorithm: LockAlgorithm::RicartAgrawala,
        ..LockPolicy::default()
    };
    let locks = vec![among, LockPolicy::default()];
    let mut bench = Bench::group(3, Policy { locks, ..Policy::default() });
    bench.wait(SECOND * 2);
    for _ in 0..10 {
        bench.enter(1, "x");
        assert!(bench.holds(1, "x"), "and no promise lists it");
        bench.exit(1, "x");
    }
    // Its request is lost, which would have reported it; its promise lists that it waits.
    let (from, to) = (bench.node(1), bench.node(0));
    bench.way(from, to, Link::Cut);
    bench.enter(1, "c");
    bench.free(from, to);
    while !bench.holds(1, "c") {
        bench.wait(SECOND / 100);
    }
    bench.stop(1);
    bench.enter(2, "c");
    bench.wait(SECOND * 15);
    let (before, next) = (bench.tokens(1, "c"), bench.tokens(2, "c"));
    assert!(before.len() == 1 && next.len() == 1 && before < next, "{before:?} {next:?}");
}
