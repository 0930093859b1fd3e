//! How names stand, for people, as the leader knows it: what it grants at once, the rest as of the latest promises.
//! Nothing is decided by it.

use super::super::message::Note;
use super::listed::Listing;
use super::{Holder, Holds, NameState};
use crate::ids::{HoldName, Incarnation, MemberId};
use crate::time::LocalTime;

/// How a name stands.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Shown {
    /// Who holds it.
    pub holder: Option<Holder>,
    /// Who waits for it, the lowest rank first, and on whose behalf.
    pub waiting: Vec<(Incarnation, Note)>,
}

impl Holds {
    /// Whether this member leads, and has heard what all the others hold. After its leader lease another may grant.
    pub(in crate::core) fn knows_all(&self, now: LocalTime) -> bool {
        self.leads() && self.admission.open && now < self.lease.leader
    }

    /// How a name stands, as far as this member, which leads, knows it.
    pub(in crate::core) fn shown(&self, now: LocalTime, name: &HoldName) -> Shown {
        let held = self.all.get(name);
        let waits = |(rank, listing): (&MemberId, &Listing)| {
            listing.copied.list.get(name).waits?;
            let note = held.and_then(|held| held.notes.get(rank)).cloned();
            Some((self.seat.as_ref()?.member(*rank)?, note.unwrap_or_default()))
        };
        Shown {
            holder: self.holder(now, name).filter(|holder| holder.runs),
            waiting: self.listings.iter().filter_map(waits).collect(),
        }
    }

    /// The names that others hold or wait for, as far as this member, which leads, knows it. One may come twice.
    pub(in crate::core) fn names_shown(&self) -> impl Iterator<Item = &HoldName> {
        let is_held = |(name, held): (_, &NameState)| held.entry.is_some().then_some(name);
        let waits = self.listings.values().flat_map(|listing| listing.copied.list.waits());
        self.all.iter().filter_map(is_held).chain(waits)
    }
}
