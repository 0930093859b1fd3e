//! Which of several intervals agree, although some of them are wrong.
//!
//! Source: Marzullo, *Maintaining the Time in a Distributed System: An Example of a Loosely-Coupled
//! Distributed Service*, doctoral thesis, Stanford, 1984 (Marzullo's algorithm). Marzullo and Owicki,
//! *Maintaining the Time in a Distributed System*, PODC 1983, have the intersection of all. The use for
//! servers that lie is that of RFC 5905, section 11.2.1.
//!
//! ```text
//! sort all ends; count := 0
//! for each end, from the earliest:  a lower end: count := count + 1;  an upper end: count := count - 1
//! the intersection is where the count is highest
//! ```
//!
//! Deviation: of several places with the highest count, the caller's own interval has the say, then
//! the narrowest place, then the earliest. The sources take any.

use super::exchange::saturate;

/// From where to where a value may be.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Interval {
    /// Not below this.
    pub low: i64,
    /// Not above this.
    pub high: i64,
}

/// Where most intervals overlap.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Agreement<Id> {
    /// The place.
    pub at: Interval,
    /// Whose intervals contain it, in the order in which they were given.
    pub of: Vec<Id>,
}

impl Interval {
    /// Around a value.
    pub fn around(ns: i64, error_ns: u64) -> Self {
        Self {
            low: ns.saturating_sub_unsigned(error_ns),
            high: ns.saturating_add_unsigned(error_ns),
        }
    }

    /// The value in the middle.
    pub fn middle(self) -> i64 {
        saturate((i128::from(self.low) + i128::from(self.high)).div_euclid(2))
    }

    /// How far an end is from the middle at most.
    pub fn half_width(self) -> u64 {
        self.high.abs_diff(self.low).div_ceil(2)
    }

    /// Whether the value may be in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// Whether the value may be this.
    pub fn has(self, ns: i64) -> bool {
        (self.low..=self.high).contains(&ns)
    }
}

/// Where the most intervals overlap; nothing if there are none.
pub fn intersection<Id: Copy + PartialEq>(
    intervals: &[(Id, Interval)],
    own: Option<Id>,
) -> Option<Agreement<Id>> {
    let candidates = intervals.iter().map(|(_, interval)| agreement_from(intervals, interval.low));
    let merit = |one: &Agreement<Id>| {
        let width = one.at.high.abs_diff(one.at.low);
        let is_own = own.is_some_and(|own| one.of.contains(&own));
        (one.of.len(), is_own, u64::MAX - width, std::cmp::Reverse(one.at.low))
    };
    candidates.max_by_key(merit)
}

/// The ends of all places that at least so many intervals contain; nothing if there is no such place.
///
/// If at most `n - count` of n intervals are wrong, the value lies between them.
pub fn covered<Id: Copy>(intervals: &[(Id, Interval)], count: usize) -> Option<Interval> {
    let is_covered =
        |ns: i64| intervals.iter().filter(|(_, interval)| interval.has(ns)).count() >= count;
    let low = intervals.iter().map(|(_, one)| one.low).filter(|ns| is_covered(*ns)).min()?;
    let high = intervals.iter().map(|(_, one)| one.high).filter(|ns| is_covered(*ns)).max()?;
    Some(Interval { low, high })
}

/// The intervals that contain a lower end, and what they have in common from there on.
fn agreement_from<Id: Copy>(intervals: &[(Id, Interval)], low: i64) -> Agreement<Id> {
    let those = || intervals.iter().filter(|(_, interval)| interval.has(low));
    let high = those().map(|(_, interval)| interval.high).min().unwrap_or(low);
    Agreement { at: Interval { low, high }, of: those().map(|(id, _)| *id).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ends: &[(i64, i64)]) -> Vec<(usize, Interval)> {
        ends.iter().map(|(low, high)| Interval { low: *low, high: *high }).enumerate().collect()
    }

    fn found(ends: &[(i64, i64)], own: Option<usize>) -> ((i64, i64), Vec<usize>) {
        let found = intersection(&of(ends), own).expect("intervals");
        ((found.at.low, found.at.high), found.of)
    }

    /// 10 ± 2, 12 ± 1 and 11 ± 1 meet in 11 to 12.
    #[test]
    fn the_intersection_of_intervals_that_all_overlap_is_what_they_have_in_common() {
        assert_eq!(found(&[(8, 12), (11, 13), (10, 12)], None), ((11, 12), vec![0, 1, 2]));
    }

    /// 10 ± 2, 12 ± 1 and 14.5 ± 0.5: the third is not consulted.
    #[test]
    fn an_interval_that_fits_no_other_is_outvoted() {
        assert_eq!(found(&[(80, 120), (110, 130), (140, 150)], None), ((110, 120), vec![0, 1]));
    }

    #[test]
    fn a_tie_goes_to_the_own_interval_then_to_the_narrowest_place() {
        let ends = [(0, 10), (5, 15), (20, 30), (28, 40)];
        assert_eq!(found(&ends, None), ((28, 30), vec![2, 3]));
        assert_eq!(found(&ends, Some(0)), ((5, 10), vec![0, 1]));
        assert_eq!(intersection::<usize>(&[], None), None);
    }

    #[test]
    fn what_enough_intervals_contain_holds_the_truth_if_only_so_many_lie() {
        let ends = of(&[(0, 10), (8, 20), (9, 11), (100, 101)]);
        assert_eq!(covered(&ends, 3), Some(Interval { low: 9, high: 10 }));
        assert_eq!(covered(&ends, 2), Some(Interval { low: 8, high: 11 }));
        assert_eq!(covered(&ends, 1), Some(Interval { low: 0, high: 101 }));
        assert_eq!(covered(&ends, 4), None);
    }
}
