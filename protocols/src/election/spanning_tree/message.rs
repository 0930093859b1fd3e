//! What members send to each other in an election along a spanning tree.

use serde::{Deserialize, Serialize};

use crate::ids::MemberId;
use crate::protocol::Named;
use crate::view::View;

/// Which computation: the higher one takes over.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Index {
    /// Whether all members are neighbours in it, whatever the topology. One in which they are takes over from all in
    /// which they are not: these came to nothing.
    pub wide: bool,
    /// One more than the member that began it knew of. It is never zero.
    pub number: u64,
    /// Who began it.
    pub source: MemberId,
}

/// A member and its capacity: the one with the greater capacity is better, among equals the one with the higher rank.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Best {
    /// How fit it is to lead.
    pub capacity: u64,
    /// Its rank.
    pub member: MemberId,
}

/// What members send to each other, about one computation. The last three are not counted.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// "Who is the best behind you?"
    Election {
        /// In which computation.
        of: Index,
    },
    /// "I have another parent."
    NotChild {
        /// In which computation.
        of: Index,
    },
    /// "You are my parent, and this one is the best in my subtree."
    Report {
        /// In which computation.
        of: Index,
        /// The best.
        best: Best,
    },
    /// "This one is elected."
    Leader {
        /// In which computation.
        of: Index,
        /// The winner.
        leader: MemberId,
    },
    /// "Are you still there?"
    Probe {
        /// In which computation.
        of: Index,
        /// What a child has reported, which waits for the outcome. A parent waits for a report.
        reported: Option<Best>,
    },
    /// "I am, and this is what I sent."
    Reply {
        /// In which computation.
        of: Index,
        /// Nothing if it has not sent anything yet.
        sent: Option<Answer>,
    },
    /// "That computation is over."
    Outdated {
        /// Which one.
        of: Index,
        /// One that is higher, or the same.
        by: Index,
    },
}

/// What ends the wait of another.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Answer {
    /// As in [`Message::NotChild`].
    NotChild,
    /// As in [`Message::Report`].
    Report(Best),
    /// As in [`Message::Leader`].
    Leader(MemberId),
}

impl Message {
    /// Whether the sources count it: those that find out who is dead, or make good what is lost, are apart.
    pub fn is_counted(&self) -> bool {
        match self {
            Self::Election { .. } | Self::NotChild { .. } => true,
            Self::Report { .. } | Self::Leader { .. } => true,
            Self::Probe { .. } | Self::Reply { .. } | Self::Outdated { .. } => false,
        }
    }

    /// The computation that it is about.
    pub fn of(&self) -> Index {
        match self {
            Self::Election { of } | Self::NotChild { of } | Self::Report { of, .. } => *of,
            Self::Leader { of, .. } | Self::Probe { of, .. } | Self::Reply { of, .. } => *of,
            Self::Outdated { of, .. } => *of,
        }
    }

    /// Whether it is about a computation in which all members are neighbours, or reports one.
    pub fn is_about_a_wide_one(&self) -> bool {
        let by = if let Self::Outdated { by, .. } = self { by.wide } else { false };
        self.of().wide || by
    }

    /// Whether members of this view can have written it.
    pub fn makes_sense_in(&self, view: View) -> bool {
        let is_index =
            |index: &Index| (1..u64::MAX).contains(&index.number) && view.has(index.source);
        match self {
            Self::Election { of } | Self::NotChild { of } => is_index(of),
            Self::Report { of, best } => is_index(of) && view.has(best.member),
            Self::Leader { of, leader } => is_index(of) && view.has(*leader),
            Self::Probe { of, reported } => {
                is_index(of) && reported.is_none_or(|best| view.has(best.member))
            }
            Self::Reply { of, sent } => {
                is_index(of)
                    && match sent {
                        Some(Answer::Report(Best { member, .. }) | Answer::Leader(member)) => {
                            view.has(*member)
                        }
                        Some(Answer::NotChild) | None => true,
                    }
            }
            Self::Outdated { of, by } => is_index(of) && is_index(by),
        }
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Election { .. } => "election",
            Self::NotChild { .. } => "not_child",
            Self::Report { .. } => "report",
            Self::Leader { .. } => "leader",
            Self::Probe { .. } => "probe",
            Self::Reply { .. } => "reply",
            Self::Outdated { .. } => "outdated",
        }
    }
}
