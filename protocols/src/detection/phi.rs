//! Accrual detection: suspicion rises with a silence, the faster the more regular the heartbeats were.
//!
//! Source: Hayashibara, Défago, Yared and Katayama, *The φ Accrual Failure Detector*, SRDS 2004; the normal
//! distribution is theirs. The floor of the deviation and the least number of samples are as in Akka's
//! `PhiAccrualFailureDetector`.
//!
//! ```text
//! on HEARTBEAT from p:   add now - heard to the window; heard := now
//! P_later(t) :=          1 - F(t), F normal, of the window's mean and deviation
//! φ(now) :=              -log10(P_later(now - heard))
//! φ(now) ≥ threshold:    suspect p
//! ```
//!
//! A threshold of Φ is mistaken once in 10^Φ heartbeats, if the next is like those before.
//!
//! | property | value |
//! | --- | --- |
//! | detection time | at most mean + z(Φ) deviations, and the transfer of the last heartbeat; at most that of [`Timeout`] |
//! | the same, if heartbeats are regular | interval (1 + z(Φ)/4): 2.4 intervals with Φ = 8 |
//! | mistake duration | until the next heartbeat |
//! | memory for each peer | 100 gaps |
//!
//! Deviations:
//!
//! * No logarithm and no floating point. `P_later` falls with t, so φ(t) ≥ Φ where t ≥ mean + z(Φ) deviations, with
//!   P(Z > z(Φ)) = 10^-Φ. Thresholds are whole numbers, and z is a table. All else is nanoseconds, and the same on
//!   every machine.
//! * The timeout is suspected in any case. It alone counts before there are 10 samples.
//! * The deviation is at least a quarter of an interval: one of zero would suspect a heartbeat that is late by a
//!   microsecond. At the usual threshold one lost heartbeat then costs no mistake.
//! * After a silence of a timeout the window begins anew: what was before says nothing of a peer that was
//!   away, and that silence is no rhythm.
//! * What comes within half an interval of the one before is no sample: members answer out of turn, too.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Rule, Timeout};
use crate::time::LocalTime;

/// The silence of one peer, by the rhythm of its heartbeats.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct PhiAccrual {
    /// What counts in any case.
    timeout: Timeout,
    interval: Duration,
    threshold: Threshold,
    /// The latest gaps between heartbeats, none as long as the timeout.
    window: VecDeque<Duration>,
}

/// The level of suspicion that counts as one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Threshold(u8);

impl Threshold {
    /// The lowest: one mistake in ten heartbeats.
    pub const MIN: u8 = 1;
    /// The highest.
    pub const MAX: u8 = 16;

    /// That level, if it lies between [`MIN`](Self::MIN) and [`MAX`](Self::MAX).
    #[must_use]
    pub fn new(level: u8) -> Option<Self> {
        (Self::MIN..=Self::MAX).contains(&level).then_some(Self(level))
    }

    /// How many thousandths of a deviation above the mean one of so many is: z, with P(Z > z) = 10^-Φ.
    fn thousandths(self) -> u128 {
        let place = usize::from(self.0.clamp(Self::MIN, Self::MAX) - Self::MIN);
        THOUSANDTHS[place]
    }
}

/// For each threshold from 1.
const THOUSANDTHS: [u128; 16] = [
    1_282, 2_326, 3_090, 3_719, 4_265, 4_753, 5_199, 5_612, 5_998, 6_361, 6_706, 7_034, 7_349,
    7_651, 7_941, 8_222,
];

/// How many gaps are remembered.
const WINDOW: usize = 100;

/// How many say anything.
const SAMPLES_MIN: usize = 10;

impl PhiAccrual {
    /// Of a peer of which nothing is known but when it was heard.
    #[must_use]
    pub fn new(timeout: Timeout, interval: Duration, threshold: Threshold) -> Self {
        Self { timeout, interval, threshold, window: VecDeque::new() }
    }

    /// After how long a silence φ reaches the threshold; nothing while too little is known.
    #[must_use]
    pub fn silence(&self) -> Option<Duration> {
        if self.window.len() < SAMPLES_MIN {
            return None;
        }
        let count = self.window.len() as u128;
        let nanos = || self.window.iter().map(Duration::as_nanos);
        let mean = nanos().sum::<u128>() / count;
        let squares = nanos().map(|gap| gap.abs_diff(mean).saturating_pow(2));
        let variance = squares.fold(0, u128::saturating_add) / count;
        let deviation = variance.isqrt().max(self.interval.as_nanos() / FLOOR);
        let silence = mean + self.threshold.thousandths() * deviation / 1_000;
        Some(Duration::from_nanos(u64::try_from(silence).unwrap_or(u64::MAX)))
    }
}

/// The deviation is at least this part of an interval.
const FLOOR: u128 = 4;

impl Rule for PhiAccrual {
    fn hear(&mut self, now: LocalTime) {
        let gap = now - self.heard();
        if gap >= self.timeout.timeout() {
            self.window.clear();
        } else if gap > self.interval / 2 {
            self.window.push_back(gap);
            if self.window.len() > WINDOW {
                self.window.pop_front();
            }
        }
        self.timeout.hear(now);
    }

    fn heard(&self) -> LocalTime {
        self.timeout.heard()
    }

    fn deadline(&self) -> LocalTime {
        let last = self.timeout.deadline();
        self.silence().map_or(last, |silence| last.min(self.heard().after(silence)))
    }

    fn forgive(&mut self, silence: Duration) {
        self.timeout.forgive(silence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(1_000);

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// One that has heard heartbeats with these gaps, over and over.
    fn after(gaps: &[u64], level: u8) -> PhiAccrual {
        let threshold = Threshold::new(level).expect("a level");
        let timeout = Timeout::new(LocalTime(7), Duration::from_secs(10));
        let mut rule = PhiAccrual::new(timeout, INTERVAL, threshold);
        for gap in gaps.iter().cycle().take(WINDOW) {
            rule.hear(rule.heard().after(millis(*gap)));
        }
        rule
    }

    /// The chance of a heartbeat that comes later, by the formula, in floating point: the integral over the tail of
    /// the normal distribution.
    fn later(deviations: f64) -> f64 {
        let step = 1e-4;
        let density = |z: f64| (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
        let places = (0..200_000).map(f64::from);
        places.map(|place| density(deviations + (place + 0.5) * step) * step).sum()
    }

    #[test]
    fn each_place_of_the_table_has_its_level_by_the_formula() {
        for level in Threshold::MIN..=Threshold::MAX {
            let threshold = Threshold::new(level).expect("a level");
            let thousandths = u32::try_from(threshold.thousandths()).expect("small");
            let phi = -later(f64::from(thousandths) / 1_000.0).log10();
            assert!((phi - f64::from(level)).abs() < 0.005, "{level}: {phi}");
        }
        assert_eq!((Threshold::new(0), Threshold::new(17)), (None, None));
    }

    /// Gaps of 0.6 s and 1.4 s have the mean 1 s and the deviation 0.4 s: one in a thousand comes later than
    /// 3.09 deviations after the mean.
    #[test]
    fn the_silence_that_is_borne_is_the_mean_and_so_many_deviations() {
        assert_eq!(after(&[600, 1_400], 3).silence(), Some(millis(2_236)));
        assert_eq!(after(&[600, 1_400], 1).silence(), Some(Duration::from_micros(1_512_800)));
        assert_eq!(after(&[700, 1_300], 8).silence(), Some(Duration::from_micros(2_683_600)));
    }

    #[test]
    fn regular_heartbeats_leave_the_least_deviation_and_one_may_be_lost() {
        let rule = after(&[1_000], 8);
        assert_eq!(rule.silence(), Some(millis(2_403)));
        assert!(rule.deadline() > rule.heard().after(INTERVAL * 2));
        assert_eq!(rule.deadline(), rule.heard().after(millis(2_403)));
    }

    #[test]
    fn the_timeout_counts_alone_until_enough_is_known_and_in_any_case() {
        let mut rule = after(&[], 8);
        for heard in 0..SAMPLES_MIN {
            assert_eq!(rule.silence(), None, "{heard}");
            assert_eq!(rule.deadline(), rule.heard().after(millis(10_000)));
            rule.hear(rule.heard().after(INTERVAL));
        }
        assert!(rule.silence().is_some());
        let irregular = after(&[600, 9_000], 16);
        assert!(irregular.silence() > Some(millis(10_000)));
        assert_eq!(irregular.deadline(), irregular.heard().after(millis(10_000)));
    }

    #[test]
    fn the_window_slides_begins_anew_after_a_timeout_and_knows_no_answers_out_of_turn() {
        let mut rule = after(&[600, 1_400], 3);
        for _ in 0..WINDOW {
            rule.hear(rule.heard().after(INTERVAL));
        }
        assert_eq!(rule.silence(), after(&[1_000], 3).silence());
        assert_eq!(rule.window.len(), WINDOW);
        rule.hear(rule.heard().after(millis(500)));
        assert_eq!(rule.silence(), after(&[1_000], 3).silence(), "that came out of turn");
        rule.hear(rule.heard().after(millis(10_000)));
        assert_eq!((rule.silence(), rule.window.len()), (None, 0));
    }

    #[test]
    fn no_gap_is_too_long_or_too_short_to_be_counted_with() {
        let threshold = Threshold::new(16).expect("a level");
        for timeout in [Duration::ZERO, Duration::MAX] {
            for interval in [Duration::ZERO, Duration::MAX] {
                let timeout = Timeout::new(LocalTime(0), timeout);
                let mut rule = PhiAccrual::new(timeout, interval, threshold);
                for heard in [0, u64::MAX, 5, 7, u64::MAX - 1].iter().cycle().take(50) {
                    rule.hear(LocalTime(*heard));
                    rule.forgive(Duration::from_nanos(1));
                    assert!(rule.deadline() >= rule.heard());
                }
                rule.window = [Duration::MAX, Duration::ZERO].repeat(6).into();
                assert!(rule.deadline() >= rule.heard());
            }
        }
    }
}
