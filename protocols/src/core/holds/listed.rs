//! What the leader knows of its members' holds and waits by what their promises list.
//!
//! What it grants it knows at once. What members take by each other's permission it learns here: it is asked
//! who holds what when the view ends. Every promise lists what its member holds and waits for; so the
//! leader's table is as new as the latest promises, and whole when all have answered a heartbeat that closed
//! admission (rule 29 of `docs/views.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::message::{Changes, Leave, ListItem, Promise};
use super::changes::{Copied, MemberList};
use super::entries::TableEntry;
use super::{Holds, NameState, Notice};
use crate::ids::{Epoch, FencingToken, HoldName, Incarnation, MemberId, RequestNumber};
use crate::policy::LeaseClass;
use crate::time::LocalTime;

/// How many names the members of a group may hold and wait for, all in all. Members hear of it a heartbeat
/// later, so that it may become some more.
pub const GROUP_MAX: usize = 50_000;

/// What the leader knows of what a member's latest promise listed.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Listing {
    pub(super) copied: Copied,
    /// Holds that are not as its list states.
    refused: BTreeSet<HoldName>,
    /// What it was granted and has not listed as held yet.
    pub(super) under_way: BTreeSet<HoldName>,
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
    /// Of its claim, if a promise has listed it.
    pub(super) number: Option<RequestNumber>,
}

/// A member's promise, as far as it is about holds.
pub(in crate::core) struct Heard {
    pub(in crate::core) rank: MemberId,
    /// It is the first of the view.
    pub(in crate::core) first: bool,
    /// The requests of which it is to be made sure that they are known.
    pub(in crate::core) wants: Vec<(HoldName, RequestNumber)>,
}

impl Holds {
    /// The rank of a member in the view of that number, if this member is in it.
    pub(in crate::core) fn rank_of(&self, member: Incarnation, epoch: Epoch) -> Option<MemberId> {
        self.seat.as_ref().filter(|seat| seat.view.epoch == epoch)?.rank_of(member)
    }

    /// What a promise states about its member's list, which its lease extends from now on. Nothing if the list is
    /// not known whole.
    pub(in crate::core) fn hear_promise(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        promise: Promise,
    ) -> Option<Heard> {
        let rank = self.rank_of(from, promise.epoch)?;
        // Rule 24: what has ended stays ended.
        self.end_leases(now);
        let first = !self.heard.contains_key(&rank);
        self.hear(rank, now);
        let wants = self.note_changes(now, rank, from, promise.changes)?;
        self.note_notes(rank, from, promise.notes);
        let seat = self.seat.as_ref()?;
        for class in LeaseClass::ALL {
            let until = now.after(seat.wait(class));
            self.leases.insert((from, class), until);
            self.leases_last_until = self.leases_last_until.min(until);
        }
        Some(Heard { rank, first, wants })
    }

    /// Whether the members hold and wait for as much as a group may: as the leader knows it, which others hear.
    pub(in crate::core) fn are_full(&self) -> bool {
        if !self.leads() {
            return self.admission.full;
        }
        self.listed + self.own.len() >= GROUP_MAX
    }

    /// How many changes of a member's list are known here.
    pub(in crate::core) fn known_of(&self, member: Incarnation) -> u64 {
        let rank = self.seat.as_ref().and_then(|seat| seat.rank_of(member));
        let listing = rank.and_then(|rank| self.listings.get(&rank));
        listing.map(|listing| listing.copied.known()).unwrap_or_default()
    }

    /// What a promise states about its member's list. Returns the requests of which it is to be made sure that
    /// they are known; nothing if the list is not known whole.
    pub(super) fn note_changes(
        &mut self,
        now: LocalTime,
        rank: MemberId,
        holder: Incarnation,
        changes: Changes,
    ) -> Option<Vec<(HoldName, RequestNumber)>> {
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
        if !listing.copied.settle_at(latest, digest) {
            return None;
        }
        let waits = |name: HoldName| Some((listing.copied.list.get(&name).waits?, name));
        let waits: Vec<_> = sought.into_iter().filter_map(waits).collect();
        let led = |(number, name): (RequestNumber, HoldName)| {
            self.is_led(&name).then_some((name, number))
        };
        let waits: Vec<_> = waits.into_iter().filter_map(led).collect();
        let granted = |(name, _): &&(HoldName, RequestNumber)| {
            let entry = self.all.get(name).and_then(|held| held.entry.as_ref());
            entry.is_some_and(|entry| entry.holder == holder)
        };
        let under_way: BTreeSet<_> =
            waits.iter().filter(granted).map(|(name, _)| name.clone()).collect();
        self.listings.get_mut(&rank)?.under_way = under_way;
        Some(waits)
    }

    /// How a name stands in the list of a member from now on.
    fn note_item(
        &mut self,
        now: LocalTime,
        rank: MemberId,
        holder: Incarnation,
        name: &HoldName,
        item: ListItem,
    ) {
        let list = &mut self.listings.entry(rank).or_default().copied.list;
        let length = list.len();
        let before = list.set(name, item);
        self.listed = self.listed + list.len() - length;
        if self.is_led(name) {
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
            if let Some(entry) = struck.filter(|entry| self.may_have_lapsed(now, name, entry)) {
                self.close_after(now, name, &entry);
            }
        }
        if let Some(number) = item.waits {
            let held = self.held(name);
            let waiter = Waiter { since: now, place: 0, number: Some(number) };
            let known = held.waiters.entry(rank).or_insert(waiter);
            match known.number {
                // It has been in the critical section since, though no promise reported it.
                Some(earlier) if earlier != number => {
                    *known = waiter;
                    held.moved = now;
                }
                Some(_) | None => known.number = Some(number),
            }
        } else if before.waits.is_some() {
            if let Some(held) = self.all.get_mut(name) {
                held.waiters.remove(&rank);
            }
            self.notice(Notice::Idle(name.clone()));
        }
    }

    /// What a member lists as held and it is not sure that its lease extends: the table may not have it, or
    /// had it and its lease was over.
    pub(in crate::core) fn doubtful(&self, rank: MemberId) -> Vec<(HoldName, FencingToken)> {
        let Some(listing) = self.listings.get(&rank) else { return Vec::new() };
        let token = |name: &HoldName| Some((name.clone(), listing.copied.list.get(name).holds?));
        listing.refused.iter().filter_map(token).collect()
    }

    /// What of it the lease does not extend indeed.
    pub(in crate::core) fn set_doubtful(
        &mut self,
        rank: MemberId,
        refused: &[(HoldName, FencingToken)],
    ) {
        if let Some(listing) = self.listings.get_mut(&rank) {
            listing.refused = refused.iter().map(|(name, _)| name.clone()).collect();
        }
    }

    /// A lease of a member is over: what it lists as held of that class is to be looked at anew. Returns what that
    /// is.
    pub(super) fn refuse_all(&mut self, rank: MemberId, class: LeaseClass) -> Vec<HoldName> {
        let Some(listing) = self.listings.get(&rank) else { return Vec::new() };
        let held = listing.copied.list.items().filter(|(_, item)| item.holds.is_some());
        let held = held.map(|(name, _)| name).filter(|name| self.class(name) == class);
        let held: Vec<HoldName> = held.cloned().collect();
        let led: BTreeSet<HoldName> =
            held.iter().filter(|name| self.is_led(name)).cloned().collect();
        if let Some(listing) = self.listings.get_mut(&rank) {
            listing.refused.extend(led);
        }
        held
    }

    /// A member leaves: what it holds it may go on to hold, and it waits for nothing.
    pub(in crate::core) fn on_leave(&mut self, now: LocalTime, from: Incarnation, leave: &Leave) {
        let Some(rank) = self.seat.as_ref().and_then(|seat| seat.rank_of(from)) else { return };
        let listed = self.listings.get(&rank).into_iter();
        let listed = listed.flat_map(|listing| listing.copied.list.items());
        let mut items: BTreeMap<HoldName, ListItem> =
            listed.map(|(name, _)| (name.clone(), ListItem::default())).collect();
        let holds = |token: FencingToken| ListItem { holds: Some(token), waits: None };
        items.extend(leave.holds.iter().map(|(name, token)| (name.clone(), holds(*token))));
        items.retain(|name, _| !self.is_led(name));
        for (name, item) in items {
            self.note_item(now, rank, from, &name, item);
        }
        // What it asked for it would not enter any more.
        self.notice(Notice::Left(rank));
        let tells_of = leave.tells_of();
        // Its releases may be on their way, or wait with the leader for admission.
        let over = |name: &HoldName, held: &NameState| {
            let entry = held.entry.as_ref().filter(|entry| entry.holder == from);
            self.is_led(name) && entry.is_some_and(|entry| !tells_of(name, entry.token))
        };
        let over = self.all.iter().filter(|(name, held)| over(name, held));
        for name in over.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            if let Some(held) = self.all.get_mut(&name) {
                held.entry = None;
            }
            self.notice(Notice::Expelled(name.clone()));
            self.notice(Notice::Stirred(name));
        }
    }

    /// A member reports that it holds what the leader takes for free: where nothing arbitrates, it does from
    /// now on.
    pub(in crate::core) fn adopt(
        &mut self,
        now: LocalTime,
        rank: MemberId,
        holder: Incarnation,
        name: &HoldName,
        token: FencingToken,
    ) {
        let Some(seat) = &self.seat else { return };
        let busy_until = now.after(seat.wait(self.class(name)));
        let (since, granted, renewed) = (now, None, false);
        let held = self.held(name);
        let note = held.notes.remove(&rank).unwrap_or_default();
        held.entry = Some(TableEntry { holder, token, busy_until, renewed, since, note, granted });
        self.due.insert((busy_until, name.clone()));
    }

    /// Whether nobody is known to hold it, so that the one that reports it may where nothing arbitrates.
    pub(in crate::core) fn may_adopt(&self, now: LocalTime, name: &HoldName) -> bool {
        self.is_advisory() && self.all.get(name).is_none_or(|held| held.is_free(now))
    }

    /// Somebody holds it. Of two that report it, the one with the higher token came later.
    pub(super) fn note_holder(
        &mut self,
        now: LocalTime,
        rank: MemberId,
        holder: Incarnation,
        name: &HoldName,
        token: FencingToken,
    ) {
        let Some(seat) = &self.seat else { return };
        let busy_until = now.after(seat.wait(self.class(name)));
        let (own, renewed) = (holder == self.me, holder != self.me);
        self.highest = self.highest.max(token);
        let held = self.held(name);
        held.highest = held.highest.max(token);
        held.seen = held.seen.max(token);
        held.moved = now;
        match &mut held.entry {
            Some(entry) if entry.token > token => {}
            Some(entry) if entry.token == token && entry.holder == holder => {
                entry.busy_until = entry.busy_until.max(busy_until);
                entry.renewed = renewed;
            }
            Some(_) | None => {
                let claim = held.claim.as_ref().filter(|_| own).map(|claim| claim.note.clone());
                let note = claim.or_else(|| held.notes.get(&rank).cloned()).unwrap_or_default();
                let (since, granted) = (now, None);
                held.entry =
                    Some(TableEntry { holder, token, busy_until, renewed, since, note, granted });
                self.due.insert((busy_until, name.clone()));
            }
        }
    }

    /// A member no longer holds it.
    pub(super) fn strike(
        &mut self,
        now: LocalTime,
        holder: Incarnation,
        name: &HoldName,
    ) -> Option<TableEntry> {
        let held = self.all.get_mut(name)?;
        let entry = held.entry.take_if(|entry| entry.holder == holder);
        if entry.is_some() {
            held.moved = now;
        }
        self.notice(Notice::Idle(name.clone()));
        entry
    }

    /// Whether somebody has waited for so long for what the members grant, while nobody was seen to hold it
    /// and no token of it to be given, that a message must have been lost.
    pub(in crate::core) fn look_for_stall(&mut self, now: LocalTime, patience: Duration) -> bool {
        self.look_at_touched();
        let Some(seat) = self.seat.as_ref().filter(|seat| !seat.policy.is_all_led()) else {
            return false;
        };
        let long = |since: LocalTime| now - since > patience;
        let stalls = |held: &NameState| {
            let own = held.claim.as_ref().filter(|_| held.hold.is_none()).map(|claim| claim.since);
            let waits = held.waiters.values().map(|waiter| waiter.since).chain(own);
            held.is_free(now) && long(held.moved) && waits.min().is_some_and(long)
        };
        let listed = self.listings.values().flat_map(|listing| listing.copied.list.waits());
        let mut among_members = listed.chain(&self.waiting).filter(|name| !seat.is_led(name));
        seat.leads()
            && long(self.admission.opened)
            && among_members.any(|name| self.all.get(name).is_some_and(stalls))
    }
}

impl NameState {
    /// Who is known to wait among the members, the first in line first. `own`: since when the leader
    /// itself does.
    pub(super) fn waiting_members(&self, me: MemberId) -> Vec<MemberId> {
        let own = self.claim.as_ref().filter(|_| self.hold.is_none());
        let own =
            own.map(|claim| (Waiter { since: claim.since, place: u64::MAX, number: None }, me));
        let others = self.waiters.iter().map(|(member, waiter)| (*waiter, *member));
        let mut waiting: Vec<_> = others.chain(own).collect();
        waiting.sort_unstable();
        waiting.into_iter().map(|(_, member)| member).collect()
    }
}
