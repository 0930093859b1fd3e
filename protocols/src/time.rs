//! A member's own clock, and the one rule by which two clocks are compared.

use std::ops::Sub;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, de};

/// A reading of one member's own clock, which counts suspended time too: nanoseconds since some
/// moment of its own. Readings of different members are never compared.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct LocalTime(pub u64);

impl LocalTime {
    /// Later by `duration`; stops at the end of time.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// How long until `later`; zero if it has passed.
    #[must_use]
    pub fn until(self, later: Self) -> Duration {
        later - self
    }
}

impl Sub for LocalTime {
    type Output = Duration;

    /// How long since `earlier`; zero if it lies ahead.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// How long somebody may count on something that another grants or waits for `wait`.
///
/// A holder counts `hold(wait)` from *before it sent* the request; a granter and a waiter count
/// `wait` from *after they received* it. Five per cent covers the difference between two clocks'
/// rates, 20 ms the grain of timers. There is no other conversion between members' clocks.
#[must_use]
pub fn hold(wait: Duration) -> Duration {
    wait.saturating_sub(MARGIN) / 21 * 20
}

/// How long others wait for somebody who may count on something for `rest` more.
#[must_use]
pub fn wait_for(rest: Duration) -> Duration {
    rest.saturating_add(rest / 20).saturating_add(MARGIN)
}

/// Reads a wait or a period. One that is longer than a year is nobody's: sums and multiples of those
/// that are left stay far from the end of numbers.
pub(crate) fn read_wait<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let wait = Duration::deserialize(from)?;
    if wait > WAIT_MAX {
        return Err(de::Error::custom("a wait of more than a year"));
    }
    Ok(wait)
}

const WAIT_MAX: Duration = Duration::from_hours(366 * 24);

const MARGIN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_shorter_than_the_wait_at_the_worst_ratio_of_rates() {
        for millis in [20, 21, 600, 1_500, 10_000] {
            let wait = Duration::from_millis(millis);
            assert!(hold(wait).as_secs_f64() * 1.05 <= wait.as_secs_f64());
        }
    }

    #[test]
    fn a_member_that_waits_for_a_hold_waits_longer_than_it_lasts() {
        for millis in [0, 1, 20, 1_480, 9_980] {
            let rest = Duration::from_millis(millis);
            assert!(hold(wait_for(rest)) >= rest.saturating_sub(rest / 1_000_000));
            assert!(wait_for(rest).as_secs_f64() >= rest.as_secs_f64() * 1.05);
        }
        assert_eq!(wait_for(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(LocalTime(5).after(Duration::MAX), LocalTime(u64::MAX));
        assert_eq!(LocalTime(5) - LocalTime(9), Duration::ZERO);
        assert!(hold(Duration::MAX) < Duration::MAX);
    }
}
