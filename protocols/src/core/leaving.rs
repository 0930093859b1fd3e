//! The end of a leader lease that its leader gives up, and the end of a membership.

use super::leader::Then;
use super::message::{HandOver, Leave};
use super::service::Notice;
use super::{Event, Member, Nominator, Out, PeerMessage, Role, Service, Timer, send, send_each};
use crate::ids::{Epoch, Incarnation};
use crate::record::{LeftHold, Record};
use crate::register::Value;
use crate::time::LocalTime;

/// What is left to be done for a member that led, and never will again: it resigned because it leaves.
/// Nobody's promise gives the leader lease back, because this has none.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Resigned {
    /// A successor has the table, and is to report that it took over.
    HandedOver,
    /// Nobody took over: the register is to state that nobody leads.
    Closes {
        /// It was asked to.
        wrote: bool,
    },
}

impl<S: Service, N: Nominator> Member<S, N> {
    /// What a leader knows, for its successor.
    pub(super) fn table_to_give(
        &mut self,
        now: LocalTime,
        out: &mut Out<S, N>,
    ) -> Option<HandOver> {
        let table = self.table(now, out);
        let (me, advisory) = (self.me.incarnation, self.is_advisory());
        let leader = self.leader()?;
        let whole = advisory || leader.is_whole(now, me);
        let mut hand_over = leader.hand_over(now, table, whole);
        self.departures.take_out_of(&mut hand_over);
        Some(hand_over)
    }

    /// Resigns (rule 13): the leader lease ends here and now. Returns the leader's seal.
    pub(super) fn retire(&mut self, now: LocalTime, out: &mut Out<S, N>) -> Option<HandOver> {
        let hand_over = self.table_to_give(now, out)?;
        // Where nothing arbitrates, no register names a leader.
        self.departures.leave_behind((!self.is_advisory()).then_some(&hand_over));
        let leader_lease = self.leader()?.timing().leader_lease;
        self.resign();
        self.role = Role::Follower;
        // Rule 12: it refuses the view from now on, and nothing gives it the leader lease back.
        self.promises.seal();
        out.disarm(Timer::Heartbeat);
        out.disarm(Timer::Grace);
        // If nobody leads by then, somebody must be elected.
        out.arm(Timer::Promise, leader_lease);
        Some(hand_over)
    }

    /// The pod is about to end: another should lead, if there is one that stays.
    pub(super) fn drain(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if self.going.drain() {
            self.notice(now, Notice::Drains, out);
            self.drain_lead(now, out);
        }
    }

    /// Hands over, or begins to, if there is somebody.
    pub(super) fn drain_lead(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let (me, ends, successor) =
            (self.me.incarnation, self.belief.ends(), self.successor(now, true));
        let Some(leader) = self.leader() else { return };
        let patience = leader.patience_with_others();
        let waits =
            (ends || successor.is_some()) && leader.awaits_somebody(now, me, patience).is_some();
        self.belief.set_ends(successor.is_some() || waits);
        if waits || successor.is_none() {
            return;
        }
        // Both are to be asked for.
        let register = self.rests_for_the_register(now, out);
        if self.waits_for_believers(now, out) || register {
            return;
        }
        if !self.freezes_first(now, Then::Drain, out) {
            self.hand_over(now, true, out);
        }
    }

    /// Once a heartbeat: a leader that is about to end, or rests, hands over as soon as there is somebody.
    pub(super) fn hand_over_in_time(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let begun = self.belief.ends();
        if self.going.gives_way()
            && self.leader().is_some_and(|leader| begun || !leader.has_just_begun(now))
        {
            self.drain_lead(now, out);
        }
    }

    /// Hands the leader lease to the member that was named, or else to the most senior that lives. False if
    /// there is none.
    pub(super) fn hand_over(&mut self, now: LocalTime, stay: bool, out: &mut Out<S, N>) -> bool {
        let me = self.me.incarnation;
        let Some(successor) = self.successor(now, stay) else { return false };
        let Some(mut table) = self.retire(now, out) else { return false };
        if !stay {
            table.stays.retain(|member| *member != me);
        }
        table.believed = self.is_believed(now) || !self.may_believe(now);
        // What it promised itself counts for nobody else.
        self.promises.end(now);
        self.departures.hand_over_to(successor);
        send(successor, PeerMessage::HandOver(Box::new(table)), out);
        true
    }

    /// A leader that resigned wants this member to take over.
    ///
    /// It refuses the view from now on. Its promise runs on all the same: should it come to nothing
    /// as a candidate, its seal must not state earlier than the others' that the holds of the old
    /// leader are over.
    pub(super) fn on_hand_over(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        mut table: HandOver,
        out: &mut Out<S, N>,
    ) {
        let of_leader =
            self.record.as_ref().is_some_and(|r| r.epoch == table.base && r.leader == Some(from));
        let refused = !self.is_advisory() && self.floor() >= table.base;
        if self.role != Role::Follower || !of_leader || refused || self.going.leaves() {
            return out.tell(Event::Ignored("hand_over"));
        }
        self.departures.take_out_of(&mut table);
        self.promises.seal_view(table.base);
        self.end_view();
        self.begin_candidacy(now, Some(table), out);
    }

    /// Leaves the group: a leader hands over, or closes the group if nobody is left to lead it.
    ///
    /// What it holds is not given back, because its application may still be at work: others wait
    /// for it as for a member that died.
    pub(super) fn leave(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if !self.going.leave(now.after(self.register_patience() * LEAVE_CALLS)) {
            return;
        }
        self.belief.set_ends(true);
        self.notice(now, Notice::Leaves, out);
        match &self.role {
            Role::Leader(_) => self.leave_as_leader(now, out),
            // Its view may be in the register by now, or soon: it begins it, and leaves as its leader.
            Role::Candidate(candidate) if candidate.is_bound() => {
                out.arm(Timer::Leave, self.going.time_to_leave(now));
            }
            Role::Follower | Role::Joiner { .. } | Role::Candidate(_) => self.depart(now, out),
            Role::Resigned(_) | Role::Gone => {}
        }
    }

    /// A leader leaves. In a view that has just begun it waits a moment for somebody to hand over to, and for the
    /// others.
    pub(super) fn leave_as_leader(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let (me, alone, advisory) =
            (self.me.incarnation, self.register_patience(), self.is_advisory());
        let successor = self.successor(now, false);
        let Some(leader) = self.leader() else { return };
        let patience = if successor.is_some() { leader.patience_with_others() } else { alone };
        let waits = leader.awaits_somebody(now, me, patience);
        if let Some(until) = waits.filter(|_| !advisory) {
            out.arm(Timer::Leave, now.until(until));
        } else if successor.is_some() && self.freezes_first(now, Then::Leave, out) {
            // Should the leader lease end meanwhile, there is nothing to hand over.
            let patience = self.record.as_ref().map(|record| record.timing.leader_lease);
            out.arm(Timer::Leave, patience.unwrap_or_default() * 2);
        } else {
            self.leave_lead(now, out);
        }
    }

    /// A member of a view that has just begun lives, and stays: its leader, which leaves or drains, waited for that.
    pub(super) fn leaves_to_a_successor(&mut self, now: LocalTime, out: &mut Out<S, N>) -> bool {
        let frozen = self.leader().is_none_or(|leader| leader.is_frozen());
        let leaves = self.going.leaves() && !frozen && self.successor(now, true).is_some();
        if leaves {
            self.leave_as_leader(now, out);
            return self.leader().is_none_or(|leader| leader.is_frozen());
        }
        if self.belief.ends() && !self.is_believed(now) && self.may_believe(now) {
            // A leader that took over while it drains waited for all to promise, and for nothing else.
            self.hand_over_in_time(now, out);
        }
        false
    }

    /// A member leaves that does not lead. If it led the latest view that is known, it sees to it that
    /// the register names somebody else, or nobody.
    pub(super) fn depart(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let known = self.record.as_ref().map(|record| record.epoch);
        if let Some(legacy) = self.departures.legacy().filter(|legacy| known == Some(legacy.base()))
        {
            let Some(successor) = legacy.successor() else { return self.close_group(now, out) };
            // Its application may have given back since what it holds according to the table.
            let leave = Leave { epoch: legacy.base(), holds: self.holds.running(now) };
            send(successor, PeerMessage::Leave(Box::new(leave)), out);
            return self.await_successor(out);
        }
        // Also to those that do not lead: the one that does may have resigned a moment ago.
        if let Some(record) = &self.record {
            send_each(record.others(self.me.incarnation), &self.leave_message(now), out);
        }
        self.gone(out);
    }

    /// Somebody else leads, or wants to. A member that leaves follows nobody any more.
    pub(super) fn parts_from(
        &mut self,
        now: LocalTime,
        leader: Incarnation,
        epoch: Epoch,
        out: &mut Out<S, N>,
    ) {
        if epoch > self.floor() {
            send(leader, self.leave_message(now), out);
            self.gone(out);
        }
    }

    /// In a view that a member is still in, the leader need not ask it what it holds (rule 29).
    fn leave_message(&self, now: LocalTime) -> PeerMessage<S::Message, N::Message> {
        let is_joiner = matches!(self.role, Role::Joiner { .. });
        let left = self.record.as_ref().filter(|_| !self.promises.is_sealed() && !is_joiner);
        let leave =
            left.map(|record| Leave { epoch: record.epoch, holds: self.holds.running(now) });
        PeerMessage::Leave(Box::new(leave.unwrap_or_default()))
    }

    /// A leader leaves: it hands over, if there is anybody, and knows as much as it can of the
    /// holds.
    pub(super) fn leave_lead(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if self.hand_over(now, false, out) {
            self.await_successor(out);
        } else if self.is_advisory() {
            self.gone(out);
        } else if self.retire(now, out).is_some() {
            // Nobody is there to take over. The leader lease ends before the register says so.
            self.promises.end(now);
            self.close_group(now, out);
        }
    }

    /// The successor is to report that it took over.
    fn await_successor(&mut self, out: &mut Out<S, N>) {
        self.role = Role::Resigned(Resigned::HandedOver);
        out.disarm(Timer::Promise);
        out.arm(Timer::Leave, self.register_patience());
    }

    /// The register is to state that nobody leads; else the next to begin a view would wait for promises that
    /// nobody made.
    fn close_group(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        self.role = Role::Resigned(Resigned::Closes { wrote: false });
        out.disarm(Timer::Promise);
        out.disarm(Timer::Candidacy);
        out.arm(Timer::Leave, self.going.time_to_leave(now));
        self.read_register(now, out);
    }

    /// The time to leave in is over. A successor that sent nothing may have left at the same time.
    pub(super) fn leave_is_due(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        match &self.role {
            // It waited for others to promise.
            Role::Leader(leader) if !leader.is_frozen() => self.leave_as_leader(now, out),
            Role::Leader(_) => self.leave_lead(now, out),
            Role::Resigned(Resigned::HandedOver) if !self.is_advisory() => {
                self.close_group(now, out);
            }
            Role::Resigned(Resigned::Closes { .. }) => {
                out.tell(Event::Undone("say in the register that nobody leads"));
                self.gone(out);
            }
            Role::Candidate(_) => {
                out.tell(Event::Undone(
                    "find out whether the register names this member as leader",
                ));
                self.gone(out);
            }
            Role::Joiner { .. } | Role::Follower => self.depart(now, out),
            Role::Resigned(Resigned::HandedOver) | Role::Gone => self.gone(out),
        }
    }

    /// The leader lease of the recorded view ended when this member resigned (rule 13), whatever became of
    /// the successor. If the successor is at work it has the table, and the mark does not harm it; if it took over,
    /// another view is there.
    pub(super) fn resigned_reads(
        &mut self,
        now: LocalTime,
        resigned: Resigned,
        value: Value,
        out: &mut Out<S, N>,
    ) {
        let (Some(legacy), Resigned::Closes { .. }) = (self.departures.legacy(), resigned) else {
            return;
        };
        let mine = |r: &Record| {
            r.epoch == legacy.base() && r.leader == Some(self.me.incarnation) && !r.base_unknown
        };
        let Some(record) = value.record.filter(mine) else { return self.gone(out) };
        // Its application may have given back since what it holds according to the table.
        let me = self.me.incarnation;
        let stands = |held: &LeftHold| held.holder != me || self.holds.keeps_out(now, &held.name);
        let held = legacy.held().cloned();
        let held = held.map(|held| held.into_iter().filter(stands).collect::<Vec<_>>());
        let settled = held.as_ref().is_some_and(Vec::is_empty);
        let record = Record { leader: None, settled, held, nonce: self.register.nonce(), ..record };
        self.role = Role::Resigned(Resigned::Closes { wrote: true });
        self.write_register(now, value.version, record, out);
    }

    /// A write was carried out: that of a leader that closes the group, or an earlier one.
    pub(super) fn resigned_wrote(
        &mut self,
        now: LocalTime,
        resigned: Resigned,
        out: &mut Out<S, N>,
    ) {
        match resigned {
            Resigned::HandedOver => {}
            Resigned::Closes { wrote: false } => self.read_register(now, out),
            Resigned::Closes { wrote: true } => {
                if self.departures.legacy().is_some_and(|legacy| legacy.held().is_none()) {
                    out.tell(Event::Undone("say in the register what is held"));
                }
                self.gone(out);
            }
        }
    }

    /// The register does not answer a leader that wants to close the group: asks again, while there is time.
    pub(super) fn resigned_without_register(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if let Role::Resigned(Resigned::Closes { .. }) = self.role {
            self.read_register(now, out);
        }
    }

    /// A member leaves, and reports what it holds: the next view is without it.
    pub(super) fn on_leave(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        leave: Leave,
        out: &mut Out<S, N>,
    ) {
        if self.leader().is_some_and(|leader| leader.parts(from, &leave)) {
            self.holds.on_leave(now, from, &leave);
            self.let_hear(now, out);
        }
        self.keep_leave(from, leave);
        self.discovered.departed(from);
        if let Some(leader) = self.leader() {
            leader.leaves(from);
        }
        if let Some(candidate) = self.candidate() {
            candidate.leave_out(from);
        }
        let handed_over = self.role == Role::Resigned(Resigned::HandedOver);
        if self.departures.lose_successor(from) && handed_over && !self.is_advisory() {
            // The register shows whether it took over.
            return self.close_group(now, out);
        }
        self.consider_change(now, out);
    }

    /// Whether so many have left this view that a majority of it cannot promise any more.
    pub(super) fn lacks_a_majority(&self, record: &Record) -> bool {
        self.departures.how_many_stay(record) < record.promises_needed()
    }

    /// The next leader, and the member that closes the group, may be others than the leader that this
    /// was sent to.
    fn keep_leave(&mut self, from: Incarnation, leave: Leave) {
        let Some(record) = self.record.as_ref().filter(|r| leave.counts_in(r.epoch)) else {
            return;
        };
        self.departures.note(record, from, leave);
        if let Role::Candidate(candidate) = &mut self.role
            && let Some(table) = candidate.table()
        {
            self.departures.take_out_of(table);
        }
    }

    /// The successor took over, or another member that asked for the table: in a later view.
    pub(super) fn on_taken(&mut self, from: Incarnation, epoch: Epoch, out: &mut Out<S, N>) {
        let is_of_view = |r: &Record| epoch > r.epoch && r.rank(from).is_some();
        if matches!(self.role, Role::Resigned(_)) && self.record.as_ref().is_some_and(is_of_view) {
            self.gone(out);
        }
    }

    /// Out of the group for good.
    pub(super) fn gone(&mut self, out: &mut Out<S, N>) {
        self.role = Role::Gone;
        self.end_view();
        out.tell(Event::Left);
    }
}

/// For how many calls of the register a member that leaves waits at most, each as long as the first: 4P.
const LEAVE_CALLS: u32 = 12;
