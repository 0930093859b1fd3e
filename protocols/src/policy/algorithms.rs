//! The algorithms that a policy may name, as they are written everywhere.

use serde::{Deserialize, Serialize};

/// The algorithms of an election.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum ElectionAlgorithm {
    /// Garcia-Molina's: the highest living rank wins.
    #[default]
    Bully,
    /// A list goes round.
    Ring,
    /// Identifiers go round, and only the highest comes back (Chang and Roberts).
    ChangRoberts,
    /// A tree grows, and the greatest capacity is reported up it (Vasudevan, Kurose and Towsley).
    SpanningTree,
}

impl ElectionAlgorithm {
    crate::by_variant! {
        /// How it is written.
        pub fn name -> &'static str {
            Bully => "Bully",
            Ring => "Ring",
            ChangRoberts => "ChangRoberts",
            SpanningTree => "SpanningTree",
        }
    }
}

/// The algorithms of a lock.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum LockAlgorithm {
    /// One coordinator grants: the leader.
    #[default]
    Central,
    /// A token goes round a ring of all members.
    TokenRing,
    /// A token goes about in a tree of all members (Raymond).
    Raymond,
    /// Every member keeps the queue of requests (Lamport).
    Lamport,
    /// Every member permits, or defers its reply (Ricart and Agrawala).
    RicartAgrawala,
    /// The members of a row and a column of a grid vote (Maekawa).
    Maekawa,
    /// A majority of the members votes.
    Voting,
    /// One of several coordinators grants: the one that is responsible for the lock's name.
    Superpeers,
}

impl LockAlgorithm {
    crate::by_variant! {
        /// As it is written everywhere.
        pub fn name -> &'static str {
            Central => "Central",
            TokenRing => "TokenRing",
            Raymond => "Raymond",
            Lamport => "Lamport",
            RicartAgrawala => "RicartAgrawala",
            Maekawa => "Maekawa",
            Voting => "Voting",
            Superpeers => "Superpeers",
        }
    }

    /// Whether a member may be let to enter again without asking: with the others, each entry takes
    /// everybody's votes or places in the queue anew.
    #[must_use]
    pub fn may_cache(self) -> bool {
        match self {
            Self::Central
            | Self::TokenRing
            | Self::Raymond
            | Self::RicartAgrawala
            | Self::Superpeers => true,
            Self::Lamport | Self::Maekawa | Self::Voting => false,
        }
    }

    /// Whether the leader alone admits members. With the others, that is among the members.
    #[must_use]
    pub fn has_coordinator(self) -> bool {
        self == Self::Central
    }
}

/// The algorithms of the group clock.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum ClockAlgorithm {
    /// The leader asks all, averages, and sends each its correction (Gusella and Zatti).
    #[default]
    Berkeley,
    /// Each member asks the leader for its time, until an answer is quick enough (Cristian).
    Cristian,
    /// Each member asks the leader and others, and follows the lowest stratum of those that agree (Mills).
    #[serde(rename = "NTP")]
    Ntp,
}

impl ClockAlgorithm {
    crate::by_variant! {
        /// As it is written everywhere.
        pub fn name -> &'static str {
            Berkeley => "Berkeley",
            Cristian => "Cristian",
            Ntp => "NTP",
        }
    }

    /// Whether the leader averages the members' clocks.
    #[must_use]
    pub fn averages(self) -> bool {
        self == Self::Berkeley
    }
}

/// How the daemon of `Berkeley` averages, so that a wrong clock does not drag the others.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum Averaging {
    /// The largest set of clocks that are near one another is averaged (Gusella and Zatti).
    #[default]
    LargestSet,
    /// The median of those near the median (the `timed` of 1993).
    Median,
    /// The middle of what the most error intervals have in common (Marzullo and Owicki).
    Intervals,
}

impl Averaging {
    crate::by_variant!(pub LargestSet, Median, Intervals);
}
