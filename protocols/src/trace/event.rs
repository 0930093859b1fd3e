//! What a trace consists of.

use serde::{Deserialize, Serialize};

use super::content::Content;
use crate::ids::{Epoch, FencingToken, Incarnation, LockName};

/// An event, and when it was.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TraceEntry<T> {
    /// Who did it; nobody if somebody outside of the group did.
    pub who: Option<Incarnation>,
    /// What happened.
    pub event: Event<T>,
}

/// Something that a member did and others rely on, or that was done to it. `T` is how deadlines are stated:
/// by each member's own clock while a trace is taken, along the axis of the trace when it is checked.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Event<T> {
    /// A process began. Its clock is too fast by so many parts per million.
    Started(i32),
    /// A process is over. Its application may not be.
    Ended,
    /// The register answered a read with this.
    Read(Content),
    /// The register carried a write out: it holds this from now on.
    Wrote {
        /// The write named what was there.
        compared: bool,
        /// What is there now.
        content: Content,
    },
    /// Somebody else than a member replaced what the register holds.
    Replaced(Option<Content>),
    /// A member took a place in a view.
    Entered(Epoch),
    /// It takes no part in this view any more, nor in any below.
    Refused(Epoch),
    /// It promised to follow the leader of this view.
    Promised(Epoch),
    /// It sealed this view for somebody.
    Sealed(Epoch),
    /// The leader of this view gave its table to somebody.
    GaveTable(Epoch),
    /// A member was notified that it leads this view until then.
    Leads(Epoch, T),
    /// It was notified that it leads no longer.
    LeadsNot,
    /// The leader of this view notified a member up to which of that member's own messages its lease counts.
    Acknowledged {
        /// The view.
        epoch: Epoch,
        /// To whom.
        member: Incarnation,
        /// When that member sent it.
        stamp: T,
    },
    /// The leader of this view let a member into a lock.
    Granted(Epoch),
    /// An application was notified that it holds a lock.
    Held {
        /// Which.
        lock: LockName,
        /// With which token.
        token: FencingToken,
        /// In which view.
        epoch: Epoch,
        /// Until when.
        until: T,
    },
    /// It was notified that it goes on holding, until then.
    Extended {
        /// Which.
        lock: LockName,
        /// Until when.
        until: T,
    },
    /// It gave a lock back, or no longer wants it.
    Released(LockName),
    /// It was notified that it does not hold a lock any more.
    Lost(LockName),
}
