//! What a leader asks of the register: to change the view, to raise the ceiling of tokens.

use super::leader::{Leader, Reasons, Task, Then};
use super::{Member, Nominator, Out, Role, Service};
use crate::ids::{Epoch, Incarnation};
use crate::record::Record;
use crate::register::{Value, Version};
use crate::time::LocalTime;

impl<S: Service, N: Nominator> Member<S, N> {
    /// Whether the membership, the policy or the ceiling is to change, and it is time to.
    pub(super) fn consider_change(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if self.is_advisory() {
            return self.consider_peers(now, out);
        }
        if self.going.leaves() {
            return;
        }
        let me = self.me.incarnation;
        let Some(patience) = self.leader().map(|leader| leader.patience()) else { return };
        let reasons = Reasons {
            ceiling: self.holds.nears_ceiling(),
            generation: self.policy.generation,
            shortens: self.may_shorten_the_wait(now),
            stalled: self.holds.look_for_stall(now, patience),
        };
        if self.leader().is_some_and(|leader| leader.begin_task(now, me, reasons)) {
            self.read_register(now, out);
        }
    }

    /// The register states whether a leader's view is still the latest.
    pub(super) fn leader_reads(&mut self, now: LocalTime, value: Value, out: &mut Out<S, N>) {
        let Some(record) = value.record.clone() else { return };
        if self.is_news(&record) {
            return self.learn_of(now, record, out);
        }
        let Some(leader) = self.leader() else { return };
        if leader.is_not_in(&record) {
            return self.replace_record(now, value, out);
        }
        match leader.find_in_register(&record) {
            Some(Task::Change) => self.change_view(now, value, out),
            Some(Task::Ceiling) => self.raise_ceiling(now, value.version, record, out),
            Some(Task::Raise(written)) if record.nonce == written.nonce => {
                self.note_raised_ceiling(now, &written, out);
            }
            Some(Task::Raise(_) | Task::Arbitrate) | None => self.consider_change(now, out),
        }
        self.rests_as_the_register_answers(now, out);
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
        let record = leader.raise(record, nonce);
        self.write_register(now, version, record, out);
    }

    fn note_raised_ceiling(&mut self, now: LocalTime, written: &Record, out: &mut Out<S, N>) {
        let Some(leader) = self.leader() else { return };
        leader.note_raised(written);
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
            Role::Leader(leader) => match leader.take_task() {
                Some(Task::Raise(written)) => self.note_raised_ceiling(now, &written, out),
                Some(Task::Change | Task::Ceiling | Task::Arbitrate) | None => {}
            },
            Role::Resigned(resigned) => {
                let resigned = *resigned;
                self.resigned_wrote(now, resigned, out);
            }
            Role::Joiner { .. } | Role::Follower | Role::Gone => {}
        }
    }

    /// The register does not answer a leader.
    pub(super) fn leader_without_register(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if self.leader().is_some_and(Leader::give_up_call) {
            self.read_register(now, out);
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
        if leader.record().rank(from).is_none() {
            return;
        }
        if floor < leader.epoch() {
            return self.announce_again(now, from, out);
        }
        if floor == leader.epoch() {
            leader.note_sealed(from);
            self.consider_change(now, out);
        } else {
            self.read_register(now, out);
        }
    }
}
