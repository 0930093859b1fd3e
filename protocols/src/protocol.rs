//! What an algorithm is to its driver: inputs in, effects out.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use crate::time::LocalTime;

/// A deterministic state machine for one member of one group.
///
/// The runner owns time, links and randomness. It calls [`Protocol::start`] once and then
/// [`Protocol::handle`] for every input, one at a time, and carries out the effects in the order in
/// which they were put into the [`Outbox`].
pub trait Protocol {
    /// Its peers: ranks of a view for the textbook algorithms.
    type Peer: Value + Copy + Ord;
    /// What the application on this member may ask for.
    type Command: Value;
    /// What members send to each other.
    type Message: Value + Named;
    /// The timer clocks of this protocol, by name.
    type Timer: Value + Copy + Ord;
    /// What the application on this member gets to know.
    type Event: Value;

    /// Begins, before any input.
    fn start(&mut self, _now: LocalTime, _out: &mut OutboxOf<Self>) {}

    /// Deals with one thing that happened. `now` is the one clock reading of this call.
    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>);
}

/// What every part of a protocol is: something to copy, print, compare and remember having seen.
pub trait Value: Clone + Debug + Eq + Hash {}
impl<T: Clone + Debug + Eq + Hash> Value for T {}

/// A message that has a name, the same in metrics, logs and documents.
pub trait Named {
    /// The name in `snake_case`, from a closed set.
    fn name(&self) -> &'static str;
}

/// Something that happened to a member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Input<P, C, M, T> {
    /// The application asks.
    Command(C),
    /// A message arrived.
    Message {
        /// The sender, as the link knows it.
        from: P,
        /// What it sent.
        message: M,
    },
    /// A timer that was armed and not disarmed since.
    Timer(T),
}

/// Something that a member wants done.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Effect<P, M, T, E> {
    /// Send a message.
    Send {
        /// To whom.
        to: P,
        /// What.
        message: M,
    },
    /// Set a timer; arming a name again replaces it.
    Arm {
        /// Its name.
        timer: T,
        /// From now.
        after: Duration,
    },
    /// Cancel a timer, if it is set.
    Disarm(T),
    /// Let the application know.
    Tell(E),
}

/// The inputs of a protocol.
pub type InputOf<P> = Input<
    <P as Protocol>::Peer,
    <P as Protocol>::Command,
    <P as Protocol>::Message,
    <P as Protocol>::Timer,
>;

/// The effects of a protocol.
pub type EffectOf<P> = Effect<
    <P as Protocol>::Peer,
    <P as Protocol>::Message,
    <P as Protocol>::Timer,
    <P as Protocol>::Event,
>;

/// The outbox of a protocol.
pub type OutboxOf<P> = Outbox<
    <P as Protocol>::Peer,
    <P as Protocol>::Message,
    <P as Protocol>::Timer,
    <P as Protocol>::Event,
>;

/// Where a protocol puts what it wants done, in order.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Outbox<P, M, T, E> {
    effects: Vec<Effect<P, M, T, E>>,
}

impl<P, M, T, E> Default for Outbox<P, M, T, E> {
    fn default() -> Self {
        Self { effects: Vec::new() }
    }
}

impl<P, M, T, E> Outbox<P, M, T, E> {
    /// Sends one message.
    pub fn send(&mut self, to: P, message: M) {
        self.effects.push(Effect::Send { to, message });
    }

    /// Sends the same message to each.
    pub fn send_each(&mut self, to: impl IntoIterator<Item = P>, message: &M)
    where
        M: Clone,
    {
        for peer in to {
            self.send(peer, message.clone());
        }
    }

    /// Sets a timer, or sets it anew.
    pub fn arm(&mut self, timer: T, after: Duration) {
        self.effects.push(Effect::Arm { timer, after });
    }

    /// Cancels a timer.
    pub fn disarm(&mut self, timer: T) {
        self.effects.push(Effect::Disarm(timer));
    }

    /// Lets the application know.
    pub fn tell(&mut self, event: E) {
        self.effects.push(Effect::Tell(event));
    }

    /// Takes out everything, in order.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Effect<P, M, T, E>> {
        self.effects.drain(..)
    }

    /// What is in it, in order.
    pub fn effects(&self) -> &[Effect<P, M, T, E>] {
        &self.effects
    }

    /// Puts everything into another outbox, in order, with messages and timers wrapped.
    pub fn pour_into<N, U>(
        &mut self,
        out: &mut Outbox<P, N, U, E>,
        message: impl Fn(M) -> N,
        timer: impl Fn(T) -> U,
    ) {
        out.effects.extend(self.drain().map(|effect| match effect {
            Effect::Send { to, message: sent } => Effect::Send { to, message: message(sent) },
            Effect::Arm { timer: armed, after } => Effect::Arm { timer: timer(armed), after },
            Effect::Disarm(disarmed) => Effect::Disarm(timer(disarmed)),
            Effect::Tell(event) => Effect::Tell(event),
        }));
    }

    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }
}
