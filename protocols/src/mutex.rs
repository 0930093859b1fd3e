//! Mutual exclusion within one view.
//!
//! The algorithms stand here as their sources have them: no leases, no tokens, no crashes. What
//! they lack is put around them by the member that runs them. A member runs [`AnyMutex`]: the one
//! that the policy of its view names for the lock.

mod any;
pub mod central;
mod coordinated;
pub mod lamport;
pub mod maekawa;
pub mod raymond;
pub mod ricart_agrawala;
pub mod superpeers;
pub mod token_ring;
pub mod voting;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::any::{AnyMessage, AnyMutex, AnyTimer};
pub use self::coordinated::{Coordinated, Coordination};
use crate::ids::{LamportTime, MemberId, RequestNumber};
use crate::protocol::{OutboxOf, Protocol};
pub use crate::view::Carried;
use crate::view::View;

/// What a member may ask of a mutex.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Command {
    /// Wants in.
    Enter,
    /// Leaves, or no longer wants in.
    Exit,
}

/// What a member learns from a mutex.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Event {
    /// It is in the critical section.
    Entered,
    /// It is known to wait: the members that must admit it live.
    Queued,
}

/// Where a member stands.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Phase {
    /// It wants nothing.
    Idle,
    /// It wants in.
    Waiting,
    /// It is in the critical section.
    InSection,
}

/// To whose entry the textbook counts a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PaidBy {
    /// To the sender's: it asks, or gives back.
    Sender,
    /// To the receiver's: it is answered.
    Receiver,
    /// To that which the sender ends with it. A member that still waits ends an attempt with it, and not the
    /// entry.
    Leaver,
    /// To nobody's: the textbook does not have it.
    Nobody,
}

/// Who waits, as a message states: people are shown on whose behalf, and for whom.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Waits {
    /// Its sender, which wants in itself.
    Sender,
    /// Its receiver, for a member that is in.
    Receiver,
    /// It does not state that.
    Nobody,
}

/// How long the permission to enter is good.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Permissions {
    /// For one entry.
    #[default]
    ForOneEntry,
    /// Until somebody else asks. Meanwhile the member enters again without a message.
    Kept {
        /// A member that left so long ago, and did not enter again, keeps nothing any more.
        idle: Duration,
    },
}

impl Carried {
    /// Where the token of an algorithm that has one begins a view: with the member in the critical section, else
    /// with the first in line, else with rank 0.
    fn token_begins_at(&self, view: View) -> MemberId {
        let candidates = self.holder.iter().chain(&self.waiting);
        candidates.copied().find(|member| view.has(*member)).unwrap_or(MemberId(0))
    }

    /// The requests with which an algorithm that has stamps begins a view, that of the member in the critical section
    /// first: each has the next time of a clock. Also that clock, which all members go on with.
    fn stamped(&self, view: View) -> (Vec<(LamportTime, MemberId)>, LamportTime) {
        let mut clock = LamportTime::default();
        let mut requests: Vec<(LamportTime, MemberId)> = Vec::new();
        for member in self.holder.iter().chain(&self.waiting).copied() {
            if view.has(member) && !requests.iter().any(|(_, known)| *known == member) {
                requests.push((clock.tick(), member));
            }
        }
        (requests, clock)
    }
}

/// What every mutex is to tests, to metrics and to the member that runs it.
pub trait Mutex: Protocol<Peer = MemberId, Command = Command, Event = Event> + Sized {
    /// One member's part, at the start of a view, with holder and waiters carried over.
    fn new(me: MemberId, view: View, carried: &Carried) -> Self;

    /// Where this member stands.
    fn phase(&self) -> Phase;
}

/// What a member of a group needs of a mutex besides.
pub trait GroupMutex: Mutex {
    /// Whether it knows that another wants in. Nobody is bound to know.
    fn is_contended(&self) -> bool;

    /// The latest number or time that a request of this member had, if requests have one.
    fn latest(&self) -> u64 {
        0
    }

    /// Numbers requests from there on. A value that is dropped and made anew within one view must not
    /// use a number again: an answer to the request that had it may be under way.
    #[must_use]
    fn numbered_after(self, _latest: u64) -> Self {
        self
    }

    /// To whose entry the textbook counts a message.
    fn paid_by(message: &Self::Message) -> PaidBy;

    /// Who waits, as a message states.
    fn waiting_side(message: &Self::Message) -> Waits;

    /// What it can do, if it is one in which the leader admits all others. None of the following is for others.
    fn coordinated(&self) -> Option<&dyn Coordinated> {
        None
    }

    /// The same, to be changed.
    fn coordinated_mut(&mut self) -> Option<&mut dyn Coordinated> {
        None
    }

    /// What a message states between a member and its coordinator.
    fn coordination(_message: &Self::Message) -> Option<Coordination> {
        None
    }

    /// By this message a member asks its coordinator.
    fn request(_number: RequestNumber) -> Option<Self::Message> {
        None
    }

    /// Asks the coordinator anew for what this member waits for.
    fn ask_again(&mut self, _out: &mut OutboxOf<Self>) {}

    /// The coordinator asks once more for the grant that is out, if one may be kept.
    fn recall_again(&mut self, _out: &mut OutboxOf<Self>) {}

    /// Whether nothing but [`GroupMutex::latest`] would be lost if this value were dropped and made anew.
    fn is_unused(&self) -> bool;
}
