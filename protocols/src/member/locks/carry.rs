//! What of the locks is carried from one view into the next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::message::{ListItem, Note, Seal, Table, TableHold};
use super::changes::{MemberList, OwnList};
use super::coordinator::{Docket, TableEntry};
use super::holding::Bond;
use super::tables::{Listing, Waiter};
use super::{Lock, LockEffect, LockEvent, LockOut, Locks, LostReason};
use crate::ids::{FencingToken, Incarnation, LockName, MemberId, PodUid};
use crate::mutex::central::RequestNumber;
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
    /// What this member holds and wants: its part of a seal.
    pub(in crate::member) fn report(&self, now: LocalTime) -> Report {
        let mut report = Report::default();
        for (name, lock) in self.mine_all() {
            let Some(intent) = &lock.intent else { continue };
            match lock.hold.filter(|hold| hold.deadline(&self.lease) > now && !lock.keeps()) {
                Some(hold) if hold.bond == Bond::Lease => {
                    report.holds.push((name.clone(), hold.token, intent.note.without_metadata()));
                }
                Some(_) => {}
                None => report.waits.push((name.clone(), now - intent.since)),
            }
        }
        report
    }

    /// A leader's whole table, for its successor. Of an entry that has ended only the closure is left.
    pub(in crate::member) fn table(&mut self, now: LocalTime) -> Table {
        self.see_to_what_is_due(now);
        let mut table = Table::default();
        let Some(seat) = &self.seat else { return table };
        for (name, lock) in self.all.iter() {
            let entry = lock.entry.as_ref().filter(|entry| self.runs(lock, entry, now));
            let held = entry.map(|entry| TableHold {
                lock: name.clone(),
                holder: entry.holder,
                token: entry.token,
                rest: self.rest(now, name, lock, entry),
                note: entry.note.without_metadata(),
            });
            table.holds.extend(held.or_else(|| lock.closure(now, name)));
            let waits: Vec<MemberId> = if seat.algorithm(name).has_coordinator() {
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

    /// For how much longer a hold keeps others out that nobody extends. The leader's own are not
    /// counted by its table.
    pub(super) fn rest(
        &self,
        now: LocalTime,
        name: &LockName,
        lock: &Lock,
        entry: &TableEntry,
    ) -> Option<Duration> {
        // A member of the view may hold what another's clock keeps closed for who was before it.
        let until = if self.is_of_view(entry.holder) {
            self.busy_until(entry).after(self.lock_delay(name))
        } else {
            self.busy_until(entry).max(lock.closed_until)
        };
        (entry.holder != self.me).then(|| now.until(until))
    }

    pub(super) fn is_of_view(&self, holder: Incarnation) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.incarnations.contains(&holder))
    }

    /// Adds to the table that a view begins with what this member, which leads it, knows besides: which
    /// locks are closed, and for how long the members that were left out keep others out.
    pub(in crate::member) fn complete(&self, now: LocalTime, record: &Record, table: &mut Table) {
        for held in &mut table.holds {
            if record.rank(held.holder).is_none() {
                held.rest = Some(held.rest_in(record));
            }
        }
        let listed: BTreeSet<LockName> = table.holds.iter().map(|held| held.lock.clone()).collect();
        let others = self.all.iter().filter(|(name, _)| !listed.contains(*name));
        table.holds.extend(others.filter_map(|(name, lock)| lock.closure(now, name)));
    }

    /// Whether an entry may still be believed in. Of its own holds the leader itself knows best.
    fn runs(&self, lock: &Lock, entry: &TableEntry, now: LocalTime) -> bool {
        if entry.holder == self.me {
            lock.hold.is_some_and(|hold| hold.deadline(&self.lease) > now)
        } else {
            self.busy_until(entry) > now
        }
    }

    /// This member resigned, or was deposed (rule 22): its own holds go on as a lease until the
    /// deadline that was told.
    pub(in crate::member) fn resign(&mut self) {
        self.end_lease();
        for name in &self.mine {
            let lock = self.all.get_mut(name);
            if let Some(held) = lock.and_then(|lock| lock.hold.as_mut())
                && held.bond == Bond::LeaderLease
            {
                held.bond = Bond::Lease;
            }
        }
        self.leave_view();
    }

    /// An arbiter takes over where there was none: advisory holds end. Intents stay, and so does what
    /// was said of the view with an arbiter that is to come.
    pub(in crate::member) fn lose_all(&mut self, out: &mut LockOut) {
        let lost: Vec<LockName> = self
            .mine_all()
            .filter(|(_, lock)| lock.intent.is_some() && lock.hold.is_some() && !lock.keeps())
            .map(|(name, _)| name.clone())
            .collect();
        for name in lost {
            self.mine.remove(&name);
            if let Some(lock) = self.all.get_mut(&name) {
                lock.hold = None;
                lock.intent = None;
            }
            out.push(LockEffect::Tell(name, LockEvent::Lost(LostReason::ViewChange)));
        }
        self.leave_view();
        self.links.forget_unarbitrated();
    }

    /// From now on no message of the view is said or heard. Intents and holds stay, and what is closed
    /// stays closed.
    pub(in crate::member) fn leave_view(&mut self) {
        self.end_lease();
        self.forget_kept();
        self.keep_notes();
        self.seat = None;
        self.heard.clear();
        self.docket = Docket::default();
        self.timers.clear_all();
        self.listings.clear();
        self.leases.clear();
        self.links.anew();
        self.contended.clear();
        self.refused.clear();
        self.own_list = OwnList::default();
        self.leader_knows = 0;
        self.listeners.clear();
        self.all.every().retain(|_, lock| {
            lock.intent.is_some()
                || lock.hold.is_some()
                || lock.closed_until != LocalTime::default()
        });
        for lock in self.all.every().values_mut() {
            lock.mutex = None;
            lock.entry = None;
            lock.notes.clear();
            lock.deferred.clear();
            lock.waiters.clear();
            lock.rumour = None;
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
        self.policy.clone_from(&record.policy);
        self.floor = FencingToken::before(record.epoch);
        self.docket.highest = self.floor;
        self.latest = 0;
        self.keep_closed(now);
        self.begin_lists(record, carried);
        let carried = &self.with_own(now, carried);
        if self.coordinates() {
            self.seed_table(now, record, carried);
        }
        self.begin_notes(record.leader);
        let mut states = States::default();
        for held in &carried.holds {
            states.entry(&held.lock).or_default().holder = record.rank(held.holder);
        }
        for (name, waits) in &carried.waits {
            let state = states.entry(name).or_default();
            // A member that lost it and asked for it anew asks once more: it is known as the holder.
            let ranks = waits.iter().filter_map(|member| record.rank(*member));
            state.waiting = ranks.filter(|rank| state.holder != Some(*rank)).collect();
        }
        self.bind_holds(now, carried, out);
        self.seed_mutexes(now, &states);
        self.close_for_outsiders(now, record, carried);
        self.reconcile(now, out);
        self.hear_early(now, record.epoch, out);
    }

    /// Rule 30: what a member knows to be closed stays so in the next view.
    fn keep_closed(&mut self, now: LocalTime) {
        for (name, lock) in self.all.every() {
            if lock.closed_until > now {
                self.docket.due.insert((lock.closed_until, name.clone()));
            } else {
                lock.closed_until = LocalTime::default();
                lock.lost = None;
            }
        }
    }

    /// Rules 20 and 30: a process that is not in the view and may hold a lock keeps the others out of it.
    /// Each member takes note of it: it may be the next that leads.
    fn close_for_outsiders(&mut self, now: LocalTime, record: &Record, carried: &Table) {
        for held in &carried.holds {
            if record.rank(held.holder).is_none() {
                self.close(now, &held.lock, now.after(held.rest_in(record)));
            }
        }
    }

    /// Nobody is let in before.
    pub(super) fn close(&mut self, now: LocalTime, name: &LockName, until: LocalTime) {
        if until > now {
            let lock = self.lock(name);
            lock.closed_until = lock.closed_until.max(until);
            self.docket.due.insert((until, name.clone()));
        }
    }

    /// What this member, or, if this member leads, what each other lists at the start of a view: as the table
    /// has it, so that only what differs is to be sent.
    fn begin_lists(&mut self, record: &Record, carried: &Table) {
        let leads = self.coordinates();
        let mut lists: BTreeMap<Incarnation, MemberList> = record
            .incarnations()
            .filter(|member| leads != (*member == self.me))
            .map(|member| (member, MemberList::default()))
            .collect();
        for held in &carried.holds {
            if let Some(list) = lists.get_mut(&held.holder) {
                list.set(&held.lock, ListItem { holds: Some(held.token), waits: None });
            }
        }
        for (name, waits) in &carried.waits {
            for member in waits {
                if let Some(list) = lists.get_mut(member) {
                    let waits = Some(RequestNumber::default());
                    list.set(name, ListItem { waits, ..list.get(name) });
                }
            }
        }
        if !leads {
            let own = lists.remove(&self.me);
            return self.own_list = OwnList::begin(own.unwrap_or_default());
        }
        for (member, list) in lists {
            let Some(rank) = record.rank(member) else { continue };
            self.listings.insert(rank, Listing::begin(list));
        }
    }

    /// The leader's table at the start of a view.
    fn seed_table(&mut self, now: LocalTime, record: &Record, carried: &Table) {
        for held in carried.holds.iter().filter(|held| held.holder != NOBODY) {
            // No lease is longer than the member lease; the rest may be, by the lock's delay.
            let member_lease = record.timing.member_lease;
            let busy_until =
                now.after(held.rest.map_or(member_lease, |rest| rest.min(member_lease)));
            if record.rank(held.holder).is_none() {
                // It cannot renew, and runs out.
                self.docket.outsiders_until = self.docket.outsiders_until.max(busy_until);
            }
            self.docket.due.insert((busy_until, held.lock.clone()));
            let entry = TableEntry {
                holder: held.holder,
                token: held.token,
                busy_until,
                renewed: false,
                since: now,
                note: held.note.clone(),
                granted: None,
            };
            self.lock(&held.lock).entry = Some(entry);
        }
        for (name, waits) in &carried.waits {
            self.lock(name);
            self.docket.stirred.insert(name.clone());
            for (place, rank) in (0..).zip(waits.iter().filter_map(|member| record.rank(*member))) {
                let (since, led) = (now, self.has_coordinator(name));
                if !led && Some(rank) != record.rank(self.me) {
                    self.lock(name).waiters.insert(rank, Waiter { since, place, number: None });
                }
            }
        }
    }

    /// A hold that the view knows goes on; another runs out (rule 24).
    fn bind_holds(&mut self, now: LocalTime, carried: &Table, out: &mut LockOut) {
        let (me, leads, policy) = (self.me, self.coordinates(), &self.policy);
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
            let listed = policy.algorithm(name.as_str()).has_coordinator();
            let was = (held.bond != Bond::Orphan, std::mem::replace(&mut held.listed, listed));
            held.bond = match (is_known, leads) {
                (true, true) => Bond::LeaderLease,
                (true, false) => Bond::Lease,
                (false, _) => Bond::Orphan,
            };
            if held.bond == Bond::LeaderLease && !listed {
                self.lease.older = self.lease.older.max(held.until);
            }
            if (is_known, listed) != was {
                held.since = now;
                let event = LockEvent::Renewed { renewed: is_known, listed };
                out.push(LockEffect::Tell(name.clone(), event));
            }
        }
    }

    fn seed_mutexes(&mut self, now: LocalTime, states: &States<'_>) {
        let Some(seat) = self.seat.clone() else { return };
        let rank = seat.rank;
        let mine = |state: &Carried| state.holder == Some(rank) || state.waiting.contains(&rank);
        for (name, state) in states {
            // Among the members everybody has a part in what was carried over.
            if mine(state) || !seat.algorithm(name).has_coordinator() {
                self.lock(name);
            }
        }
        let nothing = Carried::default();
        for (name, lock) in self.all.every() {
            let state = states.get(name).unwrap_or(&nothing);
            lock.mutex = Some(seat.mutex(name, state));
            // What begins as at first, begins when it is first used.
            lock.started = !states.contains_key(name);
            lock.highest = self.floor;
            lock.moved = now;
            if !seat.algorithm(name).has_coordinator() {
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
            let wants = lock.intent.is_some() && lock.hold.is_none();
            if phase == Phase::InSection && !holds || phase == Phase::Waiting && !wants {
                self.leave(now, &name, out);
            }
            if wants && phase != Phase::Waiting {
                self.command(now, &name, Command::Enter, out);
            }
            self.tidy(&name);
        }
    }
}

impl TableHold {
    /// For how much longer it keeps others out of a view that its holder is not in. What is told
    /// includes the lock's delay, so that no view adds it again.
    fn rest_in(&self, record: &Record) -> Duration {
        let delay = record.policy.lock_delay(self.lock.as_str());
        self.rest.unwrap_or_else(|| record.timing.member_lease.saturating_add(delay))
    }

    /// Whether a lock is closed though nobody holds it any more.
    pub(in crate::member) fn is_closure(&self) -> bool {
        self.holder == NOBODY
    }
}

impl Lock {
    /// What the next view is told of a lock that is closed though nobody holds it.
    fn closure(&self, now: LocalTime, name: &LockName) -> Option<TableHold> {
        (self.closed_until > now).then(|| TableHold {
            lock: name.clone(),
            holder: NOBODY,
            token: self.spent(),
            rest: Some(now.until(self.closed_until)),
            note: Note::default(),
        })
    }
}

/// Stands where a table names a holder. No pod has this UID.
const NOBODY: Incarnation = Incarnation { pod: PodUid(0), run: 0 };

impl Table {
    /// What of it a member goes by that does not lead: its own holds and waits, what those hold that are not
    /// in the view, and all that members grant among themselves.
    #[must_use]
    pub(in crate::member) fn about(&self, member: Incarnation, record: &Record) -> Self {
        let led = |lock: &LockName| record.policy.algorithm(lock.as_str()).has_coordinator();
        let concerns = |held: &&TableHold| {
            held.holder == member || record.rank(held.holder).is_none() || !led(&held.lock)
        };
        let waits = self.waits.iter().filter(|(lock, who)| who.contains(&member) || !led(lock));
        Self {
            holds: self.holds.iter().filter(concerns).cloned().collect(),
            waits: waits.cloned().collect(),
        }
    }

    /// The same, so much later.
    #[must_use]
    pub(in crate::member) fn aged(&self, age: Duration) -> Self {
        let mut table = self.clone();
        for rest in table.holds.iter_mut().filter_map(|held| held.rest.as_mut()) {
            *rest = rest.saturating_sub(age);
        }
        table
    }

    /// A member of the view before that is in the next can renew: what it held lasts as long as its
    /// lease, and the lock's delay comes after that, if it comes.
    pub(in crate::member) fn take_back_delays(&mut self, before: &Record, next: &Record) {
        let stays = |held: &&mut TableHold| {
            before.rank(held.holder).is_some() && next.rank(held.holder).is_some()
        };
        for held in self.holds.iter_mut().filter(stays) {
            let delay = before.policy.lock_delay(held.lock.as_str());
            held.rest = held.rest.map(|rest| rest.saturating_sub(delay));
        }
    }

    /// The table as the seals of a view tell it, with what they say that its leader `listed`. Of two
    /// reports of one lock the higher token is the later grant; of one grant the longer counts.
    pub(in crate::member) fn from_seals<'a>(
        seals: impl IntoIterator<Item = (Incarnation, &'a Seal)>,
        listed: Vec<TableHold>,
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
        let longest = |held: &TableHold| (held.token, held.rest.unwrap_or(Duration::MAX));
        for held in listed {
            if holds.get(&held.lock).is_none_or(|known| longest(known) < longest(&held)) {
                holds.insert(held.lock.clone(), held);
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
