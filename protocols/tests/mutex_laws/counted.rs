//! Runs of a lock in which messages are counted, or the time that they take.

use std::collections::BTreeSet;
use std::time::Duration;

use conclave_protocols::MemberId;
use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::sim::Simulator;

use crate::any::Lock;
use crate::support::Subject;
use crate::support::walk::Walk;

/// So many members, none of which has asked yet.
pub(crate) fn group<P: Subject + Mutex>(lock: &Lock<P>, size: u32) -> Walk<P> {
    Walk::new(size, [], |me| lock.member(me, crate::view(size), &Carried::default()))
}

/// Everybody asks at the same moment, and leaves when it is in the critical section.
pub(crate) fn all_at_once<P: Subject + Mutex>(lock: &Lock<P>, size: u32) -> Walk<P> {
    let mut walk = group(lock, size);
    for member in 0..size {
        walk.ask(member, Command::Enter);
    }
    walk.settle();
    for _ in 0..size {
        let in_section = those_in_section(&walk).expect("somebody is in");
        walk.ask(in_section, Command::Exit);
        walk.settle();
    }
    assert!(walk.members.iter().all(|member| member.phase() == Phase::Idle));
    walk
}

/// A member enters and leaves while nobody else wants to enter.
pub(crate) fn section<P: Subject + Mutex>(walk: &mut Walk<P>, member: u32) {
    walk.ask(member, Command::Enter);
    walk.settle();
    assert_eq!(those_in_section(walk), Some(member));
    walk.ask(member, Command::Exit);
    walk.settle();
}

/// The same, before anything that is kept goes back because it is not used.
pub(crate) fn brief_section<P: Subject + Mutex>(walk: &mut Walk<P>, member: u32) {
    walk.ask(member, Command::Enter);
    walk.deliver();
    assert_eq!(those_in_section(walk), Some(member));
    walk.ask(member, Command::Exit);
    walk.deliver();
}

/// The rank of the one that is in the critical section.
pub(crate) fn those_in_section<P: Subject + Mutex>(walk: &Walk<P>) -> Option<u32> {
    (0..)
        .zip(&walk.members)
        .find(|(_, member)| member.phase() == Phase::InSection)
        .map(|(id, _)| id)
}

/// How many messages of this name were sent.
pub(crate) fn sent<P: Subject>(walk: &Walk<P>, name: &str) -> u64 {
    walk.count(name, true)
}

/// How long, in times that a message takes, until the first enters, and from when it leaves until
/// the second does. Both ask at about the same moment, and a critical section takes ten.
pub(crate) fn delays<P: Subject + Mutex>(lock: &Lock<P>, size: u32) -> (Duration, Duration) {
    let unit = Duration::from_secs(1);
    let mut sim = Simulator::new(1);
    sim.set_delay(unit, unit);
    for me in crate::view(size).members() {
        sim.add(me, lock.member(me, crate::view(size), &Carried::default()));
    }
    let [first, second] = [MemberId(0), MemberId(1)];
    sim.command(first, Command::Enter);
    sim.run_for(unit / 10);
    sim.command(second, Command::Enter);
    let entered = enters(&mut sim, first);
    sim.run_for((entered + unit * 10).saturating_sub(sim.now()));
    sim.command(first, Command::Exit);
    let left = sim.now();
    (entered, enters(&mut sim, second).saturating_sub(left))
}

/// The same, if the second asks only when the first is in the critical section.
pub(crate) fn delays_in_turn<P: Subject + Mutex>(
    lock: &Lock<P>,
    size: u32,
) -> (Duration, Duration) {
    let unit = Duration::from_secs(1);
    let mut sim = Simulator::new(1);
    sim.set_delay(unit, unit);
    for me in crate::view(size).members() {
        sim.add(me, lock.member(me, crate::view(size), &Carried::default()));
    }
    let [first, second] = [MemberId(0), MemberId(1)];
    sim.command(first, Command::Enter);
    let entered = enters(&mut sim, first);
    sim.command(second, Command::Enter);
    sim.run_for(unit * 10);
    sim.command(first, Command::Exit);
    let left = sim.now();
    (entered, enters(&mut sim, second).saturating_sub(left))
}

/// How long it takes from one entry to the next, in all cases, if these ask at the same moment and a
/// critical section takes ten.
pub(crate) fn between_entries<P: Subject + Mutex>(
    lock: &Lock<P>,
    size: u32,
    asking: &[u32],
) -> BTreeSet<Duration> {
    let unit = Duration::from_secs(1);
    let mut sim = Simulator::new(1);
    sim.set_delay(unit, unit);
    for me in crate::view(size).members() {
        sim.add(me, lock.member(me, crate::view(size), &Carried::default()));
    }
    for member in asking {
        sim.command(MemberId(*member), Command::Enter);
    }
    let mut entries = Vec::new();
    while sim.step_until(unit * 1_000) {
        let notified = sim.take_notified().into_iter();
        for (at, member, _) in notified.filter(|(_, _, event)| *event == Event::Entered) {
            entries.push(at);
            sim.run_for((at + unit * 10).saturating_sub(sim.now()));
            sim.command(member, Command::Exit);
        }
    }
    assert_eq!(entries.len(), asking.len(), "all get in");
    entries.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect()
}

fn enters<P: Subject + Mutex>(sim: &mut Simulator<P>, member: MemberId) -> Duration {
    let end = sim.now() + Duration::from_secs(100);
    while sim.step_until(end) {
        let notified = sim.take_notified();
        if let Some((at, ..)) = notified
            .into_iter()
            .find(|notified| notified.1 == member && notified.2 == Event::Entered)
        {
            return at;
        }
    }
    panic!("{member} waits")
}
