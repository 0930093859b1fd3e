//! What the member reports of its locks: that it waits, holds, goes on holding, or has lost one.

use conclave_protocols::member::message::LockNote;
use conclave_protocols::member::{self, Lease, LockEvent, Term};
use conclave_protocols::{Incarnation, LocalTime, LockName};

use super::entry::{ClaimEntry, Extended};
use super::{Book, Due, Line};
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
            let holding = self.holding();
            for key in holding {
                self.bring_up_to_date(now, &key);
            }
        }
        self.lease = Extended { at: now, lease };
        for key in std::mem::take(&mut self.watched) {
            self.go_on_watching(now, &key);
        }
    }

    pub(super) fn holding(&self) -> Vec<(LockName, ClaimId)> {
        let key = |(lock, line): (&LockName, &Line)| Some((lock.clone(), line.holding.clone()?));
        self.locks.iter().filter_map(key).collect()
    }

    /// Shows how a claim stands by now. Returns when it is in jeopardy, if it holds.
    pub(super) fn bring_up_to_date(
        &mut self,
        now: LocalTime,
        key: &(LockName, ClaimId),
    ) -> Option<LocalTime> {
        self.claims.get_mut(key)?.bring_up_to_date(now, self.lease)
    }

    /// The same of a claim that somebody is about to watch.
    pub(super) fn show(&mut self, now: LocalTime, key: &(LockName, ClaimId)) {
        let Some(jeopardy) = self.bring_up_to_date(now, key) else { return };
        self.watched.insert(key.clone());
        if jeopardy > now {
            let (lock, id) = key.clone();
            self.timers.push(((lock, id, Due::Jeopardy), Some(jeopardy)));
        }
    }

    /// The same of a claim that somebody may watch.
    pub(super) fn go_on_watching(&mut self, now: LocalTime, key: &(LockName, ClaimId)) {
        if self.claims.get(key).is_some_and(ClaimEntry::is_watched) {
            self.show(now, key);
        }
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

    fn entered(&mut self, now: LocalTime, lock: &LockName, held: &Held, term: Term) {
        let Some(line) = self.locks.get_mut(lock) else { return };
        let Some(id) = line.waiting.pop_front() else { return self.leave(lock) };
        self.metrics.waiters.dec();
        self.metrics.held.inc();
        line.begin_or_go_on();
        line.holding = Some(id.clone());
        line.holder = None;
        line.heard = true;
        let key = (lock.clone(), id);
        let Some(entry) = self.claims.get_mut(&key) else { return self.leave(lock) };
        let (lock, id) = key;
        self.timers.push(((lock.clone(), id.clone(), Due::Wait), None));
        for (due, at) in entry.hold(now, held, term) {
            self.timers.push(((lock.clone(), id.clone(), due), at));
        }
        self.watched.insert((lock.clone(), id));
        self.metrics.settled(&entry.watch().borrow());
        self.show_waiting(now, &lock);
    }

    fn extended(&mut self, now: LocalTime, lock: &LockName, deadline: LocalTime, contended: bool) {
        let Some(line) = self.locks.get(lock) else { return };
        let Some(id) = line.holding.clone() else { return };
        let contended = contended || !line.waiting.is_empty();
        let key = (lock.clone(), id);
        if let Some(entry) = self.claims.get_mut(&key) {
            entry.extend(now, deadline, contended);
        }
        self.bring_up_to_date(now, &key);
        self.go_on_watching(now, &key);
    }

    fn renewed(&mut self, now: LocalTime, lock: &LockName, renewed: bool, listed: bool) {
        let Some(id) = self.locks.get(lock).and_then(|line| line.holding.clone()) else { return };
        let key = (lock.clone(), id);
        self.bring_up_to_date(now, &key);
        if let Some(entry) = self.claims.get_mut(&key) {
            entry.set_renewed(now, renewed, listed);
        }
    }

    fn lost(&mut self, now: LocalTime, lock: &LockName, reason: LostReason) {
        let Some(line) = self.locks.get_mut(lock) else { return };
        // The member has left the lock already.
        line.end_turn();
        if let Some(id) = line.holding.take() {
            self.metrics.held.dec();
            self.end_hold(now, lock, &id, ClaimState::Lost(reason), HoldEnd::Lost(reason));
        }
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
