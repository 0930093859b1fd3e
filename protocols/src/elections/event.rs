//! What an application asks of an election, and gets to know.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::core::message::Metadata;
use crate::ids::{HoldName, Incarnation};

/// What an application asks. An election goes by the name of the hold that is its lead.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Command {
    /// It may be nominated from now on.
    Stand {
        /// Where.
        election: HoldName,
        /// As what.
        candidacy: Candidacy,
    },
    /// It may not.
    Withdraw {
        /// Where.
        election: HoldName,
    },
    /// That candidate is to lead next, as soon as the leader, if there is one, gives the lead up.
    Transfer {
        /// Where.
        election: HoldName,
        /// Which.
        to: Incarnation,
    },
}

/// What a candidate states of itself.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Candidacy {
    /// The higher, the sooner it is nominated; among equals the higher rank.
    pub priority: i32,
    /// What all are shown of it while it leads.
    pub profile: Profile,
}

/// What all are shown of a leader, as its application states it.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Profile {
    /// Where it is reached.
    pub address: Option<String>,
    /// Anything else.
    pub metadata: Option<Metadata>,
}

/// Something happened in an election.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Event {
    /// Where.
    pub election: HoldName,
    /// What.
    pub event: ElectionEvent,
}

/// What happened in an election.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum ElectionEvent {
    /// A ballot that this member took part in has ended.
    Elected {
        /// Who was nominated: if it is this member, it is to take the lead, or to withdraw.
        winner: Incarnation,
        /// The messages that this member sent in it, as the textbook counts them.
        messages: u64,
        /// How long it took here.
        took: Duration,
    },
    /// So it stands, as the leader of the group knows.
    State {
        /// Who has the lead.
        leader: Option<Incarnation>,
        /// What that one states of itself.
        profile: Profile,
        /// Who stands.
        candidates: Vec<Incarnation>,
    },
    /// If this member has the lead, it is to give it to another.
    HandOver,
}
