//! What a leader asks of the register: to change the view, to raise the ceiling of tokens.

use std::time::Duration;

use super::freezing::Then;
use super::leading::Leader;
use super::{Going, Member, Nominator, Out, Role, Service};
use crate::ids::{Epoch, Incarnation};
use crate::record::{CEILING_STEP, Record};
use crate::register::{Value, Version};
use crate::time::LocalTime;

/// Why a leader speaks with the register.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Task {
    /// The membership or the policy is to change: reads before it resigns to itself.
    Change,
    /// Tokens near their ceiling: reads, then writes it higher.
    Ceiling,
    /// Wrote a higher ceiling.
    Raise(Box<Record>),
    /// Nothing arbitrates, and something is to: reads what there is.
    Arbitrate,
}

/// View changes by the leader itself come at most this often.
pub(super) const CHANGE_PERIOD: Duration = Duration::from_secs(1);

impl Leader {
    /// Whether those who are in the view are not those who should be.
    fn has_other_members(&self, now: LocalTime, me: Incarnation) -> bool {
        self.would_admit(now, me)
            || !self.sealed.is_empty()
            || self.leavers.iter().any(|m| self.record.rank(*m).is_some())
            || self.record.others(me).any(|m| self.is_lost(now, m))
    }

    /// Whether the next view would have somebody who wants to join. A joiner that does not fit in has to wait:
    /// a view with the same members would be of no use.
    fn would_admit(&self, now: LocalTime, me: Incarnation) -> bool {
        let joins = self.joins(now);
        if joins.is_empty() {
            return false;
        }
        let stays = self.stays(now);
        let next = self.record.succession(|m| m == me || stays.contains(&m), joins);
        next.iter().any(|info| self.record.rank(info.incarnation).is_none())
    }

    /// Nothing of a member is left: it does not promise, and whatever it held has run out.
    fn is_lost(&self, now: LocalTime, member: Incarnation) -> bool {
        let patience = self.record.timing.member_lease + self.record.timing.leader_lease;
        now - self.heard.get(&member).copied().unwrap_or(self.since) > patience
    }

    /// The shortest member lease that fits every hold of this view.
    ///
    /// Since this view began, holders count on no more than the policy's member lease; older leases
    /// have run out after the view's own.
    pub(super) fn member_lease(&self, now: LocalTime) -> Duration {
        let wait = self.record.timing.member_lease;
        let worn = self.grace_over && now - self.since > wait;
        if worn { wait.min(self.record.policy.timing.member_lease) } else { wait }
    }
}

impl<S: Service, N: Nominator> Member<S, N> {
    /// Whether the membership, the policy or the ceiling is to change, and it is time to.
    pub(super) fn consider_change(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if self.is_advisory() {
            return self.consider_peers(now, out);
        }
        if self.going == Going::Leaves {
            return;
        }
        let (me, generation) = (self.me.incarnation, self.policy.generation);
        let nears_ceiling = self.holds.nears_ceiling();
        let shortens = self.may_shorten_the_wait(now);
        let Some(patience) = self.leader().map(|leader| leader.record.timing.leader_lease * 2)
        else {
            return;
        };
        let stalled = self.holds.is_stalled(now, patience);
        let Some(leader) = self.leader() else { return };
        // While it grants nothing, nothing moves.
        let stalled = stalled && leader.grace_over;
        let busy = leader.task.is_some() || leader.freeze.is_some();
        if busy || leader.leader_lease_until() <= now {
            return;
        }
        let record = &leader.record;
        let task = if nears_ceiling {
            Task::Ceiling
        } else if now - leader.since < CHANGE_PERIOD {
            return;
        } else if leader.has_other_members(now, me)
            || record.closing
            || generation > record.policy.generation
            || shortens
            || stalled
            || leader.member_lease(now) < record.timing.member_lease
        {
            Task::Change
        } else {
            return;
        };
        leader.task = Some(task);
        self.read_register(now, out);
    }

    /// The register tells a leader whether its view is still the latest.
    pub(super) fn leader_reads(&mut self, now: LocalTime, value: Value, out: &mut Out<S, N>) {
        let Some(record) = value.record.clone() else { return };
        if self.is_news(&record) {
            return self.learn_of(now, record, out);
        }
        let Some(leader) = self.leader() else { return };
        if record.epoch < leader.record.epoch || record.base_unknown {
            return self.replace_record(now, value, out);
        }
        leader.record.closing = record.closing;
        match leader.task.take() {
            Some(Task::Change) => self.change_view(now, value, out),
            Some(Task::Ceiling) => self.raise_ceiling(now, value.version, record, out),
            Some(Task::Raise(written)) if record.nonce == written.nonce => {
                self.ceiling_is_raised(now, &written, out);
            }
            Some(Task::Raise(_) | Task::Arbitrate) | None => self.consider_change(now, out),
        }
    }

    /// Resigns to itself (rule 13) and begins the next view, with those that promise and those that
    /// want to join.
    pub(super) fn change_view(&mut self, now: LocalTime, value: Value, out: &mut Out<S, N>) {
        if self.freezes_first(now, Then::Change(Box::new(value.clone())), out) {
            return;
        }
        let Some(table) = self.retire(now, out) else { return };
        self.begin_candidacy_with(now, Some(table), value, out);
    }

    fn raise_ceiling(
        &mut self,
        now: LocalTime,
        version: Version,
        record: Record,
        out: &mut Out<S, N>,
    ) {
        let nonce = self.register.nonce();
        let Some(leader) = self.leader() else { return };
        let ceiling = Epoch(record.ceiling.0.saturating_add(CEILING_STEP));
        let record = Record { ceiling, nonce, ..record };
        leader.task = Some(Task::Raise(Box::new(record.clone())));
        self.write_register(now, version, record, out);
    }

    fn ceiling_is_raised(&mut self, now: LocalTime, written: &Record, out: &mut Out<S, N>) {
        let Some(leader) = self.leader() else { return };
        leader.task = None;
        leader.record.ceiling = written.ceiling;
        leader.record.nonce = written.nonce;
        self.holds.set_ceiling(written.ceiling);
        if let Some(record) = &mut self.record {
            record.ceiling = written.ceiling;
        }
        self.refresh_leader_lease(now, out);
    }

    /// A write was carried out.
    pub(super) fn on_written(&mut self, now: LocalTime, sent: LocalTime, out: &mut Out<S, N>) {
        match &mut self.role {
            Role::Candidate(_) => self.candidate_wrote(now, sent, out),
            Role::Leader(leader) => match leader.task.take() {
                Some(Task::Raise(written)) => self.ceiling_is_raised(now, &written, out),
                Some(Task::Change | Task::Ceiling | Task::Arbitrate) | None => {}
            },
            Role::Resigned(resigned) => {
                let resigned = *resigned;
                self.resigned_wrote(now, resigned, out);
            }
            Role::Joiner { .. } | Role::Follower | Role::Gone => {}
        }
    }

    /// The register does not answer a leader. Its leader lease goes on; what it wanted has to wait, but
    /// for a write that nobody knows the fate of.
    pub(super) fn leader_without_register(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let Some(leader) = self.leader() else { return };
        match leader.task {
            Some(Task::Raise(_)) => self.read_register(now, out),
            Some(Task::Change | Task::Ceiling | Task::Arbitrate) | None => {
                leader.task = None;
            }
        }
    }

    /// Somebody follows nobody in this view: it sealed it, there is a newer one, or it does not know this one.
    pub(super) fn on_refusal(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        floor: Epoch,
        out: &mut Out<S, N>,
    ) {
        let Some(leader) = self.leader() else { return };
        if leader.record.rank(from).is_none() {
            return;
        }
        if floor < leader.record.epoch {
            return self.announce_again(now, from, out);
        }
        if floor == leader.record.epoch {
            leader.sealed.insert(from);
            self.consider_change(now, out);
        } else {
            self.read_register(now, out);
        }
    }
}
