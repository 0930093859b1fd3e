//! A member's place in a view: what of the view its holds and its services go by.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ids::{Epoch, HoldName, Incarnation, MemberId};
use crate::policy::{LeaseClass, Policy};
use crate::record::{MemberInfo, Record};
use crate::time::{LocalTime, hold};
use crate::view::View;

/// A place in a view.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Seat {
    pub(super) rank: MemberId,
    pub(super) view: View,
    members: Vec<MemberInfo>,
    ranks: BTreeMap<Incarnation, MemberId>,
    pub(super) ceiling: Epoch,
    pub(super) policy: Policy,
    /// How long the leader keeps others out for a holder.
    pub(super) member_lease: Duration,
    /// How long the holder counts on it: the member lease, or what it is to become.
    pub(super) lease: Duration,
    /// The same two of a hold that lasts no longer than a leader lease.
    pub(super) lead_wait: Duration,
    pub(super) lead_lease: Duration,
    /// A member that was not heard of for so long is granted nothing.
    pub(super) patience: Duration,
    pub(super) since: LocalTime,
}

impl Seat {
    /// The own rank.
    #[must_use]
    pub fn rank(&self) -> MemberId {
        self.rank
    }

    /// The view.
    #[must_use]
    pub fn view(&self) -> View {
        self.view
    }

    /// The policy of the view.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Who has a rank.
    #[must_use]
    pub fn member(&self, rank: MemberId) -> Option<Incarnation> {
        self.info(rank).map(|info| info.incarnation)
    }

    /// What everybody knows of the member that has a rank.
    #[must_use]
    pub fn info(&self, rank: MemberId) -> Option<&MemberInfo> {
        self.members.get(rank.0 as usize)
    }

    /// What everybody knows of all members, by rank.
    #[must_use]
    pub fn members(&self) -> &[MemberInfo] {
        &self.members
    }

    /// All members, by rank.
    pub(super) fn incarnations(&self) -> impl Iterator<Item = Incarnation> + '_ {
        self.members.iter().map(|info| info.incarnation)
    }

    /// Whether this is the leader's.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.rank == self.view.leader
    }

    /// A request that was made so long before is known by now, if nothing was lost.
    pub(super) fn lately(&self) -> Duration {
        self.patience / 4
    }

    /// How long the leader keeps others out for a holder.
    pub(super) fn wait(&self, class: LeaseClass) -> Duration {
        match class {
            LeaseClass::Member => self.member_lease,
            LeaseClass::Leader => self.lead_wait,
        }
    }

    /// How long the holder counts on it, from what it sent.
    pub(super) fn holds_for(&self, class: LeaseClass) -> Duration {
        hold(match class {
            LeaseClass::Member => self.lease,
            LeaseClass::Leader => self.lead_lease,
        })
    }

    pub(super) fn is_led(&self, name: &HoldName) -> bool {
        self.policy.is_led(name.as_str())
    }

    /// The rank of a member.
    #[must_use]
    pub fn rank_of(&self, member: Incarnation) -> Option<MemberId> {
        self.ranks.get(&member).copied()
    }
}

impl Record {
    pub(super) fn seat(&self, me: Incarnation, since: LocalTime) -> Option<Seat> {
        let (timing, target) = (self.timing, self.policy.timing);
        let member_lease = timing.member_lease;
        let lease = member_lease.min(target.member_lease);
        Some(Seat {
            rank: self.rank(me)?,
            view: self.view(),
            members: self.members.clone(),
            ranks: self.incarnations().zip((0..).map(MemberId)).collect(),
            ceiling: self.ceiling,
            policy: self.policy.clone(),
            member_lease,
            lease,
            lead_wait: timing.leader_lease.min(member_lease),
            lead_lease: timing.leader_lease.min(target.leader_lease).min(lease),
            patience: self.timing.leader_lease,
            since,
        })
    }
}
