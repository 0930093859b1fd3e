//! From being nominated to beginning a view: read the register, collect seals, one
//! compare-and-swap, take office.

use std::collections::BTreeMap;
use std::time::Duration;

use super::message::{HandOver, Seal, Table};
use super::{Member, Out, PeerMessage, Role, Timer, say, say_each};
use crate::ids::{Epoch, Incarnation};
use crate::policy::Timing;
use crate::record::{CEILING_STEP, MemberInfo, RECORD_VERSION, Record};
use crate::register::{TIME_TERM_MAX, Value, Version};
use crate::time::LocalTime;

/// A member that is about to begin a view.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Candidate {
    step: Step,
    since: LocalTime,
    /// The record that the candidacy starts from, once it is read.
    base: Option<Record>,
    version: Version,
    time_term: Epoch,
    seals: BTreeMap<Incarnation, Seal>,
    /// The table that the leader of the base gave, and when it came.
    inherited: Option<(HandOver, LocalTime)>,
    /// When the office of the base was over.
    over_at: Option<LocalTime>,
    /// When the register was known to say that the base is closing.
    closing_at: Option<LocalTime>,
    joiners: BTreeMap<Incarnation, MemberInfo>,
    /// What was written and is not known to be in place, or not to be.
    written: Option<Record>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Step {
    /// Asks the register for the base.
    Reading,
    /// Asks the members of the base for their seals.
    Sealing,
    /// The office is over; who seals now still saves the wait.
    Grace,
    /// Asks the register to put the mark `closing` on the base.
    Closing,
    /// Asks the register to replace the base.
    Writing,
}

/// One round trip and 20 ms: rule 16.
const GRACE: Duration = Duration::from_millis(30);

impl Candidate {
    fn new(now: LocalTime, inherited: Option<HandOver>) -> Self {
        let joiners = inherited.iter().flat_map(|table| table.joins.iter().cloned());
        Self {
            step: Step::Reading,
            since: now,
            base: None,
            version: Version::default(),
            time_term: Epoch::default(),
            seals: BTreeMap::new(),
            joiners: joiners.map(|info| (info.incarnation, info)).collect(),
            inherited: inherited.map(|table| (table, now)),
            over_at: None,
            closing_at: None,
            written: None,
        }
    }

    pub(super) fn note_joiner(&mut self, info: MemberInfo) {
        self.joiners.insert(info.incarnation, info);
    }
}

impl Member {
    /// Rule 11: reads the register first; without an answer it does nothing.
    pub(super) fn begin_candidacy(
        &mut self,
        now: LocalTime,
        inherited: Option<HandOver>,
        out: &mut Out,
    ) {
        self.drop_election(out);
        self.role = Role::Candidate(Box::new(Candidate::new(now, inherited)));
        self.read_register(now, out);
    }

    /// The leader resigned to itself, having read the register.
    pub(super) fn begin_candidacy_with(
        &mut self,
        now: LocalTime,
        inherited: HandOver,
        value: Value,
        out: &mut Out,
    ) {
        self.role = Role::Candidate(Box::new(Candidate::new(now, Some(inherited))));
        self.candidate_reads(now, now, value, out);
    }

    /// The register is empty, or the last member left it in order: nobody is to be asked.
    pub(super) fn begin_first_view(&mut self, now: LocalTime, value: Value, out: &mut Out) {
        if now < self.abstains_until || self.draining {
            return;
        }
        self.role = Role::Candidate(Box::new(Candidate::new(now, None)));
        self.candidate_reads(now, now, value, out);
    }

    fn candidate(&mut self) -> Option<&mut Candidate> {
        match &mut self.role {
            Role::Candidate(candidate) => Some(candidate),
            Role::Joiner { .. } | Role::Follower | Role::Leader(_) | Role::Gone => None,
        }
    }

    /// What the register holds decides the next step.
    pub(super) fn candidate_reads(
        &mut self,
        now: LocalTime,
        sent: LocalTime,
        value: Value,
        out: &mut Out,
    ) {
        let Some(candidate) = self.candidate() else { return };
        candidate.version = value.version;
        candidate.time_term = value.time_term;
        // Rule 18: what was written is there, or it is not.
        if let Some(written) = candidate.written.take() {
            if value.record.as_ref().is_some_and(|record| record.nonce == written.nonce) {
                return self.write_is_in_place(now, sent, written, out);
            }
        }
        let Some(candidate) = self.candidate() else { return };
        let moved = match (&candidate.base, &value.record) {
            (Some(base), Some(record)) => record.epoch != base.epoch,
            (None, _) => false,
            (Some(_), None) => true,
        };
        let behind = value.record.as_ref().is_some_and(|r| r.epoch > self.pledge.epoch)
            && self.record.as_ref().map(|r| r.epoch) != value.record.as_ref().map(|r| r.epoch);
        if moved || behind {
            return self.base_has_moved(now, value.record, out);
        }
        self.take_base(now, value.record, out);
    }

    /// Another view is in place: whatever was collected is of no use.
    fn base_has_moved(&mut self, now: LocalTime, record: Option<Record>, out: &mut Out) {
        let mine = |r: &Record| r.rank(self.me.incarnation).is_some() && r.leader.is_some();
        if let Some(record) = record.clone().filter(mine) {
            self.role = Role::Follower;
            out.disarm(Timer::Candidacy);
            self.await_announcement(record, out);
        } else {
            self.record = record;
            self.begin_joining(now, out);
        }
    }

    fn take_base(&mut self, now: LocalTime, record: Option<Record>, out: &mut Out) {
        let me = self.me.incarnation;
        let Some(candidate) = self.candidate() else { return };
        candidate.base.clone_from(&record);
        let Some(base) = record else {
            candidate.over_at = Some(now);
            return self.activate(now, out);
        };
        if base.closing && candidate.closing_at.is_none() {
            candidate.closing_at = Some(now);
        }
        if base.leader.is_none() && !base.base_unknown {
            candidate.over_at = Some(now);
            return self.activate(now, out);
        }
        if candidate.over_at.is_some() || candidate.inherited.is_some() {
            candidate.over_at = Some(candidate.over_at.unwrap_or(now));
            return self.activate(now, out);
        }
        candidate.step = Step::Sealing;
        if base.rank(me).is_some() {
            match self.seal(now, base.epoch, out) {
                Some(seal) => self.take_seal(me, seal),
                None => return self.withdraw(now, out),
            }
        }
        say_each(base.others(me), &PeerMessage::SealRequest { base: base.epoch }, out);
        self.check_seals(now, out);
    }

    fn take_seal(&mut self, from: Incarnation, mut seal: Seal) {
        let Some(candidate) = self.candidate() else { return };
        if let Some(table) = seal.hand_over.take() {
            candidate.inherited = Some((*table, candidate.since));
        }
        candidate.seals.insert(from, seal);
    }

    /// A member sealed the base.
    pub(super) fn on_seal(&mut self, now: LocalTime, from: Incarnation, seal: Seal, out: &mut Out) {
        let Some(candidate) = self.candidate() else { return };
        let Some(base) = candidate.base.as_ref().filter(|base| base.epoch == seal.base) else {
            return;
        };
        if base.rank(from).is_none() || !matches!(candidate.step, Step::Sealing | Step::Grace) {
            return;
        }
        let of_leader = base.leader == Some(from);
        let mut seal = seal;
        if !of_leader {
            seal.hand_over = None;
        } else if let Some(table) = seal.hand_over.take() {
            candidate.inherited = Some((*table, now));
        }
        self.take_seal(from, seal);
        self.check_seals(now, out);
    }

    /// Rule 15: whether the office of the base is over.
    fn check_seals(&mut self, now: LocalTime, out: &mut Out) {
        let Some(candidate) = self.candidate() else { return };
        let Some(base) = &candidate.base else { return };
        let closed = candidate.closing_at.is_some_and(|at| {
            at.after(base.timing.api_outage).after(base.timing.office_wait) <= now
        });
        let enough = !base.base_unknown && candidate.seals.len() >= base.seals_needed();
        if candidate.inherited.is_some() || enough || closed {
            candidate.over_at = Some(candidate.over_at.unwrap_or(now));
            let all = base
                .incarnations()
                .all(|member| Some(member) == base.leader || candidate.seals.contains_key(&member));
            if candidate.inherited.is_some() || all {
                return self.activate(now, out);
            }
            if candidate.step != Step::Grace {
                candidate.step = Step::Grace;
                out.arm(Timer::Candidacy, GRACE);
            }
            return;
        }
        candidate.step = Step::Sealing;
        out.arm(Timer::Candidacy, base.timing.heartbeat / 2);
    }

    pub(super) fn candidacy_step(&mut self, now: LocalTime, out: &mut Out) {
        let me = self.me.incarnation;
        let Some(candidate) = self.candidate() else { return };
        let Some(base) = candidate.base.clone() else { return };
        match candidate.step {
            Step::Grace => self.activate(now, out),
            Step::Sealing => {
                let silent: Vec<Incarnation> =
                    base.others(me).filter(|m| !candidate.seals.contains_key(m)).collect();
                let waited = now - candidate.since;
                if candidate.closing_at.is_none() && waited > base.timing.office_wait * 2 {
                    return self.close_base(now, base, out);
                }
                say_each(silent, &PeerMessage::SealRequest { base: base.epoch }, out);
                self.check_seals(now, out);
            }
            Step::Reading | Step::Closing | Step::Writing => {}
        }
    }

    /// Rule 15 (c): marks the base, so that its members confirm it no longer.
    fn close_base(&mut self, now: LocalTime, base: Record, out: &mut Out) {
        let nonce = self.desk.nonce();
        let Some(candidate) = self.candidate() else { return };
        candidate.step = Step::Closing;
        let record = Record { closing: true, nonce, ..base };
        let version = candidate.version.clone();
        candidate.written = Some(record.clone());
        self.write_register(now, version, record, out);
    }

    /// Rule 17: one compare-and-swap on the version that was read.
    pub(super) fn activate(&mut self, now: LocalTime, out: &mut Out) {
        let nonce = self.desk.nonce();
        let record = self.next_record(now, nonce);
        let Some(candidate) = self.candidate() else { return };
        let Some(record) = record else { return };
        candidate.step = Step::Writing;
        candidate.written = Some(record.clone());
        let version = candidate.version.clone();
        out.disarm(Timer::Candidacy);
        self.write_register(now, version, record, out);
    }

    /// The view that this candidate would begin.
    fn next_record(&self, now: LocalTime, nonce: u64) -> Option<Record> {
        let Role::Candidate(candidate) = &self.role else { return None };
        let me = self.me.incarnation;
        let known = Epoch(self.status_epoch.0.max(self.pledge.epoch.0));
        let time_term = candidate.time_term;
        let time = if time_term <= TIME_TERM_MAX { time_term } else { Epoch::default() };
        let base = candidate.base.as_ref();
        let last = base.map_or(Epoch::default(), |base| base.epoch.max(base.ceiling));
        let epoch = last.max(known).max(time).next();
        let joiners = candidate.joiners.values().cloned().chain([self.me.clone()]);
        let answered = |member: Incarnation| match &candidate.inherited {
            Some((table, _)) => table.stays.contains(&member),
            None => candidate.seals.contains_key(&member),
        };
        let members = match base {
            Some(base) => base.succession(|m| m == me || answered(m), joiners),
            None => Record::first_members(&self.me),
        };
        let policy = match base {
            Some(base) if base.policy.generation > self.policy.generation => base.policy.clone(),
            Some(_) | None => self.policy.clone(),
        };
        let timing = alone_or(members.len(), policy.timing);
        let carried = self.carried();
        let outsider = |holder| members.iter().all(|info| info.incarnation != holder);
        let settled =
            self.quiet_until(now) <= now && carried.holds.iter().all(|held| !outsider(held.holder));
        Some(Record {
            version: RECORD_VERSION,
            epoch,
            ceiling: Epoch(epoch.0.saturating_add(CEILING_STEP)),
            members,
            leader: Some(me),
            settled,
            closing: false,
            base_unknown: false,
            timing,
            policy,
            nonce,
        })
    }

    /// Holders and waiters of the base, as far as they are known.
    fn carried(&self) -> Table {
        let Role::Candidate(candidate) = &self.role else { return Table::default() };
        match &candidate.inherited {
            Some((table, _)) => table.table.clone(),
            None => Table::from_seals(candidate.seals.iter().map(|(from, seal)| (*from, seal))),
        }
    }

    /// Rule 20: before that, no lock is newly granted.
    fn quiet_until(&self, now: LocalTime) -> LocalTime {
        let Role::Candidate(candidate) = &self.role else { return now };
        let lock_wait = candidate.base.as_ref().map_or(Duration::ZERO, |b| b.timing.lock_wait);
        if let Some((table, received)) = &candidate.inherited {
            return received.after(table.quiet);
        }
        let Some(base) = &candidate.base else { return now };
        let settled = base.settled || candidate.seals.values().any(|seal| seal.settled);
        let all = base
            .incarnations()
            .all(|member| Some(member) == base.leader || candidate.seals.contains_key(&member));
        let left_in_order = base.leader.is_none() && !base.base_unknown;
        if settled && (left_in_order || all && !base.base_unknown) {
            now
        } else {
            candidate.over_at.unwrap_or(now).after(lock_wait)
        }
    }

    /// The register carried a write out.
    pub(super) fn candidate_wrote(&mut self, now: LocalTime, sent: LocalTime, out: &mut Out) {
        if let Some(written) = self.candidate().and_then(|candidate| candidate.written.take()) {
            self.write_is_in_place(now, sent, written, out);
        }
    }

    /// A write of a candidate is in place.
    pub(super) fn write_is_in_place(
        &mut self,
        now: LocalTime,
        sent: LocalTime,
        written: Record,
        out: &mut Out,
    ) {
        let Some(candidate) = self.candidate() else { return };
        candidate.written = None;
        if written.closing {
            candidate.closing_at = Some(now);
            candidate.base = Some(written);
            candidate.step = Step::Sealing;
            return self.check_seals(now, out);
        }
        // Rule 19: not an office that this member has sealed itself.
        if self.floor() >= written.epoch {
            return self.withdraw(now, out);
        }
        let quiet_until = self.quiet_until(now);
        let carried = self.carried();
        let lock_wait = candidate_lock_wait(&self.role, written.timing.lock_wait);
        let late_joiners = self.late_joiners(&written);
        let former = self.former_leader();
        self.take_office(now, sent, written, carried, quiet_until, now.after(lock_wait), out);
        for joiner in late_joiners {
            if let Role::Leader(leader) = &mut self.role {
                leader.note_joiner(joiner);
            }
        }
        if let (Some(former), Some(record)) = (former, &self.record) {
            if record.rank(former).is_none() {
                say(former, PeerMessage::Taken { epoch: record.epoch }, out);
            }
        }
    }

    fn late_joiners(&self, written: &Record) -> Vec<MemberInfo> {
        let Role::Candidate(candidate) = &self.role else { return Vec::new() };
        let late = |info: &&MemberInfo| written.rank(info.incarnation).is_none();
        candidate.joiners.values().filter(late).cloned().collect()
    }

    /// Who handed over to this candidate.
    fn former_leader(&self) -> Option<Incarnation> {
        let Role::Candidate(candidate) = &self.role else { return None };
        candidate.inherited.as_ref()?;
        candidate.base.as_ref()?.leader.filter(|leader| *leader != self.me.incarnation)
    }

    /// The register does not answer a candidate. Without an unknown write it gives up: another may
    /// reach the register. With one it must find out.
    pub(super) fn candidate_without_register(
        &mut self,
        now: LocalTime,
        unknown_write: bool,
        out: &mut Out,
    ) {
        let Some(candidate) = self.candidate() else { return };
        if unknown_write || candidate.written.is_some() {
            return self.read_register(now, out);
        }
        self.withdraw(now, out);
    }

    /// Leaves the nomination to others, for a while.
    pub(super) fn withdraw(&mut self, now: LocalTime, out: &mut Out) {
        let timing = self.record.as_ref().map_or(self.policy.timing, |record| record.timing);
        self.abstains_until = now.after(timing.office_wait);
        out.disarm(Timer::Candidacy);
        let member = self.record.as_ref().is_some_and(|r| r.rank(self.me.incarnation).is_some());
        if member {
            self.role = Role::Follower;
            out.arm(Timer::Nominee, timing.office_wait);
        } else {
            self.begin_joining(now, out);
        }
    }
}

fn candidate_lock_wait(role: &Role, new: Duration) -> Duration {
    match role {
        Role::Candidate(candidate) => {
            candidate.base.as_ref().map_or(new, |base| base.timing.lock_wait.max(new))
        }
        Role::Joiner { .. } | Role::Follower | Role::Leader(_) | Role::Gone => new,
    }
}

/// A member alone is its own majority, so nobody can seal it from outside: it goes on without the
/// register for no more than 15 s.
fn alone_or(members: usize, timing: Timing) -> Timing {
    let outage = Duration::from_secs(15);
    if members == 1 {
        Timing { api_outage: timing.api_outage.min(outage), ..timing }
    } else {
        timing
    }
}
