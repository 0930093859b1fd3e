//! What applications may believe of leadership: rules 35 to 37 of `docs/views.md`.

use std::time::Duration;

use conclave_protocols::LocalTime;
use conclave_protocols::member::message::PeerMessage;
use conclave_protocols::member::{Command, Event, Leadership, Node};
use conclave_protocols::policy::{Arbiter, LockAlgorithm, Policy, Timing};
use conclave_protocols::time::hold;

use crate::bench::{Bench, Link, SECOND};
use crate::peer_rules;

const MILLI: Duration = Duration::from_millis(1);

fn led_until(bench: &Bench, member: usize) -> LocalTime {
    match bench.leadership(member) {
        Some(Leadership::Leading(until)) => until,
        other => panic!("{member} is {other:?}"),
    }
}

fn three() -> Bench {
    let mut bench = Bench::group(3, Policy::default());
    bench.wait(SECOND);
    bench
}

#[test]
fn rule_35_a_leader_that_stays_is_sent_nothing_else() {
    let mut bench = three();
    let epoch = bench.record().epoch;
    bench.start();
    bench.wait(SECOND * 2);
    bench.command(2, Command::Leave);
    bench.wait(SECOND * 2);
    assert!(bench.record().epoch.0 >= epoch.0 + 2, "two views began");
    let mut before = LocalTime(0);
    for (_, event) in bench.notified.iter().filter(|(member, _)| *member == 0) {
        let Event::Leadership(leadership) = event else { continue };
        let Leadership::Leading(until) = leadership else { panic!("it was told {leadership:?}") };
        assert!(*until >= before, "no deadline is taken back");
        before = *until;
    }
}

#[test]
fn rule_36_the_successor_of_a_leader_that_left_is_believed_in_a_leader_lease_later() {
    let mut bench = three();
    let leader_lease = Policy::default().timing.leader_lease;
    let until = led_until(&bench, 0);
    bench.command(0, Command::Leave);
    assert_eq!(bench.leader(), Some(1), "the leader lease passes on at once");
    bench.enter(2, "a");
    assert!(bench.holds(2, "a"), "and grants");
    bench.wait(leader_lease.saturating_sub(MILLI * 20));
    assert_eq!(bench.leadership(1), Some(Leadership::Electing));
    assert!(bench.now > until, "by then nobody believes in the former");
    bench.wait(MILLI * 300);
    assert!(led_until(&bench, 1) > bench.now);
}

#[test]
fn rule_37_a_leader_that_drains_hands_over_when_its_last_deadline_has_passed() {
    let mut bench = three();
    let until = led_until(&bench, 0);
    bench.command_believed(0, Command::Drain);
    assert_eq!(bench.leadership(0), Some(Leadership::HandingOver));
    let base = bench.record().epoch;
    while bench.now < until {
        assert_eq!(bench.leader(), Some(0), "it keeps its leader lease");
        assert!(bench.sent(0, 1, "hand_over").is_empty());
        bench.wait(MILLI);
    }
    bench.enter(2, "a");
    assert!(bench.holds(2, "a"), "nothing waits meanwhile");
    bench.wait(MILLI * 2);
    assert_eq!(bench.leader(), Some(1));
    assert!(bench.record().epoch > base);
    assert!(led_until(&bench, 1) > bench.now, "and is believed in at once");
}

#[test]
fn rule_37_a_leader_that_drains_waits_no_longer_than_for_the_deadline_that_it_sent() {
    let mut bench = three();
    let until = led_until(&bench, 0);
    bench.command_believed(0, Command::Drain);
    let notified = bench.now.after(MILLI * 100);
    bench.command_believed(0, Command::Notified(notified));
    assert_eq!(bench.leader(), Some(0));
    bench.wait(MILLI * 105);
    assert!(bench.now < until);
    assert_eq!(bench.leader(), Some(1));
    assert!(led_until(&bench, 1) > bench.now);
}

#[test]
fn rule_37_a_leader_whose_successor_is_gone_is_believed_again() {
    let mut bench = three();
    bench.command_believed(0, Command::Drain);
    for other in [1, 2] {
        bench.command_believed(other, Command::Drain);
    }
    bench.wait(SECOND * 3);
    assert_eq!(bench.leader(), Some(0), "all drain, so it stays");
    assert!(led_until(&bench, 0) > bench.now);
}

/// Two pods of one node end: the first hands over to the second before it has heard that this ends too.
fn two_of_a_node() -> Bench {
    let mut bench = Bench::group(4, Policy::default());
    bench.wait(SECOND);
    bench.command_believed(1, Command::Drain);
    bench.command(0, Command::Drain);
    assert_eq!(bench.sent(0, 1, "hand_over").len(), 1);
    bench
}

#[test]
fn rule_37_a_leader_that_drains_and_took_over_hands_on_before_anybody_is_notified() {
    let mut bench = two_of_a_node();
    let begun = bench.now;
    while bench.leader() != Some(2) {
        if let Some(Leadership::HandingOver) = bench.leadership(1) {
            bench.command_believed(1, Command::Notified(LocalTime(0)));
        }
        bench.wait(MILLI);
        assert!(bench.now < begun.after(MILLI * 200), "no heartbeat passes");
    }
    let led = |(member, event): &(usize, Event)| {
        *member == 1 && matches!(event, Event::Leadership(Leadership::Leading(_)))
    };
    assert!(!bench.notified.iter().any(led));
    assert!(led_until(&bench, 2) > bench.now, "and the third is believed in at once");
}

#[test]
fn rule_36_the_successor_of_a_leader_that_left_and_nobody_believed_in_does_not_wait() {
    let mut bench = Bench::group(4, Policy::default());
    bench.wait(SECOND);
    for other in [1, 2, 3] {
        bench.link(bench.node(0), bench.node(other), Link::Held);
    }
    bench.command(0, Command::Drain);
    let epoch = bench.record().epoch;
    bench.command_believed(0, Command::Leave);
    for other in [1, 2, 3] {
        bench.free(bench.node(0), bench.node(other));
    }
    bench.wait(MILLI * 100);
    assert!(bench.record().epoch > epoch);
    let next = bench.leader().expect("somebody leads");
    assert!(led_until(&bench, next) > bench.now);
}

#[test]
fn rule_37_a_leader_that_drains_and_took_over_waits_for_slow_members_before_it_hands_on() {
    let mut bench = Bench::group(5, Policy::default());
    bench.wait(SECOND);
    bench.command_believed(1, Command::Drain);
    for slow in [3, 4] {
        bench.link(bench.node(1), bench.node(slow), Link::Held);
    }
    bench.command(0, Command::Drain);
    for tick in 0..200 {
        bench.wait(MILLI * 10);
        assert_eq!(bench.record().members.len(), 5, "after {tick} hundredths of a second");
        if tick == 35 {
            for slow in [3, 4] {
                bench.free(bench.node(1), bench.node(slow));
            }
        }
    }
    assert_eq!(bench.leader(), Some(2));
}

/// It stays the leader, and is believed, if all that could follow it are silent.
#[test]
fn rule_37_a_leader_that_drains_and_took_over_leads_if_nobody_promises() {
    let mut bench = two_of_a_node();
    for other in [2, 3] {
        bench.command_believed(other, Command::Drain);
    }
    bench.command(1, Command::Notified(LocalTime(0)));
    bench.wait(SECOND * 3);
    let leader = bench.leader().expect("somebody leads");
    assert!(led_until(&bench, leader) > bench.now, "all drain, so one of them stays");
}

#[test]
fn rule_37_nobody_seals_while_its_own_applications_may_believe() {
    let mut bench = three();
    let base = bench.record().epoch;
    let until = led_until(&bench, 0);
    // The table is lost, and nobody takes over.
    bench.cut_off(0);
    bench.command(0, Command::Leave);
    assert!(bench.now < until);
    bench.deliver(bench.members[2].me(), 0, PeerMessage::SealRequest { base });
    assert_eq!(bench.sent(0, 2, "seal").len(), 0);
    assert_eq!(bench.sent(0, 2, "seal_refused").len(), 1);
}

#[test]
fn a_deadline_that_is_published_is_no_longer_than_what_a_majority_promised() {
    let bench = three();
    let leader_lease = Policy::default().timing.leader_lease;
    assert!(led_until(&bench, 0) <= bench.now.after(hold(leader_lease)));
}

/// A successor was silent for a moment while admission was closed for the hand-over, so that the leader's
/// applications were notified once more that it leads; then it answered, and was handed the leader lease at once.
#[test]
fn rule_37_nobody_is_handed_a_leader_lease_that_applications_were_notified_of_again() {
    let mut bench = Bench::group(3, peer_rules::policy(LockAlgorithm::RicartAgrawala));
    bench.wait(SECOND);
    bench.command(2, Command::Drain);
    bench.wait(SECOND);
    // So long before the leader drains, and so long after, the successor is not heard of.
    for (before, after) in
        (620..760).step_by(10).flat_map(|b| (690..760).step_by(6).map(move |a| (b, a)))
    {
        let mut bench = bench.clone();
        bench.link(bench.node(0), bench.node(1), Link::Held);
        bench.wait(MILLI * before);
        bench.command(0, Command::Drain);
        let mut notified = LocalTime(0);
        for step in 0..2_000 {
            if step == after {
                bench.free(bench.node(0), bench.node(1));
            }
            bench.wait(MILLI);
            if let Some(Leadership::Leading(until)) = bench.leadership(0) {
                notified = notified.max(until);
            }
            let successor = bench.leadership(1).is_some_and(leads);
            assert!(!successor || notified <= bench.now, "two believe: {before} ms, {after} ms");
        }
    }
}

/// What was advisory came to be called safe: leaders of two sides, both of which went over to an arbiter.
#[test]
fn rule_35_nobody_is_believed_on_for_what_was_advisory() {
    let mut bench = Bench::new(Policy { arbiter: Arbiter::None, ..Policy::default() });
    bench.start();
    bench.command(0, Command::Discovered(Vec::new()));
    bench.wait(SECOND * 5);
    assert!(bench.leadership(0).is_some_and(leads));
    bench.way(Node::Register, bench.node(0), Link::Held);
    bench.command(0, Command::Policy(Box::new(Policy { generation: 1, ..Policy::default() })));
    while bench.members[0].arbiter() == Arbiter::None && bench.sent.len() < 100_000 {
        bench.wait(MILLI * 10);
        if bench.calls(0, "read") > 0 {
            bench.let_one_pass(Node::Register, bench.node(0));
        }
    }
    assert!(!bench.leadership(0).is_some_and(leads), "{:?}", bench.leadership(0));
}

/// The leader lease was made shorter while a leader's application had been notified of a deadline by the
/// longer. The leader froze in its next view, and a follower waited for the shorter alone.
#[test]
fn rule_36_a_shorter_wait_comes_into_force_when_no_belief_outlasts_it() {
    let mut bench = Bench::group(2, Policy::default());
    bench.wait(SECOND);
    let (until, epoch) = (led_until(&bench, 0), bench.record().epoch);
    let (leader_lease, heartbeat) = (MILLI * 600, MILLI * 120);
    let timing = Timing { leader_lease, heartbeat, ..Policy::default().timing };
    let shorter = Policy { generation: 2, timing, ..Policy::default() };
    for member in [0, 1] {
        bench.command(member, Command::Policy(Box::new(shorter.clone())));
    }
    bench.wait(heartbeat * 3);
    assert!(bench.record().epoch > epoch && bench.now < until, "a view of the new policy");
    let mut frozen = bench.clone();
    frozen.stop(0);
    while frozen.leader() != Some(1) {
        frozen.wait(MILLI * 10);
    }
    while frozen.now < until {
        assert_ne!(frozen.leadership(1).map(leads), Some(true), "two believe");
        frozen.wait(MILLI * 10);
    }
    bench.wait(SECOND * 5);
    assert_eq!(bench.record().timing.leader_lease, leader_lease);
    let longest = bench.record().longest_leader_lease;
    assert_eq!(longest, Policy::default().timing.leader_lease, "those of the view before were");
    assert_eq!(bench.leader(), Some(0));
    let notified = bench.notified.iter().filter(|(member, _)| *member == 0);
    let all = notified
        .filter_map(|(_, event)| if let Event::Leadership(s) = event { Some(*s) } else { None });
    assert!(all.into_iter().all(leads), "its belief goes on");
}

fn leads(leadership: Leadership) -> bool {
    matches!(leadership, Leadership::Leading(_))
}
