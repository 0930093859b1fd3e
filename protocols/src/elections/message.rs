//! What members send about named elections.

use serde::{Deserialize, Serialize};

use super::event::{Candidacy, Profile};
use crate::election::AnyMessage;
use crate::ids::{HoldName, MemberId};
use crate::protocol::Named;

/// A message of one election.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct ElectionMessage {
    /// Which: the name of the hold that is its lead.
    pub name: HoldName,
    /// What about it.
    pub what: What,
}

/// What members send about an election.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum What {
    /// "I stand." To the leader of the group.
    Stand(Candidacy),
    /// "I do not stand." To the leader of the group.
    Withdraw,
    /// "Nobody has the lead: nominate one of these." From the leader of the group.
    Call {
        /// Higher than that of any earlier ballot of this election in the view.
        ballot: u64,
        /// The candidates, those that are to win last.
        candidates: Vec<MemberId>,
    },
    /// What the algorithm sends, from candidate to candidate.
    Nominate {
        /// In which ballot.
        ballot: u64,
        /// What.
        message: AnyMessage,
    },
    /// "So it stands." From the leader of the group.
    State {
        /// Higher than that of any earlier one about this election in the view.
        number: u64,
        /// How.
        state: State,
    },
    /// "I know that one." To the leader of the group.
    Known(u64),
    /// "This candidate is to lead next." To the leader of the group.
    Transfer(MemberId),
    /// "Give the lead to another, if you have it." From the leader of the group.
    HandOver,
}

/// How an election stands.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct State {
    /// Who has the lead.
    pub leader: Option<MemberId>,
    /// What that one states of itself.
    pub profile: Profile,
    /// Who stands, and with which priority.
    pub candidates: Vec<(MemberId, i32)>,
}

impl Named for ElectionMessage {
    fn name(&self) -> &'static str {
        match &self.what {
            What::Stand(_) => "stand",
            What::Withdraw => "withdraw",
            What::Call { .. } => "call",
            What::Nominate { message, .. } => message.name(),
            What::State { .. } => "election_state",
            What::Known(_) => "election_known",
            What::Transfer(_) => "transfer",
            What::HandOver => "hand_over",
        }
    }
}
