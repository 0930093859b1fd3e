//! Until when the members of a view promise, and a majority of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::ids::Incarnation;
use crate::record::Record;
use crate::time::LocalTime;

/// Until when each member's promise surely lasts (rule 9). A promise costs no look at those of all others.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Promised {
    /// So many make a leader lease.
    needed: usize,
    by_member: BTreeMap<Incarnation, LocalTime>,
    /// So many of them promise at least until then.
    needed_until: LocalTime,
    /// How many members promise until when, of those that promise for longer than that. They are fewer.
    longer: BTreeMap<LocalTime, usize>,
    longer_sum: usize,
}

impl Promised {
    /// Nobody has promised yet.
    pub(super) fn new(record: &Record) -> Self {
        Self {
            needed: record.promises_needed(),
            by_member: record.incarnations().map(|m| (m, LocalTime::default())).collect(),
            needed_until: LocalTime::default(),
            longer: BTreeMap::new(),
            longer_sum: 0,
        }
    }

    /// Until when a majority promises.
    pub(super) fn majority_until(&self) -> LocalTime {
        self.needed_until
    }

    /// Whether that is a member, and promises still.
    pub(super) fn runs(&self, now: LocalTime, member: Incarnation) -> bool {
        self.by_member.get(&member).is_some_and(|until| *until > now)
    }

    pub(super) fn is_member(&self, member: Incarnation) -> bool {
        self.by_member.contains_key(&member)
    }

    /// A member promised. It takes nothing back of what it promised before.
    pub(super) fn note(&mut self, member: Incarnation, until: LocalTime) {
        let Some(known) = self.by_member.get_mut(&member).filter(|known| **known < until) else {
            return;
        };
        let before = std::mem::replace(known, until);
        if until <= self.needed_until {
            return;
        }
        *self.longer.entry(until).or_default() += 1;
        match self.longer.entry(before) {
            Entry::Occupied(last) if *last.get() == 1 => drop(last.remove()),
            Entry::Occupied(mut several) => *several.get_mut() -= 1,
            Entry::Vacant(_) => self.longer_sum += 1,
        }
        while self.longer_sum >= self.needed
            && let Some((least, count)) = self.longer.pop_first()
        {
            self.needed_until = least;
            self.longer_sum -= count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The same, by a look at all of them.
    fn majority(promised: &Promised) -> LocalTime {
        let mut all: Vec<LocalTime> = promised.by_member.values().copied().collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        all[promised.needed - 1]
    }

    #[test]
    fn a_majority_promises_until_then_whatever_the_order() {
        let mut random = Random::new(7);
        for members in 1..=9_u64 {
            for _ in 0..200 {
                let by_member = (0..members).map(|pod| (one(pod), LocalTime::default())).collect();
                let mut promised = Promised {
                    needed: usize::try_from(members / 2 + 1).expect("few"),
                    by_member,
                    needed_until: LocalTime::default(),
                    longer: BTreeMap::new(),
                    longer_sum: 0,
                };
                for _ in 0..60 {
                    promised.note(one(random.up_to(members + 1)), LocalTime(random.up_to(30)));
                    assert_eq!(promised.majority_until(), majority(&promised), "{promised:?}");
                    let longer = |until: &&LocalTime| **until > promised.needed_until;
                    let longer = promised.by_member.values().filter(longer).count();
                    assert_eq!(promised.longer_sum, longer);
                    assert_eq!(promised.longer.values().sum::<usize>(), longer);
                }
            }
        }
    }

    fn one(pod: u64) -> Incarnation {
        Incarnation { pod: crate::ids::PodUid(pod.into()), run: 1 }
    }
}
