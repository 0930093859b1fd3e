//! Evidence of death (rule 14): the kubelet reported that the container of exactly one process has
//! terminated.
//!
//! The process is over, its application need not be: it may act until the deadlines that it was notified of. So
//! a dead member counts only when whatever it promised or was notified of has run out, and that is counted
//! from when the evidence was seen. What is saved is the wait for members that cannot be asked
//! (rule 15 c), not the wait for a promise.

use std::collections::BTreeMap;

use super::{Member, Nominator, Service};
use crate::ids::Incarnation;
use crate::record::MEMBERS_MAX;
use crate::time::LocalTime;

/// Members that are surely dead, and when this member first saw the evidence.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Dead(BTreeMap<Incarnation, LocalTime>);

/// More are not kept; the oldest are forgotten.
const DEAD_MAX: usize = 4 * MEMBERS_MAX;

impl Dead {
    pub(super) fn note(&mut self, now: LocalTime, member: Incarnation) {
        self.0.entry(member).or_insert(now);
        if self.0.len() > DEAD_MAX
            && let Some(oldest) = self.0.iter().min_by_key(|(_, at)| **at).map(|(dead, _)| *dead)
        {
            self.0.remove(&oldest);
        }
    }

    pub(super) fn since(&self, member: Incarnation) -> Option<LocalTime> {
        self.0.get(&member).copied()
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
            candidate.note_dead(now, member);
        }
    }
}
