//! What of the locks is carried from one view into the next.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::super::message::{Note, Seal, Table, TableHold};
use super::{Bond, Entry, Lock, LockName, LockOut, Locks, LostReason};
use crate::ids::{FencingToken, Incarnation, MemberId};
use crate::mutex::central::Central;
use crate::mutex::{Carried, Command, Mutex, Phase};
use crate::record::Record;
use crate::time::{LocalTime, hold};

/// What a member reports when it seals a view.
#[derive(Clone, Debug, Default)]
pub(in crate::member) struct Report {
    pub(in crate::member) holds: Vec<(LockName, FencingToken, Note)>,
    pub(in crate::member) waits: Vec<(LockName, Duration)>,
}

impl Locks {
    /// What this member holds and wants: its part of a seal. Holds that end with an office are not
    /// in it: the office is over.
    pub(in crate::member) fn report(&self, now: LocalTime) -> Report {
        let mut report = Report::default();
        for (name, lock) in &self.locks {
            let Some(wish) = &lock.wish else { continue };
            match lock.hold.filter(|hold| hold.deadline > now) {
                Some(hold) if hold.bond == Bond::Lease => {
                    report.holds.push((name.clone(), hold.token, wish.note.clone()));
                }
                Some(_) => {}
                None => report.waits.push((name.clone(), now - wish.since)),
            }
        }
        report
    }

    /// A leader's whole table, for its heir. Entries that have ended are left out.
    pub(in crate::member) fn table(&self, now: LocalTime) -> Table {
        let mut table = Table::default();
        let Some(seat) = &self.seat else { return table };
        for (name, lock) in &self.locks {
            if let Some(entry) = lock.entry.as_ref().filter(|entry| self.runs(entry, now)) {
                table.holds.push(TableHold {
                    lock: name.clone(),
                    holder: entry.holder,
                    token: entry.token,
                    rest: (lock.closed_until > now).then(|| now.until(lock.closed_until)),
                    note: entry.note.clone(),
                });
            }
            let waits: Vec<Incarnation> = lock
                .waiting()
                .filter_map(|rank| seat.incarnations.get(rank.0 as usize).copied())
                .collect();
            if !waits.is_empty() {
                table.waits.push((name.clone(), waits));
            }
        }
        table
    }

    fn runs(&self, entry: &Entry, now: LocalTime) -> bool {
        if entry.holder == self.me { self.office_until > now } else { entry.busy_until > now }
    }

    /// This member resigned: its own holds go on as a lease, but no longer than the office would
    /// have lasted.
    pub(in crate::member) fn resign(&mut self, now: LocalTime) {
        let Some(seat) = &self.seat else { return };
        let latest = now.after(hold(seat.lock_wait)).min(self.office_until);
        for lock in self.locks.values_mut() {
            if let Some(held) = lock.hold.as_mut().filter(|held| held.bond == Bond::Office) {
                held.deadline = held.deadline.min(latest);
                held.bond = Bond::Lease;
            }
        }
        self.leave_view();
    }

    /// This member led and was deposed: its own holds end.
    pub(in crate::member) fn depose(&mut self, out: &mut LockOut) {
        for (name, lock) in &mut self.locks {
            if lock.hold.is_some_and(|held| held.bond == Bond::Office) {
                lock.hold = None;
                lock.wish = None;
                let event = super::LockEvent::Lost(LostReason::ViewChange);
                out.push(super::LockEffect::Tell(name.clone(), event));
            }
        }
        self.leave_view();
    }

    /// From now on no message of the view is said or heard. Wishes and holds stay.
    pub(in crate::member) fn leave_view(&mut self) {
        self.seat = None;
        self.open = false;
        self.heard.clear();
        for lock in self.locks.values_mut() {
            lock.mutex = None;
            lock.entry = None;
            lock.notes.clear();
            lock.kept = VecDeque::new();
            lock.closed_until = LocalTime::default();
        }
        self.locks.retain(|_, lock| lock.wish.is_some() || lock.hold.is_some());
    }

    /// Enters a view: every mutex starts afresh, with its holder and its waiters.
    ///
    /// `busy_until` is, for the leader, until when a carried hold keeps others out.
    pub(in crate::member) fn install(
        &mut self,
        now: LocalTime,
        record: &Record,
        carried: &Table,
        busy_until: LocalTime,
        out: &mut LockOut,
    ) {
        self.leave_view();
        let Some(seat) = record.seat(self.me) else { return };
        let leads = seat.rank == seat.view.leader;
        self.floor = FencingToken::before(record.epoch);
        self.office_until = LocalTime::default();
        self.seat = Some(seat);
        if leads {
            self.seed_table(now, record, carried, busy_until);
        }
        self.seed_mutexes(record, carried);
        self.bind_holds(leads, carried);
        self.reconcile(now, out);
    }

    /// The leader's table at the start of a view.
    fn seed_table(
        &mut self,
        now: LocalTime,
        record: &Record,
        carried: &Table,
        busy_until: LocalTime,
    ) {
        for held in &carried.holds {
            let busy_until = held.rest.map_or(busy_until, |rest| now.after(rest));
            let member = record.rank(held.holder).is_some();
            let lock = self.lock(&held.lock);
            if !member {
                // It cannot renew, and runs out.
                lock.closed_until = lock.closed_until.max(busy_until);
            }
            lock.entry = Some(Entry {
                holder: held.holder,
                token: held.token,
                busy_until,
                since: now,
                note: held.note.clone(),
            });
        }
        for (name, _) in &carried.waits {
            self.lock(name);
        }
    }

    fn seed_mutexes(&mut self, record: &Record, carried: &Table) {
        let Some((rank, view)) = self.seat.as_ref().map(|seat| (seat.rank, seat.view)) else {
            return;
        };
        let mut states: BTreeMap<&LockName, Carried> = BTreeMap::new();
        for held in &carried.holds {
            states.entry(&held.lock).or_default().holder = record.rank(held.holder);
        }
        for (name, waits) in &carried.waits {
            let ranks = waits.iter().filter_map(|member| record.rank(*member));
            states.entry(name).or_default().waiting = ranks.collect();
        }
        let nothing = Carried::default();
        let floor = self.floor;
        for (name, lock) in &mut self.locks {
            let state = states.get(name).unwrap_or(&nothing);
            lock.mutex = Some(Central::new(rank, view, state));
            lock.highest = floor;
        }
        for (name, state) in &states {
            let mine = state.holder == Some(rank) || state.waiting.contains(&rank);
            if mine && !self.locks.contains_key(*name) {
                let mutex = Some(Central::new(rank, view, state));
                let lock = Lock { mutex, highest: floor, ..Lock::default() };
                self.locks.insert((*name).clone(), lock);
            }
        }
    }

    /// A hold that the view knows goes on; another runs out.
    fn bind_holds(&mut self, leads: bool, carried: &Table) {
        let me = self.me;
        for (name, lock) in &mut self.locks {
            let Some(held) = &mut lock.hold else { continue };
            let known = carried
                .holds
                .iter()
                .any(|c| c.lock == *name && c.holder == me && c.token == held.token);
            held.bond = match (known, leads) {
                (true, true) => Bond::Office,
                (true, false) => Bond::Lease,
                (false, _) => Bond::Orphan,
            };
        }
    }

    /// Brings every mutex to what the application wants by now.
    fn reconcile(&mut self, now: LocalTime, out: &mut LockOut) {
        let names: Vec<LockName> = self.locks.keys().cloned().collect();
        for name in names {
            let lock = &self.locks[&name];
            let phase = lock.mutex.as_ref().map_or(Phase::Idle, Mutex::phase);
            match (phase, lock.hold.is_some(), lock.wish.is_some()) {
                (Phase::Inside, false, wish) => {
                    self.command(now, &name, Command::Exit, out);
                    if wish {
                        self.command(now, &name, Command::Enter, out);
                    }
                }
                (Phase::Waiting, _, false) => self.command(now, &name, Command::Exit, out),
                (Phase::Idle, false, true) => self.command(now, &name, Command::Enter, out),
                (Phase::Inside, true, _) | (Phase::Waiting, _, true) | (Phase::Idle, ..) => {}
            }
            self.tidy(&name);
        }
    }
}

impl Lock {
    /// Who waits, the first in line first: the queue, then the requests not heard yet.
    fn waiting(&self) -> impl Iterator<Item = MemberId> + '_ {
        let queue = self.mutex.iter().flat_map(Central::queue);
        let kept = self.kept.iter().filter_map(|kept| match kept {
            super::Kept::Message(from, crate::mutex::central::Message::Request(_)) => Some(*from),
            super::Kept::Message(..) | super::Kept::Command(_) | super::Kept::Expel => None,
        });
        queue.chain(kept)
    }
}

impl Table {
    /// The table as the seals of a view tell it. Of two reports of one lock the higher token is
    /// the later grant.
    pub(in crate::member) fn from_seals<'a>(
        seals: impl IntoIterator<Item = (Incarnation, &'a Seal)>,
    ) -> Self {
        let mut holds: BTreeMap<LockName, TableHold> = BTreeMap::new();
        let mut waits: BTreeMap<LockName, Vec<(Duration, Incarnation)>> = BTreeMap::new();
        for (holder, seal) in seals {
            for (lock, token, note) in &seal.holds {
                let known = holds.get(lock).is_some_and(|other| other.token >= *token);
                if !known {
                    let (lock, token, note) = (lock.clone(), *token, note.clone());
                    holds.insert(lock.clone(), TableHold { lock, holder, token, rest: None, note });
                }
            }
            for (lock, waited) in &seal.waits {
                waits.entry(lock.clone()).or_default().push((*waited, holder));
            }
        }
        let in_line = |mut waiting: Vec<(Duration, Incarnation)>| {
            waiting.sort_by(|a, b| b.cmp(a));
            waiting.into_iter().map(|(_, member)| member).collect()
        };
        Self {
            holds: holds.into_values().collect(),
            waits: waits.into_iter().map(|(lock, waiting)| (lock, in_line(waiting))).collect(),
        }
    }
}
