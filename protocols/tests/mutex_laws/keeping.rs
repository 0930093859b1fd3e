//! The central coordinator with grants that members keep: its laws, and what it costs.

use std::time::Duration;

use conclave_protocols::cost;
use conclave_protocols::mutex::central::{Central, Timer};
use conclave_protocols::mutex::{Command, GroupMutex, Mutex, Permissions, Phase};

use crate::any::{Lock, Search, Sections, check, laws_of};
use crate::counted::{brief_section, delays, group, sent};
use crate::support::world::Timers;

laws_of!(lock(), Search::small());

fn lock() -> Lock<Central> {
    let permissions = Permissions::Kept { idle: Duration::from_secs(5) };
    let is_idle = |timer| match timer {
        Timer::Idle => true,
    };
    Lock::new(move |me, view, carried| Central::new(me, view, carried).with(permissions))
        .idling(is_idle)
}

#[test]
fn a_grant_may_be_given_back_at_any_time() {
    for sections in [Sections::of([2, 2, 1]), Sections::of([2, 1, 1]).with_withdrawals(1)] {
        check(lock().world(sections).with_timers(Timers::AtAnyTime(2)));
    }
}

#[test]
fn a_member_that_was_in_section_last_enters_again_without_a_message() {
    for size in 2..=16 {
        let mut walk = group(&lock(), size);
        brief_section(&mut walk, 0);
        assert_eq!(walk.sent.len() as u64, cost::central_kept(1, 0), "request, grant");
        brief_section(&mut walk, 0);
        assert_eq!(walk.sent.len() as u64, cost::central_kept(1, 0));
        if size > 2 {
            brief_section(&mut walk, 1);
            assert_eq!(walk.sent.len() as u64 - sent(&walk, "queued"), cost::central_kept(2, 1));
        }
        brief_section(&mut walk, size - 1);
        let recalled = if size > 2 { 2 } else { 1 };
        let all = walk.sent.len() as u64 - sent(&walk, "queued");
        assert_eq!(all, cost::central_kept(recalled, recalled), "the coordinator asks nobody");
        brief_section(&mut walk, size - 1);
        assert_eq!(walk.sent.len() as u64 - sent(&walk, "queued"), all);
    }
}

#[test]
fn what_is_not_used_for_long_goes_back_with_one_message() {
    let mut walk = group(&lock(), 3);
    brief_section(&mut walk, 0);
    walk.settle();
    assert_eq!((walk.sent.len(), sent(&walk, "release")), (3, 1));
    assert!(walk.members[0].is_unused());
}

#[test]
fn the_second_waits_as_long_as_ever_if_it_asked_while_the_first_was_in_section() {
    let unit = Duration::from_secs(1);
    assert_eq!(delays(&lock(), 3), (unit * 2, unit * 2));
}

#[test]
fn a_member_in_its_section_when_another_asks_keeps_nothing() {
    let mut walk = group(&lock(), 3);
    walk.ask(0, Command::Enter);
    walk.deliver();
    walk.ask(1, Command::Enter);
    walk.deliver();
    assert_eq!((sent(&walk, "wanted"), sent(&walk, "in_use"), sent(&walk, "queued")), (1, 1, 1));
    walk.ask(0, Command::Exit);
    walk.deliver();
    assert_eq!(walk.members[1].phase(), Phase::InSection);
}
