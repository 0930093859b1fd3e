//! Locks, as a member knows them: by the claims of its own pod, by what was reported to those that wait, and, at the
//! leader, by what the other members report.

use conclave_protocols::LockName;
use conclave_protocols::member::message::Metadata;
use conclave_protocols::policy::{Arbiter, LockAlgorithm};
use std::time::Duration;

use crate::claims::{Claim, Holder};

/// A lock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lock {
    /// Its name.
    pub name: LockName,
    /// How it is granted.
    pub algorithm: LockAlgorithm,
    /// The pod that grants it, where one alone does.
    pub coordinator: Option<String>,
    /// What an entry of this member and its exit are to cost, if nobody else wants in; nothing where nobody knows that.
    pub expected_messages: Option<u64>,
    /// What makes it safe.
    pub arbiter: Arbiter,
    /// The longest that a claim may hold it.
    pub max_hold: Duration,
    /// The claim of this pod that holds it.
    pub holding: Option<Claim>,
    /// Who holds it elsewhere.
    pub elsewhere: Option<Elsewhere>,
    /// The first claims of this pod that wait for it, in the order in which they are served: at most [`WAITERS`].
    pub waiting: Vec<Claim>,
    /// How many more claims of this pod wait for it.
    pub unshown: usize,
    /// Other pods that wait for it; none unless this member leads.
    pub pods: Vec<WaitingPod>,
}

/// Claims of a pod that are shown of those that wait for a lock.
pub const WAITERS: usize = 100;

/// A holder in another pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Elsewhere {
    /// Who.
    pub holder: Holder,
    /// It was reported once to claims that wait, and not since: it may be another by now.
    pub is_report: bool,
}

/// Another pod in which claims wait for a lock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WaitingPod {
    /// Its name.
    pub pod: String,
    /// Who asked first there, as far as this member knows.
    pub owner: Option<String>,
    /// Its JSON.
    pub metadata: Option<Metadata>,
}

/// Which locks are asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Which {
    /// That one, whether or not anybody holds it or waits for it.
    One(LockName),
    /// Those that somebody is known to hold or to wait for, in the order of their names.
    Used {
        /// Whose names begin so.
        prefix: String,
        /// Whose names come after that one.
        after: String,
        /// So many at most.
        limit: usize,
    },
}

impl Which {
    /// Whether a lock of that name is among them, but for the limit.
    pub(crate) fn has(&self, name: &LockName) -> bool {
        match self {
            Self::One(one) => one == name,
            Self::Used { prefix, after, .. } => {
                name.as_str().starts_with(prefix) && name.as_str() > after.as_str()
            }
        }
    }
}

/// The locks that were asked for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Locks {
    /// They.
    pub locks: Vec<Lock>,
    /// This member leads, and knows of those of all members.
    pub complete: bool,
    /// The last name that was looked at, if there are more after it.
    pub next: Option<LockName>,
}

/// Why locks cannot be shown.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LocksError {
    /// No policy of the group names this lock.
    #[error("no policy of the group allows a lock of this name")]
    NotAllowed,
    /// This member belongs to no group yet.
    #[error("{0}")]
    NotReady(String),
    /// The sidecar is going.
    #[error("the sidecar is shutting down")]
    Closed,
}
