//! What a leader lists of its locks, so that others can tell it (rules 20 to 22 of
//! `docs/views.md`).
//!
//! A hold of its own is good for as long as its leader lease at first. Once another member has promised in
//! answer to a heartbeat that listed it, it is good for a lease, like anybody's. A list has room for
//! so many holds; one that is listed stays so until it ends, because others count on it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::message::{List, Note, TableHold};
use super::coordinator::TableEntry;
use super::holding::{Bond, Hold};
use super::{LockEffect, LockEvent, LockOut, Locks};
use crate::ids::{FencingToken, Incarnation, LockName};
use crate::time::{LocalTime, hold, wait_for};

/// How many of its own holds a leader lists, and how many of those who are not in the view.
const ROOM: usize = 64;

/// The leader's own holds, by whether it lists them.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct OwnListed {
    listed: BTreeSet<LockName>,
    /// What may find room one day.
    others: BTreeSet<LockName>,
}

impl OwnListed {
    /// A hold of the leader begins.
    pub(super) fn begins(&mut self, name: &LockName) {
        self.listed.remove(name);
        self.others.insert(name.clone());
    }
}

impl Locks {
    /// What the leader lists in a heartbeat of this number.
    pub(in crate::member) fn list(&mut self, now: LocalTime, seq: u64) -> List {
        let mut list = List::default();
        self.list_own(now, seq, &mut list);
        if self.has_outsiders(now) {
            self.list_outsiders(now, &mut list);
        }
        list
    }

    /// Its own running holds. Whoever could not tell one that finds no room, and lasts longer than the
    /// leader lease, has to wait for it.
    fn list_own(&mut self, now: LocalTime, seq: u64, list: &mut List) {
        let mut own = std::mem::take(&mut self.own_listed);
        own.listed
            .retain(|name| self.own_hold(now, name).is_some_and(|held| held.listed.is_some()));
        while own.listed.len() < ROOM {
            let Some(name) = own.others.pop_first() else { break };
            let led = self.has_coordinator(&name);
            let lists = |held: &Hold| held.bond == Bond::LeaderLease && held.listed.is_none();
            if led && self.own_hold(now, &name).as_ref().is_some_and(lists) {
                if let Some(held) = self.all.get_mut(&name).and_then(|lock| lock.hold.as_mut()) {
                    held.listed = Some(seq);
                }
                own.listed.insert(name);
            }
        }
        for name in &own.listed {
            let Some(held) = self.own_hold(now, name) else { continue };
            let intent = self.all.get(name).and_then(|lock| lock.intent.as_ref());
            let note = intent.map(|intent| intent.note.without_metadata()).unwrap_or_default();
            list.holds.push(entry(name, self.me, held.token, None, note));
        }
        self.own_listed = own;
        let longer = self.deadlines.iter().rev().take_while(|(at, _)| *at > self.lease.leader);
        let unlisted =
            |name: &LockName| self.own_hold(now, name).is_some_and(|held| held.listed.is_none());
        let mut longer = longer.filter(|(_, name)| unlisted(name));
        if let Some((at, _)) = longer.next() {
            list.rest = list.rest.max(wait_for(now.until(*at)));
        }
    }

    fn own_hold(&self, now: LocalTime, name: &LockName) -> Option<Hold> {
        let hold = self.all.get(name).filter(|_| self.mine.contains(name))?.hold;
        hold.filter(|held| held.deadline(&self.lease) > now)
    }

    /// What those hold who are not in the view.
    fn list_outsiders(&self, now: LocalTime, list: &mut List) {
        let Some(seat) = &self.seat else { return };
        let outside = |held: &&TableEntry| !self.is_of_view(held.holder) && held.busy_until > now;
        let mut room = ROOM;
        for (name, lock) in self.all.iter() {
            match lock.entry.as_ref().filter(outside) {
                Some(held) if room > 0 && seat.algorithm(name).has_coordinator() => {
                    let (rest, note) =
                        (self.rest(now, name, lock, held), held.note.without_metadata());
                    list.holds.push(entry(name, held.holder, held.token, rest, note));
                    room -= 1;
                }
                Some(held) => list.rest = list.rest.max(now.until(held.busy_until)),
                // Of a lock that the members grant, the entry may name a later holder.
                None if !seat.algorithm(name).has_coordinator() => {
                    list.rest = list.rest.max(now.until(lock.closed_until));
                }
                None => {}
            }
        }
    }

    /// Another member promised in answer to the heartbeat of this number.
    pub(in crate::member) fn is_heard(&mut self, now: LocalTime, seq: u64) {
        for name in &self.own_listed.listed {
            let hold = self.all.get_mut(name).and_then(|lock| lock.hold.as_mut());
            if let Some(held) = hold.filter(|held| held.deadline(&self.lease) > now) {
                held.heard |= held.listed.is_some_and(|first| first <= seq);
            }
        }
    }

    /// The holds that others have heard of last longer than the lease of all.
    pub(super) fn extend_what_is_heard(&mut self, now: LocalTime, out: &mut LockOut) {
        let until = self.lease.leader.after(self.longer_than_leader_lease());
        for name in &self.own_listed.listed {
            let own = self.all.get_mut(name).and_then(|lock| lock.hold.as_mut());
            let extends = |held: &&mut Hold| {
                held.heard && held.until < until && held.deadline(&self.lease) > now
            };
            let Some(held) = own.filter(extends) else { continue };
            held.until = until;
            let contended = self.contended.contains(name);
            let event = LockEvent::Extended { deadline: until, contended };
            out.push(LockEffect::Tell(name.clone(), event));
        }
    }

    /// By how much a hold of the leader that others have heard of lasts longer than its leader lease: as
    /// long as another's lease, from when the heartbeats were sent that the latest majority answered.
    fn longer_than_leader_lease(&self) -> Duration {
        let of = |seat: &super::Seat| hold(seat.lease).saturating_sub(hold(seat.patience));
        self.seat.as_ref().map(of).unwrap_or_default()
    }
}

fn entry(
    name: &LockName,
    holder: Incarnation,
    token: FencingToken,
    rest: Option<Duration>,
    note: Note,
) -> TableHold {
    TableHold { lock: name.clone(), holder, token, rest, note }
}
