//! Who has left the view, and what is known of the latest one that this member led and will lead no more.

use std::collections::BTreeMap;

use super::message::{HandOver, Leave, TableHold};
use crate::ids::{Epoch, Incarnation};
use crate::record::{LeftHold, Record};

/// The last message of each member that left the view, and what this member left behind itself as its leader.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Departures {
    leaves: BTreeMap<Incarnation, Leave>,
    legacy: Option<Legacy>,
}

/// What a member knows of a view that it led, and in which its leader lease is over for good: what the
/// register is to state about that view if nobody takes over.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Legacy {
    /// The view.
    base: Epoch,
    /// Who has its table.
    successor: Option<Incarnation>,
    /// What may still be held, if that is known of all holds.
    held: Option<Vec<LeftHold>>,
}

impl Legacy {
    pub(super) fn base(&self) -> Epoch {
        self.base
    }

    pub(super) fn successor(&self) -> Option<Incarnation> {
        self.successor
    }

    pub(super) fn held(&self) -> Option<&Vec<LeftHold>> {
        self.held.as_ref()
    }
}

impl Departures {
    /// This member led, with that table at the end; or it is in a later view.
    pub(super) fn leave_behind(&mut self, table: Option<&HandOver>) {
        self.legacy = table.map(|table| Legacy {
            base: table.base,
            successor: None,
            held: table.table.left_behind().filter(|_| table.grace.is_zero()),
        });
    }

    /// That member has the table.
    pub(super) fn hand_over_to(&mut self, successor: Incarnation) {
        if let Some(legacy) = &mut self.legacy {
            legacy.successor = Some(successor);
        }
    }

    /// What this member left behind itself.
    pub(super) fn legacy(&self) -> Option<&Legacy> {
        self.legacy.as_ref()
    }

    /// A member left, which did not take over then, or leaves again at once. Whether it has the table.
    pub(super) fn lose_successor(&mut self, left: Incarnation) -> bool {
        let legacy = self.legacy.as_mut().filter(|legacy| legacy.successor == Some(left));
        legacy.is_some_and(|legacy| legacy.successor.take().is_some())
    }

    /// A member leaves this view, or left one before.
    pub(super) fn note(&mut self, record: &Record, from: Incarnation, leave: Leave) {
        if let Some(legacy) = self.legacy.as_mut().filter(|legacy| leave.counts_in(legacy.base)) {
            let tells_of = leave.tells_of();
            let stands = |held: &LeftHold| held.holder != from || tells_of(&held.name, held.token);
            legacy.held.iter_mut().for_each(|held| held.retain(stands));
        }
        // A member that left the view before may be one whose hold this view took over.
        let oldest = record.base.unwrap_or(record.epoch);
        self.leaves.retain(|_, earlier| earlier.epoch >= oldest);
        self.leaves.insert(from, leave);
    }

    /// Who left that view.
    pub(super) fn of_view(&self, epoch: Epoch) -> Vec<Incarnation> {
        let left = self.leaves.iter().filter(|(_, leave)| leave.counts_in(epoch));
        left.map(|(member, _)| *member).collect()
    }

    /// How many members of a view have not left.
    pub(super) fn how_many_stay(&self, record: &Record) -> usize {
        record.incarnations().filter(|member| !self.leaves.contains_key(member)).count()
    }

    /// A member that left the view reported what it holds: nothing else of it is to be waited for.
    pub(super) fn take_out_of(&self, hand_over: &mut HandOver) {
        for (member, leave) in &self.leaves {
            if leave.counts_in(hand_over.base) {
                hand_over.stays.retain(|stays| stays != member);
                let stands = leave.tells_of();
                let of_it =
                    |held: &TableHold| held.holder != *member || stands(&held.name, held.token);
                hand_over.table.holds.retain(of_it);
            }
        }
    }
}
