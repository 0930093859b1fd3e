//! What only the leader knows of the holds of its time, and tells its members with every heartbeat,
//! so that their seals can tell the next leader (rules 20 to 22 of `docs/views.md`).

use super::Member;
use super::candidacy::Candidate;
use super::message::{List, TableHold};
use crate::ids::Epoch;
use crate::record::Record;
use crate::time::LocalTime;

/// The list of the latest heartbeat that this member has promised in answer to.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Listed {
    /// The view.
    epoch: Epoch,
    at: LocalTime,
    list: List,
}

impl Member {
    /// What goes with a heartbeat of this number; nothing in a view in which nobody could tell it.
    pub(super) fn list(&mut self, now: LocalTime, seq: u64) -> Option<List> {
        let leader = self.leader().filter(|leader| leader.record.lists())?;
        let grace = leader.rest_of_grace(now);
        let list = self.locks.list(now, seq);
        Some(List { rest: list.rest.max(grace), grace, ..list })
    }

    /// The leader listed this, in a heartbeat that is promised to. One that was overtaken is not heard.
    pub(super) fn keep_list(&mut self, now: LocalTime, epoch: Epoch, list: Option<List>) {
        if let Some(list) = list {
            self.listed = Some(Listed { epoch, at: now, list });
        }
    }

    /// What the leader of a view listed, as far as this member knows. Rests count from the receipt. A leader
    /// that was alone listed nothing for nobody, but knows itself that nothing else runs.
    pub(super) fn list_known(&self, now: LocalTime, epoch: Epoch) -> Option<List> {
        if self.pledge.settled == Some(epoch) {
            return Some(List::default());
        }
        let known = self.listed.as_ref().filter(|listed| listed.epoch == epoch)?;
        Some(known.list.clone().aged(known.at, now))
    }

    /// Until when the leader of this member's view said that the grace period lasts.
    pub(super) fn grace_of_leader(&self) -> Option<LocalTime> {
        let known = self.listed.as_ref().filter(|listed| listed.epoch == self.pledge.epoch)?;
        Some(known.at.after(known.list.grace))
    }
}

impl Candidate {
    /// Rule 20: if all members of the base but its leader sealed it, nothing runs after that which
    /// neither they nor what they tell of the leader's list names. Nothing if they cannot know.
    pub(super) fn settled_at(&self, base: &Record) -> Option<LocalTime> {
        if base.settled {
            return Some(LocalTime::default());
        }
        self.lists().map(|(list, at)| at.after(list.rest)).min()
    }

    /// The holds that the leader of the base listed, as the seals tell them.
    pub(super) fn listed(&self, now: LocalTime) -> Vec<TableHold> {
        self.lists().flat_map(|(list, at)| list.clone().aged(at, now).holds).collect()
    }

    fn lists(&self) -> impl Iterator<Item = (&List, LocalTime)> {
        self.seals.values().filter_map(|(seal, at)| Some((seal.list.as_ref()?, *at)))
    }
}

impl List {
    /// The list later, by the clock of who keeps it: what has run out is gone.
    fn aged(mut self, since: LocalTime, now: LocalTime) -> Self {
        let passed = now - since;
        self.rest = self.rest.saturating_sub(passed);
        self.grace = self.grace.saturating_sub(passed);
        for rest in self.holds.iter_mut().filter_map(|held| held.rest.as_mut()) {
            *rest = rest.saturating_sub(passed);
        }
        self.holds.retain(|held| held.rest.is_none_or(|rest| !rest.is_zero()));
        self
    }
}
