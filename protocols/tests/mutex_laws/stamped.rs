//! The central coordinator with a queue in the order of stamps: its laws, and what it costs.

use std::cmp::Reverse;
use std::time::Duration;

use conclave_protocols::mutex::{Carried, Command, Event, Mutex};
use conclave_protocols::sim::Simulator;
use conclave_protocols::{MemberId, cost};

use crate::any::{Lock, Search, Sections, assert_breaks, laws_of};
use crate::by_stamps::{Order, Stamped, are_in_line};
use crate::counted::{all_at_once, delays, sent, those_in_section};
use crate::ledger::Since;
use crate::notifying::{Clocks, Notifying};
use crate::storm::{self, Broken};
use crate::support::walk::Walk;

mod alone {
    super::laws_of!(super::stamped(), asks: [2, 2, 2]);
}

mod among_members_that_exchange_messages {
    super::laws_of!(super::notifying(super::Order::Stamps, super::Clocks::Follow), super::search());
}

/// A lock whose members hear of each other's requests only from the coordinator, and whose clocks
/// stand apart.
fn stamped() -> Lock<Stamped> {
    Lock::new(Stamped::new)
}

/// Each other goes first at most once: it learns the time of the request that waits when it is admitted, and
/// asks later the next time. Only a member that was admitted already, and does not know yet, may do so once more.
fn notifying(order: Order, clocks: Clocks) -> Lock<Notifying<Stamped>> {
    in_line(order, clocks).overtaken(Since::Queued, 2).overtaken_in_all(|size| size)
}

fn in_line(order: Order, clocks: Clocks) -> Lock<Notifying<Stamped>> {
    Lock::new(move |me, view, carried| {
        Notifying::around(Stamped::of(order, me, view, carried), clocks, me, view)
    })
    .lined_up(are_in_line)
}

fn search() -> Search {
    Search {
        sections: Sections::of([2, 1, 1]),
        giving_up: Sections::of([1, 1, 1]).with_withdrawals(1),
        carrying: Sections::of([1, 1, 0]).with_withdrawals(1),
    }
}

/// The search and the simulator both find somebody in line before one that asked first.
fn assert_out_of_turn(order: Order, clocks: Clocks) {
    let lock = notifying(order, clocks);
    assert_breaks(lock.world(Sections::of([1, 1, 1])), "everybody gets in in its turn");
    let broken = (0..100).find_map(|seed| storm::run(&lock, seed).err());
    assert_eq!(broken, Some(Broken::OutOfTurn));
}

#[test]
fn by_arrival_somebody_stands_in_line_before_one_that_asked_first() {
    assert_out_of_turn(Order::Arrival, Clocks::Follow);
}

#[test]
fn stamps_of_clocks_that_do_not_follow_each_other_do_not_tell_which_member_asked_first() {
    assert_out_of_turn(Order::Stamps, Clocks::StandApart);
}

#[test]
fn whose_clock_stands_behind_goes_first_again_and_again() {
    let too_few = in_line(Order::Stamps, Clocks::Follow).overtaken(Since::Queued, 1);
    assert_breaks(too_few.world(Sections::of([2, 1, 1])), "nobody is overtaken too often");
    let lock = stamped().overtaken(Since::Queued, 2);
    let broken = (0..1_000).find_map(|seed| storm::run(&lock, seed).err());
    assert_eq!(broken, Some(Broken::OvertakenTooOften));
}

#[test]
fn the_order_of_stamps_costs_no_message_and_no_time() {
    let unit = Duration::from_secs(1);
    for size in 2..=16 {
        let (walk, others) = (all_at_once(&stamped(), size), u64::from(size) - 1);
        assert_eq!(walk.sent.len() as u64 - sent(&walk, "queued"), cost::central(others));
        assert_eq!(sent(&walk, "queued"), cost::central_queued(others));
        assert_eq!(delays(&stamped(), size.max(3)), (unit * 2, unit * 2));
    }
}

/// The members that are admitted, if the coordinator leaves after so long, which is in the critical section
/// when 0 asks over a slow link, and 1 a little later over a fast one and knowing of it.
fn entered(order: Order, stay: Duration) -> Vec<u32> {
    let unit = Duration::from_secs(1);
    let mut sim = Simulator::new(1);
    sim.set_delay(unit, unit);
    sim.slow(MemberId(0), crate::LEADER, unit * 5, unit * 5);
    for me in crate::view(crate::SIZE).members() {
        sim.add(me, notifying(order, Clocks::Follow).member(me, crate::view(3), &<_>::default()));
    }
    for member in [crate::LEADER, MemberId(0)] {
        sim.command(member, Command::Enter);
    }
    sim.run_for(unit * 3 / 2);
    sim.command(MemberId(1), Command::Enter);
    sim.run_for(stay.saturating_sub(sim.now()));
    sim.command(crate::LEADER, Command::Exit);
    let mut entered = vec![];
    for _ in 0..20 {
        sim.run_for(unit);
        for (_, member, event) in sim.take_notified() {
            if event == Event::Entered && member != crate::LEADER {
                entered.push(member.0);
                sim.command(member, Command::Exit);
            }
        }
    }
    assert!(sim.nodes().all(|(_, member)| member.phase() == super::Phase::Idle));
    entered
}

/// The two orders of the textbooks, of arrival and of asking, and what the second is worth: the
/// coordinator waits for nobody's older request.
#[test]
fn the_first_to_ask_is_first_if_its_request_is_there_when_the_lock_comes_free() {
    let (early, late) = (Duration::from_secs(4), Duration::from_secs(8));
    assert_eq!(entered(Order::Stamps, late), [0, 1]);
    assert_eq!(entered(Order::Arrival, late), [1, 0]);
    assert_eq!(entered(Order::Stamps, early), [1, 0], "its request is still under way");
}

/// A group of three that begins so.
fn group(order: Order, carried: &Carried) -> Walk<Stamped> {
    Walk::new(3, [], |me| Stamped::of(order, me, crate::view(3), carried))
}

/// 0 asks and lets 1 know, which asks too and is heard first.
fn the_second_is_heard_first(walk: &mut Walk<Stamped>) {
    walk.ask(0, Command::Enter);
    let time = walk.members[0].time();
    walk.members[1].witness(time);
    walk.ask(1, Command::Enter);
    walk.settle_by(|sent| Reverse(sent.from));
}

/// They are admitted in this order, and nobody else is.
fn assert_admitted(walk: &mut Walk<Stamped>, order: &[u32]) {
    for member in order {
        assert_eq!(those_in_section(walk), Some(*member), "{order:?}");
        walk.ask(*member, Command::Exit);
        walk.settle();
    }
    assert_eq!(those_in_section(walk), None);
}

#[test]
fn by_stamps_the_member_that_asked_first_is_in_first_if_both_wait() {
    for (order, next) in [(Order::Arrival, [1, 0]), (Order::Stamps, [0, 1])] {
        let mut walk = group(order, &Carried::default());
        walk.ask(2, Command::Enter);
        the_second_is_heard_first(&mut walk);
        assert_eq!(walk.members[2].queue(), next.map(MemberId), "{order:?}");
        assert_admitted(&mut walk, &[2, next[0], next[1]]);
        let cost = walk.sent.len() as u64 - sent(&walk, "queued");
        assert_eq!(cost, cost::central(2), "the order costs nothing");
    }
}

#[test]
fn a_member_in_its_section_stays_there_though_an_older_request_arrives() {
    let mut walk = group(Order::Stamps, &Carried::default());
    the_second_is_heard_first(&mut walk);
    assert_admitted(&mut walk, &[1, 0]);
}

#[test]
fn of_equal_stamps_the_lower_rank_is_first() {
    let in_section = Carried { holder: Some(crate::LEADER), waiting: vec![] };
    let mut walk = group(Order::Stamps, &in_section);
    for member in [1, 0] {
        walk.ask(member, Command::Enter);
    }
    assert_eq!(walk.members[0].time(), walk.members[1].time());
    walk.settle();
    assert_eq!(walk.members[2].queue(), [MemberId(0), MemberId(1)]);
}

#[test]
fn those_carried_over_are_before_all_that_have_stamps() {
    let carried = Carried { holder: Some(crate::LEADER), waiting: vec![MemberId(1)] };
    let mut walk = group(Order::Stamps, &carried);
    walk.ask(0, Command::Enter);
    walk.settle();
    walk.ask(2, Command::Exit);
    walk.ask(2, Command::Enter);
    walk.settle();
    assert_admitted(&mut walk, &[1, 0, 2]);
}

#[test]
fn a_coordinator_that_asks_is_later_than_all_that_it_has_heard_of() {
    let carried = Carried { holder: Some(MemberId(1)), waiting: vec![] };
    let mut walk = group(Order::Stamps, &carried);
    for command in [Command::Enter, Command::Exit, Command::Enter] {
        walk.ask(0, command);
        walk.settle();
    }
    walk.ask(2, Command::Enter);
    assert_eq!(walk.members[2].queue(), [MemberId(0), crate::LEADER]);
}
