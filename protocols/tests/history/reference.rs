//! A lock that is right, with clients that are not always reached in time.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::history::{ClaimNumber, History, Operation, Purpose};
use conclave_protocols::random::Random;

/// What the reference is asked to do.
#[derive(Clone, Copy)]
pub(crate) struct Weather {
    pub(crate) operations: usize,
    pub(crate) locks: u64,
}

impl Default for Weather {
    fn default() -> Self {
        Self { operations: 400, locks: 3 }
    }
}

/// One process that grants leases, by one clock; answers take their time.
pub(crate) struct Reference {
    random: Random,
    now: Duration,
    history: History,
    claims: ClaimNumber,
    token: u64,
    epoch: u64,
    leader: Option<(u64, Duration)>,
    locks: BTreeMap<u64, Lock>,
}

#[derive(Default)]
struct Lock {
    /// Who waits, and whether it can give up.
    waiting: Vec<ClaimNumber>,
    /// Who holds, by which token, until when.
    holder: Option<(ClaimNumber, u64, Duration)>,
    /// Nobody is admitted before.
    free_at: Duration,
    /// A token of somebody who holds no more.
    stale: Option<u64>,
    stored: u64,
}

const LEASE: Duration = Duration::from_millis(100);

impl Reference {
    pub(crate) fn run(seed: u64, weather: Weather) -> History {
        let mut reference = Self {
            random: Random::new(seed),
            now: Duration::ZERO,
            history: History::default(),
            claims: 0,
            token: seed % 5,
            epoch: 0,
            leader: None,
            locks: (0..weather.locks).map(|lock| (lock, Lock::default())).collect(),
        };
        while reference.history.len() < weather.operations {
            reference.step(weather.locks);
        }
        reference.history
    }

    fn record(&mut self, operation: Operation) {
        self.history.record(self.now, operation);
    }

    fn step(&mut self, locks: u64) {
        self.now += Duration::from_micros(1 + self.random.up_to(6_000));
        let name = self.random.up_to(locks);
        let mut lock = self.locks.remove(&name).unwrap_or_default();
        self.expire(&mut lock);
        match self.random.up_to(12) {
            0..=3 => self.ask(name, &mut lock),
            4..=6 => self.grant(&mut lock),
            7 => self.extend(name, &mut lock),
            8 => self.release(name, &mut lock),
            9 => self.store(name, &mut lock),
            10 => self.show_stale(name, &lock),
            _ => self.lead(),
        }
        self.locks.insert(name, lock);
    }

    fn expire(&mut self, lock: &mut Lock) {
        if let Some((claim, token, until)) = lock.holder
            && until <= self.now
        {
            lock.holder = None;
            lock.stale = Some(token);
            self.record(Operation::Lost { claim });
        }
    }

    fn ask(&mut self, name: u64, lock: &mut Lock) {
        self.claims += 1;
        lock.waiting.push(self.claims);
        self.record(Operation::Asked { claim: self.claims, lock: format!("lock-{name}") });
        if self.random.once_in(9) {
            let claim = lock.waiting.remove(0);
            self.record(Operation::Released { claim });
        }
    }

    /// The lock is granted to the next in line; its answer takes up to half of the lease.
    fn grant(&mut self, lock: &mut Lock) {
        if lock.holder.is_some() || lock.waiting.is_empty() || self.now < lock.free_at {
            return;
        }
        let claim = lock.waiting.remove(0);
        let until = self.now + LEASE;
        self.now += self.random.below(LEASE / 20);
        self.token += 1 + self.random.up_to(3);
        lock.holder = Some((claim, self.token, until));
        lock.free_at = until;
        let (token, view) = (Some(self.token), Some(self.epoch));
        self.record(Operation::Granted { claim, token, view, until });
    }

    fn extend(&mut self, name: u64, lock: &mut Lock) {
        let Some((claim, token, until)) = &mut lock.holder else { return };
        *until = self.now + LEASE;
        let (claim, token, until) = (*claim, *token, *until);
        lock.free_at = until;
        let (lock, to) = (format!("lock-{name}"), Purpose::Renew);
        self.record(Operation::Shown { lock, token, to, accepted: true });
        self.record(Operation::Extended { claim, until });
    }

    fn release(&mut self, name: u64, lock: &mut Lock) {
        let Some((claim, token, _)) = lock.holder.take() else { return };
        let (named, to) = (format!("lock-{name}"), Purpose::Release);
        self.record(Operation::Shown { lock: named, token, to, accepted: true });
        self.record(Operation::Released { claim });
        lock.free_at = self.now;
        lock.stale = Some(token);
    }

    /// The holder writes, and now and then somebody who holds no more.
    fn store(&mut self, name: u64, lock: &mut Lock) {
        let holder = lock.holder.map(|(_, token, _)| token);
        let shown = if self.random.once_in(3) { lock.stale } else { holder };
        let Some(token) = shown else { return };
        let accepted = token >= lock.stored;
        lock.stored = lock.stored.max(token);
        self.record(Operation::Stored { lock: format!("lock-{name}"), token, accepted });
    }

    fn show_stale(&mut self, name: u64, lock: &Lock) {
        let Some(token) = lock.stale else { return };
        let to = if self.random.once_in(2) { Purpose::Renew } else { Purpose::Release };
        self.record(Operation::Shown { lock: format!("lock-{name}"), token, to, accepted: false });
    }

    fn lead(&mut self) {
        let until = self.now + LEASE;
        match self.leader {
            Some((who, end)) if end > self.now => {
                if self.random.once_in(6) {
                    self.leader = None;
                    return self.record(Operation::Resigned { who: format!("m{who}") });
                }
                self.leader = Some((who, until));
            }
            Some(_) | None => {
                self.epoch += 1 + self.random.up_to(3);
                self.leader = Some((self.random.up_to(5), until));
            }
        }
        let Some((who, until)) = self.leader else { return };
        let (who, epoch) = (format!("m{who}"), self.epoch);
        self.record(Operation::Leads { who, epoch, until });
    }
}
