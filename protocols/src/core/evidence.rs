//! Evidence of death (rule 14): the kubelet reported that the container of exactly one process has
//! terminated.
//!
//! The process is over, its application need not be: it may act for as long as it was told. So a
//! dead member counts only when whatever it promised or was told has run out, and that is counted
//! from when the evidence was seen. What is saved is the wait for members that cannot be asked
//! (rule 15 c), not the wait for a promise.

use std::collections::BTreeMap;

use super::candidacy::Candidate;
use super::{Member, Nominator, Service};
use crate::ids::Incarnation;
use crate::policy;
use crate::record::{MEMBERS_MAX, Record};
use crate::time::LocalTime;

/// Members that are surely dead, and when this member first saw the evidence.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Dead(BTreeMap<Incarnation, LocalTime>);

/// More are not kept; the oldest are forgotten.
const DEAD_MAX: usize = 4 * MEMBERS_MAX;

impl Dead {
    fn note(&mut self, now: LocalTime, member: Incarnation) {
        self.0.entry(member).or_insert(now);
        if self.0.len() > DEAD_MAX
            && let Some(oldest) = self.0.iter().min_by_key(|(_, at)| **at).map(|(dead, _)| *dead)
        {
            self.0.remove(&oldest);
        }
    }
}

impl<S: Service, N: Nominator> Member<S, N> {
    /// That process is dead. It counts for a candidate, after a while.
    pub(super) fn on_evidence(&mut self, now: LocalTime, member: Incarnation) {
        if member == self.me.incarnation {
            return;
        }
        self.dead.note(now, member);
        if let Some(candidate) = self.candidate() {
            candidate.dead.note(now, member);
        }
    }
}

impl Candidate {
    /// Since when a member is known to be dead, if the base's policy takes evidence.
    fn dead_since(&self, base: &Record, member: Incarnation) -> Option<LocalTime> {
        match base.policy.evidence {
            policy::Evidence::None => None,
            policy::Evidence::ContainerStatus => self.dead.0.get(&member).copied(),
        }
    }

    /// Rule 14: whether a member counts as one that sealed the base: whatever it promised before it
    /// died has run out, counted from when the evidence was seen.
    pub(super) fn is_dead(&self, now: LocalTime, base: &Record, member: Incarnation) -> bool {
        let wait = base.timing.leader_lease;
        self.dead_since(base, member).is_some_and(|seen| seen.after(wait) <= now)
    }

    /// Until when the dead that said nothing may have been told to hold, or what the leader held. The
    /// leader's own holds ended with its leader lease, or others tell them (rule 22).
    pub(super) fn holds_of_the_dead(&self, base: &Record) -> LocalTime {
        let silent = |m: &Incarnation| Some(*m) != base.leader && !self.seals.contains_key(m);
        let seen = base.incarnations().filter(silent).filter_map(|m| self.dead_since(base, m));
        seen.max().map(|seen| seen.after(base.timing.member_lease)).unwrap_or_default()
    }
}
