//! What a leader asks of the register: one thing at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Leader;
use crate::ids::{Epoch, Incarnation};
use crate::record::{CEILING_STEP, Record};
use crate::time::LocalTime;

/// Why a leader speaks with the register.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(in crate::core) enum Task {
    /// The membership or the policy is to change: reads before it resigns to itself.
    Change,
    /// Tokens near their ceiling: reads, then writes it higher.
    Ceiling,
    /// Wrote a higher ceiling.
    Raise(Box<Record>),
    /// Nothing arbitrates, and something is to: reads what there is.
    Arbitrate,
}

/// Why the view or its ceiling is to change, by what other parts of the member know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::core) struct Reasons {
    /// Tokens near their ceiling.
    pub(in crate::core) ceiling: bool,
    /// The latest policy known.
    pub(in crate::core) generation: i64,
    /// The leader lease may become shorter.
    pub(in crate::core) shortens: bool,
    /// Somebody waits for what nobody holds.
    pub(in crate::core) stalled: bool,
}

/// View changes by the leader itself come at most this often.
pub(super) const CHANGE_PERIOD: Duration = Duration::from_secs(1);

impl Leader {
    /// Whether the view is too young to be changed.
    pub(in crate::core) fn has_just_begun(&self, now: LocalTime) -> bool {
        now - self.since < CHANGE_PERIOD
    }

    /// Begins what is due of view changes and ceilings, if it is time to. Whether the register is to be read for it.
    pub(in crate::core) fn begin_task(
        &mut self,
        now: LocalTime,
        me: Incarnation,
        reasons: Reasons,
    ) -> bool {
        let busy = self.task.is_some() || self.freeze.is_some();
        if busy || self.leader_lease_until() <= now {
            return false;
        }
        let Reasons { ceiling, generation, shortens, stalled } = reasons;
        let changes = |leader: &Self| {
            leader.has_other_members(now, me)
                || leader.record.closing
                || generation > leader.record.policy.generation
                || shortens
                // While it grants nothing, nothing moves.
                || stalled && leader.grace_over
                || leader.member_lease(now) < leader.record.timing.member_lease
        };
        self.task = if ceiling {
            Some(Task::Ceiling)
        } else if !self.has_just_begun(now) && changes(self) {
            Some(Task::Change)
        } else {
            None
        };
        self.task.is_some()
    }

    /// Is to find out whether there is a view with an arbiter, once it has led for long enough to know who follows it
    /// and who waits for what. Whether the register is to be read for it.
    pub(in crate::core) fn begin_to_arbitrate(&mut self, now: LocalTime) -> bool {
        let begins = self.task.is_none() && now - self.since >= self.record.timing.leader_lease;
        if begins {
            self.task = Some(Task::Arbitrate);
        }
        begins
    }

    /// Is to change the view, whatever it is about.
    pub(in crate::core) fn plan_change(&mut self) {
        self.task.get_or_insert(Task::Change);
    }

    /// What the register was asked for; that is over.
    pub(in crate::core) fn take_task(&mut self) -> Option<Task> {
        self.task.take()
    }

    /// Whether what the register holds states nothing of this view: an older one, or the mark of a lost record.
    pub(in crate::core) fn is_not_in(&self, record: &Record) -> bool {
        record.epoch < self.record.epoch || record.base_unknown
    }

    /// The register holds this view. What it was asked for.
    pub(in crate::core) fn find_in_register(&mut self, record: &Record) -> Option<Task> {
        self.record.closing = record.closing;
        self.task.take()
    }

    /// The register is known not to hold this view: it is time for another, should that have to wait.
    pub(in crate::core) fn note_forgotten(&mut self) {
        self.record.closing = true;
    }

    /// What to write for a higher ceiling.
    pub(in crate::core) fn raise(&mut self, found: Record, nonce: u64) -> Record {
        let ceiling = Epoch(found.ceiling.0.saturating_add(CEILING_STEP));
        let record = Record { ceiling, nonce, ..found };
        self.task = Some(Task::Raise(Box::new(record.clone())));
        record
    }

    /// The register has it.
    pub(in crate::core) fn note_raised(&mut self, written: &Record) {
        self.task = None;
        self.record.ceiling = written.ceiling;
        self.record.nonce = written.nonce;
    }

    /// The register does not answer. The leader lease goes on; what it wanted has to wait, but for a write that
    /// nobody knows the fate of: whether it is to ask again.
    pub(in crate::core) fn give_up_call(&mut self) -> bool {
        let wrote = matches!(self.task, Some(Task::Raise(_)));
        self.task.take_if(|_| !wrote);
        wrote
    }

    /// Whether those who are in the view are not those who should be.
    fn has_other_members(&self, now: LocalTime, me: Incarnation) -> bool {
        self.would_admit(now, me)
            || !self.sealed.is_empty()
            || self.leavers.iter().any(|m| self.record.rank(*m).is_some())
            || self.record.others(me).any(|m| self.is_lost(now, m))
    }

    /// Whether the next view would have somebody who wants to join. A joiner that does not fit in has to wait:
    /// a view with the same members would be of no use. So does one while a member may yet enter the present view, which
    /// would not be in the next.
    fn would_admit(&self, now: LocalTime, me: Incarnation) -> bool {
        let joins = self.joins(now);
        let patience = self.record.timing.leader_lease;
        if joins.is_empty() || self.awaits_somebody(now, me, patience).is_some() {
            return false;
        }
        let stays: BTreeSet<Incarnation> = self.stays(now).into_iter().collect();
        let next = self.record.succession(|m| m == me || stays.contains(&m), joins);
        next.iter().any(|info| self.record.rank(info.incarnation).is_none())
    }

    /// Nothing of a member is left: it does not promise, and whatever it held has run out.
    fn is_lost(&self, now: LocalTime, member: Incarnation) -> bool {
        let patience = self.record.timing.member_lease + self.record.timing.leader_lease;
        now - self.heard.get(&member).copied().unwrap_or(self.since) > patience
    }
}
