//! A token ring of which one member dies, at any time: from then on it does nothing. What it sent
//! before arrives, and last of all, at each of the others, that it is dead.

use std::collections::BTreeSet;
use std::time::Duration;

use conclave_protocols::mutex::token_ring::{self, TokenRing};
use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{Effect, Input, LocalTime, MemberId, Named, Outbox, Protocol, View};

use crate::one_token::Token;

/// One member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Mortal {
    me: MemberId,
    view: View,
    ring: TokenRing,
    end: End,
    heeds: Heeds,
    /// Who is known to be dead.
    known: BTreeSet<MemberId>,
    /// It sent the token to somebody of whom it knew that.
    pub(crate) wasted: bool,
}

/// How it is with the death of a member.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum End {
    Never,
    ToCome,
    Dead,
}

/// What members do when they hear that another is dead.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Heeds {
    /// They pass it over.
    Yes,
    /// Nothing.
    No,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Message {
    Ring(token_ring::Message),
    /// "The sender is dead."
    Died,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Timer {
    Ring(token_ring::Timer),
    Death,
}

impl Mortal {
    /// Of all members the one that is `mortal` dies.
    pub(crate) fn make(me: MemberId, view: View, mortal: MemberId, heeds: Heeds) -> Self {
        let ring = TokenRing::new(me, view, &Carried::default());
        let end = if me == mortal { End::ToCome } else { End::Never };
        Self { me, view, ring, end, heeds, known: BTreeSet::new(), wasted: false }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.end == End::Dead
    }

    fn act(
        &mut self,
        act: impl FnOnce(&mut TokenRing, &mut OutboxOf<TokenRing>),
        out: &mut OutboxOf<Self>,
    ) {
        let mut sent = Outbox::default();
        act(&mut self.ring, &mut sent);
        for effect in sent.drain() {
            match effect {
                Effect::Send { to, message } => {
                    self.wasted |= TokenRing::is_token(&message) && self.known.contains(&to);
                    out.send(to, Message::Ring(message));
                }
                Effect::Arm { timer, after } => out.arm(Timer::Ring(timer), after),
                Effect::Disarm(timer) => out.disarm(Timer::Ring(timer)),
                Effect::Tell(event) => out.tell(event),
            }
        }
    }

    fn die(&mut self, out: &mut OutboxOf<Self>) {
        self.end = End::Dead;
        out.disarm(Timer::Ring(token_ring::Timer::Pause));
        out.send_each(self.view.peers(self.me), &Message::Died);
    }

    fn hear_of(&mut self, dead: MemberId, out: &mut OutboxOf<Self>) {
        self.known.insert(dead);
        match self.heeds {
            Heeds::Yes => self.act(|ring, sent| ring.skip(dead, sent), out),
            Heeds::No => {}
        }
    }
}

impl Token for Mortal {
    fn has_token(&self) -> bool {
        !self.is_dead() && self.ring.has_token()
    }

    fn is_token(message: &Message) -> bool {
        match message {
            Message::Ring(message) => TokenRing::is_token(message),
            Message::Died => false,
        }
    }
}

impl Mutex for Mortal {
    fn new(me: MemberId, view: View, _carried: &Carried) -> Self {
        Self::make(me, view, view.leader, Heeds::Yes)
    }

    /// The dead want nothing.
    fn phase(&self) -> Phase {
        if self.is_dead() { Phase::Idle } else { self.ring.phase() }
    }
}

impl Protocol for Mortal {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        self.act(|ring, sent| ring.start(now, sent), out);
        if self.end == End::ToCome {
            out.arm(Timer::Death, Duration::ZERO);
        }
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        let input = match input {
            _ if self.is_dead() => return,
            Input::Timer(Timer::Death) => return self.die(out),
            Input::Message { from, message: Message::Died } => return self.hear_of(from, out),
            Input::Message { from, message: Message::Ring(message) } => {
                Input::Message { from, message }
            }
            Input::Command(command) => Input::Command(command),
            Input::Timer(Timer::Ring(timer)) => Input::Timer(timer),
        };
        self.act(|ring, sent| ring.handle(now, input, sent), out);
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Ring(message) => message.name(),
            Self::Died => "died",
        }
    }
}
