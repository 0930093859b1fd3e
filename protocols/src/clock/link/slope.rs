//! How fast an offset changes.

/// How much an offset changes in a time, in units of 2^-48 (3.6 parts in 10^15): a day at one of
/// them is a third of a nanosecond.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Slope(i64);

/// An offset in units of 2^-48 ns.
pub(super) type Fine = i128;

impl Slope {
    pub(super) const MAX: Self = Self(i64::MAX);

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

    pub(super) fn at_least(part: u64, whole: u64) -> Self {
        let units = (u128::from(part) << BITS).div_ceil(u128::from(whole));
        Self(i64::try_from(units).unwrap_or(i64::MAX))
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

    pub(super) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub(super) fn negative(self) -> Self {
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
