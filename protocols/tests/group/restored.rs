//! A register that is brought back to before the view that lives.

use std::time::Duration;

use conclave_protocols::Epoch;
use conclave_protocols::member::message::PeerMessage;
use conclave_protocols::member::{Command, Event, Node, StatusEpoch};
use conclave_protocols::policy::{LockAlgorithm, LockPolicy, Policy};

use crate::bench::{Bench, Link, SECOND, info};

const TENTH: Duration = Duration::from_millis(100);

/// Two collect the seals of the same view of five. The one writes the next, which others follow; then the
/// register is brought back to before, as it was in every byte, and what the other wrote comes in time.
struct Fork {
    bench: Bench,
    /// The waits, one after the other, after which nothing is left of a view of which nothing is known.
    all: Duration,
}

impl Fork {
    /// So that member 1 leads {1, 3, 4, 5}, and 5 holds `x`; and 2 is about to lead {2, 3, 4}. Member 4 may
    /// not have heard of the first of the two views.
    fn new(hears: bool) -> Self {
        let mut bench = Bench::group(5, Policy::default());
        let (backup, first) = (bench.register.clone(), bench.record().epoch);
        let (one, other) = (bench.node(1), bench.node(2));
        bench.stop(0);
        // Either takes itself for the highest that lives, and one of them later.
        bench.link(one, other, Link::Cut);
        bench.stop(2);
        bench.link(Node::Member(info(5, 7).incarnation), other, Link::Cut);
        bench.start();
        for (writer, node) in [(1, one), (2, other)] {
            bench.go_on(writer);
            bench.way(node, Node::Register, Link::Held);
            let patience = bench.now.after(SECOND * 5);
            while bench.calls(writer, "write") == 0 {
                bench.pass_until(node, Node::Register, "write");
                assert!(bench.now < patience, "{writer} writes");
                bench.wait(TENTH / 10);
            }
        }
        if !hears {
            bench.link(bench.node(4), one, Link::Cut);
            bench.link(bench.node(4), Node::Register, Link::Cut);
        }
        bench.free(one, Node::Register);
        bench.wait(bench.policy.timing.member_lease);
        let second = bench.record().clone();
        assert_eq!((bench.leader(), second.base), (Some(1), Some(first)));
        bench.enter(5, "x");
        assert!(bench.holds(5, "x"));
        // The leader of what the register forgot would replace what it finds there.
        for member in [1, 5] {
            bench.link(bench.node(member), Node::Register, Link::Cut);
        }
        bench.register = backup;
        for member in [3, 4] {
            bench.way(other, bench.node(member), Link::Held);
        }
        bench.free(other, Node::Register);
        bench.free(bench.node(4), Node::Register);
        let third = bench.record().clone();
        assert_eq!((third.leader, third.base), (Some(bench.members[2].me()), Some(first)));
        assert!(third.epoch > second.epoch);
        let timing = bench.policy.timing;
        let all = timing.api_outage + timing.leader_lease + timing.member_lease;
        Self { bench, all }
    }

    /// Member 2 and this one hear of each other.
    fn hear(&mut self, member: usize) {
        self.bench.free(self.bench.node(2), self.bench.node(member));
    }

    /// The leader of what the register forgot ends, and a member that came from there reports it: after how
    /// long is the lock granted that somebody there held?
    fn granted_after(&mut self) -> Duration {
        let bench = &mut self.bench;
        let from = bench.now;
        bench.stop(1);
        bench.cut_off(5);
        for member in [3, 4] {
            bench.enter(member, "x");
        }
        for _ in 0..1_200 {
            let holders = (2..6).filter(|member| bench.holds(*member, "x"));
            match *holders.collect::<Vec<_>>() {
                [] | [5] => bench.wait(TENTH),
                [_] => return bench.now - from,
                ref holders => panic!("{holders:?} hold"),
            }
        }
        panic!("nobody enters");
    }
}

#[test]
fn rule_38_a_member_leaves_the_view_that_it_follows_for_none_made_from_an_older_one() {
    let mut fork = Fork::new(true);
    for member in [3, 4] {
        fork.hear(member);
    }
    for _ in 0..400 {
        fork.bench.leader();
        fork.bench.wait(TENTH);
    }
    assert!(fork.bench.leader() > Some(1), "once nobody follows the other");
}

/// Before it promises, a member sees to it that the leader waits.
#[test]
fn rule_39_a_member_that_comes_from_a_forgotten_view_enters_when_nothing_is_granted() {
    let mut fork = Fork::new(false);
    let bench = &mut fork.bench;
    // Nobody reports before that there was another view.
    bench.link(bench.node(1), bench.node(3), Link::Cut);
    bench.link(bench.node(3), Node::Register, Link::Cut);
    bench.wait(SECOND * 2);
    fork.hear(4);
    let bench = &mut fork.bench;
    bench.wait(SECOND);
    assert_eq!(bench.leader(), Some(2), "with member 4, that knows no better");
    bench.forget();
    bench.free(bench.node(3), Node::Register);
    fork.hear(3);
    let bench = &mut fork.bench;
    bench.wait(SECOND);
    let sent = |name| bench.sent(3, 2, name).len();
    assert!(sent("seal_refused") > 0 && sent("promise") > 0);
    let took = fork.granted_after();
    assert!(took + SECOND * 2 > fork.all, "{took:?}");
}

/// The member that begins the view after the second of the two knows better itself.
#[test]
fn rule_39_a_candidate_that_comes_from_a_forgotten_view_grants_nothing_at_first() {
    let mut fork = Fork::new(false);
    fork.bench.stop(2);
    let took = fork.granted_after();
    assert!(took > fork.all, "{took:?}");
    assert_eq!(fork.bench.leader(), Some(3));
}

/// Or is notified of it by a seal.
#[test]
fn rule_39_a_seal_of_a_member_that_comes_from_a_forgotten_view_tells_of_it() {
    let mut fork = Fork::new(false);
    let bench = &mut fork.bench;
    bench.stop(2);
    bench.command(3, Command::Look);
    let three = bench.node(3);
    bench.link(three, Node::Register, Link::Cut);
    bench.stop(1);
    while bench.leader() != Some(4) {
        bench.wait(TENTH);
    }
    bench.free(three, Node::Register);
    let took = fork.granted_after();
    assert!(took + SECOND > fork.all, "{took:?}");
}

/// A leader of two admits another. Its follower has not heard of that when its promise ends, and the register
/// is brought back to before. Gives the number of the view that was forgotten.
fn left_behind() -> (Bench, Epoch) {
    let mut bench = Bench::group(2, Policy::default());
    let backup = bench.register.clone();
    let (leader, behind) = (bench.node(0), bench.node(1));
    let joiner = Node::Member(info(2, 7).incarnation);
    bench.link(leader, behind, Link::Cut);
    bench.link(joiner, behind, Link::Cut);
    bench.link(behind, Node::Register, Link::Held);
    assert_eq!((bench.start(), bench.node(2)), (2, joiner));
    bench.wait(TENTH);
    let latest = bench.record().clone();
    assert_eq!((bench.leader(), latest.members.len()), (Some(0), 3));
    bench.enter(2, "x");
    assert!(bench.holds(2, "x"));
    for node in [leader, joiner] {
        bench.link(node, Node::Register, Link::Cut);
    }
    bench.register = backup;
    (bench, latest.epoch)
}

/// Nobody but member 1 reaches the register.
fn never_two_lead_or_hold(bench: &mut Bench) {
    bench.free(bench.node(1), Node::Register);
    bench.enter(1, "x");
    for _ in 0..1_200 {
        bench.wait(TENTH);
        bench.leader();
        assert!(!bench.holds(1, "x") || !bench.holds(2, "x"), "two hold");
    }
    assert!(bench.leader() == Some(1) && bench.holds(1, "x"), "in the end");
}

#[test]
fn rule_39_the_status_tells_of_the_view_that_the_register_forgot() {
    let (mut bench, epoch) = left_behind();
    bench.command(1, Command::Status(StatusEpoch { epoch, ceiling: epoch }));
    never_two_lead_or_hold(&mut bench);
}

#[test]
fn rule_39_a_member_tells_of_the_view_that_the_register_forgot() {
    let (mut bench, epoch) = left_behind();
    let from = bench.members[2].me();
    bench.deliver(from, 1, PeerMessage::SealRefused { base: epoch });
    never_two_lead_or_hold(&mut bench);
}

/// A leader that hears late that its view was made beside another, by the status or from a member, grants
/// nothing more until all has run out.
#[test]
fn rule_39_a_leader_hears_late_of_a_view_beside_its_own() {
    for by_status in [true, false] {
        let (mut bench, epoch) = left_behind();
        bench.free(bench.node(1), Node::Register);
        bench.wait(SECOND * 3);
        let own = bench.record().epoch;
        assert!(bench.record().leader == Some(bench.members[1].me()) && own > epoch);
        let notified = StatusEpoch { epoch: own, ceiling: own };
        bench.command(1, Command::Status(notified));
        bench.enter(1, "y");
        assert!(bench.holds(1, "y"), "of its own view the status tells too");
        if by_status {
            // A status that lagged.
            bench.command(1, Command::Status(StatusEpoch { epoch, ceiling: epoch }));
        } else {
            bench.deliver(bench.members[2].me(), 1, PeerMessage::SealRefused { base: epoch });
        }
        bench.enter(1, "z");
        assert!(!bench.holds(1, "z"));
        let grace = bench.notified.iter().rev().find_map(|(member, event)| {
            if let Event::Grace(until) = event { (*member == 1).then_some(*until) } else { None }
        });
        let timing = bench.policy.timing;
        let all = timing.api_outage + timing.leader_lease + timing.member_lease;
        assert_eq!(grace, Some(Some(bench.now.after(all))));
        bench.wait(all);
        assert!(bench.holds(1, "y") && bench.holds(1, "z"), "what it has granted goes on");
    }
}

/// It may come when its leader has begun another view since, and did not wait.
#[test]
fn rule_39_a_leader_hears_of_a_view_that_one_before_its_own_was_made_beside() {
    for led in [false, true] {
        let (mut bench, epoch) = left_behind();
        bench.stop(0);
        bench.free(bench.node(1), Node::Register);
        bench.wait(SECOND * 3);
        let before = bench.record().epoch;
        let joiner = bench.start();
        bench.wait(SECOND * 2);
        let record = bench.record().clone();
        assert_eq!((record.base, bench.leader()), (Some(before), Some(1)));
        assert!(record.rank(bench.members[joiner].me()).is_some() && before > epoch);
        let notified = if led { before } else { epoch };
        bench.deliver(bench.members[2].me(), 1, PeerMessage::SealRefused { base: notified });
        bench.enter(joiner, "y");
        assert_eq!(bench.holds(joiner, "y"), led, "what led to its view it knows");
    }
}

/// A lock of the members that stands still because nothing is granted is no reason for another view.
#[test]
fn while_nothing_is_granted_the_view_stays() {
    let locks = vec![LockPolicy { algorithm: LockAlgorithm::Lamport, ..LockPolicy::default() }];
    let mut bench = Bench::group(3, Policy { locks, ..Policy::default() });
    let epoch = bench.record().epoch;
    let leader = bench.leader().expect("one leads");
    let unknown = epoch.next();
    bench.command(leader, Command::Status(StatusEpoch { epoch: unknown, ceiling: unknown }));
    bench.enter(0, "y");
    let timing = bench.policy.timing;
    bench.wait(timing.api_outage);
    assert!(!bench.holds(0, "y") && bench.record().epoch == epoch);
    bench.wait(timing.leader_lease + timing.member_lease * 2);
    assert!(bench.holds(0, "y"));
}

/// A member that missed views states which one it followed, and nobody waits for that.
#[test]
fn a_member_that_missed_a_view_costs_nothing() {
    let mut bench = Bench::group(3, Policy::default());
    let epoch = bench.record().epoch;
    bench.cut_off(2);
    for _ in 0..2 {
        bench.start();
        bench.wait(SECOND * 2);
    }
    assert!(bench.record().base > Some(epoch));
    for other in 0..5 {
        bench.free(bench.node(2), bench.node(other));
    }
    bench.wait(SECOND * 3);
    assert_eq!(bench.sent(2, 0, "seal_refused").len(), 1);
    bench.enter(2, "y");
    assert!(bench.holds(2, "y"));
}
