//! A member as the product has it: the core with its service and its nominator.

use std::ops::Deref;

use crate::core;
pub use crate::core::{GROUP_MAX, Heard, Leadership, Lease, Node, Shown, StatusEpoch, Term};
use crate::election::{self, AnyElection};
pub use crate::elections::{
    Candidacy, Command as ElectionCommand, ElectionEvent, Event as OfElection, Profile,
};
pub use crate::locks::{Command as LockCommand, Event as OfLock, LockEvent, LostReason};
use crate::policy::Policy;
use crate::protocol::{InputOf, OutboxOf, Protocol};
use crate::record::MemberInfo;
use crate::services::Services;
pub use crate::services::{Command as ServiceCommand, Event as OfService};
use crate::time::LocalTime;

/// One member of a group, from its start to its end. What is read of it is read of its core.
///
/// A type of its own, so that the core is compiled for it once, here, and not in every crate and test that runs one.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Member(Core);

type Core = core::Member<Services, AnyElection>;

impl Member {
    /// A new member, as [`core::Member::new`] makes it.
    pub fn new(me: MemberInfo, policy: Policy, status: impl Into<StatusEpoch>) -> Self {
        Self(Core::new(me, policy, status.into()))
    }
}

impl Deref for Member {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.0
    }
}

impl Protocol for Member {
    type Peer = Node;
    type Command = Command;
    type Message = message::Message;
    type Timer = Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        self.0.start(now, out);
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        self.0.handle(now, input, out);
    }
}

/// What is asked of a member from within its process.
pub type Command = core::Command<ServiceCommand>;

/// What a member notifies its process of.
pub type Event = core::Event<OfService>;

/// The timers of a member.
pub type Timer = core::Timer<election::AnyTimer>;

/// What members send to each other.
pub mod message {
    pub use crate::core::message::{
        Admission, Announced, Announcement, Changes, Envelope, Extended, HandOver, Heartbeat,
        LeaderList, Leave, List, ListItem, MemberChanges, Metadata, Note, Promise, Seal, Table,
        TableHold,
    };
    use crate::core::message::{Message as AnyMessage, PeerMessage as AnyPeerMessage};
    use crate::election;
    use crate::elections::election_of;
    pub use crate::elections::message::{
        ElectionMessage, State as ElectionState, What as OfElection,
    };
    use crate::ids::{Epoch, LockName};
    pub use crate::locks::message::{LockMessage, LockNote};
    use crate::protocol::Named;
    pub use crate::services::ServiceMessage;

    /// A message between members, or between a member and the register.
    pub type Message = AnyMessage<ServiceMessage, election::AnyMessage>;

    /// A message between members.
    pub type PeerMessage = AnyPeerMessage<ServiceMessage, election::AnyMessage>;

    /// What a message states about a lock, whatever its algorithm.
    #[derive(Clone, Copy, Debug)]
    pub struct AboutLock<'a> {
        /// Which.
        pub lock: &'a LockName,
        /// The view.
        pub epoch: Epoch,
        /// The message's name.
        pub name: &'static str,
        /// Distinguishes messages of one name that one member sent to another in one view.
        pub mark: u64,
    }

    /// What a message states about an election.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub struct AboutElection<'a> {
        /// Its name; nothing if it is the one of the group's leader.
        pub election: Option<&'a str>,
        /// What the message is there.
        pub part: ElectionPart,
    }

    /// What a message is in an election.
    #[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
    pub enum ElectionPart {
        /// The textbook counts it.
        Textbook,
        /// The algorithm sends it too.
        Acknowledgement,
        /// Candidates and the leader of the group send it around the ballots.
        Notice,
    }

    impl ElectionPart {
        fn of(message: &election::AnyMessage) -> Self {
            if message.is_counted() { Self::Textbook } else { Self::Acknowledgement }
        }
    }

    impl PeerMessage {
        /// The protocol that it belongs to.
        pub fn protocol(&self) -> &'static str {
            if matches!(self, Self::Nominator { .. }) {
                return "election";
            }
            let Self::Service(envelope) = self else { return "view" };
            match &envelope.body {
                ServiceMessage::Lock(_) => "lock",
                ServiceMessage::Election(_) => "election",
            }
        }

        /// What it states about an election; nothing if it is about none.
        pub fn of_election(&self) -> Option<AboutElection<'_>> {
            if let Self::Nominator { message, .. } = self {
                return Some(AboutElection { election: None, part: ElectionPart::of(message) });
            }
            let Self::Service(envelope) = self else { return None };
            let ServiceMessage::Election(message) = &envelope.body else { return None };
            let part = match &message.what {
                OfElection::Nominate { message, .. } => ElectionPart::of(message),
                OfElection::Stand(_)
                | OfElection::Withdraw
                | OfElection::Call { .. }
                | OfElection::State { .. }
                | OfElection::Known(_)
                | OfElection::Transfer(_)
                | OfElection::HandOver => ElectionPart::Notice,
            };
            let election = Some(election_of(&message.name)?);
            Some(AboutElection { election, part })
        }

        /// What it states about a lock; nothing if it is about none.
        pub fn of_lock(&self) -> Option<AboutLock<'_>> {
            let Self::Service(envelope) = self else { return None };
            let ServiceMessage::Lock(message) = &envelope.body else { return None };
            Some(AboutLock {
                lock: &message.lock,
                epoch: envelope.epoch,
                name: message.name(),
                mark: envelope.number,
            })
        }
    }
}
