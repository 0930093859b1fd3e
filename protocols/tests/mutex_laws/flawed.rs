//! Any lock, with a flaw: what its members send is tampered with.

use std::marker::PhantomData;

use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::protocol::{EffectOf, InputOf, OutboxOf};
use conclave_protocols::{Effect, LocalTime, MemberId, Outbox, Protocol, View};

use crate::support::Part;

/// What is wrong with a lock.
pub(crate) trait Flaw<P: Protocol>: Part {
    /// What a member does after this input, instead of what it should.
    fn spoil(input: &InputOf<P>, effects: Vec<EffectOf<P>>) -> Vec<EffectOf<P>>;
}

/// One member with a flaw.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Flawed<P, F> {
    pub(crate) lock: P,
    flaw: PhantomData<F>,
}

impl<P, F> Flawed<P, F> {
    pub(crate) fn around(lock: P) -> Self {
        Self { lock, flaw: PhantomData }
    }
}

impl<P: Mutex, F: Flaw<P>> Mutex for Flawed<P, F> {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        Self::around(P::new(me, view, carried))
    }

    fn phase(&self) -> Phase {
        self.lock.phase()
    }
}

impl<P: Mutex, F: Flaw<P>> Protocol for Flawed<P, F> {
    type Peer = MemberId;
    type Command = Command;
    type Message = P::Message;
    type Timer = P::Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        self.lock.start(now, out);
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        let mut sent = Outbox::default();
        self.lock.handle(now, input.clone(), &mut sent);
        for effect in F::spoil(&input, sent.drain().collect()) {
            match effect {
                Effect::Send { to, message } => out.send(to, message),
                Effect::Arm { timer, after } => out.arm(timer, after),
                Effect::Disarm(timer) => out.disarm(timer),
                Effect::Tell(event) => out.tell(event),
            }
        }
    }
}
