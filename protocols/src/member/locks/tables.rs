//! What the leader knows of locks that the members grant among themselves.
//!
//! It grants nothing there, but it is asked who holds what when the view ends. Every promise lists
//! what its member holds and waits for; so the leader's table is as new as the latest promises, and
//! whole when all have answered a heartbeat that closed admission (rule 29 of `docs/views.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::message::{Changes, Leave, ListItem};
use super::changes::{Copied, MemberList};
use super::coordinator::TableEntry;
use super::{Lock, Locks};
use crate::ids::{FencingToken, Incarnation, LockName, MemberId};
use crate::mutex::AnyMutex;
use crate::mutex::central::RequestNumber;
use crate::time::LocalTime;

/// What the leader knows of what a member's latest promise listed.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Listing {
    pub(super) copied: Copied,
    /// Holds that are not as its list says.
    refused: BTreeSet<LockName>,
    /// Locks that it was granted and has not listed as held yet.
    pub(super) under_way: BTreeSet<LockName>,
    /// It was silent, and nothing is left of its requests.
    pub(super) forgotten: bool,
}

impl Listing {
    /// What a view begins with.
    pub(super) fn begin(list: MemberList) -> Self {
        Self { copied: Copied::begin(list), ..Self::default() }
    }
}

/// Somebody who waits.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Waiter {
    /// Since when, as far as the leader knows.
    pub(super) since: LocalTime,
    /// Among those that were known at once: the place in line.
    pub(super) place: u64,
    /// Of its intent, if a promise has listed it.
    pub(super) number: Option<RequestNumber>,
}

impl Locks {
    /// What a promise says of its member's list. Returns the requests of which it is to be made sure that
    /// they are known; nothing if the list is not known whole.
    pub(super) fn note_changes(
        &mut self,
        now: LocalTime,
        rank: MemberId,
        holder: Incarnation,
        changes: Changes,
    ) -> Option<Vec<(LockName, RequestNumber)>> {
        let (latest, digest) = (changes.latest, changes.digest);
        let listing = self.listings.entry(rank).or_default();
        let items = listing.copied.news(changes)?;
        let mut sought = std::mem::take(&mut listing.under_way);
        if std::mem::take(&mut listing.forgotten) {
            sought.extend(listing.copied.list.waits().cloned());
        }
        for (name, item) in items {
            self.note_item(now, rank, holder, &name, item);
            sought.insert(name);
        }
        let listing = self.listings.get_mut(&rank)?;
        if !listing.copied.is_at(latest, digest) {
            return None;
        }
        let waits = |name: LockName| Some((listing.copied.list.get(&name).waits?, name));
        let waits: Vec<_> = sought.into_iter().filter_map(waits).collect();
        let led = |(number, name): (RequestNumber, LockName)| {
            self.has_coordinator(&name).then_some((name, number))
        };
        let waits: Vec<_> = waits.into_iter().filter_map(led).collect();
        let granted = |(name, _): &&(LockName, RequestNumber)| {
            let entry = self.all.get(name).and_then(|lock| lock.entry.as_ref());
            entry.is_some_and(|entry| entry.holder == holder)
        };
        let under_way: BTreeSet<_> =
            waits.iter().filter(granted).map(|(name, _)| name.clone()).collect();
        self.listings.get_mut(&rank)?.under_way = under_way;
        Some(waits)
    }

    /// How a lock stands in the list of a member from now on.
    fn note_item(
        &mut self,
        now: LocalTime,
        rank: MemberId,
        holder: Incarnation,
        name: &LockName,
        item: ListItem,
    ) {
        let before = self.listings.entry(rank).or_default().copied.list.set(name, item);
        if self.has_coordinator(name) {
            if item.holds.is_some() {
                self.listings.entry(rank).or_default().refused.insert(name.clone());
            } else {
                self.listings.entry(rank).or_default().refused.remove(name);
                self.no_longer_renew(holder, name);
            }
            return;
        }
        if let Some(token) = item.holds {
            self.note_holder(now, rank, holder, name, token);
        } else if before.holds.is_some() {
            let struck = self.strike(now, holder, name);
            if let Some(entry) = struck.filter(|entry| self.may_have_lapsed(now, entry)) {
                self.close_after(now, name, &entry);
            }
        }
        if let Some(number) = item.waits {
            let lock = self.lock(name);
            let waiter = Waiter { since: now, place: 0, number: Some(number) };
            let known = lock.waiters.entry(rank).or_insert(waiter);
            match known.number {
                // It has been in the critical section since, though no promise said so.
                Some(earlier) if earlier != number => {
                    *known = waiter;
                    lock.moved = now;
                }
                Some(_) | None => known.number = Some(number),
            }
        } else if before.waits.is_some() {
            if let Some(lock) = self.all.get_mut(name) {
                lock.waiters.remove(&rank);
            }
            self.tidy(name);
        }
    }

    /// What a member lists as held and its lease does not extend: the table does not have it, or had it
    /// and its lease was over.
    pub(super) fn refused_to(
        &mut self,
        now: LocalTime,
        rank: MemberId,
        holder: Incarnation,
    ) -> Vec<(LockName, FencingToken)> {
        let Some(listing) = self.listings.get(&rank) else { return Vec::new() };
        let token = |name: &LockName| Some((name.clone(), listing.copied.list.get(name).holds?));
        let doubtful: Vec<_> = listing.refused.iter().filter_map(token).collect();
        let mut refused = Vec::new();
        for (name, token) in doubtful {
            self.adopt(now, rank, holder, &name, token);
            if !self.renew(now, holder, &name, token) {
                refused.push((name, token));
            }
        }
        if let Some(listing) = self.listings.get_mut(&rank) {
            listing.refused = refused.iter().map(|(name, _)| name.clone()).collect();
        }
        refused
    }

    /// The lease of a member is over: what it lists as held is to be looked at anew. Returns what that is.
    pub(super) fn refuse_all(&mut self, rank: MemberId) -> Vec<LockName> {
        let Some(listing) = self.listings.get(&rank) else { return Vec::new() };
        let held = listing.copied.list.items().filter(|(_, item)| item.holds.is_some());
        let held: Vec<LockName> = held.map(|(name, _)| name.clone()).collect();
        let led: BTreeSet<LockName> =
            held.iter().filter(|name| self.has_coordinator(name)).cloned().collect();
        if let Some(listing) = self.listings.get_mut(&rank) {
            listing.refused.extend(led);
        }
        held
    }

    /// A member leaves: what it holds it may go on to hold, and it waits for nothing.
    pub(in crate::member) fn on_leave(&mut self, now: LocalTime, from: Incarnation, leave: &Leave) {
        let rank = self.seat.as_ref().and_then(|seat| self.rank_of(from, seat.view.epoch));
        let Some(rank) = rank else { return };
        let listed = self.listings.get(&rank).into_iter();
        let listed = listed.flat_map(|listing| listing.copied.list.items());
        let mut items: BTreeMap<LockName, ListItem> =
            listed.map(|(name, _)| (name.clone(), ListItem::default())).collect();
        let holds = |token: FencingToken| ListItem { holds: Some(token), waits: None };
        items.extend(leave.holds.iter().map(|(name, token)| (name.clone(), holds(*token))));
        items.retain(|name, _| !self.has_coordinator(name));
        for (name, item) in items {
            self.note_item(now, rank, from, &name, item);
        }
        let tells_of = leave.tells_of();
        for (name, lock) in self.all.every() {
            let Some(mutex) = lock.mutex.as_mut().and_then(AnyMutex::central_mut) else { continue };
            // What it asked for it would not enter any more.
            mutex.withdraw(rank);
            lock.deferred.retain(|deferred| !deferred.is_of(rank));
            // Its releases may be on their way, or waited with it for admission.
            let over =
                |entry: &mut TableEntry| entry.holder == from && !tells_of(name, entry.token);
            if lock.entry.take_if(over).is_some() {
                mutex.expel();
                self.docket.stirred.insert(name.clone());
            }
        }
    }

    /// Somebody holds a lock. Of two that say so, the one with the higher token came later.
    pub(super) fn note_holder(
        &mut self,
        now: LocalTime,
        rank: MemberId,
        holder: Incarnation,
        name: &LockName,
        token: FencingToken,
    ) {
        let Some(seat) = &self.seat else { return };
        let busy_until = now.after(seat.member_lease);
        let (own, renewed) = (holder == self.me, holder != self.me);
        self.docket.highest = self.docket.highest.max(token);
        let lock = self.lock(name);
        lock.highest = lock.highest.max(token);
        lock.moved = now;
        match &mut lock.entry {
            Some(entry) if entry.token > token => {}
            Some(entry) if entry.token == token && entry.holder == holder => {
                entry.busy_until = entry.busy_until.max(busy_until);
                entry.renewed = renewed;
            }
            Some(_) | None => {
                let intent = lock.intent.as_ref().filter(|_| own).map(|intent| intent.note.clone());
                let note = intent.or_else(|| lock.notes.get(&rank).cloned()).unwrap_or_default();
                let (since, granted) = (now, None);
                lock.entry =
                    Some(TableEntry { holder, token, busy_until, renewed, since, note, granted });
                self.docket.due.insert((busy_until, name.clone()));
            }
        }
    }

    /// This member leaves a lock.
    pub(super) fn strike_own(&mut self, now: LocalTime, name: &LockName) {
        if !self.has_coordinator(name) {
            self.strike(now, self.me, name);
        }
    }

    /// A member no longer holds a lock.
    fn strike(
        &mut self,
        now: LocalTime,
        holder: Incarnation,
        name: &LockName,
    ) -> Option<TableEntry> {
        let lock = self.all.get_mut(name)?;
        let entry = lock.entry.take_if(|entry| entry.holder == holder);
        if entry.is_some() {
            lock.moved = now;
        }
        self.tidy(name);
        entry
    }

    /// Whether somebody has waited for so long, while nobody was seen to hold the lock and no token of
    /// it to be given, that a message must have been lost.
    pub(in crate::member) fn is_stalled(&mut self, now: LocalTime, patience: Duration) -> bool {
        self.look_at_touched();
        let Some(seat) = self.seat.as_ref().filter(|seat| seat.policy.has_peer_locks()) else {
            return false;
        };
        let long = |since: LocalTime| now - since > patience;
        let stalls = |lock: &Lock| {
            let own =
                lock.intent.as_ref().filter(|_| lock.hold.is_none()).map(|intent| intent.since);
            let waits = lock.waiters.values().map(|waiter| waiter.since).chain(own);
            let free = lock.entry.is_none() && lock.closed_until <= now;
            free && long(lock.moved) && waits.min().is_some_and(long)
        };
        let listed = self.listings.values().flat_map(|listing| listing.copied.list.waits());
        let waited = listed.chain(&self.waiting);
        let mut peer_locks = waited.filter(|name| !seat.algorithm(name).has_coordinator());
        self.coordinates()
            && long(self.docket.opened)
            && peer_locks.any(|name| self.all.get(name).is_some_and(stalls))
    }
}

impl Lock {
    /// Who is known to wait among the members, the first in line first. `own`: since when the leader
    /// itself does.
    pub(super) fn waiting_peers(&self, me: MemberId) -> Vec<MemberId> {
        let own = self.intent.as_ref().filter(|_| self.hold.is_none());
        let own =
            own.map(|intent| (Waiter { since: intent.since, place: u64::MAX, number: None }, me));
        let others = self.waiters.iter().map(|(member, waiter)| (*waiter, *member));
        let mut waiting: Vec<_> = others.chain(own).collect();
        waiting.sort_unstable();
        waiting.into_iter().map(|(_, member)| member).collect()
    }
}
