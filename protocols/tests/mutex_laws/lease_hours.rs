//! A lock that never rests: its coordinator hears what arrived when a timer goes off, and sets the
//! timer again whether anybody wants anything or not.

use std::collections::VecDeque;
use std::time::Duration;

use conclave_protocols::mutex::central::Message;
use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{Input, LocalTime, MemberId, Outbox, Protocol, View};

use crate::laws::Line;
use crate::wrong::{Fault, Wrong};

/// A lock with a coordinator that has leader lease hours.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct LeaseHours {
    lock: Wrong,
    coordinates: bool,
    /// Whether the coordinator looks at what arrived.
    looks: bool,
    arrived: VecDeque<(MemberId, Message)>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Timer {
    /// The leader lease opens.
    Open,
}

impl LeaseHours {
    pub(crate) fn make(me: MemberId, view: View, carried: &Carried, looks: bool) -> Self {
        let lock = Wrong::make(me, view, carried, Fault::None);
        Self { lock, coordinates: me == view.leader, looks, arrived: VecDeque::new() }
    }

    fn feed(&mut self, now: LocalTime, input: InputOf<Wrong>, out: &mut OutboxOf<Self>) {
        let mut effects = Outbox::default();
        self.lock.handle(now, input, &mut effects);
        effects.pour_into(out, |message| message, |never| match never {});
    }

    fn open(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        out.arm(Timer::Open, Duration::from_millis(50));
        if self.looks {
            for (from, message) in std::mem::take(&mut self.arrived) {
                self.feed(now, Input::Message { from, message }, out);
            }
        }
    }
}

impl Mutex for LeaseHours {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        Self::make(me, view, carried, true)
    }

    fn phase(&self) -> Phase {
        self.lock.phase()
    }
}

impl Protocol for LeaseHours {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let mut effects = Outbox::default();
        self.lock.start(now, &mut effects);
        effects.pour_into(out, |message| message, |never| match never {});
        if self.coordinates {
            self.open(now, out);
        }
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(command) => self.feed(now, Input::Command(command), out),
            Input::Message { from, message } if self.coordinates => {
                self.arrived.push_back((from, message));
            }
            Input::Message { from, message } => {
                self.feed(now, Input::Message { from, message }, out);
            }
            Input::Timer(Timer::Open) => self.open(now, out),
        }
    }
}
