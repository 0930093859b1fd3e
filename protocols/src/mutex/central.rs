//! Mutual exclusion by a central coordinator.
//!
//! Source: Tanenbaum and van Steen, *Distributed Systems*, section "Mutual exclusion: a centralized
//! algorithm"; Coulouris, Dollimore, Kindberg and Blair, *Distributed Systems: Concepts and
//! Design*, 5th ed., section 15.2, "The central server algorithm".
//!
//! ```text
//! to enter:        send request to the coordinator, wait for grant
//! to exit:         send release to the coordinator
//! coordinator:
//!   on request(p): if nobody is inside: inside := p; send grant to p
//!                  else append p to the queue (and tell p that it is queued)
//!   on release(p): if the queue is empty: nobody is inside
//!                  else inside := head of the queue; send grant to it
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages per entry and exit | 3: request, grant, release |
//! | with the optional reply to a request that must wait | one more, `queued` |
//! | delay before entry, nobody else inside | one round trip |
//! | delay between an exit and the next entry | one round trip: release, grant |
//! | order | of arrival at the coordinator |
//! | tolerates | the crash of a member that is neither inside nor waiting |
//! | links | reliable, FIFO |
//!
//! Deviations:
//!
//! * The coordinator is the leader of the view. It keeps its own requests in the same queue, and
//!   its messages to itself cost nothing.
//! * A request carries a number. A member that gives up while it waits sends a release with that
//!   number; a grant that crosses it on the way is then recognised as stale. Without the number the
//!   late grant would let the member's *next* request in while the coordinator has moved on
//!   (`a_grant_that_crosses_a_withdrawal_lets_nobody_in`).
//! * The books' coordinator cannot tell a dead member from a slow one. Here whoever runs it can:
//!   [`Central::expel`] takes out a member whose lease is over.
//! * A request that the coordinator knows already is answered again and queued once. A newer
//!   request of a member tells that it has given up the older one, or left, and that the release
//!   was lost.

use std::cmp::Ordering;
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Carried, Command, Event, GroupMutex, Mutex, Phase};
use crate::ids::MemberId;
use crate::protocol::{InputOf, Named, OutboxOf, Protocol};
use crate::time::LocalTime;
use crate::view::View;

/// One member's part in the algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Central {
    me: MemberId,
    view: View,
    state: State,
    /// The number of this member's latest request.
    latest: RequestNumber,
    /// The coordinator's books; empty elsewhere.
    books: Books,
}

/// What members say to each other.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// "I want in."
    Request(RequestNumber),
    /// "You are in the queue, and I live."
    Queued(RequestNumber),
    /// "You are in."
    Grant(RequestNumber),
    /// "I am out, or no longer want in."
    Release(RequestNumber),
}

/// Tells a member's requests apart, within one view. Zero is a request carried over from the view
/// before.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct RequestNumber(pub u64);

/// The protocol has no alarms.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer {}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    Idle,
    Waiting,
    Inside,
}

/// What the coordinator knows.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Books {
    inside: Option<(MemberId, RequestNumber)>,
    queue: VecDeque<(MemberId, RequestNumber)>,
}

impl Central {
    fn enter(&mut self, out: &mut OutboxOf<Self>) {
        let State::Idle = self.state else { return };
        self.latest = RequestNumber(self.latest.0 + 1);
        self.state = State::Waiting;
        self.say(Message::Request(self.latest), out);
    }

    fn exit(&mut self, out: &mut OutboxOf<Self>) {
        let (State::Waiting | State::Inside) = self.state else { return };
        self.state = State::Idle;
        self.say(Message::Release(self.latest), out);
    }

    fn on_grant(&mut self, number: RequestNumber, out: &mut OutboxOf<Self>) {
        if self.state == State::Waiting && number == self.latest {
            self.state = State::Inside;
            out.tell(Event::Entered);
        }
    }

    fn on_queued(&mut self, number: RequestNumber, out: &mut OutboxOf<Self>) {
        if self.state == State::Waiting && number == self.latest {
            out.tell(Event::Queued);
        }
    }

    /// Speaks to the coordinator, who may be this member.
    fn say(&mut self, message: Message, out: &mut OutboxOf<Self>) {
        if self.me == self.view.leader {
            self.coordinate(self.me, message, out);
        } else {
            out.send(self.view.leader, message);
        }
    }

    /// Speaks as the coordinator to a member, who may be this one.
    fn answer(&mut self, to: MemberId, message: Message, out: &mut OutboxOf<Self>) {
        if to == self.me {
            self.hear(message, out);
        } else {
            out.send(to, message);
        }
    }

    /// The coordinator's rules.
    fn coordinate(&mut self, from: MemberId, message: Message, out: &mut OutboxOf<Self>) {
        match message {
            Message::Request(number) => self.on_request(from, number, out),
            Message::Release(number) => self.on_release(from, number, out),
            Message::Queued(_) | Message::Grant(_) => {}
        }
    }

    /// The member's rules.
    fn hear(&mut self, message: Message, out: &mut OutboxOf<Self>) {
        match message {
            Message::Grant(number) => self.on_grant(number, out),
            Message::Queued(number) => self.on_queued(number, out),
            Message::Request(_) | Message::Release(_) => {}
        }
    }

    fn on_request(&mut self, from: MemberId, number: RequestNumber, out: &mut OutboxOf<Self>) {
        if let Some((_, inside)) = self.books.inside.filter(|(inside, _)| *inside == from) {
            match number.cmp(&inside) {
                Ordering::Less => return,
                Ordering::Equal => return self.answer(from, Message::Grant(number), out),
                Ordering::Greater => self.books.inside = None,
            }
        }
        if !self.waits(from, number) {
            self.withdraw(from);
            self.books.queue.push_back((from, number));
        }
        if self.books.inside.is_none() {
            self.admit(out);
        } else {
            self.answer(from, Message::Queued(number), out);
        }
    }

    fn on_release(&mut self, from: MemberId, number: RequestNumber, out: &mut OutboxOf<Self>) {
        self.books.queue.retain(|waiting| *waiting != (from, number));
        if self.books.inside == Some((from, number)) {
            self.books.inside = None;
            self.admit(out);
        }
    }

    /// Lets the head of the queue in.
    fn admit(&mut self, out: &mut OutboxOf<Self>) {
        let Some((next, number)) = self.books.queue.pop_front() else { return };
        self.books.inside = Some((next, number));
        self.answer(next, Message::Grant(number), out);
    }

    /// Takes whoever is inside out of the coordinator's books: its lease is over. Nobody is let in
    /// before the next input or [`Protocol::start`].
    pub fn expel(&mut self) {
        self.books.inside = None;
    }

    /// Takes a member out of the queue that was not heard of lately: it could not be told that it
    /// is in. It asks again if it lives.
    pub fn withdraw(&mut self, member: MemberId) {
        self.books.queue.retain(|(waiting, _)| *waiting != member);
    }

    /// Takes note that this member is no longer inside, though it said no release: its lease is
    /// over, and the coordinator finds out by itself.
    pub fn forget_own_hold(&mut self) {
        if self.state == State::Inside {
            self.state = State::Idle;
        }
    }

    /// The coordinator's queue, the first in line first.
    pub fn queue(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.books.queue.iter().map(|(member, _)| *member)
    }

    /// Whom the coordinator let in.
    pub fn inside(&self) -> Option<MemberId> {
        self.books.inside.map(|(member, _)| member)
    }

    /// Whether the coordinator let a member in on this very request.
    pub fn is_inside(&self, member: MemberId, number: RequestNumber) -> bool {
        self.books.inside == Some((member, number))
    }

    /// Whether this very request is in the coordinator's queue.
    pub fn waits(&self, member: MemberId, number: RequestNumber) -> bool {
        self.books.queue.contains(&(member, number))
    }

    /// The number of this member's latest request.
    pub fn latest(&self) -> RequestNumber {
        self.latest
    }
}

impl Mutex for Central {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        let state = if carried.holder == Some(me) {
            State::Inside
        } else if carried.waiting.contains(&me) {
            State::Waiting
        } else {
            State::Idle
        };
        let mut books = Books::default();
        if me == view.leader {
            let number = RequestNumber::default();
            books.inside = carried.holder.map(|holder| (holder, number));
            books.queue = carried.waiting.iter().map(|member| (*member, number)).collect();
        }
        Self { me, view, state, latest: RequestNumber::default(), books }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Idle => Phase::Idle,
            State::Waiting => Phase::Waiting,
            State::Inside => Phase::Inside,
        }
    }
}

impl GroupMutex for Central {
    fn is_contended(&self) -> bool {
        !self.books.queue.is_empty()
    }

    fn latest(&self) -> u64 {
        self.latest.0
    }

    fn numbered_after(self, latest: u64) -> Self {
        Self { latest: self.latest.max(RequestNumber(latest)), ..self }
    }

    fn is_unused(&self) -> bool {
        self.state == State::Idle && self.books.inside.is_none() && self.books.queue.is_empty()
    }
}

impl Protocol for Central {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    /// Waiters may have been carried over while the lock came free.
    fn start(&mut self, _now: LocalTime, out: &mut OutboxOf<Self>) {
        if self.books.inside.is_none() {
            self.admit(out);
        }
    }

    fn handle(&mut self, _now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        use crate::protocol::Input;
        match input {
            Input::Command(Command::Enter) => self.enter(out),
            Input::Command(Command::Exit) => self.exit(out),
            Input::Message {
                from,
                message: message @ (Message::Request(_) | Message::Release(_)),
            } => {
                if self.me == self.view.leader && self.view.has(from) {
                    self.coordinate(from, message, out);
                }
            }
            Input::Message {
                from,
                message: message @ (Message::Grant(_) | Message::Queued(_)),
            } => {
                if from == self.view.leader {
                    self.hear(message, out);
                }
            }
            Input::Timer(never) => match never {},
        }
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::Queued(_) => "queued",
            Self::Grant(_) => "grant",
            Self::Release(_) => "release",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Epoch;
    use crate::protocol::{Effect, EffectOf, Input, Outbox};

    const LEADER: MemberId = MemberId(2);

    /// Three members, of which the highest coordinates, and every message said so far.
    struct Group {
        members: Vec<Central>,
        said: Vec<(MemberId, MemberId, Message)>,
        entered: Vec<MemberId>,
    }

    impl Group {
        fn new(carried: &Carried) -> Self {
            let view = View { epoch: Epoch(1), size: 3, leader: LEADER };
            let members = view.members().map(|me| Central::new(me, view, carried)).collect();
            Self { members, said: Vec::new(), entered: Vec::new() }
        }

        fn command(&mut self, member: u32, command: Command) {
            let pending = self.feed(MemberId(member), Input::Command(command));
            self.deliver(pending);
        }

        /// Delivers everything, in order, until nobody has anything to say.
        fn deliver(&mut self, mut pending: VecDeque<(MemberId, MemberId, Message)>) {
            while let Some((from, to, message)) = pending.pop_front() {
                self.said.push((from, to, message));
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
                    Effect::Arm { .. } | Effect::Disarm(_) => unreachable!("no alarms"),
                }
            }
            sends
        }

        /// Messages said, but for the optional reply.
        fn cost(&self) -> usize {
            self.said.iter().filter(|(_, _, m)| !matches!(m, Message::Queued(_))).count()
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
    fn whoever_waits_or_is_inside_does_not_ask_again() {
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
        assert_eq!(group.members[2].inside(), Some(MemberId(0)));
    }

    #[test]
    fn a_request_from_outside_the_view_is_ignored() {
        let mut group = Group::new(&Carried::default());
        let request = Message::Request(RequestNumber(1));
        let said = group.feed(LEADER, Input::Message { from: MemberId(9), message: request });
        assert!(said.is_empty());
    }
}
