//! Clocks of different rates, and how a lease is counted.

/// A time by somebody's own clock.
pub(crate) type Units = u8;

/// What the holder of a lease counts from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Base {
    /// From before it sent what was answered (rule 5).
    Send,
    /// From the answer.
    Reply,
}

/// How leases are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counting {
    /// By how much a slow and a fast clock advance in one tick. In every tick each clock is one or
    /// the other.
    pub(crate) rates: (Units, Units),
    /// For how long the granting member waits, by its own clock, from after the receipt.
    pub(crate) wait: Units,
    /// For how long the holder believes, by its own clock.
    pub(crate) hold: Units,
    pub(crate) base: Base,
}

impl Counting {
    /// Clocks of the ratio 1.5, and a hold that is as much shorter than the wait.
    pub(crate) const DRIFTING: Self = Self { rates: (2, 3), wait: 6, hold: 4, base: Base::Send };

    /// The same with twice as many ticks in a wait.
    pub(crate) const FINER: Self = Self { wait: 12, hold: 8, ..Self::DRIFTING };

    /// Clocks that run alike, with a hold as long as the wait.
    pub(crate) const EQUAL: Self = Self { rates: (1, 1), wait: 2, hold: 2, base: Base::Send };

    /// Which clocks may be fast in one tick, one bit for each of so many processes.
    pub(crate) fn fast_clocks(self, processes: u8) -> std::ops::Range<u8> {
        if self.rates.0 == self.rates.1 { 0..1 } else { 0..1 << processes }
    }

    /// How far the clock of this process advances in a tick.
    pub(crate) fn advance(self, process: usize, fast: u8) -> Units {
        if fast >> process & 1 == 1 { self.rates.1 } else { self.rates.0 }
    }

    /// What is left of a hold when its answer arrives so long after the request was sent.
    pub(crate) fn left(self, since_sent: Units) -> Units {
        match self.base {
            Base::Send => self.hold.saturating_sub(since_sent),
            Base::Reply => self.hold,
        }
    }

    /// The age of a request, as far as it matters.
    pub(crate) fn older(self, age: Units, by: Units) -> Units {
        match self.base {
            Base::Send => (age + by).min(self.hold),
            Base::Reply => 0,
        }
    }

    /// The time that was waited, as far as it matters.
    pub(crate) fn waited(self, since: Units, by: Units) -> Units {
        (since + by).min(self.wait)
    }
}
