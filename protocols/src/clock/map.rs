//! What a reader of the group clock needs to know, in one small value.

use serde::{Deserialize, Serialize};

use super::exchange::saturate;
use super::rates::share;

/// A member's virtual clock as a function of its raw clock, until further notice.
///
/// It is `Copy` and asks nobody: the map and a raw reading give the time. A map that
/// replaces another begins to differ from it only [`ClockMap::SWITCH_NS`] after it was made. A
/// reader that takes the map and reads the raw clock within that time therefore never sees the time
/// go back, even if a new map was published in between.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ClockMap {
    /// The course up to the beginning of `after`.
    pub(super) before: Segment,
    /// The course from then on.
    pub(super) after: Segment,
    /// What is known of group time.
    pub(super) known: Known,
    /// How far ahead of that the clock is going to be: behind or ahead of the daemon, where the
    /// average is.
    pub(super) ahead_ns: i64,
    /// How fast what is known fades, in parts per billion.
    pub(super) growth_ppb: u64,
    /// Whether group time runs with this clock, so that its slewing is no error of its own.
    pub(super) leads: bool,
    /// The raw reading that the last synchronisation speaks of; nothing before the first.
    pub(super) synced_raw: Option<u64>,
    /// The age after which the clock is in holdover.
    pub(super) fresh_for_ns: u64,
    /// The error by the formula of the algorithm's source; nothing before clocks were compared in this view.
    pub(super) textbook: Option<Fading>,
}

/// A stretch of a clock's course: as fast as the raw clock, but for what is left to be slewed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Segment {
    pub(super) raw: u64,
    pub(super) ns: i64,
    pub(super) left_ns: i64,
    pub(super) slew_ppb: u64,
}

/// Group time as a line as fast as the raw clock, through one point.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Known {
    pub(super) raw: u64,
    pub(super) ns: i64,
    /// How far group time may have been from the line at the point.
    pub(super) error_ns: u64,
}

/// An error that grows.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Fading {
    pub(super) raw: u64,
    pub(super) error_ns: u64,
    pub(super) growth_ppb: u64,
}

/// How a clock stands.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum State {
    /// Nothing is known of group time yet.
    Unsynchronised,
    /// The last synchronisation is recent.
    Synchronised,
    /// Several synchronisations were missed. The bound still holds, and grows.
    Holdover,
}

/// The group time at one raw reading.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Reading {
    /// Nanoseconds since 1970. Before the first synchronisation, this member's wall clock.
    pub now_ns: i64,
    /// How far group time is from that at most; nothing before the first synchronisation.
    pub error_ns: Option<u64>,
    /// How far it is wrong at most by the formula of the algorithm's source, which takes less into account than
    /// `error_ns`; nothing before clocks were compared in this view.
    pub textbook_ns: Option<u64>,
    /// How the clock stands.
    pub state: State,
    /// How long ago the clock was compared; nothing before the first synchronisation.
    pub age_ns: Option<u64>,
    /// What is still to be slewed: positive if the clock is behind.
    pub slewing_ns: i64,
}

impl ClockMap {
    /// How long after it was made a map begins to differ from the one before: 5 ms.
    pub const SWITCH_NS: u64 = 5_000_000;

    /// Everything there is to say at a reading of the raw clock.
    pub fn reading(&self, raw: u64) -> Reading {
        let age_ns = self.synced_raw.map(|synced| raw.saturating_sub(synced));
        let state = match age_ns {
            None => State::Unsynchronised,
            Some(age) if age <= self.fresh_for_ns => State::Synchronised,
            Some(_) => State::Holdover,
        };
        Reading {
            now_ns: self.now_ns(raw),
            error_ns: self.error_ns(raw),
            textbook_ns: self.textbook_ns(raw),
            state,
            age_ns,
            slewing_ns: self.slewing_ns(raw),
        }
    }

    /// The time.
    pub fn now_ns(&self, raw: u64) -> i64 {
        let segment = if raw < self.after.raw { self.before } else { self.after };
        segment.at(raw)
    }

    /// How far group time is from [`ClockMap::now_ns`] at most; nothing before the first
    /// synchronisation.
    pub fn error_ns(&self, raw: u64) -> Option<u64> {
        let apart = if self.leads { 0 } else { self.known.at(raw).abs_diff(self.now_ns(raw)) };
        self.synced_raw.map(|_| self.known_error_ns(raw).saturating_add(apart))
    }

    /// See [`Reading::textbook_ns`].
    pub(super) fn textbook_ns(&self, raw: u64) -> Option<u64> {
        let Fading { raw: since, error_ns, growth_ppb } = self.textbook?;
        Some(error_ns.saturating_add(share(raw.saturating_sub(since), growth_ppb)))
    }

    /// What is still to be slewed.
    pub(super) fn slewing_ns(&self, raw: u64) -> i64 {
        saturate(i128::from(self.target_ns(raw)) - i128::from(self.now_ns(raw)))
    }

    /// Where the clock is going.
    pub(super) fn target_ns(&self, raw: u64) -> i64 {
        self.known.at(raw).saturating_add(self.ahead_ns)
    }

    /// How far group time is from what is known of it at most.
    pub(super) fn known_error_ns(&self, raw: u64) -> u64 {
        let growth = share(raw.saturating_sub(self.known.raw), self.growth_ppb);
        self.known.error_ns.saturating_add(growth).saturating_add(GRAIN_NS)
    }
}

impl Reading {
    /// Group time is not before this.
    pub fn earliest_ns(&self) -> Option<i64> {
        self.error_ns.map(|error| self.now_ns.saturating_sub_unsigned(error))
    }

    /// Group time is not after this.
    pub fn latest_ns(&self) -> Option<i64> {
        self.error_ns.map(|error| self.now_ns.saturating_add_unsigned(error))
    }
}

impl Segment {
    /// A stretch without slewing.
    pub(super) fn straight(raw: u64, ns: i64) -> Self {
        Self { raw, ns, left_ns: 0, slew_ppb: 0 }
    }

    /// The clock at a raw reading. It never falls while the raw clock rises, since it slews by less
    /// than the raw clock's own rate.
    pub(super) fn at(self, raw: u64) -> i64 {
        let passed = raw.saturating_sub(self.raw);
        let slewed = share(passed, self.slew_ppb).min(self.left_ns.unsigned_abs());
        let slewed = i128::from(slewed) * i128::from(self.left_ns.signum());
        saturate(i128::from(self.ns) + i128::from(passed) + slewed)
    }
}

impl Known {
    pub(super) fn at(self, raw: u64) -> i64 {
        saturate(i128::from(self.ns) + i128::from(raw) - i128::from(self.raw))
    }
}

/// Readings are whole nanoseconds, and so is every step of the arithmetic.
const GRAIN_NS: u64 = 2;
