//! The claims of this sidecar's application, by lock.
//!
//! The members of a group compete for a lock once each, however many claims wait behind them: the
//! first claim in line makes the member ask. When it enters, it serves the claims that wait at that moment, one
//! after another, and leaves: that is its *turn*. What comes later makes it ask again. So each claim has its
//! share, however many of them a member has, and no member keeps the others waiting for longer than a turn.

mod arbiter;
mod ended;
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

use self::ended::Ended;
use self::entry::{ClaimEntry, Extended};
use super::Asked;
use crate::claims::{
    Ask, AskError, Claim, ClaimError, ClaimId, ClaimState, Holder, Maker, Refusal,
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

/// The timer of a claim, which has one at a time: to set, or to clear.
pub(super) type ClaimTimer = ((LockName, ClaimId), Option<LocalTime>);

/// All claims.
pub(super) struct Book {
    pod: String,
    me: Maker,
    /// What the member goes by.
    arbiter: Arbiter,
    locks: BTreeMap<LockName, Line>,
    /// How many claims wait or hold.
    open: usize,
    /// The locks whose holder somebody may watch.
    watched: BTreeSet<LockName>,
    /// What extends all that holds.
    lease: Extended,
    ended: Ended,
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
    waiting: VecDeque<Box<ClaimEntry>>,
    holding: Option<Box<ClaimEntry>>,
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

    /// A claim that waits or holds.
    fn find(&mut self, id: &ClaimId) -> Option<&mut ClaimEntry> {
        self.entries_mut().find(|entry| entry.id() == id)
    }

    /// The claim that holds, and those that wait, the first in line first.
    fn entries(&self) -> impl Iterator<Item = &ClaimEntry> {
        self.holding.iter().chain(&self.waiting).map(AsRef::as_ref)
    }

    fn entries_mut(&mut self) -> impl Iterator<Item = &mut ClaimEntry> {
        self.holding.iter_mut().chain(&mut self.waiting).map(AsMut::as_mut)
    }

    /// Whether the members that could grant it were heard of since this one asked.
    fn was_answered(&self) -> bool {
        self.heard || self.holding.is_some()
    }

    /// The member is not to enter, nor in the lock.
    fn end_turn(&mut self) {
        (self.asked, self.turn) = (false, 0);
    }
}

/// Claims that wait for one lock, and claims in all.
const LIMITS: (usize, usize) = (1_000, 10_000);

impl Book {
    pub(super) fn new(pod: &str, me: Incarnation, metrics: LockMetrics) -> Self {
        metrics.wanted.set(0);
        Self {
            pod: pod.to_owned(),
            me: me.into(),
            arbiter: Arbiter::Quorum,
            locks: BTreeMap::new(),
            open: 0,
            watched: BTreeSet::new(),
            lease: Extended::default(),
            ended: Ended::default(),
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
        self.ended.forget(now);
        let of_lock = policy.for_lock(ask.lock.as_str()).ok_or(AskError::NotAllowed)?;
        let id = match &ask.claim {
            Some(id) => id.clone(),
            None => self.draw(),
        };
        if ask.claim.is_some() {
            if let Some(entry) = self.show(now, &ask.lock, &id) {
                return entry.repeat(&ask);
            }
            if let Some(claim) = self.ended.find(&ask.lock, &id) {
                return Err(AskError::Ended(Box::new(claim.clone())));
            }
            // It may be drawn next, here or by another, and states who made it.
            if id.maker().is_some() {
                return Err(AskError::Drawn);
            }
        }
        let line = self.locks.get(&ask.lock);
        if line.is_some_and(|line| line.waiting.len() >= LIMITS.0) {
            return Err(AskError::Full { what: "claims that wait for this lock", limit: LIMITS.0 });
        }
        if self.open >= LIMITS.1 {
            return Err(AskError::Full { what: "claims of this pod", limit: LIMITS.1 });
        }
        if self.group_is_full {
            let what = "locks that the group's members hold and wait for";
            return Err(AskError::Full { what, limit: GROUP_MAX });
        }
        let lock = ask.lock.clone();
        let entry = ClaimEntry::new(now, id, ask, &self.pod, of_lock, self.arbiter);
        let claim = entry.watch();
        self.queue(now, &lock, entry);
        Ok(Asked { created: true, claim })
    }

    /// The claims that wait or hold.
    pub(super) fn claims(&mut self, now: LocalTime) -> Vec<watch::Receiver<Claim>> {
        self.bring_all_up_to_date(now);
        self.locks.values().flat_map(Line::entries).map(ClaimEntry::watch).collect()
    }

    /// An id that begins with this process.
    fn draw(&mut self) -> ClaimId {
        self.drawn += 1;
        ClaimId::draw(self.me, self.drawn)
    }

    fn queue(&mut self, now: LocalTime, lock: &LockName, entry: ClaimEntry) {
        let (id, tries, due) = (entry.id().clone(), entry.only_tries(), entry.due());
        let line = self.locks.entry(lock.clone()).or_default();
        line.waiting.push_back(Box::new(entry));
        self.open += 1;
        self.metrics.waiters.inc();
        let others = line.holding.is_some() || line.waiting.len() > 1;
        self.count_locks();
        self.timers.push(((lock.clone(), id.clone()), due));
        if tries {
            let long = self.grace_for(now, lock).filter(|until| Some(*until) > due);
            if let Some(until) = long {
                return self.refuse(now, lock, &id, Refusal::GracePeriod { until });
            }
            if others {
                let holder = self.holder(now, lock);
                return self.refuse(now, lock, &id, Refusal::Held { holder });
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
        Some(self.locks.get(lock)?.waiting.front()?.note())
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

    /// Shows all that wait for a lock its holder.
    fn show_waiting(&mut self, now: LocalTime, lock: &LockName) {
        if self.locks.get(lock).is_none_or(|line| line.waiting.is_empty()) {
            return;
        }
        let holder = self.holder(now, lock);
        let Some(line) = self.locks.get_mut(lock) else { return };
        let heard = line.was_answered();
        for entry in &mut line.waiting {
            entry.show(ClaimState::Waiting { holder: holder.clone(), heard });
        }
    }

    /// The holder of a lock, as far as this member knows: a claim of its own, or another member.
    fn holder(&self, now: LocalTime, lock: &LockName) -> Option<Holder> {
        let line = self.locks.get(lock)?;
        match &line.holding {
            Some(entry) => Some(entry.as_holder(now, &self.pod)),
            None => line.holder.clone(),
        }
    }

    /// Something about a claim is due.
    pub(super) fn on_due(&mut self, now: LocalTime, lock: &LockName, id: &ClaimId) {
        let Some(line) = self.locks.get_mut(lock) else { return };
        if line.holding.as_ref().is_some_and(|entry| entry.id() == id) {
            return self.on_hold_due(now, lock);
        }
        let heard = line.was_answered();
        let refusal = match self.grace_for(now, lock) {
            Some(until) => Refusal::GracePeriod { until },
            None if heard => Refusal::WaitTimeout { holder: self.holder(now, lock) },
            None => Refusal::NoQuorum,
        };
        self.refuse(now, lock, id, refusal);
    }

    fn on_hold_due(&mut self, now: LocalTime, lock: &LockName) {
        let Some(entry) = self.holding(lock) else { return };
        if let Some(reason) = entry.is_cut_short(now) {
            return self.cut_short(now, lock, reason);
        }
        entry.ignore_jeopardy();
        self.set_timer(lock);
        self.go_on_watching(now, lock);
    }

    /// Sets the timer of the claim that holds a lock.
    fn set_timer(&mut self, lock: &LockName) {
        let holding = self.locks.get(lock).and_then(|line| line.holding.as_ref());
        if let Some(entry) = holding {
            self.timers.push(((lock.clone(), entry.id().clone()), entry.due()));
        }
    }

    /// Refuses a claim that waits.
    fn refuse(&mut self, now: LocalTime, lock: &LockName, id: &ClaimId, refusal: Refusal) {
        if let Some(entry) = self.stop_waiting(lock, id) {
            self.end(now, lock, entry, ClaimState::Refused(refusal));
            self.withdraw_if_nobody_waits(lock);
        }
    }

    /// Takes a claim out of the line, if it stands in it.
    fn stop_waiting(&mut self, lock: &LockName, id: &ClaimId) -> Option<Box<ClaimEntry>> {
        let line = self.locks.get_mut(lock)?;
        let place = line.waiting.iter().position(|waiting| waiting.id() == id)?;
        let entry = line.waiting.remove(place)?;
        if place < line.turn {
            line.turn -= 1;
        }
        self.metrics.waiters.dec();
        Some(entry)
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
        match self.show(now, lock, id) {
            Some(entry) => Ok(entry.watch()),
            None => self.ended(lock, id).map(|claim| watch::channel(claim.clone()).1),
        }
    }

    /// A claim that has ended, as long as it is remembered.
    fn ended(&self, lock: &LockName, id: &ClaimId) -> Result<&Claim, ClaimError> {
        self.ended.find(lock, id).ok_or_else(|| ClaimError::unknown(id, self.me))
    }

    /// The application renews a claim.
    pub(super) fn renew(
        &mut self,
        now: LocalTime,
        lock: &LockName,
        id: &ClaimId,
        ttl: Option<Duration>,
    ) -> Result<Claim, ClaimError> {
        let Some(entry) = self.show(now, lock, id) else {
            return Err(ClaimError::Ended(Box::new(self.ended(lock, id)?.clone())));
        };
        let claim = entry.renew(now, ttl)?;
        self.set_timer(lock);
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
}

#[cfg(test)]
mod tests;
