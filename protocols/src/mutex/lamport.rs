//! Lamport's mutual exclusion: every member keeps the queue.
//!
//! Source: Lamport, *Time, Clocks, and the Ordering of Events in a Distributed System*, CACM 21(7),
//! 1978, the algorithm of rules 1 to 5 that illustrates the total ordering.
//!
//! ```text
//! 1. to enter:            T := clock; send request (T, i) to all others; put it into the queue
//! 2. on request (Tj, j):  put it into the queue; send an acknowledgment to j
//! 3. to exit:             take the own request out of the queue; send release to all others
//! 4. on release of j:     take j's request out of the queue
//! 5. enter when:          (T, i) is before every other request in the queue, and
//!                         a message stamped later than (T, i) has come from every other
//! ```
//!
//! Every message is stamped with its sender's clock; stamps are ordered by (time, rank).
//!
//! | property | value |
//! | --- | --- |
//! | messages per entry and exit | 3(n - 1): request, acknowledgment, release |
//! | delay before entry, nobody else in | one round trip |
//! | delay between an exit and the next entry | one message: release |
//! | order | of the stamps; of happened-before too, as far as this lock's messages go |
//! | overtaking | each other enters at most once more before one that knows that it waits |
//! | tolerates | no crash: one silent member blocks everyone, until a view change |
//! | links | reliable, FIFO |
//!
//! FIFO is what makes rule 5 right: a later stamp of j shows that every earlier request of j is here.
//! Where messages overtake one another two members enter.
//!
//! Deviations:
//!
//! * Some descriptions wait for an acknowledgment of everybody. Rule 5 asks for less, any message
//!   that is stamped later, and is tried again after a release too, since that is such a message.
//! * The source notes that an acknowledgment need not be sent by a process that has sent a message with a later
//!   stamp already. Here it is always sent, as rule 2 has it; members that spare it, for which an entry costs from
//!   2(n - 1) to 3(n - 1) messages, admit each other just as well
//!   (`acknowledgments_are_spared_where_a_later_stamp_was_sent`).
//! * Later messages are noted from when a member asks. Those that came before are not later: their
//!   stamps had been witnessed when the request got its own.
//! * A member that gives up sends a release, as if it had been in the critical section. An answer to a request given up
//!   needs no number: if it is stamped later than the next request, it is good for that one too.
//! * A member that has heard from everybody and is not the first knows that it waits, and is notified of it.
//! * In the source clocks follow *every* message between processes. Here each lock has a clock, which
//!   follows that lock's messages. A member that asks because of what it learned in another way may get an
//!   earlier stamp, and goes first then
//!   (`with_clocks_that_do_not_follow_who_asked_because_of_another_may_go_first`).
//! * Holder and waiters of the view before stand in all queues with the stamps 1, 2, 3 and so on. The
//!   view itself is the later message of everybody.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Carried, Command, Event, GroupMutex, Mutex, PaidBy, Phase, Waits};
use crate::ids::{LamportTime, MemberId};
use crate::protocol::{Input, InputOf, Named, OutboxOf, Protocol};
use crate::time::LocalTime;
use crate::view::View;

/// One member's part in the algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Lamport {
    me: MemberId,
    view: View,
    clock: LamportTime,
    state: State,
    /// The queue: the members that wait or are in the critical section, and since when.
    requests: BTreeMap<MemberId, LamportTime>,
}

/// What members send to each other, with the sender's clock.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// "I want to enter, and this is when I asked."
    Request(LamportTime),
    /// "Your request is in my queue."
    Acknowledgment(LamportTime),
    /// "I am out, or no longer want in."
    Release(LamportTime),
}

/// The protocol has no timers.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer {}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum State {
    Idle,
    Waiting {
        /// Who has sent nothing with a later stamp.
        missing: BTreeSet<MemberId>,
    },
    InSection,
}

impl Lamport {
    fn enter(&mut self, out: &mut OutboxOf<Self>) {
        let State::Idle = self.state else { return };
        let since = self.clock.tick();
        self.requests.insert(self.me, since);
        self.state = State::Waiting { missing: self.view.peers(self.me).collect() };
        out.send_each(self.view.peers(self.me), &Message::Request(since));
        self.enter_if_first(out);
    }

    fn exit(&mut self, out: &mut OutboxOf<Self>) {
        let (State::Waiting { .. } | State::InSection) = self.state else { return };
        let at = self.clock.tick();
        self.requests.remove(&self.me);
        self.state = State::Idle;
        out.send_each(self.view.peers(self.me), &Message::Release(at));
    }

    fn on_request(&mut self, from: MemberId, since: LamportTime, out: &mut OutboxOf<Self>) {
        self.clock.witness(since);
        self.requests.insert(from, since);
        out.send(from, Message::Acknowledgment(self.clock.tick()));
        self.hear(from, since, out);
    }

    fn on_acknowledgment(&mut self, from: MemberId, at: LamportTime, out: &mut OutboxOf<Self>) {
        self.clock.witness(at);
        self.hear(from, at, out);
    }

    fn on_release(&mut self, from: MemberId, at: LamportTime, out: &mut OutboxOf<Self>) {
        self.clock.witness(at);
        self.requests.remove(&from);
        self.hear(from, at, out);
    }

    /// A message of another came, whatever it is.
    fn hear(&mut self, from: MemberId, at: LamportTime, out: &mut OutboxOf<Self>) {
        let turn = self.turn();
        let State::Waiting { missing } = &mut self.state else { return };
        let is_the_last = turn < Some((at, from)) && missing.remove(&from) && missing.is_empty();
        self.enter_if_first(out);
        if is_the_last && self.phase() == Phase::Waiting {
            out.tell(Event::Queued);
        }
    }

    /// Rule 5.
    fn enter_if_first(&mut self, out: &mut OutboxOf<Self>) {
        let State::Waiting { missing } = &self.state else { return };
        if missing.is_empty() && self.queue().first() == Some(&self.me) {
            self.state = State::InSection;
            out.tell(Event::Entered);
        }
    }

    /// The place of this member in the order, if it waits or is in the critical section.
    pub fn turn(&self) -> Option<(LamportTime, MemberId)> {
        self.requests.get(&self.me).map(|since| (*since, self.me))
    }

    /// The queue, the first in line first.
    pub fn queue(&self) -> Vec<MemberId> {
        let mut queue: Vec<_> = self.requests.iter().map(|(m, since)| (*since, *m)).collect();
        queue.sort_unstable();
        queue.into_iter().map(|(_, member)| member).collect()
    }

    fn is_peer(&self, member: MemberId) -> bool {
        member != self.me && self.view.has(member)
    }
}

impl Mutex for Lamport {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        let state = if carried.holder == Some(me) {
            State::InSection
        } else if carried.waiting.contains(&me) {
            State::Waiting { missing: BTreeSet::new() }
        } else {
            State::Idle
        };
        let (line, mut clock) = carried.stamped(view);
        let requests = line.into_iter().map(|(since, member)| (member, since)).collect();
        clock.tick();
        Self { me, view, clock, state, requests }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Idle => Phase::Idle,
            State::Waiting { .. } => Phase::Waiting,
            State::InSection => Phase::InSection,
        }
    }
}

impl GroupMutex for Lamport {
    fn is_contended(&self) -> bool {
        self.requests.keys().any(|member| *member != self.me)
    }

    fn latest(&self) -> u64 {
        self.clock.get()
    }

    fn numbered_after(self, latest: u64) -> Self {
        Self { clock: self.clock.max(LamportTime::at(latest)), ..self }
    }

    fn is_unused(&self) -> bool {
        self.requests.is_empty()
    }

    fn paid_by(message: &Message) -> PaidBy {
        match message {
            Message::Request(_) => PaidBy::Sender,
            Message::Acknowledgment(_) => PaidBy::Receiver,
            Message::Release(_) => PaidBy::Leaver,
        }
    }

    fn waiting_side(message: &Message) -> Waits {
        match message {
            Message::Request(_) => Waits::Sender,
            Message::Acknowledgment(_) | Message::Release(_) => Waits::Nobody,
        }
    }
}

impl Protocol for Lamport {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    /// The lock may have come free when the view before ended.
    fn start(&mut self, _now: LocalTime, out: &mut OutboxOf<Self>) {
        self.enter_if_first(out);
    }

    fn handle(&mut self, _now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(Command::Enter) => self.enter(out),
            Input::Command(Command::Exit) => self.exit(out),
            Input::Message { from, .. } if !self.is_peer(from) => {}
            Input::Message { from, message: Message::Request(at) } => {
                self.on_request(from, at, out);
            }
            Input::Message { from, message: Message::Acknowledgment(at) } => {
                self.on_acknowledgment(from, at, out);
            }
            Input::Message { from, message: Message::Release(at) } => {
                self.on_release(from, at, out);
            }
            Input::Timer(never) => match never {},
        }
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::Acknowledgment(_) => "acknowledgment",
            Self::Release(_) => "release",
        }
    }
}

#[cfg(test)]
mod tests;
