//! How claims end: given back, given up, lost, or cut short.

use conclave_protocols::{LocalTime, LockName};

use super::Book;
use super::entry::ClaimEntry;
use crate::claims::{ClaimError, ClaimId, ClaimState, LostReason, Refusal};
use crate::metrics::HoldEnd;

impl Book {
    /// The application gives a claim back, or gives it up. Done again it does nothing.
    pub(in crate::group) fn release(
        &mut self,
        now: LocalTime,
        lock: &LockName,
        id: &ClaimId,
    ) -> Result<(), ClaimError> {
        if let Some(entry) = self.stop_waiting(lock, id) {
            self.end(now, lock, entry, ClaimState::Released);
            self.withdraw_if_nobody_waits(lock);
            return Ok(());
        }
        let lease = self.lease;
        if let Some(entry) = self.holding(lock).filter(|entry| entry.id() == id) {
            entry.bring_up_to_date(now, lease);
            // A deadline that has passed is final, though its timer may not have fired yet.
            let (until, reason) = entry.end_of_hold();
            if until > now {
                self.end_hold(now, lock, ClaimState::Released, HoldEnd::Released);
                self.leave(lock);
                return Ok(());
            }
            self.cut_short(now, lock, reason);
        }
        let claim = self.ended(lock, id)?;
        match claim.state {
            ClaimState::Lost(_) | ClaimState::Refused(_) => {
                Err(ClaimError::Ended(Box::new(claim.clone())))
            }
            ClaimState::Waiting { .. } | ClaimState::Held(_) | ClaimState::Released => Ok(()),
        }
    }

    /// Ends a hold that runs too long.
    pub(super) fn cut_short(&mut self, now: LocalTime, lock: &LockName, reason: LostReason) {
        self.end_hold(now, lock, ClaimState::Lost(reason), HoldEnd::Lost(reason));
        self.leave(lock);
    }

    /// Ends the claim that holds a lock, if one does.
    pub(super) fn end_hold(
        &mut self,
        now: LocalTime,
        lock: &LockName,
        state: ClaimState,
        end: HoldEnd,
    ) {
        let Some(entry) = self.locks.get_mut(lock).and_then(|line| line.holding.take()) else {
            return;
        };
        let (algorithm, held) = entry.held_for(now);
        self.metrics.held.dec();
        self.metrics.ended(algorithm, end, held);
        self.watched.remove(lock);
        self.remember(now, lock, entry, state);
    }

    /// Ends a claim that waited.
    pub(super) fn end(
        &mut self,
        now: LocalTime,
        lock: &LockName,
        entry: Box<ClaimEntry>,
        state: ClaimState,
    ) {
        let ended = entry.watch();
        self.remember(now, lock, entry, state);
        self.metrics.settled(&ended.borrow());
    }

    fn remember(
        &mut self,
        now: LocalTime,
        lock: &LockName,
        entry: Box<ClaimEntry>,
        state: ClaimState,
    ) {
        self.timers.push(((lock.clone(), entry.id().clone()), None));
        self.ended.remember(now, entry.end(now, state));
        self.open -= 1;
    }

    /// Nobody listens to a claim any more: given up if it still waits.
    pub(in crate::group) fn abandon(&mut self, now: LocalTime, lock: &LockName, id: &ClaimId) {
        if let Some(entry) = self.stop_waiting(lock, id) {
            self.end(now, lock, entry, ClaimState::Released);
            self.withdraw_if_nobody_waits(lock);
        }
    }

    /// The sidecar is going: nobody gets anything any more.
    ///
    /// What is held is not given back: a sidecar may be asked to end while its application lives and
    /// goes by the deadline that was sent to it. So the member leaves as a holder, and others wait for its
    /// lease.
    pub(in crate::group) fn close(&mut self, now: LocalTime) {
        let locks: Vec<LockName> = self.locks.keys().cloned().collect();
        for lock in locks {
            let Some(line) = self.locks.get_mut(&lock) else { continue };
            let waiting = std::mem::take(&mut line.waiting);
            self.metrics.waiters.sub(i64::try_from(waiting.len()).unwrap_or(i64::MAX));
            for entry in waiting {
                self.end(now, &lock, entry, ClaimState::Refused(Refusal::Terminated));
            }
            if self.holding(&lock).is_some() {
                let reason = LostReason::Terminated;
                self.end_hold(now, &lock, ClaimState::Lost(reason), HoldEnd::Lost(reason));
            } else {
                self.leave(&lock);
            }
        }
    }
}
