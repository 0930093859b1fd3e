//! A clock that is not right.

use std::time::Duration;

use crate::time::LocalTime;

/// A clock with an error.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Its reading at the beginning.
    pub offset: Duration,
    /// How much too fast it runs, in parts per million; negative for too slow.
    pub rate_ppm: i32,
}

impl Clock {
    /// What it reads when so much true time has passed.
    pub fn read(self, now: Duration) -> LocalTime {
        let nanos = i128::try_from(now.as_nanos()).unwrap_or(i128::MAX);
        let run = nanos + nanos * i128::from(self.rate_ppm) / 1_000_000;
        let reading = run + i128::try_from(self.offset.as_nanos()).unwrap_or(0);
        LocalTime(u64::try_from(reading).unwrap_or(0))
    }

    /// How long in true time until this clock has run for `span`.
    pub(super) fn true_span(self, span: Duration) -> Duration {
        let nanos = span.as_nanos() * 1_000_000;
        let rate = u128::try_from(1_000_000 + i64::from(self.rate_ppm)).unwrap_or(1).max(1);
        Duration::from_nanos(u64::try_from(nanos.div_ceil(rate)).unwrap_or(u64::MAX))
    }

    /// The true time since the beginning at which it reads this or more for the first time; zero if
    /// it never read less.
    pub fn true_time(self, reading: LocalTime) -> Duration {
        const STEP: Duration = Duration::from_nanos(1);
        let offset = u64::try_from(self.offset.as_nanos()).unwrap_or(u64::MAX);
        let mut at = self.true_span(Duration::from_nanos(reading.0.saturating_sub(offset)));
        while !at.is_zero() && self.read(at.saturating_sub(STEP)) >= reading {
            at = at.saturating_sub(STEP);
        }
        while self.read(at) < reading {
            at += STEP;
        }
        at
    }

    /// The clock after it has stood still for so long in true time.
    pub(super) fn back(self, stood: Duration) -> Self {
        let behind = self.read(stood) - self.read(Duration::ZERO);
        Self { offset: self.offset.saturating_sub(behind), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_leads_back_to_its_time() {
        for rate_ppm in [-20_000, 0, 20_000] {
            let clock = Clock { offset: Duration::from_secs(50), rate_ppm };
            for nanos in 1_234_567_000..1_234_567_100 {
                let at = Duration::from_nanos(nanos);
                let first = clock.true_time(clock.read(at));
                assert!(first <= at && clock.read(first) == clock.read(at));
                assert!(clock.read(first.saturating_sub(Duration::from_nanos(1))) < clock.read(at));
            }
        }
    }

    #[test]
    fn a_clock_that_stood_still_goes_on_where_it_was() {
        let clock = Clock { offset: Duration::from_secs(50), rate_ppm: 10_000 };
        let (from, to) = (Duration::from_secs(3), Duration::from_secs(8));
        assert_eq!(clock.back(Duration::from_secs(5)).read(to), clock.read(from));
    }
}
