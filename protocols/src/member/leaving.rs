//! The end of an office that its leader gives up, and the end of a membership.

use std::time::Duration;

use super::changing::CHANGE_PERIOD;
use super::freezing::Then;
use super::leading::Leader;
use super::message::{Farewell, HandOver};
use super::{Event, Going, Member, Out, PeerMessage, Role, Timer, say};
use crate::ids::{Epoch, Incarnation};
use crate::record::Record;
use crate::register::Value;
use crate::time::LocalTime;
use crate::version;

/// A member that led, and never will again: it resigned because it leaves. Nobody's promise gives
/// the office back, because this has none.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Resigned {
    /// The view that it led.
    base: Epoch,
    last: Last,
}

/// What is left to be done.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Last {
    /// An heir has the table, and is to say that it took over.
    Bequeathed,
    /// Nobody took over: the register is to say that nobody leads. `settled`: nobody held anything
    /// when the office ended.
    Closes { settled: bool },
}

impl Leader {
    /// The most senior member that lives. One that is about to end is better than nobody only if
    /// this one ends first.
    fn heir(&self, now: LocalTime, me: Incarnation, stay: bool) -> Option<Incarnation> {
        let lives = |m: &Incarnation| {
            !self.leavers.contains(m) && self.office.get(m).is_some_and(|until| *until > now)
        };
        let living: Vec<Incarnation> = self.record.others(me).rev().filter(lives).collect();
        let remains = living.iter().find(|m| !self.draining.contains(m));
        remains.or_else(|| living.first().filter(|_| !stay)).copied()
    }
}

impl Member {
    /// Resigns (rule 13): the office ends here and now. Returns the leader's seal.
    pub(super) fn retire(&mut self, now: LocalTime, out: &mut Out) -> Option<HandOver> {
        let table = self.locks.table(now);
        let (me, advisory) = (self.me.incarnation, self.is_advisory());
        let leader = self.leader()?;
        // Rule 29: somebody may have entered whom the table does not name.
        let whole = advisory || leader.is_whole(now, me);
        let rest = if leader.quiet_over { Duration::ZERO } else { now.until(leader.quiet_until) };
        let hand_over = HandOver {
            base: leader.record.epoch,
            table,
            quiet: if whole { rest } else { rest.max(leader.record.timing.lock_wait) },
            lock_wait: leader.lock_wait(now),
            stays: leader.stays(now),
            joins: leader.joins(now),
        };
        let office_wait = leader.record.timing.office_wait;
        self.locks.resign();
        self.role = Role::Follower;
        // Rule 12: it refuses the view from now on, and nothing gives it the office back.
        self.pledge.sealed = true;
        out.disarm(Timer::Heartbeat);
        out.disarm(Timer::Quiet);
        // If nobody leads by then, somebody must be elected.
        out.arm(Timer::Promise, office_wait);
        Some(hand_over)
    }

    /// The pod is about to end: another should lead, if there is one that stays.
    pub(super) fn drain(&mut self, now: LocalTime, out: &mut Out) {
        if self.going == Going::Stays {
            self.going = Going::Drains;
            self.keep_nothing(now, out);
            self.drain_office(now, out);
        }
    }

    /// What this member kept for an application that may want in again is free for the others.
    fn keep_nothing(&mut self, now: LocalTime, out: &mut Out) {
        self.with_locks(now, out, |locks, effects| locks.keep_nothing(now, effects));
    }

    fn drain_office(&mut self, now: LocalTime, out: &mut Out) {
        let me = self.me.incarnation;
        let heir = self.leader().and_then(|leader| leader.heir(now, me, true));
        if heir.is_some() && !self.freezes_first(now, Then::Drain, out) {
            self.hand_over(now, true, out);
        }
    }

    /// Once a heartbeat: a leader that is about to end hands over as soon as there is somebody.
    pub(super) fn hand_over_in_time(&mut self, now: LocalTime, out: &mut Out) {
        let (drains, since) = (self.going == Going::Drains, self.leader().map(|l| l.since));
        if drains && since.is_some_and(|since| now - since >= CHANGE_PERIOD) {
            self.drain_office(now, out);
        }
    }

    /// Hands the office to the most senior member that lives. False if there is none.
    pub(super) fn hand_over(&mut self, now: LocalTime, stay: bool, out: &mut Out) -> bool {
        let me = self.me.incarnation;
        let heir = self.leader().and_then(|leader| leader.heir(now, me, stay));
        let Some(heir) = heir else { return false };
        let Some(mut table) = self.retire(now, out) else { return false };
        if !stay {
            table.stays.retain(|member| *member != me);
        }
        // What it promised itself counts for nobody else.
        self.pledge.until = now;
        say(heir, PeerMessage::HandOver(Box::new(table)), out);
        true
    }

    /// A leader that resigned wants this member to take over.
    ///
    /// It refuses the view from now on. Its promise runs on all the same: should it come to nothing
    /// as a candidate, its seal must not say earlier than the others' that the holds of the old
    /// leader are over.
    pub(super) fn on_hand_over(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        table: HandOver,
        out: &mut Out,
    ) {
        let of_leader =
            self.record.as_ref().is_some_and(|r| r.epoch == table.base && r.leader == Some(from));
        let refused = !self.is_advisory() && self.floor() >= table.base;
        if self.role != Role::Follower || !of_leader || refused || self.going == Going::Leaves {
            return out.tell(Event::Ignored("hand_over"));
        }
        self.pledge.epoch = table.base;
        self.leave_view();
        self.begin_candidacy(now, Some(table), out);
    }

    /// Leaves the group: a leader hands over, or closes the group if nobody is left to lead it.
    ///
    /// What it holds is not given back, because its application may still be at work: others wait
    /// for it as for a member that died.
    pub(super) fn leave(&mut self, now: LocalTime, out: &mut Out) {
        self.going = Going::Leaves;
        self.keep_nothing(now, out);
        match &mut self.role {
            Role::Leader(_) => {
                let me = self.me.incarnation;
                let heir = self.leader().and_then(|leader| leader.heir(now, me, false));
                if heir.is_some() && self.freezes_first(now, Then::Leave, out) {
                    // Should the office end meanwhile, there is nothing to hand over.
                    let patience = self.record.as_ref().map(|record| record.timing.office_wait);
                    out.arm(Timer::Leave, patience.unwrap_or_default() * 2);
                } else {
                    self.leave_office(now, out);
                }
            }
            Role::Follower => {
                if let Some(leader) = self.record.as_ref().and_then(|record| record.leader) {
                    say(leader, self.last_words(now), out);
                }
                self.gone(out);
            }
            Role::Joiner { .. } | Role::Candidate(_) | Role::Gone => self.gone(out),
            // It is about to.
            Role::Resigned(_) => {}
        }
    }

    /// In a view that a member is still in, the leader need not ask it what it holds (rule 29).
    fn last_words(&self, now: LocalTime) -> PeerMessage {
        match &self.record {
            Some(record) if !self.pledge.sealed && record.speaks() >= version::KEPT_GRANTS => {
                let holds = self.locks.listed(now).holds;
                PeerMessage::Farewell(Box::new(Farewell { epoch: record.epoch, holds }))
            }
            Some(_) | None => PeerMessage::Leave,
        }
    }

    /// A leader leaves: it hands over, if there is anybody, and knows as much as it can of who holds
    /// what.
    pub(super) fn leave_office(&mut self, now: LocalTime, out: &mut Out) {
        let patience = self.register_patience();
        let Some(base) = self.leader().map(|leader| leader.record.epoch) else { return };
        if self.hand_over(now, false, out) {
            self.role = Role::Resigned(Resigned { base, last: Last::Bequeathed });
            out.disarm(Timer::Promise);
            out.arm(Timer::Leave, patience);
        } else if self.is_advisory() {
            self.gone(out);
        } else {
            self.leave_nobody_behind(now, base, out);
        }
    }

    /// Nobody is there to take over. The office ends before the register says so.
    fn leave_nobody_behind(&mut self, now: LocalTime, base: Epoch, out: &mut Out) {
        let settled = self.nothing_is_held(now);
        if self.retire(now, out).is_none() {
            return;
        }
        self.pledge.until = now;
        out.disarm(Timer::Promise);
        self.close_group(now, Resigned { base, last: Last::Closes { settled } }, out);
    }

    /// Whether nobody can hold anything: neither this leader, nor a member, nor who left before.
    fn nothing_is_held(&mut self, now: LocalTime) -> bool {
        let (held, _) = self.locks.counts();
        let free =
            held == 0 && !self.locks.has_outsiders(now) && self.locks.table(now).holds.is_empty();
        let me = self.me.incarnation;
        self.leader().is_some_and(|leader| free && leader.settled && leader.is_whole(now, me))
    }

    /// The register is to say that nobody leads; else whoever comes next would wait for promises that
    /// nobody made.
    fn close_group(&mut self, now: LocalTime, resigned: Resigned, out: &mut Out) {
        self.role = Role::Resigned(resigned);
        out.arm(Timer::Leave, self.register_patience() * 2);
        self.read_register(now, out);
    }

    /// The time for a farewell is over. An heir that said nothing may have left at the same time.
    pub(super) fn farewell_is_due(&mut self, now: LocalTime, out: &mut Out) {
        match self.role {
            Role::Leader(_) => self.leave_office(now, out),
            Role::Resigned(Resigned { base, last: Last::Bequeathed }) if !self.is_advisory() => {
                self.close_group(
                    now,
                    Resigned { base, last: Last::Closes { settled: false } },
                    out,
                );
            }
            Role::Resigned(_)
            | Role::Joiner { .. }
            | Role::Follower
            | Role::Candidate(_)
            | Role::Gone => self.gone(out),
        }
    }

    /// The office of the recorded view ended when this member resigned (rule 13), whatever became of
    /// the heir. If the heir is at work it has the table, and the mark does not harm it.
    pub(super) fn resigned_reads(
        &mut self,
        now: LocalTime,
        resigned: Resigned,
        value: Value,
        out: &mut Out,
    ) {
        let Last::Closes { settled } = resigned.last else { return };
        let mine = |r: &Record| {
            r.epoch == resigned.base && r.leader == Some(self.me.incarnation) && !r.base_unknown
        };
        match value.record.filter(mine) {
            Some(record) => {
                let nonce = self.desk.nonce();
                let record = Record { leader: None, settled, nonce, ..record };
                self.write_register(now, value.version, record, out);
            }
            None => self.gone(out),
        }
    }

    /// The register does not answer who wants to close the group: asks again, while there is time.
    pub(super) fn resigned_without_register(&mut self, now: LocalTime, out: &mut Out) {
        if let Role::Resigned(Resigned { last: Last::Closes { .. }, .. }) = self.role {
            self.read_register(now, out);
        }
    }

    /// A member leaves: the next view is without it.
    pub(super) fn on_leave(&mut self, now: LocalTime, from: Incarnation, out: &mut Out) {
        self.peers.departed(from);
        if let Some(leader) = self.leader() {
            leader.joiners.remove(from);
            leader.leavers.insert(from);
        }
        self.consider_change(now, out);
    }

    /// A member leaves, and says what it holds. That is as good as the answer to any heartbeat: it enters
    /// nothing any more.
    pub(super) fn on_farewell(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        farewell: &Farewell,
        out: &mut Out,
    ) {
        if let Some(leader) = self.leader()
            && leader.record.epoch == farewell.epoch
            && leader.record.rank(from).is_some()
        {
            leader.parted.insert(from);
            self.with_locks(now, out, |locks, _| locks.on_farewell(now, from, &farewell.holds));
        }
        self.on_leave(now, from, out);
    }

    /// The heir took over.
    pub(super) fn on_taken(&mut self, out: &mut Out) {
        if matches!(self.role, Role::Resigned(_)) {
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
