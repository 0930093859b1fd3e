//! What the policy states about the clock, and what follows from it.

use std::time::Duration;

use super::rates::Rates;
use crate::policy::{Averaging, ClockPolicy};

/// How the clocks of a view are kept.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Params {
    /// How far apart two clocks may be: π.
    pub precision: Duration,
    /// The largest rate error of a raw clock: ρ.
    pub max_drift_ppm: u32,
    /// How fast a clock may be slewed.
    pub max_slew_ppm: u32,
    /// The longest time between two rounds. The bound grows by 4ρ from one round to the next, so
    /// the π/(2ρ) that keeps the *clocks* together is too long for the *bounds*.
    pub max_interval: Duration,
    /// How long the daemon waits for answers.
    pub answer: Duration,
    /// How far apart the clocks may be that are averaged: γ.
    pub gamma: Duration,
    /// How the daemon averages.
    pub averaging: Averaging,
}

impl From<&ClockPolicy> for Params {
    /// The slew is that of the kernel's `adjtime`, γ the RANGE of 4.3BSD's `timed`.
    fn from(policy: &ClockPolicy) -> Self {
        Self {
            precision: policy.precision,
            max_drift_ppm: policy.max_drift_ppm,
            max_slew_ppm: 500,
            max_interval: Duration::from_secs(1),
            answer: Duration::from_millis(250),
            gamma: Duration::from_millis(20),
            averaging: policy.averaging,
        }
    }
}

impl Params {
    /// How long from one round to the next by the textbook: π/(2ρ).
    pub fn resync_interval(&self) -> Duration {
        resync_interval(self.precision, self.max_drift_ppm)
    }

    /// How long from one round to the next: no longer than by the textbook.
    pub fn interval(&self) -> Duration {
        self.resync_interval().max(SHORTEST).min(self.max_interval)
    }

    /// How long a member still rests if its round, or its exchange, began so long ago.
    pub(super) fn rest(&self, since: Duration) -> Duration {
        self.interval().saturating_sub(since).max(REST)
    }

    /// How long after a synchronisation a clock counts as synchronised: three intervals.
    pub fn fresh_for(&self) -> Duration {
        self.interval().saturating_mul(3).saturating_add(self.answer)
    }

    /// The same where members poll, and the leader learns from their next request that it still leads: one
    /// interval more.
    pub fn fresh_for_polled(&self) -> Duration {
        self.fresh_for().saturating_add(self.interval())
    }

    /// The same where the best of the last eight polls counts, which may be that of seven intervals ago.
    pub fn fresh_for_filtered(&self) -> Duration {
        self.fresh_for().saturating_add(self.interval().saturating_mul(7))
    }

    /// ρ in parts per billion.
    pub fn drift_ppb(&self) -> u64 {
        u64::from(self.max_drift_ppm) * 1_000
    }

    /// How fast clocks may move.
    pub fn rates(&self) -> Rates {
        Rates::new(self.max_drift_ppm, self.max_slew_ppm)
    }
}

/// π/(2ρ): two clocks that drift apart at ρ each are no more than π apart after this time. Clocks
/// that do not drift need no second round.
pub fn resync_interval(precision: Duration, max_drift_ppm: u32) -> Duration {
    let Some(nanos) =
        precision.as_nanos().saturating_mul(1_000_000).checked_div(2 * u128::from(max_drift_ppm))
    else {
        return Duration::MAX;
    };
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The shortest interval: that by the textbook for the strictest policy, a precision of 1 ms and a drift of 1 %.
const SHORTEST: Duration = Duration::from_millis(50);
/// A round that took all of the interval is not followed by the next at once.
const REST: Duration = Duration::from_millis(5);
