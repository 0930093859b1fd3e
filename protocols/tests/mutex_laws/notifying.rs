//! A lock whose members also send each other other messages: a member that asks notifies the next
//! one of it. That one may then ask too, after the first and because of it, and be heard before.
//!
//! With every message goes its sender's clock, which the receiver follows. Besides, with every message
//! goes which requests have happened before it, and that nobody but the laws looks at.

use std::collections::BTreeMap;

use conclave_protocols::mutex::lamport::Lamport;
use conclave_protocols::mutex::ricart_agrawala::RicartAgrawala;
use conclave_protocols::mutex::{Carried, Command, Event, GroupMutex, Mutex, Phase};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{Input, LocalTime, MemberId, Named, Outbox, Protocol, View};

/// One member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Notifying<P> {
    me: MemberId,
    pub(crate) lock: P,
    confidant: MemberId,
    clocks: Clocks,
    /// How many requests of each have happened before now.
    known: Requests,
    /// The same when this member last asked, with that request.
    asked: Requests,
}

/// Whether clocks follow each other by what members send besides, as they must.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Clocks {
    Follow,
    StandApart,
}

/// A lock with a logical clock.
pub(crate) trait Clocked: Mutex {
    fn time(&self) -> u64;

    /// Takes note of the clock of another.
    fn follow(&mut self, time: u64);
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Message<M> {
    time: u64,
    known: Requests,
    content: Content<M>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Content<M> {
    Lock(M),
    /// "I have asked."
    Traffic,
}

/// How many of each member.
type Requests = BTreeMap<MemberId, u32>;

impl<P: Clocked> Notifying<P> {
    pub(crate) fn around(lock: P, clocks: Clocks, me: MemberId, view: View) -> Self {
        let [known, asked] = [Requests::new(), Requests::new()];
        Self { me, lock, confidant: view.successor(me), clocks, known, asked }
    }

    /// Whether this member's request happened before that of another.
    pub(crate) fn asked_before(&self, other: &Self) -> bool {
        let count = self.asked.get(&self.me);
        count.is_some() && other.asked.get(&self.me) >= count
    }

    fn feed(&mut self, now: LocalTime, input: InputOf<P>, out: &mut OutboxOf<Self>) {
        let mut sent = Outbox::default();
        self.lock.handle(now, input, &mut sent);
        let clocked = |message| self.clocked(Content::Lock(message));
        sent.pour_into(out, clocked, |timer| timer);
    }

    fn clocked(&self, content: Content<P::Message>) -> Message<P::Message> {
        Message { time: self.lock.time(), known: self.known.clone(), content }
    }

    fn ask(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        *self.known.entry(self.me).or_default() += 1;
        self.asked = self.known.clone();
        let mut sent = Outbox::default();
        self.feed(now, Input::Command(Command::Enter), &mut sent);
        // What is sent in another way may be there before what the lock sends.
        out.send(self.confidant, self.clocked(Content::Traffic));
        sent.pour_into(out, |message| message, |timer| timer);
    }

    fn hear(&mut self, message: &Message<P::Message>) {
        match self.clocks {
            Clocks::Follow => self.lock.follow(message.time),
            Clocks::StandApart => {}
        }
        for (member, count) in &message.known {
            let known = self.known.entry(*member).or_default();
            *known = (*known).max(*count);
        }
    }
}

impl Clocked for Lamport {
    fn time(&self) -> u64 {
        self.latest()
    }

    fn follow(&mut self, time: u64) {
        *self = self.clone().numbered_after(time);
    }
}

impl Clocked for RicartAgrawala {
    fn time(&self) -> u64 {
        self.latest()
    }

    fn follow(&mut self, time: u64) {
        *self = self.clone().numbered_after(time);
    }
}

impl<P: Clocked> Mutex for Notifying<P> {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        Self::around(P::new(me, view, carried), Clocks::Follow, me, view)
    }

    fn phase(&self) -> Phase {
        self.lock.phase()
    }
}

impl<P: Clocked> Protocol for Notifying<P> {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message<P::Message>;
    type Timer = P::Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let mut sent = Outbox::default();
        self.lock.start(now, &mut sent);
        let clocked = |message| self.clocked(Content::Lock(message));
        sent.pour_into(out, clocked, |timer| timer);
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(Command::Enter) => self.ask(now, out),
            Input::Command(Command::Exit) => self.feed(now, Input::Command(Command::Exit), out),
            Input::Message { from, message } => {
                self.hear(&message);
                match message.content {
                    Content::Lock(message) => self.feed(now, Input::Message { from, message }, out),
                    Content::Traffic => {}
                }
            }
            Input::Timer(timer) => self.feed(now, Input::Timer(timer), out),
        }
    }
}

impl<M: Named> Named for Message<M> {
    fn name(&self) -> &'static str {
        match &self.content {
            Content::Lock(message) => message.name(),
            Content::Traffic => "traffic",
        }
    }
}
