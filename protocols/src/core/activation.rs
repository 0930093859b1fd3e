//! The beginning of a view: one compare-and-swap, then the leader lease.

use std::time::Duration;

use super::candidacy::Step;
use super::leading::ViewStart;
use super::message::{Table, TableHold};
use super::{Going, Member, Nominator, Out, PeerMessage, Role, Service, Timer, say};
use crate::ids::{Epoch, Incarnation};
use crate::policy::{Arbiter, Timing};
use crate::record::{CEILING_STEP, MemberInfo, RECORD_VERSION, Record};
use crate::register::{TIME_TERM_MAX, Version};
use crate::time::{LocalTime, hold};

impl<S: Service, N: Nominator> Member<S, N> {
    /// Rule 17: one compare-and-swap on the version that was read.
    pub(super) fn activate(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let nonce = self.register.nonce();
        let Some(record) = self.next_record(now, nonce) else { return };
        let Some(candidate) = self.candidate() else { return };
        candidate.step = Step::Writing;
        let version = candidate.version.clone();
        out.disarm(Timer::Candidacy);
        self.write(now, version, record, out);
    }

    pub(super) fn write(
        &mut self,
        now: LocalTime,
        version: Version,
        record: Record,
        out: &mut Out<S, N>,
    ) {
        let Some(candidate) = self.candidate() else { return };
        candidate.written = Some((version.clone(), record.clone()));
        self.write_register(now, version, record, out);
    }

    /// The view that this candidate would begin.
    fn next_record(&self, now: LocalTime, nonce: u64) -> Option<Record> {
        let Role::Candidate(candidate) = &self.role else { return None };
        let me = self.me.incarnation;
        let base = candidate.base.as_ref();
        let members = match base {
            Some(base) => {
                let answered = candidate.answered(now, base);
                let mut joiners = candidate.joiners.lately(now, base.timing.leader_lease * 2);
                joiners.push(self.me.clone());
                base.succession(|m| m == me || answered.contains(&m), joiners)
            }
            None => {
                self.first_members(candidate.joiners.lately(now, self.policy.timing.leader_lease))
            }
        };
        let policy = match base {
            Some(base) if base.policy.generation > self.policy.generation => base.policy.clone(),
            Some(_) | None => self.policy.clone(),
        };
        // Rule 21: every hold of an earlier view is this view's own from its start. A hold of
        // the new leader runs on by its own lease until there is a leader lease for it to end with.
        let outside = |m| m == me || members.iter().all(|info| info.incarnation != m);
        let runs = |held: &TableHold| outside(held.holder) && !held.is_closure();
        let known = !self.carried(now).holds.iter().any(runs);
        let epoch = self.next_epoch();
        let record = Record {
            version: RECORD_VERSION,
            epoch,
            ceiling: Epoch(epoch.0.saturating_add(CEILING_STEP)),
            leader: Some(me),
            settled: known && policy.arbiter == Arbiter::Quorum && self.grace_until(now) <= now,
            closing: false,
            base_unknown: false,
            base: Some(base.map(|base| base.is_followed_by(epoch)).unwrap_or_default()),
            held: None,
            timing: self.next_timing(now, members.len(), policy.timing),
            members,
            policy,
            nonce,
        };
        // The leader of several lists what runs from now on, and their seals tell.
        Some(Record { settled: record.settled && !record.lists(), ..record })
    }

    /// Above everything that was ever given: the base and its tokens, what this member saw itself,
    /// what the resource's status says, and, should all that be lost, the register's own time.
    fn next_epoch(&self) -> Epoch {
        let Role::Candidate(candidate) = &self.role else { return self.promises.epoch() };
        let term = Some(candidate.time_term).filter(|term| *term <= TIME_TERM_MAX);
        let base = candidate.base.as_ref().map(|base| base.epoch.max(base.ceiling));
        let known = self.record.as_ref().map(|record| record.epoch.max(record.ceiling));
        let own = self.promises.epoch().max(self.in_force.floor);
        let status = self.status.epoch.max(self.status.ceiling);
        let seen = status.max(own).max(known.unwrap_or_default());
        seen.max(term.unwrap_or_default()).max(base.unwrap_or_default()).next()
    }

    /// The policy's waits, but for a member lease that holds of the base may outlast.
    fn next_timing(&self, now: LocalTime, members: usize, timing: Timing) -> Timing {
        let Role::Candidate(candidate) = &self.role else { return timing };
        let least = match (&candidate.inherited, &candidate.base) {
            (Some((table, _)), _) => table.member_lease,
            (None, Some(base)) if base.is_closed() && base.settled => Duration::ZERO,
            (None, Some(base)) => base.timing.member_lease,
            (None, None) => Duration::ZERO,
        };
        let member_lease = timing.member_lease.max(least);
        // A member alone is its own majority, so nobody can seal it from outside: it goes on without
        // the register for no more than 15 s.
        let alone = if members == 1 { ALONE_MAX } else { Duration::MAX };
        let leader_lease = self.next_leader_lease(now, timing.leader_lease);
        Timing { leader_lease, member_lease, api_outage: timing.api_outage.min(alone), ..timing }
    }

    /// The policy's, but for a leader lease that some application's belief in its leader may outlast:
    /// the leader after this view waits for no longer than it says (rule 36).
    fn next_leader_lease(&self, now: LocalTime, wanted: Duration) -> Duration {
        let former = self.belief_of_the_former_ends(now).unwrap_or_default();
        let believed = former.max(self.believed_for());
        let outlasts = believed > now.after(hold(wanted));
        let base = self.base().filter(|_| outlasts).map(|base| base.timing.leader_lease);
        wanted.max(base.unwrap_or_default())
    }

    fn base(&self) -> Option<&Record> {
        let Role::Candidate(candidate) = &self.role else { return None };
        candidate.base.as_ref()
    }

    /// Holders and waiters of the base, as far as they are known.
    fn carried(&self, now: LocalTime) -> Table {
        let Role::Candidate(candidate) = &self.role else { return Table::default() };
        if let Some((table, received)) = &candidate.inherited {
            return table.table.aged(now - *received);
        }
        let left_behind = candidate.base.as_ref().and_then(Table::from_closed);
        left_behind.unwrap_or_else(|| {
            let seals = candidate.seals.iter().map(|(from, (seal, _))| (*from, seal));
            Table::from_seals(seals, candidate.listed(now))
        })
    }

    /// Rule 20: before that, nothing is newly granted.
    fn grace_until(&self, now: LocalTime) -> LocalTime {
        let Role::Candidate(candidate) = &self.role else { return now };
        if let Some((table, received)) = &candidate.inherited {
            return received.after(table.grace);
        }
        let Some(base) = &candidate.base else { return now };
        // What a seal says of the view was so while it had a leader. When that closed the group, it
        // wrote who may still hold, if it knew.
        let closed = base.is_closed() && (base.settled || base.held.is_some());
        let late = candidate.over_at.unwrap_or(now).after(base.timing.member_lease);
        let sealed = candidate.settled_at(base).filter(|_| candidate.has_all_seals(now, base));
        // Holds from before a view without an arbiter may run: nobody seals that.
        match sealed.filter(|_| !base.is_advisory()) {
            _ if closed && !base.is_advisory() => now,
            Some(settled) => now.max(settled.min(late)).max(candidate.holds_of_the_dead(base)),
            None => late,
        }
    }

    /// The register carried a write out. If that is of an earlier role, nothing that was read meanwhile
    /// counted.
    pub(super) fn candidate_wrote(&mut self, now: LocalTime, sent: LocalTime, out: &mut Out<S, N>) {
        let Some(candidate) = self.candidate() else { return };
        let (written, reads) = (candidate.written.take(), candidate.step == Step::Reading);
        match written {
            Some((_, written)) => self.write_is_in_place(now, sent, written, out),
            None if reads => self.read_register(now, out),
            None => {}
        }
    }

    /// A write of a candidate is in place.
    pub(super) fn write_is_in_place(
        &mut self,
        now: LocalTime,
        sent: LocalTime,
        written: Record,
        out: &mut Out<S, N>,
    ) {
        let Some(candidate) = self.candidate() else { return };
        if written.closing {
            candidate.closing_at = Some(now);
            candidate.step = Step::Sealing;
            let base = self.as_base(written);
            let Some(candidate) = self.candidate() else { return };
            candidate.base = Some(base);
            if self.going == Going::Leaves {
                return self.depart(now, out);
            }
            return self.check_seals(now, out);
        }
        // Rule 19: not a leader lease that this member has sealed itself.
        if self.floor() >= written.epoch {
            return self.withdraw(now, out);
        }
        let (grace_until, mut carried) = (self.grace_until(now), self.carried(now));
        if let Some(base) = self.base() {
            carried.take_back_delays(base, &written);
        }
        let late = self.late_joiners(now, &written);
        let former = self.former_leader().filter(|former| written.rank(*former).is_none());
        let epoch = written.epoch;
        if let Some(from) = self.belief_of_the_former_ends(now) {
            self.believe_from(from);
        }
        let beside = self.known_beside(&written).is_some();
        let beside = beside || self.candidate().is_some_and(|candidate| candidate.beside);
        self.take_lead(now, sent, ViewStart { record: written, carried, grace_until }, out);
        if let Role::Leader(leader) = &mut self.role {
            for info in late {
                leader.note_joiner(now, info);
            }
        }
        if let Some(former) = former {
            say(former, PeerMessage::Taken { epoch }, out);
        }
        if beside {
            self.waits_for_the_unknown(now, out);
        }
    }

    fn late_joiners(&self, now: LocalTime, written: &Record) -> Vec<MemberInfo> {
        let Role::Candidate(candidate) = &self.role else { return Vec::new() };
        candidate.joiners.lately(now, written.timing.leader_lease)
    }

    /// Rule 36: by when no application of the leader before believes any more, where this candidate
    /// knows that better than by when it learned of the view.
    fn belief_of_the_former_ends(&self, now: LocalTime) -> Option<LocalTime> {
        let Role::Candidate(candidate) = &self.role else { return None };
        let base = candidate.base.as_ref()?;
        let leader_lease = base.timing.leader_lease;
        if base.is_closed() {
            return candidate.over_at.map(|over| over.after(leader_lease));
        }
        let former = self.former_leader()?;
        let (table, received) = candidate.inherited.as_ref()?;
        if candidate.seals.contains_key(&former) || table.stays.contains(&former) {
            return Some(now);
        }
        Some(received.after(leader_lease))
    }

    /// Who handed over to this candidate.
    fn former_leader(&self) -> Option<Incarnation> {
        let Role::Candidate(candidate) = &self.role else { return None };
        candidate.inherited.as_ref()?;
        candidate.base.as_ref()?.leader.filter(|leader| *leader != self.me.incarnation)
    }
}

/// How long a member alone goes on without the register, at most.
const ALONE_MAX: Duration = Duration::from_secs(15);
