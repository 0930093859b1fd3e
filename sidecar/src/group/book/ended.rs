//! The claims that have ended: a call that is repeated gets the answer that it had, for as long as they are remembered.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use conclave_protocols::{LocalTime, LockName};

use crate::claims::{Claim, ClaimId};

/// How long a claim is remembered, and how many of them.
const MEMORY: (Duration, usize) = (Duration::from_mins(10), 10_000);

/// Claims as they were when they ended.
#[derive(Default)]
pub(super) struct Ended {
    /// Never gone through, so that its order does not matter.
    claims: HashMap<(LockName, ClaimId), Box<Claim>>,
    /// When each ended, the oldest first.
    order: VecDeque<(LocalTime, LockName, ClaimId)>,
}

impl Ended {
    pub(super) fn remember(&mut self, now: LocalTime, claim: Claim) {
        let (lock, id) = (claim.lock.clone(), claim.id.clone());
        self.order.push_back((now, lock.clone(), id.clone()));
        self.claims.insert((lock, id), Box::new(claim));
    }

    pub(super) fn find(&self, lock: &LockName, id: &ClaimId) -> Option<&Claim> {
        self.claims.get(&(lock.clone(), id.clone())).map(AsRef::as_ref)
    }

    /// Forgets claims that ended long ago, and the oldest if they are too many.
    pub(super) fn forget(&mut self, now: LocalTime) {
        while let Some((at, _, _)) = self.order.front() {
            if now - *at < MEMORY.0 && self.order.len() <= MEMORY.1 {
                return;
            }
            if let Some((_, lock, id)) = self.order.pop_front() {
                self.claims.remove(&(lock, id));
            }
        }
    }
}
