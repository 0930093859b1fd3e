//! What the laws of any lock find, and what they let pass.

use std::time::Duration;

use conclave_protocols::mutex::Mutex;
use conclave_protocols::mutex::central::Central;
use conclave_protocols::mutex::lamport::Lamport;
use conclave_protocols::mutex::maekawa::Maekawa;
use conclave_protocols::mutex::ricart_agrawala::RicartAgrawala;
use conclave_protocols::{MemberId, cost};

use crate::any::{Lock, Sections, assert_breaks, assert_every_wait_ends, check, laws_of};
use crate::counted::{all_at_once, between_entries, delays, group, section, sent};
use crate::laws::Line;
use crate::lease_hours::{LeaseHours, Timer};
use crate::ledger::Since;
use crate::storm::{self, Broken};
use crate::support::world::Order;
use crate::wrong::{Fault, Wrong};

mod central {
    super::laws_of!(super::central(), asks: [2, 2, 2]);
}

mod a_lock_that_never_rests {
    super::laws_of!(super::lease_hours(true));
}

fn central() -> Lock<Central> {
    Lock::new(Central::new).overtaken(Since::Queued, 1)
}

fn lease_hours(looks: bool) -> Lock<LeaseHours> {
    let make = move |me, view, carried: &_| LeaseHours::make(me, view, carried, looks);
    let is_idle = |timer| match timer {
        Timer::Open => true,
    };
    Lock::new(make).overtaken(Since::Queued, 1).idling(is_idle)
}

fn wrong(fault: Fault) -> Lock<Wrong> {
    Lock::new(move |me, view, carried| Wrong::make(me, view, carried, fault))
        .overtaken(Since::Queued, 1)
}

/// The search and the simulator find the same fault.
#[track_caller]
fn assert_found(fault: Fault, law: &'static str, expected: fn(&Broken) -> bool) {
    let lock = wrong(fault);
    assert_breaks(lock.world(Sections::of([2, 2, 2]).with_withdrawals(1)), law);
    let broken = (0..100).find_map(|seed| storm::run(&lock, seed).err());
    assert!(broken.as_ref().is_some_and(expected), "{fault:?}: {broken:?}");
}

#[test]
fn what_is_counted_is_what_the_textbook_says_of_the_coordinator() {
    let walk = all_at_once(&central(), 5);
    assert_eq!(walk.sent.len() as u64, cost::central(4) + cost::central_queued(4));
    assert_eq!(sent(&walk, "queued"), cost::central_queued(4));
    let mut walk = group(&central(), 5);
    for (member, others) in [(4, 0), (0, 1), (4, 1)] {
        section(&mut walk, member);
        assert_eq!(walk.sent.len() as u64, cost::central(others));
    }
    let unit = Duration::from_secs(1);
    assert_eq!(delays(&central(), 3), (unit * 2, unit * 2));
}

/// Of three members the last coordinates. A member that died before the view began has left it as it is.
#[test]
fn the_crash_of_a_member_that_neither_waits_nor_is_in_section_is_not_noticed_and_that_of_others_is()
{
    let asking = || Sections::of([0, 2, 2]).with_withdrawals(1);
    check(central().world(asking()).with_dead(0));
    check(central().world(asking().carrying(Some(1), &[2])).with_dead(0));
    for (holder, waiting) in [(Some(0), [].as_slice()), (None, &[0]), (Some(1), &[0, 2])] {
        let world = central().world(asking().carrying(holder, waiting)).with_dead(0);
        assert_breaks(world, "a member that waits enters");
    }
    let without_coordinator = central().world(Sections::of([1, 1, 0])).with_dead(2);
    assert_breaks(without_coordinator, "a member that waits enters");
}

#[test]
fn where_messages_overtake_one_another_somebody_waits_for_ever() {
    let sections = Sections::of([1, 1, 0]).with_withdrawals(1);
    assert_breaks(central().world(sections).with_order(Order::Any), "a member that waits enters");
}

/// The throughput of the textbook, where a message takes one and a critical section ten: one entry in twelve
/// with a coordinator that does not enter itself, and with voters; one in eleven where everybody is asked.
#[test]
fn an_entry_follows_another_after_twelve_or_where_everybody_is_asked_after_eleven() {
    let [eleven, twelve] = [11, 12].map(Duration::from_secs);
    assert_eq!(between_entries(&central(), 4, &[0, 1, 2]), [twelve].into());
    let with_the_coordinator = between_entries(&central(), 4, &[0, 1, 2, 3]);
    assert_eq!(with_the_coordinator, [eleven, twelve].into(), "it sends itself no messages");
    assert_eq!(between_entries(&Lock::new(Lamport::new), 4, &[0, 1, 2, 3]), [eleven].into());
    assert_eq!(between_entries(&Lock::new(RicartAgrawala::new), 4, &[0, 1, 2, 3]), [eleven].into());
    assert_eq!(between_entries(&Lock::new(Maekawa::new), 9, &[0, 4, 8]), [twelve].into());
}

#[test]
fn an_order_that_is_not_kept_is_found_out() {
    let nobody_waits_while_one_is_in_section = central().in_order(|_, _| false);
    let world = nobody_waits_while_one_is_in_section.world(Sections::of([1, 1, 1]));
    assert_breaks(world, "everybody gets in in its turn");
    let broken =
        (0..100).find_map(|seed| storm::run(&nobody_waits_while_one_is_in_section, seed).err());
    assert_eq!(broken, Some(Broken::OutOfTurn));
}

#[test]
fn a_lock_that_is_right_but_for_its_faults_passes() {
    let lock = wrong(Fault::None);
    check(lock.world(Sections::of([2, 2, 2]).with_withdrawals(1)));
    storm::blow(&lock);
}

#[test]
fn a_lock_that_never_grants_lets_somebody_wait() {
    assert_found(Fault::NeverGrants, "a member that waits enters", |broken| {
        matches!(broken, Broken::Waits(_))
    });
}

#[test]
fn a_lock_that_grants_only_to_one_lets_the_others_wait_and_be_overtaken() {
    let fault = Fault::GrantsOnlyTo(MemberId(0));
    assert_found(fault, "a member that waits enters", |broken| {
        matches!(broken, Broken::Waits(_) | Broken::OvertakenTooOften)
    });
    assert_breaks(wrong(fault).world(Sections::of([3, 1, 1])), OVERTAKEN);
    let broken: Vec<_> =
        (0..100).filter_map(|seed| storm::run(&wrong(fault), seed).err()).collect();
    assert!(broken.contains(&Broken::OvertakenTooOften), "{broken:?}");
}

#[test]
fn a_lock_that_forgets_who_is_in_section_lets_a_second_in() {
    assert_found(
        Fault::ForgetsWhoIsInSection,
        "at most one is in the critical section",
        |broken| *broken == Broken::SeveralInSection,
    );
}

#[test]
fn a_lock_that_lets_the_last_in_first_overtakes() {
    assert_found(Fault::LastComeFirstServed, OVERTAKEN, |broken| {
        *broken == Broken::OvertakenTooOften
    });
}

#[test]
fn a_lock_that_takes_a_grant_for_a_request_given_up_lets_a_second_in() {
    assert_found(
        Fault::DoesNotNumberRequests,
        "at most one is in the critical section",
        |broken| *broken == Broken::SeveralInSection,
    );
}

#[test]
fn a_lock_that_forgets_withdrawals_lets_somebody_wait() {
    assert_found(Fault::ForgetsWithdrawals, "a member that waits enters", |broken| {
        matches!(broken, Broken::Waits(_))
    });
}

#[test]
fn a_lock_that_does_not_tell_misleads() {
    assert_found(Fault::DoesNotTell, "applications are told what is so", |broken| {
        *broken == Broken::Misled
    });
}

#[test]
#[should_panic(expected = "a run may go on for ever")]
fn a_wait_in_which_a_timer_fires_again_and_again_is_found_out() {
    assert_every_wait_ends(&lease_hours(false).world(Sections::of([1, 1, 1])));
}

#[test]
fn a_lock_whose_timer_changes_nothing_lets_everybody_else_wait() {
    let broken = (0..100).find_map(|seed| storm::run(&lease_hours(false), seed).err());
    assert!(matches!(broken, Some(Broken::Waits(_))), "{broken:?}");
}

const OVERTAKEN: &str = "nobody is overtaken too often";
