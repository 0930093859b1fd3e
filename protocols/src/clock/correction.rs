//! By how much a clock is to be corrected, as those state that it was compared with.

use serde::{Deserialize, Serialize};

use crate::time::LocalTime;

/// What a clock showed when it was compared.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Shown {
    /// The raw reading.
    pub raw: LocalTime,
    /// The virtual clock.
    pub ns: i64,
}

/// By how much a clock is to be corrected, and what is known of group time thereby.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Correction {
    /// To be added to what the clock showed.
    pub delta_ns: i64,
    /// How far ahead of the daemon's clock, as it goes now, that makes it.
    pub ahead_ns: i64,
    /// How far group time may be from where the daemon's clock is by this correction.
    pub error_ns: u64,
}

/// What the others say about a leader's clock.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct ByOthers {
    /// How far group time may be from it; nothing if nobody says.
    pub(super) error_ns: Option<u64>,
    /// Whether its own bound is wrong by what most of them say.
    pub(super) contradicts: bool,
}

impl ByOthers {
    /// The error of a clock whose member takes it for `own`.
    pub(super) fn judge(self, own: u64) -> u64 {
        match self.error_ns {
            Some(error_ns) if self.contradicts => error_ns,
            Some(error_ns) => own.min(error_ns),
            None => own,
        }
    }
}
