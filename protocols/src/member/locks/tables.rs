//! What the leader knows of locks that the members grant among themselves.
//!
//! It grants nothing there, but it is asked who holds what when the view ends. Every promise lists
//! what its member holds and waits for; so the leader's table is as new as the latest promises, and
//! whole when all have answered a heartbeat that closed admission (rule 29 of `docs/views.md`).

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::message::Leave;
use super::coordinator::TableEntry;
use super::{Lock, Locks};
use crate::ids::{FencingToken, Incarnation, LockName, MemberId};
use crate::mutex::AnyMutex;
use crate::mutex::central::RequestNumber;
use crate::time::LocalTime;

/// What a member's latest promise listed.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Listing {
    pub(super) holds: BTreeSet<LockName>,
    pub(super) waits: BTreeSet<LockName>,
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
    /// What a promise lists of such locks, in place of what the one before listed.
    pub(super) fn note_listing(
        &mut self,
        now: LocalTime,
        rank: MemberId,
        holds: &[(LockName, FencingToken)],
        waits: &[(LockName, RequestNumber)],
    ) {
        let Some(&holder) =
            self.seat.as_ref().and_then(|seat| seat.incarnations.get(rank.0 as usize))
        else {
            return;
        };
        let mut listing = Listing::default();
        for (name, token) in holds {
            self.note_holder(now, rank, holder, name, *token);
            listing.holds.insert(name.clone());
        }
        for (name, number) in waits {
            let lock = self.lock(name);
            let waiter = Waiter { since: now, place: 0, number: Some(*number) };
            let known = lock.waiters.entry(rank).or_insert(waiter);
            match known.number {
                // It has been in the critical section since, though no promise said so.
                Some(earlier) if earlier != *number => {
                    *known = waiter;
                    lock.moved = now;
                }
                Some(_) | None => known.number = Some(*number),
            }
            listing.waits.insert(name.clone());
        }
        let before = self.listings.insert(rank, listing.clone()).unwrap_or_default();
        for name in before.holds.difference(&listing.holds) {
            let struck = self.strike(now, holder, name);
            if let Some(entry) = struck.filter(|entry| self.may_have_lapsed(now, entry)) {
                self.close_after(now, name, &entry);
            }
        }
        for name in before.waits.difference(&listing.waits) {
            if let Some(lock) = self.all.get_mut(name) {
                lock.waiters.remove(&rank);
            }
            self.tidy(name);
        }
    }

    /// A member leaves: what it holds it may go on to hold, and it waits for nothing.
    pub(in crate::member) fn on_leave(&mut self, now: LocalTime, from: Incarnation, leave: &Leave) {
        let rank = self.seat.as_ref().and_then(|seat| self.rank_of(from, seat.view.epoch));
        let Some(rank) = rank else { return };
        let mut holds = leave.holds.clone();
        holds.retain(|(name, _)| !self.has_coordinator(name));
        self.note_listing(now, rank, &holds, &[]);
        for (name, lock) in &mut self.all {
            let Some(mutex) = lock.mutex.as_mut().and_then(AnyMutex::central_mut) else { continue };
            // What it asked for it would not enter any more.
            mutex.withdraw(rank);
            lock.deferred.retain(|deferred| !deferred.is_of(rank));
            // Its releases may be on their way, or waited with it for admission.
            let over =
                |entry: &mut TableEntry| entry.holder == from && !leave.tells_of(name, entry.token);
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
        let own = holder == self.me;
        self.docket.highest = self.docket.highest.max(token);
        let lock = self.lock(name);
        lock.highest = lock.highest.max(token);
        lock.moved = now;
        match &mut lock.entry {
            Some(entry) if entry.token > token => {}
            Some(entry) if entry.token == token && entry.holder == holder => {
                entry.busy_until = entry.busy_until.max(busy_until);
            }
            Some(_) | None => {
                let intent = lock.intent.as_ref().filter(|_| own).map(|intent| intent.note.clone());
                let note = intent.or_else(|| lock.notes.get(&rank).cloned()).unwrap_or_default();
                let (since, granted) = (now, None);
                lock.entry = Some(TableEntry { holder, token, busy_until, since, note, granted });
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
    pub(in crate::member) fn is_stalled(&self, now: LocalTime, patience: Duration) -> bool {
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
        let waited = self.listings.values().flat_map(|listing| &listing.waits).chain(&self.mine);
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
