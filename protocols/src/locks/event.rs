//! What an application asks of a lock, and gets to know.

use super::message::LockNote;
use crate::core::Term;
use crate::core::message::Note;
use crate::ids::{Epoch, FencingToken, LockName};
use crate::policy::{Caching, LockAlgorithm};
use crate::time::LocalTime;

/// What an application asks.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Command {
    /// It wants a lock.
    Enter {
        /// Which.
        lock: LockName,
        /// On whose behalf.
        note: Note,
    },
    /// It leaves a lock, or no longer wants it.
    Exit {
        /// Which.
        lock: LockName,
    },
    /// It leaves a lock that it holds, and another that waits for it here enters in its place.
    Pass {
        /// Which.
        lock: LockName,
        /// On whose behalf it enters.
        note: Note,
    },
}

impl Command {
    /// Which lock it is about.
    #[must_use]
    pub fn lock(&self) -> &LockName {
        match self {
            Self::Enter { lock, .. } | Self::Exit { lock } | Self::Pass { lock, .. } => lock,
        }
    }
}

/// Something happened to a lock of this member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Event {
    /// Which.
    pub lock: LockName,
    /// What.
    pub event: LockEvent,
}

/// What happened to a lock of this member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum LockEvent {
    /// It waits, and those that grant it know: this one holds.
    Queued(Option<Box<LockNote>>),
    /// It holds.
    Entered {
        /// The fencing token; nothing under the arbiter `None`, which makes no such promise.
        token: Option<FencingToken>,
        /// The view that granted it.
        epoch: Epoch,
        /// Until when it is safe, and what extends it.
        term: Term,
        /// Messages that this entry cost so far, as the textbook counts them.
        messages: u64,
    },
    /// It goes on holding.
    Extended {
        /// Until when it is safe now, at least.
        deadline: LocalTime,
        /// Another waits for it.
        contended: bool,
    },
    /// How the member's lease extends it from now on.
    Renewed {
        /// Whether it does. It does from the entry on, unless the view does not know the hold.
        renewed: bool,
        /// A leader lists it.
        listed: bool,
    },
    /// It no longer holds.
    Lost(LostReason),
    /// What it held has ended, given back or lost, and no message counts to that any more.
    Left {
        /// How the lock is granted.
        algorithm: LockAlgorithm,
        /// Whether a grant is kept.
        caching: Caching,
        /// Messages that entry and exit cost, as the textbook counts them.
        messages: u64,
    },
}

/// Why a hold ended that nobody gave back.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LostReason {
    /// Nobody extended it in time.
    LeaseExpired,
    /// This member led, and its leader lease ended.
    ViewChange,
}
