//! The arbiter `None`: what a new leader learns of holds from their holders.

use std::borrow::Cow;

use super::super::message::{Table, TableHold};
use super::Holds;
use crate::time::LocalTime;

impl Holds {
    /// What was carried into a view, and what this member holds itself: nobody else may know of it.
    pub(super) fn with_own<'a>(&self, now: LocalTime, carried: &'a Table) -> Cow<'a, Table> {
        if !self.is_advisory() {
            return Cow::Borrowed(carried);
        }
        let mut table = carried.clone();
        for (name, held) in self.own_all() {
            let Some(hold) = held.hold.filter(|hold| hold.deadline(&self.lease) > now) else {
                continue;
            };
            if self.is_led(name) && table.holds.iter().all(|other| other.name != *name) {
                let note = held.claim.as_ref().map(|claim| claim.note.clone());
                table.holds.push(TableHold {
                    name: name.clone(),
                    holder: self.me,
                    token: hold.token,
                    rest: None,
                    note: note.unwrap_or_default(),
                });
            }
        }
        Cow::Owned(table)
    }
}
