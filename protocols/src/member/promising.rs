//! A member's promises and seals.

use super::message::{Announcement, Extended, Heartbeat, Promise, Seal};
use super::{Event, Member, Out, PeerMessage, Role, Timer, say};
use crate::ids::{Epoch, Incarnation};
use crate::record::Record;
use crate::register::Value;
use crate::time::{LocalTime, hold};

impl Member {
    /// A leader asks for a promise (rule 8).
    pub(super) fn on_heartbeat(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        heartbeat: Heartbeat,
        out: &mut Out,
    ) {
        if heartbeat.epoch <= self.floor() {
            return say(from, PeerMessage::Refusal { floor: self.floor() }, out);
        }
        if !self.is_in(heartbeat.epoch, from) {
            let Some(announcement) = heartbeat.announcement else {
                return out.tell(Event::Ignored("unannounced"));
            };
            if !self.fits(&announcement.record, heartbeat.epoch, from) {
                return out.tell(Event::Ignored("announcement"));
            }
            self.enter_view(now, *announcement, out);
        }
        self.drop_election(out);
        if heartbeat.settled {
            self.pledge.settled = Some(heartbeat.epoch);
        }
        if let Some(extended) = &heartbeat.extended {
            self.on_extended(now, extended, out);
        }
        self.promise(now, from, heartbeat.epoch, heartbeat.seq, out);
    }

    /// Rule 12: everything up to this epoch is refused.
    pub(super) fn floor(&self) -> Epoch {
        let Epoch(epoch) = self.pledge.epoch;
        if self.pledge.sealed { Epoch(epoch) } else { Epoch(epoch.saturating_sub(1)) }
    }

    /// Whether this member follows that leader in that view already.
    fn is_in(&self, epoch: Epoch, leader: Incarnation) -> bool {
        self.role == Role::Follower
            && self.pledge.epoch == epoch
            && self.record.as_ref().is_some_and(|r| r.epoch == epoch && r.leader == Some(leader))
    }

    fn fits(&self, record: &Record, epoch: Epoch, leader: Incarnation) -> bool {
        record.epoch == epoch
            && epoch > self.floor()
            && record.leader == Some(leader)
            && record.rank(leader).is_some()
            && record.rank(self.me.incarnation).is_some()
    }

    /// Enters a view that another leads; refuses everything below it from now on.
    fn enter_view(&mut self, now: LocalTime, announcement: Announcement, out: &mut Out) {
        let Announcement { record, carried } = announcement;
        self.step_down(now, out);
        self.role = Role::Follower;
        self.pledge.epoch = record.epoch;
        self.pledge.sealed = false;
        out.disarm(Timer::Join);
        out.disarm(Timer::Candidacy);
        for info in &record.members {
            out.tell(Event::Met(Box::new(info.clone())));
        }
        self.with_locks(now, out, |locks, effects| {
            locks.install(now, &record, &carried, now, effects);
        });
        out.tell(Event::Installed(Box::new(record.clone())));
        self.record = Some(record);
        out.arm(Timer::Reread, self.register_patience());
    }

    fn promise(&mut self, now: LocalTime, to: Incarnation, epoch: Epoch, seq: u64, out: &mut Out) {
        if !self.may_promise(now) {
            return self.read_register(now, out);
        }
        let Some(office_wait) = self.record.as_ref().map(|record| record.timing.office_wait) else {
            return;
        };
        self.pledge.until = now.after(office_wait);
        out.arm(Timer::Promise, office_wait);
        let listed = self.locks.listed(now);
        let promise = Promise { epoch, seq, stamp: now, holds: listed.holds, waits: listed.waits };
        say(to, PeerMessage::Promise(Box::new(promise)), out);
    }

    /// Rule 8: the register confirmed the view within `hold(E)`.
    pub(super) fn may_promise(&self, now: LocalTime) -> bool {
        let outage = self.record.as_ref().map(|record| record.timing.api_outage);
        match (self.pledge.confirmed, outage) {
            (Some(confirmed), Some(outage)) => confirmed.after(hold(outage)) > now,
            (None, _) | (_, None) => false,
        }
    }

    fn on_extended(&mut self, now: LocalTime, extended: &Extended, out: &mut Out) {
        self.with_locks(now, out, |locks, effects| locks.on_extended(now, extended, effects));
    }

    /// The own promise has run out: whoever it was given to is no longer heard of.
    pub(super) fn promise_ran_out(&mut self, now: LocalTime, out: &mut Out) {
        if self.role == Role::Follower && self.pledge.until <= now {
            self.begin_election(now, out);
        }
    }

    /// A follower finds out whether there is a newer view, with it or without it.
    pub(super) fn follower_reads(&mut self, now: LocalTime, value: Value, out: &mut Out) {
        let Some(record) = value.record else { return };
        if self.record.as_ref().is_some_and(|known| record.epoch <= known.epoch) {
            return;
        }
        if record.rank(self.me.incarnation).is_none() || record.leader.is_none() {
            self.record = Some(record);
            self.begin_joining(now, out);
        } else if self.pledge.until <= now {
            self.await_announcement(record, out);
        }
    }

    /// The register names this member in a newer view. Its leader will announce it; if it does not,
    /// the members of that view elect.
    pub(super) fn await_announcement(&mut self, record: Record, out: &mut Out) {
        self.drop_election(out);
        self.locks.leave_view();
        self.record = Some(record);
        out.arm(Timer::Nominee, self.register_patience() * 3);
    }

    /// A candidate asks this member to end a view (rule 12).
    pub(super) fn on_seal_request(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        base: Epoch,
        out: &mut Out,
    ) {
        let member = self.record.as_ref().is_some_and(|record| {
            record.epoch == base && record.rank(self.me.incarnation).is_some()
        });
        if !member || matches!(self.role, Role::Joiner { .. }) {
            return;
        }
        match self.seal(now, base, out) {
            Some(seal) => say(from, PeerMessage::Seal(Box::new(seal)), out),
            None => say(from, PeerMessage::SealRefused { base }, out),
        }
    }

    /// Seals a view, or says again how it was sealed; nothing while a promise runs.
    ///
    /// From now on this member refuses promises, grants and releases of that view and those below.
    /// A leader without an office gives its whole table with its seal.
    pub(super) fn seal(&mut self, now: LocalTime, base: Epoch, out: &mut Out) -> Option<Seal> {
        if self.pledge.epoch > base || self.pledge.until > now {
            return None;
        }
        let hand_over = match &self.role {
            Role::Leader(leader) if leader.office_until() > now => return None,
            Role::Leader(_) => self.retire(now, out).map(Box::new),
            Role::Joiner { .. } | Role::Follower | Role::Candidate(_) | Role::Gone => None,
        };
        let report = self.locks.report(now);
        self.locks.leave_view();
        self.pledge.epoch = base;
        self.pledge.sealed = true;
        let settled = self.pledge.settled == Some(base);
        Some(Seal { base, holds: report.holds, waits: report.waits, settled, hand_over })
    }
}
