//! What the laws of any lock find, and what they let pass.

use std::time::Duration;

use conclave_protocols::mutex::Mutex;
use conclave_protocols::mutex::central::Central;
use conclave_protocols::{MemberId, cost};

use crate::any::{Lock, Visits, assert_breaks, assert_every_wait_ends, laws_of};
use crate::counted::{all_at_once, delays, group, sent, visit};
use crate::laws::Line;
use crate::ledger::Since;
use crate::office_hours::{OfficeHours, Timer};
use crate::storm::{self, Broken};
use crate::wrong::{Fault, Wrong};

mod central {
    super::laws_of!(super::central(), asks: [2, 2, 2]);
}

mod a_lock_that_never_rests {
    super::laws_of!(super::office_hours(true));
}

fn central() -> Lock<Central> {
    Lock::new(Central::new).overtaken(Since::Queued, |size| size - 1)
}

fn office_hours(looks: bool) -> Lock<OfficeHours> {
    let make = move |me, view, carried: &_| OfficeHours::make(me, view, carried, looks);
    let is_idle = |timer| match timer {
        Timer::Open => true,
    };
    Lock::new(make).overtaken(Since::Queued, |size| size - 1).idling(is_idle)
}

fn wrong(fault: Fault) -> Lock<Wrong> {
    Lock::new(move |me, view, carried| Wrong::make(me, view, carried, fault))
        .overtaken(Since::Queued, |size| size - 1)
}

/// The search and the simulator find the same fault.
#[track_caller]
fn assert_found(fault: Fault, law: &'static str, expected: fn(&Broken) -> bool) {
    let lock = wrong(fault);
    assert_breaks(lock.world(Visits::of([2, 2, 2]).with_withdrawals(1)), law);
    let broken = (0..100).find_map(|seed| storm::run(&lock, seed).err());
    assert!(broken.as_ref().is_some_and(expected), "{fault:?}: {broken:?}");
}

#[test]
fn what_is_counted_is_what_the_books_say_of_the_coordinator() {
    let walk = all_at_once(&central(), 5);
    assert_eq!(walk.sent.len() as u64, cost::central(4) + cost::central_queued(4));
    assert_eq!(sent(&walk, "queued"), cost::central_queued(4));
    let mut walk = group(&central(), 5);
    for (member, others) in [(4, 0), (0, 1), (4, 1)] {
        visit(&mut walk, member);
        assert_eq!(walk.sent.len() as u64, cost::central(others));
    }
    let unit = Duration::from_secs(1);
    assert_eq!(delays(&central(), 3), (unit * 2, unit * 2));
}

#[test]
fn an_order_that_is_not_kept_is_found_out() {
    let nobody_waits_while_one_is_inside = central().in_order(|_, _| false);
    let world = nobody_waits_while_one_is_inside.world(Visits::of([1, 1, 1]));
    assert_breaks(world, "everybody gets in in its turn");
    let broken =
        (0..100).find_map(|seed| storm::run(&nobody_waits_while_one_is_inside, seed).err());
    assert_eq!(broken, Some(Broken::OutOfTurn));
}

#[test]
fn a_lock_that_is_right_but_for_its_faults_passes() {
    let lock = wrong(Fault::None);
    crate::any::check(lock.world(Visits::of([2, 2, 2]).with_withdrawals(1)));
    storm::blow(&lock);
}

#[test]
fn a_lock_that_never_grants_lets_somebody_wait() {
    assert_found(Fault::NeverGrants, "whoever waits gets in", |broken| {
        matches!(broken, Broken::Waits(_))
    });
}

#[test]
fn a_lock_that_grants_only_to_one_lets_the_others_wait() {
    assert_found(Fault::GrantsOnlyTo(MemberId(0)), "whoever waits gets in", |broken| {
        matches!(broken, Broken::Waits(_) | Broken::OvertakenTooOften)
    });
}

#[test]
fn a_lock_that_forgets_who_is_inside_lets_a_second_in() {
    assert_found(Fault::ForgetsWhoIsInside, "at most one is inside", |broken| {
        *broken == Broken::SeveralInside
    });
}

#[test]
fn a_lock_that_lets_the_last_in_first_overtakes() {
    assert_found(Fault::LastComeFirstServed, "nobody is overtaken too often", |broken| {
        *broken == Broken::OvertakenTooOften
    });
}

#[test]
fn a_lock_that_takes_a_grant_for_a_request_given_up_lets_a_second_in() {
    assert_found(Fault::DoesNotNumberRequests, "at most one is inside", |broken| {
        *broken == Broken::SeveralInside
    });
}

#[test]
fn a_lock_that_forgets_withdrawals_lets_somebody_wait() {
    assert_found(Fault::ForgetsWithdrawals, "whoever waits gets in", |broken| {
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
fn a_wait_in_which_an_alarm_goes_off_again_and_again_is_found_out() {
    assert_every_wait_ends(&office_hours(false).world(Visits::of([1, 1, 1])));
}

#[test]
fn a_lock_whose_alarm_changes_nothing_lets_everybody_else_wait() {
    let broken = (0..100).find_map(|seed| storm::run(&office_hours(false), seed).err());
    assert!(matches!(broken, Some(Broken::Waits(_))), "{broken:?}");
}
