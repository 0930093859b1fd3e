//! The view that a candidate would begin: its record, who holds and waits, and from when on it grants.

use std::iter;
use std::time::Duration;

use super::super::message::{Table, TableHold};
use super::Candidate;
use crate::ids::Epoch;
use crate::policy::{Arbiter, Policy, Timing};
use crate::record::{CEILING_STEP, MemberInfo, RECORD_VERSION, Record};
use crate::register::TIME_TERM_MAX;
use crate::time::{LocalTime, hold};

/// What the member that is a candidate knows besides.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Knows<'a> {
    pub(in crate::core) me: &'a MemberInfo,
    /// The latest policy.
    pub(in crate::core) policy: &'a Policy,
    /// No view and no token that it knows of is above this.
    pub(in crate::core) seen: Epoch,
    /// Until when some application may believe in a leader.
    pub(in crate::core) believed_for: LocalTime,
}

impl Candidate {
    /// The view that this candidate would begin.
    pub(in crate::core) fn next_record(
        &self,
        now: LocalTime,
        nonce: u64,
        knows: Knows<'_>,
    ) -> Record {
        let me = knows.me.incarnation;
        let base = self.base.as_ref();
        let members = if let Some(base) = base {
            let answered = self.answered(now, base);
            let joiners = self.joiners.lately(now, base.timing.leader_lease * 2);
            let joiners = iter::once(knows.me.clone()).chain(joiners);
            base.succession(|m| m == me || answered.contains(&m), joiners)
        } else {
            let follow = self.joiners.lately(now, knows.policy.timing.leader_lease);
            Record::first_members(knows.me, follow)
        };
        let policy = match base {
            Some(base) if base.policy.generation > knows.policy.generation => base.policy.clone(),
            Some(_) | None => knows.policy.clone(),
        };
        // Rule 21: every hold of an earlier view is this view's own from its start. A hold of
        // the new leader runs on by its own lease until there is a leader lease for it to end with.
        let outside = |m| m == me || members.iter().all(|info| info.incarnation != m);
        let runs = |held: &TableHold| outside(held.holder) && !held.is_closure();
        let none_runs = !self.carried(now).holds.iter().any(runs);
        let epoch = self.next_epoch(knows.seen);
        let timing = self.next_timing(now, members.len(), policy.timing, knows);
        let before = base.map(|base| base.longest_leader_lease).unwrap_or_default();
        let record = Record {
            version: RECORD_VERSION,
            epoch,
            ceiling: Epoch(epoch.0.saturating_add(CEILING_STEP)),
            leader: Some(me),
            settled: none_runs && policy.arbiter == Arbiter::Quorum && self.grace_until(now) <= now,
            closing: false,
            base_unknown: false,
            base: Some(base.map(|base| base.is_followed_by(epoch)).unwrap_or_default()),
            held: None,
            timing,
            longest_leader_lease: timing.leader_lease.max(before),
            members,
            policy,
            nonce,
        };
        // The leader of several lists what runs from now on, and their seals report it.
        Record { settled: record.settled && !record.lists(), ..record }
    }

    /// Above everything that was ever given: the base and its tokens, what this member knows by itself, and,
    /// should all that be lost, the register's own time.
    fn next_epoch(&self, seen: Epoch) -> Epoch {
        let term = Some(self.time_term).filter(|term| *term <= TIME_TERM_MAX);
        let base = self.base.as_ref().map(|base| base.epoch.max(base.ceiling));
        seen.max(term.unwrap_or_default()).max(base.unwrap_or_default()).next()
    }

    /// The policy's waits, but for a member lease that holds of the base may outlast.
    fn next_timing(
        &self,
        now: LocalTime,
        members: usize,
        timing: Timing,
        knows: Knows<'_>,
    ) -> Timing {
        let least = match (&self.inherited, &self.base) {
            (Some((table, _)), _) => table.member_lease,
            (None, Some(base)) if base.is_closed() && base.settled => Duration::ZERO,
            (None, Some(base)) => base.timing.member_lease,
            (None, None) => Duration::ZERO,
        };
        let member_lease = timing.member_lease.max(least);
        // A member alone is its own majority, so nobody can seal it from outside: it goes on without
        // the register for no more than 15 s.
        let alone = if members == 1 { ALONE_MAX } else { Duration::MAX };
        let leader_lease = self.next_leader_lease(now, timing.leader_lease, knows);
        Timing { leader_lease, member_lease, api_outage: timing.api_outage.min(alone), ..timing }
    }

    /// The policy's, but for a leader lease that some application's belief in its leader may outlast:
    /// the leader after this view waits for no longer than it states (rule 36).
    fn next_leader_lease(&self, now: LocalTime, wanted: Duration, knows: Knows<'_>) -> Duration {
        let former = self.belief_of_the_former_ends(now, knows.me.incarnation).unwrap_or_default();
        let outlasts = former.max(knows.believed_for) > now.after(hold(wanted));
        let base = self.base.as_ref().filter(|_| outlasts).map(|base| base.timing.leader_lease);
        wanted.max(base.unwrap_or_default())
    }

    /// Holders and waiters of the base, as far as they are known.
    pub(in crate::core) fn carried(&self, now: LocalTime) -> Table {
        if let Some((table, received)) = &self.inherited {
            return table.table.aged(now - *received);
        }
        let left_behind = self.base.as_ref().and_then(Table::from_closed);
        left_behind.unwrap_or_else(|| {
            let seals = self.seals.iter().map(|(from, (seal, _))| (*from, seal));
            Table::from_seals(seals, self.listed(now))
        })
    }

    /// Rule 20: before that, nothing is newly granted.
    pub(in crate::core) fn grace_until(&self, now: LocalTime) -> LocalTime {
        if let Some((table, received)) = &self.inherited {
            return received.after(table.grace);
        }
        let Some(base) = &self.base else { return now };
        // What a seal states about the view was so while it had a leader. When that closed the group, it
        // wrote who may still hold, if it knew.
        let closed = base.is_closed() && (base.settled || base.held.is_some());
        let late = self.over_at.unwrap_or(now).after(base.timing.member_lease);
        let sealed = self.settled_at(base).filter(|_| self.has_all_seals(now, base));
        // Holds from before a view without an arbiter may run: nobody seals that.
        match sealed.filter(|_| !base.is_advisory()) {
            _ if closed && !base.is_advisory() => now,
            Some(settled) => now.max(settled.min(late)).max(self.holds_of_the_dead(base)),
            None => late,
        }
    }
}

/// How long a member alone goes on without the register, at most.
const ALONE_MAX: Duration = Duration::from_secs(15);
