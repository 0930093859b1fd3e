//! What a test about locks was answered, held against the promises.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use conclave_protocols::history::{ClaimNumber, History, Operation};

use super::Answer;
use crate::boottime::Boottime;
use crate::second_opinion;

/// What was answered to a test about locks. It is checked when the group is no longer needed.
#[derive(Debug)]
pub(super) struct Witness {
    begun: Boottime,
    /// Whether applications go by the clocks of this machine.
    is_near: bool,
    claims: Mutex<BTreeMap<String, Claim>>,
    history: Mutex<History>,
}

/// A claim that a test knows by name.
#[derive(Clone, Copy, Debug)]
struct Claim {
    number: ClaimNumber,
    /// Until when it was notified that it holds, if it was.
    until: Option<Duration>,
}

impl Witness {
    /// `is_near`: applications go by the clocks of this machine.
    pub(super) fn new(is_near: bool) -> Self {
        let (begun, claims, history) = (Boottime::now(), Mutex::default(), Mutex::default());
        Self { begun, is_near, claims, history }
    }

    /// Checks all that was answered. Returns how much that was, in words.
    pub(super) fn check(&self) -> Result<String> {
        second_opinion::check(&lock(&self.history))
    }

    fn note(&self, operation: Operation) {
        lock(&self.history).record(self.begun.elapsed(), operation);
    }

    /// Somebody asks for a lock.
    pub(super) fn asks(&self, name: &str) -> ClaimNumber {
        let mut history = lock(&self.history);
        let claim = history.len() as u64;
        let asked = Operation::Asked { claim, lock: name.to_owned() };
        history.record(self.begun.elapsed(), asked);
        claim
    }

    /// The sidecar knows a request by that name.
    pub(super) fn knows(&self, name: &str, number: ClaimNumber) {
        lock(&self.claims).insert(name.to_owned(), Claim { number, until: None });
    }

    /// A claim that waits or holds, as a sidecar shows it.
    pub(super) fn sees(&self, shown: &Answer) -> Result<()> {
        let mut claims = lock(&self.claims);
        let Some(known) = claims.get_mut(shown.text("claim")?) else { return Ok(()) };
        if shown.text("state")? != "held" {
            return Ok(());
        }
        let claim = known.number;
        let until = self.deadline(shown)?;
        if known.until.is_none() {
            let token = shown.body["token"].as_u64();
            let view = shown.body["epoch"].as_u64();
            self.note(Operation::Granted { claim, token, view, until });
        } else if known.until < Some(until) {
            self.note(Operation::Extended { claim, until });
        }
        known.until = known.until.max(Some(until));
        Ok(())
    }

    /// Until when an application was notified that it holds. What a clock of somebody else's cluster
    /// reads means nothing here: then it counts from after the answer, which is late.
    fn deadline(&self, shown: &Answer) -> Result<Duration> {
        if self.is_near {
            return self.begun.until_safe(&shown.body);
        }
        Ok(self.begun.elapsed() + Duration::from_millis(shown.number("safe_for_ms")?))
    }

    /// It gives the lock back.
    pub(super) fn gives_back(&self, grant: &Answer) -> Result<()> {
        let known = lock(&self.claims).get(grant.text("claim")?).copied();
        if let Some(known) = known {
            self.note(Operation::Released { claim: known.number });
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
