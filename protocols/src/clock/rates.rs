//! How fast clocks may move, and how fast what is known about them fades.

use std::time::Duration;

/// Limits on rates, derived from what is assumed of the hardware. All figures are parts per
/// billion, that is, nanoseconds per second.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Rates {
    drift: u64,
    slew: u64,
}

impl Rates {
    /// From the largest rate error of a raw clock, ρ, and the largest rate at which a member may
    /// slew its clock. More than 10 % of drift or 50 % of slew is taken for that.
    pub fn new(max_drift_ppm: u32, max_slew_ppm: u32) -> Self {
        let ppb = |ppm: u32, most_ppm: u32| u64::from(ppm.min(most_ppm)) * 1_000;
        Self { drift: ppb(max_drift_ppm, 100_000), slew: ppb(max_slew_ppm, 500_000) }
    }

    /// The larger of each.
    pub(super) fn larger(self, other: Self) -> Self {
        Self { drift: self.drift.max(other.drift), slew: self.slew.max(other.slew) }
    }

    /// How fast a follower slews.
    pub fn slew(self) -> u64 {
        self.slew
    }

    /// How fast the daemon slews, 3/2 ρ. It is slower than its followers, because every bound has to
    /// allow for it. Against the raw clock of the daemon, the average of the group runs off by at
    /// most 2ρ (n - 1)/n; where that is more than 3/2 ρ, the daemon stays behind a mean by a fixed
    /// amount and not by a growing one, since the mean takes its clock in.
    pub fn lead_slew(self) -> u64 {
        (self.drift * 3 / 2).min(self.slew)
    }

    /// How fast a daemon sheds the error with which it took over, ρ/2.
    pub fn shed(self) -> u64 {
        self.drift / 2
    }

    /// How fast one raw clock may drift from another, as the other shows it: 2ρ and terms of second order.
    pub(super) fn apart(self) -> u64 {
        per_own_second(2 * self.drift, self.drift)
    }

    /// How far the rate of group time may be from the rate of its daemon's raw clock: at most 2ρ.
    pub fn group(self) -> u64 {
        self.lead_slew() + self.shed()
    }

    /// How fast a follower's bound grows: its raw clock may be slow by ρ, the daemon's fast by ρ,
    /// and group time fast by [`Rates::group`] beside that. 4ρ and terms of second order.
    pub fn follower_growth(self) -> u64 {
        let both = 2 * self.drift + self.group();
        per_own_second(both + (self.drift * self.group()).div_ceil(BILLION), self.drift)
    }

    /// How fast the bound of a daemon grows that may have been replaced: as a follower's, and it
    /// slews its own clock besides.
    pub fn leader_growth(self) -> u64 {
        per_own_second(2 * self.drift + 2 * self.group(), self.drift)
    }
}

/// Turns a rate per true second into one per second of a raw clock that is slow by `drift`.
fn per_own_second(rate: u64, drift: u64) -> u64 {
    (rate * BILLION).div_ceil(BILLION - drift)
}

/// What a rate in parts per billion does in some nanoseconds, rounded down.
pub(super) fn share(nanos: u64, ppb: u64) -> u64 {
    let product = u128::from(nanos) * u128::from(ppb) / u128::from(BILLION);
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// As nanoseconds, as many as fit.
pub(super) fn as_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) const BILLION: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_grows_by_four_times_the_drift_and_a_little() {
        let rates = Rates::new(100, 500);
        assert_eq!(rates.group(), 200_000);
        assert_eq!(rates.follower_growth(), 400_061);
        assert_eq!(rates.leader_growth(), 600_061);
    }

    /// Tanenbaum and van Steen, *Distributed Systems*, on physical clocks.
    #[test]
    fn a_drift_of_one_in_a_million_makes_31_and_a_half_seconds_in_a_year() {
        let drift = Rates::new(1, 0).drift;
        assert_eq!(share(365 * 86_400 * BILLION, drift), 31_536_000_000);
        // Two that drift to opposite sides by ten in a million are 72 ms apart after an hour.
        let both = 2 * Rates::new(10, 0).drift;
        assert_eq!(share(3_600 * BILLION, both), 72_000_000);
    }

    #[test]
    fn absurd_rates_are_limited() {
        let rates = Rates::new(u32::MAX, u32::MAX);
        assert_eq!((rates.slew(), rates.shed()), (500_000_000, 50_000_000));
        assert!(rates.leader_growth() < BILLION);
        assert_eq!(share(u64::MAX, u64::MAX), u64::MAX);
    }
}
