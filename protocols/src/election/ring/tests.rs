use std::time::Duration;

use super::*;
use crate::ids::Epoch;
use crate::protocol::{Effect, EffectOf, Outbox};

const TIMING: Timing =
    Timing { answer: Duration::from_millis(1), announcement: Duration::from_millis(2) };

/// The second lowest of so many.
fn ring(size: u32) -> Ring {
    let view = View { epoch: Epoch(1), size, leader: MemberId(size - 1) };
    Ring::new(Place::new(MemberId(1), view), TIMING)
}

fn handle(ring: &mut Ring, input: InputOf<Ring>) -> Vec<EffectOf<Ring>> {
    let mut out = Outbox::default();
    ring.handle(LocalTime(0), input, &mut out);
    out.drain().collect()
}

fn message(from: u32, message: Message) -> InputOf<Ring> {
    Input::Message { from: MemberId(from), message }
}

fn ids<const N: usize>(ids: [u32; N]) -> Vec<MemberId> {
    ids.map(MemberId).to_vec()
}

fn election<const N: usize>(living: [u32; N]) -> Message {
    Message::Election { living: ids(living) }
}

#[test]
fn each_hop_is_acknowledged_and_appends_itself() {
    let mut ring = ring(4);
    let effects = handle(&mut ring, message(0, election([3, 0])));
    let expected = [
        Effect::Send { to: MemberId(0), message: Message::Ack },
        Effect::Arm { timer: Timer::Announcement, after: 8 * TIMING.answer },
        Effect::Send { to: MemberId(2), message: election([3, 0, 1]) },
        Effect::Arm { timer: Timer::Ack, after: TIMING.answer },
    ];
    assert_eq!(effects, expected);
}

#[test]
fn a_second_copy_of_a_list_elects_nobody() {
    let mut ring = ring(4);
    handle(&mut ring, Input::Command(Command::Elect));
    handle(&mut ring, message(2, Message::Ack));
    let first = handle(&mut ring, message(0, election([1, 2, 3, 0])));
    assert!(first.contains(&Effect::Tell(Event::Elected(MemberId(3)))));
    let second = handle(&mut ring, message(0, election([1, 2, 0])));
    assert_eq!(second, [Effect::Send { to: MemberId(0), message: Message::Ack }]);
    assert_eq!(ring.elected(), Some(MemberId(3)));
}

#[test]
fn an_announcement_goes_round_once() {
    let mut ring = ring(3);
    let coordinator =
        |notified| Message::Coordinator { leader: MemberId(2), living: ids([0, 1, 2]), notified };
    let first = handle(&mut ring, message(0, coordinator(ids([0]))));
    let passed_on = Effect::Send { to: MemberId(2), message: coordinator(ids([0, 1])) };
    assert!(first.contains(&passed_on));
    let second = handle(&mut ring, message(2, coordinator(ids([0, 1, 2]))));
    assert_eq!(second, [Effect::Send { to: MemberId(2), message: Message::Ack }]);
}

#[test]
fn a_member_that_takes_part_starts_no_election_of_its_own() {
    let mut ring = ring(4);
    handle(&mut ring, message(0, election([0])));
    assert_eq!(handle(&mut ring, Input::Command(Command::Elect)), []);
    assert_eq!(handle(&mut ring, Input::Command(Command::Inquire)), []);
}

#[test]
fn an_inquiry_that_nobody_could_answer_becomes_an_election() {
    let mut ring = ring(3);
    handle(&mut ring, Input::Command(Command::Inquire));
    handle(&mut ring, message(2, Message::Ack));
    let asked = Message::Inquiry { leader: None, asked: ids([1, 2, 0]) };
    let effects = handle(&mut ring, message(0, asked));
    assert!(effects.contains(&Effect::Send { to: MemberId(2), message: election([1]) }));
}

#[test]
fn an_answer_to_an_inquiry_comes_too_late_when_a_leader_is_known() {
    let mut ring = ring(4);
    handle(&mut ring, Input::Command(Command::Inquire));
    let notified = ids([0]);
    let news = Message::Coordinator { leader: MemberId(3), living: ids([0, 1, 2, 3]), notified };
    handle(&mut ring, message(0, news));
    let late = Message::Inquiry { leader: Some(MemberId(2)), asked: ids([1, 2, 3, 0]) };
    let effects = handle(&mut ring, message(0, late));
    assert_eq!(effects, [Effect::Send { to: MemberId(0), message: Message::Ack }]);
    assert_eq!(ring.elected(), Some(MemberId(3)));
}

#[test]
fn a_list_whose_initiator_is_gone_ends_at_the_next_member_of_it() {
    let mut ring = ring(4);
    handle(&mut ring, message(0, election([2, 0])));
    handle(&mut ring, message(2, Message::Ack));
    let effects = handle(&mut ring, message(0, election([2, 1, 0])));
    assert!(effects.contains(&Effect::Tell(Event::Elected(MemberId(1)))));
}

#[test]
fn with_everybody_else_dead_a_member_elects_itself() {
    let mut ring = ring(3);
    handle(&mut ring, Input::Command(Command::Elect));
    handle(&mut ring, Input::Timer(Timer::Ack));
    let effects = handle(&mut ring, Input::Timer(Timer::Ack));
    let elected = Effect::Tell(Event::Elected(MemberId(1)));
    assert_eq!(effects, [Effect::Disarm(Timer::Announcement), elected]);
}

#[test]
fn what_no_member_of_the_view_writes_is_neither_acknowledged_nor_passed_on() {
    let mut ring = ring(4);
    let coordinator = |leader, living, notified| Message::Coordinator { leader, living, notified };
    for nonsense in [
        message(0, election([])),
        message(0, election([0, 0])),
        message(0, election([0, 4])),
        message(4, election([0])),
        message(1, election([0])),
        message(0, coordinator(MemberId(3), ids([0, 2]), ids([0]))),
        message(0, coordinator(MemberId(3), ids([0, 3]), ids([]))),
        message(0, Message::Inquiry { leader: Some(MemberId(4)), asked: ids([0]) }),
        message(2, Message::Ack),
    ] {
        assert_eq!(handle(&mut ring, nonsense), []);
    }
    assert!(!ring.is_electing());
}
