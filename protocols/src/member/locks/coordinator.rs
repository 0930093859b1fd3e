//! The leader's part: the table of holders, their leases, and the gate before the coordinators.

use super::super::message::{Extended, Promise};
use super::{Base, Entry, Heard, Kept, LockName, LockOut, Locks};
use crate::ids::{Epoch, FencingToken, Incarnation, MemberId};
use crate::mutex::central::{self, RequestNumber};
use crate::mutex::{Mutex, Phase};
use crate::protocol::{Effect, Input, Outbox, Protocol};
use crate::time::LocalTime;

impl Locks {
    /// Lets members in from now on, or no longer.
    pub(in crate::member) fn set_open(&mut self, now: LocalTime, open: bool, out: &mut LockOut) {
        self.open = open;
        if open {
            self.work_off(now, out);
        }
    }

    /// Raises the ceiling of tokens.
    pub(in crate::member) fn set_ceiling(&mut self, ceiling: Epoch) {
        if let Some(seat) = &mut self.seat {
            seat.ceiling = ceiling;
        }
    }

    /// Whether some lock has used half of what the ceiling allows.
    pub(in crate::member) fn nears_ceiling(&self) -> bool {
        let Some(seat) = &self.seat else { return false };
        let half = Epoch(u64::midpoint(seat.view.epoch.0, seat.ceiling.0));
        self.locks.values().map(|lock| lock.highest).chain([self.floor]).any(|t| t.high() >= half)
    }

    /// Something for the coordinator of a lock: now if the gate is open, else later.
    pub(super) fn coordinate(
        &mut self,
        now: LocalTime,
        name: &LockName,
        kept: Kept,
        out: &mut LockOut,
    ) {
        if self.coordinates() {
            self.lock(name).kept.push_back(kept);
            self.work_off_lock(now, name, out);
        }
    }

    /// Works off what was kept while the gate was closed.
    fn work_off(&mut self, now: LocalTime, out: &mut LockOut) {
        let names: Vec<LockName> = self.locks.keys().cloned().collect();
        for name in names {
            self.work_off_lock(now, &name, out);
            self.tidy(&name);
        }
    }

    fn work_off_lock(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        while self.may_admit(now, name) {
            self.admit_carried(now, name, out);
            let Some(kept) = self.locks.get_mut(name).and_then(|lock| lock.kept.pop_front()) else {
                return;
            };
            match kept {
                Kept::Command(command) => {
                    self.feed(now, name, Input::Command(command), Base::Own, out);
                }
                Kept::Message(from, message) => {
                    self.feed(now, name, Input::Message { from, message }, Base::Own, out);
                }
                Kept::Expel => self.expel(now, name, out),
            }
            self.drop_entry_of_nobody(name);
        }
    }

    /// The gate: this leader has its office, the quiet time is over, and there is a token left.
    fn may_admit(&self, now: LocalTime, name: &LockName) -> bool {
        let (Some(lock), Some(seat)) = (self.locks.get(name), &self.seat) else { return false };
        self.open
            && now < self.office_until
            && lock.closed_until <= now
            && lock.highest.successor(seat.ceiling).is_some()
    }

    /// Lets the first of the waiters in that were carried over, if nobody is inside.
    fn admit_carried(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        let mut effects = Outbox::default();
        let Some(mutex) = self.locks.get_mut(name).and_then(|lock| lock.mutex.as_mut()) else {
            return;
        };
        mutex.start(now, &mut effects);
        self.carry_out(now, name, effects, out);
    }

    fn expel(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        let mut effects = Outbox::default();
        let Some(mutex) = self.locks.get_mut(name).and_then(|lock| lock.mutex.as_mut()) else {
            return;
        };
        if let Some(inside) = mutex.inside() {
            mutex.expel(inside, &mut effects);
        }
        self.carry_out(now, name, effects, out);
    }

    fn carry_out(
        &mut self,
        now: LocalTime,
        name: &LockName,
        mut effects: crate::protocol::OutboxOf<central::Central>,
        out: &mut LockOut,
    ) {
        for effect in effects.drain() {
            match effect {
                Effect::Send { to, message } => self.send(now, name, to, message, out),
                Effect::Tell(crate::mutex::Event::Entered) => {
                    self.entered(now, name, Base::Own, out);
                }
                Effect::Tell(crate::mutex::Event::Queued)
                | Effect::Arm { .. }
                | Effect::Disarm(_) => {}
            }
        }
    }

    /// A member is let in: the next token is its, and nobody else gets in for a whole lock wait.
    pub(super) fn record_grant(&mut self, now: LocalTime, name: &LockName, to: MemberId) {
        let Some(seat) = &self.seat else { return };
        let (ceiling, lock_wait) = (seat.ceiling, seat.lock_wait);
        let Some(&holder) = seat.incarnations.get(to.0 as usize) else { return };
        let own =
            (holder == self.me).then(|| self.lock(name).wish.as_ref().map(|w| w.note.clone()));
        let lock = self.lock(name);
        let note = own.unwrap_or_else(|| lock.notes.remove(&to)).unwrap_or_default();
        let token = lock.highest.successor(ceiling).unwrap_or(lock.highest);
        lock.highest = token;
        let busy_until = now.after(lock_wait);
        lock.entry = Some(Entry { holder, token, busy_until, since: now, note });
    }

    fn drop_entry_of_nobody(&mut self, name: &LockName) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        if lock.mutex.as_ref().is_some_and(|mutex| mutex.inside().is_none()) {
            lock.entry = None;
        }
    }

    /// A promise of a member: extends the leases of what it lists, and finds requests that got
    /// lost on the way.
    pub(in crate::member) fn on_promise(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        promise: Promise,
        out: &mut LockOut,
    ) -> Option<Extended> {
        let rank = self.rank_of(from, promise.epoch)?;
        self.heard.insert(rank, Heard { stamp: promise.stamp, at: now });
        let mut extended =
            Extended { stamp: promise.stamp, refused: Vec::new(), contended: Vec::new() };
        for (name, token) in promise.holds {
            if !self.extend(now, from, &name, token) {
                extended.refused.push((name, token));
            } else if self.is_contended(&name) {
                extended.contended.push(name);
            }
        }
        for (name, number) in promise.waits {
            self.find_again(now, rank, &name, number, out);
        }
        Some(extended)
    }

    /// Extends one lease, if it still runs: one that has ended stays ended.
    fn extend(
        &mut self,
        now: LocalTime,
        holder: Incarnation,
        name: &LockName,
        token: FencingToken,
    ) -> bool {
        let Some(seat) = &self.seat else { return false };
        let busy_until = now.after(seat.lock_wait);
        let entry = self.locks.get_mut(name).and_then(|lock| lock.entry.as_mut());
        let Some(entry) = entry.filter(|e| e.holder == holder && e.token == token) else {
            return false;
        };
        if entry.busy_until <= now {
            return false;
        }
        entry.busy_until = entry.busy_until.max(busy_until);
        true
    }

    fn is_contended(&self, name: &LockName) -> bool {
        let Some(lock) = self.locks.get(name) else { return false };
        lock.mutex.as_ref().is_some_and(|mutex| mutex.queue().next().is_some())
    }

    /// A member waits for a lock: its request must be in the queue.
    fn find_again(
        &mut self,
        now: LocalTime,
        rank: MemberId,
        name: &LockName,
        number: RequestNumber,
        out: &mut LockOut,
    ) {
        let lock = self.lock(name);
        let known = lock.mutex.as_ref().is_some_and(|mutex| {
            mutex.inside() == Some(rank) || mutex.queue().any(|member| member == rank)
        });
        let kept = lock.kept.iter().any(|kept| matches!(kept, Kept::Message(m, _) if *m == rank));
        if !known && !kept {
            let request = central::Message::Request(number);
            self.coordinate(now, name, Kept::Message(rank, request), out);
        }
    }

    /// Once a heartbeat: frees what nobody extended, passes over whoever is silent, and goes on
    /// with what had to wait.
    pub(in crate::member) fn tick(&mut self, now: LocalTime, out: &mut LockOut) {
        if !self.coordinates() {
            return;
        }
        self.pass_over_the_silent(now);
        let me = self.me;
        for lock in self.locks.values_mut() {
            let over = |entry: &Entry| entry.holder != me && entry.busy_until <= now;
            if lock.closed_until <= now {
                lock.closed_until = LocalTime::default();
            }
            if lock.entry.as_ref().is_some_and(over) && !lock.kept.contains(&Kept::Expel) {
                lock.kept.push_front(Kept::Expel);
            }
        }
        self.work_off(now, out);
    }

    /// A member that was not heard of for an office wait is not granted what it waits for: it could
    /// not be told. It asks again when it is back.
    fn pass_over_the_silent(&mut self, now: LocalTime) {
        let Some(seat) = &self.seat else { return };
        let (patience, me) = (seat.office_wait, seat.rank);
        let silent: Vec<MemberId> = seat
            .view
            .peers(me)
            .filter(|m| self.heard.get(m).is_none_or(|heard| now - heard.at > patience))
            .collect();
        for lock in self.locks.values_mut() {
            if let Some(mutex) = &mut lock.mutex {
                for member in &silent {
                    mutex.withdraw(*member);
                }
            }
        }
    }

    /// Whether a member has something in the table.
    pub(in crate::member) fn has_entry(&self, holder: Incarnation) -> bool {
        self.locks.values().filter_map(|lock| lock.entry.as_ref()).any(|e| e.holder == holder)
    }

    /// Whether the table names somebody who is not in the view and whose lease may run.
    pub(in crate::member) fn has_outsiders(&self, now: LocalTime) -> bool {
        self.locks.values().any(|lock| lock.closed_until > now)
    }

    /// How many locks this member holds, and how many it waits for.
    pub(in crate::member) fn counts(&self) -> (usize, usize) {
        let held = self.locks.values().filter(|lock| lock.hold.is_some()).count();
        let waiting = |lock: &&super::Lock| {
            lock.mutex.as_ref().is_some_and(|mutex| mutex.phase() == Phase::Waiting)
        };
        (held, self.locks.values().filter(waiting).count())
    }
}
