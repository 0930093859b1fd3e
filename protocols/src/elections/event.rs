//! What an application asks of an election, and gets to know.

use std::time::Duration;

use crate::ids::{HoldName, Incarnation};

/// What an application asks. An election goes by the name of the hold that is its lead.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Command {
    /// It may be nominated from now on, with this priority.
    Stand {
        /// Where.
        election: HoldName,
        /// The higher, the sooner it is nominated; among equals the higher rank.
        priority: i32,
    },
    /// It may not.
    Withdraw {
        /// Where.
        election: HoldName,
    },
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
        /// How many stand.
        candidates: u32,
    },
}
