//! How claims end: given back, given up, lost, or cut short.

use conclave_protocols::{LocalTime, LockName};

use super::{Book, Due};
use crate::claims::{Claim, ClaimError, ClaimId, ClaimState, LostReason, Refusal};
use crate::metrics::HoldEnd;

impl Book {
    /// The application gives a claim back, or gives it up.
    pub(in crate::group) fn release(
        &mut self,
        now: LocalTime,
        lock: &LockName,
        id: &ClaimId,
    ) -> Result<Claim, ClaimError> {
        let claim = self.find(now, lock, id)?;
        let state = claim.borrow().state.clone();
        match state {
            ClaimState::Waiting { .. } => {
                if self.stop_waiting(lock, id) {
                    self.end(now, lock, id, ClaimState::Released, true);
                    self.withdraw_if_nobody_waits(lock);
                }
            }
            ClaimState::Held(held) => {
                let line = self.locks.get_mut(lock);
                if line.and_then(|line| line.holding.take()).is_some() {
                    self.metrics.held.dec();
                }
                // A deadline that has passed is final, though its timer may not have rung yet.
                let (state, end) = if held.safe_until <= now {
                    let reason = LostReason::LeaseExpired;
                    (ClaimState::Lost(reason), HoldEnd::Lost(reason))
                } else {
                    (ClaimState::Released, HoldEnd::Released)
                };
                self.end_hold(now, lock, id, state, end);
                self.leave(lock);
            }
            ClaimState::Released | ClaimState::Lost(_) | ClaimState::Refused(_) => {}
        }
        let claim = claim.borrow().clone();
        match claim.state {
            ClaimState::Lost(_) | ClaimState::Refused(_) => Err(ClaimError::Ended(Box::new(claim))),
            ClaimState::Waiting { .. } | ClaimState::Held(_) | ClaimState::Released => Ok(claim),
        }
    }

    /// Ends a hold that runs too long.
    pub(super) fn cut_short(
        &mut self,
        now: LocalTime,
        lock: &LockName,
        id: &ClaimId,
        reason: LostReason,
    ) {
        let Some(line) = self.locks.get_mut(lock) else { return };
        if line.holding.as_ref() == Some(id) {
            line.holding = None;
            self.metrics.held.dec();
            self.end_hold(now, lock, id, ClaimState::Lost(reason), HoldEnd::Lost(reason));
            self.leave(lock);
        }
    }

    pub(super) fn end_hold(
        &mut self,
        now: LocalTime,
        lock: &LockName,
        id: &ClaimId,
        state: ClaimState,
        end: HoldEnd,
    ) {
        for due in [Due::Ttl, Due::MaxHold, Due::Jeopardy] {
            self.timers.push(((lock.clone(), id.clone(), due), None));
        }
        if let Some(entry) = self.claims.get(&(lock.clone(), id.clone())) {
            let (algorithm, held) = entry.held_for(now);
            self.metrics.ended(algorithm, end, held);
        }
        self.end(now, lock, id, state, false);
    }

    pub(super) fn end(
        &mut self,
        now: LocalTime,
        lock: &LockName,
        id: &ClaimId,
        state: ClaimState,
        waited: bool,
    ) {
        let key = (lock.clone(), id.clone());
        let Some(entry) = self.claims.get_mut(&key) else { return };
        entry.end(now, state);
        if waited {
            self.metrics.settled(&entry.watch().borrow());
        }
        self.ended.push_back((now, key.0, key.1));
    }

    /// Nobody listens to a claim any more: given up if it still waits.
    pub(in crate::group) fn abandon(&mut self, now: LocalTime, lock: &LockName, id: &ClaimId) {
        if self.stop_waiting(lock, id) {
            self.end(now, lock, id, ClaimState::Released, true);
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
            for id in waiting {
                self.end(now, &lock, &id, ClaimState::Refused(Refusal::Terminated), true);
            }
            match self.locks.get_mut(&lock).and_then(|line| line.holding.take()) {
                Some(id) => {
                    self.metrics.held.dec();
                    let reason = LostReason::Terminated;
                    self.end_hold(now, &lock, &id, ClaimState::Lost(reason), HoldEnd::Lost(reason));
                }
                None => self.leave(&lock),
            }
        }
    }
}
