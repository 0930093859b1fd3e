//! Maekawa's algorithm as some lecture notes print it: wrong.
//!
//! A member asks its voting set without itself, and holds a request back only while it is in the critical section or
//! has voted for another. It never votes for itself, so while it waits it votes for a rival.

use std::collections::{BTreeSet, VecDeque};

use conclave_protocols::mutex::maekawa::Quorums;
use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{Input, LocalTime, MemberId, Named, Protocol, View};

/// One member's part.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Printed {
    others: BTreeSet<MemberId>,
    phase: Phase,
    replies: usize,
    voted: bool,
    queue: VecDeque<MemberId>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Message {
    Request,
    Reply,
    Release,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Timer {}

impl Printed {
    pub(crate) fn new(me: MemberId, quorums: &Quorums) -> Self {
        let mut others = quorums.of(me);
        others.remove(&me);
        let queue = VecDeque::new();
        Self { others, phase: Phase::Idle, replies: 0, voted: false, queue }
    }
}

impl Mutex for Printed {
    fn new(me: MemberId, view: View, _carried: &Carried) -> Self {
        Self::new(me, &Quorums::grid(view.size))
    }

    fn phase(&self) -> Phase {
        self.phase
    }
}

impl Protocol for Printed {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn handle(&mut self, _now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(Command::Enter) => {
                (self.phase, self.replies) = (Phase::Waiting, 0);
                out.send_each(self.others.iter().copied(), &Message::Request);
            }
            Input::Command(Command::Exit) => {
                self.phase = Phase::Idle;
                out.send_each(self.others.iter().copied(), &Message::Release);
            }
            Input::Message { from, message: Message::Request } => {
                if self.phase == Phase::InSection || self.voted {
                    self.queue.push_back(from);
                } else {
                    self.voted = true;
                    out.send(from, Message::Reply);
                }
            }
            Input::Message { message: Message::Reply, .. } => {
                self.replies += 1;
                if self.phase == Phase::Waiting && self.replies == self.others.len() {
                    self.phase = Phase::InSection;
                    out.tell(Event::Entered);
                }
            }
            Input::Message { message: Message::Release, .. } => match self.queue.pop_front() {
                Some(next) => out.send(next, Message::Reply),
                None => self.voted = false,
            },
            Input::Timer(never) => match never {},
        }
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Reply => "reply",
            Self::Release => "release",
        }
    }
}
