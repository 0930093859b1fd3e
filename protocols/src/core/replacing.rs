//! A record that states nothing of the latest view: it was lost and a mark stands in its place, or it is an
//! older one that was brought back from a backup.

use super::{Member, Nominator, Out, Role, Service};
use crate::ids::Epoch;
use crate::record::Record;
use crate::register::{Value, Version};
use crate::time::LocalTime;

/// Distinguishes what was read from everything else that ever stood in its place.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Mark {
    version: Version,
    nonce: u64,
}

impl Mark {
    pub(super) fn of(version: &Version, record: &Record) -> Self {
        Self { version: version.clone(), nonce: record.nonce }
    }

    /// What the leader of that view replaces by its next one, if it states nothing of the latest view.
    pub(super) fn to_replace(led: Epoch, value: &Value) -> Option<Self> {
        let found = value.record.as_ref()?;
        (found.base_unknown || found.epoch < led).then(|| Self::of(&value.version, found))
    }

    /// Whether this is it still, so that no view was in its place meanwhile. The version of a mark may have
    /// changed, if somebody wrote something else on the Lease; but each mark has a nonce of its own.
    pub(super) fn is(&self, version: &Version, record: &Record) -> bool {
        self.nonce == record.nonce && (record.base_unknown || self.version == *version)
    }
}

/// A mark that stands in the place of a lost record, and when this member first read it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Sighting {
    mark: Mark,
    at: LocalTime,
    /// The latest view that it knew of then.
    known: Epoch,
}

impl<S: Service, N: Nominator> Member<S, N> {
    /// Rule 34: remembers since when this mark is there. A view in between voids that.
    pub(super) fn note_mark(&mut self, now: LocalTime, value: &Value) {
        let Some(record) = &value.record else { return };
        if !record.base_unknown {
            return self.sighting = None;
        }
        let known = self.latest_known().max(record.epoch);
        let same = |seen: &Sighting| {
            seen.mark.is(&value.version, record) && seen.known.max(record.epoch) == known
        };
        match &mut self.sighting {
            Some(seen) if same(seen) => seen.mark = Mark::of(&value.version, record),
            seen => {
                *seen = Some(Sighting { mark: Mark::of(&value.version, record), at: now, known });
            }
        }
    }

    /// When this member first read the mark that it has just read.
    pub(super) fn first_read(&self, version: &Version, record: &Record) -> Option<LocalTime> {
        let seen = self.sighting.as_ref()?;
        let latest = self.latest_known() <= seen.known;
        (latest && record.base_unknown && seen.mark.is(version, record)).then_some(seen.at)
    }

    /// The latest view that this member was in, read of, or was notified of.
    pub(super) fn latest_known(&self) -> Epoch {
        let known = self.record.as_ref().map(|known| known.epoch).unwrap_or_default();
        known.max(self.promises.epoch()).max(self.status.epoch)
    }

    /// Rule 33: a leader puts its next view in the place of a record that states nothing of the latest view.
    /// Its leader lease, which runs after the answer came, proves that no later one has begun; the
    /// compare-and-swap, that none has since. So its table is that of the latest view.
    pub(super) fn replace_record(&mut self, now: LocalTime, value: Value, out: &mut Out<S, N>) {
        let Some(found) = &value.record else { return };
        let (lost, epoch) = (found.base_unknown, found.epoch);
        let Some(leader) = self.leader() else { return };
        leader.take_task();
        if lost && epoch > leader.epoch() {
            // The mark was made by somebody that knows of a later view.
            self.step_down(now, out);
            return self.begin_joining(now, out);
        }
        leader.note_forgotten();
        if leader.leader_lease_until() > now {
            self.change_view(now, value, out);
        }
    }

    /// What a candidate that led the view before, and read this while it did, goes by instead: the view
    /// that it led, with numbers above all that is known.
    pub(super) fn in_place_of(&self, version: &Version, found: &Record) -> Option<Record> {
        let Role::Candidate(candidate) = &self.role else { return None };
        let own = self.record.clone().filter(|_| candidate.replaces(version, found))?;
        let (epoch, ceiling) = (own.epoch.max(found.epoch), own.ceiling.max(found.ceiling));
        Some(Record { epoch, ceiling, ..own })
    }
}
