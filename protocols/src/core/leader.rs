//! A member that leads its view, by itself: who promises, what each member was sent, who comes and goes, what is
//! to be done next. It states what is so and what is due; the member does it.

mod freeze;
mod heartbeats;
mod promised;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::freeze::Freeze;
pub(super) use self::freeze::{Frozen, Outcome, Then};
use self::heartbeats::Heartbeats;
pub(super) use self::heartbeats::KnownOf;
use self::promised::Promised;
pub(super) use self::task::{Reasons, Task};
use super::joining::Joiners;
use super::message::{HandOver, Leave, MemberChanges, Promise, Table};
use crate::ids::{Epoch, Incarnation};
use crate::policy::Timing;
use crate::record::{MemberInfo, Record};
use crate::time::{LocalTime, hold};

/// A member that leads its view, and has the leader lease while a majority promises (rule 3).
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Leader {
    record: Record,
    /// What is other about its members than in the view that it was made from.
    changes: Option<MemberChanges>,
    carried: Table,
    heartbeats: Heartbeats,
    /// Until when each member's promise surely lasts (rule 9).
    promised: Promised,
    /// When each member last promised.
    heard: BTreeMap<Incarnation, LocalTime>,
    /// Whose promises were acknowledged in this view.
    leased: BTreeSet<Incarnation>,
    grace_until: LocalTime,
    grace_over: bool,
    settled: bool,
    since: LocalTime,
    /// The leader lease was last seen at that time.
    leased_at: LocalTime,
    joiners: Joiners,
    leavers: BTreeSet<Incarnation>,
    /// Those of them that reported what they hold.
    parted: BTreeSet<Incarnation>,
    /// Members that are about to end, or rest.
    draining: BTreeSet<Incarnation>,
    /// Members that sealed this view and follow nobody in it.
    sealed: BTreeSet<Incarnation>,
    /// What the register is asked for.
    task: Option<Task>,
    /// Admission is closed, so that it is known what everybody holds.
    freeze: Option<Freeze>,
    /// When a closed admission was last opened again, because somebody did not answer.
    thawed: Option<LocalTime>,
    /// Admission was open to members that grant among themselves.
    open: bool,
}

/// What a view begins with.
pub(super) struct ViewStart {
    pub(super) record: Record,
    /// What the register held before.
    pub(super) base: Option<Record>,
    /// Who held and who waited when the view before ended.
    pub(super) carried: Table,
    pub(super) grace_until: LocalTime,
}

/// What a promise is to a leader.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Answer {
    /// It answers nothing that this leader asked its members for.
    Stray,
    /// A later one came before.
    Overtaken,
    /// It answers the heartbeat that was sent at that time.
    Counts(LocalTime),
}

/// How the leader lease stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct LeaseState {
    pub(super) until: LocalTime,
    /// How long nothing is newly granted yet.
    pub(super) grace: Option<Duration>,
    /// Admission is open.
    pub(super) open: bool,
    /// It was not when last looked at.
    pub(super) opens: bool,
}

impl Leader {
    pub(super) fn new(now: LocalTime, start: ViewStart) -> Self {
        let ViewStart { record, base, carried, grace_until } = start;
        Self {
            settled: record.settled,
            changes: base.and_then(|base| record.changes_since(&base)),
            promised: Promised::new(&record),
            record,
            carried,
            heartbeats: Heartbeats::default(),
            heard: BTreeMap::new(),
            leased: BTreeSet::new(),
            grace_until,
            grace_over: false,
            since: now,
            leased_at: now,
            joiners: Joiners::default(),
            leavers: BTreeSet::new(),
            parted: BTreeSet::new(),
            draining: BTreeSet::new(),
            sealed: BTreeSet::new(),
            task: None,
            freeze: None,
            thawed: None,
            open: false,
        }
    }

    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.record.epoch
    }

    pub(super) fn timing(&self) -> Timing {
        self.record.timing
    }

    /// After how long without a sign something is taken to be lost.
    pub(super) fn patience(&self) -> Duration {
        self.record.timing.leader_lease * 2
    }

    // ----- promises, and the leader lease

    /// Rule 9: until when a majority of the view promises, as far as this member knows.
    pub(super) fn leader_lease_until(&self) -> LocalTime {
        self.promised.majority_until()
    }

    /// Rule 8: the leader's own promise obeys the same rules.
    pub(super) fn promise_itself(&mut self, now: LocalTime, me: Incarnation) {
        self.promised.note(me, now.after(hold(self.record.timing.leader_lease)));
    }

    /// A member promised (rule 9): counted from before the heartbeat was sent that it answers.
    pub(super) fn hear_promise(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        promise: &Promise,
    ) -> Answer {
        let sent = self.heartbeats.sent_at(promise.seq);
        let (Some(sent), true) = (sent, promise.epoch == self.record.epoch) else {
            return Answer::Stray;
        };
        // What a member sent before it left reports less than that.
        if !self.promised.is_member(from) || self.parted.contains(&from) {
            return Answer::Stray;
        }
        if !self.heartbeats.note_answer(from, promise.seq, promise.listed) {
            return Answer::Overtaken;
        }
        self.promised.note(from, sent.after(hold(self.record.timing.leader_lease)));
        self.heard.insert(from, now);
        if promise.drains {
            self.draining.insert(from);
        } else {
            self.draining.remove(&from);
        }
        self.sealed.remove(&from);
        Answer::Counts(sent)
    }

    /// A member's lease was acknowledged: whether it is its first in this view.
    pub(super) fn note_leased(&mut self, member: Incarnation) -> bool {
        self.leased.insert(member)
    }

    /// A member follows nobody in this view any more.
    pub(super) fn note_sealed(&mut self, member: Incarnation) {
        self.sealed.insert(member);
    }

    /// Looks at the leader lease, and lets the grace period end.
    pub(super) fn look_at_lease(&mut self, now: LocalTime) -> LeaseState {
        let until = self.leader_lease_until();
        if until > now {
            self.leased_at = now;
        }
        let waits = !self.grace_over && self.grace_until > now;
        let grace = waits.then(|| now.until(self.grace_until));
        self.grace_over |= !waits && until > now;
        let open = self.admits(now);
        let opens = !std::mem::replace(&mut self.open, open) && open;
        LeaseState { until, grace, open, opens }
    }

    /// Whether a majority has not promised for so long that the leader lease is to be given up: promises may come
    /// back, unless so many have left that they cannot.
    pub(super) fn has_lapsed(&self, now: LocalTime, lost: bool) -> bool {
        let patience = self.record.timing.leader_lease * if lost { 1 } else { 2 };
        now - self.leased_at > patience
    }

    // ----- admission

    /// For how much longer nothing is newly granted.
    pub(super) fn rest_of_grace(&self, now: LocalTime) -> Duration {
        if self.grace_over { Duration::ZERO } else { now.until(self.grace_until) }
    }

    /// Whether admission is open.
    pub(super) fn grants(&self, now: LocalTime) -> bool {
        self.grace_over && self.leader_lease_until() > now
    }

    /// Whether anything is granted at the moment: it is not while the leader makes sure of all holds.
    pub(super) fn admits(&self, now: LocalTime) -> bool {
        self.grants(now) && self.freeze.is_none()
    }

    /// Nothing is newly granted for so long: there may have been a view that nobody here knows of.
    pub(super) fn prolong_grace(&mut self, until: LocalTime) {
        self.grace_until = self.grace_until.max(until);
        self.grace_over = false;
        self.settled = false;
    }

    /// Whether it is still to be found out that no hold of an earlier view runs which this one does not know.
    /// `known`: this member knows, by what it promised.
    pub(super) fn is_to_settle(&self, known: bool) -> bool {
        !self.settled || !(self.record.lists() || known)
    }

    /// Rule 21: whether no hold of an earlier view runs that this one does not know. The leader's own are tied to
    /// the leader lease since it began, or others can report them.
    pub(super) fn settle(&mut self, outsiders: bool, older_leases: bool) -> bool {
        let settles = self.grace_over && !outsiders && (self.record.lists() || !older_leases);
        self.settled |= settles;
        settles
    }

    // ----- who comes and who goes

    pub(super) fn note_joiner(&mut self, now: LocalTime, info: MemberInfo) {
        if self.record.rank(info.incarnation).is_none() {
            self.joiners.note(now, info);
        }
    }

    /// Who wants to join and lives.
    pub(super) fn joins(&self, now: LocalTime) -> Vec<MemberInfo> {
        self.joiners.lately(now, self.record.timing.leader_lease)
    }

    /// Members that promised lately, and stay.
    pub(super) fn stays(&self, now: LocalTime) -> Vec<Incarnation> {
        let lives = |m: &Incarnation| self.sealed.contains(m) || self.promised.runs(now, *m);
        self.record.incarnations().filter(|m| lives(m) && !self.leavers.contains(m)).collect()
    }

    /// A member of this view has left it and reported what it holds, if that is of this view. That is as good as the
    /// answer to any heartbeat, since it enters nothing any more.
    pub(super) fn parts(&mut self, member: Incarnation, leave: &Leave) -> bool {
        let of_view = leave.counts_in(self.record.epoch) && self.record.rank(member).is_some();
        if of_view {
            self.parted.insert(member);
        }
        of_view
    }

    /// A member left the view before, while this one was written: it never entered this, and what it held there is known.
    pub(super) fn left_before(&mut self, member: Incarnation) {
        if self.record.rank(member).is_some() {
            self.parted.insert(member);
            self.leaves(member);
        }
    }

    /// That member is not to be in the next view.
    pub(super) fn leaves(&mut self, member: Incarnation) {
        self.joiners.remove(member);
        self.leavers.insert(member);
    }

    // ----- who follows this leader

    /// The member that is named, if it lives, or else the most senior that does. One that rests or is about to end
    /// is better than nobody only if this one ends first.
    pub(super) fn successor(
        &self,
        now: LocalTime,
        me: Incarnation,
        named: Option<Incarnation>,
        stay: bool,
    ) -> Option<Incarnation> {
        let lives = |m: &Incarnation| !self.leavers.contains(m) && self.promised.runs(now, *m);
        let living: Vec<Incarnation> = self.record.others(me).rev().filter(lives).collect();
        let mut remain = living.iter().filter(|m| !self.draining.contains(m));
        let named = remain.clone().find(|m| named == Some(**m));
        named.or_else(|| remain.next()).or_else(|| living.first().filter(|_| !stay)).copied()
    }

    /// For how long members of a view that has just begun are waited for, if one of them has promised: the next view has
    /// only those that have.
    pub(super) fn patience_with_others(&self) -> Duration {
        self.record.timing.heartbeat * 2
    }

    /// Until when somebody of a view that has just begun may report for the first time that it lives.
    pub(super) fn awaits_somebody(
        &self,
        now: LocalTime,
        me: Incarnation,
        patience: Duration,
    ) -> Option<LocalTime> {
        let unheard = |m| !self.heard.contains_key(&m) && !self.leavers.contains(&m);
        let waits = now - self.since < patience && self.record.others(me).any(unheard);
        waits.then(|| self.since.after(patience))
    }

    /// What the next leader is to know, with the holders and the waiters. Rule 29: of what is not `whole`, somebody may
    /// have entered whom the table does not name.
    pub(super) fn hand_over(&self, now: LocalTime, table: Table, whole: bool) -> HandOver {
        let rest = self.rest_of_grace(now);
        HandOver {
            base: self.record.epoch,
            table,
            grace: if whole { rest } else { rest.max(self.record.timing.member_lease) },
            member_lease: self.member_lease(now),
            stays: self.stays(now),
            joins: self.joins(now),
            believed: true,
        }
    }

    /// The shortest member lease that fits every hold of this view.
    ///
    /// Since this view began, holders count on no more than the policy's member lease; older leases
    /// have run out after the view's own.
    fn member_lease(&self, now: LocalTime) -> Duration {
        let wait = self.record.timing.member_lease;
        let worn = self.grace_over && now - self.since > wait;
        if worn { wait.min(self.record.policy.timing.member_lease) } else { wait }
    }
}
