//! The record of a group whose members have all left, on the bench.

use std::time::Duration;

use conclave_protocols::Epoch;
use conclave_protocols::member::message::PeerMessage;
use conclave_protocols::member::{Command, Node};
use conclave_protocols::policy::Policy;
use conclave_protocols::record::Record;

use crate::bench::{Bench, Link, SECOND, info};

const MILLI: Duration = Duration::from_millis(1);

fn named(record: &Record) -> Option<Vec<&str>> {
    let held = record.held.as_ref()?;
    Some(held.iter().map(|held| held.name.as_str()).collect())
}

/// Every lock had to wait for a whole member lease if a single one was held.
#[test]
fn rule_13_a_closed_record_names_what_is_held_and_no_other_lock_waits() {
    let mut bench = Bench::group(2, Policy::default());
    bench.enter(0, "of the leader");
    bench.enter(1, "of the follower");
    bench.enter(1, "given back");
    bench.wait(SECOND);
    bench.exit(1, "given back");
    let notified = bench.deadline(1, "of the follower").max(bench.deadline(0, "of the leader"));
    bench.command(1, Command::Leave);
    bench.command(0, Command::Leave);
    bench.wait(SECOND);
    assert_eq!(bench.record().leader, None);
    assert!(!bench.record().settled, "older members wait for all of them");
    assert_eq!(named(bench.record()), Some(vec!["of the follower", "of the leader"]));
    let next = bench.start();
    for lock in ["given back", "another", "of the leader", "of the follower"] {
        bench.enter(next, lock);
    }
    assert!(bench.holds(next, "given back") && bench.holds(next, "another"));
    while !(bench.holds(next, "of the leader") && bench.holds(next, "of the follower")) {
        assert!(!bench.holds(next, "of the follower") || Some(bench.now) > notified);
        assert!(!bench.holds(next, "of the leader") || Some(bench.now) > notified);
        bench.wait(MILLI * 100);
    }
    assert!(Some(bench.now) > notified);
}

#[test]
fn rule_13_a_closed_record_that_has_no_room_for_all_names_none() {
    let mut bench = Bench::group(1, Policy::default());
    (0..65).for_each(|lock| bench.enter(0, &lock.to_string()));
    bench.command(0, Command::Leave);
    assert_eq!(bench.record().leader, None);
    assert_eq!((named(bench.record()), bench.record().settled), (None, false));
    let next = bench.start();
    bench.enter(next, "another");
    bench.wait(SECOND * 9);
    assert!(!bench.holds(next, "another"), "nobody knows that it is free");
    bench.wait(SECOND * 2);
    assert!(bench.holds(next, "another"));
}

/// It was gone before the register answered, and the register named it as the leader.
#[test]
fn a_successor_that_leaves_before_the_register_answers_closes_the_group() {
    let mut bench = Bench::group(2, Policy::default());
    bench.link(bench.node(1), Node::Register, Link::Held);
    bench.command(0, Command::Leave);
    bench.let_one_pass(bench.node(1), Node::Register);
    bench.let_one_pass(Node::Register, bench.node(1));
    bench.let_one_pass(bench.node(1), Node::Register);
    assert_eq!(bench.record().leader, Some(bench.members[1].me()), "and it does not know");
    bench.command(1, Command::Leave);
    bench.free(bench.node(1), Node::Register);
    bench.wait(SECOND);
    assert_eq!(bench.record().leader, None);
}

/// It had given its table away before it was instructed to leave, and took the successor's lead for granted.
#[test]
fn a_leader_that_drained_into_nothing_closes_the_group_when_it_leaves() {
    let mut bench = Bench::group(2, Policy::default());
    bench.link(bench.node(0), bench.node(1), Link::Cut);
    bench.command(0, Command::Drain);
    assert_eq!(bench.sent(0, 1, "hand_over").len(), 1);
    bench.stop(1);
    bench.command(0, Command::Leave);
    bench.wait(SECOND);
    assert_eq!(bench.record().leader, None);
    assert_eq!(named(bench.record()), Some(Vec::new()));
}

/// The moment that it waited for others in a new view was over while the register had the next one, and
/// the register named it as the leader when it was gone.
#[test]
fn a_leader_that_leaves_while_it_changes_the_view_waits_for_the_register() {
    let mut policy = Policy::default();
    policy.timing.leader_lease = SECOND * 6;
    let mut bench = Bench::group(2, policy);
    let silent = Node::Member(info(2, 7).incarnation);
    bench.way(bench.node(0), silent, Link::Held);
    bench.start();
    let before = bench.record().clone();
    assert_eq!(before.members.len(), 3);
    bench.wait(MILLI * 1100);
    bench.link(bench.node(0), Node::Register, Link::Held);
    bench.command(1, Command::Leave);
    bench.command(0, Command::Leave);
    bench.let_one_pass(bench.node(0), Node::Register);
    bench.let_one_pass(Node::Register, bench.node(0));
    bench.let_one_pass(bench.node(0), Node::Register);
    let written = bench.record().clone();
    assert!(written.epoch > before.epoch && written.leader == Some(bench.members[0].me()));
    bench.wait(SECOND);
    bench.free(bench.node(0), Node::Register);
    bench.wait(SECOND * 4);
    assert_ne!(bench.record().leader, written.leader, "nobody would end this leader lease");
}

/// Only a member that has its table can have taken over. It was gone at any message of that, and the register named
/// it as the leader.
#[test]
fn that_somebody_took_over_is_believed_of_members_and_later_views_alone() {
    let mut bench = Bench::group(2, Policy::default());
    let (successor, base) = (bench.members[1].me(), bench.record().epoch);
    bench.link(bench.node(0), bench.node(1), Link::Cut);
    bench.link(bench.node(0), Node::Register, Link::Held);
    bench.command(0, Command::Leave);
    bench.deliver(successor, 0, PeerMessage::Taken { epoch: base });
    bench.deliver(info(7, 7).incarnation, 0, PeerMessage::Taken { epoch: Epoch(base.0 + 20) });
    bench.free(bench.node(0), Node::Register);
    bench.wait(SECOND);
    assert_eq!(bench.record().leader, None);
}

/// Nobody heard of the successor any more, but it leads: what is written last must not hide that.
#[test]
fn a_member_that_closes_the_group_after_its_successor_took_over_writes_nothing() {
    let mut bench = Bench::group(2, Policy::default());
    let successor = bench.members[1].me();
    bench.way(bench.node(1), bench.node(0), Link::Cut);
    bench.link(bench.node(1), Node::Register, Link::Held);
    bench.command(0, Command::Leave);
    bench.let_one_pass(bench.node(1), Node::Register);
    bench.let_one_pass(Node::Register, bench.node(1));
    // It has read that its own view is there, when the successor's comes in between.
    bench.link(bench.node(0), Node::Register, Link::Held);
    bench.wait(MILLI * 600);
    bench.let_one_pass(bench.node(0), Node::Register);
    bench.let_one_pass(bench.node(1), Node::Register);
    assert_eq!(bench.record().leader, Some(successor));
    bench.free(bench.node(0), Node::Register);
    bench.wait(SECOND);
    assert!(bench.calls(0, "write") > 0, "it tried");
    assert_eq!(bench.record().leader, Some(successor));
}

/// The members that stay need not wait until their promises have run out.
#[test]
fn members_that_stay_go_on_at_once_when_their_leader_closed_the_group() {
    let mut bench = Bench::group(3, Policy::default());
    bench.enter(2, "kept");
    bench.wait(SECOND);
    for other in [1, 2] {
        bench.way(bench.node(0), bench.node(other), Link::Cut);
    }
    bench.command(0, Command::Leave);
    bench.wait(SECOND);
    assert_eq!(bench.record().leader, None);
    bench.command(1, Command::Look);
    assert_eq!(bench.leader(), Some(1));
    assert!(bench.holds(2, "kept"));
    bench.command(2, Command::Look);
    bench.wait(SECOND * 15);
    assert!(bench.holds(2, "kept"), "it is known, and goes on");
}
