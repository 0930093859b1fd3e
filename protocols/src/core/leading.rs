//! The leader lease: promises, and the grace period at its start.

use super::leader::{Answer, KnownOf, Leader, ViewStart};
use super::message::Promise;
use super::{Event, Member, Nominator, Out, Role, Service, Timer, send};
use crate::ids::Incarnation;
use crate::time::LocalTime;

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
        self.end_nominations(out);
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
        self.departures.leave_behind(None);
        self.reread_soon(out);
        self.beat(now, out);
        if self.going.leaves() {
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
        let timing = leader.timing();
        if may {
            leader.promise_itself(now, me);
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
        let others: Vec<Incarnation> = leader.record().others(me).collect();
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
            let known = KnownOf { list, listed, full };
            let Some(leader) = self.leader() else { return };
            send(*member, leader.heartbeat(now, seq, *member, known), out);
        }
    }

    /// Notifies a member at once of what it waits for to admit others or to be admitted: that its lease runs,
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
        if leader.announces_again(now, to) {
            let seq = leader.note_heartbeat(now);
            self.send_heartbeat(now, seq, &[to], out);
        }
    }

    /// A member promised (rule 9).
    pub(super) fn on_promise(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        promise: Promise,
        out: &mut Out<S, N>,
    ) {
        let Some(leader) = self.leader() else { return };
        let sent = match leader.hear_promise(now, from, &promise) {
            Answer::Counts(sent) => sent,
            Answer::Overtaken => return out.tell(Event::Ignored("overtaken")),
            Answer::Stray => return,
        };
        self.holds.note_heard(from, sent, promise.listed);
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
            leader.acknowledge(from, extended);
            if leader.note_leased(from) {
                self.hurry(now, from, out);
            }
        }
        self.consider_freeze(now, out);
    }

    /// Brings everything up to the present end of the leader lease.
    pub(super) fn refresh_leader_lease(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let Some(leader) = self.leader() else { return };
        let lease = leader.look_at_lease(now);
        if let Some(rest) = lease.grace {
            out.arm(Timer::Grace, rest);
        }
        self.set_leader_lease(now, lease.until, lease.open, out);
        if lease.opens {
            self.send_heartbeats(now, out);
        }
    }

    pub(super) fn grace_is_over(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        self.refresh_leader_lease(now, out);
    }

    /// Finds out whether it knows of all that runs.
    fn settle(&mut self, now: LocalTime) {
        let known = self.promises.is_settled(self.promises.epoch());
        let Some(leader) = self.leader().filter(|leader| leader.is_to_settle(known)) else {
            return;
        };
        let lists = leader.record().lists();
        let (outsiders, older) = (self.holds.has_outsiders(now), self.holds.has_older_leases(now));
        let settles = self.leader().is_some_and(|leader| leader.settle(outsiders, older));
        if settles && !lists {
            self.promises.settle();
        }
    }

    /// A leader lease that a majority no longer promises is given up after a while.
    fn give_up_a_lapsed_leader_lease(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let me = self.me.incarnation;
        let lost = self.record.as_ref().is_some_and(|record| self.lacks_a_majority(record));
        let Some(leader) = self.leader() else { return };
        if leader.has_lapsed(now, lost) {
            // Those that left cannot elect, and its table is as good as with its seal (rule 13).
            let knows = lost && leader.is_whole(now, me);
            // A candidate whose register is silent would forget the table.
            if knows && !leader.record().closing {
                leader.plan_change();
                return self.read_register(now, out);
            }
            if let Some(table) = knows.then(|| self.retire(now, out)).flatten() {
                self.promises.end(now);
                return self.begin_candidacy(now, Some(table), out);
            }
            self.step_down(now, out);
            // What it promised itself counts for nobody else.
            self.promises.end(now);
            self.begin_nomination(now, out);
        }
    }

    /// Is no longer leader, if it was (rule 22): its own holds run out, as it was notified.
    pub(super) fn step_down(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if !matches!(self.role, Role::Leader(_)) {
            return;
        }
        if !self.is_advisory() {
            let table = self.table_to_give(now, out);
            self.departures.leave_behind(table.as_ref());
            self.promises.seal();
        }
        self.resign();
        self.role = Role::Follower;
        out.disarm(Timer::Heartbeat);
        out.disarm(Timer::Grace);
    }
}
