//! What a leader lists of holds, so that others can report it (rules 20 to 22 of
//! `docs/views.md`).
//!
//! A hold of its own is good for as long as its leader lease at first. Once another member has promised in
//! answer to a heartbeat that listed it, it is good for a lease, like anybody's. Like a member's list for its
//! leader, this one travels as what has changed in it ([`changes`](super::changes)).

use std::time::Duration;

use super::super::message::{LeaderList, TableHold};
use super::entries::TableEntry;
use super::{Holds, Seat};
use crate::ids::Incarnation;
use crate::time::{LocalTime, hold, wait_for};

/// How many holds of those who are not in the view a leader lists.
const ROOM: usize = 64;

impl Holds {
    /// What the leader lists for each member, but for its own holds.
    pub(in crate::core) fn list(&mut self, now: LocalTime) -> LeaderList {
        self.look_at_touched();
        let others = self.seat.iter().flat_map(Seat::incarnations);
        let others = others.filter(|member| *member != self.me);
        let known = others.map(|member| self.listeners.get(&member).copied().unwrap_or_default());
        self.own_list.forget(known.min().unwrap_or(u64::MAX));
        let mut list = LeaderList { rest: self.unlisted_for(now), ..LeaderList::default() };
        if self.has_outsiders(now) {
            self.list_outsiders(now, &mut list);
        }
        list
    }

    /// The same with its own holds, as far as a member does not know them and changes up to `under_way` are
    /// not on their way to it.
    pub(in crate::core) fn list_for(
        &self,
        member: Incarnation,
        under_way: Option<u64>,
        list: &LeaderList,
    ) -> LeaderList {
        let known = under_way.or_else(|| self.listeners.get(&member).copied());
        let changes = self.own_list.changes(known.unwrap_or_default());
        let held = changes.items.iter().filter(|(_, item)| item.holds.is_some());
        let notes = held.filter_map(|(name, _)| {
            let claim = self.all.get(name)?.claim.as_ref()?;
            Some((name.clone(), claim.note.without_metadata()))
        });
        LeaderList { notes: notes.collect(), changes, ..list.clone() }
    }

    /// For how much longer holds of its own last that it does not list: leases from before it led.
    fn unlisted_for(&self, now: LocalTime) -> Duration {
        let older = self.lease.older;
        if older > self.lease.leader { wait_for(now.until(older)) } else { Duration::ZERO }
    }

    /// What those hold who are not in the view.
    fn list_outsiders(&self, now: LocalTime, list: &mut LeaderList) {
        let Some(seat) = &self.seat else { return };
        let outside =
            |entry: &&TableEntry| !self.is_of_view(entry.holder) && entry.busy_until > now;
        let mut room = ROOM;
        for (name, held) in self.all.iter() {
            match held.entry.as_ref().filter(outside) {
                Some(entry) if room > 0 && seat.is_led(name) => {
                    let (rest, note) =
                        (self.rest(now, name, held, entry), entry.note.without_metadata());
                    let (name, holder, token) = (name.clone(), entry.holder, entry.token);
                    list.outsiders.push(TableHold { name, holder, token, rest, note });
                    room -= 1;
                }
                Some(entry) => list.rest = list.rest.max(now.until(entry.busy_until)),
                // Of what the members grant, the entry may name a later holder.
                None if !seat.is_led(name) => {
                    list.rest = list.rest.max(now.until(held.closed_until));
                }
                None => {}
            }
        }
    }

    /// Another member promised in answer to a heartbeat that was sent at that time, and knows so many changes
    /// of the list; none if it could not make sense of them.
    pub(in crate::core) fn note_heard(&mut self, from: Incarnation, sent: LocalTime, known: u64) {
        self.listeners.insert(from, known);
        if known > 0 {
            self.lease.listened = self.lease.listened.max(sent);
        }
    }

    /// By how much a hold of the leader that others have heard of lasts longer than its leader lease: as
    /// long as another's lease, from when the heartbeats were sent that the latest majority answered.
    pub(super) fn longer_than_leader_lease(&self) -> Duration {
        let of = |seat: &Seat| hold(seat.lease).saturating_sub(hold(seat.patience));
        self.seat.as_ref().map(of).unwrap_or_default()
    }
}
