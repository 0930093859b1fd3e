//! Histories of locks: what applications saw of them, and whether the promises were kept.
//!
//! A history is a list of [`Operation`]s on one axis of time: the time since its beginning, by true
//! time in the simulator and by one machine's `CLOCK_BOOTTIME` in a real run. It is recorded where
//! applications stand, not within the group: what counts is what they were *notified of*. [`History::check`]
//! finds every breach of a [`Law`].
//!
//! On a real run, record what a program beside the sidecar sees, all by the clock of one machine: the
//! time before a call for what is asked and given back, the time after it for what is answered. A
//! deadline is the one in the answer, `safe_until_boottime_ns`: until then an application believes, however
//! long the answer was on its way.
//!
//! No search is needed, as it is for registers (Wing and Gong, *Testing and Verifying Concurrent
//! Objects*, JPDC 1993; Gibbons and Korach, *Testing Shared Memories*, SIAM J. Comput. 1997): each
//! grant has a token of its own, so the order of the grants is known. Sorting by time is the most
//! expensive step: n operations take O(n log n).
//!
//! ```
//! use conclave_protocols::history::{History, Law, Operation, Scope};
//! use std::time::Duration;
//!
//! let ms = Duration::from_millis;
//! let mut history = History::default();
//! for claim in [1, 2] {
//!     history.record(ms(0), Operation::Asked { claim, lock: "orders".into() });
//! }
//! let granted = |claim, token, until| {
//!     Operation::Granted { claim, token: Some(token), view: None, until }
//! };
//! history.record(ms(1), granted(1, 7, ms(10)));
//! history.record(ms(9), granted(2, 8, ms(20)));
//! let violations = history.check(Scope::Everything);
//! assert_eq!(violations[0].law, Law::Exclusion);
//! ```

mod check;
mod violation;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::violation::Violation;

/// What was recorded, in any order.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct History {
    entries: Vec<RecordedOperation>,
}

/// An operation, and when it was.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RecordedOperation {
    /// The time since the history began.
    pub at: Duration,
    /// What happened.
    pub operation: Operation,
}

/// Distinguishes one request for a lock from all others of a history.
pub type ClaimNumber = u64;

/// Something that an application, or a store that it writes to, did or was notified of.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Operation {
    /// An application begins to ask for a lock: the time is from before the request is sent.
    Asked {
        /// Its request.
        claim: ClaimNumber,
        /// The lock.
        lock: String,
    },
    /// It holds: the time is from after the answer was received.
    Granted {
        /// Which request was answered.
        claim: ClaimNumber,
        /// The fencing token; none if the grant is advisory, which promises no exclusion.
        token: Option<u64>,
        /// The view that granted it, if the recorder knows.
        view: Option<u64>,
        /// Until when the application was notified that nobody else holds.
        until: Duration,
    },
    /// It was notified of a later deadline.
    Extended {
        /// Of which request.
        claim: ClaimNumber,
        /// Until when nobody else holds.
        until: Duration,
    },
    /// It begins to give the lock back, or gives up waiting: the time is from before the call.
    Released {
        /// Which request.
        claim: ClaimNumber,
    },
    /// It was notified that it holds no longer. That does not end its belief early: the deadline that it
    /// was notified of before stands.
    Lost {
        /// Which request.
        claim: ClaimNumber,
    },
    /// A store that the lock protects was shown a token with a write.
    Stored {
        /// The lock.
        lock: String,
        /// The token shown.
        token: u64,
        /// Whether the store took the write.
        accepted: bool,
    },
    /// Somebody renews a hold or gives it back by showing a token: the time is from before the call.
    /// A release that only finds what an earlier one did is none of these.
    Shown {
        /// The lock.
        lock: String,
        /// The token shown.
        token: u64,
        /// What for.
        to: Purpose,
        /// Whether it had its effect.
        accepted: bool,
    },
    /// Somebody is notified that it leads, or for how long it goes on leading.
    Leads {
        /// Who.
        who: String,
        /// In which view.
        epoch: u64,
        /// Until when nobody else leads.
        until: Duration,
    },
    /// Somebody is notified that it leads no longer, or reports it itself.
    Resigned {
        /// Who.
        who: String,
    },
}

/// What a token is shown for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Purpose {
    /// To go on holding.
    Renew,
    /// To give the lock back.
    Release,
}

/// What must be true of a history.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Law {
    /// The recording makes sense: nobody holds without having asked, and the like. What breaks it is
    /// an error of the recorder.
    Form,
    /// Nobody believes to hold what another believes to hold. One believes from the answer until the
    /// release is called, or until the latest deadline that one was notified of.
    Exclusion,
    /// A caller that asks after another's grant was answered gets a larger token, and so does one that is
    /// granted the lock after another's hold ended, though it had asked before. While somebody believes to hold,
    /// nobody is given a larger one, not even a caller that no longer wants it or was answered too late. (A leader
    /// whose clock stands still may go on granting with the tokens of its view; stores refuse them.)
    TokenOrder,
    /// No token of a lock is given twice.
    TokenOnce,
    /// Tokens fence: a store that took one takes none below it, and whatever a view grants has a larger
    /// one than all that earlier views granted. So nobody writes for an earlier leader after somebody
    /// wrote for a later one.
    Fence,
    /// A client that believes to hold is refused by no store.
    Refused,
    /// A deadline that somebody was notified of is never taken back.
    Deadline,
    /// Nothing revives a hold: none is extended once its deadline has passed.
    Past,
    /// A hold that was lost is not extended.
    Final,
    /// A client that shows a token that is not the holder's is refused.
    Holder,
    /// At most one believes to lead.
    OneLeader,
    /// A view has one leader.
    LeaderOfEpoch,
    /// Views only rise.
    EpochsRise,
}

impl Law {
    /// Whether the law is promised without any assumption about clocks.
    pub fn is_timeless(self) -> bool {
        match self {
            Self::Form | Self::TokenOnce | Self::Fence | Self::Final | Self::LeaderOfEpoch => true,
            Self::Exclusion
            | Self::TokenOrder
            | Self::Refused
            | Self::Deadline
            | Self::Past
            | Self::Holder
            | Self::OneLeader
            | Self::EpochsRise => false,
        }
    }
}

/// Which laws a history must obey.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// All: every clock kept to its bound.
    Everything,
    /// All but [`Law::Past`]: applications that ask now and then learn late of an extension, perhaps
    /// after the deadline that they knew.
    Polled,
    /// Those that assume nothing about clocks ([`Law::is_timeless`]): some clock stood still, jumped
    /// or ran too fast or too slow.
    Timeless,
}

impl History {
    /// Adds what happened. The order of calls counts only for operations of the same time.
    pub fn record(&mut self, at: Duration, operation: Operation) {
        self.entries.push(RecordedOperation { at, operation });
    }

    /// Adds what was recorded elsewhere on the same axis of time.
    pub fn extend(&mut self, other: Self) {
        self.entries.extend(other.entries);
    }

    /// What was recorded, in the order of recording.
    pub fn entries(&self) -> &[RecordedOperation] {
        &self.entries
    }

    /// How many operations were recorded.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Every breach of a law in scope, by the time at which it was complete.
    pub fn check(&self, scope: Scope) -> Vec<Violation> {
        let mut violations = check::check(&self.entries);
        violations.retain(|violation| match scope {
            Scope::Everything => true,
            Scope::Polled => violation.law != Law::Past,
            Scope::Timeless => violation.law.is_timeless(),
        });
        violations
    }
}

impl From<Vec<RecordedOperation>> for History {
    fn from(entries: Vec<RecordedOperation>) -> Self {
        Self { entries }
    }
}

impl fmt::Display for RecordedOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12.6} s  {}", self.at.as_secs_f64(), self.operation)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = |accepted: &bool| if *accepted { "accepted" } else { "refused" };
        match self {
            Self::Asked { claim, lock } => write!(f, "claim {claim} asks for {lock}"),
            Self::Granted { claim, token, view, until } => {
                let token = token.map_or_else(|| "no token".to_owned(), |t| format!("token {t}"));
                let view = view.map(|view| format!(" of view {view}")).unwrap_or_default();
                write!(f, "claim {claim} holds until {:.6} s, {token}{view}", until.as_secs_f64())
            }
            Self::Extended { claim, until } => {
                write!(f, "claim {claim} is extended until {:.6} s", until.as_secs_f64())
            }
            Self::Released { claim } => write!(f, "claim {claim} is given back"),
            Self::Lost { claim } => write!(f, "claim {claim} is lost"),
            Self::Stored { lock, token, accepted } => {
                write!(f, "the store of {lock} is shown token {token}: {}", done(accepted))
            }
            Self::Shown { lock, token, to, accepted } => {
                write!(f, "{to:?} of {lock} by token {token}: {}", done(accepted))
            }
            Self::Leads { who, epoch, until } => {
                write!(f, "{who} leads view {epoch} until {:.6} s", until.as_secs_f64())
            }
            Self::Resigned { who } => write!(f, "{who} leads no longer"),
        }
    }
}
