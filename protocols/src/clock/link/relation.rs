//! How the raw clocks of two members stand to each other, at one moment and around it.

use super::super::exchange::saturate;
use super::slope::{Slope, divided_by_rate};

/// The peer's raw clock, as seen from ours at one moment.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Relation {
    /// Our raw reading that it speaks of.
    pub at: u64,
    /// How far the peer's clock is ahead at that moment.
    pub offset: Ahead,
    /// The estimate of how much faster the peer's clock runs.
    pub rate: Slope,
    /// It runs at least so much faster, at any moment of the window.
    pub least_rate: Slope,
    /// It runs at most so much faster.
    pub most_rate: Slope,
    /// The same without a window: what two clocks may differ by.
    pub drift: Slope,
    /// For how long before and after `at` the rates are sure: one window. Beyond that, drift is all
    /// that is known.
    pub extends_for_ns: u64,
    /// The fastest way there and the fastest way back, as the estimate sees them. For information.
    pub round_trip_ns: u64,
    /// How many samples of our own packets count.
    pub sent: u32,
    /// How many samples of the peer's packets count.
    pub received: u32,
}

/// What one clock shows beyond another, in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Ahead {
    /// The estimate, which is never outside of the bounds.
    pub ns: i64,
    /// It is at least this.
    pub least_ns: i64,
    /// It is at most this.
    pub most_ns: i64,
}

impl Ahead {
    pub(super) fn new(estimate: i128, least: i128, most: i128) -> Self {
        let [least_ns, most_ns] = [least, most].map(saturate);
        Self { ns: saturate(estimate).clamp(least_ns, most_ns.max(least_ns)), least_ns, most_ns }
    }

    /// How wrong the estimate may be.
    pub fn error_ns(self) -> u64 {
        self.most_ns.abs_diff(self.ns).max(self.least_ns.abs_diff(self.ns))
    }
}

/// What one clock shows when another shows something, in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Shows {
    /// The estimate, which is never outside of the bounds.
    pub ns: u64,
    /// It is this or later.
    pub earliest_ns: u64,
    /// It is this or earlier.
    pub latest_ns: u64,
}

impl Relation {
    /// How far the peer's clock is ahead when ours reads `own`.
    pub fn offset(&self, own: u64) -> Ahead {
        let away = own.abs_diff(self.at);
        let sure = away.min(self.extends_for_ns);
        let rest = away - sure;
        let grown = |slope: Slope| slope.in_ns_at_least(sure) + self.drift.in_ns_at_least(rest);
        let (upward, downward, ahead) = if own >= self.at {
            (self.most_rate, self.least_rate.negative(), self.rate.in_ns(away))
        } else {
            (self.least_rate.negative(), self.most_rate, -self.rate.in_ns(away))
        };
        Ahead::new(
            i128::from(self.offset.ns) + ahead,
            i128::from(self.offset.least_ns) - grown(downward),
            i128::from(self.offset.most_ns) + grown(upward),
        )
    }

    /// What the peer's clock shows when ours shows `own`.
    pub fn to_peer(&self, own: u64) -> Shows {
        let ahead = self.offset(own);
        Shows::of(
            [ahead.ns, ahead.least_ns, ahead.most_ns].map(|ns| i128::from(own) + i128::from(ns)),
        )
    }

    /// What ours shows when the peer's clock shows `peer`. The bounds are rounded outwards by up to 2 ns.
    pub fn to_own(&self, peer: u64) -> Shows {
        let since = |offset: i64| i128::from(peer) - i128::from(self.at) - i128::from(offset);
        let best = divided_by_rate(since(self.offset.ns), self.rate);
        let earliest = self.own_span(since(self.offset.most_ns), self.most_rate, self.least_rate);
        let latest = self.own_span(since(self.offset.least_ns), self.least_rate, self.most_rate);
        Shows::of([best, earliest - 2, latest + 2].map(|ns| i128::from(self.at) + ns))
    }

    /// For how long our clock runs while the peer's runs for `peer`, at one rate ahead of `at` and at
    /// another before it.
    fn own_span(&self, peer: i128, ahead: Slope, before: Slope) -> i128 {
        let slope = if peer < 0 { before } else { ahead };
        let beyond = if slope == before.max(ahead) { self.drift } else { self.drift.negative() };
        let sure = i128::from(self.extends_for_ns) + slope.in_ns(self.extends_for_ns);
        let span = peer.abs();
        let own =
            divided_by_rate(span.min(sure), slope) + divided_by_rate((span - sure).max(0), beyond);
        own * peer.signum()
    }
}

impl Shows {
    fn of([best, earliest, latest]: [i128; 3]) -> Self {
        let earliest_ns = reading(earliest);
        let latest_ns = reading(latest.max(earliest));
        Self { ns: reading(best).clamp(earliest_ns, latest_ns), earliest_ns, latest_ns }
    }
}

/// The nearest that a clock can show.
fn reading(ns: i128) -> u64 {
    u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
}
