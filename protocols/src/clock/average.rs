//! The average of clocks that does not listen to a clock gone mad.
//!
//! Source: Gusella and Zatti, *The Accuracy of the Clock Synchronization Achieved by TEMPO in
//! Berkeley UNIX 4.3BSD*, IEEE TSE 15(7), 1989; as in `networkdelta.c` of 4.3BSD's `timed`: the
//! largest set of clocks that are within a given range of one another is averaged, the daemon's own
//! clock like any other.

use std::collections::{BTreeMap, BTreeSet};

use super::exchange::saturate;
use crate::ids::MemberId;

/// An average, and whose clocks are in it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Mean {
    /// The average of the offsets, rounded down.
    pub ns: i64,
    /// The members averaged; the others are outliers.
    pub of: BTreeSet<MemberId>,
}

/// The average of the largest set of offsets that lie within `gamma_ns` of one another; nothing if
/// there are no offsets.
///
/// Of several largest sets, one with the daemon's own clock is preferred, then the narrowest, then
/// the earliest.
pub fn fault_tolerant_mean(
    offsets: &BTreeMap<MemberId, i64>,
    gamma_ns: u64,
    me: MemberId,
) -> Option<Mean> {
    let mut sorted: Vec<(i64, MemberId)> = offsets.iter().map(|(id, ns)| (*ns, *id)).collect();
    sorted.sort_unstable();
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
    let sum: i128 = best.iter().map(|(ns, _)| i128::from(*ns)).sum();
    let ns = saturate(sum.div_euclid(i128::try_from(best.len()).unwrap_or(1)));
    Some(Mean { ns, of: best.iter().map(|(_, id)| *id).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(offsets: &[i64], gamma_ns: u64) -> (i64, Vec<u32>) {
        let by_rank = (0..).map(MemberId).zip(offsets.iter().copied()).collect();
        let mean = fault_tolerant_mean(&by_rank, gamma_ns, MemberId(0)).expect("offsets");
        (mean.ns, mean.of.iter().map(|id| id.0).collect())
    }

    #[test]
    fn the_largest_set_is_averaged_and_the_outlier_is_not() {
        assert_eq!(mean(&[0, 10, 3_600_000, 20], 20), (10, vec![0, 1, 3]));
    }

    #[test]
    fn the_daemon_s_own_clock_may_be_the_outlier() {
        assert_eq!(mean(&[0, 100, 110], 20), (105, vec![1, 2]));
    }

    #[test]
    fn a_tie_goes_to_the_set_with_the_daemon_then_to_the_narrowest() {
        assert_eq!(mean(&[0, 100], 20), (0, vec![0]));
        assert_eq!(mean(&[0, -15, 20], 20), (-8, vec![0, 1]));
        assert_eq!(mean(&[0, -20, 20], 20), (-10, vec![0, 1]));
    }

    #[test]
    fn extreme_offsets_do_not_overflow() {
        assert_eq!(mean(&[0, i64::MIN, i64::MAX], u64::MAX).0, -1);
        assert_eq!(fault_tolerant_mean(&BTreeMap::new(), 0, MemberId(0)), None);
    }
}
