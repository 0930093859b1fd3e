//! A breach of a law, with the operations that show it.

use std::fmt;

use super::{Law, RecordedOperation};

/// A breach of a law.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// Which law.
    pub law: Law,
    /// What is wrong, in a few words.
    pub what: String,
    /// The operations that show it, by time.
    pub operations: Vec<RecordedOperation>,
}

impl Law {
    /// The law as a sentence.
    pub fn statement(self) -> &'static str {
        match self {
            Self::Form => "the recording makes sense",
            Self::Exclusion => "no two believe to hold a lock at once",
            Self::TokenOrder => {
                "a claim made after a grant, or granted after a hold, gets a larger token, \
                 and nobody gets one while a hold goes on"
            }
            Self::TokenOnce => "no token is given twice",
            Self::Fence => {
                "nobody writes for an earlier leader after somebody wrote for a later one"
            }
            Self::Refused => "a holder is refused by no store",
            Self::Deadline => "a deadline that was notified is not taken back",
            Self::Past => "a hold is not extended once its deadline has passed",
            Self::Final => "a hold that was lost is not extended",
            Self::Holder => "a client that shows a token that is not the holder's is refused",
            Self::OneLeader => "no two believe to lead at once",
            Self::LeaderOfEpoch => "a view has one leader",
            Self::EpochsRise => "views only rise",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {} ({:?}): {}", self.law.statement(), self.law, self.what)?;
        for entry in &self.operations {
            write!(f, "\n  {entry}")?;
        }
        Ok(())
    }
}
