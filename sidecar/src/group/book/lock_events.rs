//! What the member tells of its locks: that it waits, holds, goes on holding, or has lost one.

use conclave_protocols::member::message::LockNote;
use conclave_protocols::member::{self, LockEvent};
use conclave_protocols::{Incarnation, LocalTime, LockName};

use super::entry::ClaimEntry;
use super::{Book, Due};
use crate::claims::{ClaimId, ClaimState, Held, Holder, LostReason, Refusal};
use crate::metrics::HoldEnd;

impl Book {
    /// Something happened to a lock of the member.
    ///
    /// `pod_of` names the pod of a member.
    pub(in crate::group) fn on_event(
        &mut self,
        now: LocalTime,
        lock: &LockName,
        event: LockEvent,
        pod_of: impl Fn(Incarnation) -> String,
    ) {
        match event {
            LockEvent::Queued(note) => {
                let holder = note.map(|note| as_holder(now, *note, pod_of));
                self.queued(now, lock, holder);
            }
            LockEvent::Entered { token, epoch, deadline, messages } => {
                let held = Held {
                    token,
                    epoch,
                    safe_until: deadline,
                    since: now,
                    jeopardy: false,
                    contended: false,
                    messages,
                };
                self.entered(now, lock, &held);
            }
            LockEvent::Extended { deadline, contended } => {
                self.extended(now, lock, deadline, contended);
            }
            LockEvent::Lost(reason) => {
                let reason = match reason {
                    member::LostReason::LeaseExpired => LostReason::LeaseExpired,
                    member::LostReason::ViewChange => LostReason::ViewChange,
                };
                self.lost(now, lock, reason);
            }
        }
        self.count();
    }

    fn queued(&mut self, now: LocalTime, lock: &LockName, holder: Option<Holder>) {
        let Some(line) = self.locks.get_mut(lock) else { return };
        line.heard = true;
        line.holder = holder;
        self.show_waiting(now, lock);
        let holder = self.holder(now, lock);
        let entry = |id: &ClaimId| self.claims.get(&(lock.clone(), id.clone()));
        let tries: Vec<ClaimId> = self
            .locks
            .get(lock)
            .into_iter()
            .flat_map(|line| &line.waiting)
            .filter(|id| entry(id).is_some_and(ClaimEntry::only_tries))
            .cloned()
            .collect();
        for id in tries {
            self.refuse(now, lock, &id, Refusal::Held { holder: holder.clone() });
        }
    }

    fn entered(&mut self, now: LocalTime, lock: &LockName, held: &Held) {
        let Some(line) = self.locks.get_mut(lock) else { return };
        let Some(id) = line.waiting.pop_front() else { return self.leave(lock) };
        line.holding = Some(id.clone());
        line.holder = None;
        line.heard = true;
        line.messages = held.messages;
        let key = (lock.clone(), id);
        let Some(entry) = self.claims.get_mut(&key) else { return self.leave(lock) };
        let (lock, id) = key;
        self.timers.push(((lock.clone(), id.clone(), Due::Wait), None));
        for (due, at) in entry.hold(now, held) {
            self.timers.push(((lock.clone(), id.clone(), due), at));
        }
        self.metrics.settled(&entry.watch().borrow());
        self.show_waiting(now, &lock);
    }

    fn extended(&mut self, now: LocalTime, lock: &LockName, deadline: LocalTime, contended: bool) {
        let Some(line) = self.locks.get(lock) else { return };
        let Some(id) = line.holding.clone() else { return };
        let contended = contended || !line.waiting.is_empty();
        let Some(entry) = self.claims.get_mut(&(lock.clone(), id.clone())) else { return };
        let jeopardy = entry.extend(now, deadline, contended);
        self.timers.push(((lock.clone(), id, Due::Jeopardy), Some(jeopardy)));
    }

    fn lost(&mut self, now: LocalTime, lock: &LockName, reason: LostReason) {
        let Some(line) = self.locks.get_mut(lock) else { return };
        // The member has left the lock already.
        line.asked = false;
        if let Some(id) = line.holding.take() {
            self.end_hold(now, lock, &id, ClaimState::Lost(reason), HoldEnd::Lost(reason));
        }
        self.ask_for(lock);
        self.tidy(lock);
    }
}

/// What is told of whoever holds a lock elsewhere.
fn as_holder(now: LocalTime, note: LockNote, pod_of: impl Fn(Incarnation) -> String) -> Holder {
    Holder {
        pod: pod_of(note.member),
        owner: note.note.owner,
        token: note.token,
        held: note.held,
        notified: now,
        metadata: note.note.metadata,
    }
}
