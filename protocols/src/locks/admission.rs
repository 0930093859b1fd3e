//! Admission: when the mutex of a lock hears anything (rules 26, 27 and 30 of `docs/views.md`).
//!
//! What arrives meanwhile is kept, in order, and worked off once admission is open.

use super::coordinator::Deferred;
use super::{Cx, Lock, Locks};
use crate::ids::LockName;
use crate::protocol::{Outbox, Protocol};

impl Locks {
    /// Something for the mutex of a lock: now if admission is open, else later.
    pub(super) fn consult(&mut self, cx: &mut Cx<'_>, name: &LockName, deferred: Deferred) {
        if cx.holds.seat().is_none() {
            return;
        }
        let lock = self.lock(cx, name);
        if lock.withdraws(&deferred) {
            return self.feed(cx, name, deferred);
        }
        lock.keep(deferred);
        self.stirred.insert(name.clone());
        self.work_off_lock(cx, name);
    }

    /// Works off what was kept while admission was closed.
    pub(super) fn work_off(&mut self, cx: &mut Cx<'_>) {
        let names: Vec<LockName> = self.stirred.iter().cloned().collect();
        for name in names {
            self.work_off_lock(cx, &name);
            self.tidy(cx, &name);
        }
    }

    fn work_off_lock(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        while self.may_consult(cx, name) {
            self.begin(cx, name);
            if !self.may_consult(cx, name) {
                return;
            }
            let Some(deferred) = self.all.get_mut(name).and_then(|lock| lock.deferred.pop_front())
            else {
                self.stirred.remove(name);
                return;
            };
            self.feed(cx, name, deferred);
        }
    }

    /// Rules 26 and 30: whether the mutex of a lock hears anything.
    pub(super) fn may_consult(&self, cx: &Cx<'_>, name: &LockName) -> bool {
        let Some(lock) = self.all.get(name) else { return false };
        cx.holds.is_open(cx.now, name) && !lock.expects_somebody(cx)
    }

    /// The view has begun for a mutex, once; and admission is open, for a coordinator that has yet to
    /// admit the next.
    fn begin(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        let Some(lock) = self.all.get_mut(name) else { return };
        let Some(mutex) = lock.mutex.as_mut() else { return };
        let mut effects = Outbox::default();
        if !std::mem::replace(&mut lock.started, true) || mutex.coordinated().is_some() {
            mutex.start(cx.now, &mut effects);
        }
        self.carry_out(cx, name, effects);
        self.note_wanted(cx, name);
    }
}

impl Lock {
    /// Whether the first in line, which waited in the view before, has yet to be heard of in this one.
    /// A grant has to answer something that it sent.
    fn expects_somebody(&self, cx: &Cx<'_>) -> bool {
        let (Some(mutex), Some(seat)) = (self.coordinated(), cx.holds.seat()) else { return false };
        let first = mutex.first_in_line().filter(|first| *first != seat.rank());
        first.is_some_and(|first| !cx.holds.has_heard(first))
    }
}
