//! The clock filter: of the last eight exchanges with a server, the one with the least delay counts.
//!
//! Source: RFC 5905, section 10 and A.5.2; Mills, *Internet Time Synchronization: The Network Time Protocol*, IEEE
//! Transactions on Communications 39(10), 1991.
//!
//! Deviations:
//! - The clocks of the source are disciplined in frequency. Raw clocks that drift by 100 ppm each are 1.4 ms farther apart
//!   after seven polls. So how much faster the server's clock runs is measured by two exchanges that lie apart, and each
//!   offset is carried on by that.
//! - To half of the delay is added what the clocks may have drifted apart by since besides: by 15 ppm, as in the source, or
//!   by what the measurement leaves open. As long as there is none, that is all that the policy allows for, and an exchange
//!   of now is better than one of seven polls ago, unless it was slow.
//! - What is promised of group time has a filter of its own: of the same eight, the exchange that bounds it best now, by
//!   all that the policy allows for.

use std::collections::VecDeque;

use super::super::estimate::{Estimate, Stamps};
use super::super::exchange::saturate;
use super::super::rates::{BILLION, as_nanos, share};
use crate::time::LocalTime;

/// The last exchanges with a server, the latest first: the eight of the source, and those by which the rate is measured.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Filter {
    samples: VecDeque<Sample>,
}

/// One exchange.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Sample {
    /// θ: the server's clock less this raw clock.
    offset_ns: i64,
    /// δ: the round trip.
    delay_ns: u64,
    /// ε: what the exchange left unknown besides.
    dispersion_ns: u64,
    /// t: when the reply was here.
    at: LocalTime,
    /// Group time, as the server's own bound has it.
    estimate: Estimate,
}

/// How much faster the server's clock runs than this raw clock.
#[derive(Clone, Copy, Debug)]
struct Drift {
    ppb: i64,
    /// How far that may be from the truth, in parts per billion.
    unsure_ppb: u64,
}

/// What the filter makes of the exchanges.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Filtered {
    /// The offset now, by the exchange that counts.
    pub(super) offset_ns: i64,
    /// Its delay.
    pub(super) delay_ns: u64,
    /// The dispersions, each half as much as the one before, in the order of delays and drifts.
    pub(super) dispersion_ns: u64,
    /// The root mean square of how far the other offsets are from the one that counts.
    pub(super) jitter_ns: u64,
    /// When it ended.
    pub(super) at: LocalTime,
}

impl Filter {
    /// Takes in an exchange; the oldest is forgotten.
    pub(super) fn add(&mut self, stamps: Stamps, estimate: Estimate) {
        let offset = stamps.offset();
        let elapsed = as_nanos(stamps.received - stamps.sent);
        self.samples.push_front(Sample {
            offset_ns: offset.ns,
            delay_ns: offset.error_ns.saturating_mul(2),
            dispersion_ns: GRAIN_NS.saturating_add(share(elapsed, PHI_PPB)),
            at: stamps.received,
            estimate,
        });
        self.samples.truncate(SAMPLES);
    }

    /// Group time as the latest exchange has it.
    pub(super) fn latest(&self) -> Option<Estimate> {
        self.samples.front().map(|sample| sample.estimate)
    }

    /// When the oldest of the eight began.
    pub(super) fn oldest(&self) -> Option<LocalTime> {
        let began = |one: &Sample| LocalTime(one.at.0.saturating_sub(one.delay_ns));
        self.stages().last().map(began)
    }

    /// A raw clock was stopped since the others.
    pub(super) fn forget_all_but_the_latest(&mut self) {
        self.samples.truncate(1);
    }

    /// What it makes of the exchanges, where raw clocks drift apart by so many parts per billion at most; nothing if
    /// there was none.
    pub(super) fn filtered(&self, now: LocalTime, drift_ppb: u64) -> Option<Filtered> {
        let drift = self.drift(drift_ppb);
        let mut sorted: Vec<&Sample> = self.stages().collect();
        sorted.sort_by_key(|sample| sample.unknown_at(now, drift));
        let best = *sorted.first()?;
        let offset_ns = best.offset_at(now, drift);
        let known = sorted.iter().map(|sample| sample.dispersion_at(now));
        let dispersion_ns = known
            .chain(std::iter::repeat(MAXDISP_NS))
            .take(STAGES)
            .enumerate()
            .map(|(stage, dispersion_ns)| dispersion_ns >> (stage + 1))
            .fold(0_u64, u64::saturating_add);
        let squares =
            sorted.iter().map(|one| one.offset_at(now, drift).abs_diff(offset_ns)).map(u128::from);
        let squares =
            squares.map(|apart| apart.saturating_mul(apart)).fold(0, u128::saturating_add);
        let others = u128::try_from(sorted.len().saturating_sub(1).max(1)).unwrap_or(1);
        let jitter_ns = u64::try_from((squares / others).isqrt()).unwrap_or(u64::MAX);
        let Sample { delay_ns, at, .. } = *best;
        Some(Filtered { offset_ns, delay_ns, dispersion_ns, jitter_ns, at })
    }

    /// Group time as the exchanges bound it best.
    pub(super) fn estimate(&self, now: LocalTime, growth_ppb: u64) -> Option<Estimate> {
        let aged = self.stages().map(|sample| sample.estimate.aged(now, growth_ppb));
        aged.min_by_key(|estimate| estimate.error_ns)
    }

    /// The last eight.
    fn stages(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().take(STAGES)
    }

    /// By the two exchanges, one of the last eight and one before it, that leave the least open. If that is no less than
    /// so many parts per billion, nothing is known but that it is not more than these.
    fn drift(&self, most_ppb: u64) -> Drift {
        let pairs =
            self.stages().flat_map(|late| self.samples.iter().map(move |early| (early, late)));
        let measured = pairs.filter_map(|(early, late)| Sample::drift(early, late));
        let measured = measured.min_by_key(|drift| drift.unsure_ppb);
        match measured.filter(|drift| drift.unsure_ppb < most_ppb) {
            Some(Drift { ppb, unsure_ppb }) => {
                let most = i64::try_from(most_ppb).unwrap_or(i64::MAX);
                let unsure_ppb = unsure_ppb.max(PHI_PPB).min(most_ppb);
                Drift { ppb: ppb.clamp(-most, most), unsure_ppb }
            }
            None => Drift { ppb: 0, unsure_ppb: most_ppb },
        }
    }
}

impl Sample {
    /// The rate by two exchanges: each offset is wrong by half of its delay at most. Nothing if the first is not the earlier.
    fn drift(early: &Self, late: &Self) -> Option<Drift> {
        let span = late.at.0.checked_sub(early.at.0).filter(|span| *span > 0)?;
        let change = i128::from(late.offset_ns) - i128::from(early.offset_ns);
        let open = u128::from(early.delay_ns / 2) + u128::from(late.delay_ns / 2) + 1;
        let unsure_ppb = (open * u128::from(BILLION)).div_ceil(u128::from(span));
        Some(Drift {
            ppb: saturate(change * i128::from(BILLION) / i128::from(span)),
            unsure_ppb: u64::try_from(unsure_ppb).unwrap_or(u64::MAX),
        })
    }

    /// θ, carried on to a reading.
    fn offset_at(&self, now: LocalTime, drift: Drift) -> i64 {
        let age = i128::from(now.0.saturating_sub(self.at.0));
        let gained = age.saturating_mul(i128::from(drift.ppb)) / i128::from(BILLION);
        saturate(i128::from(self.offset_ns).saturating_add(gained))
    }

    /// Half of the delay, and what the drift since leaves open.
    fn unknown_at(&self, now: LocalTime, drift: Drift) -> u64 {
        let open = share(now.0.saturating_sub(self.at.0), drift.unsure_ppb);
        (self.delay_ns / 2).saturating_add(open)
    }

    fn dispersion_at(&self, now: LocalTime) -> u64 {
        let age = share(now.0.saturating_sub(self.at.0), PHI_PPB);
        self.dispersion_ns.saturating_add(age).min(MAXDISP_NS)
    }
}

const STAGES: usize = 8;
/// By so many exchanges the rate is measured.
const SAMPLES: usize = 32;
/// Φ, the frequency tolerance: 15 ppm.
pub(super) const PHI_PPB: u64 = 15_000;
/// What is unknown of a server that has not replied: 16 s.
const MAXDISP_NS: u64 = 16_000_000_000;
/// The precision of both clocks.
const GRAIN_NS: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// An exchange at a second, with that offset and that round trip.
    fn exchange(filter: &mut Filter, second: u64, offset_ns: i64, delay_ns: u64) {
        let sent = LocalTime(second * SECOND);
        let received = LocalTime(sent.0 + delay_ns);
        let middle = i64::try_from(sent.0 + delay_ns / 2).expect("small");
        let (asked_ns, answered_ns) = (middle + offset_ns, middle + offset_ns);
        let stamps = Stamps { sent, asked_ns, answered_ns, received };
        filter.add(stamps, stamps.estimate(0));
    }

    #[test]
    fn the_offset_of_the_least_delay_of_the_last_eight_counts() {
        let mut filter = Filter::default();
        let delays = [90, 40, 20, 70, 60, 50, 80, 30];
        for (second, delay) in (0..).zip(delays) {
            exchange(&mut filter, second, i64::try_from(delay).expect("small"), delay * 1_000);
        }
        let found = filter.filtered(LocalTime(8 * SECOND), 0).expect("exchanges");
        assert_eq!((found.offset_ns, found.delay_ns), (20, 20_000));
        for second in 8..11 {
            exchange(&mut filter, second, 65, 65_000);
        }
        let found = filter.filtered(LocalTime(11 * SECOND), 0).expect("exchanges");
        assert_eq!((found.offset_ns, found.delay_ns), (30, 30_000), "the least delay is forgotten");
    }

    #[test]
    fn a_server_is_known_better_with_every_exchange() {
        let mut filter = Filter::default();
        let mut seen = Vec::new();
        for second in 0..8 {
            exchange(&mut filter, second, 0, 1_000);
            let found = filter.filtered(LocalTime(second * SECOND), 0).expect("an exchange");
            seen.push(found.dispersion_ns / 1_000_000);
        }
        // 16 s less what is known: halves, quarters and so on of 16 s.
        assert_eq!(seen, [7_937, 3_937, 1_937, 937, 437, 187, 62, 0]);
    }

    #[test]
    fn dispersion_grows_by_15_ppm() {
        let mut filter = Filter::default();
        for second in 0..8 {
            exchange(&mut filter, second, 0, 1_000);
        }
        let at = |second: u64| {
            filter.filtered(LocalTime(second * SECOND), 0).expect("them").dispersion_ns
        };
        // All but a part in 256 of it.
        let grown = at(1_007) - at(7);
        assert!((14_900_000..15_000_000).contains(&grown), "{grown}");
    }

    #[test]
    fn jitter_is_how_far_the_offsets_are_apart() {
        let mut filter = Filter::default();
        exchange(&mut filter, 0, 100, 1_000);
        exchange(&mut filter, 1, 400, 2_000);
        exchange(&mut filter, 2, -300, 2_000);
        assert_eq!(filter.filtered(LocalTime(3 * SECOND), 0).expect("them").jitter_ns, 353);
    }

    /// The server's clock gains 200 µs in each second, and the first exchange was a little quicker than the others. The
    /// last was slow.
    #[test]
    fn where_raw_clocks_drift_an_exchange_counts_for_less_with_time() {
        let mut filter = Filter::default();
        for (second, delay) in [900_000, 1_000_000, 1_000_000, 9_000_000].into_iter().enumerate() {
            let second = u64::try_from(second).expect("small");
            exchange(&mut filter, second, i64::try_from(second).expect("small") * 200_000, delay);
        }
        let offset = |drift| filter.filtered(LocalTime(4 * SECOND), drift).expect("them").offset_ns;
        assert_eq!(offset(0), 0, "as in the source");
        assert_eq!(offset(10_000), 0, "what drifts so little is known best by the quickest");
        assert_eq!(
            offset(400_000),
            400_000,
            "the slow one is worth less than the drift of a second"
        );
    }
}
