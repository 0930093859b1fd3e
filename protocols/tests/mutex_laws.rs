//! The laws of mutual exclusion, over all interleavings of three members.
//!
//! They are those of the textbooks: at most one is in the critical section; a member that waits enters, if
//! the one in it leaves; nobody is overtaken without end. A member that wants nothing keeps nobody out: in
//! most searches some member never asks, or has asked for the last time, and the others enter all the same.
//! Each law is also seen to fail, on locks that are made to break it.
//!
//! What is here and in `laws.rs` looks at the messages of the central coordinator. The laws in
//! `any.rs` and `storm.rs` hold for every lock, and each has a file of its own that calls for them.

#[path = "mutex_laws/any.rs"]
mod any;
#[path = "mutex_laws/because.rs"]
mod because;
#[path = "mutex_laws/by_name.rs"]
mod by_name;
#[path = "mutex_laws/by_stamps.rs"]
mod by_stamps;
#[path = "mutex_laws/counted.rs"]
mod counted;
#[path = "mutex_laws/flawed.rs"]
mod flawed;
#[path = "mutex_laws/found.rs"]
mod found;
#[path = "mutex_laws/keeping.rs"]
mod keeping;
#[path = "mutex_laws/lamport.rs"]
mod lamport;
#[path = "mutex_laws/laws.rs"]
mod laws;
#[path = "mutex_laws/lease_hours.rs"]
mod lease_hours;
#[path = "mutex_laws/ledger.rs"]
mod ledger;
#[path = "mutex_laws/maekawa.rs"]
mod maekawa;
#[path = "mutex_laws/mortal.rs"]
mod mortal;
#[path = "mutex_laws/notifying.rs"]
mod notifying;
#[path = "mutex_laws/one_token.rs"]
mod one_token;
#[path = "mutex_laws/patience.rs"]
mod patience;
#[path = "mutex_laws/printed.rs"]
mod printed;
#[path = "mutex_laws/rankless.rs"]
mod rankless;
#[path = "mutex_laws/raymond.rs"]
mod raymond;
#[path = "mutex_laws/ricart_agrawala.rs"]
mod ricart_agrawala;
#[path = "mutex_laws/selfish.rs"]
mod selfish;
#[path = "mutex_laws/sparing.rs"]
mod sparing;
#[path = "mutex_laws/stamped.rs"]
mod stamped;
#[path = "mutex_laws/storm.rs"]
mod storm;
#[path = "mutex_laws/superpeers.rs"]
mod superpeers;
mod support;
#[path = "mutex_laws/token_ring.rs"]
mod token_ring;
#[path = "mutex_laws/voting.rs"]
mod voting;
#[path = "mutex_laws/withheld.rs"]
mod withheld;
#[path = "mutex_laws/wrong.rs"]
mod wrong;

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::mutex::central::Central;
use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::sim::Simulator;
use conclave_protocols::{Epoch, MemberId, View, cost};
use laws::{Line, Sections};
use stateright::{Checker, HasDiscoveries, Model};
use support::endless::assert_every_run_ends;
use support::walk::Walk;
use support::world::World;
use wrong::{Fault, Wrong};

const SIZE: u32 = 3;
const LEADER: MemberId = MemberId(SIZE - 1);

fn view(size: u32) -> View {
    View { epoch: Epoch(1), size, leader: MemberId(size - 1) }
}

/// Each member asks so often, and so often somebody gives up while it waits.
fn sections(each: u8, withdrawals: u8) -> Sections {
    Sections { each, withdrawals, carried: Carried::default() }
}

fn world<P: Line>(sections: Sections, fault: Fault) -> World<P, Sections> {
    let carried = sections.carried.clone();
    World::new(SIZE, |me| P::make(me, view(SIZE), &carried, fault), sections)
}

fn check(sections: Sections) {
    let world = world::<Central>(sections, Fault::None);
    let checker = world.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    checker.spawn_bfs().join().assert_properties();
}

#[test]
fn everybody_enters_twice_one_at_a_time_in_order_of_arrival() {
    check(sections(2, 0));
}

#[test]
fn the_same_holds_if_members_give_up_while_they_wait() {
    check(sections(2, 2));
}

#[test]
fn the_same_holds_if_somebody_was_in_section_and_others_waited_in_the_view_before() {
    let carried = Carried { holder: Some(MemberId(0)), waiting: vec![LEADER, MemberId(1)] };
    check(Sections { carried, ..sections(1, 1) });
    let carried = Carried { holder: Some(LEADER), waiting: vec![MemberId(1), MemberId(0)] };
    check(Sections { carried, ..sections(1, 1) });
    let carried = Carried { holder: None, waiting: vec![MemberId(1), LEADER] };
    check(Sections { carried, ..sections(1, 1) });
}

#[test]
fn every_run_ends() {
    assert_every_run_ends(&world::<Central>(sections(2, 1), Fault::None));
}

/// The law that a wrong lock is known to break.
fn breaks(fault: Fault, law: &'static str) {
    let world = world::<Wrong>(sections(2, 1), fault);
    let found = world.checker().threads(2).spawn_bfs().join();
    assert!(found.discovery(law).is_some(), "{fault:?} keeps `{law}`");
}

#[test]
fn a_lock_that_is_right_but_for_its_faults_has_none() {
    let world = world::<Wrong>(sections(2, 1), Fault::None);
    world.checker().threads(2).spawn_bfs().join().assert_properties();
}

#[test]
fn a_lock_that_never_grants_is_found_out() {
    breaks(Fault::NeverGrants, "a member that waits enters");
}

#[test]
fn a_lock_that_grants_only_to_one_is_found_out() {
    breaks(Fault::GrantsOnlyTo(MemberId(0)), "a member that waits enters");
}

#[test]
fn a_lock_that_forgets_who_is_in_section_is_found_out() {
    breaks(Fault::ForgetsWhoIsInSection, "at most one is in the critical section");
}

#[test]
fn a_lock_that_lets_the_last_in_first_is_found_out() {
    breaks(Fault::LastComeFirstServed, "nobody is overtaken in the queue");
    breaks(Fault::LastComeFirstServed, "the queue is in order of arrival");
}

#[test]
fn a_lock_that_takes_a_grant_for_a_request_given_up_is_found_out() {
    breaks(Fault::DoesNotNumberRequests, "at most one is in the critical section");
}

#[test]
fn a_lock_that_forgets_withdrawals_is_found_out() {
    breaks(Fault::ForgetsWithdrawals, "a member that waits enters");
}

#[test]
fn an_entry_costs_what_the_formula_says_for_every_size() {
    for size in 2..=16 {
        let make = |me| Central::new(me, view(size), &Carried::default());
        let mut walk = Walk::new(size, [], make);
        for member in 0..size {
            walk.ask(member, Command::Enter);
        }
        let in_section = |walk: &Walk<Central>| {
            (0..size).find(|m| walk.members[*m as usize].phase() == Phase::InSection)
        };
        walk.settle();
        let mut entries = 0;
        while let Some(member) = in_section(&walk) {
            entries += 1;
            walk.ask(member, Command::Exit);
            walk.settle();
        }
        let others = u64::from(size) - 1;
        assert_eq!(entries, size);
        let [requests, grants, releases, queued] = ["request", "grant", "release", "queued"]
            .map(|name| walk.sent.iter().filter(|sent| name_of(sent) == name).count() as u64);
        assert_eq!((requests, grants, releases), (others, others, others));
        assert_eq!(requests + grants + releases, cost::central(others));
        assert_eq!(queued, cost::central_queued(others), "all but the first had to wait");
    }
}

fn name_of<M: conclave_protocols::Named>(sent: &support::walk::Sent<M>) -> &'static str {
    sent.message.name()
}

/// The figure of the textbook, with a message that takes one unit of time and a critical section of ten.
#[test]
fn the_second_enters_two_units_after_the_first_has_left() {
    let unit = Duration::from_secs(1);
    let mut sim = Simulator::new(1);
    sim.set_delay(unit, unit);
    for me in view(SIZE).members() {
        sim.add(me, Central::new(me, view(SIZE), &Carried::default()));
    }
    sim.command(MemberId(0), Command::Enter);
    sim.run_for(unit / 10);
    sim.command(MemberId(1), Command::Enter);
    sim.run_for(unit * 119 / 10);
    sim.command(MemberId(0), Command::Exit);
    sim.run_for(unit * 10);
    let entered: BTreeMap<MemberId, Duration> = sim
        .take_notified()
        .into_iter()
        .filter(|(_, _, event)| *event == Event::Entered)
        .map(|(at, who, _)| (who, at))
        .collect();
    assert_eq!(entered[&MemberId(0)], unit * 2);
    assert_eq!(entered[&MemberId(1)], unit * 14);
    sim.command(MemberId(1), Command::Exit);
    sim.run_for(unit * 2);
    assert_eq!(sim.sent_in_all() - sim.sent("queued"), cost::central(2));
}
