//! The claims of this sidecar's application, by lock.
//!
//! The members of a group compete for a lock once each, however many claims wait behind them: the
//! first claim in line makes the member ask. When it enters, it serves the claims that wait at that moment, one
//! after another, and leaves: that is its *turn*. What comes later makes it ask again. So each claim has its
//! share, however many of them a member has, and no member keeps the others waiting for longer than a turn.

mod arbiter;
mod ending;
mod entry;
mod lock_events;
mod shown;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use conclave_protocols::member::GROUP_MAX;
use conclave_protocols::member::message::Note;
use conclave_protocols::policy::{Arbiter, Policy};
use conclave_protocols::{Incarnation, LocalTime, LockName};
use tokio::sync::watch;

use self::entry::{ClaimEntry, Extended};
use super::Asked;
use crate::claims::{
    Ask, AskError, Claim, ClaimError, ClaimId, ClaimState, Holder, LostReason, Maker, Refusal, Wait,
};
use crate::metrics::LockMetrics;

/// What the claims want of the member.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Intent {
    /// Enter the lock.
    Enter(LockName, Note),
    /// Leave it, or no longer want it.
    Exit(LockName),
    /// Leave it, and enter in its own place on behalf of the next claim.
    Pass(LockName, Note),
}

/// When something about a claim is due.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum Due {
    /// It has waited long enough.
    Wait,
    /// The application should have renewed it.
    Ttl,
    /// It has held long enough.
    MaxHold,
    /// Its lease should have been extended by now.
    Jeopardy,
}

/// A timer of a claim: to set, or to clear.
pub(super) type ClaimTimer = ((LockName, ClaimId, Due), Option<LocalTime>);

/// All claims.
pub(super) struct Book {
    pod: String,
    me: Maker,
    /// What the member goes by.
    arbiter: Arbiter,
    locks: BTreeMap<LockName, Line>,
    claims: BTreeMap<(LockName, ClaimId), ClaimEntry>,
    /// Those that hold and that somebody may watch.
    watched: BTreeSet<(LockName, ClaimId)>,
    /// What extends all that holds.
    lease: Extended,
    /// Claims that have ended, the oldest first, and when.
    ended: VecDeque<(LocalTime, LockName, ClaimId)>,
    drawn: u64,
    metrics: LockMetrics,
    /// Nothing is newly granted before, as far as is known.
    grace_until: Option<LocalTime>,
    /// The members hold and wait for as many locks as they may.
    group_is_full: bool,
    /// What the member is to do.
    pub(super) intents: Vec<Intent>,
    /// What the task is to be woken for.
    pub(super) timers: Vec<ClaimTimer>,
}

/// The claims on one lock.
#[derive(Default)]
struct Line {
    waiting: VecDeque<ClaimId>,
    holding: Option<ClaimId>,
    /// The member has been asked to enter and not to leave.
    asked: bool,
    /// How many more claims this turn of the member serves: the first in line.
    turn: usize,
    /// Who holds it elsewhere, as far as is known.
    holder: Option<Holder>,
    /// Whether the members that grant it have answered since this one asked.
    heard: bool,
}

impl Line {
    /// The member has entered, for the first in line.
    fn begin_or_go_on(&mut self) {
        self.turn = if self.turn == 0 { self.waiting.len() } else { self.turn - 1 };
    }

    /// The member is not to enter, nor in the lock.
    fn end_turn(&mut self) {
        (self.asked, self.turn) = (false, 0);
    }
}

/// How long an ended claim is remembered, and how many of them.
const MEMORY: (Duration, usize) = (Duration::from_mins(10), 10_000);

/// Claims that wait for one lock, and claims in all.
const LIMITS: (usize, usize) = (1_000, 10_000);

/// Without an answer of anybody who could grant, a claim that does not wait is refused after that.
const TRY: Duration = Duration::from_secs(3);

impl Book {
    pub(super) fn new(pod: &str, me: Incarnation, metrics: LockMetrics) -> Self {
        metrics.wanted.set(0);
        Self {
            pod: pod.to_owned(),
            me: me.into(),
            arbiter: Arbiter::Quorum,
            locks: BTreeMap::new(),
            claims: BTreeMap::new(),
            watched: BTreeSet::new(),
            lease: Extended::default(),
            ended: VecDeque::new(),
            drawn: 0,
            metrics,
            grace_until: None,
            group_is_full: false,
            intents: Vec::new(),
            timers: Vec::new(),
        }
    }

    /// Makes a claim, or finds the one that the client named.
    pub(super) fn ask(
        &mut self,
        now: LocalTime,
        ask: Ask,
        policy: &Policy,
    ) -> Result<Asked, AskError> {
        self.forget(now);
        let of_lock = policy.for_lock(ask.lock.as_str()).ok_or(AskError::NotAllowed)?;
        let id = match &ask.claim {
            Some(id) => id.clone(),
            None => self.draw(),
        };
        let key = (ask.lock.clone(), id.clone());
        if self.claims.contains_key(&key) {
            self.show(now, &key);
        }
        if let Some(entry) = self.claims.get(&key) {
            return entry.repeat(&ask);
        }
        let line = self.locks.get(&ask.lock);
        if line.is_some_and(|line| line.waiting.len() >= LIMITS.0) {
            return Err(AskError::Full { what: "claims that wait for this lock", limit: LIMITS.0 });
        }
        if self.claims.len() - self.ended.len() >= LIMITS.1 {
            return Err(AskError::Full { what: "claims of this pod", limit: LIMITS.1 });
        }
        if self.group_is_full {
            let what = "locks that the group's members hold and wait for";
            return Err(AskError::Full { what, limit: GROUP_MAX });
        }
        let entry = ClaimEntry::new(now, id.clone(), ask, &self.pod, of_lock, self.arbiter);
        let claim = entry.watch();
        let (lock, wait) = (key.0.clone(), entry.wait());
        self.claims.insert(key, entry);
        self.queue(now, &lock, &id, wait);
        Ok(Asked { created: true, claim })
    }

    /// The claims that wait or hold.
    pub(super) fn claims(&mut self, now: LocalTime) -> Vec<watch::Receiver<Claim>> {
        for key in self.holding() {
            self.bring_up_to_date(now, &key);
        }
        let claims = &self.claims;
        let open = self.locks.iter().flat_map(|(lock, line)| {
            let ids = line.holding.iter().chain(&line.waiting);
            ids.filter_map(move |id| claims.get(&(lock.clone(), id.clone())))
        });
        open.map(ClaimEntry::watch).collect()
    }

    /// An id that begins with this process.
    fn draw(&mut self) -> ClaimId {
        self.drawn += 1;
        ClaimId::draw(self.me, self.drawn)
    }

    fn queue(&mut self, now: LocalTime, lock: &LockName, id: &ClaimId, wait: Wait) {
        let line = self.locks.entry(lock.clone()).or_default();
        line.waiting.push_back(id.clone());
        self.metrics.waiters.inc();
        let others = line.holding.is_some() || line.waiting.len() > 1;
        self.count_locks();
        let at = match wait {
            Wait::For(Duration::ZERO) => Some(now.after(TRY)),
            Wait::For(wait) => Some(now.after(wait)),
            Wait::Forever => None,
        };
        self.timers.push(((lock.clone(), id.clone(), Due::Wait), at));
        if wait == Wait::For(Duration::ZERO) {
            let long = self.grace_for(now, lock).filter(|until| *until > now.after(TRY));
            if let Some(until) = long {
                return self.refuse(now, lock, id, Refusal::GracePeriod { until });
            }
            if others {
                let holder = self.holder(now, lock);
                return self.refuse(now, lock, id, Refusal::Held { holder });
            }
        }
        self.show_waiting(now, lock);
        self.ask_for(lock);
    }

    /// Until when nothing is newly granted, as far as is known.
    pub(super) fn grace(&mut self, until: Option<LocalTime>) {
        self.grace_until = until;
    }

    /// Whether the group has room for more.
    pub(super) fn group_is_full(&mut self, full: bool) {
        self.group_is_full = full;
    }

    /// Until when the lock is granted to nobody, whatever was last reported of a holder: nothing if that is a
    /// claim of this pod.
    fn grace_for(&self, now: LocalTime, lock: &LockName) -> Option<LocalTime> {
        let held = self.locks.get(lock).is_some_and(|line| line.holding.is_some());
        self.grace_until.filter(|until| *until > now && !held)
    }

    /// Makes the member ask for a lock, if a claim waits and it does not already.
    fn ask_for(&mut self, lock: &LockName) {
        let next = self.next_in_line(lock);
        let Some(line) = self.locks.get_mut(lock) else { return };
        if line.asked || line.holding.is_some() {
            return;
        }
        let Some(note) = next else { return };
        line.asked = true;
        line.heard = false;
        self.intents.push(Intent::Enter(lock.clone(), note));
    }

    /// On whose behalf the member is to enter next.
    fn next_in_line(&self, lock: &LockName) -> Option<Note> {
        let first = self.locks.get(lock)?.waiting.front()?;
        Some(self.claims.get(&(lock.clone(), first.clone()))?.note())
    }

    /// Makes the member go on with its turn; or leave a lock, and ask again if claims wait.
    fn leave(&mut self, lock: &LockName) {
        let next = self.next_in_line(lock);
        let Some(line) = self.locks.get_mut(lock) else { return };
        if line.asked {
            if let Some(note) = next.filter(|_| line.turn > 0) {
                line.heard = false;
                return self.intents.push(Intent::Pass(lock.clone(), note));
            }
            line.end_turn();
            self.intents.push(Intent::Exit(lock.clone()));
        }
        self.ask_for(lock);
        self.tidy(lock);
    }

    /// Tells all that wait for a lock who holds it.
    fn show_waiting(&mut self, now: LocalTime, lock: &LockName) {
        let holder = self.holder(now, lock);
        let Some(line) = self.locks.get(lock) else { return };
        let heard = line.heard || line.holding.is_some();
        for id in &line.waiting {
            if let Some(entry) = self.claims.get_mut(&(lock.clone(), id.clone())) {
                entry.show(ClaimState::Waiting { holder: holder.clone(), heard });
            }
        }
    }

    /// Who holds a lock, as far as this member knows: a claim of its own, or somebody elsewhere.
    fn holder(&self, now: LocalTime, lock: &LockName) -> Option<Holder> {
        let line = self.locks.get(lock)?;
        match &line.holding {
            Some(id) => {
                let entry = self.claims.get(&(lock.clone(), id.clone()))?;
                Some(entry.as_holder(now, &self.pod))
            }
            None => line.holder.clone(),
        }
    }

    /// Something about a claim is due.
    pub(super) fn on_due(&mut self, now: LocalTime, lock: &LockName, id: &ClaimId, due: Due) {
        match due {
            Due::Wait => {
                let heard = self.locks.get(lock).is_some_and(|l| l.heard || l.holding.is_some());
                let holder = self.holder(now, lock);
                let refusal = match self.grace_for(now, lock) {
                    Some(until) => Refusal::GracePeriod { until },
                    None if heard => Refusal::WaitTimeout { holder },
                    None => Refusal::NoQuorum,
                };
                self.refuse(now, lock, id, refusal);
            }
            Due::Ttl => self.cut_short(now, lock, id, LostReason::TtlExpired),
            Due::MaxHold => self.cut_short(now, lock, id, LostReason::MaxHold),
            Due::Jeopardy => self.go_on_watching(now, &(lock.clone(), id.clone())),
        }
    }

    /// Refuses a claim that waits.
    fn refuse(&mut self, now: LocalTime, lock: &LockName, id: &ClaimId, refusal: Refusal) {
        if self.stop_waiting(lock, id) {
            self.end(now, lock, id, ClaimState::Refused(refusal), true);
            self.withdraw_if_nobody_waits(lock);
        }
    }

    /// Takes a claim out of the line. False if it does not stand in it.
    fn stop_waiting(&mut self, lock: &LockName, id: &ClaimId) -> bool {
        let Some(line) = self.locks.get_mut(lock) else { return false };
        self.timers.push(((lock.clone(), id.clone(), Due::Wait), None));
        let Some(place) = line.waiting.iter().position(|waiting| waiting == id) else {
            return false;
        };
        line.waiting.remove(place);
        if place < line.turn {
            line.turn -= 1;
        }
        self.metrics.waiters.dec();
        true
    }

    fn withdraw_if_nobody_waits(&mut self, lock: &LockName) {
        let Some(line) = self.locks.get(lock) else { return };
        if line.waiting.is_empty() && line.holding.is_none() {
            self.leave(lock);
        }
    }

    /// Finds a claim.
    pub(super) fn find(
        &mut self,
        now: LocalTime,
        lock: &LockName,
        id: &ClaimId,
    ) -> Result<watch::Receiver<Claim>, ClaimError> {
        let key = (lock.clone(), id.clone());
        self.show(now, &key);
        match self.claims.get(&key) {
            Some(entry) => Ok(entry.watch()),
            None => Err(ClaimError::unknown(id, self.me)),
        }
    }

    /// The application renews a claim.
    pub(super) fn renew(
        &mut self,
        now: LocalTime,
        lock: &LockName,
        id: &ClaimId,
        ttl: Option<Duration>,
    ) -> Result<Claim, ClaimError> {
        self.find(now, lock, id)?;
        let Some(entry) = self.claims.get_mut(&(lock.clone(), id.clone())) else {
            return Err(ClaimError::NotFound);
        };
        let at = entry.renew(now, ttl)?;
        let claim = entry.watch().borrow().clone();
        self.timers.push(((lock.clone(), id.clone(), Due::Ttl), at));
        Ok(claim)
    }

    fn tidy(&mut self, lock: &LockName) {
        let unused = |l: &Line| l.waiting.is_empty() && l.holding.is_none() && !l.asked;
        if self.locks.get(lock).is_some_and(unused) {
            self.locks.remove(lock);
            self.count_locks();
        }
    }

    fn count_locks(&self) {
        self.metrics.wanted.set(i64::try_from(self.locks.len()).unwrap_or(i64::MAX));
    }

    /// Forgets claims that ended long ago, and the oldest if they are too many.
    fn forget(&mut self, now: LocalTime) {
        while let Some((at, _, _)) = self.ended.front() {
            if now - *at < MEMORY.0 && self.ended.len() <= MEMORY.1 {
                return;
            }
            if let Some((_, lock, id)) = self.ended.pop_front() {
                self.claims.remove(&(lock, id));
            }
        }
    }
}

#[cfg(test)]
mod tests;
