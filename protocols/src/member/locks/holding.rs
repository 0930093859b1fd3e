//! The member's part: its own holds, from entry to their end.

use std::collections::BTreeSet;

use super::super::message::{Changes, Extended, ListItem};
use super::coordinator::Deferred;
use super::map::Touched;
use super::{Heard, Lease, Lock, LockEffect, LockEvent, LockOut, Locks, LostReason, Term};
use crate::ids::{Epoch, FencingToken, LockName};
use crate::mutex::central::{Central, RequestNumber};
use crate::mutex::{AnyMessage, AnyTimer, Command, Phase};
use crate::protocol::Outbox;
use crate::time::{LocalTime, hold};

/// A hold of this member.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Hold {
    pub(super) token: FencingToken,
    /// When this member entered.
    pub(super) entered: LocalTime,
    /// Since when the lease extends it: what was promised before says nothing of it.
    pub(super) since: LocalTime,
    /// Until when it lasts, if no lease extends it. A deadline that has passed is final (rule 7).
    pub(super) until: LocalTime,
    pub(super) bond: Bond,
    /// The leader does not extend it.
    pub(super) refused: bool,
    /// A leader lists it: its lock has a coordinator.
    pub(super) listed: bool,
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

/// What extends the holds of this member, all at once.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct OwnLease {
    /// If it follows: what was acknowledged of its promises.
    pub(super) member: Lease,
    /// If it leads: until when it has its leader lease.
    pub(super) leader: LocalTime,
    /// And for how long those of its holds last that others have heard of.
    heard: Heard,
    /// No own hold that it does not list had a lease from before it led that lasts longer.
    pub(super) older: LocalTime,
    /// When the latest heartbeat was sent that another member answered and knows the list of.
    pub(super) listened: LocalTime,
    /// No hold was ended because one of these is over.
    runs: bool,
    heard_runs: bool,
}

impl OwnLease {
    /// Its ends that have yet to be seen to.
    fn ends(&self) -> impl Iterator<Item = LocalTime> {
        let all = self.runs.then(|| self.member.until.max(self.leader));
        all.into_iter().chain(self.heard_runs.then_some(self.heard.until))
    }

    /// Takes note of those ends that are over. Whether there are any.
    fn ends_by(&mut self, now: LocalTime) -> bool {
        let over = self.ends().any(|end| end <= now);
        self.runs &= self.member.until.max(self.leader) > now;
        self.heard_runs &= self.heard.until > now;
        over
    }
}

impl Hold {
    /// Until when it lasts.
    pub(super) fn deadline(&self, lease: &OwnLease) -> LocalTime {
        let extended = match self.bond {
            Bond::Lease if !self.refused && self.since < lease.member.stamp => lease.member.until,
            Bond::LeaderLease if self.listed && self.since < lease.heard.stamp => {
                lease.leader.max(lease.heard.until)
            }
            Bond::LeaderLease => lease.leader,
            Bond::Lease | Bond::Orphan => self.until,
        };
        self.until.max(extended)
    }
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
        self.contended.remove(name);
        let number = self.lock(name).central().filter(|_| leads).map(Central::latest);
        let before = match number {
            Some(number) => self.grant(now, name, rank, number),
            None => self.lock(name).highest,
        };
        let (advisory, listed) = (self.is_advisory(), self.has_coordinator(name));
        let lock = self.lock(name);
        // The member that granted it saw to the ceiling, or admission.
        let token = before.successor(Epoch(u64::MAX));
        let Some(token) = token.filter(|_| deadline > now && lock.intent.is_some()) else {
            return self.decline(now, name, out);
        };
        lock.highest = lock.highest.max(token);
        let (entered, since, until, refused) = (now, now, deadline, false);
        lock.hold = Some(Hold { token, entered, since, until, bond, refused, listed });
        let messages = lock.messages;
        if leads && number.is_none() {
            self.note_holder(now, rank, self.me, name, token);
        }
        self.deadlines.insert((deadline, name.clone()));
        let token = (!advisory).then_some(token);
        let term = Term::new(since, deadline, listed);
        let event = LockEvent::Entered { token, epoch, term, messages };
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
            let runs = |held: &Hold| held.deadline(&self.lease) > now && !lock.keeps();
            let held = lock.hold.filter(runs);
            held.map(|held| held.token).or_else(|| lock.lost.filter(|_| lock.closed_until > now))
        };
        self.all.iter().filter_map(|(name, lock)| Some((name.clone(), token(lock)?))).collect()
    }

    /// Whether this member holds a lock, or lost it so lately that nobody else may have it.
    pub(in crate::member) fn keeps_out(&self, now: LocalTime, name: &LockName) -> bool {
        let runs = |lock: &Lock| lock.hold.is_some_and(|held| held.deadline(&self.lease) > now);
        self.all.get(name).is_some_and(|lock| runs(lock) || lock.closed_until > now)
    }

    /// What has changed of what this member holds and waits for, for a promise.
    pub(in crate::member) fn changes(&mut self, now: LocalTime, out: &mut LockOut) -> Changes {
        self.end_what_is_over(now, out);
        self.look_at_touched();
        self.own_list.changes(self.leader_knows)
    }

    /// The leader knows of so many changes.
    pub(in crate::member) fn are_known(&mut self, changes: u64) {
        self.leader_knows = changes;
        self.own_list.forget(changes);
    }

    /// Brings up to date what is kept of those own locks that may have changed.
    pub(super) fn look_at_touched(&mut self) {
        let names = match self.all.take_touched() {
            Touched::These(names) => names,
            Touched::All => self
                .mine
                .iter()
                .chain(&self.waiting)
                .chain(self.own_list.names())
                .cloned()
                .collect(),
        };
        let (in_view, leads) = (self.seat.is_some(), self.coordinates());
        for name in names {
            let lock = self.all.get(&name).filter(|_| self.mine.contains(&name));
            let waits = lock.is_some_and(|lock| lock.intent.is_some() && lock.hold.is_none());
            if in_view {
                let item =
                    lock.map(
                        |lock| {
                            if leads { lock.listed_item() } else { self.own_item(&name, lock) }
                        },
                    );
                let item = item.unwrap_or_default();
                self.own_list.set(&name, item);
            }
            if !waits {
                self.waiting.remove(&name);
            } else if !self.waiting.contains(&name) {
                self.waiting.insert(name);
            }
        }
    }

    /// How an own lock stands in the list of a member.
    fn own_item(&self, name: &LockName, lock: &Lock) -> ListItem {
        let held = lock.hold.filter(|held| held.bond != Bond::Orphan);
        let mutex = lock.mutex.as_ref().filter(|mutex| mutex.phase() == Phase::Waiting);
        let number = mutex.map(|mutex| {
            // Among the members an intent is told apart by when it began.
            let since = lock.intent.as_ref().map(|intent| intent.since.0).unwrap_or_default();
            RequestNumber(if self.has_coordinator(name) { mutex.latest() } else { since })
        });
        ListItem { holds: held.map(|held| held.token), waits: number }
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
        let first = self.lease.member == Lease::default();
        let until =
            if first { seat.since.after(hold(seat.lease)) } else { self.lease.member.until };
        if until <= now {
            self.ask_again(now, out);
        }
        self.end_what_is_over(now, out);
        self.set_refused(now, &extended.refused, out);
        self.lease.member.until = self.lease.member.until.max(deadline);
        self.lease.member.stamp = self.lease.member.stamp.max(extended.stamp);
        self.lease.runs = true;
        out.push(LockEffect::Lease(self.lease.member));
        let contended: BTreeSet<&LockName> = extended.contended.iter().collect();
        self.tell_uncontended(now, &contended, out);
        for name in contended {
            self.is_wanted(now, name, out);
        }
        self.tell_who_waits(now, extended.stamp, out);
    }

    /// What the leader does not know as held ends when it would have, without this lease.
    fn set_refused(
        &mut self,
        now: LocalTime,
        refused: &[(LockName, FencingToken)],
        out: &mut LockOut,
    ) {
        let before = std::mem::take(&mut self.refused);
        for (name, token) in refused {
            let Some(held) = self.all.get_mut(name).and_then(|lock| lock.hold.as_mut()) else {
                continue;
            };
            if held.bond == Bond::Lease && token.may_become(held.token) {
                if !held.refused {
                    held.until = held.deadline(&self.lease);
                    held.refused = true;
                    self.deadlines.insert((held.until, name.clone()));
                    let event = LockEvent::Renewed { renewed: false, listed: held.listed };
                    out.push(LockEffect::Tell(name.clone(), event));
                }
                self.refused.insert(name.clone());
            }
        }
        for name in before.difference(&self.refused) {
            let hold = self.all.get_mut(name).and_then(|lock| lock.hold.as_mut());
            if let Some(held) = hold.filter(|held| held.refused) {
                held.refused = false;
                // From the next promise on, as if it had begun now.
                held.since = now;
                let event = LockEvent::Renewed { renewed: true, listed: held.listed };
                out.push(LockEffect::Tell(name.clone(), event));
            }
        }
    }

    /// Another wants what this member holds: the application is told. A grant that is only kept goes back.
    fn is_wanted(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        let Some(lock) = self.all.get(name) else { return };
        let Some(held) = lock.hold else { return };
        let deadline = held.deadline(&self.lease);
        if held.bond != Bond::Lease || deadline <= now || self.refused.contains(name) {
            return;
        }
        match (&lock.intent, lock.keeps()) {
            (Some(_), false) => self.tell_wanted(name, deadline, out),
            // It waits for admission, and was told nothing yet.
            (Some(_), true) => {}
            (None, _) => self.give_back(now, name, out),
        }
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
        // A deadline that the application was told is never taken back: a lease from before
        // this member led runs out by itself (rule 21).
        if until <= now {
            return self.lease.leader = until;
        }
        self.end_what_is_over(now, out);
        let mut heard = self.lease.heard;
        if self.lease.listened > LocalTime::default() {
            let until = until.after(self.longer_than_leader_lease());
            heard = Heard { stamp: self.lease.listened, until: until.max(heard.until) };
        }
        if (until, heard) != (self.lease.leader, self.lease.heard) {
            (self.lease.leader, self.lease.heard) = (until, heard);
            (self.lease.runs, self.lease.heard_runs) = (true, heard.until > now);
            // Also what has begun at this very moment.
            out.push(LockEffect::Lease(Lease { stamp: LocalTime(now.0 + 1), until, heard }));
        }
    }

    /// Whether an own hold of this member, which leads, lasts longer than the leader lease: a lease from
    /// before it led, which its application was told of.
    pub(in crate::member) fn has_older_leases(&self, now: LocalTime) -> bool {
        self.mine.iter().filter_map(|name| self.all.get(name)?.hold).any(|held| {
            held.bond == Bond::LeaderLease
                && held.deadline(&self.lease) > now.max(self.lease.leader)
        })
    }

    /// The holds end when they would have, whatever lease is yet to come.
    pub(super) fn end_lease(&mut self) {
        for name in &self.mine {
            let hold = self.all.get_mut(name).and_then(|lock| lock.hold.as_mut());
            if let Some(held) = hold {
                held.until = held.deadline(&self.lease);
                held.refused = false;
                self.deadlines.insert((held.until, name.clone()));
            }
        }
        self.lease = OwnLease::default();
    }

    /// Ends the holds whose deadline has passed. Returns when to look again.
    pub(in crate::member) fn expire_holds(
        &mut self,
        now: LocalTime,
        out: &mut LockOut,
    ) -> Option<LocalTime> {
        self.end_what_is_over(now, out);
        let first = self.deadlines.first().map(|(at, _)| *at);
        let ends = self.lease.ends().filter(|_| !self.mine.is_empty());
        first.into_iter().chain(ends).min()
    }

    fn end_what_is_over(&mut self, now: LocalTime, out: &mut LockOut) {
        if self.lease.ends_by(now) {
            for name in &self.mine {
                let Some(held) = self.all.get(name).and_then(|lock| lock.hold) else { continue };
                self.deadlines.insert((held.deadline(&self.lease), name.clone()));
            }
        }
        while let Some((at, name)) = self.deadlines.first().cloned().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, name.clone()));
            let held = self.all.get(&name).and_then(|lock| lock.hold);
            match held.map(|held| held.deadline(&self.lease)) {
                Some(deadline) if deadline <= now => {
                    self.lose(now, &name, LostReason::LeaseExpired, out);
                }
                // An end of the lease is seen to of itself.
                Some(deadline) if self.lease.ends().all(|end| deadline != end) => {
                    self.deadlines.insert((deadline, name));
                }
                Some(_) | None => {}
            }
        }
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
                let ended = hold.deadline(&self.lease);
                self.close(now, name, ended.after(delay));
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

impl Lock {
    /// How an own lock stands in the list of a leader.
    fn listed_item(&self) -> ListItem {
        let held = self.hold.filter(|held| held.bond == Bond::LeaderLease && held.listed);
        ListItem { holds: held.map(|held| held.token), waits: None }
    }
}
