//! How a member of the NTP tree stands.

use serde::{Deserialize, Serialize};

use super::UNSYNCHRONISED;
use crate::ids::MemberId;

/// What a member states about its own clock: the system variables of RFC 5905.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct System {
    /// One at the leader, that of the server followed and one more elsewhere, 16 if it follows nobody.
    pub stratum: u8,
    /// Whom it follows.
    pub reference: Option<MemberId>,
    /// Δ: the round trips to stratum 1.
    pub root_delay_ns: u64,
    /// E: what is unknown besides.
    pub root_dispersion_ns: u64,
}

impl System {
    pub(super) const UNSYNCHRONISED: Self =
        Self { stratum: UNSYNCHRONISED, reference: None, root_delay_ns: 0, root_dispersion_ns: 0 };
    pub(super) const PRIMARY: Self = Self { stratum: 1, ..Self::UNSYNCHRONISED };

    pub(super) fn root_distance_ns(&self) -> u64 {
        (self.root_delay_ns / 2).saturating_add(self.root_dispersion_ns)
    }
}
