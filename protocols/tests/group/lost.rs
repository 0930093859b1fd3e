//! Records that state nothing of the latest view: lost, and made anew as a mark.

use std::time::Duration;

use conclave_protocols::member::message::PeerMessage;
use conclave_protocols::member::{Command, Node};
use conclave_protocols::policy::{LockAlgorithm, LockPolicy, Policy, Timing};
use conclave_protocols::record::Record;
use conclave_protocols::{Epoch, FencingToken};

use crate::bench::{Bench, Link, SECOND, of_lock};
use crate::nodes::mark;

const MILLI: Duration = Duration::from_millis(1);

fn three() -> Bench {
    Bench::group(3, Policy::default())
}

fn among_members() -> Bench {
    let algorithm = LockAlgorithm::RicartAgrawala;
    let locks = vec![LockPolicy { algorithm, ..LockPolicy::default() }];
    Bench::group(3, Policy { locks, ..Policy::default() })
}

fn lose(bench: &mut Bench, nonce: u64) {
    let lost = mark(bench.record(), nonce);
    bench.register.put(Some(lost));
}

/// Member 0 has read the mark, and its next view is on the way to the register.
fn replacing(nonce: u64) -> Bench {
    let mut bench = three();
    let leader = bench.node(0);
    bench.enter(1, "a");
    lose(&mut bench, nonce);
    bench.way(leader, Node::Register, Link::Held);
    bench.command(0, Command::Look);
    bench.let_one_pass(leader, Node::Register);
    assert_eq!(bench.calls(0, "write"), 1);
    bench
}

fn arrives(bench: &mut Bench) {
    bench.free(bench.node(0), Node::Register);
}

#[test]
fn rule_33_a_leader_that_lives_replaces_a_lost_record_at_once() {
    let mut bench = three();
    bench.enter(0, "own");
    bench.enter(1, "a");
    bench.enter(2, "a");
    let (old, given) = (bench.record().clone(), bench.tokens(1, "a"));
    lose(&mut bench, 7);
    let before = bench.now;
    bench.command(0, Command::Look);
    assert_eq!((bench.leader(), bench.now), (Some(0), before));
    assert!(bench.record().epoch > old.ceiling && !bench.record().base_unknown);
    assert_eq!(bench.record().members.len(), 3);
    bench.enter(2, "b");
    assert!(bench.holds(2, "b"), "nobody waits");
    for _ in 0..15 {
        bench.wait(SECOND);
        assert!(bench.holds(0, "own") && bench.holds(1, "a") && !bench.holds(2, "a"));
    }
    bench.exit(1, "a");
    assert!(bench.holds(2, "a") && bench.tokens(2, "a")[0] > given[0]);
}

#[test]
fn rule_33_a_leader_of_locks_among_members_freezes_first() {
    let mut bench = among_members();
    bench.enter(1, "a");
    bench.enter(2, "a");
    let epoch = bench.record().epoch;
    lose(&mut bench, 7);
    bench.command(0, Command::Look);
    bench.wait(SECOND);
    assert!(bench.record().epoch > epoch && bench.leader() == Some(0));
    for _ in 0..150 {
        bench.wait(MILLI * 100);
        assert!(bench.holds(1, "a") && !bench.holds(2, "a"));
    }
}

/// The freeze began for another reason, and the record is lost before all have answered.
#[test]
fn rule_33_a_record_that_is_lost_during_a_freeze_is_replaced_too() {
    let mut bench = among_members();
    bench.enter(1, "a");
    let closing = Record { closing: true, nonce: 3, ..bench.record().clone() };
    bench.register.put(Some(closing));
    bench.way(bench.node(2), bench.node(0), Link::Held);
    bench.command(0, Command::Look);
    lose(&mut bench, 7);
    bench.command(0, Command::Look);
    bench.free(bench.node(2), bench.node(0));
    bench.wait(MILLI * 500);
    assert!(bench.leader() == Some(0) && !bench.record().base_unknown);
    assert!(bench.holds(1, "a"));
}

#[test]
fn rule_33_a_leader_lease_that_ended_before_the_answer_replaces_nothing() {
    let mut bench = three();
    bench.link(bench.node(0), Node::Register, Link::Held);
    lose(&mut bench, 7);
    bench.cut_off(0);
    bench.wait(SECOND);
    bench.command(0, Command::Look);
    assert_eq!(bench.leader(), Some(0), "it had the leader lease when it asked");
    bench.wait(SECOND);
    bench.free(bench.node(0), Node::Register);
    assert_eq!(bench.leader(), None);
    assert!(bench.record().base_unknown);
}

#[test]
fn rule_33_a_mark_above_the_leaders_epoch_deposes_it() {
    let mut bench = three();
    let later = Record { epoch: Epoch(bench.record().epoch.0 + 1), ..bench.record().clone() };
    bench.register.put(Some(mark(&later, 7)));
    let marked = bench.now;
    bench.command(0, Command::Look);
    assert_eq!(bench.leader(), None);
    while bench.leader().is_none() {
        bench.wait(MILLI * 100);
        assert!(bench.now < marked.after(SECOND * 70));
    }
    assert!(bench.now > marked.after(Duration::from_millis(61_500)));
    assert!(bench.record().epoch > later.ceiling);
}

#[test]
fn rule_33_a_write_that_the_same_mark_refused_is_made_anew() {
    let mut bench = replacing(7);
    let same = bench.record().clone();
    bench.register.put(Some(same));
    arrives(&mut bench);
    assert!(bench.leader() == Some(0) && !bench.record().base_unknown);
    bench.enter(2, "b");
    assert!(bench.holds(1, "a") && bench.holds(2, "b"));
}

/// It cannot know what was there in between.
#[test]
fn rule_33_a_write_that_another_mark_refused_is_forgotten_with_its_table() {
    let (first, second) = (7, 8);
    let mut bench = replacing(first);
    lose(&mut bench, second);
    let marked = bench.now;
    arrives(&mut bench);
    assert!(bench.leader().is_none() && bench.record().base_unknown);
    bench.wait(Duration::from_millis(61_500));
    assert!(bench.record().base_unknown, "nobody waited for {second}");
    bench.enter(2, "b");
    while !bench.holds(2, "b") {
        bench.wait(MILLI * 100);
        assert!(bench.now < marked.after(SECOND * 80));
    }
    assert!(bench.now > marked.after(Duration::from_millis(71_500)));
}

#[test]
fn rule_33_a_record_that_is_lost_again_is_replaced_again() {
    let mut bench = three();
    bench.enter(1, "a");
    for nonce in [7, 8, 9] {
        let epoch = bench.record().epoch;
        lose(&mut bench, nonce);
        bench.command(0, Command::Look);
        assert!(bench.leader() == Some(0) && bench.record().epoch > epoch);
        bench.wait(MILLI * 10);
    }
    assert!(bench.holds(1, "a"));
}

/// The others elect one of theirs, who reads the mark or the leader's next view, as it comes.
#[test]
fn rule_33_of_two_sides_the_one_with_the_leader_goes_on() {
    for reads_first in [true, false] {
        let mut bench = Bench::group(5, Policy::default());
        bench.enter(1, "a");
        for near in 0..3 {
            for far in 3..5 {
                bench.link(bench.node(near), bench.node(far), Link::Cut);
            }
        }
        bench.wait(SECOND * 3);
        lose(&mut bench, 7);
        for member in if reads_first { [3, 4, 0] } else { [0, 3, 4] } {
            bench.command(member, Command::Look);
        }
        bench.enter(4, "a");
        for _ in 0..100 {
            bench.wait(SECOND);
            assert_eq!(bench.leader(), Some(0));
            assert!(bench.holds(1, "a") && !bench.holds(4, "a"));
        }
    }
}

/// What it read came before the answer to what it wrote as the leader of an earlier view, and
/// showed nothing. It asked nothing more, and led when it looked at the register the next time.
#[test]
fn a_candidate_reads_again_when_an_earlier_write_is_answered() {
    let locks =
        vec![LockPolicy { algorithm: LockAlgorithm::RicartAgrawala, ..LockPolicy::default() }];
    let mut bench = Bench::group(2, Policy { locks, ..Policy::default() });
    bench.enter(1, "a");
    let request = bench.sent(1, 0, "request").first().copied().cloned();
    let Some(PeerMessage::Service(request)) = request else { panic!("{request:?}") };
    let highest = FencingToken::before(bench.record().ceiling);
    let number = request.number + 1;
    let mut message = *request;
    message.number = number;
    of_lock(&mut message.body).highest = highest;
    bench.way(Node::Register, bench.node(0), Link::Held);
    bench.deliver(bench.members[1].me(), 0, PeerMessage::Service(Box::new(message)));
    bench.command(0, Command::Look);
    bench.let_one_pass(Node::Register, bench.node(0));
    bench.let_one_pass(Node::Register, bench.node(0));
    assert_eq!(bench.calls(0, "write"), 1, "of a higher ceiling");
    bench.command(0, Command::Drain);
    assert_eq!(bench.leader(), Some(1));
    bench.command(1, Command::Leave);
    bench.let_last_pass(Node::Register, bench.node(0));
    bench.let_one_pass(Node::Register, bench.node(0));
    bench.free(bench.node(0), Node::Register);
    bench.wait(MILLI * 100);
    assert_eq!(bench.leader(), Some(0));
}

/// What the leader was given of a raised ceiling stands nowhere else when the record is lost.
#[test]
fn rule_33_the_next_epoch_lies_above_a_ceiling_that_only_the_leader_knows() {
    let mut bench = among_members();
    let lost = mark(bench.record(), 7);
    bench.enter(1, "a");
    let request = bench.sent(1, 0, "request").first().copied().cloned();
    let Some(PeerMessage::Service(request)) = request else { panic!("{request:?}") };
    // Tokens are used up faster than the register's clock counts.
    for further in 1..=20 {
        let highest = FencingToken::before(bench.record().ceiling);
        let number = request.number + further;
        let mut message = (*request).clone();
        message.number = number;
        of_lock(&mut message.body).highest = highest;
        bench.deliver(bench.members[1].me(), 0, PeerMessage::Service(Box::new(message)));
        bench.wait(Policy::default().timing.heartbeat);
    }
    let ceiling = bench.record().ceiling;
    assert_eq!(bench.record().epoch, lost.epoch);
    assert!(ceiling > Epoch(lost.ceiling.0 + 50));
    bench.register.put(Some(lost));
    bench.command(0, Command::Look);
    bench.wait(SECOND);
    assert!(bench.leader() == Some(0) && bench.record().epoch > ceiling);
}

/// Only the leader does not reach the register: nobody replaces the mark.
fn waited_out(lose: impl FnOnce(&mut Bench)) -> (Bench, Duration) {
    let mut bench = three();
    bench.link(bench.node(0), Node::Register, Link::Cut);
    let start = bench.now;
    lose(&mut bench);
    while bench.record().base_unknown {
        bench.wait(MILLI * 100);
        assert!(bench.now < start.after(SECOND * 200));
    }
    let took = bench.now - start;
    (bench, took)
}

fn read_by_followers(bench: &mut Bench, nonce: u64) {
    lose(bench, nonce);
    for member in [1, 2] {
        bench.command(member, Command::Look);
    }
}

const WAIT: Duration = Duration::from_millis(61_500);

#[test]
fn rule_34_a_member_that_waits_a_mark_out_counts_from_when_it_first_read_it() {
    let (mut bench, took) = waited_out(|bench| read_by_followers(bench, 7));
    assert!((WAIT..WAIT + SECOND * 2).contains(&took), "{took:?}");
    bench.enter(2, "a");
    bench.wait(SECOND * 9);
    assert!(!bench.holds(2, "a"), "a member lease passes");
    bench.wait(SECOND * 2);
    assert!(bench.holds(2, "a"));
}

#[test]
fn rule_34_somebody_elses_note_on_the_lease_does_not_delay_it() {
    let (_, took) = waited_out(|bench| {
        read_by_followers(bench, 7);
        bench.wait(SECOND * 20);
        bench.register.put(bench.register.record().cloned());
        bench.wait(SECOND * 12);
    });
    assert!((WAIT..WAIT + SECOND * 2).contains(&took), "{took:?}");
}

#[test]
fn rule_34_another_mark_is_waited_out_from_its_own_beginning() {
    let (first, second) = (7, 8);
    let (_, took) = waited_out(|bench| {
        read_by_followers(bench, first);
        bench.wait(SECOND * 20);
        read_by_followers(bench, second);
    });
    assert!((WAIT + SECOND * 20..WAIT + SECOND * 22).contains(&took), "{took:?}");
}

/// The same mark is there again, and there was a view in between: what was read before does not count.
#[test]
fn rule_34_a_view_in_between_voids_the_first_read() {
    let mut bench = three();
    lose(&mut bench, 7);
    let lost = bench.record().clone();
    for member in [1, 2, 0] {
        bench.command(member, Command::Look);
    }
    assert!(!bench.record().base_unknown);
    bench.wait(SECOND * 30);
    let back = bench.now;
    bench.link(bench.node(0), Node::Register, Link::Cut);
    bench.register.put(Some(lost));
    for member in [1, 2] {
        bench.command(member, Command::Look);
    }
    while bench.record().base_unknown {
        bench.wait(MILLI * 100);
    }
    assert!(bench.now > back.after(WAIT));
}

/// The mark states what the operator knew. A member that knows of longer waits goes by those.
#[test]
fn a_candidate_waits_as_long_as_the_longest_waits_that_it_knows() {
    let (mut bench, took) = waited_out(|bench| {
        let lost = mark(bench.record(), 7);
        let (api_outage, member_lease) = (SECOND * 15, SECOND * 4);
        let timing = Timing { api_outage, member_lease, ..lost.timing };
        bench.register.put(Some(Record { timing, ..lost }));
        for member in [1, 2] {
            bench.command(member, Command::Look);
        }
    });
    assert!((WAIT..WAIT + SECOND * 2).contains(&took), "{took:?}");
    bench.enter(2, "a");
    bench.wait(SECOND * 9);
    assert!(!bench.holds(2, "a"), "a whole member lease passes");
}

/// A view that was closed and settled, and comes back beside a living one: its leader reads it before
/// anybody begins on it.
#[test]
fn rule_33_a_leader_replaces_what_a_backup_brought_back() {
    let mut bench = three();
    let old = bench.record().clone();
    bench.command(0, Command::Drain);
    bench.wait(SECOND * 2);
    let leader = bench.leader().expect("somebody leads");
    bench.enter(2, "a");
    for leader_of_old in [old.leader, None] {
        let latest = bench.record().clone();
        bench.register.put(Some(Record { leader: leader_of_old, settled: true, ..old.clone() }));
        bench.command(leader, Command::Look);
        assert!(bench.leader() == Some(leader) && bench.record().epoch > latest.ceiling);
        bench.wait(SECOND * 2);
    }
    let next = bench.start();
    bench.wait(SECOND * 3);
    assert_eq!((bench.leader(), bench.record().members.len()), (Some(leader), 4));
    bench.enter(next, "a");
    assert!(bench.holds(2, "a") && !bench.holds(next, "a"));
}

/// Somebody was left out of the latest view, whose `apiOutage` is longer. A backup brings back the view
/// that it knows, and nobody who knows better reaches the register.
#[test]
fn rule_12_a_member_that_follows_a_later_leader_refuses_to_seal_an_older_view() {
    let timing = Timing { api_outage: SECOND * 15, ..Timing::default() };
    let mut bench = Bench::group(3, Policy { timing, ..Policy::default() });
    let old = bench.record().clone();
    let all = [bench.node(0), bench.node(1), Node::Register];
    for node in all {
        bench.link(bench.node(2), node, Link::Cut);
    }
    let long = Policy { generation: 1, ..Policy::default() };
    for member in [0, 1] {
        bench.command(member, Command::Policy(Box::new(long.clone())));
    }
    bench.wait(SECOND * 20);
    assert_eq!((bench.record().members.len(), bench.record().timing), (2, long.timing));
    for member in [0, 1] {
        bench.command(member, Command::Look);
        bench.link(bench.node(member), Node::Register, Link::Cut);
    }
    bench.register.put(Some(old));
    for node in all {
        bench.free(bench.node(2), node);
    }
    for _ in 0..45 {
        bench.wait(SECOND);
        assert_eq!(bench.leader(), Some(0), "and nobody beside it");
    }
    bench.wait(SECOND * 60);
    assert_eq!(bench.leader(), Some(2), "when nobody follows the other any more");
}
