//! A member's virtual clock: how it takes corrections.
//!
//! Before it was first synchronised it may be set; nobody reads it yet. After that it is never set
//! and never goes back: a clock that is ahead runs slower until the surplus is gone.

use serde::{Deserialize, Serialize};

use super::estimate::Estimate;
use super::exchange::saturate;
use super::map::{ClockMap, Fading, Known, Segment};
use super::rates::{Rates, share};
use crate::time::LocalTime;

/// The virtual clock of one member, carried from view to view.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct VirtualClock {
    map: ClockMap,
    rates: Rates,
}

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

impl VirtualClock {
    /// A clock that shows this member's wall clock until it is first synchronised.
    /// `utc_offset_ns` is that wall clock, in nanoseconds since 1970, less the raw clock.
    pub fn new(utc_offset_ns: i64, rates: Rates) -> Self {
        let course = Segment::straight(0, utc_offset_ns);
        let map = ClockMap {
            before: course,
            after: course,
            known: Known { raw: 0, ns: utc_offset_ns, error_ns: 0 },
            ahead_ns: 0,
            growth_ppb: rates.follower_growth(),
            leads: false,
            synced_raw: None,
            fresh_for_ns: u64::MAX,
            textbook: None,
        };
        Self { map, rates }
    }

    /// Begins a view as a follower or as the daemon, with the view's rates; the clock counts as
    /// synchronised for `fresh_for_ns` after each synchronisation. The time does not change, and the
    /// bound does not become smaller.
    pub fn enter(&mut self, now: LocalTime, leads: bool, rates: Rates, fresh_for_ns: u64) {
        let raw = now.0;
        let was = self.map;
        self.rates = rates;
        self.map.fresh_for_ns = fresh_for_ns;
        self.map.leads = leads;
        self.map.textbook = None;
        let follows_on = !was.leads && !leads;
        let ns = if follows_on { was.known.at(raw) } else { was.now_ns(raw) };
        let error_ns = if follows_on || was.leads {
            was.known_error_ns(raw)
        } else {
            was.error_ns(raw).unwrap_or(0)
        };
        // The course is no part of a daemon's bound, but until the new map takes effect the clock may
        // still slew faster than a daemon's does.
        let hurry = share(ClockMap::SWITCH_NS, was.after.slew_ppb.max(was.before.slew_ppb));
        let error_ns = error_ns.saturating_add(if leads { hurry } else { 0 });
        self.aim(raw, Known { raw, ns, error_ns }, was.target_ns(raw));
    }

    /// A follower's correction. It is refused, with `false`, if group time is known better
    /// without it: a slow exchange says less than a fast one some time ago.
    pub fn adjust(&mut self, now: LocalTime, shown: Shown, by: Correction) -> bool {
        let target_ns = shown.ns.saturating_add(by.delta_ns);
        let ns = target_ns.saturating_sub(by.ahead_ns);
        let known = Estimate { raw: shown.raw, ns, error_ns: by.error_ns };
        self.follow_to(now, known, (target_ns, shown.raw))
    }

    /// Follows group time as a time server's reply has it. It is refused as [`VirtualClock::adjust`] refuses.
    pub(super) fn follow(&mut self, now: LocalTime, known: Estimate) -> bool {
        self.follow_to(now, known, (known.ns, known.raw))
    }

    /// The same with a target of its own, where clocks were compared at another reading.
    pub(super) fn follow_to(
        &mut self,
        now: LocalTime,
        known: Estimate,
        (target_ns, compared): (i64, LocalTime),
    ) -> bool {
        let known = Known { raw: known.raw.0, ns: known.ns, error_ns: known.error_ns };
        let adjusted = ClockMap { known, ..self.map };
        let worse = adjusted.known_error_ns(now.0) > self.map.known_error_ns(now.0);
        if self.is_synchronised() && worse {
            return false;
        }
        self.synchronise(now.0, known, target_ns);
        self.map.synced_raw = Some(compared.0);
        true
    }

    /// Notes how wrong the clock is by the formula of the algorithm's source, at a raw reading, and what that grows by after it,
    /// in parts per billion.
    pub(super) fn note_textbook(&mut self, raw: LocalTime, error_ns: u64, growth_ppb: u64) {
        self.map.textbook = Some(Fading { raw: raw.0, error_ns, growth_ppb });
    }

    /// The daemon's correction of itself, when it knows of no better bound than it has.
    pub fn steer(&mut self, now: LocalTime, delta_ns: i64) {
        let ns = self.map.now_ns(now.0);
        let error_ns = self.map.known_error_ns(now.0);
        self.aim(now.0, Known { raw: now.0, ns, error_ns }, ns.saturating_add(delta_ns));
    }

    /// The daemon's correction of itself, when its clock was within `error_ns` of group time at
    /// `since`, or, if it was never synchronised, would have been with this correction.
    pub fn lead(&mut self, now: LocalTime, delta_ns: i64, since: LocalTime, error_ns: u64) {
        let age = i128::from(now.0) - i128::from(since.0);
        let shown_ns = saturate(i128::from(self.map.now_ns(now.0)) - age);
        let target_ns = shown_ns.saturating_add(delta_ns);
        let ns = if self.is_synchronised() { shown_ns } else { target_ns };
        self.synchronise(now.0, Known { raw: since.0, ns, error_ns }, target_ns);
    }

    /// The clock as readers need it.
    pub fn map(&self) -> ClockMap {
        self.map
    }

    /// Whether it was ever synchronised.
    pub fn is_synchronised(&self) -> bool {
        self.map.synced_raw.is_some()
    }

    /// Sets a clock that nobody has read yet, slews any other. The target is where the clock is to
    /// be when group time is known to be there.
    fn synchronise(&mut self, raw: u64, known: Known, target_ns: i64) {
        if self.map.synced_raw.is_none() {
            self.map.before = Segment::straight(known.raw, target_ns);
            self.map.after = self.map.before;
        }
        self.map.synced_raw = Some(known.raw);
        self.aim(raw, known, target_ns);
    }

    /// Plans the way to a target. The present course is kept for a moment, so that readers which
    /// still have the map of before see the same time; a plan that has not begun is replaced.
    fn aim(&mut self, raw: u64, known: Known, target_ns: i64) {
        let map = &mut self.map;
        if raw >= map.after.raw {
            map.before = map.after;
            map.after.raw = raw.saturating_add(ClockMap::SWITCH_NS);
            map.after.ns = map.before.at(map.after.raw);
        }
        map.known = known;
        map.ahead_ns = target_ns.saturating_sub(known.ns);
        let target_ns = map.target_ns(map.after.raw);
        map.after.left_ns = saturate(i128::from(target_ns) - i128::from(map.after.ns));
        (map.growth_ppb, map.after.slew_ppb) = if map.leads {
            (self.rates.leader_growth(), self.rates.lead_slew())
        } else {
            (self.rates.follower_growth(), self.rates.slew())
        };
    }
}
