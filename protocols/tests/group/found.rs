//! What random weather found, or reading found before it could, as steps that lead there at once.

use std::time::Duration;

use conclave_protocols::FencingToken;
use conclave_protocols::member::message::{HandOver, Note, PeerMessage, Table, TableHold};
use conclave_protocols::member::{Command, Node};
use conclave_protocols::policy::{Policy, Timing};
use conclave_protocols::time::hold;

use crate::bench::{Bench, Link, SECOND, info, name};
use crate::nodes::Ask;
use crate::nodes::mark;
use crate::weather::BRIEF;
use crate::world::World;

const MILLI: Duration = Duration::from_millis(1);

fn three() -> Bench {
    Bench::group(3, Policy::default())
}

/// The mutex of an unused lock was dropped, and the next one numbered its requests from one again.
/// A grant under way to the request that had been given up admitted the member when it asked anew.
#[test]
fn a_grant_to_a_request_given_up_is_not_one_to_the_next() {
    let mut bench = three();
    bench.enter(0, "a");
    bench.enter(1, "a");
    bench.way(bench.node(0), bench.node(1), Link::Held);
    bench.exit(0, "a");
    bench.exit(1, "a");
    bench.enter(2, "a");
    assert!(bench.holds(2, "a"));
    bench.enter(1, "a");
    bench.free(bench.node(0), bench.node(1));
    assert!(!bench.holds(1, "a"));
}

/// The end of an outsider's entry was noted as an expulsion, and threw out the member that had just been
/// admitted.
#[test]
fn the_end_of_an_outsiders_entry_expels_nobody_else() {
    let mut bench = Bench::group(5, Policy::default());
    bench.enter(4, "a");
    bench.command(4, Command::Leave);
    bench.enter(3, "a");
    bench.enter(2, "a");
    for _ in 0..200 {
        bench.wait(MILLI * 100);
        assert!(!(bench.holds(3, "a") && bench.holds(2, "a")));
    }
    assert!(bench.holds(3, "a"));
}

/// A candidate that had not read the register yet heard its leader again. It entered the same view a
/// second time, in which nobody had announced the holds that were granted since, and forgot to
/// report its own.
#[test]
fn a_member_that_hears_its_leader_again_still_knows_what_it_holds() {
    let mut bench = three();
    bench.enter(1, "a");
    bench.link(bench.node(1), Node::Register, Link::Held);
    bench.link(bench.node(0), bench.node(1), Link::Held);
    bench.wait(SECOND * 2);
    assert!(!bench.sent(1, 0, "election").is_empty(), "it elects");
    bench.free(bench.node(0), bench.node(1));
    bench.wait(SECOND * 10);
    assert!(bench.holds(1, "a"), "it went on, and is extended");
}

/// The leader gave up waiting for its own lock while admission was closed, and asked again. Both were
/// kept; the place in the queue was not given up, so that it was admitted and then released the lock
/// while it held it.
#[test]
fn a_leader_that_gives_up_waiting_in_the_grace_period_gives_up_its_place() {
    let mut bench = Bench::group(5, Policy::default());
    bench.enter(2, "a");
    bench.enter(1, "a");
    bench.stop(0);
    bench.stop(4);
    bench.wait(SECOND * 3);
    assert_eq!(bench.leader(), Some(1));
    bench.exit(2, "a");
    bench.enter(3, "a");
    bench.exit(1, "a");
    bench.enter(1, "a");
    for _ in 0..150 {
        bench.wait(MILLI * 100);
        assert!(!(bench.holds(1, "a") && bench.holds(3, "a")));
    }
    assert!(bench.holds(1, "a") || bench.holds(3, "a"));
}

/// The last member wrote that nobody leads while it led on. The next group began at once.
#[test]
fn the_last_to_leave_leads_no_more_when_the_register_says_so() {
    let mut bench = Bench::group(1, Policy::default());
    bench.enter(0, "a");
    let notified = bench.deadline(0, "a").expect("it holds");
    bench.link(bench.node(0), Node::Register, Link::Held);
    bench.command(0, Command::Leave);
    assert_eq!(bench.members[0].leader_lease(), None);
    bench.free(bench.node(0), Node::Register);
    assert_eq!(bench.record().leader, None);
    assert!(!bench.record().settled, "its application may still be at work");
    let next = bench.start();
    bench.enter(next, "a");
    while !bench.holds(next, "a") {
        bench.wait(MILLI * 100);
    }
    assert!(bench.now > notified);
}

/// A leader was held up until its leader lease was over, and instructed to leave before it heard the
/// promises that were on their way. They gave its leader lease back after it had resigned: it granted locks
/// on while the register stated that nobody led and nothing was held, and the next to start led beside it.
#[test]
fn a_promise_that_comes_late_gives_no_leader_lease_back_to_a_leader_that_resigned() {
    let mut bench = three();
    let wait = Policy::default().timing.leader_lease;
    for other in [1, 2] {
        bench.way(bench.node(other), bench.node(0), Link::Held);
    }
    // The others promise until a leader lease after they heard of it last.
    bench.wait(hold(wait));
    assert_eq!(bench.leader(), None);
    bench.way(Node::Register, bench.node(0), Link::Held);
    bench.command(0, Command::Leave);
    for other in [1, 2] {
        bench.free(bench.node(other), bench.node(0));
    }
    bench.enter(1, "a");
    assert_eq!((bench.leader(), bench.members[0].leader_lease()), (None, None));
    assert!(!bench.holds(1, "a"));
    bench.free(Node::Register, bench.node(0));
    assert_eq!(bench.record().leader, None);
    let next = bench.start();
    bench.enter(next, "a");
    for _ in 0..100 {
        bench.wait(MILLI * 20);
        assert!(!(bench.holds(1, "a") && bench.holds(next, "a")));
    }
    assert!(bench.leader().is_some());
}

/// A leader without a leader lease sealed its view for a candidate that then died. Nothing was left to
/// wake it.
#[test]
fn a_leader_that_sealed_for_a_candidate_in_vain_elects_again() {
    let mut bench = Bench::group(2, Policy::default());
    let base = bench.record().epoch;
    bench.stop(1);
    for member in [0, 1] {
        bench.link(bench.node(member), Node::Register, Link::Cut);
    }
    bench.wait(SECOND * 60);
    let candidate = bench.members[1].me();
    bench.deliver(candidate, 0, PeerMessage::SealRequest { base });
    assert_eq!(bench.sent(0, 1, "seal").len(), 1);
    bench.free(bench.node(0), Node::Register);
    bench.wait(SECOND * 20);
    assert_eq!(bench.leader(), Some(0));
}

/// Only members that were about to end were left, and none of them led. They let others go first,
/// and then go on.
#[test]
fn members_that_drain_lead_when_nobody_else_is_left() {
    let mut bench = three();
    for member in 0..3 {
        bench.command(member, Command::Drain);
        bench.wait(SECOND * 2);
    }
    assert!(bench.leader().is_some());
    let leader = bench.leader().expect("just seen");
    bench.stop(leader);
    bench.wait(SECOND * 15);
    assert!(bench.leader().is_some_and(|next| next != leader));
}

/// After a long wait for the last promise, members that had sealed at its beginning were counted
/// into the new view though they had died since. That view had no majority and had to be waited out
/// in its turn.
#[test]
fn a_member_that_died_during_a_long_wait_is_not_in_the_next_view() {
    let mut bench = Bench::group(5, Policy::default());
    for dead in [0, 1, 2] {
        bench.stop(dead);
    }
    bench.wait(SECOND * 10);
    assert!(bench.record().closing);
    bench.stop(4);
    bench.wait(SECOND * 65);
    assert_eq!(bench.leader(), Some(3));
    assert_eq!(bench.record().members.len(), 1);
}

/// An empty register is taken for new only by those who know of no view. Else a group that lost its
/// record would get a second leader beside the one that still leads.
#[test]
fn an_emptied_register_is_not_a_new_group() {
    let mut bench = three();
    bench.register.put(None);
    bench.wait(SECOND * 30);
    assert_eq!(bench.leader(), Some(0), "the leader lease goes on while the view is confirmed");
    bench.wait(SECOND * 200);
    assert_eq!(bench.leader(), None);
    assert_eq!(bench.register.record(), None, "the keeper of the register must see to it");
}

/// The record was lost, and made anew by the keeper of the register.
#[test]
fn a_lost_record_is_waited_out_whatever_seals_there_are() {
    let mut bench = three();
    let old = bench.record().clone();
    bench.link(bench.node(0), Node::Register, Link::Cut);
    bench.register.put(Some(mark(&old, 4)));
    let marked = bench.now;
    bench.wait(SECOND * 40);
    assert_eq!(bench.leader(), Some(0), "the leader lease goes on while the view is confirmed");
    bench.free(bench.node(0), Node::Register);
    bench.stop(0);
    while bench.record().leader.is_none() {
        bench.wait(SECOND);
    }
    assert!(bench.now > marked.after(Duration::from_millis(61_500)));
    assert!(bench.record().epoch > old.ceiling);
    bench.go_on(0);
    bench.wait(SECOND * 5);
    assert_eq!(bench.record().members.len(), 3);
}

/// A candidate that waited for one lost record was frozen, and missed that another began a view and
/// that its record was lost too. The second loss has to be waited out from its own beginning.
#[test]
fn a_record_that_is_lost_twice_is_waited_out_twice() {
    let mut bench = Bench::group(2, Policy::default());
    let lost = mark(bench.record(), 0);
    bench.stop(0);
    bench.wait(SECOND * 2);
    bench.register.put(Some(lost.clone()));
    bench.wait(SECOND * 30);
    bench.stop(1);
    bench.go_on(0);
    while bench.leader() != Some(0) {
        bench.wait(SECOND);
    }
    bench.register.put(Some(lost));
    bench.go_on(1);
    for _ in 0..8 {
        bench.wait(SECOND);
        assert_eq!(bench.leader(), Some(0), "it leads while its view was confirmed lately");
    }
}

/// Somebody was frozen while it began the first view of a group. When it went on, the group had come
/// and its record was lost: to a member that finds that, nothing is over.
#[test]
fn a_belated_first_view_is_none_when_the_record_was_lost() {
    let mut bench = Bench::new(Policy::default());
    let late = Node::Member(info(0, 7).incarnation);
    bench.way(late, Node::Register, Link::Held);
    bench.start();
    bench.let_one_pass(late, Node::Register);
    bench.start();
    bench.wait(SECOND * 2);
    assert_eq!(bench.leader(), Some(1));
    let lost = mark(bench.record(), 0);
    bench.register.put(Some(lost));
    bench.free(late, Node::Register);
    for _ in 0..8 {
        bench.wait(SECOND);
        assert_eq!(bench.leader(), Some(1));
    }
}

/// The register was brought back from a backup: what it holds is older than what members know.
#[test]
fn a_record_from_a_backup_is_as_good_as_lost() {
    let mut bench = three();
    let old = bench.record().clone();
    bench.command(0, Command::Drain);
    bench.wait(SECOND * 2);
    let leader = bench.leader();
    let latest = bench.record().clone();
    assert!(latest.epoch > old.epoch);
    bench.register.put(Some(old));
    let restored = bench.now;
    let Some(leader) = leader else { panic!("nobody leads") };
    bench.link(bench.node(leader), Node::Register, Link::Cut);
    bench.wait(SECOND * 40);
    assert_eq!(bench.leader(), Some(leader));
    while bench.record().epoch <= latest.epoch {
        bench.wait(SECOND);
    }
    assert!(bench.now > restored.after(Duration::from_millis(61_500)));
    assert!(bench.record().epoch > latest.ceiling);
    bench.wait(SECOND * 15);
    assert!(bench.leader().is_some());
}

/// A view began while a member was cut off, and its other members died. The register was brought back
/// from a backup of before: the member that knows of nothing later began a view of the same number,
/// and gave the same tokens. Now numbers never run ahead of the register's clock.
#[test]
fn a_view_that_a_backup_forgot_does_not_come_again() {
    let mut bench = three();
    let old = bench.record().clone();
    let all = [bench.node(0), bench.node(1), Node::Register];
    for node in all {
        bench.link(bench.node(2), node, Link::Cut);
    }
    bench.command(0, Command::Drain);
    bench.wait(SECOND * 2);
    let forgotten = bench.record().epoch;
    assert!(forgotten > old.epoch);
    bench.stop(0);
    bench.stop(1);
    bench.register.put(Some(old));
    for node in all {
        bench.free(bench.node(2), node);
    }
    while bench.leader() != Some(2) {
        bench.wait(SECOND);
    }
    assert!(bench.record().epoch > forgotten, "{forgotten} came again");
}

/// A member lease was made longer, and shorter again; in between a lease of the longer one was given. The
/// register was brought back from a backup of before: a member that starts then waits for the shorter one. That is a
/// limit: a backup knows nothing of the longer wait (`docs/guarantees.md`).
#[test]
#[should_panic(expected = "no step of rule 20")]
fn a_lease_that_a_backup_forgot_does_not_keep_others_out() {
    let short = Policy { timing: BRIEF, ..Policy::default() };
    let timing = Timing { member_lease: SECOND * 60, ..BRIEF };
    let long = Policy { timing, generation: 1, ..Policy::default() };
    let mut world = World::new(1, 2, short.clone());
    world.run_for(SECOND * 4);
    world.set_policy(&long);
    world.run_for(SECOND * 4);
    let follower = 1 - world.leader().expect("somebody leads");
    world.enter(follower, "a");
    world.run_for(SECOND);
    assert_eq!(world.holder("a"), Some(follower));
    world.register(Ask::Restore(1));
    assert_eq!(world.record().timing, short.timing);
    world.set_policy(&Policy { generation: 2, ..short });
    let other = world.join();
    world.isolate(0);
    world.isolate(1);
    world.enter(other, "a");
    world.run_for(SECOND * 40);
}

/// A leader closed the group because its successors were silent, and wrote that somebody may still hold.
/// The candidate of the other side of a partition had the seals of a few, which stated that the view had
/// been settled; it took the group for one that was closed in order, and granted at once.
#[test]
fn a_group_that_was_closed_under_a_hold_is_not_taken_for_settled() {
    let mut bench = Bench::group(5, Policy::default());
    bench.enter(1, "a");
    bench.wait(SECOND * 2);
    for near in 0..3 {
        for far in 3..5 {
            bench.link(bench.node(near), bench.node(far), Link::Cut);
            bench.link(bench.node(far), bench.node(near), Link::Cut);
        }
    }
    bench.wait(SECOND * 2);
    for successor in 1..3 {
        bench.link(bench.node(0), bench.node(successor), Link::Cut);
        bench.link(bench.node(successor), Node::Register, Link::Cut);
    }
    bench.command(0, Command::Leave);
    bench.wait(SECOND);
    assert_eq!(bench.record().leader, None);
    let notified = bench.deadline(1, "a").expect("it was told a deadline");
    bench.enter(3, "a");
    while bench.now < notified {
        assert!(!bench.holds(3, "a"), "two hold");
        bench.wait(MILLI * 50);
    }
    bench.wait(SECOND * 10);
    assert!(bench.holds(3, "a"));
}

/// A candidate that reaches everybody but the leader must not mark a view whose leader lives.
#[test]
fn a_member_that_is_cut_off_from_its_leader_alone_disturbs_nobody() {
    let mut bench = Bench::group(5, Policy::default());
    let epoch = bench.record().epoch;
    bench.enter(3, "a");
    bench.link(bench.node(0), bench.node(4), Link::Cut);
    bench.wait(SECOND * 9);
    assert_eq!(bench.record().epoch, epoch);
    assert!(!bench.record().closing);
    assert_eq!(bench.leader(), Some(0));
    bench.free(bench.node(0), bench.node(4));
    bench.wait(SECOND * 5);
    assert_eq!(bench.record().members.len(), 5);
    assert!(bench.holds(3, "a"));
}

/// A group of two whose leader lives and whose other member died.
#[test]
fn one_of_two_goes_on_alone() {
    let timing = Timing::default();
    let mut bench = Bench::group(2, Policy { timing, ..Policy::default() });
    bench.stop(1);
    bench.wait(timing.leader_lease * 5);
    assert_eq!(bench.leader(), Some(0));
    assert_eq!(bench.record().members.len(), 1);
    assert!(bench.record().timing.api_outage <= SECOND * 15, "alone it asks the register often");
}

/// A member had lost a lock and asked for it anew while the leader's entry for it still ran, so that the
/// next view knew it as holder and as waiter. It gave the hold up; that was taken for a waiter's message, which
/// need not wait for admission, and the next in line was admitted during the grace period.
#[test]
fn a_member_that_is_known_as_holder_and_waiter_opens_no_admission_when_it_leaves() {
    let mut bench = Bench::group(5, Policy::default());
    bench.enter(3, "a");
    bench.enter(2, "a");
    assert!(bench.holds(3, "a") && !bench.holds(2, "a"));
    let who = |bench: &Bench, member: usize| bench.members[member].me();
    let wait = Policy::default().timing.member_lease;
    let hold = TableHold {
        name: name("a"),
        holder: who(&bench, 4),
        token: FencingToken::before(bench.record().epoch),
        rest: None,
        note: Note::default(),
    };
    let waits = vec![(name("a"), vec![who(&bench, 4), who(&bench, 2)])];
    let table = HandOver {
        base: bench.record().epoch,
        table: Table { holds: vec![hold], waits },
        grace: wait,
        member_lease: wait,
        stays: (1..5).map(|member| who(&bench, member)).collect(),
        joins: Vec::new(),
        believed: true,
    };
    let leader = who(&bench, 0);
    bench.stop(0);
    bench.way(bench.node(4), bench.node(1), Link::Held);
    bench.deliver(leader, 1, PeerMessage::HandOver(Box::new(table)));
    bench.wait(SECOND / 2);
    bench.free(bench.node(4), bench.node(1));
    for _ in 0..80 {
        bench.wait(MILLI * 100);
        assert!(!bench.holds(2, "a"), "the grace period runs");
    }
    bench.wait(SECOND * 3);
    assert!(bench.holds(2, "a"));
}
