//! What a leader lists for its members, and their seals report: rules 20 to 22 of `docs/views.md`,
//! one by one, with the real member.

use std::time::Duration;

use conclave_protocols::LocalTime;
use conclave_protocols::member::message::{LeaderList, PeerMessage};
use conclave_protocols::member::{Command, Event, LockEvent, LostReason, Node};
use conclave_protocols::policy::{LockAlgorithm, Policy, Timing};
use conclave_protocols::time::hold;

use crate::bench::{Bench, Link, SECOND};

const MILLI: Duration = Duration::from_millis(1);

/// By how much a hold of the leader outlasts its leader lease once another has heard of it.
fn more() -> Duration {
    let Timing { leader_lease, member_lease, .. } = Timing::default();
    hold(member_lease).saturating_sub(hold(leader_lease))
}

fn group(members: usize) -> Bench {
    Bench::group(members, Policy::default())
}

fn leader_lease(bench: &Bench, member: usize) -> LocalTime {
    bench.members[member].leader_lease().expect("it leads")
}

fn notified(bench: &Bench, member: usize, lock: &str) -> LocalTime {
    bench.deadline(member, lock).expect("it holds")
}

/// The list of the latest heartbeat from one member to another.
fn list(bench: &Bench, from: usize, to: usize) -> LeaderList {
    let heartbeats = bench.sent(from, to, "heartbeat");
    let Some(PeerMessage::Heartbeat(heartbeat)) = heartbeats.last() else {
        panic!("no heartbeat: {heartbeats:?}")
    };
    heartbeat.list.clone().expect("a list")
}

/// Waits until a member leads, in tens of milliseconds.
fn until_it_leads(bench: &mut Bench, member: usize) {
    let patience = bench.now.after(SECOND * 30);
    while bench.leader() != Some(member) {
        assert!(bench.now < patience, "{member} never leads");
        bench.wait(MILLI * 10);
    }
}

/// Waits until a member holds a lock that it asks for, and returns the time.
fn granted(bench: &mut Bench, member: usize, lock: &str) -> LocalTime {
    bench.enter(member, lock);
    let patience = bench.now.after(SECOND * 30);
    while !bench.holds(member, lock) {
        assert!(bench.now < patience, "{lock} is never granted");
        bench.wait(MILLI * 10);
    }
    bench.now
}

#[test]
fn rule_22_a_hold_of_the_leader_is_as_long_as_others_once_another_has_heard_of_it() {
    for members in [2, 3, 5] {
        let mut bench = group(members);
        bench.enter(0, "a");
        assert_eq!(notified(&bench, 0, "a"), leader_lease(&bench, 0));
        bench.wait(MILLI * 300);
        assert_eq!(notified(&bench, 0, "a"), leader_lease(&bench, 0).after(more()));
        bench.enter(1, "b");
        assert!(notified(&bench, 0, "a").after(MILLI * 300) > notified(&bench, 1, "b"));
    }
}

#[test]
fn rule_22_a_hold_of_a_leader_that_is_alone_ends_with_its_leader_lease() {
    let mut bench = group(1);
    bench.enter(0, "a");
    bench.wait(SECOND);
    assert_eq!(notified(&bench, 0, "a"), leader_lease(&bench, 0));
}

/// Were it notified of a longer deadline, all others could seal and know nothing of it.
#[test]
fn rule_22_a_promise_to_a_heartbeat_from_before_the_hold_is_no_hearing() {
    let mut bench = group(3);
    for member in [1, 2] {
        bench.way(bench.node(member), bench.node(0), Link::Held);
    }
    bench.wait(MILLI * 300);
    for member in [1, 2] {
        bench.way(bench.node(0), bench.node(member), Link::Held);
    }
    bench.enter(0, "a");
    bench.wait(MILLI * 300);
    assert_eq!(list(&bench, 0, 1).changes.items.len(), 1, "it is listed, and nobody has heard it");
    bench.let_one_pass(bench.node(1), bench.node(0));
    assert_eq!(notified(&bench, 0, "a"), leader_lease(&bench, 0));
    bench.free(bench.node(1), bench.node(0));
    assert_eq!(
        notified(&bench, 0, "a"),
        leader_lease(&bench, 0).after(more()),
        "this one listed it"
    );
}

/// The lease counts from what a majority answered, like the leader lease, whenever the listener heard.
#[test]
fn rule_22_a_listener_alone_makes_no_hold_longer_than_the_majority_does() {
    let mut bench = group(5);
    for member in [2, 3, 4] {
        bench.way(bench.node(member), bench.node(0), Link::Held);
    }
    bench.wait(MILLI * 700);
    bench.enter(0, "a");
    bench.wait(MILLI * 300);
    assert_eq!(notified(&bench, 0, "a"), leader_lease(&bench, 0).after(more()));
    assert!(
        notified(&bench, 0, "a") < bench.now.after(hold(SECOND * 10).saturating_sub(MILLI * 700))
    );
    bench.wait(MILLI * 700);
    let last = notified(&bench, 0, "a");
    assert!(leader_lease(&bench, 0) <= bench.now, "no leader lease any more");
    bench.wait(SECOND);
    bench.let_one_pass(bench.node(2), bench.node(0));
    assert!(leader_lease(&bench, 0) <= bench.now, "what comes that late brings none back");
    assert_eq!(notified(&bench, 0, "a"), last, "it runs out as it was told");
}

#[test]
fn rule_20_seals_tell_what_the_dead_leader_listed() {
    let mut bench = group(3);
    bench.enter(0, "a");
    bench.wait(SECOND);
    let until = notified(&bench, 0, "a");
    bench.stop(0);
    until_it_leads(&mut bench, 1);
    bench.enter(2, "free");
    assert!(bench.holds(2, "free"), "nothing else waits");
    assert!(granted(&mut bench, 2, "a") > until, "the application of the dead may go by this");
    assert!(bench.now < until.after(SECOND * 3), "and not for long after");
}

/// Messages are late by any time, and repeated.
#[test]
fn rule_20_an_older_heartbeat_that_comes_later_changes_nothing() {
    let mut bench = group(3);
    bench.wait(SECOND);
    let older = (*bench.sent(0, 1, "heartbeat").last().expect("one a heartbeat")).clone();
    bench.enter(0, "a");
    bench.wait(SECOND);
    let (until, leader) = (notified(&bench, 0, "a"), bench.members[0].me());
    bench.stop(0);
    for member in [1, 2] {
        bench.deliver(leader, member, older.clone());
    }
    until_it_leads(&mut bench, 1);
    assert!(granted(&mut bench, 2, "a") > until);
}

/// A member that heard of the hold does not seal, and nobody else knows of it.
#[test]
fn rule_20_a_member_lease_passes_if_a_member_that_may_have_heard_does_not_seal() {
    let mut bench = group(4);
    for member in [1, 2] {
        bench.way(bench.node(0), bench.node(member), Link::Held);
    }
    bench.enter(0, "a");
    bench.wait(MILLI * 300);
    for member in [1, 2] {
        bench.way(bench.node(0), bench.node(member), Link::Cut);
    }
    let until = notified(&bench, 0, "a");
    assert_eq!(until, leader_lease(&bench, 0).after(more()), "the fourth heard");
    bench.stop(0);
    bench.stop(3);
    assert!(granted(&mut bench, 2, "a") > until);
}

/// The defaults, and two leaders that are lost 3 s apart. The second led with a lock that it had from
/// before.
#[test]
fn rule_21_the_third_leader_grants_at_once_what_nobody_held() {
    for members in [3, 5] {
        let mut bench = group(members);
        bench.enter(1, "own");
        bench.wait(SECOND);
        bench.stop(0);
        bench.wait(SECOND * 3);
        assert_eq!(bench.leader(), Some(1));
        let until = notified(&bench, 1, "own");
        bench.stop(1);
        until_it_leads(&mut bench, 2);
        bench.enter(2, "free");
        assert!(bench.holds(2, "free"), "of {members} members");
        assert!(granted(&mut bench, 2, "own") > until);
    }
}

#[test]
fn rule_21_the_first_leaders_hold_is_known_in_the_third_view() {
    for (pause, deaf) in [(SECOND / 10, false), (SECOND, false), (SECOND, true)] {
        let mut bench = group(5);
        bench.enter(0, "a");
        bench.wait(SECOND);
        let until = notified(&bench, 0, "a");
        bench.stop(0);
        if deaf {
            // The third leader does not enter the second view: it goes by what others report.
            bench.lost = Some("heartbeat");
            while bench.record().leader != Some(bench.members[1].me()) {
                bench.wait(MILLI * 10);
            }
            bench.way(bench.node(1), bench.node(2), Link::Cut);
            bench.lost = None;
        }
        until_it_leads(&mut bench, 1);
        bench.wait(pause);
        assert_eq!(list(&bench, 1, 3).outsiders.len(), 1);
        bench.stop(1);
        until_it_leads(&mut bench, 2);
        bench.enter(3, "free");
        assert!(bench.holds(3, "free"), "deaf: {deaf}");
        assert!(granted(&mut bench, 3, "a") > until, "deaf: {deaf}");
    }
}

/// Somebody who sealed nothing may hold. The third view waits for the rest, and not anew.
#[test]
fn rule_20_the_third_view_goes_by_the_rest_of_the_seconds_grace_period() {
    let mut bench = group(5);
    bench.enter(4, "a");
    bench.wait(SECOND);
    let until = notified(&bench, 4, "a");
    bench.stop(0);
    bench.stop(4);
    until_it_leads(&mut bench, 1);
    let over = bench.now;
    bench.wait(SECOND * 3);
    let rest = list(&bench, 1, 2).rest;
    assert!(rest > SECOND * 6 && rest < SECOND * 7 + MILLI * 300, "{rest:?}");
    bench.stop(1);
    until_it_leads(&mut bench, 2);
    let granted = granted(&mut bench, 3, "free");
    assert!(granted > until && granted < over.after(SECOND * 10 + MILLI * 300));
    let grace = |member: usize| {
        let of = bench.notified.iter().filter(move |(index, _)| *index == member);
        let grace =
            of.filter_map(
                |(_, event)| {
                    if let Event::Grace(grace) = event { Some(*grace) } else { None }
                },
            );
        grace.collect::<Vec<_>>()
    };
    for member in [2, 3] {
        let notified = grace(member);
        let ends: Vec<LocalTime> = notified.iter().copied().flatten().collect();
        assert!(!ends.is_empty(), "{member} knew until when");
        assert!(ends.iter().all(|end| *end < granted.after(MILLI * 300) && *end > until));
        assert_eq!(notified.last(), Some(&None), "{member} knows that it is over");
    }
}

/// Only the second leader knew what it held.
#[test]
fn rule_20_a_member_lease_passes_if_nobody_entered_the_second_view() {
    let mut bench = group(3);
    bench.enter(1, "own");
    bench.wait(SECOND);
    let until = notified(&bench, 1, "own");
    bench.stop(0);
    bench.lost = Some("heartbeat");
    while bench.record().leader != Some(bench.members[1].me()) {
        bench.wait(MILLI * 10);
    }
    bench.stop(1);
    bench.lost = None;
    let granted = granted(&mut bench, 2, "own");
    assert!(granted > until, "only a member lease makes sure");
}

/// A member alone lists nothing to anybody. Its record states whether the view is settled.
#[test]
fn rule_21_the_next_after_one_that_was_alone_waits_for_nothing() {
    let mut bench = group(1);
    assert!(bench.record().settled);
    bench.link(bench.node(0), Node::Register, Link::Cut);
    bench.wait(SECOND * 30);
    assert_eq!(bench.leader(), None);
    bench.free(bench.node(0), Node::Register);
    let back = bench.now;
    until_it_leads(&mut bench, 0);
    let granted = granted(&mut bench, 0, "free");
    assert!(granted < back.after(SECOND * 5), "after {:?}", granted - back);
}

/// The rest of an older lease of the leader keeps nobody else waiting, so nobody is notified of it. A lock
/// that the members grant is not on the list.
#[test]
fn what_a_leader_does_not_list_is_no_grace_period() {
    let mut policy = Policy::default();
    policy.locks[0].algorithm = LockAlgorithm::Raymond;
    let mut bench = Bench::group(3, policy);
    bench.enter(1, "a");
    bench.wait(SECOND);
    bench.forget();
    bench.command(0, Command::Drain);
    bench.wait(SECOND);
    assert_eq!(bench.leader(), Some(1));
    let notified = |(_, event): &(usize, Event)| matches!(event, Event::Grace(Some(_)));
    assert!(list(&bench, 1, 2).rest > SECOND, "its lease is older");
    assert!(!bench.notified.iter().any(notified));
}

#[test]
fn rule_22_a_leader_that_was_deposed_holds_on_until_its_deadline() {
    let mut bench = group(3);
    bench.enter(0, "a");
    bench.enter(0, "short");
    bench.exit(0, "short");
    bench.wait(SECOND);
    let until = notified(&bench, 0, "a");
    bench.cut_off(0);
    bench.wait(SECOND * 5);
    assert_eq!(bench.leader(), Some(1));
    assert_eq!(bench.deadline(0, "a"), Some(until));
    bench.wait(bench.now.until(until) + MILLI);
    let lost = LockEvent::Lost(LostReason::LeaseExpired);
    let mut ends = bench.lock_events(0, "a").skip_while(|event| **event != lost);
    assert_eq!(ends.next(), Some(&lost));
    assert!(matches!(ends.next(), Some(LockEvent::Left { .. })) && ends.next().is_none());
}

#[test]
fn rule_22_a_leader_that_comes_back_in_time_goes_on_holding() {
    let mut bench = group(3);
    bench.enter(0, "a");
    bench.wait(SECOND);
    let until = notified(&bench, 0, "a");
    bench.cut_off(0);
    bench.wait(SECOND * 4);
    assert_eq!(bench.leader(), Some(1));
    for other in [1, 2] {
        bench.free(bench.node(0), bench.node(other));
    }
    bench.enter(2, "a");
    bench.wait(bench.now.until(until) + SECOND * 5);
    assert_eq!(bench.record().members.len(), 3);
    assert!(bench.holds(0, "a") && !bench.holds(2, "a"));
    bench.exit(0, "a");
    assert!(bench.holds(2, "a"));
}

/// However many they are; and once all know of them, nothing of it is sent again.
#[test]
fn all_holds_of_a_leader_are_listed_and_each_once() {
    let mut bench = group(3);
    let names: Vec<String> = (0..200).map(|number| format!("{number:03}")).collect();
    for name in &names {
        bench.enter(0, name);
    }
    bench.wait(SECOND);
    let end = leader_lease(&bench, 0).after(more());
    assert!(names.iter().all(|name| bench.deadline(0, name) == Some(end)));
    assert!(list(&bench, 0, 1).changes.items.is_empty());
    bench.cut_off(2);
    bench.exit(0, &names[0]);
    bench.forget();
    bench.wait(SECOND * 5);
    assert_eq!(list(&bench, 0, 1).changes.items, [], "it is known");
    let to_the_other = bench.sent(0, 2, "heartbeat");
    let one = |list: &LeaderList| list.changes.items.len() == 1;
    let listed = to_the_other.iter().filter(|message| {
        let PeerMessage::Heartbeat(heartbeat) = message else { panic!("{message:?}") };
        heartbeat.list.as_ref().is_some_and(one)
    });
    let listed = listed.count();
    assert!(listed > 1 && listed < to_the_other.len() / 2, "once in a leader lease: {listed}");
    bench.stop(0);
    bench.free(bench.node(1), bench.node(2));
    until_it_leads(&mut bench, 1);
    bench.enter(1, &names[1]);
    assert!(!bench.holds(1, &names[1]));
}

/// What is on its way to a member is not sent to it again, and what comes meanwhile follows it.
#[test]
fn a_leader_lists_nothing_twice_to_a_member_that_is_slow() {
    let mut bench = group(3);
    bench.wait(SECOND);
    bench.way(bench.node(0), bench.node(1), Link::Held);
    bench.way(bench.node(0), bench.node(2), Link::Cut);
    bench.forget();
    let names: Vec<String> = (0..20).map(|number| format!("{number:03}")).collect();
    let heartbeat = bench.record().timing.heartbeat;
    for some in names.chunks(10) {
        for name in some {
            bench.enter(0, name);
        }
        bench.wait(heartbeat);
    }
    let listed: Vec<usize> = bench
        .sent(0, 1, "heartbeat")
        .iter()
        .map(|message| {
            let PeerMessage::Heartbeat(heartbeat) = message else { panic!("{message:?}") };
            heartbeat.list.as_ref().map_or(0, |list| list.changes.items.len())
        })
        .collect();
    assert_eq!(listed.iter().sum::<usize>(), 20, "{listed:?}");
    bench.free(bench.node(0), bench.node(1));
    bench.wait(heartbeat);
    let end = leader_lease(&bench, 0).after(more());
    assert!(names.iter().all(|name| bench.deadline(0, name) == Some(end)));
}
