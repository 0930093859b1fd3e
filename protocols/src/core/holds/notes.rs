//! On whose behalf members hold and wait: for people, and for nothing else.
//!
//! A note goes along with a request, and stays with the leader. It may be long, so no view is begun with it: a
//! leader that goes on leading keeps what it knows, and the members send theirs to another, some at a time.

use std::collections::{BTreeMap, BTreeSet};

use super::super::message::Note;
use super::{Holds, Lease};
use crate::ids::{FencingToken, HoldName, Incarnation, MemberId};

/// What is known of notes from one view to the next.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Notes {
    /// The leader that was sent those of this member.
    leader: Option<Incarnation>,
    /// What it has yet to be sent.
    unsent: BTreeSet<HoldName>,
    /// What this member knew of holds when it led.
    held: BTreeMap<HoldName, (FencingToken, Note)>,
}

/// So many bytes of notes go with a promise.
const ROOM: usize = 64 << 10;

impl Holds {
    /// A view ends that this member leads.
    pub(super) fn keep_notes(&mut self) {
        if self.leads() {
            let all = self.all.every().iter_mut();
            let entries = all.filter_map(|(name, held)| Some((name, held.entry.take()?)));
            let held = entries.map(|(name, entry)| (name.clone(), (entry.token, entry.note)));
            self.notes.held = held.collect();
        }
    }

    /// A view begins with that leader, which knows the notes of the view before if it led that too, but for
    /// those of waiting members.
    pub(super) fn begin_notes(&mut self, leader: Option<Incarnation>) {
        let held = std::mem::take(&mut self.notes.held);
        let knows = self.notes.leader == leader;
        self.notes.leader = leader;
        if leader != Some(self.me) {
            let waits = |name: &&HoldName| {
                !knows || self.all.get(*name).is_some_and(|held| held.hold.is_none())
            };
            self.notes.unsent = self.own.iter().filter(waits).cloned().collect();
            return;
        }
        self.notes.unsent.clear();
        for (name, (token, note)) in held {
            let entry = self.all.get_mut(&name).and_then(|held| held.entry.as_mut());
            if let Some(entry) = entry.filter(|entry| entry.token == token) {
                entry.note = note;
            }
        }
        for name in &self.own {
            let Some(held) = self.all.get_mut(name) else { continue };
            let own = held.entry.as_mut().filter(|entry| entry.holder == self.me);
            if let (Some(entry), Some(claim)) = (own, &held.claim) {
                entry.note.clone_from(&claim.note);
            }
        }
    }

    /// What the leader has yet to be sent, as far as there is room; nothing before it has acknowledged a
    /// promise of this view, because it may not listen yet.
    pub(in crate::core) fn unsent_notes(&mut self) -> Vec<(HoldName, Note)> {
        let listens = self.lease.member != Lease::default();
        let (mut notes, mut room) = (Vec::new(), if listens { ROOM } else { 0 });
        while room > 0 {
            let Some(name) = self.notes.unsent.pop_first() else { break };
            let claim = self.all.get(&name).and_then(|held| held.claim.as_ref());
            let Some(note) = claim.map(|claim| claim.note.clone()) else { continue };
            let metadata = note.metadata.as_ref().map_or(0, |metadata| metadata.as_str().len());
            room = room.saturating_sub(name.as_str().len() + note.owner.len() + metadata);
            notes.push((name, note));
        }
        notes
    }

    /// A member reports on what it holds or waits for.
    pub(super) fn note_notes(
        &mut self,
        rank: MemberId,
        from: Incarnation,
        notes: Vec<(HoldName, Note)>,
    ) {
        for (name, note) in notes {
            let Some(held) = self.all.get_mut(&name) else { continue };
            match held.entry.as_mut().filter(|entry| entry.holder == from) {
                Some(entry) => entry.note = note,
                None => {
                    held.notes.insert(rank, note);
                }
            }
        }
    }
}

impl Note {
    /// What goes along where many are reported at once.
    pub(super) fn without_metadata(&self) -> Self {
        Self { owner: self.owner.clone(), metadata: None }
    }
}
