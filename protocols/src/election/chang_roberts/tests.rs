use std::time::Duration;

use super::*;
use crate::ids::Epoch;
use crate::protocol::{Effect, EffectOf, Outbox};

const TIMING: Timing =
    Timing { answer: Duration::from_millis(1), announcement: Duration::from_millis(2) };

/// The second lowest of so many.
fn second(size: u32) -> ChangRoberts {
    let view = View { epoch: Epoch(1), size, leader: MemberId(size - 1) };
    ChangRoberts::new(Place::new(MemberId(1), view), TIMING)
}

fn handle(member: &mut ChangRoberts, input: InputOf<ChangRoberts>) -> Vec<EffectOf<ChangRoberts>> {
    let mut out = Outbox::default();
    member.handle(LocalTime(0), input, &mut out);
    out.drain().collect()
}

fn message(from: u32, message: Message) -> InputOf<ChangRoberts> {
    Input::Message { from: MemberId(from), message }
}

fn send(to: u32, message: Message) -> EffectOf<ChangRoberts> {
    Effect::Send { to: MemberId(to), message }
}

fn election(candidate: u32) -> Message {
    Message::Election { candidate: MemberId(candidate) }
}

fn elected(leader: u32) -> Message {
    Message::Elected { leader: MemberId(leader) }
}

fn inquiry(by: u32, leader: Option<u32>) -> Message {
    Message::Inquiry { by: MemberId(by), leader: leader.map(MemberId) }
}

#[test]
fn a_higher_identifier_is_acknowledged_and_passed_on() {
    let mut member = second(4);
    let expected = [
        send(0, Message::Ack),
        Effect::Arm { timer: Timer::Announcement, after: 12 * TIMING.answer },
        send(2, election(3)),
        Effect::Arm { timer: Timer::Ack, after: TIMING.answer },
    ];
    assert_eq!(handle(&mut member, message(0, election(3))), expected);
    assert!(member.is_electing());
}

#[test]
fn instead_of_a_lower_identifier_its_own_goes_on_once() {
    let mut member = second(4);
    let first = handle(&mut member, message(0, election(0)));
    assert!(first.contains(&send(2, election(1))));
    let second = handle(&mut member, message(0, election(0)));
    assert_eq!(second, [send(0, Message::Ack)]);
}

#[test]
fn its_own_identifier_elects_a_member_once() {
    let mut member = second(4);
    handle(&mut member, Input::Command(Command::Elect));
    handle(&mut member, message(2, Message::Ack));
    let first = handle(&mut member, message(0, election(1)));
    let expected = [
        send(0, Message::Ack),
        Effect::Disarm(Timer::Announcement),
        Effect::Tell(Event::Elected(MemberId(1))),
        send(2, elected(1)),
        Effect::Arm { timer: Timer::Ack, after: TIMING.answer },
    ];
    assert_eq!(first, expected);
    let copy = handle(&mut member, message(0, election(1)));
    assert_eq!(copy, [send(0, Message::Ack)]);
    assert_eq!(handle(&mut member, message(0, elected(1))), [send(0, Message::Ack)]);
    assert_eq!(member.elected(), Some(MemberId(1)));
}

#[test]
fn its_own_announcement_ends_at_the_leader_and_no_election_that_began_since() {
    let mut member = second(4);
    handle(&mut member, Input::Command(Command::Elect));
    handle(&mut member, message(0, election(1)));
    handle(&mut member, Input::Command(Command::Elect));
    handle(&mut member, message(0, elected(1)));
    assert!(member.is_electing());
}

#[test]
fn a_member_that_takes_part_starts_no_election_of_its_own() {
    let mut member = second(4);
    handle(&mut member, message(0, election(2)));
    assert_eq!(handle(&mut member, Input::Command(Command::Elect)), []);
    assert_eq!(handle(&mut member, Input::Command(Command::Inquire)), []);
}

#[test]
fn a_marked_member_to_which_nobody_is_announced_elects_again() {
    let mut member = second(4);
    handle(&mut member, message(0, election(3)));
    handle(&mut member, message(2, Message::Ack));
    let effects = handle(&mut member, Input::Timer(Timer::Announcement));
    assert!(effects.contains(&send(2, election(1))));
    let after = 12 * TIMING.answer;
    assert!(effects.contains(&Effect::Arm { timer: Timer::Announcement, after }));
}

#[test]
fn the_identifier_of_a_dead_member_is_not_passed_over_it_and_its_predecessor_elects_again() {
    let mut member = second(4);
    handle(&mut member, message(0, election(2)));
    let effects = handle(&mut member, Input::Timer(Timer::Ack));
    assert!(effects.contains(&send(3, election(1))));
    assert!(!effects.contains(&send(3, election(2))));
    handle(&mut member, message(3, Message::Ack));
    let again = handle(&mut member, message(0, election(3)));
    assert!(again.contains(&send(2, election(3))), "with nothing in line it is tried again");
}

#[test]
fn what_else_names_a_dead_member_is_discarded_there_and_what_waits_behind_it_goes_on() {
    for named in [elected(2), inquiry(2, None)] {
        let mut member = second(4);
        handle(&mut member, message(0, named));
        handle(&mut member, message(0, inquiry(0, Some(3))));
        let effects = handle(&mut member, Input::Timer(Timer::Ack));
        assert_eq!(effects[0], send(3, inquiry(0, Some(3))), "not {named:?}");
        assert!(!member.is_electing());
    }
}

#[test]
fn an_inquiry_is_answered_by_the_leader_alone() {
    let mut member = second(4);
    handle(&mut member, message(0, elected(3)));
    handle(&mut member, message(2, Message::Ack));
    let asked = handle(&mut member, message(0, inquiry(0, None)));
    assert!(asked.contains(&send(2, inquiry(0, None))), "it may be dead by now");
    handle(&mut member, message(2, Message::Ack));
    handle(&mut member, Input::Command(Command::Elect));
    handle(&mut member, message(2, Message::Ack));
    handle(&mut member, message(0, election(1)));
    handle(&mut member, message(2, Message::Ack));
    let asked = handle(&mut member, message(0, inquiry(0, None)));
    assert!(asked.contains(&send(2, inquiry(0, Some(1)))));
}

#[test]
fn an_inquiry_that_comes_back_with_a_leader_is_believed_and_else_becomes_an_election() {
    let mut member = second(3);
    handle(&mut member, Input::Command(Command::Inquire));
    handle(&mut member, message(2, Message::Ack));
    handle(&mut member, message(0, inquiry(1, Some(2))));
    assert_eq!((member.elected(), member.is_electing()), (Some(MemberId(2)), false));
    handle(&mut member, Input::Command(Command::Inquire));
    handle(&mut member, message(2, Message::Ack));
    let effects = handle(&mut member, message(0, inquiry(1, None)));
    assert!(effects.contains(&send(2, election(1))));
    let late = handle(&mut member, message(0, inquiry(1, Some(0))));
    assert_eq!(late, [send(0, Message::Ack)], "it elects by now");
}

#[test]
fn with_everybody_else_dead_a_member_elects_itself() {
    let itself = Effect::Tell(Event::Elected(MemberId(1)));
    let mut member = second(3);
    handle(&mut member, Input::Command(Command::Elect));
    handle(&mut member, Input::Timer(Timer::Ack));
    let effects = handle(&mut member, Input::Timer(Timer::Ack));
    assert_eq!(effects, [Effect::Disarm(Timer::Announcement), itself.clone()]);
    // The identifier that it passed on is of a dead one.
    let mut member = second(3);
    handle(&mut member, message(0, election(2)));
    handle(&mut member, Input::Timer(Timer::Ack));
    let effects = handle(&mut member, Input::Timer(Timer::Ack));
    assert!(effects.contains(&itself), "{effects:?}");
}

#[test]
fn what_no_member_of_the_view_writes_is_neither_acknowledged_nor_passed_on() {
    let mut member = second(4);
    for nonsense in [
        message(0, election(4)),
        message(4, election(0)),
        message(1, election(0)),
        message(0, elected(4)),
        message(0, inquiry(4, None)),
        message(0, inquiry(0, Some(4))),
        message(2, Message::Ack),
    ] {
        assert_eq!(handle(&mut member, nonsense), []);
    }
    assert!(!member.is_electing());
}
