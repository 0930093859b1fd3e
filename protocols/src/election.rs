//! Electing one of the members.
//!
//! An election only *nominates*: the textbook algorithms assume that nobody is wrongly taken for
//! dead and that the network is whole, so two members may think themselves elected. What makes the
//! winner a leader is the leader lease protocol.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::MemberId;
use crate::one_of::one_of;
use crate::policy::ElectionAlgorithm;
use crate::protocol::Protocol;

pub mod bully;
pub mod chang_roberts;
mod hops;
mod nominating;
mod place;
pub mod ring;
pub mod spanning_tree;
pub mod superpeers;

pub use bully::Bully;
pub use chang_roberts::ChangRoberts;
pub use place::{Place, Way};
pub use ring::Ring;
pub use spanning_tree::SpanningTree;

/// What a member may ask of an election.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Command {
    /// "The leader is gone: elect another."
    Elect,
    /// "I am back: who leads?" An algorithm that cannot ask elects.
    Inquire,
}

/// What a member learns from an election.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Event {
    /// This one was elected, perhaps this member itself.
    Elected(MemberId),
}

/// How long an election waits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Timing {
    /// For an answer of a living member, there and back: the textbook's Δt.
    pub answer: Duration,
    /// For the announcement of the winner by somebody who answered: the textbook's Δt'. Longer than
    /// `answer` by at least two transfers, or the lower ranks elect again too soon. [`Bully`] alone needs
    /// it: the others know how long they may take.
    pub announcement: Duration,
}

impl Timing {
    /// Short against the leader lease that the outcome waits for.
    #[must_use]
    pub fn of(leader_lease: Duration) -> Self {
        let answer = (leader_lease / 15).min(Duration::from_millis(500));
        Self { answer, announcement: answer * 3 }
    }
}

/// What every election is to tests, to metrics and to the member that starts it.
///
/// A member learns the outcome of an election by one [`Event::Elected`], also of one that another started. It may
/// learn of several in a row, the same winner twice among them, if there were several elections.
/// An election that came to nothing is started anew by another [`Command::Elect`]; one that is
/// still under way is not disturbed by it.
pub trait Election: Protocol<Peer = MemberId, Command = Command, Event = Event> + Sized {
    /// A member that takes part in no election yet.
    fn new(place: Place, timing: Timing) -> Self;

    /// Whom this member takes for elected; nobody while it takes part in an election.
    fn elected(&self) -> Option<MemberId>;

    /// Whether this member waits for an outcome.
    fn is_electing(&self) -> bool;
}

one_of! {
    /// The election that the policy names.
    pub enum AnyElection {
        type Peer = MemberId;
        type Command = Command;
        type Event = Event;
        /// What the members of an election send to each other.
        enum Message = AnyMessage;
        /// The timers of an election.
        enum Timer = AnyTimer;

        /// The highest living rank wins.
        Bully(Bully),
        /// A list of the living goes round.
        Ring(Ring),
        /// The highest identifier goes round.
        ChangRoberts(ChangRoberts),
        /// The greatest capacity is reported up a tree.
        SpanningTree(SpanningTree),
    }
}

impl AnyElection {
    /// A member that takes part in no election yet.
    pub fn new(algorithm: ElectionAlgorithm, place: Place, timing: Timing) -> Self {
        match algorithm {
            ElectionAlgorithm::Bully => Self::Bully(Bully::new(place, timing)),
            ElectionAlgorithm::Ring => Self::Ring(Ring::new(place, timing)),
            ElectionAlgorithm::ChangRoberts => Self::ChangRoberts(ChangRoberts::new(place, timing)),
            ElectionAlgorithm::SpanningTree => Self::SpanningTree(SpanningTree::new(place, timing)),
        }
    }

    /// Whom this member takes for elected; nobody while it takes part in an election.
    pub fn elected(&self) -> Option<MemberId> {
        match self {
            Self::Bully(bully) => bully.elected(),
            Self::Ring(ring) => ring.elected(),
            Self::ChangRoberts(member) => member.elected(),
            Self::SpanningTree(member) => member.elected(),
        }
    }

    /// Whether this member waits for an outcome.
    pub fn is_electing(&self) -> bool {
        match self {
            Self::Bully(bully) => bully.is_electing(),
            Self::Ring(ring) => ring.is_electing(),
            Self::ChangRoberts(member) => member.is_electing(),
            Self::SpanningTree(member) => member.is_electing(),
        }
    }
}

impl AnyMessage {
    /// Whether the textbook counts it. Acknowledgements are ours, and probes are not in its figures.
    pub fn is_counted(&self) -> bool {
        match self {
            Self::Bully(_) => true,
            Self::Ring(message) => *message != ring::Message::Ack,
            Self::ChangRoberts(message) => *message != chang_roberts::Message::Ack,
            Self::SpanningTree(message) => message.is_counted(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Epoch;
    use crate::protocol::{Effect, Input, Outbox};
    use crate::time::LocalTime;
    use crate::view::View;

    fn election(algorithm: ElectionAlgorithm, me: u32) -> AnyElection {
        let view = View { epoch: Epoch(1), size: 2, leader: MemberId(1) };
        let timing = Timing { answer: Duration::ZERO, announcement: Duration::ZERO };
        AnyElection::new(algorithm, Place::new(MemberId(me), view), timing)
    }

    #[test]
    fn the_algorithm_named_is_the_one_that_runs() {
        for (algorithm, timer) in [
            (ElectionAlgorithm::Bully, AnyTimer::Bully(bully::Timer::Answers)),
            (ElectionAlgorithm::Ring, AnyTimer::Ring(ring::Timer::Ack)),
            (
                ElectionAlgorithm::ChangRoberts,
                AnyTimer::ChangRoberts(chang_roberts::Timer::Announcement),
            ),
            (
                ElectionAlgorithm::SpanningTree,
                AnyTimer::SpanningTree(spanning_tree::Timer::Answers),
            ),
        ] {
            let mut out = Outbox::default();
            let mut member = election(algorithm, 0);
            member.handle(LocalTime(0), Input::Command(Command::Elect), &mut out);
            assert!(member.is_electing());
            let armed = Effect::Arm { timer, after: Duration::ZERO };
            assert!(out.drain().any(|effect| effect == armed));
        }
    }

    #[test]
    fn a_message_or_a_timer_of_another_algorithm_is_ignored() {
        let mut member = election(ElectionAlgorithm::Ring, 1);
        let mut out = Outbox::default();
        let message = AnyMessage::Bully(bully::Message::Election);
        member.handle(LocalTime(0), Input::Message { from: MemberId(0), message }, &mut out);
        let timer = Input::Timer(AnyTimer::Bully(bully::Timer::Answers));
        member.handle(LocalTime(0), timer, &mut out);
        assert!(out.is_empty());
        assert_eq!(member, election(ElectionAlgorithm::Ring, 1));
    }
}
