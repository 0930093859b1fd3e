//! What only the leader knows of the holds of its time, and sends its members with every heartbeat,
//! so that their seals can report it to the next leader (rules 20 to 22 of `docs/views.md`).

use std::collections::BTreeMap;

use super::holds::Copied;
use super::message::{LeaderList, List, Note, TableHold};
use super::{Member, Nominator, Service};
use crate::ids::{Epoch, HoldName, Incarnation};
use crate::time::LocalTime;

/// The list of the latest heartbeat that this member has promised in answer to.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Listed {
    /// The view.
    epoch: Epoch,
    leader: Incarnation,
    at: LocalTime,
    /// Of the leader's own holds.
    own: Copied,
    /// It is the leader's.
    is_whole: bool,
    notes: BTreeMap<HoldName, Note>,
    /// The rest of the list.
    rest: List,
}

impl Listed {
    fn new(epoch: Epoch, leader: Incarnation, at: LocalTime) -> Self {
        let (own, notes, rest) = (Copied::default(), BTreeMap::new(), List::default());
        Self { epoch, leader, at, own, is_whole: false, notes, rest }
    }

    /// The leader listed this.
    fn hear(&mut self, now: LocalTime, list: LeaderList) {
        let LeaderList { changes, notes, outsiders, rest, grace } = list;
        (self.at, self.rest) = (now, List { holds: outsiders, rest, grace });
        let (latest, digest) = (changes.latest, changes.digest);
        self.is_whole = false;
        let Some(items) = self.own.news(changes) else { return };
        for (name, item) in items {
            self.notes.remove(&name);
            self.own.list.set(&name, item);
        }
        self.notes.extend(notes);
        self.is_whole = self.own.settle_at(latest, digest);
    }

    /// All that it listed, by the clock of its keeper.
    fn all(&self, now: LocalTime) -> List {
        let mut list = self.rest.clone().aged(self.at, now);
        let own = self.own.list.items().filter_map(|(name, item)| {
            let note = self.notes.get(name).cloned().unwrap_or_default();
            let (name, holder, token) = (name.clone(), self.leader, item.holds?);
            Some(TableHold { name, holder, token, rest: None, note })
        });
        list.holds.extend(own);
        list
    }
}

impl<S: Service, N: Nominator> Member<S, N> {
    /// What goes with a heartbeat of this number; nothing in a view in which nobody could report it.
    pub(super) fn list(&mut self, now: LocalTime) -> Option<LeaderList> {
        let leader = self.leader().filter(|leader| leader.record().lists())?;
        let grace = leader.rest_of_grace(now);
        let list = self.holds.list(now);
        Some(LeaderList { rest: list.rest.max(grace), grace, ..list })
    }

    /// The leader listed this, in a heartbeat that is promised to. One that was overtaken is not heard.
    /// Returns how many changes of its list are known here.
    pub(super) fn keep_list(
        &mut self,
        now: LocalTime,
        epoch: Epoch,
        leader: Incarnation,
        list: Option<LeaderList>,
    ) -> u64 {
        let Some(list) = list else { return 0 };
        let known = self.listed.take().filter(|listed| listed.epoch == epoch);
        let mut listed = known.unwrap_or_else(|| Listed::new(epoch, leader, now));
        listed.hear(now, list);
        let known = listed.own.known();
        self.listed = Some(listed);
        known
    }

    /// What the leader of a view listed, as far as this member knows. Rests count from the receipt. A leader
    /// that was alone listed nothing for nobody, but knows itself that nothing else runs.
    pub(super) fn list_known(&self, now: LocalTime, epoch: Epoch) -> Option<List> {
        if self.promises.is_settled(epoch) {
            return Some(List::default());
        }
        let known = self.listed.as_ref().filter(|listed| listed.epoch == epoch);
        Some(known.filter(|listed| listed.is_whole)?.all(now))
    }

    /// Until when the leader of this member's view stated that the grace period lasts.
    pub(super) fn grace_of_leader(&self) -> Option<LocalTime> {
        let known = self.listed.as_ref().filter(|listed| listed.epoch == self.promises.epoch())?;
        Some(known.at.after(known.rest.grace))
    }
}

impl List {
    /// The list later, by the clock of its keeper: what has run out is gone.
    pub(super) fn aged(mut self, since: LocalTime, now: LocalTime) -> Self {
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
