//! What a leader lists of its locks, so that others can tell it (rules 20 to 22 of
//! `docs/views.md`).
//!
//! A hold of its own is good for as long as its leader lease at first. Once another member has promised in
//! answer to a heartbeat that listed it, it is good for a lease, like anybody's. A list has room for
//! so many holds; one that is listed stays so until it ends, because others count on it.

use std::time::Duration;

use super::super::message::{List, Note, TableHold};
use super::Locks;
use super::coordinator::TableEntry;
use super::holding::Bond;
use crate::ids::{FencingToken, Incarnation, LockName};
use crate::time::{LocalTime, hold, wait_for};

/// How many of its own holds a leader lists, and how many of those who are not in the view.
const ROOM: usize = 64;

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
        let Some(seat) = &self.seat else { return };
        let own = |name: &LockName| self.all.get(name).and_then(|lock| lock.hold);
        let listed = self.mine.iter().filter_map(own).filter(|held| held.listed.is_some()).count();
        let mut room = ROOM.saturating_sub(listed);
        for name in &self.mine {
            let led = seat.algorithm(name).has_coordinator();
            let Some(lock) = self.all.get_mut(name) else { continue };
            let note = lock.intent.as_ref().map(|intent| for_list(&intent.note));
            let Some(held) = lock.hold.as_mut().filter(|held| held.deadline > now) else {
                continue;
            };
            if held.listed.is_none() && led && held.bond == Bond::LeaderLease && room > 0 {
                held.listed = Some(seq);
                room -= 1;
            }
            if held.listed.is_some() {
                let note = note.unwrap_or_default();
                list.holds.push(entry(name, self.me, held.token, None, note));
            } else if held.deadline > self.leader_lease_until {
                list.rest = list.rest.max(wait_for(now.until(held.deadline)));
            }
        }
    }

    /// What those hold who are not in the view.
    fn list_outsiders(&self, now: LocalTime, list: &mut List) {
        let Some(seat) = &self.seat else { return };
        let outside = |held: &&TableEntry| !self.is_of_view(held.holder) && held.busy_until > now;
        let mut room = ROOM;
        for (name, lock) in &self.all {
            match lock.entry.as_ref().filter(outside) {
                Some(held) if room > 0 && seat.algorithm(name).has_coordinator() => {
                    let (rest, note) = (self.rest(now, name, lock, held), for_list(&held.note));
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
    pub(in crate::member) fn is_heard(&mut self, seq: u64) {
        for name in &self.mine {
            let hold = self.all.get_mut(name).and_then(|lock| lock.hold.as_mut());
            if let Some(held) = hold
                && held.listed.is_some_and(|first| first <= seq)
            {
                held.heard = true;
            }
        }
    }

    /// By how much a hold of the leader that others have heard of lasts longer than its leader lease: as
    /// long as another's lease, from when the heartbeats were sent that the latest majority answered.
    pub(super) fn longer_than_leader_lease(&self) -> Duration {
        let of = |seat: &super::Seat| hold(seat.lease).saturating_sub(hold(seat.patience));
        self.seat.as_ref().map(of).unwrap_or_default()
    }
}

/// For people, without what would make heartbeats long.
fn for_list(note: &Note) -> Note {
    Note { owner: note.owner.clone(), metadata: None }
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
