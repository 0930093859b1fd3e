//! The record of a view as its leader announces it.
//!
//! A record names all members, and goes to each of them: n² bytes at the beginning of a view. So a member of the
//! view before gets what has changed since, and makes the record from the one that it has.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::ids::{Incarnation, MemberId};
use crate::policy::Arbiter;
use crate::record::{MEMBERS_MAX, MemberInfo, Record};

/// The record of a view, whole or by what has changed.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Announced {
    /// As the register has it.
    Whole(Record),
    /// To a member of the view that it was made from.
    Changes {
        /// The record without its members.
        record: Record,
        /// What is other about those than in the view that [`Record::base`] names.
        members: MemberChanges,
    },
}

/// What distinguishes the members of a view from those of the view before.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct MemberChanges {
    /// Those that are not there any more as they were, by their ranks in the view before, in order.
    pub gone: Vec<MemberId>,
    /// Those that were not there before as they are.
    pub joins: Vec<MemberInfo>,
    /// Of all members of the view: a member that comes to another list needs the whole.
    pub digest: u64,
}

impl Announced {
    /// Without the members, if it is by what has changed.
    pub fn record(&self) -> &Record {
        match self {
            Self::Whole(record) | Self::Changes { record, .. } => record,
        }
    }

    /// The record, for a member that knows this one. Nothing if that is neither of the same view nor of the one that
    /// it was made from, or if the changes do not fit it.
    pub(super) fn on_top_of(self, known: Option<&Record>) -> Option<Record> {
        let (record, changes) = match self {
            Self::Whole(record) => return Some(record),
            Self::Changes { record, members } => (record, members),
        };
        let known = known?;
        let members = if known.epoch == record.epoch {
            let same = digest(&known.members) == changes.digest;
            same.then(|| known.members.clone())?
        } else if record.base == Some(known.epoch) {
            changes.apply(&known.members)?
        } else {
            return None;
        };
        Some(Record { members, ..record })
    }
}

impl MemberChanges {
    /// From the members of one view to those of the next.
    fn between(base: &[MemberInfo], next: &[MemberInfo]) -> Self {
        let [before, after] = [base, next].map(|list| {
            list.iter().map(|info| (info.incarnation, info)).collect::<BTreeMap<_, _>>()
        });
        let has = |list: &BTreeMap<_, &MemberInfo>, info: &MemberInfo| {
            list.get(&info.incarnation).is_some_and(|same| *same == info)
        };
        let gone = (0..).map(MemberId).zip(base).filter(|(_, info)| !has(&after, info));
        let joins = next.iter().filter(|info| !has(&before, info)).cloned();
        Self {
            gone: gone.map(|(rank, _)| rank).collect(),
            joins: joins.collect(),
            digest: digest(next),
        }
    }

    /// Whether that member was not in the view before, or is another by now.
    pub(super) fn is_new(&self, member: Incarnation) -> bool {
        self.joins.iter().any(|info| info.incarnation == member)
    }

    /// The members of the next view; nothing if these are not changes of that list.
    fn apply(self, base: &[MemberInfo]) -> Option<Vec<MemberInfo>> {
        let known = |rank: &MemberId| (rank.0 as usize) < base.len();
        let in_order = self.gone.is_sorted_by(|one, next| one < next);
        if !in_order || !self.gone.last().is_none_or(known) {
            return None;
        }
        let size = base.len() - self.gone.len() + self.joins.len();
        if size > MEMBERS_MAX || !self.joins.iter().all(MemberInfo::is_sound) {
            return None;
        }
        let ranked = (0..).map(MemberId).zip(base);
        let stay = ranked.filter(|(rank, _)| self.gone.binary_search(rank).is_err());
        let mut members: Vec<MemberInfo> = stay.map(|(_, info)| info.clone()).collect();
        members.extend(self.joins);
        members.sort_by_key(MemberInfo::rank_key);
        let distinct: BTreeSet<_> = members.iter().map(|info| info.incarnation).collect();
        (distinct.len() == size && digest(&members) == self.digest).then_some(members)
    }
}

impl Record {
    /// What is to be announced to members of the view that this one was made from. Nothing where most of them have no
    /// record of that: nothing arbitrates, it was lost, or its last member had left.
    pub(super) fn changes_since(&self, base: &Self) -> Option<MemberChanges> {
        let arbitrated = [self, base].iter().all(|r| r.policy.arbiter == Arbiter::Quorum);
        let goes_on = self.base == Some(base.epoch) && !base.base_unknown && !base.is_closed();
        (arbitrated && goes_on).then(|| MemberChanges::between(&base.members, &self.members))
    }

    /// All of it but its members.
    pub(super) fn without_members(&self) -> Self {
        let (held, policy) = (self.held.clone(), self.policy.clone());
        Self { members: Vec::new(), held, policy, ..*self }
    }
}

/// Of all that is known of these members, the same on every member whatever it was built with (Fowler, Noll and
/// Vo's hash 1a).
fn digest(members: &[MemberInfo]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for info in members {
        let MemberInfo { incarnation, name, addresses, zone, protocol, .. } = info;
        add(&incarnation.pod.0.to_be_bytes());
        add(&incarnation.run.to_be_bytes());
        add(&info.seniority.to_be_bytes());
        add(&info.priority.to_be_bytes());
        add(&info.capacity.to_be_bytes());
        add(&protocol.0.to_be_bytes());
        add(&protocol.1.to_be_bytes());
        let addresses = addresses.iter().map(ToString::to_string);
        for text in [name.clone()].into_iter().chain(zone.clone()).chain(addresses) {
            add(text.as_bytes());
            add(&[0]);
        }
    }
    hash
}

#[cfg(test)]
mod tests;
