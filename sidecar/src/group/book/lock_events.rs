//! What the member reports of its locks: that it waits, holds, goes on holding, or has lost one.

use conclave_protocols::member::message::LockNote;
use conclave_protocols::member::{self, Lease, LockEvent, Term};
use conclave_protocols::{Incarnation, LocalTime, LockName};

use super::Book;
use super::entry::{ClaimEntry, Extended};
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
            LockEvent::Entered { token, epoch, term, messages } => {
                let held = Held {
                    token,
                    epoch,
                    safe_until: term.until(),
                    ends_by: LostReason::LeaseExpired,
                    since: now,
                    jeopardy: false,
                    contended: false,
                    messages,
                };
                self.entered(now, lock, &held, term);
            }
            LockEvent::Extended { deadline, contended } => {
                self.extended(now, lock, deadline, contended);
            }
            LockEvent::Renewed { renewed, listed } => self.renewed(now, lock, renewed, listed),
            LockEvent::Lost(reason) => {
                let reason = match reason {
                    member::LostReason::LeaseExpired => LostReason::LeaseExpired,
                    member::LostReason::ViewChange => LostReason::ViewChange,
                };
                self.lost(now, lock, reason);
            }
            LockEvent::Left { algorithm, caching, messages } => {
                self.metrics.cost(algorithm, caching, messages);
            }
        }
    }

    /// The member's lease goes on, and with it what it holds. A claim that somebody watches shows that at
    /// once, any other when it is looked at.
    pub(in crate::group) fn extend_all(&mut self, now: LocalTime, lease: Lease) {
        if !lease.replaces(&self.lease.lease) {
            // What was reported of the one before it counts no more from here on.
            self.bring_all_up_to_date(now);
        }
        self.lease = Extended { at: now, lease };
        for lock in std::mem::take(&mut self.watched) {
            self.go_on_watching(now, &lock);
        }
    }

    /// Shows how every claim that holds stands by now.
    pub(super) fn bring_all_up_to_date(&mut self, now: LocalTime) {
        for entry in self.locks.values_mut().filter_map(|line| line.holding.as_mut()) {
            entry.bring_up_to_date(now, self.lease);
        }
    }

    /// A claim that waits or holds, as it stands by now, for somebody that may watch it from now on.
    pub(super) fn show(
        &mut self,
        now: LocalTime,
        lock: &LockName,
        id: &ClaimId,
    ) -> Option<&mut ClaimEntry> {
        if self.holding(lock).is_some_and(|entry| entry.id() == id) {
            self.show_hold(now, lock);
        }
        self.locks.get_mut(lock)?.find(id)
    }

    /// The claim that holds a lock.
    pub(super) fn holding(&mut self, lock: &LockName) -> Option<&mut ClaimEntry> {
        self.locks.get_mut(lock)?.holding.as_deref_mut()
    }

    fn show_hold(&mut self, now: LocalTime, lock: &LockName) {
        let lease = self.lease;
        let Some(entry) = self.holding(lock) else { return };
        entry.bring_up_to_date(now, lease);
        entry.await_jeopardy(now);
        self.watched.insert(lock.clone());
        self.set_timer(lock);
    }

    /// Shows how a hold stands by now, if somebody may watch it.
    pub(super) fn go_on_watching(&mut self, now: LocalTime, lock: &LockName) {
        if self.holding(lock).is_some_and(|entry| entry.is_watched()) {
            self.show_hold(now, lock);
        }
    }

    fn queued(&mut self, now: LocalTime, lock: &LockName, holder: Option<Holder>) {
        let Some(line) = self.locks.get_mut(lock) else { return };
        line.heard = true;
        line.holder = holder;
        self.show_waiting(now, lock);
        let holder = self.holder(now, lock);
        let waiting = self.locks.get(lock).into_iter().flat_map(|line| &line.waiting);
        let tries: Vec<ClaimId> =
            waiting.filter(|entry| entry.only_tries()).map(|entry| entry.id().clone()).collect();
        for id in tries {
            self.refuse(now, lock, &id, Refusal::Held { holder: holder.clone() });
        }
    }

    fn entered(&mut self, now: LocalTime, lock: &LockName, held: &Held, term: Term) {
        let Some(line) = self.locks.get_mut(lock) else { return };
        let Some(mut entry) = line.waiting.pop_front() else { return self.leave(lock) };
        self.metrics.waiters.dec();
        self.metrics.held.inc();
        line.begin_or_go_on();
        line.holder = None;
        line.heard = true;
        entry.hold(now, held, term);
        self.metrics.settled(&entry.watch().borrow());
        line.holding = Some(entry);
        self.set_timer(lock);
        self.watched.insert(lock.clone());
        self.show_waiting(now, lock);
    }

    fn extended(&mut self, now: LocalTime, lock: &LockName, deadline: LocalTime, contended: bool) {
        let Some(line) = self.locks.get_mut(lock) else { return };
        let contended = contended || !line.waiting.is_empty();
        let Some(entry) = &mut line.holding else { return };
        entry.extend(now, deadline, contended);
        entry.bring_up_to_date(now, self.lease);
        self.go_on_watching(now, lock);
    }

    fn renewed(&mut self, now: LocalTime, lock: &LockName, renewed: bool, listed: bool) {
        let lease = self.lease;
        let Some(entry) = self.holding(lock) else { return };
        entry.bring_up_to_date(now, lease);
        entry.set_renewed(now, renewed, listed);
    }

    fn lost(&mut self, now: LocalTime, lock: &LockName, reason: LostReason) {
        let Some(line) = self.locks.get_mut(lock) else { return };
        // The member has left the lock already.
        line.end_turn();
        self.end_hold(now, lock, ClaimState::Lost(reason), HoldEnd::Lost(reason));
        self.ask_for(lock);
        self.tidy(lock);
    }
}

/// What is reported of a holder elsewhere: its pod alone, if it has entered again and not reported for whom.
fn as_holder(now: LocalTime, note: LockNote, pod_of: impl Fn(Incarnation) -> String) -> Holder {
    let pod = pod_of(note.member);
    let owner = Some(note.note.owner).filter(|owner| !owner.is_empty());
    Holder {
        owner: owner.unwrap_or_else(|| pod.clone()),
        pod,
        token: note.token,
        held: note.held,
        notified: now,
        metadata: note.note.metadata,
    }
}
