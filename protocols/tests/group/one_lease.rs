//! One lease of a member for all its locks, one admission for all messages of locks, and what becomes of a
//! table when members leave, with the real member.

use std::time::Duration;

use conclave_protocols::member::{Command, LockEvent, Node};
use conclave_protocols::policy::{Caching, LockAlgorithm, LockPolicy, Policy};

use crate::bench::{Bench, Link, SECOND};

const MILLI: Duration = Duration::from_millis(1);

fn lost(event: &LockEvent) -> bool {
    matches!(event, LockEvent::Lost(_))
}

/// It was frozen while the lock was granted to it, and the entry of that grant is over: another is in
/// the critical section.
#[test]
fn rule_27_a_grant_that_waited_while_the_lease_of_its_member_was_over_lets_nobody_in() {
    let mut bench = Bench::group(3, Policy::default());
    bench.enter(1, "a");
    bench.enter(2, "a");
    bench.wait(SECOND);
    bench.stop(2);
    bench.exit(1, "a");
    assert_eq!(bench.sent(0, 2, "grant").len(), 1);
    bench.enter(1, "a");
    bench.wait(MILLI * 10_500);
    assert!(bench.holds(1, "a"), "the entry of the silent member is over");
    let asked = bench.sent(2, 0, "request").len();
    bench.go_on(2);
    for _ in 0..30 {
        bench.wait(MILLI * 50);
        assert!(bench.holds(1, "a") && !bench.holds(2, "a"));
    }
    assert!(bench.sent(2, 0, "request").len() > asked, "it asks anew");
    bench.exit(1, "a");
    assert!(bench.holds(2, "a"));
    assert!(bench.tokens(2, "a").last() > bench.tokens(1, "a").last());
}

/// Its release was lost, and it waits for nothing any more. The register is silent, so the view stays.
#[test]
fn a_leave_that_does_not_name_a_hold_frees_the_lock_at_once() {
    let mut bench = Bench::group(3, Policy::default());
    for member in [2, 1] {
        bench.enter(member, "given back");
        bench.enter(member, "held");
    }
    bench.link(bench.node(0), Node::Register, Link::Held);
    bench.way(bench.node(2), bench.node(0), Link::Cut);
    bench.exit(2, "given back");
    bench.free(bench.node(2), bench.node(0));
    assert!(!bench.holds(1, "given back"));
    let epoch = bench.record().epoch;
    bench.command(2, Command::Leave);
    bench.wait(bench.policy.timing.heartbeat);
    assert!(bench.holds(1, "given back"));
    assert!(!bench.holds(1, "held"), "its application may be at work");
    assert_eq!(bench.record().epoch, epoch);
}

/// The lock went to a member that was gone, and the next waited for a member lease.
#[test]
fn a_waiter_that_leaves_never_enters() {
    let mut bench = Bench::group(4, Policy::default());
    for member in [3, 2, 1] {
        bench.enter(member, "a");
    }
    bench.link(bench.node(0), Node::Register, Link::Held);
    bench.command(2, Command::Leave);
    bench.exit(3, "a");
    bench.wait(bench.policy.timing.heartbeat);
    assert!(bench.holds(1, "a"));
}

/// It lost the lock by its own clock, which is earlier than the leader knows. A caller that takes so much care
/// counts on the pause, though the member that lost it goes.
#[test]
fn a_lock_stays_closed_after_a_loss_though_its_holder_leaves() {
    let careful = LockPolicy { lock_delay: SECOND * 5, ..LockPolicy::default() };
    let mut bench = Bench::group(5, Policy { locks: vec![careful], ..Policy::default() });
    bench.enter(4, "a");
    bench.enter(3, "a");
    bench.wait(SECOND);
    bench.way(bench.node(4), bench.node(0), Link::Cut);
    while bench.holds(4, "a") {
        bench.wait(MILLI * 10);
    }
    let over = bench.now;
    assert!(bench.lock_events(4, "a").any(lost));
    bench.free(bench.node(4), bench.node(0));
    bench.command(4, Command::Leave);
    while !bench.holds(3, "a") {
        bench.wait(MILLI * 50);
        assert!(bench.now < over.after(SECOND * 17));
    }
    assert!(bench.now >= over.after(SECOND * 5), "{:?}", bench.now - over);
}

/// Three of five leave while the register is silent, so the leader loses its leader lease. Nobody else
/// can end its view for long, and it knows who holds.
#[test]
fn a_leader_that_members_left_goes_on_with_its_own_table() {
    let mut bench = Bench::group(5, Policy::default());
    bench.enter(1, "a");
    bench.enter(0, "a");
    bench.enter(0, "own");
    bench.enter(1, "own");
    bench.wait(SECOND);
    bench.link(bench.node(0), Node::Register, Link::Held);
    let left = bench.now;
    for member in [2, 3, 4] {
        bench.command(member, Command::Leave);
    }
    bench.wait(SECOND * 2);
    assert_eq!(bench.leader(), None);
    bench.free(bench.node(0), Node::Register);
    while bench.leader().is_none() {
        assert!(bench.holds(1, "a") && !bench.holds(0, "a") && !bench.holds(1, "own"));
        bench.wait(MILLI * 10);
    }
    assert_eq!((bench.leader(), bench.record().members.len()), (Some(0), 2));
    assert!(bench.now < left.after(SECOND * 4));
    bench.wait(bench.policy.timing.heartbeat * 2);
    assert!(bench.holds(1, "a") && !bench.lock_events(1, "a").any(lost));
    bench.enter(1, "free");
    assert!(bench.holds(1, "free"), "nothing is waited for");
    bench.exit(1, "a");
    assert!(bench.holds(0, "a"));
    if bench.holds(0, "own") {
        bench.exit(0, "own");
    }
    bench.wait(SECOND);
    assert!(bench.holds(1, "own"));
    assert!(bench.now < left.after(SECOND * 6));
}

/// It asked once, was not answered, and forgot the table: a minute passed, and the hold was over.
#[test]
fn a_leader_that_members_left_keeps_its_table_until_the_register_answers() {
    let mut bench = Bench::group(5, Policy::default());
    bench.enter(1, "a");
    bench.enter(0, "a");
    bench.wait(SECOND);
    bench.link(bench.node(0), Node::Register, Link::Held);
    for member in [2, 3, 4] {
        bench.command(member, Command::Leave);
    }
    bench.wait(SECOND * 7);
    bench.free(bench.node(0), Node::Register);
    bench.wait(SECOND);
    assert_eq!((bench.leader(), bench.record().members.len()), (Some(0), 2));
    assert!(bench.holds(1, "a"));
    bench.exit(1, "a");
    assert!(bench.holds(0, "a"));
}

/// Its successor never heard of the table. Between the hand-over and the end an application gave back.
#[test]
fn rule_13_a_closed_record_does_not_name_what_its_writer_gave_back_since() {
    let mut bench = Bench::group(2, Policy::default());
    bench.enter(0, "given back");
    bench.enter(0, "held");
    bench.wait(SECOND);
    bench.link(bench.node(0), bench.node(1), Link::Cut);
    bench.command(0, Command::Drain);
    assert_eq!(bench.sent(0, 1, "hand_over").len(), 1);
    bench.stop(1);
    bench.exit(0, "given back");
    bench.command(0, Command::Leave);
    bench.wait(SECOND);
    assert_eq!(bench.record().leader, None);
    let named = bench.record().held.iter().flatten().map(|held| held.name.as_str());
    assert_eq!(named.collect::<Vec<_>>(), ["held"]);
    let next = bench.start();
    bench.enter(next, "given back");
    bench.enter(next, "held");
    assert!(bench.holds(next, "given back") && !bench.holds(next, "held"));
}

/// The successor has the table, and waits for the register. What the leader's application gave back
/// meanwhile is free, and what it holds is not.
#[test]
fn a_drained_leader_that_leaves_tells_its_successor_what_it_still_holds() {
    let mut bench = Bench::group(3, Policy::default());
    bench.enter(0, "given back");
    bench.enter(0, "held");
    bench.wait(SECOND);
    bench.link(bench.node(1), Node::Register, Link::Held);
    bench.command(0, Command::Drain);
    assert_eq!(bench.members[1].inherits(), Some(bench.record().epoch));
    bench.exit(0, "given back");
    bench.command(0, Command::Leave);
    bench.free(bench.node(1), Node::Register);
    bench.wait(SECOND);
    assert_eq!(bench.leader(), Some(1));
    bench.enter(2, "given back");
    bench.enter(2, "held");
    assert!(bench.holds(2, "given back") && !bench.holds(2, "held"));
}

/// All locks are kept; one of another name has no coordinator, so that the leader freezes.
fn kept(members: usize) -> Bench {
    let kept = LockPolicy { caching: Caching::Enabled, ..LockPolicy::default() };
    let peers = LockPolicy {
        names: vec!["peers".to_owned()],
        algorithm: LockAlgorithm::RicartAgrawala,
        ..LockPolicy::default()
    };
    let policy = Policy { locks: vec![kept, peers], ..Policy::default() };
    let mut bench = Bench::group(members, policy);
    bench.wait(SECOND * 2);
    bench.forget();
    bench.enter(2, "a");
    assert!(bench.holds(2, "a"));
    bench.exit(2, "a");
    bench
}

/// The leader closes admission for a moment, because somebody is silent, and opens it again.
fn freeze(bench: &mut Bench) {
    bench.way(bench.node(1), bench.node(0), Link::Held);
    bench.policy.generation += 1;
    let changed = Command::Policy(Box::new(bench.policy.clone()));
    bench.command(0, changed);
    bench.wait(bench.policy.timing.heartbeat);
}

fn entries(bench: &Bench, member: usize) -> usize {
    let entered = |event: &&LockEvent| matches!(event, LockEvent::Entered { .. });
    bench.lock_events(member, "a").filter(entered).count()
}

/// Admission is closed when its application wants to enter again, and the leader dies. It was taken
/// for the holder, and its application waited for ever.
#[test]
fn rule_32_an_application_that_waits_for_admission_with_a_kept_grant_enters_in_the_next_view() {
    let mut bench = kept(3);
    bench.link(bench.node(0), bench.node(1), Link::Cut);
    bench.way(bench.node(2), bench.node(0), Link::Cut);
    bench.wait(SECOND * 2);
    bench.enter(2, "a");
    assert_eq!(entries(&bench, 2), 1, "admission is closed");
    bench.stop(0);
    bench.wait(SECOND * 8);
    assert!(bench.leader().is_some_and(|leader| leader != 0));
    assert_eq!(entries(&bench, 2), 2);
    assert!(bench.tokens(2, "a")[0] < bench.tokens(2, "a")[1]);
    bench.exit(2, "a");
    bench.enter(1, "a");
    assert!(bench.holds(1, "a"));
}

/// The same, but the leader lives and freezes before it changes the view.
#[test]
fn rule_32_an_application_that_waits_out_a_freeze_with_a_kept_grant_enters_in_the_next_view() {
    let mut bench = kept(3);
    let epoch = bench.record().epoch;
    freeze(&mut bench);
    bench.enter(2, "a");
    assert_eq!(entries(&bench, 2), 1, "admission is closed");
    bench.free(bench.node(1), bench.node(0));
    bench.wait(SECOND * 2);
    assert!(bench.record().epoch > epoch);
    assert_eq!(entries(&bench, 2), 2);
    assert!(bench.tokens(2, "a")[0] < bench.tokens(2, "a")[1]);
}

/// The grant goes back because it was not used for long, just when the application wants to enter, and
/// both wait for admission. The next entry took the old grant for its own.
#[test]
fn rule_32_a_grant_that_went_back_when_admission_opened_lets_nobody_in() {
    let mut bench = kept(3);
    bench.wait(MILLI * 4_600);
    freeze(&mut bench);
    bench.wait(MILLI * 200);
    bench.enter(2, "a");
    bench.enter(0, "a");
    assert_eq!((entries(&bench, 2), entries(&bench, 0)), (1, 0), "admission is closed");
    bench.wait(MILLI * 900);
    assert_eq!((entries(&bench, 2), entries(&bench, 0)), (1, 1));
    bench.exit(0, "a");
    assert_eq!((entries(&bench, 2), entries(&bench, 0)), (2, 1));
    assert!(bench.tokens(2, "a").last() > bench.tokens(0, "a").last());
    assert!(!bench.lock_events(2, "a").any(|event| matches!(event, LockEvent::Lost(_))));
}

/// The lease of the grant ends while its application waits for admission: nobody was in the critical section.
#[test]
fn rule_32_an_application_that_waits_for_admission_with_a_kept_grant_loses_nothing() {
    let mut bench = kept(3);
    bench.way(bench.node(2), bench.node(0), Link::Cut);
    let mut until = bench.now;
    for _ in 0..2 {
        bench.wait(MILLI * 3_500);
        bench.enter(2, "a");
        until = bench.deadline(2, "a").expect("it enters on what it kept");
        bench.exit(2, "a");
    }
    bench.link(bench.node(0), bench.node(1), Link::Cut);
    bench.wait(bench.now.until(until).saturating_sub(MILLI * 100));
    let before = entries(&bench, 2);
    bench.enter(2, "a");
    bench.wait(MILLI * 500);
    assert_eq!(entries(&bench, 2), before, "admission is closed");
    assert!(!bench.lock_events(2, "a").any(lost));
    bench.wait(SECOND * 90);
    assert_eq!(entries(&bench, 2), before + 1);
}
