//! One rule at a time, in a group of three.

use std::collections::VecDeque;

use super::*;
use crate::ids::Epoch;
use crate::mutex::Coordinated;
use crate::protocol::{Effect, EffectOf, Input, Outbox};

const LEADER: MemberId = MemberId(2);

/// Three members, of which the highest coordinates, and every message sent so far.
struct Group {
    members: Vec<Central>,
    sent: Vec<(MemberId, MemberId, Message)>,
    entered: Vec<MemberId>,
}

impl Group {
    fn new(carried: &Carried) -> Self {
        let view = View { epoch: Epoch(1), size: 3, leader: LEADER };
        let members = view.members().map(|me| Central::new(me, view, carried)).collect();
        Self { members, sent: Vec::new(), entered: Vec::new() }
    }

    fn command(&mut self, member: u32, command: Command) {
        let pending = self.feed(MemberId(member), Input::Command(command));
        self.deliver(pending);
    }

    /// Delivers everything, in order, until nobody has anything to send.
    fn deliver(&mut self, mut pending: VecDeque<(MemberId, MemberId, Message)>) {
        while let Some((from, to, message)) = pending.pop_front() {
            self.sent.push((from, to, message));
            pending.extend(self.feed(to, Input::Message { from, message }));
        }
    }

    fn feed(
        &mut self,
        member: MemberId,
        input: InputOf<Central>,
    ) -> VecDeque<(MemberId, MemberId, Message)> {
        let mut out = Outbox::default();
        self.members[member.0 as usize].handle(LocalTime(0), input, &mut out);
        let mut sends = VecDeque::new();
        for effect in out.drain() {
            let effect: EffectOf<Central> = effect;
            match effect {
                Effect::Send { to, message } => sends.push_back((member, to, message)),
                Effect::Tell(Event::Entered) => self.entered.push(member),
                Effect::Tell(Event::Queued) => {}
                Effect::Arm { .. } | Effect::Disarm(_) => {}
            }
        }
        sends
    }

    /// Messages sent, but for the optional reply.
    fn cost(&self) -> usize {
        self.sent.iter().filter(|(_, _, m)| !matches!(m, Message::Queued(_))).count()
    }
}

#[test]
fn the_second_is_queued_until_the_first_leaves_six_messages_in_all() {
    let mut group = Group::new(&Carried::default());
    group.command(0, Command::Enter);
    group.command(1, Command::Enter);
    assert_eq!(group.entered, [MemberId(0)]);
    group.command(0, Command::Exit);
    assert_eq!(group.entered, [MemberId(0), MemberId(1)]);
    group.command(1, Command::Exit);
    assert_eq!(group.cost(), 6);
}

#[test]
fn the_order_is_that_of_arrival_not_of_asking() {
    let mut group = Group::new(&Carried::default());
    let slow = group.feed(MemberId(0), Input::Command(Command::Enter));
    group.command(1, Command::Enter);
    group.deliver(slow);
    assert_eq!(group.entered, [MemberId(1)]);
}

#[test]
fn the_coordinator_enters_without_a_message() {
    let mut group = Group::new(&Carried::default());
    group.command(2, Command::Enter);
    group.command(2, Command::Exit);
    assert_eq!((group.entered.clone(), group.cost()), (vec![LEADER], 0));
}

#[test]
fn a_grant_that_crosses_a_withdrawal_lets_nobody_in() {
    let mut group = Group::new(&Carried::default());
    let request = group.feed(MemberId(0), Input::Command(Command::Enter));
    let (from, _, message) = request[0];
    let grant = group.feed(LEADER, Input::Message { from, message });
    let withdrawal = group.feed(MemberId(0), Input::Command(Command::Exit));
    let second = group.feed(MemberId(0), Input::Command(Command::Enter));
    group.deliver(grant);
    assert_eq!(group.entered, [], "the grant was for the request given up");
    group.deliver(withdrawal);
    group.deliver(second);
    assert_eq!(group.entered, [MemberId(0)]);
}

#[test]
fn holder_and_waiters_are_carried_over_in_order() {
    let carried = Carried { holder: Some(MemberId(1)), waiting: vec![LEADER, MemberId(0)] };
    let mut group = Group::new(&carried);
    group.command(1, Command::Exit);
    group.command(2, Command::Exit);
    assert_eq!(group.entered, [LEADER, MemberId(0)]);
}

#[test]
fn an_expelled_holder_makes_way() {
    let carried = Carried { holder: Some(MemberId(1)), waiting: vec![MemberId(0)] };
    let mut group = Group::new(&carried);
    let mut out = Outbox::default();
    group.members[2].expel();
    group.members[2].start(LocalTime(0), &mut out);
    let effects: Vec<_> = out.drain().collect();
    let grant = Message::Grant(RequestNumber(0));
    assert_eq!(effects, [Effect::Send { to: MemberId(0), message: grant }]);
}

#[test]
fn a_member_that_waits_or_is_in_section_does_not_ask_again() {
    let mut group = Group::new(&Carried::default());
    for member in [0, 0, 1, 1] {
        group.command(member, Command::Enter);
    }
    assert_eq!(group.cost(), 3, "two requests and a grant");
}

#[test]
fn a_newer_request_says_that_the_older_was_given_up() {
    let mut group = Group::new(&Carried::default());
    group.command(0, Command::Enter);
    group.feed(MemberId(0), Input::Command(Command::Exit)); // and the release is lost
    group.command(0, Command::Enter);
    assert_eq!(group.entered, [MemberId(0), MemberId(0)]);
    let late = Message::Release(RequestNumber(1));
    group.feed(LEADER, Input::Message { from: MemberId(0), message: late });
    assert_eq!(group.members[2].in_section(), Some(MemberId(0)));
}

#[test]
fn a_request_from_outside_the_view_is_ignored() {
    let mut group = Group::new(&Carried::default());
    let request = Message::Request(RequestNumber(1));
    let sent = group.feed(LEADER, Input::Message { from: MemberId(9), message: request });
    assert!(sent.is_empty());
}

#[test]
fn a_member_that_asked_for_what_was_kept_learns_that_it_waits_when_the_coordinator_goes_first() {
    let mut group = Group::new(&Carried::default());
    let permissions = Permissions::Kept { idle: std::time::Duration::from_secs(5) };
    for member in &mut group.members {
        *member = member.clone().with(permissions);
    }
    group.command(0, Command::Enter);
    group.command(0, Command::Exit);
    let wanted = group.feed(LEADER, Input::Command(Command::Enter));
    group.command(1, Command::Enter);
    group.deliver(wanted);
    assert_eq!(group.entered, [MemberId(0), LEADER]);
    let queued = (LEADER, MemberId(1), Message::Queued(RequestNumber(1)));
    assert_eq!(group.sent.last(), Some(&queued));
}
