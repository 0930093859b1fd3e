//! Which machines have a wall clock that is off, by what the members on them state.
//!
//! Each member states its wall clock beside its group time. If a machine keeps its wall clock well, UTC less group time is
//! between the difference of the two less what both may be wrong by, and the same more. Most machines keep theirs well, so
//! UTC is within the ends of all places where more than half of these intervals overlap. A machine whose interval is
//! outside of that is off. Where no more than half of them agree, nobody knows which are.

use std::collections::HashMap;
use std::time::Duration;

use conclave_protocols::clock::{Interval, covered};
use conclave_protocols::{Incarnation, LocalTime};

use super::report::Report;

/// The wall clock of a member's machine, as the member states it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct HostClock {
    /// That clock less group time.
    pub(crate) offset_ns: i64,
    /// How far it is from UTC at most, if its daemon is right; nothing if nobody says that it is synchronized.
    pub(crate) max_error_ns: Option<u64>,
    /// Whether it is off, by what more than half of the members state.
    pub(crate) is_outlier: bool,
}

/// Whose machine: a peer's, or this member's own.
pub(super) type Owner = Option<Incarnation>;

/// The wall clocks of those machines that state one.
#[derive(Debug, Default)]
pub(super) struct Hosts(HashMap<Owner, HostClock>);

/// When each outlier was one last.
#[derive(Debug, Default)]
pub(super) struct Outliers(HashMap<Owner, LocalTime>);

/// What a wall clock may be off by that nobody says is synchronized, before that is worth a word.
const UNKEPT_NS: u64 = 10_000_000;

/// One that was an outlier within that time has not become one.
const QUIET: Duration = Duration::from_mins(1);

impl Hosts {
    /// Finds the outliers among those that know group time.
    pub(super) fn judge(reports: impl IntoIterator<Item = (Owner, Report)>) -> Self {
        let known = reports.into_iter().filter_map(|(owner, report)| {
            let bound = report.bound_ns?;
            let offset_ns = report.wall_ns.saturating_sub(report.time_ns);
            let error = bound.saturating_add(report.wall_error_ns.unwrap_or(UNKEPT_NS));
            let max_error_ns = report.wall_error_ns;
            let clock = HostClock { offset_ns, max_error_ns, is_outlier: false };
            Some(((owner, Interval::around(offset_ns, error)), clock))
        });
        let (intervals, mut clocks): (Vec<_>, Vec<_>) = known.unzip();
        if let Some(sound) = covered(&intervals, intervals.len() / 2 + 1) {
            for ((_, interval), clock) in intervals.iter().zip(&mut clocks) {
                clock.is_outlier = interval.high < sound.low || sound.high < interval.low;
            }
        }
        Self(intervals.into_iter().map(|(owner, _)| owner).zip(clocks).collect())
    }

    /// One machine; nothing if it is not known.
    pub(super) fn of(&self, owner: Owner) -> Option<HostClock> {
        self.0.get(&owner).copied()
    }
}

impl Outliers {
    /// Those that have become outliers.
    pub(super) fn new_among(&mut self, now: LocalTime, hosts: &Hosts) -> Vec<(Owner, HostClock)> {
        self.0.retain(|_, last| now - *last < QUIET);
        let all = hosts.0.iter().filter(|(_, clock)| clock.is_outlier);
        let new = all.filter(|(owner, _)| self.0.insert(**owner, now).is_none());
        new.map(|(owner, clock)| (*owner, *clock)).collect()
    }
}

#[cfg(test)]
mod tests {
    use conclave_protocols::PodUid;

    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const MILLISECOND: i64 = 1_000_000;

    fn owner(number: usize) -> Owner {
        let pod = PodUid(u128::try_from(number).expect("a few"));
        (number > 0).then_some(Incarnation { pod, run: 1 })
    }

    /// Wall clocks that are so far from group time, which all know to a millisecond.
    fn outliers(offsets: &[i64], wall_error_ns: Option<u64>) -> Vec<usize> {
        let report = |offset: &i64| Report {
            time_ns: 1_000 * SECOND,
            bound_ns: Some(1_000_000),
            wall_ns: 1_000 * SECOND + offset,
            wall_error_ns,
            ..Report::default()
        };
        let reports = offsets.iter().enumerate().map(|(at, offset)| (owner(at), report(offset)));
        let hosts = Hosts::judge(reports);
        let is_outlier = |at: &usize| hosts.of(owner(*at)).expect("it is known").is_outlier;
        (0..offsets.len()).filter(is_outlier).collect()
    }

    #[test]
    fn of_five_the_one_that_is_off_is_named_and_no_other() {
        for off in 0..5 {
            for by in [-90 * SECOND, 90 * SECOND] {
                let mut offsets = [3_000, -41_000, 250_000, 0, 7_000].map(|ns| 5 * SECOND + ns);
                offsets[off] += by;
                assert_eq!(outliers(&offsets, Some(500_000)), [off]);
                assert_eq!(outliers(&offsets, None), [off], "without a daemon");
            }
        }
    }

    #[test]
    fn of_two_against_two_nobody_is_named() {
        let offsets = [0, 90 * SECOND, 1_000, 90 * SECOND + 1_000];
        assert_eq!(outliers(&offsets, Some(500_000)), [0; 0]);
        assert_eq!(outliers(&[0, 90 * SECOND], None), [0; 0]);
        assert_eq!(outliers(&[90 * SECOND], None), [0; 0]);
        assert_eq!(outliers(&[], None), [0; 0]);
    }

    /// Each may be wrong by a millisecond beside what its daemon says, or 10 ms if none does.
    #[test]
    fn what_a_clock_may_be_wrong_by_makes_it_no_outlier() {
        let offsets = |ms: i64| [0, 0, 0, ms * MILLISECOND];
        assert_eq!(outliers(&offsets(22), None), [0; 0]);
        assert_eq!(outliers(&offsets(23), None), [3]);
        assert_eq!(outliers(&offsets(4), Some(1_000_000)), [0; 0]);
        assert_eq!(outliers(&offsets(5), Some(1_000_000)), [3]);
        assert_eq!(outliers(&offsets(5), Some(u64::MAX - 1)), [0; 0]);
    }

    #[test]
    fn one_that_does_not_know_group_time_has_no_voice() {
        let knows = |bound_ns, wall_ns| Report { bound_ns, wall_ns, ..Report::default() };
        let reports = [(Some(0), 0), (Some(0), 0), (None, 0), (None, 0), (Some(0), 90 * SECOND)];
        let reports = reports.into_iter().map(|(bound, wall)| knows(bound, wall)).enumerate();
        let hosts = Hosts::judge(reports.map(|(at, report)| (owner(at), report)));
        let found = (0..5).map(|at| hosts.of(owner(at)).map(|clock| clock.is_outlier));
        let expected = [Some(false), Some(false), None, None, Some(true)];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn one_that_has_become_an_outlier_is_named_once() {
        let clock =
            |is_outlier| HostClock { offset_ns: 90 * SECOND, max_error_ns: None, is_outlier };
        let mut outliers = Outliers::default();
        let mut named = |second: u64, is_off| {
            let hosts = Hosts([(owner(0), clock(false)), (owner(1), clock(is_off))].into());
            outliers.new_among(LocalTime(second * SECOND.unsigned_abs()), &hosts)
        };
        assert_eq!(named(1, true), [(owner(1), clock(true))]);
        for (second, is_off) in [(2, true), (3, false), (4, true), (70, false)] {
            assert_eq!(named(second, is_off), [], "{second}");
        }
        assert_eq!(named(71, true), [(owner(1), clock(true))], "it was sound for a minute");
    }
}
