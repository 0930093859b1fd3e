//! One rule at a time.

use super::*;
use crate::ids::Epoch;
use crate::protocol::{Effect, EffectOf, Outbox};

const FIRST: MemberId = MemberId(0);
const ME: MemberId = MemberId(1);
const LAST: MemberId = MemberId(2);
const VIEW: View = View { epoch: Epoch(1), size: 3, leader: LAST };

fn member(carried: &Carried) -> Lamport {
    Lamport::new(ME, VIEW, carried)
}

/// The time after so many ticks.
fn time(ticks: u64) -> LamportTime {
    let mut time = LamportTime::default();
    (0..ticks).for_each(|_| {
        time.tick();
    });
    time
}

fn feed(member: &mut Lamport, input: InputOf<Lamport>) -> Vec<EffectOf<Lamport>> {
    let mut out = Outbox::default();
    member.handle(LocalTime(0), input, &mut out);
    out.drain().collect()
}

fn hear(member: &mut Lamport, from: MemberId, message: Message) -> Vec<EffectOf<Lamport>> {
    feed(member, Input::Message { from, message })
}

fn to_all(message: Message) -> [EffectOf<Lamport>; 2] {
    [FIRST, LAST].map(|to| Effect::Send { to, message })
}

#[test]
fn a_request_goes_to_all_and_an_acknowledgment_is_stamped_later() {
    let mut me = member(&Carried::default()).numbered_after(6);
    let sent = feed(&mut me, Input::Command(Command::Enter));
    assert_eq!(sent, to_all(Message::Request(time(7))));
    let answer = hear(&mut me, LAST, Message::Request(time(9)));
    let message = Message::Acknowledgment(time(11));
    assert_eq!(answer, [Effect::Send { to: LAST, message }], "it arrived at 10");
    assert_eq!(me.queue(), [ME, LAST]);
}

#[test]
fn any_later_message_of_everybody_lets_the_first_in() {
    let mut me = member(&Carried::default());
    feed(&mut me, Input::Command(Command::Enter));
    assert_eq!(hear(&mut me, FIRST, Message::Acknowledgment(time(5))), []);
    let notified = hear(&mut me, LAST, Message::Request(time(5)));
    assert_eq!(notified.last(), Some(&Effect::Tell(Event::Entered)), "a later request will do");
}

#[test]
fn a_release_is_a_later_message_too() {
    let carried = Carried { holder: Some(LAST), waiting: vec![] };
    let mut me = member(&carried);
    feed(&mut me, Input::Command(Command::Enter));
    hear(&mut me, FIRST, Message::Acknowledgment(time(5)));
    let notified = hear(&mut me, LAST, Message::Release(time(5)));
    assert_eq!(notified, [Effect::Tell(Event::Entered)]);
}

#[test]
fn an_earlier_message_lets_nobody_in() {
    let mut me = member(&Carried::default()).numbered_after(6);
    feed(&mut me, Input::Command(Command::Enter));
    hear(&mut me, FIRST, Message::Acknowledgment(time(9)));
    assert_eq!(hear(&mut me, LAST, Message::Release(time(3))), []);
    assert_eq!(me.phase(), Phase::Waiting);
}

/// The older request travels before the acknowledgment of the newer one, on the same link.
#[test]
fn an_older_request_is_in_the_queue_before_the_acknowledgment_of_a_newer() {
    let mut me = member(&Carried::default()).numbered_after(6);
    feed(&mut me, Input::Command(Command::Enter));
    hear(&mut me, LAST, Message::Acknowledgment(time(9)));
    hear(&mut me, FIRST, Message::Request(time(4)));
    let notified = hear(&mut me, FIRST, Message::Acknowledgment(time(9)));
    assert_eq!(me.queue(), [FIRST, ME]);
    assert_eq!(notified, [Effect::Tell(Event::Queued)], "all live, and one is first");
    assert_eq!(hear(&mut me, FIRST, Message::Release(time(10))), [Effect::Tell(Event::Entered)]);
}

#[test]
fn of_equal_times_the_lower_rank_goes_first() {
    let mut me = member(&Carried::default()).numbered_after(6);
    feed(&mut me, Input::Command(Command::Enter));
    hear(&mut me, FIRST, Message::Request(time(7)));
    hear(&mut me, LAST, Message::Request(time(7)));
    assert_eq!(me.queue(), [FIRST, ME, LAST]);
}

#[test]
fn a_member_that_gives_up_leaves_all_queues_and_asks_anew_with_a_later_stamp() {
    let mut me = member(&Carried::default()).numbered_after(6);
    feed(&mut me, Input::Command(Command::Enter));
    assert_eq!(feed(&mut me, Input::Command(Command::Exit)), to_all(Message::Release(time(8))));
    assert_eq!(feed(&mut me, Input::Command(Command::Exit)), []);
    assert_eq!(feed(&mut me, Input::Command(Command::Enter)), to_all(Message::Request(time(9))));
    for peer in [FIRST, LAST] {
        hear(&mut me, peer, Message::Acknowledgment(time(8)));
    }
    assert_eq!(me.phase(), Phase::Waiting, "these answered the request given up");
}

#[test]
fn without_a_holder_the_first_that_waited_is_in_at_once() {
    let carried = Carried { holder: None, waiting: vec![ME, FIRST] };
    let mut out = Outbox::default();
    member(&carried).start(LocalTime(0), &mut out);
    assert_eq!(out.drain().collect::<Vec<_>>(), [Effect::Tell(Event::Entered)]);
    let carried = Carried { holder: None, waiting: vec![FIRST, ME] };
    member(&carried).start(LocalTime(0), &mut out);
    assert!(out.is_empty(), "the other is");
}

#[test]
fn strangers_are_ignored() {
    let mut me = member(&Carried::default());
    for from in [ME, MemberId(3)] {
        assert_eq!(hear(&mut me, from, Message::Request(time(1))), []);
    }
    assert_eq!(me.queue(), []);
}

#[test]
fn a_member_alone_is_in_without_a_message() {
    let view = View { size: 1, leader: FIRST, ..VIEW };
    let mut me = Lamport::new(FIRST, view, &Carried::default());
    let notified = feed(&mut me, Input::Command(Command::Enter));
    assert_eq!(notified, [Effect::Tell(Event::Entered)]);
}
