//! What applications may believe of a leadership: those of this member, and those of the leader before
//! (rules 35 to 37 of `docs/views.md`).

use super::Leadership;
use crate::ids::{Epoch, Incarnation};
use crate::record::Record;
use crate::time::LocalTime;

/// What applications were notified of, and until when they go by it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Belief {
    /// The last leadership that applications were notified of.
    notified: Option<Leadership>,
    /// No application of this member was notified of a later end of its leader lease.
    until: LocalTime,
    /// Nobody is notified any more: the leader lease is about to pass on.
    ends: bool,
    /// By then no application of any other member believes that it leads.
    from: LocalTime,
    /// The latest view known.
    known: Epoch,
}

impl Belief {
    /// Rule 36: a leader that entered the view of another resigned before that view was written.
    pub(super) fn note_view(&mut self, now: LocalTime, me: Incarnation, record: &Record) {
        if std::mem::replace(&mut self.known, record.epoch) == record.epoch {
            return;
        }
        if record.leader != Some(me) {
            self.from = self.from.max(now.after(record.timing.leader_lease));
        }
    }

    /// Applications are notified of this. Whether it is news to them.
    pub(super) fn notify(&mut self, leadership: Leadership) -> bool {
        if let Leadership::Leading(until) = leadership {
            self.until = until;
        }
        self.notified.replace(leadership) != Some(leadership)
    }

    /// No application of this member was notified of a later end of its leader lease.
    pub(super) fn until(&self) -> LocalTime {
        self.until
    }

    /// Until when some application may believe in a leader, as far as this member knows.
    pub(super) fn lasts_until(&self) -> LocalTime {
        self.until.max(self.from)
    }

    /// Rule 35: a leader that resigned to itself is believed on, up to the deadline that it announced.
    pub(super) fn goes_on(&self, now: LocalTime) -> bool {
        let led = matches!(self.notified, Some(Leadership::Leading(_)));
        led && !self.ends && self.until > now
    }

    /// Whether no application of another leader can believe any more.
    pub(super) fn may_begin(&self, now: LocalTime) -> bool {
        self.from <= now
    }

    /// Rule 36: from when on the applications of this member may believe that it leads.
    pub(super) fn begins(&mut self, from: LocalTime) {
        self.from = from;
    }

    /// From now on nobody is notified that this member leads, or again, if it is not to hand over after all.
    pub(super) fn set_ends(&mut self, ends: bool) {
        self.ends = ends;
    }

    /// Whether nobody is notified any more.
    pub(super) fn ends(&self) -> bool {
        self.ends
    }

    /// No application was notified of a later deadline than this. Counts while this member hands over: false if
    /// it does not.
    pub(super) fn shorten(&mut self, until: LocalTime) -> bool {
        if self.ends {
            self.until = self.until.min(until);
        }
        self.ends
    }

    /// What applications believed was advisory, and says nothing of what is safe.
    pub(super) fn forget(&mut self) {
        self.notified = None;
        self.until = LocalTime::default();
    }
}
