//! What a trace consists of.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::content::Content;
use crate::ids::{Epoch, FencingToken, Incarnation, LockName};
use crate::time::LocalTime;

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

impl TraceEntry<LocalTime> {
    /// The same with every deadline where the clock of its process will read that.
    pub fn on_axis(
        self,
        true_time: impl Fn(Incarnation, LocalTime) -> Duration,
    ) -> TraceEntry<Duration> {
        let Self { who, event } = self;
        let mine = |at: LocalTime| who.map(|who| true_time(who, at)).unwrap_or_default();
        let event = match event {
            Event::Started(rate) => Event::Started(rate),
            Event::Ended => Event::Ended,
            Event::Read(content) => Event::Read(content),
            Event::Wrote { compared, content } => Event::Wrote { compared, content },
            Event::Replaced(content) => Event::Replaced(content),
            Event::Entered(epoch) => Event::Entered(epoch),
            Event::Refused(epoch) => Event::Refused(epoch),
            Event::Promised(epoch) => Event::Promised(epoch),
            Event::Sealed(epoch) => Event::Sealed(epoch),
            Event::GaveTable(epoch) => Event::GaveTable(epoch),
            Event::Leads(epoch, until) => Event::Leads(epoch, mine(until)),
            Event::LeadsNot => Event::LeadsNot,
            Event::Acknowledged { epoch, member, stamp } => {
                Event::Acknowledged { epoch, member, stamp: true_time(member, stamp) }
            }
            Event::Granted(epoch) => Event::Granted(epoch),
            Event::Held { lock, token, epoch, until } => {
                Event::Held { lock, token, epoch, until: mine(until) }
            }
            Event::Extended { lock, until } => Event::Extended { lock, until: mine(until) },
            Event::Released(lock) => Event::Released(lock),
            Event::Lost(lock) => Event::Lost(lock),
        };
        TraceEntry { who, event }
    }
}

/// An event that no rule allows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Breach {
    /// The rule of `docs/views.md` that has no such step.
    pub rule: u8,
    /// What is wrong, in a few words.
    pub what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no step of rule {}: {}", self.rule, self.what)
    }
}

/// Whether a step may be taken.
pub(super) type Allowed = Result<(), Breach>;

/// Refuses a step unless its condition is so.
pub(super) fn need(rule: u8, is_so: bool, what: impl FnOnce() -> String) -> Allowed {
    if is_so { Ok(()) } else { Err(Breach { rule, what: what() }) }
}
