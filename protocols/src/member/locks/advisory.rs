//! The arbiter `None`: what a new leader learns of locks from those who hold them.

use std::borrow::Cow;

use super::super::message::{Table, TableHold};
use super::coordinator::TableEntry;
use super::{Intent, Locks};
use crate::ids::{FencingToken, Incarnation, LockName, MemberId};
use crate::mutex::{AnyMutex, Carried};
use crate::time::LocalTime;

impl Locks {
    /// What was carried into a view, and what this member holds itself: nobody else may know of it.
    pub(super) fn with_own<'a>(&self, now: LocalTime, carried: &'a Table) -> Cow<'a, Table> {
        if !self.is_advisory() {
            return Cow::Borrowed(carried);
        }
        let mut table = carried.clone();
        for (name, lock) in self.mine_all() {
            let Some(hold) = lock.hold.filter(|hold| hold.deadline(&self.lease) > now) else {
                continue;
            };
            if !self.has_coordinator(name) {
                continue;
            }
            if table.holds.iter().all(|held| held.lock != *name) {
                let note = lock.intent.as_ref().map(|Intent { note, .. }| note.clone());
                table.holds.push(TableHold {
                    lock: name.clone(),
                    holder: self.me,
                    token: hold.token,
                    rest: None,
                    note: note.unwrap_or_default(),
                });
            }
        }
        Cow::Owned(table)
    }

    /// A member says that it holds a lock that the leader takes for free: it does from now on.
    pub(super) fn adopt(
        &mut self,
        now: LocalTime,
        rank: MemberId,
        holder: Incarnation,
        name: &LockName,
        token: FencingToken,
    ) {
        let Some(seat) = self.seat.as_ref().filter(|_| self.is_advisory()) else { return };
        let busy_until = now.after(seat.member_lease);
        let carried = Carried { holder: Some(rank), waiting: Vec::new() };
        let mutex = seat.mutex(name, &carried).numbered_after(self.latest);
        let lock = self.lock(name);
        let free = lock.mutex.as_ref().is_some_and(AnyMutex::is_unused) && lock.entry.is_none();
        if free && lock.closed_until <= now {
            lock.mutex = Some(mutex);
            let (since, granted, renewed) = (now, None, false);
            let note = lock.notes.remove(&rank).unwrap_or_default();
            lock.entry =
                Some(TableEntry { holder, token, busy_until, renewed, since, note, granted });
            self.docket.due.insert((busy_until, name.clone()));
        }
    }
}
