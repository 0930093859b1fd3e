//! Failure detection: a process guesses which of those that it watches have crashed.
//!
//! Source: Chandra and Toueg, *Unreliable Failure Detectors for Reliable Distributed Systems*, JACM 43(2),
//! 1996, for what a detector may promise; Chen, Toueg and Aguilera, *On the Quality of Service of Failure
//! Detectors*, IEEE Transactions on Computers 51, 2002, for how good one is: detection time, mistake rate,
//! mistake duration.
//!
//! ```text
//! p, every interval:          send HEARTBEAT to its watchers
//! q, on HEARTBEAT from p:     if q suspects p: that was a mistake; trust p
//!                             deadline(p) := as the rule has it
//! q, at deadline(p):          suspect p
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages | none of its own: any that come once an interval will do |
//! | completeness | strong: a crashed member is suspected by all that watch it, and for good |
//! | accuracy | none that is sure: a living member may be suspected, and is trusted again when it is heard |
//! | tolerates | loss, delay, order: they cost mistakes |
//!
//! A slow process cannot be distinguished from a crashed one (Fischer, Lynch and Paterson, *Impossibility of
//! Distributed Consensus with One Faulty Process*, JACM 32(2), 1985). So a suspicion is a guess, and may do no
//! more than choose who is nominated. What must be safe waits for a lease.
//!
//! The rule is [`Timeout`] or [`PhiAccrual`]: each says until when the silence of a peer is no sign of its death.
//!
//! Deviations:
//!
//! * It has no messages and no timers: it is handed what was heard and the time, and states whom it suspects and
//!   when it is to look next.
//! * A process that looks later than a deadline by more than an interval was paused, and has yet to read what
//!   arrived meanwhile. That time, and one interval more, counts for nobody's silence.
//! * Who is watched no longer is remembered while it is suspected, so that a mistake is counted also when it shows
//!   late: the group may have gone on without a member that lives.

mod phi;
mod timeout;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use self::phi::{PhiAccrual, Threshold};
pub use self::timeout::Timeout;
use crate::record::MEMBERS_MAX;
use crate::time::LocalTime;

/// By which rule a peer that is silent comes to be suspected.
pub trait Rule {
    /// A heartbeat of it came.
    fn hear(&mut self, now: LocalTime);

    /// When the latest came; at first, since when it is watched.
    fn heard(&self) -> LocalTime;

    /// When it is to be suspected, if nothing is heard before.
    fn deadline(&self) -> LocalTime;

    /// So much of its silence counts for nothing.
    fn forgive(&mut self, silence: Duration);
}

/// What a detector goes by.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Params {
    /// How often a peer sends a heartbeat.
    pub interval: Duration,
    /// A silence of so long is suspected by either rule.
    pub timeout: Duration,
    /// At which level of suspicion a shorter one is; at none if nothing, and the rule is [`Timeout`].
    pub threshold: Option<Threshold>,
}

/// What is stated of [`Params`]: the interval is that of the heartbeats there are.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Stated {
    /// Three intervals and a half if nothing.
    pub timeout: Option<Duration>,
    /// The rule is [`PhiAccrual`], with this threshold.
    pub threshold: Option<Threshold>,
}

impl Stated {
    /// Everything, at this interval. Of the default three heartbeats may fail to come in time, or two be lost.
    #[must_use]
    pub fn with(self, interval: Duration) -> Params {
        let timeout = self.timeout.unwrap_or_else(|| interval.saturating_mul(7) / 2);
        Params { interval, timeout, threshold: self.threshold }
    }
}

/// A detector has changed its mind.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Verdict<P> {
    /// It guesses that this peer has crashed.
    Suspected(P),
    /// It does so no longer.
    Trusted {
        /// Of whom.
        peer: P,
        /// For how long it was mistaken: it has heard that peer. Nothing if nobody finds out: it does not watch
        /// that peer any more.
        mistaken: Option<Duration>,
    },
}

/// Whom a process watches, and whom of them it suspects.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Detector<P: Ord> {
    params: Params,
    watched: BTreeMap<P, AnyRule>,
    /// Since when: also those that it does not watch any more, and that were not heard since.
    suspected: BTreeMap<P, LocalTime>,
}

/// How many that are not watched any more are remembered.
const REMEMBERED_MAX: usize = MEMBERS_MAX;

impl<P: Copy + Ord> Detector<P> {
    /// One that watches nobody.
    #[must_use]
    pub fn new(params: Params) -> Self {
        Self { params, watched: BTreeMap::new(), suspected: BTreeMap::new() }
    }

    /// Goes by these from now on. What it knows by another rule is forgotten, but for when each was heard last.
    pub fn set(&mut self, params: Params) {
        if params != self.params {
            self.params = params;
            for rule in self.watched.values_mut() {
                *rule = AnyRule::new(rule.heard(), params);
            }
        }
    }

    /// Watches these from now on, and nobody else. A new one is trusted, unless it was suspected before, and was not
    /// heard since.
    pub fn watch(&mut self, now: LocalTime, peers: &BTreeSet<P>) -> Vec<Verdict<P>> {
        let gone: Vec<P> =
            self.watched.keys().copied().filter(|peer| !peers.contains(peer)).collect();
        let verdicts = gone.into_iter().filter_map(|peer| self.watch_no_longer(peer)).collect();
        for peer in peers {
            self.watched.entry(*peer).or_insert_with(|| AnyRule::new(now, self.params));
        }
        verdicts
    }

    /// That one is watched no longer: it says itself that it goes.
    pub fn forget(&mut self, peer: P) -> Option<Verdict<P>> {
        let verdict = self.watch_no_longer(peer);
        self.suspected.remove(&peer);
        verdict
    }

    /// A heartbeat came.
    pub fn hear(&mut self, now: LocalTime, peer: P) -> Option<Verdict<P>> {
        if let Some(rule) = self.watched.get_mut(&peer) {
            rule.hear(now);
        }
        self.trust(now, peer)
    }

    /// Something else came, which proves no more than that its sender lives. If that one is watched, it proves
    /// nothing that counts: its heartbeats do not arrive.
    pub fn hear_of(&mut self, now: LocalTime, peer: P) -> Option<Verdict<P>> {
        if self.watched.contains_key(&peer) { None } else { self.trust(now, peer) }
    }

    /// Suspects whose deadline has passed.
    pub fn look(&mut self, now: LocalTime) -> Vec<Verdict<P>> {
        let Some(due) = self.next().filter(|due| *due <= now) else { return Vec::new() };
        let late = now - due;
        if late > self.params.interval {
            let silence = late.saturating_add(self.params.interval);
            self.watched.values_mut().for_each(|rule| rule.forgive(silence));
        }
        let is_due = |(peer, rule): (&P, &AnyRule)| {
            (rule.deadline() <= now && !self.suspected.contains_key(peer)).then_some(*peer)
        };
        let due: Vec<P> = self.watched.iter().filter_map(is_due).collect();
        self.suspected.extend(due.iter().map(|peer| (*peer, now)));
        due.into_iter().map(Verdict::Suspected).collect()
    }

    /// When it is to look next, unless somebody is heard before.
    #[must_use]
    pub fn next(&self) -> Option<LocalTime> {
        let trusted = self.watched.iter().filter(|(peer, _)| !self.suspected.contains_key(*peer));
        trusted.map(|(_, rule)| rule.deadline()).min()
    }

    /// When that peer is to be suspected, if it is watched and not heard before.
    #[must_use]
    pub fn deadline(&self, peer: P) -> Option<LocalTime> {
        self.watched.get(&peer).map(Rule::deadline)
    }

    /// Whether it is watched and suspected.
    #[must_use]
    pub fn is_suspected(&self, peer: P) -> bool {
        self.watched.contains_key(&peer) && self.suspected.contains_key(&peer)
    }

    fn trust(&mut self, now: LocalTime, peer: P) -> Option<Verdict<P>> {
        let since = self.suspected.remove(&peer)?;
        Some(Verdict::Trusted { peer, mistaken: Some(now - since) })
    }

    fn watch_no_longer(&mut self, peer: P) -> Option<Verdict<P>> {
        let suspected = self.is_suspected(peer);
        self.watched.remove(&peer);
        let lost = self.suspected.iter().filter(|(peer, _)| !self.watched.contains_key(*peer));
        if lost.clone().count() > REMEMBERED_MAX
            && let Some(oldest) = lost.min_by_key(|(_, since)| **since).map(|(peer, _)| *peer)
        {
            self.suspected.remove(&oldest);
        }
        suspected.then_some(Verdict::Trusted { peer, mistaken: None })
    }
}

/// Either rule.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum AnyRule {
    Timeout(Timeout),
    PhiAccrual(PhiAccrual),
}

impl AnyRule {
    fn new(heard: LocalTime, params: Params) -> Self {
        let Params { interval, timeout, threshold } = params;
        let timeout = Timeout::new(heard, timeout);
        match threshold {
            None => Self::Timeout(timeout),
            Some(threshold) => Self::PhiAccrual(PhiAccrual::new(timeout, interval, threshold)),
        }
    }
}

impl Rule for AnyRule {
    fn hear(&mut self, now: LocalTime) {
        match self {
            Self::Timeout(rule) => rule.hear(now),
            Self::PhiAccrual(rule) => rule.hear(now),
        }
    }

    fn heard(&self) -> LocalTime {
        match self {
            Self::Timeout(rule) => rule.heard(),
            Self::PhiAccrual(rule) => rule.heard(),
        }
    }

    fn deadline(&self) -> LocalTime {
        match self {
            Self::Timeout(rule) => rule.deadline(),
            Self::PhiAccrual(rule) => rule.deadline(),
        }
    }

    fn forgive(&mut self, silence: Duration) {
        match self {
            Self::Timeout(rule) => rule.forgive(silence),
            Self::PhiAccrual(rule) => rule.forgive(silence),
        }
    }
}

#[cfg(test)]
mod tests;
