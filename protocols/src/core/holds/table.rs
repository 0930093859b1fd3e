//! Tables of holders and waiters: what seals report, what a hand-over gives, what a view begins with.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::message::{Note, Seal, Table, TableHold};
use crate::ids::{HoldName, Incarnation, PodUid};
use crate::record::{LeftHold, Record};

/// Stands where a table names a holder. No pod has this UID.
pub(super) const NOBODY: Incarnation = Incarnation { pod: PodUid(0), run: 0 };

impl TableHold {
    /// For how much longer it keeps others out of a view that its holder is not in. What is reported
    /// includes the delay of its name, so that no view adds it again.
    pub(super) fn rest_in(&self, record: &Record) -> Duration {
        let delay = record.policy.delay(self.name.as_str());
        self.rest.unwrap_or_else(|| record.timing.member_lease.saturating_add(delay))
    }

    /// Whether it is closed though nobody holds it any more.
    pub(in crate::core) fn is_closure(&self) -> bool {
        self.holder == NOBODY
    }
}

impl Table {
    /// What of it a member goes by that does not lead: its own holds and waits, what those hold that are not
    /// in the view, and all that members grant among themselves.
    #[must_use]
    pub(in crate::core) fn about(&self, member: Incarnation, record: &Record) -> Self {
        let led = |name: &HoldName| record.policy.is_led(name.as_str());
        let concerns = |held: &&TableHold| {
            held.holder == member || record.rank(held.holder).is_none() || !led(&held.name)
        };
        let waits = self.waits.iter().filter(|(name, who)| who.contains(&member) || !led(name));
        Self {
            holds: self.holds.iter().filter(concerns).cloned().collect(),
            waits: waits.cloned().collect(),
        }
    }

    /// The same, so much later.
    #[must_use]
    pub(in crate::core) fn aged(&self, age: Duration) -> Self {
        let mut table = self.clone();
        for rest in table.holds.iter_mut().filter_map(|held| held.rest.as_mut()) {
            *rest = rest.saturating_sub(age);
        }
        table
    }

    /// A member of the view before that is in the next can renew: what it held lasts as long as its
    /// lease, and the delay of its name comes after that, if it comes.
    pub(in crate::core) fn take_back_delays(&mut self, before: &Record, next: &Record) {
        let stays = |held: &&mut TableHold| {
            before.rank(held.holder).is_some() && next.rank(held.holder).is_some()
        };
        for held in self.holds.iter_mut().filter(stays) {
            let delay = before.policy.delay(held.name.as_str());
            held.rest = held.rest.map(|rest| rest.saturating_sub(delay));
        }
    }

    /// The table as the seals of a view report it, with what they state that its leader `listed`. Of two
    /// reports of one name the higher token is the later grant; of one grant the longer counts.
    pub(in crate::core) fn from_seals<'a>(
        seals: impl IntoIterator<Item = (Incarnation, &'a Seal)>,
        listed: Vec<TableHold>,
    ) -> Self {
        let mut holds: BTreeMap<HoldName, TableHold> = BTreeMap::new();
        let mut waits: BTreeMap<HoldName, Vec<(Duration, Incarnation)>> = BTreeMap::new();
        for (holder, seal) in seals {
            for (name, token, note) in &seal.holds {
                let known = holds.get(name).is_some_and(|other| other.token >= *token);
                if !known {
                    let (name, token, note) = (name.clone(), *token, note.clone());
                    holds.insert(name.clone(), TableHold { name, holder, token, rest: None, note });
                }
            }
            for (name, waited) in &seal.waits {
                waits.entry(name.clone()).or_default().push((*waited, holder));
            }
        }
        let longest = |held: &TableHold| (held.token, held.rest.unwrap_or(Duration::MAX));
        for held in listed {
            if holds.get(&held.name).is_none_or(|known| longest(known) < longest(&held)) {
                holds.insert(held.name.clone(), held);
            }
        }
        let in_line = |mut waiting: Vec<(Duration, Incarnation)>| {
            waiting.sort_by(|a, b| b.cmp(a));
            waiting.into_iter().map(|(_, member)| member).collect()
        };
        Self {
            holds: holds.into_values().collect(),
            waits: waits.into_iter().map(|(name, waiting)| (name, in_line(waiting))).collect(),
        }
    }
}

impl Table {
    /// What a record that closes the group states about it, if that has room for all.
    pub(in crate::core) fn left_behind(&self) -> Option<Vec<LeftHold>> {
        let whole_ms = |rest: Duration| u64::try_from(rest.as_millis()).unwrap_or(u64::MAX);
        let left = |held: &TableHold| LeftHold {
            name: held.name.clone(),
            holder: held.holder,
            token: held.token,
            rest_ms: held.rest.map(|rest| whole_ms(rest).saturating_add(1)),
        };
        let all: Vec<LeftHold> = self.holds.iter().map(left).collect();
        LeftHold::have_room(&all).then_some(all)
    }

    /// The table that such a record stands for; nothing if it is no such record, or does not know.
    pub(in crate::core) fn from_closed(record: &Record) -> Option<Self> {
        let held = record.held.as_ref().filter(|_| record.is_closed())?;
        let entry = |left: &LeftHold| TableHold {
            name: left.name.clone(),
            holder: left.holder,
            token: left.token,
            rest: left.rest_ms.map(Duration::from_millis),
            note: Note::default(),
        };
        Some(Self { holds: held.iter().map(entry).collect(), waits: Vec::new() })
    }
}
