//! Where a member sits in a view: what of the view its locks go by.

use std::time::Duration;

use super::keeping::IDLE;
use crate::ids::{Epoch, Incarnation, LockName, MemberId};
use crate::mutex::{AnyMutex, Carried, Permissions};
use crate::policy::{Caching, LockAlgorithm, Policy};
use crate::record::Record;
use crate::time::LocalTime;
use crate::view::View;

/// A place in a view.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Seat {
    pub(super) rank: MemberId,
    pub(super) view: View,
    pub(super) incarnations: Vec<Incarnation>,
    pub(super) ceiling: Epoch,
    pub(super) policy: Policy,
    /// How long the leader keeps others out for the holder of a lock.
    pub(super) member_lease: Duration,
    /// How long the holder counts on it: the member lease, or what it is to become.
    pub(super) lease: Duration,
    /// A member that was not heard of for so long is granted nothing.
    pub(super) patience: Duration,
    pub(super) since: LocalTime,
}

impl Seat {
    pub(super) fn algorithm(&self, name: &LockName) -> LockAlgorithm {
        self.policy.algorithm(name.as_str())
    }

    /// This member's part in the mutex of a lock.
    pub(super) fn mutex(&self, name: &LockName, carried: &Carried) -> AnyMutex {
        let (algorithm, permissions) = (self.algorithm(name), self.permissions(name));
        AnyMutex::new(algorithm, permissions, self.rank, self.view, carried)
    }

    /// Whether a member may enter again without asking.
    pub(super) fn permissions(&self, name: &LockName) -> Permissions {
        let policy = self.policy.for_lock(name.as_str());
        match policy.map_or(Caching::Disabled, |policy| policy.caching) {
            Caching::Disabled => Permissions::ForOneEntry,
            Caching::Enabled => Permissions::Kept { idle: IDLE },
        }
    }
}

impl Record {
    pub(super) fn seat(&self, me: Incarnation, since: LocalTime) -> Option<Seat> {
        let member_lease = self.timing.member_lease;
        Some(Seat {
            rank: self.rank(me)?,
            view: self.view(),
            incarnations: self.incarnations().collect(),
            ceiling: self.ceiling,
            policy: self.policy.clone(),
            member_lease,
            lease: member_lease.min(self.policy.timing.member_lease),
            patience: self.timing.leader_lease,
            since,
        })
    }
}
