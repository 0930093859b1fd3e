//! What the claims of this pod know of their locks, for people.

use conclave_protocols::policy::LockPolicy;
use conclave_protocols::{LocalTime, LockName};

use super::Book;
use super::entry::ClaimEntry;
use crate::locks::{Elsewhere, Lock, WAITERS};

impl Book {
    /// The locks that claims of this pod hold or wait for.
    pub(in crate::group) fn names(&self) -> impl Iterator<Item = &LockName> {
        let used = self
            .locks
            .iter()
            .filter(|(_, line)| line.holding.is_some() || !line.waiting.is_empty());
        used.map(|(name, _)| name)
    }

    /// A lock, which that policy is for.
    pub(in crate::group) fn lock(
        &mut self,
        now: LocalTime,
        name: &LockName,
        policy: &LockPolicy,
    ) -> Lock {
        let lease = self.lease;
        if let Some(entry) = self.holding(name) {
            entry.bring_up_to_date(now, lease);
        }
        let claim = |entry: &ClaimEntry| entry.watch().borrow().clone();
        let line = self.locks.get(name);
        let holder = line.filter(|line| line.holding.is_none()).and_then(|l| l.holder.clone());
        Lock {
            name: name.clone(),
            algorithm: policy.algorithm,
            coordinator: None,
            expected_messages: None,
            arbiter: self.arbiter,
            max_hold: policy.max_hold,
            holding: line.and_then(|line| line.holding.as_deref()).map(claim),
            elsewhere: holder.map(|holder| Elsewhere { holder, is_report: true }),
            waiting: line
                .map(|line| line.waiting.iter().take(WAITERS).map(|entry| claim(entry)).collect())
                .unwrap_or_default(),
            unshown: line.map_or(0, |line| line.waiting.len().saturating_sub(WAITERS)),
            pods: Vec::new(),
        }
    }
}
