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
use super::{Carried, Command, Event, GroupMutex, Mutex, PaidBy, Permissions, Phase, Waits};
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

/// The same of each algorithm. In it `Algorithm` is that, and `Whole`, `Message` and `Timer` make of what is its own
/// what is of any.
macro_rules! each {
    ($Any:ident, $value:expr, $own:ident => $does:expr) => {
        each!(
            $Any, $value, $own => $does;
            Central TokenRing Raymond Lamport RicartAgrawala Maekawa Voting Superpeers
        )
    };
    ($Any:ident, $value:expr, $own:ident => $does:expr; $($Name:ident)+) => {
        match $value {
            $($Any::$Name($own) => {
                #[allow(unused_imports, reason = "not all of it is of use everywhere")]
                use self::{
                    $Name as Algorithm, AnyMessage::$Name as Message, AnyMutex::$Name as Whole,
                    AnyTimer::$Name as Timer,
                };
                $does
            })+
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
        each!(AnyMutex, self, mutex => mutex.coordinated())
    }

    /// The same, to be changed.
    pub fn coordinated_mut(&mut self) -> Option<&mut dyn Coordinated> {
        each!(AnyMutex, self, mutex => mutex.coordinated_mut())
    }

    /// A member asks its coordinator, by that request; nothing if its algorithm has none.
    #[must_use]
    pub fn request(&self, number: RequestNumber) -> Option<AnyMessage> {
        each!(AnyMutex, self, _mutex => Algorithm::request(number).map(Message))
    }

    /// Asks the coordinator anew for what this member waits for.
    pub fn ask_again(&mut self, out: &mut OutboxOf<Self>) {
        each!(AnyMutex, self, mutex => {
            let mut effects = Outbox::default();
            mutex.ask_again(&mut effects);
            effects.pour_into(out, Message, Timer);
        });
    }

    /// The coordinator asks once more for the grant that is out.
    pub fn recall_again(&mut self, out: &mut OutboxOf<Self>) {
        each!(AnyMutex, self, mutex => {
            let mut effects = Outbox::default();
            mutex.recall_again(&mut effects);
            effects.pour_into(out, Message, Timer);
        });
    }

    /// Where this member stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        each!(AnyMutex, self, mutex => mutex.phase())
    }

    /// Whether it knows that another wants in.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        each!(AnyMutex, self, mutex => mutex.is_contended())
    }

    /// The latest number or time that a request of this member had, if requests have one.
    #[must_use]
    pub fn latest(&self) -> u64 {
        each!(AnyMutex, self, mutex => GroupMutex::latest(mutex))
    }

    /// Numbers requests from there on.
    #[must_use]
    pub fn numbered_after(self, latest: u64) -> Self {
        each!(AnyMutex, self, mutex => Whole(GroupMutex::numbered_after(mutex, latest)))
    }

    /// Whether nothing but [`AnyMutex::latest`] would be lost if this value were dropped and made
    /// anew.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        each!(AnyMutex, self, mutex => mutex.is_unused())
    }
}

impl AnyMessage {
    /// What it states between a member and its coordinator; nothing if its algorithm has none.
    #[must_use]
    pub fn coordination(&self) -> Option<Coordination> {
        each!(AnyMessage, self, message => Algorithm::coordination(message))
    }

    /// To whose entry the textbook counts it.
    #[must_use]
    pub fn paid_by(&self) -> PaidBy {
        each!(AnyMessage, self, message => Algorithm::paid_by(message))
    }

    /// Who waits, as it states.
    #[must_use]
    pub fn waiting_side(&self) -> Waits {
        each!(AnyMessage, self, message => Algorithm::waiting_side(message))
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
            let number = RequestNumber(7);
            let stated = mutex.request(number).map(|request| request.coordination());
            let asks = Some(Some(Coordination::Request(number)));
            assert_eq!(stated, asks.filter(|_| algorithm.has_coordinator()));
        }
    }
}
