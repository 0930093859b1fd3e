//! Lamport's lock: its laws, what it costs, and what it needs.

use std::time::Duration;

use conclave_protocols::mutex::lamport::Lamport;
use conclave_protocols::mutex::{Carried, Command, Mutex};
use conclave_protocols::{MemberId, Named, cost};

use crate::any::{Lock, Search, Sections, assert_breaks, check, laws_of};
use crate::counted::{all_at_once, delays, group, section, sent};
use crate::ledger::Since;
use crate::selfish::Selfish;
use crate::sparing::Sparing;
use crate::storm::{self, Broken};
use crate::support::Subject;
use crate::support::walk::{Sent, Walk};
use crate::support::world::Order;

mod with_every_acknowledgment {
    super::laws_of!(super::lock(), super::Search::small());
}

mod with_acknowledgments_if_needed {
    super::laws_of!(super::sparing(), super::Search::small());
}

fn lock() -> Lock<Lamport> {
    in_order().overtaken(Since::Queued, 1)
}

fn in_order() -> Lock<Lamport> {
    Lock::new(Lamport::new).in_order(|in_section, waiting| in_section.turn() < waiting.turn())
}

fn sparing() -> Lock<Sparing> {
    Lock::new(Sparing::new)
        .in_order(|in_section, waiting| in_section.lock.turn() < waiting.lock.turn())
        .overtaken(Since::Queued, 1)
}

/// A member that knows that it waits has heard from all others since it asked, and they ask with higher
/// stamps from then on. Until then each may go first once more, by a request that it made before.
#[test]
fn each_other_goes_first_once_after_it_is_known_that_one_waits_and_twice_after_one_asked() {
    let found = |lock: &Lock<Lamport>| (0..1_000).find_map(|seed| storm::run(lock, seed).err());
    assert_eq!(found(&in_order().overtaken(Since::Asked, 2)), None);
    let too_few = [in_order().overtaken(Since::Queued, 0), in_order().overtaken(Since::Asked, 1)];
    for lock in too_few {
        assert_eq!(found(&lock), Some(Broken::OvertakenTooOften));
    }
}

/// One member asks so often that it could go first more often than it may.
#[test]
fn in_all_interleavings_of_a_member_that_asks_often_it_goes_first_no_more_often_than_that() {
    for sections in [Sections::of([4, 1]), Sections::of([1, 4]), Sections::of([3, 1, 0])] {
        for lock in [lock(), in_order().overtaken(Since::Asked, 2)] {
            check(lock.world(sections.clone()));
        }
        check(sparing().world(sections));
    }
    let never = in_order().overtaken(Since::Queued, 0);
    assert_breaks(never.world(Sections::of([3, 1, 0])), "nobody is overtaken too often");
}

#[test]
fn members_that_keep_the_lock_for_themselves_are_found_out() {
    let lock = Lock::new(Selfish::<Lamport>::new).overtaken(Since::Queued, 1);
    assert_breaks(lock.world(Sections::of([3, 1])), "nobody is overtaken too often");
    let mut broken = (0..1_000).filter_map(|seed| storm::run(&lock, seed).err());
    assert!(broken.any(|broken| broken == Broken::OvertakenTooOften));
}

#[test]
fn where_messages_overtake_one_another_two_enter() {
    fn two_enter<P: Subject + Mutex>(lock: &Lock<P>) {
        let world = lock.world(Sections::of([1, 1, 1])).with_order(Order::Any);
        assert_breaks(world, "at most one is in the critical section");
    }
    two_enter(&lock());
    two_enter(&sparing());
}

/// Somebody that gives up sends a release after its request. If it comes first the request stays in the
/// queue for good, and nobody behind it enters.
#[test]
fn a_release_that_overtakes_its_request_lets_the_others_wait_for_ever() {
    fn waits<P: Subject + Mutex>(lock: &Lock<P>) {
        let sections = Sections::of([1, 1, 0]).with_withdrawals(1);
        assert_breaks(lock.world(sections).with_order(Order::Any), "a member that waits enters");
    }
    waits(&lock());
    waits(&sparing());
}

#[test]
fn the_crash_of_any_member_lets_all_others_wait() {
    fn waits<P: Subject + Mutex>(lock: &Lock<P>) {
        for (dead, asking) in [(0, [0, 1, 0]), (1, [0, 0, 1]), (2, [1, 0, 0])] {
            let world = lock.world(Sections::of(asking)).with_dead(dead);
            assert_breaks(world, "a member that waits enters");
        }
    }
    waits(&lock());
    waits(&sparing());
}

#[test]
fn an_entry_costs_what_the_formula_says_for_every_size() {
    for size in 2..=16 {
        let n = u64::from(size);
        let walk = all_at_once(&lock(), size);
        assert_eq!(walk.sent.len() as u64, cost::lamport(n, n));
        for name in ["request", "acknowledgment", "release"] {
            assert_eq!(sent(&walk, name), n * (n - 1), "{name}");
        }
    }
    assert_eq!((cost::lamport(3, 1), cost::lamport(5, 1)), (6, 12));
}

#[test]
fn acknowledgments_are_spared_where_a_later_stamp_was_sent() {
    for size in 2..=16 {
        let n = u64::from(size);
        let contended = all_at_once(&sparing(), size);
        let pairs = n * (n - 1) / 2;
        assert_eq!(sent(&contended, "acknowledgment"), pairs, "of two requests the later is one");
        let mut alone = group(&sparing(), size);
        section(&mut alone, 0);
        assert_eq!(alone.sent.len() as u64, cost::lamport(n, 1), "nobody has sent anything");
        assert!(contended.sent.len() as u64 >= n * cost::lamport_least(n));
    }
}

/// Of three the middle one announces 7. An earlier request is not acknowledged, nor is one of that time by a lower
/// rank.
#[test]
fn a_member_that_has_announced_a_later_stamp_need_not_acknowledge() {
    for (asks, clock, acknowledged) in [(0, 5, 0), (0, 6, 0), (2, 6, 1)] {
        let clocks = [clock, 6, clock];
        let mut walk = Walk::new(3, [], |me| {
            Sparing::after(clocks[me.0 as usize], me, crate::view(3), &Carried::default())
        });
        walk.ask(1, Command::Enter);
        walk.ask(asks, Command::Enter);
        walk.deliver();
        let answer = |sent: &&Sent<_>| (sent.from, sent.to) == (MemberId(1), MemberId(asks));
        let answers = walk.sent.iter().filter(answer);
        let acknowledgments = answers.filter(|sent| sent.message.name() == "acknowledgment");
        assert_eq!(acknowledgments.count(), acknowledged, "{asks} at {clock}");
    }
}

#[test]
fn the_first_waits_two_messages_and_the_second_one_after_the_first_has_left() {
    let unit = Duration::from_secs(1);
    assert_eq!(delays(&lock(), 3), (unit * 2, unit));
}
