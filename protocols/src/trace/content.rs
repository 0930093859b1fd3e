//! What the rules look at of a record, and how they compare clocks.

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

impl Content {
    /// Whether a member that reads this may go on promising in its view (rule 8).
    pub(super) fn confirms(&self) -> bool {
        !self.closing && !self.base_unknown
    }
}

/// How time is counted along a trace.
#[derive(Clone, Copy, Debug)]
pub enum Clocks {
    /// Any two rates differ by five per cent at most.
    Drifting,
    /// All count the same whole ticks, of this length, and a hold is as long as the wait for it.
    Ticking(Duration),
}

impl Clocks {
    /// Rule 5: how long somebody may count on what another waits for. It is written down here a second
    /// time, because a slip in [`crate::time::hold`] is a slip of the members.
    pub(super) fn hold(self, wait: Duration) -> Duration {
        match self {
            Self::Drifting => wait.saturating_sub(Duration::from_millis(20)) * 20 / 21,
            Self::Ticking(_) => wait,
        }
    }

    /// The least true time in which anybody's clock counts this: of two rates that differ by five per
    /// cent one is as far above the true one as the other below.
    pub(super) fn least(self, wait: Duration) -> Duration {
        match self {
            Self::Drifting => wait * 41 / 42,
            Self::Ticking(_) => wait,
        }
    }

    /// The least true time of rule 15 (c): for E, and then for P. In whole ticks the promise that is given
    /// in the last tick of E has the rest of it for its first.
    pub(super) fn least_until_closed(self, timing: Timing) -> Duration {
        let both = timing.api_outage + timing.leader_lease;
        match self {
            Self::Drifting => self.least(both),
            Self::Ticking(tick) => both.saturating_sub(tick),
        }
    }
}
