//! The averages of clocks that do not listen to a clock gone mad: the rules that the Berkeley
//! daemon can go by.
//!
//! - `LargestSet`. Gusella and Zatti, *The Accuracy of the Clock Synchronization Achieved by TEMPO in
//!   Berkeley UNIX 4.3BSD*, IEEE TSE 15(7), 1989; as in `networkdelta.c` of 4.3BSD's `timed`: the
//!   largest set of clocks that are within a given range of one another is averaged, the daemon's own
//!   clock like any other.
//! - `Median`. The `networkdelta.c` that replaced it (4.4BSD, 1993): the median of the trusted clocks,
//!   then the median of those that are near it. Machines of one model tend to be wrong by the same, and the
//!   largest set is then that of the commonest model.
//! - `Intervals`. Marzullo and Owicki, *Maintaining the Time in a Distributed System*, PODC 1983, the
//!   intersection algorithm: each clock states how wrong it may be, and the middle of what the intervals
//!   have in common is taken. Where some are wrong, of what most of them have in common: Marzullo,
//!   *Maintaining the Time in a Distributed System: An Example of a Loosely-Coupled Distributed Service*,
//!   doctoral thesis, Stanford, 1984 ([`intersection`](super::intersection)).
//!
//! Deviations:
//! - Of two clocks in the middle that are farther apart than γ, the median is the one nearer to the
//!   daemon's; in `timed` it lies between them, where no clock is.
//! - For `Intervals`, no clock counts as better known than to the precision that is asked for: else the
//!   daemon's, from which group time hardly differs, would never be moved by the others. So the others move
//!   a daemon that agrees with the most of them by as much as that at once, or as its own bound if that is larger.

use std::collections::{BTreeMap, BTreeSet};

use super::exchange::saturate;
use super::intersection::{Interval, intersection};
use crate::ids::MemberId;
use crate::policy::Averaging;

/// A clock as the daemon sees it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Candidate {
    /// How far it is ahead of the daemon's.
    pub ns: i64,
    /// How far group time may be from it.
    pub error_ns: u64,
}

/// An average, and whose clocks are in it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Mean {
    /// The average of the offsets, rounded down.
    pub ns: i64,
    /// The members that it is made of; the others are outliers.
    pub of: BTreeSet<MemberId>,
}

/// The average by a rule, where `me` is the daemon; nothing if there are no clocks.
pub fn average(
    rule: Averaging,
    clocks: &BTreeMap<MemberId, Candidate>,
    gamma_ns: u64,
    me: MemberId,
) -> Option<Mean> {
    match rule {
        Averaging::LargestSet => largest_set(clocks, gamma_ns, me),
        Averaging::Median => median_of_the_near(clocks, gamma_ns, me),
        Averaging::Intervals => middle_of_those_that_agree(clocks, me),
    }
}

/// The average of the largest set of offsets that lie within `gamma_ns` of one another.
///
/// Of several largest sets, one with the daemon's own clock is preferred, then the narrowest, then
/// the earliest.
fn largest_set(
    clocks: &BTreeMap<MemberId, Candidate>,
    gamma_ns: u64,
    me: MemberId,
) -> Option<Mean> {
    let sorted = sorted(clocks);
    let windows = (0..sorted.len()).map(|first| {
        let (least, _) = sorted[first];
        let len = sorted[first..].partition_point(|(ns, _)| ns.abs_diff(least) <= gamma_ns);
        &sorted[first..first + len]
    });
    let merit = |set: &&[(i64, MemberId)]| {
        let width = set[set.len() - 1].0.abs_diff(set[0].0);
        (set.len(), set.iter().any(|(_, id)| *id == me), u64::MAX - width)
    };
    // The last of equals wins a `max_by_key`, so the windows are taken from the end.
    let best = windows.rev().max_by_key(merit)?;
    Some(Mean { ns: mean(best.iter().map(|(ns, _)| *ns))?, of: ids(best) })
}

/// The median of those within `gamma_ns` of the median of all.
fn median_of_the_near(
    clocks: &BTreeMap<MemberId, Candidate>,
    gamma_ns: u64,
    me: MemberId,
) -> Option<Mean> {
    let mut near = sorted(clocks);
    let own_ns = clocks.get(&me).map_or(0, |own| own.ns);
    let first = median(&near, gamma_ns, own_ns)?;
    near.retain(|(ns, _)| ns.abs_diff(first) <= gamma_ns);
    Some(Mean { ns: median(&near, gamma_ns, own_ns)?, of: ids(&near) })
}

/// The one in the middle; of two, what lies between them, or the one nearer to the daemon's if they are
/// farther apart than `gamma_ns`.
fn median(sorted: &[(i64, MemberId)], gamma_ns: u64, own_ns: i64) -> Option<i64> {
    let middle = sorted.len() / 2;
    let (upper, _) = *sorted.get(middle)?;
    if !sorted.len().is_multiple_of(2) {
        return Some(upper);
    }
    let (lower, _) = *sorted.get(middle.checked_sub(1)?)?;
    if upper.abs_diff(lower) <= gamma_ns {
        return mean([lower, upper].into_iter());
    }
    Some(if lower.abs_diff(own_ns) <= upper.abs_diff(own_ns) { lower } else { upper })
}

/// The middle of what the most intervals have in common.
fn middle_of_those_that_agree(
    clocks: &BTreeMap<MemberId, Candidate>,
    me: MemberId,
) -> Option<Mean> {
    let interval =
        |(id, one): (&MemberId, &Candidate)| (*id, Interval::around(one.ns, one.error_ns));
    let intervals: Vec<_> = clocks.iter().map(interval).collect();
    let agreed = intersection(&intervals, Some(me))?;
    Some(Mean { ns: agreed.at.middle(), of: agreed.of.into_iter().collect() })
}

fn sorted(clocks: &BTreeMap<MemberId, Candidate>) -> Vec<(i64, MemberId)> {
    let mut sorted: Vec<_> = clocks.iter().map(|(id, one)| (one.ns, *id)).collect();
    sorted.sort_unstable();
    sorted
}

fn ids(set: &[(i64, MemberId)]) -> BTreeSet<MemberId> {
    set.iter().map(|(_, id)| *id).collect()
}

/// Rounded down.
fn mean(values: impl Iterator<Item = i64>) -> Option<i64> {
    let (sum, count) = values.fold((0_i128, 0_i128), |(sum, n), ns| (sum + i128::from(ns), n + 1));
    (count > 0).then(|| saturate(sum.div_euclid(count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By a rule, for clocks that are this far ahead of rank 0 and may be wrong by this.
    fn by(rule: Averaging, clocks: &[(i64, u64)], gamma_ns: u64) -> (i64, Vec<u32>) {
        let clocks = clocks.iter().map(|(ns, error_ns)| Candidate { ns: *ns, error_ns: *error_ns });
        let by_rank = (0..).map(MemberId).zip(clocks).collect();
        let mean = average(rule, &by_rank, gamma_ns, MemberId(0)).expect("clocks");
        (mean.ns, mean.of.iter().map(|id| id.0).collect())
    }

    fn largest(offsets: &[i64], gamma_ns: u64) -> (i64, Vec<u32>) {
        let clocks: Vec<_> = offsets.iter().map(|ns| (*ns, 0)).collect();
        by(Averaging::LargestSet, &clocks, gamma_ns)
    }

    fn median(offsets: &[i64], gamma_ns: u64) -> (i64, Vec<u32>) {
        let clocks: Vec<_> = offsets.iter().map(|ns| (*ns, 0)).collect();
        by(Averaging::Median, &clocks, gamma_ns)
    }

    #[test]
    fn the_largest_set_is_averaged_and_the_outlier_is_not() {
        assert_eq!(largest(&[0, 10, 3_600_000, 20], 20), (10, vec![0, 1, 3]));
    }

    #[test]
    fn the_daemon_s_own_clock_may_be_the_outlier() {
        assert_eq!(largest(&[0, 100, 110], 20), (105, vec![1, 2]));
    }

    #[test]
    fn a_tie_goes_to_the_set_with_the_daemon_then_to_the_narrowest() {
        assert_eq!(largest(&[0, 100], 20), (0, vec![0]));
        assert_eq!(largest(&[0, -15, 20], 20), (-8, vec![0, 1]));
        assert_eq!(largest(&[0, -20, 20], 20), (-10, vec![0, 1]));
    }

    #[test]
    fn extreme_offsets_do_not_overflow() {
        assert_eq!(largest(&[0, i64::MIN, i64::MAX], u64::MAX).0, -1);
        assert_eq!(
            by(Averaging::Intervals, &[(i64::MIN, u64::MAX), (i64::MAX, u64::MAX)], 0).0,
            -1
        );
    }

    #[test]
    fn no_clocks_have_no_average() {
        for rule in Averaging::ALL {
            assert_eq!(average(rule, &BTreeMap::new(), 0, MemberId(0)), None);
        }
    }

    #[test]
    fn the_median_is_of_those_near_the_median_of_all() {
        assert_eq!(median(&[0, 10, 3_600_000, 20], 20), (10, vec![0, 1, 3]));
        assert_eq!(median(&[0, 10, 11, 12, 3_600_000], 20), (10, vec![0, 1, 2, 3]));
        assert_eq!(median(&[0, 1_000, 1_010, 1_020, 2_000], 20), (1_010, vec![1, 2, 3]));
    }

    #[test]
    fn of_two_clocks_that_are_far_apart_the_median_is_the_daemon_s() {
        assert_eq!(median(&[0, 100], 20), (0, vec![0]));
        assert_eq!(median(&[0, 20], 20), (10, vec![0, 1]));
    }

    /// Three machines of one model are wrong by the same; the four others differ by a little.
    #[test]
    fn the_commonest_model_has_the_largest_set_and_not_the_median() {
        let offsets = [0, 9, 21, -10, 100, 100, 100];
        assert_eq!(largest(&offsets, 15).1, [4, 5, 6]);
        assert_eq!(median(&offsets, 15), (15, vec![1, 2]));
    }

    /// -10 to 10, 2 to 22 and 1 to 11 have 2 to 10 in common.
    #[test]
    fn the_middle_of_what_the_intervals_have_in_common_is_taken() {
        let clocks = [(0, 10), (12, 10), (6, 5), (100, 20)];
        assert_eq!(by(Averaging::Intervals, &clocks, 0), (6, vec![0, 1, 2]));
        // Where the clocks are in it does not count: the mean of these readings is 2.
        let clocks = [(0, 10), (8, 4), (-2, 10)];
        assert_eq!(by(Averaging::Intervals, &clocks, 0), (6, vec![0, 1, 2]));
    }

    #[test]
    fn a_wide_interval_changes_nothing() {
        let clocks = [(0, 10), (2, 10)];
        assert_eq!(by(Averaging::Intervals, &clocks, 0), (1, vec![0, 1]));
        let clocks = [(0, 10), (2, 10), (900, 1_000)];
        assert_eq!(by(Averaging::Intervals, &clocks, 0), (1, vec![0, 1, 2]));
    }

    #[test]
    fn a_daemon_whose_interval_fits_no_other_is_outvoted() {
        let clocks = [(0, 10), (100, 10), (105, 10)];
        assert_eq!(by(Averaging::Intervals, &clocks, 0), (102, vec![1, 2]));
    }
}
