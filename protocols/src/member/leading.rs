//! The office of leader: promises, the quiet time at its beginning, its end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::message::{Announcement, Extended, HandOver, Heartbeat, Promise, Table};
use super::{Event, Member, Out, PeerMessage, Role, Timer, say};
use crate::ids::{Epoch, Incarnation};
use crate::record::{CEILING_STEP, MemberInfo, Record};
use crate::register::{Value, Version};
use crate::time::{LocalTime, hold};

/// A member that leads its view, and has the office while a majority promises (rule 3).
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Leader {
    record: Record,
    carried: Table,
    /// Until when each member's promise surely lasts (rule 9).
    office: BTreeMap<Incarnation, LocalTime>,
    /// When each member last promised.
    heard: BTreeMap<Incarnation, LocalTime>,
    /// What the next heartbeat acknowledges.
    extended: BTreeMap<Incarnation, Extended>,
    /// When the latest heartbeats were sent.
    sent: VecDeque<(u64, LocalTime)>,
    quiet_until: LocalTime,
    quiet_over: bool,
    settled: bool,
    since: LocalTime,
    /// The office was last seen at that time.
    in_office: LocalTime,
    joiners: BTreeMap<Incarnation, MemberInfo>,
    leavers: BTreeSet<Incarnation>,
    /// Members that sealed this view and follow nobody in it.
    sealed: BTreeSet<Incarnation>,
    /// What the register is asked for.
    errand: Option<Errand>,
}

/// Why a leader speaks with the register.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Errand {
    /// The membership or the policy is to change: reads before it resigns to itself.
    Change,
    /// Tokens near their ceiling: reads, then writes it higher.
    Ceiling,
    /// Wrote a higher ceiling.
    Raise(Record),
    /// Leaves last: reads, then writes that nobody leads.
    Close,
    /// Wrote that nobody leads.
    Closed(Record),
}

/// How many heartbeats may be under way.
const SENT_MAX: usize = 64;

/// View changes by the leader itself come at most this often.
const CHANGE_PERIOD: Duration = Duration::from_secs(1);

impl Leader {
    /// Rule 9: until when a majority of the view promises, as far as this member knows.
    pub(super) fn office_until(&self) -> LocalTime {
        let mut promises: Vec<LocalTime> = self.office.values().copied().collect();
        promises.sort_unstable();
        promises.iter().rev().nth(self.record.majority() - 1).copied().unwrap_or_default()
    }

    pub(super) fn note_joiner(&mut self, info: MemberInfo) {
        if self.record.rank(info.incarnation).is_none() {
            self.joiners.insert(info.incarnation, info);
        }
    }

    /// Members that promised lately, and stay.
    fn stays(&self, now: LocalTime) -> Vec<Incarnation> {
        let lives = |m: &Incarnation| {
            self.sealed.contains(m) || self.office.get(m).is_some_and(|until| *until > now)
        };
        self.record.incarnations().filter(|m| lives(m) && !self.leavers.contains(m)).collect()
    }
}

impl Member {
    /// Begins to lead a view that the register has.
    #[allow(clippy::too_many_arguments, reason = "all that a view begins with")]
    pub(super) fn take_office(
        &mut self,
        now: LocalTime,
        sent: LocalTime,
        record: Record,
        carried: Table,
        quiet_until: LocalTime,
        busy_until: LocalTime,
        out: &mut Out,
    ) {
        out.disarm(Timer::Join);
        out.disarm(Timer::Candidacy);
        self.drop_election(out);
        self.pledge.epoch = record.epoch;
        self.pledge.sealed = false;
        self.confirm(sent, &record, out);
        self.with_locks(now, out, |locks, effects| {
            locks.install(now, &record, &carried, busy_until, effects);
        });
        for info in record.members.iter().filter(|info| info.incarnation != self.me.incarnation) {
            out.tell(Event::Met(Box::new(info.clone())));
        }
        out.tell(Event::Installed(Box::new(record.clone())));
        self.record = Some(record.clone());
        self.role = Role::Leader(Box::new(Leader {
            settled: record.settled,
            record,
            carried,
            office: BTreeMap::new(),
            heard: BTreeMap::new(),
            extended: BTreeMap::new(),
            sent: VecDeque::new(),
            quiet_until,
            quiet_over: false,
            since: now,
            in_office: now,
            joiners: BTreeMap::new(),
            leavers: BTreeSet::new(),
            sealed: BTreeSet::new(),
            errand: None,
        }));
        out.arm(Timer::Reread, self.register_patience());
        self.beat(now, out);
    }

    fn leader(&mut self) -> Option<&mut Leader> {
        match &mut self.role {
            Role::Leader(leader) => Some(leader),
            Role::Joiner { .. } | Role::Follower | Role::Candidate(_) | Role::Gone => None,
        }
    }

    /// Asks all members for their promises, itself first, and does what is due once a heartbeat.
    pub(super) fn beat(&mut self, now: LocalTime, out: &mut Out) {
        let (me, may) = (self.me.incarnation, self.may_promise(now));
        let Some(leader) = self.leader() else { return };
        let timing = leader.record.timing;
        let seq = leader.sent.back().map_or(1, |(seq, _)| seq + 1);
        leader.sent.push_back((seq, now));
        if leader.sent.len() > SENT_MAX {
            leader.sent.pop_front();
        }
        for member in leader.record.others(me) {
            let news = !leader.heard.contains_key(&member);
            let announcement = news.then(|| {
                let (record, carried) = (leader.record.clone(), leader.carried.clone());
                Box::new(Announcement { record, carried })
            });
            let heartbeat = Heartbeat {
                epoch: leader.record.epoch,
                seq,
                settled: leader.settled,
                extended: leader.extended.remove(&member),
                announcement,
            };
            say(member, PeerMessage::Heartbeat(Box::new(heartbeat)), out);
        }
        if may {
            leader.office.insert(me, now.after(hold(timing.office_wait)));
            self.pledge.until = now.after(timing.office_wait);
        } else {
            self.read_register(now, out);
        }
        out.arm(Timer::Heartbeat, timing.heartbeat);
        self.refresh_office(now, out);
        self.with_locks(now, out, |locks, effects| locks.tick(now, effects));
        self.settle(now);
        self.consider_change(now, out);
        self.give_up_a_lapsed_office(now, out);
    }

    /// A member promised (rule 9).
    pub(super) fn on_promise(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        promise: Promise,
        out: &mut Out,
    ) {
        let Some(leader) = self.leader() else { return };
        let sent = leader.sent.iter().find(|(seq, _)| *seq == promise.seq).map(|(_, at)| *at);
        let (Some(sent), true) = (sent, promise.epoch == leader.record.epoch) else { return };
        if leader.record.rank(from).is_none() {
            return;
        }
        let until = sent.after(hold(leader.record.timing.office_wait));
        let office = leader.office.entry(from).or_default();
        *office = (*office).max(until);
        leader.heard.insert(from, now);
        leader.sealed.remove(&from);
        self.refresh_office(now, out);
        if self.office().is_none_or(|until| until <= now) {
            return;
        }
        let extended = self
            .with_locks(now, out, |locks, effects| locks.on_promise(now, from, promise, effects));
        if let (Some(extended), Some(leader)) = (extended, self.leader()) {
            leader.extended.insert(from, extended);
        }
    }

    /// Brings everything up to the present end of the office.
    fn refresh_office(&mut self, now: LocalTime, out: &mut Out) {
        let Some(leader) = self.leader() else { return };
        let until = leader.office_until();
        if until > now {
            leader.in_office = now;
        }
        if !leader.quiet_over && leader.quiet_until > now {
            out.arm(Timer::Quiet, now.until(leader.quiet_until));
        }
        let first = !leader.quiet_over && leader.quiet_until <= now && until > now;
        leader.quiet_over |= first;
        let open = leader.quiet_over && until > now;
        self.with_locks(now, out, |locks, effects| {
            locks.set_office(now, until, effects);
            locks.set_open(now, open, effects);
        });
    }

    pub(super) fn quiet_is_over(&mut self, now: LocalTime, out: &mut Out) {
        self.refresh_office(now, out);
    }

    /// Rule 21: whether no hold of an earlier view runs that this one does not know.
    fn settle(&mut self, now: LocalTime) {
        let outsiders = self.locks.has_outsiders(now);
        let Some(leader) = self.leader() else { return };
        if leader.quiet_over && !outsiders {
            leader.settled = true;
            self.pledge.settled = Some(self.pledge.epoch);
        }
    }

    /// Somebody follows nobody in this view: it sealed it, or there is a newer one.
    pub(super) fn on_refusal(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        floor: Epoch,
        out: &mut Out,
    ) {
        let Some(leader) = self.leader() else { return };
        if leader.record.rank(from).is_none() || floor < leader.record.epoch {
            return;
        }
        if floor == leader.record.epoch {
            leader.sealed.insert(from);
            self.consider_change(now, out);
        } else {
            self.read_register(now, out);
        }
    }

    pub(super) fn on_leave(&mut self, from: Incarnation) {
        if let Some(leader) = self.leader() {
            leader.joiners.remove(&from);
            leader.leavers.insert(from);
        }
    }

    /// Whether the membership, the policy or the ceiling is to change, and it is time to.
    pub(super) fn consider_change(&mut self, now: LocalTime, out: &mut Out) {
        let policy = self.policy.clone();
        let me = self.me.incarnation;
        let nears_ceiling = self.locks.nears_ceiling();
        let Role::Leader(leader) = &mut self.role else { return };
        let timing = leader.record.timing;
        if leader.errand.is_some() || leader.office_until() <= now {
            return;
        }
        if nears_ceiling {
            leader.errand = Some(Errand::Ceiling);
            return self.read_register(now, out);
        }
        if now - leader.since < CHANGE_PERIOD {
            return;
        }
        let patience = timing.lock_wait + timing.office_wait;
        let silent = |m: &Incarnation| {
            let heard = leader.heard.get(m).copied().unwrap_or(leader.since);
            *m != me && now - heard > patience && !self.locks.has_entry(*m)
        };
        let changed = !leader.joiners.is_empty()
            || leader.leavers.iter().any(|m| leader.record.rank(*m).is_some())
            || !leader.sealed.is_empty()
            || leader.record.closing
            || policy.generation > leader.record.policy.generation
            || leader.record.incarnations().any(|m| silent(&m));
        if changed {
            leader.errand = Some(Errand::Change);
            self.read_register(now, out);
        }
    }

    /// The register tells a leader whether its view is still the latest.
    pub(super) fn leader_reads(
        &mut self,
        now: LocalTime,
        _sent: LocalTime,
        value: Value,
        out: &mut Out,
    ) {
        let Some(leader) = self.leader() else { return };
        let Some(record) = value.record.clone().filter(|r| r.epoch <= leader.record.epoch) else {
            if value.record.is_some() {
                self.record = value.record;
                self.step_down(now, out);
                self.begin_joining(now, out);
            }
            return;
        };
        leader.record.closing = record.closing;
        match leader.errand.take() {
            Some(Errand::Change) => self.change_view(now, value, out),
            Some(Errand::Ceiling) => self.raise_ceiling(now, value.version, record, out),
            Some(Errand::Raise(written)) => {
                if record.nonce == written.nonce {
                    self.ceiling_is_raised(now, &written, out);
                }
            }
            Some(Errand::Close) => self.close_group(now, value.version, record, out),
            Some(Errand::Closed(written)) => {
                if record.nonce == written.nonce {
                    self.gone(out);
                } else {
                    self.close_group(now, value.version, record, out);
                }
            }
            None => self.consider_change(now, out),
        }
    }

    /// Resigns to itself (rule 13) and begins the next view, with those that promise and those that
    /// want to join.
    fn change_view(&mut self, now: LocalTime, value: Value, out: &mut Out) {
        let Some(table) = self.retire(now, out) else { return };
        self.pledge.sealed = true;
        self.begin_candidacy_with(now, table, value, out);
    }

    fn raise_ceiling(&mut self, now: LocalTime, version: Version, record: Record, out: &mut Out) {
        let nonce = self.desk.nonce();
        let Some(leader) = self.leader() else { return };
        let ceiling = Epoch(record.ceiling.0.saturating_add(CEILING_STEP));
        let record = Record { ceiling, nonce, ..record };
        leader.errand = Some(Errand::Raise(record.clone()));
        self.write_register(now, version, record, out);
    }

    fn ceiling_is_raised(&mut self, now: LocalTime, written: &Record, out: &mut Out) {
        let Some(leader) = self.leader() else { return };
        leader.errand = None;
        leader.record.ceiling = written.ceiling;
        leader.record.nonce = written.nonce;
        self.locks.set_ceiling(written.ceiling);
        self.refresh_office(now, out);
    }

    /// A write was carried out.
    pub(super) fn on_written(
        &mut self,
        now: LocalTime,
        sent: LocalTime,
        _version: Version,
        out: &mut Out,
    ) {
        match &mut self.role {
            Role::Candidate(_) => self.candidate_wrote(now, sent, out),
            Role::Leader(leader) => match leader.errand.take() {
                Some(Errand::Raise(written)) => self.ceiling_is_raised(now, &written, out),
                Some(Errand::Closed(_)) => self.gone(out),
                Some(Errand::Change | Errand::Ceiling | Errand::Close) | None => {}
            },
            Role::Joiner { .. } | Role::Follower | Role::Gone => {}
        }
    }

    /// The register does not answer a leader. Its office goes on; what it wanted has to wait, but
    /// for a write that nobody knows the fate of.
    pub(super) fn leader_without_register(
        &mut self,
        now: LocalTime,
        unknown_write: bool,
        out: &mut Out,
    ) {
        let Some(leader) = self.leader() else { return };
        let unknown = matches!(leader.errand, Some(Errand::Raise(_) | Errand::Closed(_)));
        if unknown_write || unknown {
            self.read_register(now, out);
        } else {
            leader.errand = None;
        }
    }

    /// An office that a majority no longer promises is given up, after as long again as it takes to
    /// notice: promises may come back.
    fn give_up_a_lapsed_office(&mut self, now: LocalTime, out: &mut Out) {
        let Some(leader) = self.leader() else { return };
        if now - leader.in_office > leader.record.timing.office_wait * 2 {
            self.step_down(now, out);
            self.role = Role::Follower;
            self.pledge.until = self.pledge.until.min(now);
            self.begin_election(now, out);
        }
    }

    /// Is no longer leader, if it was (rule 22): its own holds end with the office.
    pub(super) fn step_down(&mut self, now: LocalTime, out: &mut Out) {
        if matches!(self.role, Role::Leader(_)) {
            self.with_locks(now, out, |locks, effects| locks.depose(effects));
            out.disarm(Timer::Heartbeat);
            out.disarm(Timer::Quiet);
        }
    }

    /// Resigns (rule 13): the office ends here and now. Returns the leader's seal.
    pub(super) fn retire(&mut self, now: LocalTime, out: &mut Out) -> Option<HandOver> {
        let table = self.locks.table(now);
        let outsiders = self.locks.has_outsiders(now);
        let leader = self.leader()?;
        let stays = leader.stays(now);
        let hand_over = HandOver {
            base: leader.record.epoch,
            table,
            quiet: if leader.quiet_over { Duration::ZERO } else { now.until(leader.quiet_until) },
            settled: leader.settled && !outsiders,
            stays,
            joins: leader.joiners.values().cloned().collect(),
        };
        self.locks.resign(now);
        self.role = Role::Follower;
        out.disarm(Timer::Heartbeat);
        out.disarm(Timer::Quiet);
        Some(hand_over)
    }

    /// The pod is about to end: another should lead.
    pub(super) fn drain(&mut self, now: LocalTime, out: &mut Out) {
        self.draining = true;
        self.hand_over(now, true, out);
    }

    /// Hands the office to the most senior member that lives. False if there is none.
    fn hand_over(&mut self, now: LocalTime, stay: bool, out: &mut Out) -> bool {
        let me = self.me.incarnation;
        let Some(leader) = self.leader() else { return false };
        let heir = leader.record.others(me).rev().find(|m| {
            !leader.leavers.contains(m) && leader.office.get(m).is_some_and(|until| *until > now)
        });
        let Some(heir) = heir else { return false };
        let office_wait = leader.record.timing.office_wait;
        let Some(mut table) = self.retire(now, out) else { return false };
        if !stay {
            table.stays.retain(|member| *member != me);
        }
        // Rule 12: it refuses the view that it resigned from.
        self.pledge.sealed = true;
        self.pledge.until = now;
        out.arm(Timer::Promise, office_wait);
        say(heir, PeerMessage::HandOver(Box::new(table)), out);
        true
    }

    /// A leader that resigned wants this member to take over.
    pub(super) fn on_hand_over(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        table: HandOver,
        out: &mut Out,
    ) {
        let of_leader =
            self.record.as_ref().is_some_and(|r| r.epoch == table.base && r.leader == Some(from));
        if self.role != Role::Follower || !of_leader || self.floor() >= table.base {
            return out.tell(Event::Ignored("hand_over"));
        }
        // The leader resigned, so the promise to it counts no more.
        self.pledge.sealed = true;
        self.pledge.until = now;
        self.locks.leave_view();
        self.begin_candidacy(now, Some(table), out);
    }

    /// Leaves the group: a leader hands over, the last member closes the group.
    pub(super) fn leave(&mut self, now: LocalTime, out: &mut Out) {
        self.draining = true;
        let patience = self.register_patience();
        match &mut self.role {
            Role::Leader(leader) => {
                if leader.record.members.len() == 1 && leader.joiners.is_empty() {
                    leader.errand = Some(Errand::Close);
                    out.arm(Timer::Leave, patience * 2);
                    self.read_register(now, out);
                } else if self.hand_over(now, false, out) {
                    out.arm(Timer::Leave, patience);
                } else {
                    self.gone(out);
                }
            }
            Role::Follower => {
                if let Some(leader) = self.record.as_ref().and_then(|record| record.leader) {
                    say(leader, PeerMessage::Leave, out);
                }
                self.gone(out);
            }
            Role::Joiner { .. } | Role::Candidate(_) | Role::Gone => self.gone(out),
        }
    }

    /// The last member leaves in order: nobody leads, and nothing is held.
    fn close_group(&mut self, now: LocalTime, version: Version, record: Record, out: &mut Out) {
        let nonce = self.desk.nonce();
        let settled = !self.locks.has_outsiders(now);
        let Some(leader) = self.leader() else { return };
        let settled = settled && leader.settled;
        let record = Record { leader: None, settled, nonce, ..record };
        leader.errand = Some(Errand::Closed(record.clone()));
        self.write_register(now, version, record, out);
    }

    /// The heir took over.
    pub(super) fn on_taken(&mut self, epoch: Epoch, out: &mut Out) {
        if self.draining && self.role == Role::Follower && epoch > self.pledge.epoch {
            self.gone(out);
        }
    }

    /// Out of the group for good.
    pub(super) fn gone(&mut self, out: &mut Out) {
        self.role = Role::Gone;
        self.locks.leave_view();
        out.tell(Event::Left);
    }
}
