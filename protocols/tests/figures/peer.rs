//! A member of a group with many locks, each of which has a coordinator of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use conclave_protocols::mutex::central::Message;
use conclave_protocols::mutex::superpeers::Superpeers;
use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{Effect, Input, LocalTime, MemberId, Named, Outbox, Protocol, View};

use crate::measure::SECTION;

/// The number of a lock.
pub(crate) type Lock = u32;

/// A member, with its part in each lock that it has to do with.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    me: MemberId,
    view: View,
    coordinators: Arc<[MemberId]>,
    pub(crate) locks: BTreeMap<Lock, Superpeers>,
    /// Messages that it received as a coordinator.
    pub(crate) heard: u64,
    /// All inputs that its parts handled.
    pub(crate) handled: u64,
    /// These inputs, if somebody wants to know them.
    pub(crate) log: Option<Vec<Handled>>,
}

/// An input that a part in a lock handled.
pub(crate) type Handled = (LocalTime, Lock, InputOf<Superpeers>);

/// It entered a lock, or left it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Changed {
    pub(crate) lock: Lock,
    pub(crate) entered: bool,
}

/// What is sent about a lock.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct About(Lock, Message);

impl Named for About {
    fn name(&self) -> &'static str {
        self.1.name()
    }
}

impl Peer {
    pub(crate) fn new(me: MemberId, view: View, coordinators: Arc<[MemberId]>) -> Self {
        let locks = BTreeMap::new();
        Self { me, view, coordinators, locks, heard: 0, handled: 0, log: None }
    }

    /// Its part in a lock.
    pub(crate) fn part(&self, lock: Lock, carried: &Carried) -> Superpeers {
        Superpeers::of(self.coordinators[lock as usize], self.me, self.view, carried)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.locks.values().all(|part| part.phase() == Phase::Idle)
    }

    fn feed(
        &mut self,
        now: LocalTime,
        lock: Lock,
        input: InputOf<Superpeers>,
        out: &mut OutboxOf<Self>,
    ) {
        self.handled += 1;
        if let Some(log) = &mut self.log {
            log.push((now, lock, input.clone()));
        }
        let fresh = self.part(lock, &Carried::default());
        let part = self.locks.entry(lock).or_insert(fresh);
        let mut effects = Outbox::default();
        part.handle(now, input, &mut effects);
        Self::pass(lock, effects, out);
    }

    fn pass(lock: Lock, mut effects: OutboxOf<Superpeers>, out: &mut OutboxOf<Self>) {
        for effect in effects.drain() {
            match effect {
                Effect::Send { to, message } => out.send(to, About(lock, message)),
                Effect::Tell(Event::Entered) => {
                    out.tell(Changed { lock, entered: true });
                    out.arm(lock, SECTION);
                }
                Effect::Tell(Event::Queued) | Effect::Arm { .. } | Effect::Disarm(_) => {}
            }
        }
    }
}

impl Protocol for Peer {
    type Peer = MemberId;
    type Command = Lock;
    type Message = About;
    /// It leaves that lock.
    type Timer = Lock;
    type Event = Changed;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        for (lock, part) in &mut self.locks {
            if part.phase() == Phase::InSection {
                out.arm(*lock, SECTION);
            }
            let mut effects = Outbox::default();
            part.start(now, &mut effects);
            Self::pass(*lock, effects, out);
        }
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(lock) => self.feed(now, lock, Input::Command(Command::Enter), out),
            Input::Message { from, message: About(lock, message) } => {
                if matches!(message, Message::Request(_) | Message::Release(_)) {
                    self.heard += 1;
                }
                self.feed(now, lock, Input::Message { from, message }, out);
            }
            Input::Timer(lock) => {
                out.tell(Changed { lock, entered: false });
                self.feed(now, lock, Input::Command(Command::Exit), out);
            }
        }
    }
}
