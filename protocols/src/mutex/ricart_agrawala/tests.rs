//! One rule at a time.

use std::time::Duration;

use super::*;
use crate::ids::Epoch;
use crate::protocol::{Effect, EffectOf, Outbox};

const FIRST: MemberId = MemberId(0);
const ME: MemberId = MemberId(1);
const LAST: MemberId = MemberId(2);
const VIEW: View = View { epoch: Epoch(1), size: 3, leader: LAST };

fn member(carried: &Carried) -> RicartAgrawala {
    RicartAgrawala::new(ME, VIEW, carried)
}

fn idle() -> RicartAgrawala {
    member(&Carried::default())
}

/// The time after so many ticks.
fn time(ticks: u64) -> LamportTime {
    let mut time = LamportTime::default();
    (0..ticks).for_each(|_| {
        time.tick();
    });
    time
}

type Effects = Vec<EffectOf<RicartAgrawala>>;

fn feed(member: &mut RicartAgrawala, input: InputOf<RicartAgrawala>) -> Effects {
    let mut out = Outbox::default();
    member.handle(LocalTime(0), input, &mut out);
    out.drain().collect()
}

fn hear(member: &mut RicartAgrawala, from: MemberId, message: Message) -> Effects {
    feed(member, Input::Message { from, message })
}

fn send(to: MemberId, message: Message) -> EffectOf<RicartAgrawala> {
    Effect::Send { to, message }
}

#[test]
fn a_member_in_its_section_replies_to_all_that_it_deferred_when_it_leaves() {
    let carried = Carried { holder: Some(ME), waiting: vec![LAST] };
    let mut me = member(&carried);
    let notice = [send(FIRST, Message::Queued(time(5)))];
    assert_eq!(hear(&mut me, FIRST, Message::Request(time(5))), notice);
    let replies = [(FIRST, time(5)), (LAST, time(2))];
    let replies = replies.map(|(to, since)| send(to, Message::Reply(since)));
    assert_eq!(feed(&mut me, Input::Command(Command::Exit)), replies);
    assert_eq!(feed(&mut me, Input::Command(Command::Exit)), [], "the deferred are forgotten");
}

#[test]
fn a_reply_to_a_request_given_up_lets_nobody_in() {
    let mut me = idle();
    feed(&mut me, Input::Command(Command::Enter));
    hear(&mut me, FIRST, Message::Reply(time(1)));
    feed(&mut me, Input::Command(Command::Exit));
    feed(&mut me, Input::Command(Command::Enter));
    hear(&mut me, FIRST, Message::Reply(time(2)));
    assert_eq!(hear(&mut me, LAST, Message::Reply(time(1))), []);
    assert_eq!(me.phase(), Phase::Waiting);
    assert_eq!(hear(&mut me, LAST, Message::Reply(time(2))), [Effect::Tell(Event::Entered)]);
}

#[test]
fn one_reply_that_comes_twice_counts_once() {
    let mut me = idle();
    feed(&mut me, Input::Command(Command::Enter));
    hear(&mut me, FIRST, Message::Reply(time(1)));
    assert_eq!(hear(&mut me, FIRST, Message::Reply(time(1))), []);
    assert_eq!(me.phase(), Phase::Waiting);
}

#[test]
fn a_member_that_gives_up_replies_to_all_that_it_deferred() {
    let mut me = idle();
    feed(&mut me, Input::Command(Command::Enter));
    hear(&mut me, LAST, Message::Request(time(1)));
    let replies = feed(&mut me, Input::Command(Command::Exit));
    assert_eq!(replies, [send(LAST, Message::Reply(time(1)))]);
}

#[test]
fn of_two_requests_of_one_member_the_later_is_deferred_whichever_comes_first() {
    for [one, other] in [[5, 7], [7, 5]] {
        let carried = Carried { holder: Some(ME), waiting: vec![] };
        let mut me = member(&carried);
        hear(&mut me, LAST, Message::Request(time(one)));
        hear(&mut me, LAST, Message::Request(time(other)));
        let replies = feed(&mut me, Input::Command(Command::Exit));
        assert_eq!(replies, [send(LAST, Message::Reply(time(7)))]);
    }
}

#[test]
fn a_stamp_is_later_than_all_that_were_seen() {
    let mut me = idle();
    hear(&mut me, LAST, Message::Request(time(7)));
    feed(&mut me, Input::Command(Command::Enter));
    assert!(me.turn().is_some_and(|(since, _)| since > time(7)));
}

#[test]
fn a_member_that_is_queued_by_some_and_permitted_by_the_rest_knows_that_it_waits() {
    let mut me = idle();
    feed(&mut me, Input::Command(Command::Enter));
    assert_eq!(hear(&mut me, FIRST, Message::Queued(time(1))), []);
    assert_eq!(me.silent().collect::<Vec<_>>(), [LAST]);
    let notified = hear(&mut me, LAST, Message::Reply(time(1)));
    assert_eq!(notified, [Effect::Tell(Event::Queued)]);
    assert_eq!(hear(&mut me, FIRST, Message::Queued(time(1))), [], "it knows");
    assert_eq!(hear(&mut me, FIRST, Message::Reply(time(1))), [Effect::Tell(Event::Entered)]);
}

#[test]
fn every_request_is_answered_at_once() {
    let carried = Carried { holder: Some(ME), waiting: vec![] };
    let mut me = member(&carried);
    for _ in 0..2 {
        let answer = hear(&mut me, LAST, Message::Request(time(5)));
        assert_eq!(answer, [send(LAST, Message::Queued(time(5)))]);
    }
    let left = feed(&mut me, Input::Command(Command::Exit));
    assert_eq!(left.last(), Some(&send(LAST, Message::Reply(time(5)))));
    assert_eq!(
        hear(&mut me, LAST, Message::Request(time(5))),
        [send(LAST, Message::Reply(time(5)))]
    );
}

/// A member that was in once, and has the permissions of both others.
fn permitted() -> RicartAgrawala {
    let mut me = RicartAgrawala::of(KEPT, ME, VIEW, &Carried::default());
    feed(&mut me, Input::Command(Command::Enter));
    for peer in [FIRST, LAST] {
        hear(&mut me, peer, Message::Reply(time(1)));
    }
    let left = feed(&mut me, Input::Command(Command::Exit));
    assert_eq!(left, [Effect::Arm { timer: Timer::Idle, after: IDLE }]);
    me
}

const IDLE: Duration = Duration::from_secs(5);
const KEPT: Permissions = Permissions::Kept { idle: IDLE };

#[test]
fn a_member_that_has_all_permissions_is_in_again_without_a_message() {
    let mut me = permitted();
    let notified = feed(&mut me, Input::Command(Command::Enter));
    assert_eq!(notified, [Effect::Disarm(Timer::Idle), Effect::Tell(Event::Entered)]);
}

#[test]
fn permissions_that_are_not_used_for_long_are_asked_for_again() {
    let mut me = permitted();
    assert!(!me.is_unused());
    assert_eq!(feed(&mut me, Input::Timer(Timer::Idle)), []);
    assert!(me.is_unused());
    let asked = feed(&mut me, Input::Command(Command::Enter));
    let request = |to| send(to, Message::Request(time(2)));
    assert_eq!(asked, [Effect::Disarm(Timer::Idle), request(FIRST), request(LAST)]);
}

#[test]
fn a_timer_that_fires_late_takes_no_permission_from_a_member_in_its_section() {
    let mut me = permitted();
    feed(&mut me, Input::Command(Command::Enter));
    feed(&mut me, Input::Timer(Timer::Idle));
    feed(&mut me, Input::Command(Command::Exit));
    assert!(!me.is_unused());
}

#[test]
fn a_permission_goes_back_to_a_member_that_asks_and_is_asked_for_the_next_time() {
    let mut me = permitted();
    let answer = hear(&mut me, LAST, Message::Request(time(5)));
    assert_eq!(answer, [send(LAST, Message::Reply(time(5)))]);
    let asked = feed(&mut me, Input::Command(Command::Enter));
    assert_eq!(asked, [Effect::Disarm(Timer::Idle), send(LAST, Message::Request(time(7)))]);
}

#[test]
fn a_member_that_wants_in_gives_a_permission_back_to_an_older_request_and_asks_in_turn() {
    let mut me = permitted();
    hear(&mut me, FIRST, Message::Request(time(5)));
    let request = Message::Request(time(7));
    let asked = feed(&mut me, Input::Command(Command::Enter));
    assert_eq!(asked, [Effect::Disarm(Timer::Idle), send(FIRST, request)]);
    let answer = hear(&mut me, LAST, Message::Request(time(4)));
    assert_eq!(answer, [send(LAST, Message::Reply(time(4))), send(LAST, request)]);
    hear(&mut me, FIRST, Message::Reply(time(7)));
    assert_eq!(me.phase(), Phase::Waiting);
    assert_eq!(hear(&mut me, LAST, Message::Reply(time(7))), [Effect::Tell(Event::Entered)]);
}

#[test]
fn without_a_holder_the_first_that_waited_is_in_at_once() {
    for permissions in [Permissions::ForOneEntry, KEPT] {
        let carried = Carried { holder: None, waiting: vec![ME, FIRST] };
        let mut me = RicartAgrawala::of(permissions, ME, VIEW, &carried);
        let mut out = Outbox::default();
        me.start(LocalTime(0), &mut out);
        assert_eq!(out.drain().collect::<Vec<_>>(), [Effect::Tell(Event::Entered)]);
        let replies = feed(&mut me, Input::Command(Command::Exit));
        assert_eq!(replies[..1], [send(FIRST, Message::Reply(time(2)))]);
    }
}

#[test]
fn strangers_are_ignored() {
    let mut me = idle();
    for from in [ME, MemberId(3)] {
        assert_eq!(hear(&mut me, from, Message::Request(time(1))), []);
    }
}

#[test]
fn a_member_alone_is_in_without_a_message() {
    let view = View { size: 1, leader: FIRST, ..VIEW };
    let mut me = RicartAgrawala::new(FIRST, view, &Carried::default());
    let notified = feed(&mut me, Input::Command(Command::Enter));
    assert_eq!(notified, [Effect::Tell(Event::Entered)]);
}
