//! What of the locks is carried from one view into the next.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::message::{Note, Seal, Table, TableHold};
use super::books::Waiter;
use super::coordinator::{Docket, Entry};
use super::holding::{Bond, Hold};
use super::{Lock, LockEffect, LockEvent, LockOut, Locks, LostReason};
use crate::ids::{FencingToken, Incarnation, LockName, MemberId};
use crate::mutex::{AnyMutex, Carried, Command, Phase};
use crate::record::Record;
use crate::time::LocalTime;

/// What a member reports when it seals a view.
#[derive(Clone, Debug, Default)]
pub(in crate::member) struct Report {
    pub(in crate::member) holds: Vec<(LockName, FencingToken, Note)>,
    pub(in crate::member) waits: Vec<(LockName, Duration)>,
}

/// Who holds and who waits, by the ranks of a view.
type States<'a> = BTreeMap<&'a LockName, Carried>;

impl Locks {
    /// What this member holds and wants: its part of a seal. Holds that end with an office are not
    /// in it: the office is over.
    pub(in crate::member) fn report(&self, now: LocalTime) -> Report {
        let mut report = Report::default();
        for (name, lock) in self.mine_all() {
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
        for (name, lock) in &self.all {
            if let Some(entry) = lock.entry.as_ref().filter(|entry| self.runs(lock, entry, now)) {
                // A member of the view may hold what another's clock keeps closed for who was before it.
                let outside = !seat.incarnations.contains(&entry.holder);
                table.holds.push(TableHold {
                    lock: name.clone(),
                    holder: entry.holder,
                    token: entry.token,
                    rest: (outside && lock.closed_until > now)
                        .then(|| now.until(lock.closed_until)),
                    note: entry.note.clone(),
                });
            }
            let waits: Vec<MemberId> = if seat.algorithm(name).is_led() {
                lock.waiting(seat.rank).collect()
            } else {
                lock.waiting_peers(seat.rank)
            };
            let waits: Vec<Incarnation> = waits
                .into_iter()
                .filter_map(|rank| seat.incarnations.get(rank.0 as usize).copied())
                .collect();
            if !waits.is_empty() {
                table.waits.push((name.clone(), waits));
            }
        }
        table
    }

    /// Whether an entry may still be believed in. Of its own holds the leader itself knows best.
    fn runs(&self, lock: &Lock, entry: &Entry, now: LocalTime) -> bool {
        if entry.holder == self.me {
            lock.hold.is_some_and(|hold| hold.deadline > now)
        } else {
            entry.busy_until > now
        }
    }

    /// This member resigned (rule 22): its own holds go on as a lease, but no longer than the
    /// office would have lasted.
    pub(in crate::member) fn resign(&mut self) {
        for name in &self.mine {
            let lock = self.all.get_mut(name);
            if let Some(held) = lock.and_then(|lock| lock.hold.as_mut())
                && held.bond == Bond::Office
            {
                held.bond = Bond::Lease;
            }
        }
        self.leave_view();
    }

    /// This member led and was deposed (rule 22): its own holds end.
    pub(in crate::member) fn depose(&mut self, out: &mut LockOut) {
        self.lose_those(|held| held.bond == Bond::Office, out);
    }

    /// An arbiter takes over where there was none: advisory holds end. Wishes stay, and so does what
    /// was said of the view with an arbiter that is to come.
    pub(in crate::member) fn lose_all(&mut self, out: &mut LockOut) {
        self.lose_those(|_| true, out);
        self.peers.forget_unarbitrated();
    }

    fn lose_those(&mut self, ends: impl Fn(Hold) -> bool, out: &mut LockOut) {
        let lost: Vec<LockName> = self
            .mine_all()
            .filter(|(_, lock)| lock.wish.is_some() && lock.hold.is_some_and(&ends))
            .map(|(name, _)| name.clone())
            .collect();
        for name in lost {
            self.mine.remove(&name);
            if let Some(lock) = self.all.get_mut(&name) {
                lock.hold = None;
                lock.wish = None;
            }
            out.push(LockEffect::Tell(name, LockEvent::Lost(LostReason::ViewChange)));
        }
        self.leave_view();
    }

    /// From now on no message of the view is said or heard. Wishes and holds stay.
    pub(in crate::member) fn leave_view(&mut self) {
        self.forget_kept();
        self.seat = None;
        self.heard.clear();
        self.docket = Docket::default();
        self.alarms.clear_all();
        self.listings.clear();
        self.peers.anew();
        self.all.retain(|_, lock| lock.wish.is_some() || lock.hold.is_some());
        for lock in self.all.values_mut() {
            lock.mutex = None;
            lock.entry = None;
            lock.notes.clear();
            lock.kept.clear();
            lock.waiters.clear();
            lock.rumour = None;
            lock.closed_until = LocalTime::default();
            lock.reserved = None;
        }
    }

    /// Enters a view: every mutex starts afresh, with its holder and its waiters.
    pub(in crate::member) fn install(
        &mut self,
        now: LocalTime,
        record: &Record,
        carried: &Table,
        out: &mut LockOut,
    ) {
        self.leave_view();
        self.seat = record.seat(self.me, now);
        self.floor = FencingToken::before(record.epoch);
        self.docket.highest = self.floor;
        self.latest = 0;
        self.office_until = LocalTime::default();
        let carried = &self.with_own(now, carried);
        if self.coordinates() {
            self.seed_table(now, record, carried);
        }
        let mut states = States::default();
        for held in &carried.holds {
            states.entry(&held.lock).or_default().holder = record.rank(held.holder);
        }
        for (name, waits) in &carried.waits {
            let ranks = waits.iter().filter_map(|member| record.rank(*member));
            states.entry(name).or_default().waiting = ranks.collect();
        }
        self.bind_holds(carried);
        self.seed_mutexes(now, &states);
        self.close_for_outsiders(now, record, carried);
        self.reconcile(now, out);
        self.hear_early(now, record.epoch, out);
    }

    /// Rule 30: whoever is not in the view and may hold a lock keeps the others out of it, wherever
    /// they grant it among themselves.
    fn close_for_outsiders(&mut self, now: LocalTime, record: &Record, carried: &Table) {
        for held in &carried.holds {
            if record.rank(held.holder).is_some() || self.is_led(&held.lock) {
                continue;
            }
            let wait = held.rest.unwrap_or(record.timing.lock_wait);
            let until = now.after(wait).after(self.lock_delay(&held.lock));
            let lock = self.lock(&held.lock);
            lock.closed_until = lock.closed_until.max(until);
            self.docket.due.insert((until, held.lock.clone()));
        }
    }

    /// The leader's table at the start of a view.
    fn seed_table(&mut self, now: LocalTime, record: &Record, carried: &Table) {
        for held in &carried.holds {
            let wait = held.rest.unwrap_or(record.timing.lock_wait);
            let busy_until = now.after(wait);
            let closed_until = busy_until.after(self.lock_delay(&held.lock));
            let lock = self.lock(&held.lock);
            if record.rank(held.holder).is_none() {
                // It cannot renew, and runs out.
                lock.closed_until = lock.closed_until.max(closed_until);
                self.docket.outsiders_until = self.docket.outsiders_until.max(closed_until);
                self.docket.due.insert((closed_until, held.lock.clone()));
            }
            self.docket.due.insert((busy_until, held.lock.clone()));
            let entry = Entry {
                holder: held.holder,
                token: held.token,
                busy_until,
                since: now,
                note: held.note.clone(),
                granted: None,
            };
            self.lock(&held.lock).entry = Some(entry);
            if let Some(rank) = record.rank(held.holder).filter(|_| !self.is_led(&held.lock)) {
                let listing = self.listings.entry(rank).or_default();
                listing.holds.insert(held.lock.clone());
            }
        }
        for (name, waits) in &carried.waits {
            self.lock(name);
            self.docket.stirred.insert(name.clone());
            for (place, rank) in (0..).zip(waits.iter().filter_map(|member| record.rank(*member))) {
                let (since, led) = (now, self.is_led(name));
                if !led && Some(rank) != record.rank(self.me) {
                    self.lock(name).waiters.insert(rank, Waiter { since, place, number: None });
                    self.listings.entry(rank).or_default().waits.insert(name.clone());
                }
            }
        }
    }

    /// A hold that the view knows goes on; another runs out (rule 24).
    fn bind_holds(&mut self, carried: &Table) {
        let (me, leads) = (self.me, self.coordinates());
        let known: BTreeMap<&LockName, FencingToken> = carried
            .holds
            .iter()
            .filter(|held| held.holder == me)
            .map(|held| (&held.lock, held.token))
            .collect();
        for name in &self.mine {
            let lock = self.all.get_mut(name);
            let Some(held) = lock.and_then(|lock| lock.hold.as_mut()) else { continue };
            // It may have entered again, unknown to the leader of the view before (rule 32).
            let is_known = known.get(name).is_some_and(|token| token.may_become(held.token));
            held.bond = match (is_known, leads) {
                (true, true) => Bond::Office,
                (true, false) => Bond::Lease,
                (false, _) => Bond::Orphan,
            };
        }
    }

    fn seed_mutexes(&mut self, now: LocalTime, states: &States<'_>) {
        let Some(seat) = self.seat.clone() else { return };
        let rank = seat.rank;
        let mine = |state: &Carried| state.holder == Some(rank) || state.waiting.contains(&rank);
        for (name, state) in states {
            // Among the members everybody has a part in what was carried over.
            if mine(state) || !seat.algorithm(name).is_led() {
                self.lock(name);
            }
        }
        let nothing = Carried::default();
        for (name, lock) in &mut self.all {
            let state = states.get(name).unwrap_or(&nothing);
            lock.mutex = Some(seat.mutex(name, state));
            // What begins as at first, begins when it is first used.
            lock.started = !states.contains_key(name);
            lock.highest = self.floor;
            lock.moved = now;
            if !seat.algorithm(name).is_led() {
                self.docket.stirred.insert(name.clone());
            }
        }
    }

    /// Brings every mutex to what the application wants by now.
    fn reconcile(&mut self, now: LocalTime, out: &mut LockOut) {
        let names: Vec<LockName> = self.all.keys().cloned().collect();
        for name in names {
            let lock = &self.all[&name];
            let phase = lock.mutex.as_ref().map_or(Phase::Idle, AnyMutex::phase);
            let holds = lock.hold.is_some_and(|hold| hold.bond != Bond::Orphan);
            let wants = lock.wish.is_some() && lock.hold.is_none();
            if phase == Phase::Inside && !holds || phase == Phase::Waiting && !wants {
                self.leave(now, &name, out);
            }
            if wants && phase != Phase::Waiting {
                self.command(now, &name, Command::Enter, out);
            }
            self.tidy(&name);
        }
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
