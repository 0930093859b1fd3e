//! A coordinator that is one of several: its laws, whichever member it is, and what it costs.

use std::time::Duration;

use conclave_protocols::mutex::superpeers::Superpeers;
use conclave_protocols::mutex::{Command, Permissions};
use conclave_protocols::{MemberId, View, cost};

use crate::any::{Lock, Search, Sections, assert_breaks, check, laws_of};
use crate::counted::{all_at_once, brief_section, delays, group, section, sent, those_in_section};

mod by_another_than_the_leader {
    super::laws_of!(super::lock(0), asks: [2, 2, 2]);
}

mod by_the_leader {
    super::laws_of!(super::by(|view| view.leader), asks: [2, 2, 2]);
}

mod with_grants_that_are_kept {
    super::laws_of!(super::keeping(1), super::Search::small());
}

/// A lock that this member coordinates.
fn lock(coordinator: u32) -> Lock<Superpeers> {
    by(move |_| MemberId(coordinator))
}

fn by(coordinator: impl Fn(View) -> MemberId + 'static) -> Lock<Superpeers> {
    Lock::new(move |me, view, carried| Superpeers::of(coordinator(view), me, view, carried))
}

fn keeping(coordinator: u32) -> Lock<Superpeers> {
    let permissions = Permissions::Kept { idle: Duration::from_secs(5) };
    Lock::new(move |me, view, carried| {
        Superpeers::of(MemberId(coordinator), me, view, carried).with(permissions)
    })
    .idling(|_| true)
}

#[test]
fn an_entry_costs_three_messages_and_nothing_at_its_coordinator_in_every_size() {
    for size in 2..=64 {
        let coordinator = Superpeers::by_rank(crate::view(size));
        let lock = lock(coordinator.0);
        for member in 0..size {
            let mut walk = group(&lock, size);
            section(&mut walk, member);
            let others = u64::from(member != coordinator.0);
            let each = ["request", "grant", "release"].map(|name| sent(&walk, name));
            assert_eq!(each, [others; 3], "{member} of {size}");
            assert_eq!(walk.sent.len() as u64, cost::central(others), "{member} of {size}");
        }
        let walk = all_at_once(&lock, size);
        let others = u64::from(size) - 1;
        assert_eq!(walk.sent.len() as u64 - sent(&walk, "queued"), cost::central(others));
        assert_eq!(sent(&walk, "queued"), cost::central_queued(others));
    }
}

#[test]
fn a_grant_that_is_kept_costs_two_messages_once_in_every_size() {
    for size in 2..=64 {
        let mut walk = group(&keeping(1), size);
        for _ in 0..2 {
            brief_section(&mut walk, 0);
            assert_eq!(walk.sent.len() as u64, cost::central_kept(1, 0), "of {size}");
        }
    }
}

#[test]
fn it_takes_as_long_as_with_the_leader() {
    let unit = Duration::from_secs(1);
    for size in 3..=16 {
        assert_eq!(delays(&lock(2), size), (unit * 2, unit * 2));
    }
}

/// A member that gives up while it waits leaves nothing in the queue of the coordinator.
#[test]
fn a_request_that_is_given_up_admits_nobody() {
    let mut walk = group(&lock(0), 4);
    for (member, command) in
        [(1, Command::Enter), (2, Command::Enter), (3, Command::Enter), (2, Command::Exit)]
    {
        walk.ask(member, command);
        walk.deliver();
    }
    walk.ask(1, Command::Exit);
    walk.deliver();
    assert_eq!(those_in_section(&walk), Some(3));
    check(lock(0).world(Sections::of([1, 2, 1]).with_withdrawals(2)));
}

#[test]
fn members_that_do_not_agree_on_who_coordinates_are_found_out() {
    let each_for_itself = Lock::new(|me, view, carried| Superpeers::of(me, me, view, carried));
    let law = "at most one is in the critical section";
    assert_breaks(each_for_itself.world(Sections::of([1, 1, 0])), law);
    let nobody_hears = Lock::new(|me: MemberId, view, carried: &_| {
        Superpeers::of(MemberId(me.0 / 2), me, view, carried)
    });
    assert_breaks(nobody_hears.world(Sections::of([0, 0, 1])), "a member that waits enters");
}
