//! How fast an offset changes.

use serde::{Deserialize, Serialize};

/// How much an offset changes in a time, in units of 2^-48 (3.6 parts in 10^15): a day at one of
/// them is a third of a nanosecond.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct Slope(i64);

/// An offset in units of 2^-48 ns.
pub(super) type Fine = i128;

impl Slope {
    pub(super) const MAX: Self = Self(i64::MAX);
    /// Half of a clock's own rate.
    pub(in crate::clock) const HALF: Self = Self(1 << (BITS - 1));

    /// So many units of 2^-48.
    pub fn of_units(units: i64) -> Self {
        Self(units)
    }

    /// In units of 2^-48.
    pub fn units(self) -> i64 {
        self.0
    }

    /// In parts per billion, rounded down.
    pub fn ppb(self) -> i64 {
        let ppb = (i128::from(self.0) * 1_000_000_000) >> BITS;
        i64::try_from(ppb).unwrap_or(0)
    }

    /// The change in so many nanoseconds, rounded down.
    pub fn in_ns(self, nanos: u64) -> i128 {
        self.fine(nanos) >> BITS
    }

    /// The change in so many nanoseconds, rounded up.
    pub fn in_ns_at_least(self, nanos: u64) -> i128 {
        round_up(self.fine(nanos))
    }

    pub(in crate::clock) fn at_least(part: u64, whole: u64) -> Self {
        let units = (u128::from(part) << BITS).div_ceil(u128::from(whole));
        Self(i64::try_from(units).unwrap_or(i64::MAX))
    }

    /// The change in a time that may be negative, rounded down. Neither may be absurd: their product has to fit.
    pub(in crate::clock) fn of(self, nanos: i128) -> i128 {
        (i128::from(self.0) * nanos) >> BITS
    }

    /// The change in so many nanoseconds, rounded up, of as many as fit.
    pub(in crate::clock) fn at_least_of(self, nanos: u64) -> u64 {
        u64::try_from(self.in_ns_at_least(nanos)).unwrap_or(0)
    }

    /// How much this is without its sign.
    pub(in crate::clock) fn size(self) -> Self {
        Self(self.0.saturating_abs())
    }

    pub(in crate::clock) fn less(self, other: Self) -> Self {
        self.plus(other.negative())
    }

    /// The same by a clock that is faster by `rate` than the one that it is stated by, rounded up.
    pub(in crate::clock) fn scaled(self, rate: Self) -> Self {
        let more = round_up(i128::from(self.0) * i128::from(rate.0));
        self.plus(Self(i64::try_from(more).unwrap_or(i64::MAX)))
    }

    /// How much faster something is than a clock that is slower by `rate` than the one that it is faster than by this:
    /// (1 + this)(1 + rate) - 1.
    pub(in crate::clock) fn after(self, rate: Self) -> Self {
        self.scaled(rate).plus(rate)
    }

    /// How long a clock takes for so many nanoseconds of one that is faster by this, rounded down.
    pub(in crate::clock) fn passed(self, nanos: u64) -> u64 {
        u64::try_from(divided_by_rate(i128::from(nanos), self)).unwrap_or(u64::MAX)
    }

    /// How long it takes to gain so much, rounded up, of as much as fits.
    pub(in crate::clock) fn takes(self, gain: u128) -> u64 {
        let rate = u128::from(self.0.unsigned_abs());
        let finely = gain.checked_mul(1 << BITS);
        let takes = finely.and_then(|gain| (rate > 0).then(|| gain.div_ceil(rate)));
        takes.and_then(|takes| u64::try_from(takes).ok()).unwrap_or(u64::MAX)
    }

    /// How fast a gain in a time is, rounded down, where a clock may hardly stand still.
    pub(in crate::clock) fn of_gain(gain: i128, nanos: u64) -> Self {
        let most = (1 << BITS) - 1;
        let units = (gain << BITS).div_euclid(i128::from(nanos)).clamp(-most, most);
        Self(i64::try_from(units).unwrap_or(0))
    }

    pub(super) fn fine(self, nanos: u64) -> Fine {
        i128::from(self.0) * i128::from(nanos)
    }

    /// Whether a change in a time is slower than this.
    pub(super) fn is_above(self, change: i128, nanos: u64) -> bool {
        (change << BITS) < self.fine(nanos)
    }

    /// How fast a change in a time is, rounded up.
    pub(super) fn of_change(change: i128, nanos: u64) -> Self {
        let units = -(-(change << BITS)).div_euclid(i128::from(nanos));
        Self(i64::try_from(units).unwrap_or(if change < 0 { i64::MIN } else { i64::MAX }))
    }

    pub(in crate::clock) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub(in crate::clock) fn negative(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

/// Nanoseconds as fine as slopes have them.
pub(super) fn finely(nanos: i64) -> Fine {
    i128::from(nanos) << BITS
}

/// In whole nanoseconds, at least as many.
pub(super) fn round_up(fine: Fine) -> i128 {
    -((-fine) >> BITS)
}

/// How long a change of a clock takes by a clock against which it runs at 1 + `slope`, rounded down.
pub(super) fn divided_by_rate(nanos: i128, slope: Slope) -> i128 {
    (nanos << BITS).div_euclid((1 << BITS) + i128::from(slope.0).max(1 - (1 << BITS)))
}

pub(super) const BITS: u32 = 48;
