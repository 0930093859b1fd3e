//! A coordinator's lock whose members also talk to each other of other things: whoever asks tells the
//! next member so. That one may then ask too, after the first and because of it, and be heard before.
//!
//! With every message goes its sender's clock, which the receiver follows. Besides, with every message
//! goes which requests have happened before it, and that nobody but the laws looks at.

use std::collections::BTreeMap;

use conclave_protocols::mutex::central::{self, Central, Order, RequestNumber};
use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{Input, LocalTime, MemberId, Named, Outbox, Protocol, View};

/// One member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Talking {
    me: MemberId,
    central: Central,
    confidant: MemberId,
    clocks: Clocks,
    /// How many requests of each have happened before now.
    known: Requests,
    /// The same when this member last asked, with that request.
    asked: Requests,
}

/// Whether clocks follow each other, as they must.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Clocks {
    Follow,
    StandApart,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Message {
    time: RequestNumber,
    known: Requests,
    content: Content,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Content {
    Lock(central::Message),
    /// "I have asked."
    Talk,
}

/// How many of each member.
type Requests = BTreeMap<MemberId, u32>;

impl Talking {
    pub(crate) fn make(
        order: Order,
        clocks: Clocks,
        me: MemberId,
        view: View,
        carried: &Carried,
    ) -> Self {
        let central = Central::new(me, view, carried).in_order(order);
        let [known, asked] = [Requests::new(), Requests::new()];
        Self { me, central, confidant: view.successor(me), clocks, known, asked }
    }

    /// Whether nobody stands in the coordinator's line before one that asked first: members by rank,
    /// of which the last coordinates.
    pub(crate) fn are_in_line(members: &[&Self]) -> bool {
        let member = |rank: &MemberId| members[rank.0 as usize];
        let coordinator = &members[members.len() - 1].central;
        let is_current = |rank: &MemberId| coordinator.waits(*rank, member(rank).central.latest());
        let line: Vec<MemberId> = coordinator.queue().filter(is_current).collect();
        let happened_before = |one: &MemberId, other: &MemberId| {
            let count = member(one).asked.get(one);
            count.is_some() && member(other).asked.get(one) >= count
        };
        (0..line.len()).all(|place| {
            line[place + 1..].iter().all(|behind| !happened_before(behind, &line[place]))
        })
    }

    fn feed(&mut self, now: LocalTime, input: InputOf<Central>, out: &mut OutboxOf<Self>) {
        let mut said = Outbox::default();
        self.central.handle(now, input, &mut said);
        let clocked = |message| self.clocked(Content::Lock(message));
        said.pour_into(out, clocked, |timer| timer);
    }

    fn clocked(&self, content: Content) -> Message {
        Message { time: self.central.time(), known: self.known.clone(), content }
    }

    fn ask(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        *self.known.entry(self.me).or_default() += 1;
        self.asked = self.known.clone();
        self.feed(now, Input::Command(Command::Enter), out);
        out.send(self.confidant, self.clocked(Content::Talk));
    }

    fn hear(&mut self, message: &Message) {
        match self.clocks {
            Clocks::Follow => self.central.witness(message.time),
            Clocks::StandApart => {}
        }
        for (member, count) in &message.known {
            let known = self.known.entry(*member).or_default();
            *known = (*known).max(*count);
        }
    }
}

impl Mutex for Talking {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        Self::make(Order::Stamps, Clocks::Follow, me, view, carried)
    }

    fn phase(&self) -> Phase {
        self.central.phase()
    }
}

impl Protocol for Talking {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = central::Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let mut said = Outbox::default();
        self.central.start(now, &mut said);
        let clocked = |message| self.clocked(Content::Lock(message));
        said.pour_into(out, clocked, |timer| timer);
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(Command::Enter) => self.ask(now, out),
            Input::Command(Command::Exit) => self.feed(now, Input::Command(Command::Exit), out),
            Input::Message { from, message } => {
                self.hear(&message);
                match message.content {
                    Content::Lock(message) => self.feed(now, Input::Message { from, message }, out),
                    Content::Talk => {}
                }
            }
            Input::Timer(timer) => self.feed(now, Input::Timer(timer), out),
        }
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match &self.content {
            Content::Lock(message) => message.name(),
            Content::Talk => "talk",
        }
    }
}
