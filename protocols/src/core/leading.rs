//! The leader lease: promises, and the grace period at its start.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::changing::Task;
use super::freezing::Freeze;
use super::joining::Joiners;
use super::leaving::Legacy;
use super::message::{Admission, Announcement, Extended, Heartbeat, LeaderList, Promise, Table};
use super::{Event, Going, Member, Nominator, Out, PeerMessage, Role, Service, Timer, say};
use crate::ids::Incarnation;
use crate::record::{MemberInfo, Record};
use crate::time::{LocalTime, hold};

/// A member that leads its view, and has the leader lease while a majority promises (rule 3).
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Leader {
    pub(super) record: Record,
    carried: Table,
    /// Until when each member's promise surely lasts (rule 9).
    pub(super) promised: BTreeMap<Incarnation, LocalTime>,
    /// When each member last promised.
    pub(super) heard: BTreeMap<Incarnation, LocalTime>,
    /// The latest heartbeat that each member answered. What answers that one or an earlier one again
    /// was overtaken or is repeated, and counts for nothing.
    answered: BTreeMap<Incarnation, u64>,
    /// Those that the view was announced to, with that heartbeat at the latest.
    announced: BTreeSet<Incarnation>,
    /// The latest heartbeat to each member that had items of the leader's list, and the last change in it.
    itemized: BTreeMap<Incarnation, (u64, u64)>,
    /// What the next heartbeat acknowledges.
    extended: BTreeMap<Incarnation, Extended>,
    /// Whose promises were acknowledged in this view.
    pub(super) leased: BTreeSet<Incarnation>,
    /// When the latest heartbeats were sent.
    sent: VecDeque<(u64, LocalTime)>,
    pub(super) grace_until: LocalTime,
    pub(super) grace_over: bool,
    pub(super) settled: bool,
    pub(super) since: LocalTime,
    /// The leader lease was last seen at that time.
    leased_at: LocalTime,
    pub(super) joiners: Joiners,
    pub(super) leavers: BTreeSet<Incarnation>,
    /// Those of them who said what they hold.
    pub(super) parted: BTreeSet<Incarnation>,
    /// Members that are about to end.
    pub(super) draining: BTreeSet<Incarnation>,
    /// Members that sealed this view and follow nobody in it.
    pub(super) sealed: BTreeSet<Incarnation>,
    /// What the register is asked for.
    pub(super) task: Option<Task>,
    /// Admission is closed, so that it is known what everybody holds.
    pub(super) freeze: Option<Freeze>,
    /// When a closed admission was last opened again, because somebody said nothing.
    pub(super) thawed: Option<LocalTime>,
    /// Admission was open to members that grant among themselves.
    open: bool,
}

/// What a view begins with.
pub(super) struct ViewStart {
    pub(super) record: Record,
    /// Who held and who waited when the view before ended.
    pub(super) carried: Table,
    pub(super) grace_until: LocalTime,
}

/// What the holds of a leader put into a heartbeat.
struct KnownOf {
    list: Option<LeaderList>,
    /// How many changes of the member's list are known.
    listed: u64,
    full: bool,
}

/// How many heartbeats may be under way.
const SENT_MAX: usize = 512;

impl Leader {
    fn new(now: LocalTime, start: ViewStart) -> Self {
        let ViewStart { record, carried, grace_until } = start;
        Self {
            settled: record.settled,
            record,
            carried,
            promised: BTreeMap::new(),
            heard: BTreeMap::new(),
            answered: BTreeMap::new(),
            announced: BTreeSet::new(),
            itemized: BTreeMap::new(),
            extended: BTreeMap::new(),
            leased: BTreeSet::new(),
            sent: VecDeque::new(),
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

    /// The number of the next heartbeat.
    pub(super) fn next_seq(&self) -> u64 {
        self.sent.back().map_or(1, |(seq, _)| seq + 1)
    }

    fn note_heartbeat(&mut self, now: LocalTime) -> u64 {
        let seq = self.next_seq();
        self.sent.push_back((seq, now));
        if self.sent.len() > SENT_MAX {
            self.sent.pop_front();
        }
        seq
    }

    /// Up to which change of the list items are under way to a member: it may take long to take a long list
    /// in, and need not get it twice.
    fn under_way(&self, now: LocalTime, member: Incarnation) -> Option<u64> {
        let (seq, latest) = *self.itemized.get(&member)?;
        let sent = self.sent.iter().find(|(sent, _)| *sent == seq).map(|(_, at)| *at)?;
        let lost = now - sent > self.record.timing.leader_lease;
        let answered = self.answered.get(&member).is_some_and(|answered| *answered >= seq);
        (!lost && !answered).then_some(latest)
    }

    /// Rule 9: until when a majority of the view promises, as far as this member knows.
    pub(super) fn leader_lease_until(&self) -> LocalTime {
        let mut promises: Vec<LocalTime> = self.promised.values().copied().collect();
        promises.sort_unstable();
        let needed = self.record.promises_needed();
        promises.iter().rev().nth(needed - 1).copied().unwrap_or_default()
    }

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
        let lives = |m: &Incarnation| {
            self.sealed.contains(m) || self.promised.get(m).is_some_and(|until| *until > now)
        };
        self.record.incarnations().filter(|m| lives(m) && !self.leavers.contains(m)).collect()
    }

    /// The next heartbeat to a member. The view is announced with the first, and again when the member asks.
    fn heartbeat<B, M>(
        &mut self,
        now: LocalTime,
        seq: u64,
        member: Incarnation,
        known: KnownOf,
    ) -> PeerMessage<B, M> {
        let announcement = self.announced.insert(member).then(|| {
            let record = self.record.clone();
            let carried = self.carried.about(member, &record).aged(now - self.since);
            Box::new(Announcement { record, carried })
        });
        let heartbeat = Heartbeat {
            epoch: self.record.epoch,
            seq,
            admission: Admission {
                open: self.admits(now),
                ceiling: self.record.ceiling,
                full: known.full,
            },
            list: known.list,
            listed: known.listed,
            extended: self.extended.remove(&member),
            announcement,
        };
        PeerMessage::heartbeat(Box::new(heartbeat), self.record.speaks())
    }

    /// For how much longer nothing is newly granted.
    pub(super) fn rest_of_grace(&self, now: LocalTime) -> Duration {
        if self.grace_over { Duration::ZERO } else { now.until(self.grace_until) }
    }

    /// Whether admission is open.
    pub(super) fn grants(&self, now: LocalTime) -> bool {
        self.grace_over && self.leader_lease_until() > now
    }

    /// Whether anything is granted at the moment: it is not while it is made sure of who holds what.
    fn admits(&self, now: LocalTime) -> bool {
        self.grants(now) && self.freeze.is_none()
    }
}

impl<S: Service, N: Nominator> Member<S, N> {
    /// Begins to lead a view that the register has.
    pub(super) fn take_lead(
        &mut self,
        now: LocalTime,
        sent: LocalTime,
        mut start: ViewStart,
        out: &mut Out<S, N>,
    ) {
        out.disarm(Timer::Join);
        out.disarm(Timer::Candidacy);
        self.drop_nomination(out);
        self.go_by(now, start.record.policy.arbiter, out);
        self.adopt_policy(&start.record);
        if self.is_advisory() {
            self.in_force.numbered = self.in_force.numbered.max(start.record.epoch);
        }
        self.confirm(sent, &start.record, out);
        let record = start.record.clone();
        self.holds.complete(now, &record, &mut start.carried);
        self.promises.enter(record.epoch);
        self.begin_view(now, &record, &start.carried, out);
        for info in record.members.iter().filter(|info| info.incarnation != self.me.incarnation) {
            out.tell(Event::Met(Box::new(info.clone())));
        }
        out.tell(Event::Installed(Box::new(record.clone())));
        self.lineage.goes_on(&record);
        self.record = Some(record);
        self.role = Role::Leader(Box::new(Leader::new(now, start)));
        self.legacy = None;
        self.reread_soon(out);
        self.beat(now, out);
        if self.going == Going::Leaves {
            self.leave_as_leader(now, out);
        }
    }

    pub(super) fn leader(&mut self) -> Option<&mut Leader> {
        match &mut self.role {
            Role::Leader(leader) => Some(leader),
            Role::Joiner { .. }
            | Role::Follower
            | Role::Candidate(_)
            | Role::Resigned(_)
            | Role::Gone => None,
        }
    }

    /// Asks all members for their promises, itself first, and does what is due once a heartbeat.
    pub(super) fn beat(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let (me, may) = (self.me.incarnation, self.may_promise(now));
        self.send_heartbeats(now, out);
        let Some(leader) = self.leader() else { return };
        let timing = leader.record.timing;
        if may {
            // Rule 8: the leader's own promise obeys the same rules.
            leader.promised.insert(me, now.after(hold(timing.leader_lease)));
            self.promises.promise(now.after(timing.leader_lease));
        } else {
            self.read_register(now, out);
        }
        out.arm(Timer::Heartbeat, timing.heartbeat);
        self.refresh_leader_lease(now, out);
        self.tick(now, out);
        self.settle(now);
        self.consider_freeze(now, out);
        self.consider_change(now, out);
        self.hand_over_in_time(now, out);
        self.give_up_a_lapsed_leader_lease(now, out);
    }

    pub(super) fn send_heartbeats(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let me = self.me.incarnation;
        let Some(leader) = self.leader() else { return };
        let seq = leader.note_heartbeat(now);
        let others: Vec<Incarnation> = leader.record.others(me).collect();
        self.send_heartbeat(now, seq, &others, out);
    }

    fn send_heartbeat(
        &mut self,
        now: LocalTime,
        seq: u64,
        to: &[Incarnation],
        out: &mut Out<S, N>,
    ) {
        let (list, full) = (self.list(now), self.holds.are_full());
        for member in to {
            let listed = self.holds.known_of(*member);
            let Some(leader) = self.leader() else { return };
            let under_way = leader.under_way(now, *member);
            let list = list.as_ref().map(|list| self.holds.list_for(*member, under_way, list));
            let changes = list.as_ref().map(|list| &list.changes);
            let itemized = changes.filter(|changes| !changes.items.is_empty());
            let itemized = itemized.map(|changes| (seq, changes.latest));
            let known = KnownOf { list, listed, full };
            let Some(leader) = self.leader() else { return };
            leader.itemized.extend(itemized.map(|itemized| (*member, itemized)));
            say(*member, leader.heartbeat(now, seq, *member, known), out);
        }
    }

    /// Tells a member at once what it waits for to let others in or be let in: that its lease runs,
    /// and that admission is open. Else it would have to wait for the next heartbeat.
    fn hurry(&mut self, now: LocalTime, member: Incarnation, out: &mut Out<S, N>) {
        let Some(leader) = self.leader() else { return };
        if leader.admits(now) {
            let seq = leader.note_heartbeat(now);
            self.send_heartbeat(now, seq, &[member], out);
        }
    }

    /// A member that has yet to enter this view does not know of it.
    pub(super) fn announce_again(&mut self, now: LocalTime, to: Incarnation, out: &mut Out<S, N>) {
        let Some(leader) = self.leader() else { return };
        if leader.announced.remove(&to) {
            leader.itemized.remove(&to);
            let seq = leader.note_heartbeat(now);
            self.send_heartbeat(now, seq, &[to], out);
        }
    }

    /// A member promised (rule 9): counted from before the heartbeat was sent that it answers.
    pub(super) fn on_promise(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        promise: Promise,
        out: &mut Out<S, N>,
    ) {
        let Some(leader) = self.leader() else { return };
        let sent = leader.sent.iter().find(|(seq, _)| *seq == promise.seq).map(|(_, at)| *at);
        let (Some(sent), true) = (sent, promise.epoch == leader.record.epoch) else { return };
        // What a member said before it left says less than that.
        let answered = leader.answered.get(&from).copied().unwrap_or_default();
        if leader.record.rank(from).is_none() || leader.parted.contains(&from) {
            return;
        }
        if promise.seq <= answered {
            return out.tell(Event::Ignored("overtaken"));
        }
        leader.answered.insert(from, promise.seq);
        let until = sent.after(hold(leader.record.timing.leader_lease));
        let promised = leader.promised.entry(from).or_default();
        *promised = (*promised).max(until);
        leader.heard.insert(from, now);
        leader.announced.insert(from);
        if promise.listed == 0 {
            // Something of the list was lost on the way.
            leader.itemized.remove(&from);
        }
        if promise.drains {
            leader.draining.insert(from);
        }
        leader.sealed.remove(&from);
        self.holds.is_heard(from, sent, promise.listed);
        self.refresh_leader_lease(now, out);
        if self.leaves_to_a_successor(now, out) {
            return;
        }
        if self.leader_lease().is_none_or(|until| until <= now) {
            return;
        }
        let seq = promise.seq;
        let extended = self.extend_member(now, from, sent, promise, out);
        if let (Some(extended), Some(leader)) = (extended, self.leader()) {
            // Rule 29: only what it lists makes the table whole, and that is heard with a lease alone.
            leader.note_answer(from, seq);
            leader.extended.insert(from, extended);
            if leader.leased.insert(from) {
                self.hurry(now, from, out);
            }
        }
        self.consider_freeze(now, out);
    }

    /// Brings everything up to the present end of the leader lease.
    pub(super) fn refresh_leader_lease(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let Some(leader) = self.leader() else { return };
        let until = leader.leader_lease_until();
        if until > now {
            leader.leased_at = now;
        }
        if !leader.grace_over && leader.grace_until > now {
            out.arm(Timer::Grace, now.until(leader.grace_until));
        }
        let first = !leader.grace_over && leader.grace_until <= now && until > now;
        leader.grace_over |= first;
        let open = leader.admits(now);
        let opens = !std::mem::replace(&mut leader.open, open) && open;
        self.set_leader_lease(now, until, open, out);
        if opens {
            self.send_heartbeats(now, out);
        }
    }

    pub(super) fn grace_is_over(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        self.refresh_leader_lease(now, out);
    }

    /// Rule 21: whether no hold of an earlier view runs that this one does not know. The leader's
    /// own are tied to the leader lease since it began, or others can tell them.
    fn settle(&mut self, now: LocalTime) {
        let known = self.promises.is_settled(self.promises.epoch());
        let Some(leader) = self.leader() else { return };
        let lists = leader.record.lists();
        if leader.settled && (lists || known) {
            return;
        }
        let (outsiders, older) = (self.holds.has_outsiders(now), self.holds.has_older_leases(now));
        let Some(leader) = self.leader() else { return };
        if leader.grace_over && !outsiders && (lists || !older) {
            leader.settled = true;
            if !lists {
                self.promises.settle();
            }
        }
    }

    /// A leader lease that a majority no longer promises is given up, after as long again: promises may
    /// come back, unless too many have left.
    fn give_up_a_lapsed_leader_lease(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let lost = self.record.as_ref().is_some_and(|record| self.lacks_a_majority(record));
        let Some(leader) = self.leader() else { return };
        let patience = leader.record.timing.leader_lease * if lost { 1 } else { 2 };
        if now - leader.leased_at > patience {
            // Those that left cannot elect, and its table is as good as with its seal (rule 13).
            let knows = lost && leader.record.policy.is_all_led();
            // A candidate whose register is silent would forget the table.
            if knows && !leader.record.closing {
                leader.task.get_or_insert(Task::Change);
                return self.read_register(now, out);
            }
            if let Some(table) = knows.then(|| self.retire(now, out)).flatten() {
                self.promises.forgo(now);
                return self.begin_candidacy(now, Some(table), out);
            }
            self.step_down(now, out);
            // What it promised itself counts for nobody else.
            self.promises.forgo(now);
            self.begin_nomination(now, out);
        }
    }

    /// Is no longer leader, if it was (rule 22): its own holds run out, as it was told.
    pub(super) fn step_down(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if !matches!(self.role, Role::Leader(_)) {
            return;
        }
        if !self.is_advisory() {
            self.legacy = self.table_to_give(now, out).map(|table| Legacy::of(&table));
            self.promises.seal();
        }
        self.resign();
        self.role = Role::Follower;
        out.disarm(Timer::Heartbeat);
        out.disarm(Timer::Grace);
    }
}
