//! A member's promises: to follow nobody but the leader of its view, for a while.

use super::message::{Heartbeat, LeaderList, Promise, Table};
use super::{Event, Member, Nominator, Out, PeerMessage, Role, Service, Timer, send};
use crate::ids::{Epoch, Incarnation};
use crate::policy::Arbiter;
use crate::record::Record;
use crate::register::Value;
use crate::time::LocalTime;

impl<S: Service, N: Nominator> Member<S, N> {
    /// A leader asks for a promise (rule 8), and reports on admission and on what only it could report.
    pub(super) fn on_heartbeat(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        heartbeat: Heartbeat,
        out: &mut Out<S, N>,
    ) {
        if self.going.leaves() && !self.is_advisory() {
            return self.parts_from(now, from, heartbeat.epoch, out);
        }
        if matches!(self.role, Role::Resigned(_)) {
            return out.tell(Event::Ignored("resigned"));
        }
        let epoch = heartbeat.epoch;
        let (announced, carried) = match heartbeat.announcement {
            Some(new) => {
                let record = new.record.on_top_of(self.record.as_ref());
                if record.is_none() && self.is_advisory() {
                    // What it is of decides whether this member prefers it.
                    return Self::asks_for_the_whole(from, epoch, out);
                }
                (record, new.carried)
            }
            None => (None, Table::default()),
        };
        let switches = |record: &&Record| record.policy.arbiter != self.arbiter();
        if let Some(record) = announced.as_ref().filter(switches) {
            if !self.may_switch(now, from, record) {
                // What the register states decides.
                if !self.is_advisory() && epoch > self.floor() {
                    self.read_register(now, out);
                }
                return;
            }
        } else if self.is_advisory() {
            if !self.prefers(now, from) {
                return;
            }
        } else if epoch <= self.floor() {
            return send(from, PeerMessage::Refusal { floor: self.floor() }, out);
        }
        if self.is_in(epoch, from) {
            if !self.promises.hear(heartbeat.seq) {
                return out.tell(Event::Ignored("overtaken"));
            }
            self.goes_on_following(out);
        } else {
            let Some(record) = announced else {
                return Self::asks_for_the_whole(from, epoch, out);
            };
            if !self.fits(&record, epoch, from) {
                return out.tell(Event::Ignored("announcement"));
            }
            let grace = heartbeat.list.as_ref().map(|list| list.grace).unwrap_or_default();
            if let Some(base) = self.keeps_to_a_view(now, &record, grace) {
                send(from, PeerMessage::SealRefused { base }, out);
                return out.tell(Event::Ignored("older base"));
            }
            self.enter_view(now, record, &carried, out);
            self.promises.hear_first(heartbeat.seq);
        }
        self.end_nominations(out);
        self.holds.are_known(heartbeat.listed);
        if let Some(extended) = heartbeat.extended {
            self.on_extended(now, extended, out);
        }
        self.promise(now, from, (epoch, heartbeat.seq), heartbeat.list, out);
        self.hear_admission(now, from, epoch, heartbeat.admission, out);
    }

    /// Rule 41: a leader of a view that this member does not know is to announce it, whole. It is of no view before
    /// that one: it may yet enter it.
    fn asks_for_the_whole(leader: Incarnation, epoch: Epoch, out: &mut Out<S, N>) {
        let floor = Epoch(epoch.0.saturating_sub(1));
        send(leader, PeerMessage::Refusal { floor }, out);
        out.tell(Event::Ignored("unannounced"));
    }

    /// Rule 12: everything up to this epoch is refused. What was sealed is, and what is older than
    /// the view that the register was seen to hold.
    pub(super) fn floor(&self) -> Epoch {
        let known = self.record.as_ref().map_or(0, |record| record.epoch.0.saturating_sub(1));
        self.promises.refused().max(Epoch(known))
    }

    /// Whether a promise of this member to the leader of its view runs.
    pub(super) fn follows(&self, now: LocalTime) -> bool {
        let of_view = |record: &Record| record.epoch == self.promises.epoch();
        self.promises.run(now)
            && !self.promises.is_sealed()
            && self.record.as_ref().is_some_and(of_view)
    }

    /// Whether this member entered the view of that leader, and did not leave it since.
    pub(super) fn is_in(&self, epoch: Epoch, leader: Incarnation) -> bool {
        self.promises.epoch() == epoch
            && !self.promises.is_sealed()
            && self.record.as_ref().is_some_and(|r| r.epoch == epoch && r.leader == Some(leader))
    }

    /// The leader lives after all: a candidate that has not sealed the view yet is none any more.
    fn goes_on_following(&mut self, out: &mut Out<S, N>) {
        if self.role != Role::Follower {
            self.role = Role::Follower;
            out.disarm(Timer::Candidacy);
        }
    }

    /// Takes no part in its view any more, and refuses it: it could not come back without losing
    /// sight of what it holds.
    pub(super) fn leave_view(&mut self) {
        self.promises.seal();
        self.end_view();
    }

    fn fits(&self, record: &Record, epoch: Epoch, leader: Incarnation) -> bool {
        record.epoch == epoch
            && record.leader == Some(leader)
            && record.rank(leader).is_some()
            && record.rank(self.me.incarnation).is_some()
    }

    /// Enters a view that another leads; refuses everything below it from now on.
    fn enter_view(&mut self, now: LocalTime, record: Record, carried: &Table, out: &mut Out<S, N>) {
        self.step_down(now, out);
        self.go_by(now, record.policy.arbiter, out);
        self.adopt_policy(&record);
        self.role = Role::Follower;
        self.departures.leave_behind(None);
        self.promises.enter(record.epoch);
        out.disarm(Timer::Join);
        out.disarm(Timer::Candidacy);
        for info in &record.members {
            out.tell(Event::Met(Box::new(info.clone())));
        }
        self.begin_view(now, &record, carried, out);
        out.tell(Event::Installed(Box::new(record.clone())));
        self.lineage.goes_on(&record);
        self.tell_what_was_followed(now, &record, out);
        self.record = Some(record);
        self.reread_soon(out);
    }

    fn promise(
        &mut self,
        now: LocalTime,
        to: Incarnation,
        (epoch, seq): (Epoch, u64),
        list: Option<LeaderList>,
        out: &mut Out<S, N>,
    ) {
        let Some(record) = &self.record else { return };
        let leader_lease = record.timing.leader_lease;
        // Whether it promises or not: if this leader is not heard of again, somebody else must lead.
        out.arm(Timer::Promise, leader_lease);
        if !self.may_promise(now) {
            return self.read_register(now, out);
        }
        self.promises.promise(now.after(leader_lease));
        let listed = self.keep_list(now, epoch, to, list);
        let changes = self.changes(now, out);
        let notes = self.holds.unsent_notes();
        let drains = !self.going.stays();
        let promise = Promise { epoch, seq, stamp: now, changes, listed, notes, drains };
        send(to, PeerMessage::Promise(Box::new(promise)), out);
    }

    /// Rule 8: the register confirmed this view or one before it within `hold(E)`, and is not known
    /// to hold a later one.
    pub(super) fn may_promise(&self, now: LocalTime) -> bool {
        let Some(record) = &self.record else { return false };
        let outage = record.timing.api_outage;
        self.is_advisory() || self.promises.are_confirmed(now, record.epoch, outage)
    }

    /// Rule 8: the register held this record, which is not closing.
    pub(super) fn confirm(&mut self, sent: LocalTime, record: &Record, out: &mut Out<S, N>) {
        let arbitrated = !self.is_advisory() && record.policy.arbiter == Arbiter::Quorum;
        if !record.closing && record.epoch > self.floor() && arbitrated {
            self.promises.confirm(record.epoch, sent);
            out.tell(Event::Confirmed(sent));
        }
    }

    /// The own promise has run out: nothing more was heard of the leader that it was given to.
    pub(super) fn promise_ran_out(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if self.role != Role::Follower {
            return;
        }
        if self.promises.run(now) {
            return out.arm(Timer::Promise, now.until(self.promises.until()));
        }
        if self.wants_quorum() {
            // Its leader may have switched without it.
            self.read_register(now, out);
        }
        self.begin_nomination(now, out);
    }

    /// A follower finds out whether there is a newer view, with it or without it.
    pub(super) fn follower_reads(&mut self, now: LocalTime, value: Value, out: &mut Out<S, N>) {
        let is_new = |record: &Record| self.is_news(record) || self.is_closed_now(record);
        if let Some(record) = value.record.filter(is_new) {
            self.learn_of(now, record, out);
        }
    }

    /// Whether the view that this member knows has ended in order since.
    fn is_closed_now(&self, record: &Record) -> bool {
        let same = |known: &Record| known.epoch == record.epoch && !known.is_closed();
        record.is_closed() && self.record.as_ref().is_some_and(same)
    }

    /// Whether a record reports a newer view. One that was lost and made anew reports none.
    pub(super) fn is_news(&self, record: &Record) -> bool {
        !record.base_unknown && self.record.as_ref().is_none_or(|known| record.epoch > known.epoch)
    }

    /// The register holds a newer view. If it names this member, its leader will announce it; if
    /// that leader does not, the members of that view elect.
    pub(super) fn learn_of(&mut self, now: LocalTime, record: Record, out: &mut Out<S, N>) {
        if self.going.leaves() && !self.is_advisory() {
            if let Some(leader) =
                record.leader.filter(|_| record.rank(self.me.incarnation).is_some())
            {
                send(leader, PeerMessage::Leave(Box::default()), out);
            }
            return self.gone(out);
        }
        self.step_down(now, out);
        self.leave_view();
        out.disarm(Timer::Candidacy);
        if record.is_advisory() && !self.yields_to(&record) {
            // A newer policy has an arbiter: the members of this view are to be asked.
            self.go_by(now, Arbiter::Quorum, out);
            self.record = Some(record);
            return self.begin_joining(now, out);
        }
        self.go_by(now, record.policy.arbiter, out);
        self.adopt_policy(&record);
        let mine = record.rank(self.me.incarnation).is_some() && record.leader.is_some();
        let patience = record.timing.leader_lease;
        self.record = Some(record);
        if mine {
            self.drop_nomination(out);
            self.role = Role::Follower;
            out.disarm(Timer::Join);
            out.arm(Timer::Nominee, patience.max(now.until(self.promises.until())));
        } else {
            self.begin_joining(now, out);
        }
    }
}
