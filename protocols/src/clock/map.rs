//! What a reader of the group clock needs to know, in one small value.

use serde::{Deserialize, Serialize};

use super::by_messages::{ByMessages, MessageReading};
use super::course::{Course, Known, Line};
use super::exchange::saturate;
use super::joining::joined;
use super::link::Slope;
use super::rates::{BILLION, Rates};

/// A member's virtual clock as a function of its raw clock, until further notice.
///
/// It is `Copy` and asks nobody: the map and a raw reading give the time. A map that
/// replaces another begins to differ from it only [`ClockMap::SWITCH_NS`] after it was made. A
/// reader that takes the map and reads the raw clock within that time therefore never sees the time
/// go back, even if a new map was published in between.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ClockMap {
    /// What the clock shows.
    pub shown: Course,
    /// What is known of group time.
    pub known: Known,
    /// The raw reading that the last synchronisation speaks of; nothing before the first.
    pub synced_raw: Option<u64>,
    /// The age after which the clock is in holdover.
    pub fresh_for_ns: u64,
    /// Until then something contradicts what is assumed of the clocks.
    pub disrupted_until: u64,
    /// From there on nothing is known of group time: another may have begun.
    pub void_from: u64,
    /// What the algorithm's own messages say; nothing before there were any in this view, and at a leader that asks nobody.
    pub by_messages: Option<ByMessages>,
}

/// How a clock stands.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum State {
    /// Nothing is known of group time yet, or any more.
    Unsynchronised,
    /// The last synchronisation is recent.
    Synchronised,
    /// Several synchronisations were missed. The bound still holds, and grows.
    Holdover,
    /// What was heard of a clock lately contradicts what is assumed of all, or what was heard before: the bound may
    /// not hold.
    Disrupted,
}

/// The group time at one raw reading.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Reading {
    /// Nanoseconds since 1970. Before the first synchronisation, this member's wall clock.
    pub now_ns: i64,
    /// How far group time is from that at most; nothing if it is not known.
    pub error_ns: Option<u64>,
    /// What the algorithm's own messages say; nothing before there were any in this view, and at a leader that asks nobody.
    pub by_messages: Option<MessageReading>,
    /// How the clock stands.
    pub state: State,
    /// How long ago the clock was compared; nothing if group time is not known.
    pub age_ns: Option<u64>,
    /// What is still to be slewed: positive if the clock is behind.
    pub slewing_ns: i64,
}

impl ClockMap {
    /// How long after it was made a map begins to differ from the one before: 5 ms.
    pub const SWITCH_NS: u64 = 5_000_000;

    /// Everything there is to say at a reading of the raw clock.
    pub fn reading(&self, raw: u64) -> Reading {
        let synced_raw = self.synced_raw.filter(|_| raw < self.void_from);
        let age_ns = synced_raw.map(|synced| raw.saturating_sub(synced));
        let state = match age_ns {
            None => State::Unsynchronised,
            Some(_) if raw < self.disrupted_until => State::Disrupted,
            Some(age) if age <= self.fresh_for_ns => State::Synchronised,
            Some(_) => State::Holdover,
        };
        Reading {
            now_ns: self.now_ns(raw),
            error_ns: self.error_ns(raw),
            by_messages: self.by_messages.filter(|_| age_ns.is_some()).map(|one| one.reading(raw)),
            state,
            age_ns,
            slewing_ns: self.slewing_ns(raw),
        }
    }

    /// The time.
    pub fn now_ns(&self, raw: u64) -> i64 {
        self.shown.at(raw)
    }

    /// How far group time is from [`ClockMap::now_ns`] at most; nothing before the first
    /// synchronisation, and where nothing is known any more.
    pub fn error_ns(&self, raw: u64) -> Option<u64> {
        let apart = self.known.path.at(raw).abs_diff(self.now_ns(raw));
        self.synced_raw
            .filter(|_| raw < self.void_from)
            .map(|_| self.known.bound.at(raw).saturating_add(GRAIN_NS).saturating_add(apart))
    }

    /// A course for readers that follow another line than this clock shows: they keep to it until `switch`, and are
    /// slewed to this clock from then on. On it time never falls.
    pub fn joined_from(&self, line: Line, switch: u64, rates: Rates) -> Course {
        joined(line, switch, 0, Slope::at_least(rates.slew(), BILLION), &self.shown)
    }

    /// What is still to be slewed.
    pub(super) fn slewing_ns(&self, raw: u64) -> i64 {
        saturate(i128::from(self.shown.last.at(raw)) - i128::from(self.now_ns(raw)))
    }
}

impl Reading {
    /// The same for a reader who has seen that time: not before it, with an error that covers the difference. Where
    /// group time is not known, it is left as it is.
    #[must_use]
    pub fn not_before(self, ns: i64) -> Self {
        self.showing(self.now_ns.max(ns))
    }

    /// The same with another time, and an error that covers the difference. Where group time is not known, it is left as
    /// it is.
    #[must_use]
    pub fn showing(self, now_ns: i64) -> Self {
        let Some(error_ns) = self.error_ns else { return self };
        let error_ns = error_ns.saturating_add(now_ns.abs_diff(self.now_ns));
        Self { now_ns, error_ns: Some(error_ns), ..self }
    }

    /// The same where group time is not known.
    #[must_use]
    pub fn unknown(self) -> Self {
        let state = State::Unsynchronised;
        Self { error_ns: None, by_messages: None, state, age_ns: None, ..self }
    }

    /// Group time is not before this.
    pub fn earliest_ns(&self) -> Option<i64> {
        self.error_ns.map(|error| self.now_ns.saturating_sub_unsigned(error))
    }

    /// Group time is not after this.
    pub fn latest_ns(&self) -> Option<i64> {
        self.error_ns.map(|error| self.now_ns.saturating_add_unsigned(error))
    }
}

/// Readings are whole nanoseconds, and so is every step of the arithmetic.
const GRAIN_NS: u64 = 2;
