//! The member's part: its own holds, from entry to their end.

use super::super::message::Extended;
use super::coordinator::Deferred;
use super::{Lock, LockEffect, LockEvent, LockOut, Locks, LostReason};
use crate::ids::{Epoch, FencingToken, LockName};
use crate::mutex::central::{Central, RequestNumber};
use crate::mutex::{AnyMessage, AnyMutex, AnyTimer, Command, Phase};
use crate::protocol::Outbox;
use crate::time::{LocalTime, hold};

/// A hold of this member.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Hold {
    pub(super) token: FencingToken,
    /// When this member entered.
    pub(super) entered: LocalTime,
    /// When it was let in: it may have entered again since.
    pub(super) granted: LocalTime,
    /// A deadline that has passed is final (rule 7).
    pub(super) deadline: LocalTime,
    pub(super) bond: Bond,
    /// At the leader: the first of its heartbeats in this view that listed this hold.
    pub(super) listed: Option<u64>,
    /// Another member promised in answer to that one or a later one.
    pub(super) heard: bool,
}

/// What a hold lives on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Bond {
    /// The leader extends it.
    Lease,
    /// This member leads: it ends with the leader lease, or a lease later if another heard of it.
    LeaderLease,
    /// The present view does not know it: it runs out.
    Orphan,
}

/// What a promise says of this member's locks.
#[derive(Clone, Debug, Default)]
pub(in crate::member) struct Listed {
    pub(in crate::member) holds: Vec<(LockName, FencingToken)>,
    pub(in crate::member) waits: Vec<(LockName, RequestNumber)>,
}

impl Locks {
    /// The mutex let this member in (rule 27): for as long as its lease runs, or its leader lease.
    pub(super) fn entered(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        let Some(seat) = &self.seat else { return };
        let (rank, epoch) = (seat.rank, seat.view.epoch);
        // What this view does not know is no grant of its mutex.
        if self.lock(name).hold.is_some_and(|held| held.bond != Bond::Orphan) {
            return self.enter_again(now, name, out);
        }
        // The intent that it was let in for was taken back: it leaves at once.
        if self.lock(name).deferred.contains(&Deferred::Command(Command::Exit)) {
            return;
        }
        let (deadline, leads) = (self.lease_until(), self.coordinates());
        let bond = if leads { Bond::LeaderLease } else { Bond::Lease };
        let number = self.lock(name).central().filter(|_| leads).map(Central::latest);
        let before = match number {
            Some(number) => self.grant(now, name, rank, number),
            None => self.lock(name).highest,
        };
        let advisory = self.is_advisory();
        let lock = self.lock(name);
        // Whoever granted it saw to the ceiling, or admission.
        let token = before.successor(Epoch(u64::MAX));
        let Some(token) = token.filter(|_| deadline > now && lock.intent.is_some()) else {
            return self.decline(now, name, out);
        };
        lock.highest = lock.highest.max(token);
        let (entered, granted, listed, heard) = (now, now, None, false);
        lock.hold = Some(Hold { token, entered, granted, deadline, bond, listed, heard });
        let messages = lock.messages;
        if leads && number.is_none() {
            self.note_holder(now, rank, self.me, name, token);
        }
        self.deadlines.insert((deadline, name.clone()));
        let token = (!advisory).then_some(token);
        let event = LockEvent::Entered { token, epoch, deadline, messages };
        out.push(LockEffect::Tell(name.clone(), event));
    }

    /// A grant came too late, or nobody wants it any more: leaves, and asks again if somebody does.
    pub(super) fn decline(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        self.leave(now, name, out);
        if self.lock(name).intent.is_some() {
            self.command(now, name, Command::Enter, out);
        }
    }

    /// All that this member holds, also what the present view does not know of, and what it lost so lately
    /// that nobody else may have it.
    pub(in crate::member) fn running(&self, now: LocalTime) -> Vec<(LockName, FencingToken)> {
        let token = |lock: &Lock| {
            let held = lock.hold.filter(|held| held.deadline > now && !lock.keeps());
            held.map(|held| held.token).or_else(|| lock.lost.filter(|_| lock.closed_until > now))
        };
        self.all.iter().filter_map(|(name, lock)| Some((name.clone(), token(lock)?))).collect()
    }

    /// Whether this member holds a lock, or lost it so lately that nobody else may have it.
    pub(in crate::member) fn keeps_out(&self, now: LocalTime, name: &LockName) -> bool {
        let runs = |lock: &Lock| lock.hold.is_some_and(|held| held.deadline > now);
        self.all.get(name).is_some_and(|lock| runs(lock) || lock.closed_until > now)
    }

    /// What this member holds and waits for, for a promise.
    pub(in crate::member) fn listed(&self, now: LocalTime) -> Listed {
        let mut listed = Listed::default();
        for (name, lock) in self.mine_all() {
            if let Some(hold) = lock.hold.filter(|h| h.bond != Bond::Orphan && h.deadline > now) {
                listed.holds.push((name.clone(), hold.token));
            }
            if let Some(mutex) = lock.mutex.as_ref().filter(|m| m.phase() == Phase::Waiting) {
                // Among the members an intent is told apart by when it began.
                let since = lock.intent.as_ref().map(|intent| intent.since.0).unwrap_or_default();
                let number = if self.has_coordinator(name) { mutex.latest() } else { since };
                listed.waits.push((name.clone(), RequestNumber(number)));
            }
        }
        listed
    }

    /// The leader extended what a promise of this member listed (rule 24): every hold that it had
    /// then.
    pub(in crate::member) fn on_extended(
        &mut self,
        now: LocalTime,
        extended: &Extended,
        out: &mut LockOut,
    ) {
        let Some(seat) = &self.seat else { return };
        let deadline = extended.stamp.after(hold(seat.lease));
        // Nobody was let in for this member before it was heard of in this view.
        let first = self.lease_until == LocalTime::default();
        let until = if first { seat.since.after(hold(seat.lease)) } else { self.lease_until };
        if until <= now {
            self.ask_again(now, out);
        }
        self.lease_until = self.lease_until.max(deadline);
        let mut wanted = Vec::new();
        for name in &self.mine {
            let Some(lock) = self.all.get_mut(name) else { continue };
            let Some(held) = &mut lock.hold else { continue };
            let same = |token: FencingToken| token.may_become(held.token);
            let refused = extended.refused.iter().any(|(n, t)| n == name && same(*t));
            let listed = held.granted < extended.stamp;
            if held.bond == Bond::Lease && held.deadline > now && listed && !refused {
                held.deadline = held.deadline.max(deadline);
                let known = lock.mutex.as_ref().is_some_and(AnyMutex::is_contended);
                let contended = known || extended.contended.contains(name);
                let event = LockEvent::Extended { deadline: held.deadline, contended };
                match (&lock.intent, lock.keeps()) {
                    (Some(_), false) => out.push(LockEffect::Tell(name.clone(), event)),
                    // It waits for admission, and was told nothing yet.
                    (Some(_), true) => {}
                    (None, _) if contended => wanted.push(name.clone()),
                    (None, _) => {}
                }
            }
        }
        for name in wanted {
            self.give_back(now, &name, out);
        }
        self.tell_who_waits(now, extended.stamp, out);
    }

    /// The leader lease of this member, which leads, lasts until then (rule 22). A hold that others have
    /// heard of lasts for a lease; any other ends with the leader lease, but for one that was carried into
    /// the view, which keeps its own deadline until the leader lease lasts longer.
    pub(in crate::member) fn set_leader_lease(
        &mut self,
        now: LocalTime,
        until: LocalTime,
        out: &mut LockOut,
    ) {
        self.leader_lease_until = until;
        if until <= now {
            return;
        }
        let more = self.longer_than_leader_lease();
        for name in &self.mine {
            let Some(lock) = self.all.get_mut(name) else { continue };
            let contended = lock.mutex.as_ref().is_some_and(AnyMutex::is_contended);
            let Some(held) = &mut lock.hold else { continue };
            // A deadline that the application was told is never taken back: a lease from before
            // this member led runs out by itself (rule 21).
            let until = if held.heard { until.after(more) } else { until };
            if held.bond == Bond::LeaderLease && held.deadline > now && held.deadline < until {
                held.deadline = until;
                let event = LockEvent::Extended { deadline: until, contended };
                out.push(LockEffect::Tell(name.clone(), event));
            }
        }
    }

    /// Whether an own hold of this member, which leads, lasts longer than the leader lease: a lease from
    /// before it led, which its application was told of.
    pub(in crate::member) fn has_older_leases(&self, now: LocalTime) -> bool {
        self.mine.iter().filter_map(|name| self.all.get(name)?.hold).any(|held| {
            held.bond == Bond::LeaderLease && held.deadline > now.max(self.leader_lease_until)
        })
    }

    /// Ends the holds whose deadline has passed. Returns when to look again.
    pub(in crate::member) fn expire_holds(
        &mut self,
        now: LocalTime,
        out: &mut LockOut,
    ) -> Option<LocalTime> {
        while let Some((at, name)) = self.deadlines.first().cloned() {
            let held = self.all.get(&name).and_then(|lock| lock.hold);
            if at > now && held.is_some() {
                return Some(at);
            }
            self.deadlines.pop_first();
            match held {
                Some(held) if held.deadline > now => {
                    self.deadlines.insert((held.deadline, name));
                }
                Some(_) => self.lose(now, &name, LostReason::LeaseExpired, out),
                None => {}
            }
        }
        None
    }

    /// Ends a hold that nobody gave back.
    fn lose(&mut self, now: LocalTime, name: &LockName, reason: LostReason, out: &mut LockOut) {
        // Nobody was in the critical section.
        if self.all.get(name).is_some_and(Lock::keeps) {
            return self.give_back(now, name, out);
        }
        let delay = self.lock_delay(name);
        self.strike_own(now, name);
        let Some(lock) = self.all.get_mut(name) else { return };
        let Some(hold) = lock.hold.take() else { return };
        self.mine.remove(name);
        if lock.intent.take().is_some() {
            out.push(LockEffect::Tell(name.clone(), LockEvent::Lost(reason)));
        }
        match hold.bond {
            // Nobody else can take it out of the table of a leader, or tell the others (rule 28).
            Bond::LeaderLease | Bond::Lease => {
                lock.lost = Some(hold.token);
                self.close(now, name, hold.deadline.after(delay));
                self.command(now, name, Command::Exit, out);
            }
            Bond::Orphan => {}
        }
        self.tidy(name);
    }

    /// The lease of this member has not run for a while, so a coordinator may have passed it over, or have
    /// let another in since it granted what is under way: what this member waits for it asks for anew.
    fn ask_again(&mut self, now: LocalTime, out: &mut LockOut) {
        for name in self.mine.iter().cloned().collect::<Vec<_>>() {
            let mut effects = Outbox::default();
            let Some(mutex) = self.all.get_mut(&name).and_then(Lock::central_mut) else { continue };
            mutex.ask_again(&mut effects);
            let mut of_any = Outbox::default();
            effects.pour_into(&mut of_any, AnyMessage::Central, AnyTimer::Central);
            self.carry_out(now, &name, of_any, out);
        }
    }
}
