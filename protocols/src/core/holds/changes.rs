//! What a member holds and waits for, as a list that its leader keeps a copy of.
//!
//! A promise stands for the whole list, and states what has changed in it since a change that the leader
//! knows of. Both ends keep a digest of the list; should they differ, the leader asks for the whole.

use std::collections::{BTreeMap, BTreeSet};

use super::super::message::{Changes, ListItem};
use crate::ids::{FencingToken, HoldName};

/// What one member holds and waits for.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(in crate::core) struct MemberList {
    items: BTreeMap<HoldName, ListItem>,
    /// Those that it waits for.
    waits: BTreeSet<HoldName>,
    digest: u64,
}

impl MemberList {
    pub(super) fn get(&self, name: &HoldName) -> ListItem {
        self.items.get(name).copied().unwrap_or_default()
    }

    pub(in crate::core) fn items(&self) -> impl Iterator<Item = (&HoldName, ListItem)> {
        self.items.iter().map(|(name, item)| (name, *item))
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// What it waits for.
    pub(super) fn waits(&self) -> impl Iterator<Item = &HoldName> {
        self.waits.iter()
    }

    /// Puts an item in the place of what was there, which it returns.
    pub(in crate::core) fn set(&mut self, name: &HoldName, item: ListItem) -> ListItem {
        if item.waits.is_some() {
            self.waits.insert(name.clone());
        } else {
            self.waits.remove(name);
        }
        let before = if item == ListItem::default() {
            self.items.remove(name)
        } else {
            self.digest = self.digest.wrapping_add(digest(name, item));
            self.items.insert(name.clone(), item)
        };
        if let Some(before) = before {
            self.digest = self.digest.wrapping_sub(digest(name, before));
        }
        before.unwrap_or_default()
    }
}

/// A member's own list, with its changes numbered.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct OwnList {
    list: MemberList,
    /// The latest change of each name, but for those that everybody knows, by name and by number.
    changed: BTreeMap<HoldName, u64>,
    order: BTreeMap<u64, HoldName>,
    latest: u64,
    /// No change up to that one is remembered.
    forgotten: u64,
}

/// How many changes are remembered for those that do not know them. One that knows less needs the whole.
const REMEMBERED: usize = 4_096;

impl OwnList {
    /// How a name stands.
    pub(super) fn set(&mut self, name: &HoldName, item: ListItem) {
        if self.list.get(name) == item {
            return;
        }
        self.list.set(name, item);
        self.latest += 1;
        if let Some(earlier) = self.changed.insert(name.clone(), self.latest) {
            self.order.remove(&earlier);
        }
        self.order.insert(self.latest, name.clone());
        if self.order.len() > REMEMBERED.max(2 * self.list.len())
            && let Some((oldest, _)) = self.order.first_key_value()
        {
            self.forget(*oldest);
        }
    }

    /// Everybody knows so many changes, or is to be sent all.
    pub(super) fn forget(&mut self, known: u64) {
        while let Some(oldest) = self.order.first_entry().filter(|oldest| *oldest.key() <= known) {
            self.changed.remove(&oldest.remove());
        }
        self.forgotten = self.forgotten.max(known.min(self.latest));
    }

    /// The list at the beginning of a view, of which the other end has a copy ([`Copied::begin`]).
    pub(super) fn begin(list: MemberList) -> Self {
        Self { list, latest: BEGINNING, forgotten: BEGINNING, ..Self::default() }
    }

    /// What one does not know that knows so many changes.
    pub(super) fn changes(&self, known: u64) -> Changes {
        let since = if known < self.forgotten || known > self.latest { 0 } else { known };
        let items = if since == 0 {
            self.list.items().map(|(name, item)| (name.clone(), item)).collect()
        } else {
            let news = self.order.range(since + 1..);
            news.map(|(_, name)| (name.clone(), self.list.get(name))).collect()
        };
        Changes { since, latest: self.latest, items, digest: self.list.digest }
    }

    /// What it names.
    pub(super) fn names(&self) -> impl Iterator<Item = &HoldName> {
        self.list.items.keys()
    }
}

/// The number of the change that a list begins a view with: what the view before left.
const BEGINNING: u64 = 1;

/// The other end's copy of such a list.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(in crate::core) struct Copied {
    pub(in crate::core) list: MemberList,
    known: u64,
    /// It is as the view before left it, and its member has yet to report it.
    unconfirmed: bool,
}

impl Copied {
    /// The list at the beginning of a view. The member need not send what both know from there.
    pub(super) fn begin(list: MemberList) -> Self {
        Self { list, known: BEGINNING, unconfirmed: true }
    }

    /// How many changes it has.
    pub(in crate::core) fn known(&self) -> u64 {
        self.known
    }

    /// How names stand in the member's list, of all that may stand otherwise in this one. Nothing if that
    /// cannot be known.
    pub(in crate::core) fn news(&mut self, changes: Changes) -> Option<Vec<(HoldName, ListItem)>> {
        if changes.since > self.known {
            self.known = 0;
            return None;
        }
        let mut items = changes.items;
        if std::mem::take(&mut self.unconfirmed) && changes.since > 0 {
            let mut all: BTreeMap<_, _> =
                self.list.items().map(|(name, item)| (name.clone(), item)).collect();
            all.extend(items);
            items = all.into_iter().collect();
        }
        if changes.since == 0 {
            let whole: BTreeMap<_, _> = items.into_iter().collect();
            let gone = self.list.items.keys().filter(|name| !whole.contains_key(*name));
            items = gone.map(|name| (name.clone(), ListItem::default())).collect();
            items.extend(whole);
        }
        Some(items)
    }

    /// All changes up to that one are in it. False if it is not the member's list all the same.
    pub(in crate::core) fn settle_at(&mut self, latest: u64, digest: u64) -> bool {
        let same = self.list.digest == digest;
        self.known = if same { latest } else { 0 };
        same
    }
}

/// Of an item, the same on every member whatever it was built with.
fn digest(name: &HoldName, item: ListItem) -> u64 {
    let ListItem { holds, waits } = item;
    let numbers = [holds.map(FencingToken::get), waits.map(|waits| waits.0)];
    let hash = numbers.into_iter().fold(name.digest(), |hash, number| {
        mixed(mixed(hash ^ u64::from(number.is_some())) ^ number.unwrap_or_default())
    });
    // A sum of these is to distinguish lists.
    mixed(hash)
}

/// The finalizer of `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestNumber;
    use crate::random::Random;

    fn name(number: u64) -> HoldName {
        HoldName::try_from(format!("name-{number}")).expect("a name")
    }

    fn item(random: &mut Random) -> ListItem {
        let token = FencingToken::before(crate::ids::Epoch(random.up_to(3)));
        let holds = random.once_in(2).then_some(token);
        let waits = random.once_in(2).then_some(RequestNumber(random.up_to(3)));
        ListItem { holds, waits }
    }

    /// Promises and heartbeats get lost, and are late; whatever is acknowledged is the whole list.
    #[test]
    fn a_copy_that_is_acknowledged_is_the_list() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let (mut own, mut copy) = (OwnList::default(), Copied::default());
            let (mut acknowledged, mut largest, mut known) = (0, 0, 0);
            for _ in 0..200 {
                for _ in 0..random.up_to(4) {
                    own.set(&name(random.up_to(60)), item(&mut random));
                }
                let changes = own.changes(known);
                let whole = changes.since == 0;
                largest = largest.max(if whole { 0 } else { changes.items.len() });
                let (latest, digest) = (changes.latest, changes.digest);
                if random.once_in(3) {
                    continue;
                }
                let news = copy.news(changes).expect("its own number is never ahead");
                for (name, item) in news {
                    copy.list.set(&name, item);
                }
                assert!(copy.settle_at(latest, digest), "seed {seed}");
                assert_eq!(copy.list, own.list, "seed {seed}");
                acknowledged += 1;
                if !random.once_in(3) {
                    known = copy.known();
                    own.forget(known);
                }
            }
            assert!(acknowledged > 80 && largest < 40, "{acknowledged} {largest}");
        }
    }

    #[test]
    fn a_copy_that_went_astray_is_made_anew() {
        let mut random = Random::new(1);
        let (mut own, mut copy) = (OwnList::default(), Copied::default());
        own.set(&name(1), ListItem { holds: None, waits: Some(RequestNumber(1)) });
        copy.list.set(&name(2), item(&mut random));
        copy.known = 1;
        own.set(&name(3), ListItem { holds: None, waits: Some(RequestNumber(2)) });
        let changes = own.changes(1);
        assert_eq!((changes.since, changes.items.len()), (1, 1));
        let (latest, digest) = (changes.latest, changes.digest);
        for (name, item) in copy.news(changes).expect("it has the one before") {
            copy.list.set(&name, item);
        }
        assert!(!copy.settle_at(latest, digest));
        let changes = own.changes(copy.known());
        assert_eq!((changes.since, changes.items.len()), (0, 2));
        for (name, item) in copy.news(changes).expect("it is whole") {
            copy.list.set(&name, item);
        }
        assert!(copy.settle_at(latest, digest));
        assert_eq!(copy.list, own.list);
        let ahead = Changes { since: latest + 1, ..Changes::default() };
        assert_eq!(copy.news(ahead), None);
    }
}
