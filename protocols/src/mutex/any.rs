//! The mutex that a policy names.

use super::central::Central;
use super::coordinated::{Coordinated, Coordination};
use super::lamport::Lamport;
use super::maekawa::Maekawa;
use super::raymond::Raymond;
use super::ricart_agrawala::RicartAgrawala;
use super::superpeers::Superpeers;
use super::token_ring::TokenRing;
use super::voting::Voting;
use super::{Carried, Command, Event, GroupMutex, Mutex, PaidBy, Permissions, Phase, central};
use crate::ids::{MemberId, RequestNumber};
use crate::one_of::one_of;
use crate::policy::LockAlgorithm;
use crate::protocol::{Outbox, OutboxOf};
use crate::view::View;

one_of! {
    /// The mutex that a policy names for a lock.
    pub enum AnyMutex {
        type Peer = MemberId;
        type Command = Command;
        type Event = Event;
        /// What its members send.
        enum Message = AnyMessage;
        /// Its timers.
        enum Timer = AnyTimer;

        /// One coordinator grants: the leader.
        Central(Central),
        /// A token goes round a ring.
        TokenRing(TokenRing),
        /// A token goes about in a tree.
        Raymond(Raymond),
        /// Everybody keeps the queue.
        Lamport(Lamport),
        /// Everybody permits, or defers the reply.
        RicartAgrawala(RicartAgrawala),
        /// The members of a quorum vote.
        Maekawa(Maekawa),
        /// A majority of the members votes.
        Voting(Voting),
        /// One of several coordinators grants.
        Superpeers(Superpeers),
    }
}

macro_rules! each {
    ($value:expr, $mutex:ident => $does:expr) => {
        match $value {
            AnyMutex::Central($mutex) => $does,
            AnyMutex::TokenRing($mutex) => $does,
            AnyMutex::Raymond($mutex) => $does,
            AnyMutex::Lamport($mutex) => $does,
            AnyMutex::RicartAgrawala($mutex) => $does,
            AnyMutex::Maekawa($mutex) => $does,
            AnyMutex::Voting($mutex) => $does,
            AnyMutex::Superpeers($mutex) => $does,
        }
    };
}

impl AnyMutex {
    /// One member's part at the start of a view.
    ///
    /// Permissions are kept if the policy states so. `coordinator` coordinates this lock where one of several does.
    #[must_use]
    pub fn new(
        algorithm: LockAlgorithm,
        permissions: Permissions,
        coordinator: MemberId,
        me: MemberId,
        view: View,
        carried: &Carried,
    ) -> Self {
        match algorithm {
            LockAlgorithm::Central => {
                Self::Central(Central::new(me, view, carried).with(permissions))
            }
            LockAlgorithm::TokenRing => Self::TokenRing(TokenRing::new(me, view, carried)),
            LockAlgorithm::Raymond => Self::Raymond(Raymond::new(me, view, carried)),
            LockAlgorithm::Lamport => Self::Lamport(Lamport::new(me, view, carried)),
            LockAlgorithm::RicartAgrawala => {
                Self::RicartAgrawala(RicartAgrawala::of(permissions, me, view, carried))
            }
            LockAlgorithm::Maekawa => Self::Maekawa(Maekawa::new(me, view, carried)),
            LockAlgorithm::Voting => Self::Voting(Voting::new(me, view, carried)),
            LockAlgorithm::Superpeers => {
                let member = Superpeers::of(coordinator, me, view, carried);
                Self::Superpeers(member.with(permissions))
            }
        }
    }

    /// What it can do as one in which the leader admits all others, if it is that.
    #[must_use]
    pub fn coordinated(&self) -> Option<&dyn Coordinated> {
        let Self::Central(central) = self else { return None };
        Some(central)
    }

    /// The same, to be changed.
    pub fn coordinated_mut(&mut self) -> Option<&mut dyn Coordinated> {
        let Self::Central(central) = self else { return None };
        Some(central)
    }

    /// Asks the coordinator anew for what this member waits for.
    pub fn ask_again(&mut self, out: &mut OutboxOf<Self>) {
        if let Self::Central(central) = self {
            let mut effects = Outbox::default();
            central.ask_again(&mut effects);
            effects.pour_into(out, AnyMessage::Central, AnyTimer::Central);
        }
    }

    /// The coordinator asks once more for the grant that is out.
    pub fn recall_again(&mut self, out: &mut OutboxOf<Self>) {
        if let Self::Central(central) = self {
            let mut effects = Outbox::default();
            central.recall_again(&mut effects);
            effects.pour_into(out, AnyMessage::Central, AnyTimer::Central);
        }
    }

    /// Where this member stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        each!(self, mutex => mutex.phase())
    }

    /// Whether it knows that another wants in.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        each!(self, mutex => mutex.is_contended())
    }

    /// The latest number or time that a request of this member had, if requests have one.
    #[must_use]
    pub fn latest(&self) -> u64 {
        each!(self, mutex => GroupMutex::latest(mutex))
    }

    /// Numbers requests from there on.
    #[must_use]
    pub fn numbered_after(self, latest: u64) -> Self {
        match self {
            Self::Central(mutex) => Self::Central(GroupMutex::numbered_after(mutex, latest)),
            Self::TokenRing(mutex) => Self::TokenRing(mutex.numbered_after(latest)),
            Self::Raymond(mutex) => Self::Raymond(mutex.numbered_after(latest)),
            Self::Lamport(mutex) => Self::Lamport(mutex.numbered_after(latest)),
            Self::RicartAgrawala(mutex) => Self::RicartAgrawala(mutex.numbered_after(latest)),
            Self::Maekawa(mutex) => Self::Maekawa(mutex.numbered_after(latest)),
            Self::Voting(mutex) => Self::Voting(mutex.numbered_after(latest)),
            Self::Superpeers(mutex) => Self::Superpeers(mutex.numbered_after(latest)),
        }
    }

    /// Whether nothing but [`AnyMutex::latest`] would be lost if this value were dropped and made
    /// anew.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        each!(self, mutex => mutex.is_unused())
    }
}

impl AnyMessage {
    /// A member asks its coordinator, by that request.
    #[must_use]
    pub fn request(number: RequestNumber) -> Self {
        Self::Central(central::Message::Request(number))
    }

    /// What it states between a member and its coordinator; nothing if its algorithm has none.
    #[must_use]
    pub fn coordination(&self) -> Option<Coordination> {
        let Self::Central(message) = self else { return None };
        Some(match *message {
            central::Message::Request(number) => Coordination::Request(number),
            central::Message::Grant(number) => Coordination::Grant(number),
            central::Message::Queued(_) => Coordination::Queued,
            central::Message::Release(number) => Coordination::Release(number),
            central::Message::Wanted(_) | central::Message::InUse(_) => Coordination::Other,
        })
    }

    /// To whose entry the textbook counts it.
    #[must_use]
    pub fn paid_by(&self) -> PaidBy {
        match self {
            Self::Central(message) => Central::paid_by(message),
            Self::TokenRing(message) => TokenRing::paid_by(message),
            Self::Raymond(message) => Raymond::paid_by(message),
            Self::Lamport(message) => Lamport::paid_by(message),
            Self::RicartAgrawala(message) => RicartAgrawala::paid_by(message),
            Self::Maekawa(message) => Maekawa::paid_by(message),
            Self::Voting(message) => Voting::paid_by(message),
            Self::Superpeers(message) => Superpeers::paid_by(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Epoch;

    #[test]
    fn an_algorithm_is_coordinated_if_the_policy_says_that_the_leader_grants() {
        let view = View { epoch: Epoch(1), size: 3, leader: MemberId(2) };
        for algorithm in LockAlgorithm::ALL {
            let (permissions, nothing) = (Permissions::ForOneEntry, Carried::default());
            let (me, other) = (MemberId(0), MemberId(1));
            let mut mutex = AnyMutex::new(algorithm, permissions, other, me, view, &nothing);
            assert_eq!(mutex.coordinated().is_some(), algorithm.has_coordinator());
            assert_eq!(mutex.coordinated_mut().is_some(), algorithm.has_coordinator());
        }
        assert_eq!(
            AnyMessage::request(RequestNumber(7)).coordination(),
            Some(Coordination::Request(RequestNumber(7)))
        );
    }
}
