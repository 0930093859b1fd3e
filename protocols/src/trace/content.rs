//! What the rules look at of a record.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, Incarnation};
use crate::policy::{Arbiter, Evidence, Timing};
use crate::record::Record;

/// What the register holds, as far as the rules look at it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Content {
    /// The number of the view.
    pub epoch: Epoch,
    /// The highest `high` of a token of it.
    pub ceiling: Epoch,
    /// Its members.
    pub members: Vec<Incarnation>,
    /// Who leads it; nobody once it was closed.
    pub leader: Option<Incarnation>,
    /// Nobody confirms it any more.
    pub closing: bool,
    /// The record was lost, and made anew.
    pub base_unknown: bool,
    /// The view that it was made from, if its members are notified of it.
    pub base: Option<Epoch>,
    /// Its waits.
    pub timing: Timing,
    /// How long locks are given for: the member lease, or what it is to become.
    pub lease: Duration,
    /// The same of what lasts no longer than a leader lease.
    pub lead_lease: Duration,
    /// Whether the statement of a kubelet counts as evidence of death.
    pub believes_evidence: bool,
    /// Nothing makes its leader leases exclusive.
    pub is_advisory: bool,
}

impl From<&Record> for Content {
    fn from(record: &Record) -> Self {
        let (timing, target) = (record.timing, record.policy.timing);
        let lease = timing.member_lease.min(target.member_lease);
        Self {
            epoch: record.epoch,
            ceiling: record.ceiling,
            members: record.incarnations().collect(),
            leader: record.leader,
            closing: record.closing,
            base_unknown: record.base_unknown,
            base: record.base.filter(|_| record.lists()),
            timing: record.timing,
            lease,
            lead_lease: timing.leader_lease.min(target.leader_lease).min(lease),
            believes_evidence: record.policy.evidence == Evidence::ContainerStatus,
            is_advisory: record.policy.arbiter == Arbiter::None,
        }
    }
}
