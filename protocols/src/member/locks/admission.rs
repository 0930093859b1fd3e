//! Admission: when the mutex of a lock hears anything (rules 26, 27 and 30 of `docs/views.md`).
//!
//! What arrives meanwhile is kept, in order, and worked off once admission is open.

use super::coordinator::Deferred;
use super::{LockOut, Locks};
use crate::ids::LockName;
use crate::member::message::Admission;
use crate::protocol::{Outbox, Protocol};
use crate::time::LocalTime;

impl Locks {
    /// The leader said whether locks are granted.
    pub(in crate::member) fn hear_admission(
        &mut self,
        now: LocalTime,
        admission: Admission,
        out: &mut LockOut,
    ) {
        self.docket.open = admission.open;
        self.docket.full = admission.full;
        self.set_ceiling(admission.ceiling);
        self.tick(now, out);
    }

    /// Something for the mutex of a lock: now if admission is open, else later.
    pub(super) fn consult(
        &mut self,
        now: LocalTime,
        name: &LockName,
        deferred: Deferred,
        out: &mut LockOut,
    ) {
        if self.seat.is_none() {
            return;
        }
        if self.lock(name).withdraws(&deferred) {
            return self.feed(now, name, deferred, out);
        }
        self.lock(name).keep(deferred);
        self.docket.stirred.insert(name.clone());
        self.work_off_lock(now, name, out);
    }

    /// Works off what was kept while admission was closed.
    pub(super) fn work_off(&mut self, now: LocalTime, out: &mut LockOut) {
        let names: Vec<LockName> = self.docket.stirred.iter().cloned().collect();
        for name in names {
            self.work_off_lock(now, &name, out);
            self.tidy(&name);
        }
    }

    pub(super) fn work_off_lock(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        while self.may_consult(now, name) {
            self.begin(now, name, out);
            if !self.may_consult(now, name) {
                return;
            }
            let Some(deferred) = self.all.get_mut(name).and_then(|lock| lock.deferred.pop_front())
            else {
                self.docket.stirred.remove(name);
                return;
            };
            self.feed(now, name, deferred, out);
        }
    }

    /// Rules 26 and 30: whether the mutex of a lock hears anything. There must be a token left,
    /// too: a member that entered would have none.
    pub(super) fn may_consult(&self, now: LocalTime, name: &LockName) -> bool {
        let (Some(lock), Some(seat)) = (self.all.get(name), &self.seat) else { return false };
        self.docket.open
            && now < self.lease_until()
            && lock.closed_until <= now
            && lock.spent().successor(seat.ceiling).is_some()
            && !self.expects(lock)
    }

    /// Rule 27: until when a member that is let in may hold.
    pub(super) fn lease_until(&self) -> LocalTime {
        if self.coordinates() { self.lease.leader } else { self.lease.member.until }
    }

    /// The view has begun for a mutex, once; and admission is open, for a coordinator that has yet to
    /// let the next in.
    pub(super) fn begin(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        let Some(lock) = self.all.get_mut(name) else { return };
        let Some(mutex) = lock.mutex.as_mut() else { return };
        let mut effects = Outbox::default();
        if !std::mem::replace(&mut lock.started, true) || mutex.central().is_some() {
            mutex.start(now, &mut effects);
        }
        self.carry_out(now, name, effects, out);
        self.note_contended(name);
    }
}
