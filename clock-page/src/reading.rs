//! The time at one reading of the raw clock.

use crate::course::{growth, near_growth};
use crate::words::{Stated, Words};

/// Group time at one reading of the raw clock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Reading {
    /// Nanoseconds since 1970, by the course.
    pub time_ns: i64,
    /// Group time is not before this; `i64::MIN` if the status is unknown.
    pub earliest_ns: i64,
    /// Group time is not after this; `i64::MAX` if the status is unknown.
    pub latest_ns: i64,
    /// How far group time is from `time_ns` at most; `u64::MAX` if the status is unknown.
    pub error_ns: u64,
    /// How the clock stands.
    pub status: Status,
    /// The epoch of the view in which clocks are compared.
    pub epoch: u64,
    /// The reading of the raw clock.
    pub raw: u64,
    /// How many members the view has.
    pub members: u32,
    /// How many of their clocks are used.
    pub used: u32,
    /// The assumption on how fast a member's raw clock drifts at most, in parts per billion.
    pub max_drift_ppb: u64,
    /// The assumption on how much the rate of a raw clock wanders, in parts per billion.
    pub wander_ppb: u64,
    /// UTC less group time.
    pub utc_offset_ns: i64,
    /// How far UTC is from group time and the offset at most; `u64::MAX` if that is not known.
    pub utc_bound_ns: u64,
}

/// How a clock stands at one reading.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Status {
    /// Nothing is known of group time.
    Unknown,
    /// Group time is within the error.
    Synchronised,
    /// What is stated may be untrue: something that it rests on was found broken.
    Disrupted,
    /// The words are stale. The error still holds, and grows.
    Holdover,
}

impl Words {
    /// Everything there is to say at a reading of the raw clock.
    #[inline]
    pub fn at(&self, raw: u64) -> Reading {
        let time_ns = self.course().piece(raw).at(raw);
        let status = self.status_at(raw);
        let (earliest_ns, latest_ns, error_ns) = if status == Status::Unknown {
            (i64::MIN, i64::MAX, u64::MAX)
        } else {
            let error = self.error_at(raw);
            (time_ns.saturating_sub_unsigned(error), time_ns.saturating_add_unsigned(error), error)
        };
        Reading {
            time_ns,
            earliest_ns,
            latest_ns,
            error_ns,
            status,
            epoch: self.epoch,
            raw,
            members: self.members,
            used: self.used,
            max_drift_ppb: self.max_drift_ppb,
            wander_ppb: self.wander_ppb,
            utc_offset_ns: self.utc_offset_ns,
            utc_bound_ns: self.utc_bound_ns,
        }
    }

    #[inline]
    fn status_at(&self, raw: u64) -> Status {
        match self.status {
            _ if raw > self.void_after_raw => Status::Unknown,
            Stated::Unknown => Status::Unknown,
            Stated::Disrupted => Status::Disrupted,
            Stated::Synchronised if raw > self.stale_after_raw => Status::Holdover,
            Stated::Synchronised => Status::Synchronised,
        }
    }

    #[inline]
    fn error_at(&self, raw: u64) -> u64 {
        self.near_error_at(raw).unwrap_or_else(|| {
            let first = (raw.saturating_sub(self.bound_raw), self.growth);
            let later = (raw.saturating_sub(self.later_raw), self.later_growth);
            far_error(self.bound_ns, first, later)
        })
    }

    /// The same where 64 bits suffice.
    #[inline]
    fn near_error_at(&self, raw: u64) -> Option<u64> {
        let grown = near_growth(raw.saturating_sub(self.bound_raw), self.growth)?;
        let later = near_growth(raw.saturating_sub(self.later_raw), self.later_growth)?;
        self.bound_ns.checked_add_signed(grown.checked_add(later)?)
    }
}

/// With copies of what it takes, so that the usual way keeps all in registers.
#[cold]
#[inline(never)]
fn far_error(bound_ns: u64, first: (u64, i64), later: (u64, i64)) -> u64 {
    let error = i128::from(bound_ns) + growth(first.0, first.1) + growth(later.0, later.1);
    u64::try_from(error).unwrap_or(if error < 0 { 0 } else { u64::MAX })
}

impl Reading {
    /// What a reader gives that finds no whole words.
    pub(crate) fn unknown(raw: u64) -> Self {
        Self { time_ns: 0, ..Words::UNKNOWN.at(raw) }
    }
}
