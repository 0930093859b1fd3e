//! Holds what a peer states of its clocks against what this member knows by itself.
//!
//! Two processes of one machine read one raw clock. So the relation that was estimated over the network is to contain 0,
//! and at the reading that the peer states this member has read the same clock: the two intervals of group time at it
//! both hold group time, so they overlap. Of a peer with another clock, the relation bounds which readings of this
//! member's clock the stated one can be, and the intervals are to overlap all the same.
//!
//! What a member knew at a reading is what its map of that moment says, and that of any moment before: a bound goes on to
//! hold, and grows. A map that came later may say nothing of it. So the maps of the last moments are kept.

use std::collections::VecDeque;
use std::time::Duration;

use conclave_protocols::LocalTime;
use conclave_protocols::clock::{ClockMap, Interval, Relation, Slope, State};

use super::report::Report;

/// What is held against what.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Check {
    /// The relation of a clock with itself.
    Relation,
    /// What two members know of group time.
    Time,
}

/// How often a peer was audited.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Audited {
    /// Checks that could be made.
    pub(crate) checked: u64,
    /// Those of them that failed.
    pub(crate) violations: u64,
}

/// What this member knew of group time within the last moments: its maps, and since when it has each.
#[derive(Debug, Default)]
pub(super) struct Past(VecDeque<(LocalTime, ClockMap)>);

/// What a report is held against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Auditor<'a> {
    pub(super) domain: u64,
    pub(super) now: LocalTime,
    pub(super) past: &'a Past,
}

/// For how long a map is remembered after another has come: reports wait half a second, and are on their way for less.
const REMEMBERED: Duration = Duration::from_secs(2);

/// No more than that many are kept.
const MAPS: usize = 64;

/// A reading of another clock is looked at if it is no further from now than that.
const NEAR_NS: u64 = 10_000_000_000;

impl Past {
    /// This is what is known now.
    pub(super) fn note(&mut self, now: LocalTime, map: Option<&ClockMap>) {
        let Some(map) = map else { return self.0.clear() };
        if self.0.back().is_none_or(|(_, last)| last != map) {
            self.0.push_back((now, *map));
        }
        let is_over = |next: &(LocalTime, ClockMap)| now - next.0 > REMEMBERED;
        while self.0.len() > MAPS || self.0.get(1).is_some_and(is_over) {
            self.0.pop_front();
        }
    }

    /// Where group time was between two readings.
    fn group_time(&self, first: u64, last: u64) -> Option<Interval> {
        let (_, map) = self.0.iter().rev().find(|(since, _)| since.0 <= first)?;
        let (first, last) = (map.reading(first), map.reading(last));
        if [first.state, last.state].contains(&State::Disrupted) {
            return None;
        }
        Some(Interval { low: first.earliest_ns()?, high: last.latest_ns()? })
    }
}

impl Auditor<'_> {
    /// Whether a report is of this member's own raw clock.
    pub(super) fn is_same(&self, report: &Report) -> bool {
        report.domain == self.domain
    }

    /// Makes the checks that can be made, and says of each whether what was stated may be true.
    pub(super) fn audit(&self, report: &Report, relation: Option<&Relation>) -> Vec<(Check, bool)> {
        let related = relation.filter(|_| self.is_same(report));
        let related = related.map(|relation| (Check::Relation, self.contains_zero(relation)));
        let timed = self.agrees(report, relation).map(|agrees| (Check::Time, agrees));
        related.into_iter().chain(timed).collect()
    }

    fn contains_zero(&self, relation: &Relation) -> bool {
        let offset = relation.offset(self.now.0);
        let rates = relation.least_rate..=relation.most_rate;
        (offset.least_ns..=offset.most_ns).contains(&0) && rates.contains(&Slope::default())
    }

    fn agrees(&self, report: &Report, relation: Option<&Relation>) -> Option<bool> {
        let stated = report.group_time()?;
        let (first, last) = if self.is_same(report) {
            (report.raw.0, report.raw.0)
        } else {
            let relation = relation?;
            let away = relation.to_peer(self.now.0).ns.abs_diff(report.raw.0);
            let shows = (away <= NEAR_NS).then(|| relation.to_own(report.raw.0))?;
            (shows.earliest_ns, shows.latest_ns)
        };
        let known = self.past.group_time(first, last)?;
        Some(stated.low <= known.high && known.low <= stated.high)
    }
}

impl Audited {
    /// Counts checks.
    pub(super) fn add(&mut self, checks: &[(Check, bool)]) {
        let failed = checks.iter().filter(|(_, holds)| !holds).count();
        self.checked = self.checked.saturating_add(checks.len() as u64);
        self.violations = self.violations.saturating_add(failed as u64);
    }
}

#[cfg(test)]
mod tests {
    use conclave_protocols::clock::{Assumptions, Correction, Link, Rates, Shown, VirtualClock};

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const NOW: u64 = 1_000 * SECOND;
    const MILLISECOND: i64 = 1_000_000;
    /// By how much the clock of the peer of another machine is ahead.
    const AHEAD: u64 = 7 * SECOND;
    const HERE: u64 = 1;
    const ELSEWHERE: u64 = 2;

    /// Group time is known to a millisecond since a reading, and is that reading and so much more.
    fn known(raw: u64, ahead_ns: i64) -> ClockMap {
        let mut clock = VirtualClock::new(0, Rates::new(100, 500));
        let shown = Shown { raw: LocalTime(raw), ns: clock.map().now_ns(raw) };
        let by = Correction { delta_ns: ahead_ns, ahead_ns: 0, error_ns: 1_000_000 };
        assert!(clock.adjust(LocalTime(raw), shown, by));
        clock.map()
    }

    /// A relation to a clock that is so far ahead, by packets that take 20 us.
    fn relation(ahead: u64) -> Relation {
        let assumptions = Assumptions {
            max_drift_ppm: 100,
            wander_ppb: 15_000,
            min_delay_ns: 0,
            stamp_slack_ns: 4,
        };
        let mut link = Link::new(assumptions, Duration::from_mins(1));
        for sent in (NOW - 10 * SECOND..NOW).step_by(250_000_000) {
            link.sent(sent, sent + 20_000 + ahead);
            link.received(sent + 30_000 + ahead, sent + 50_000);
        }
        link.relation(NOW).expect("packets both ways")
    }

    /// What is stated of a moment a quarter of a second ago: group time to a millisecond.
    fn report(domain: u64, raw: u64, time_ns: u64) -> Report {
        let (raw, time_ns) = (LocalTime(raw), time_ns.cast_signed());
        Report { domain, raw, time_ns, bound_ns: Some(1_000_000), ..Report::default() }
    }

    fn audit(past: &Past, report: &Report, relation: Option<&Relation>) -> Vec<(Check, bool)> {
        let auditor = Auditor { domain: HERE, now: LocalTime(NOW), past };
        auditor.audit(report, relation)
    }

    fn past(map: &ClockMap) -> Past {
        let mut past = Past::default();
        past.note(LocalTime(NOW - SECOND), Some(map));
        past
    }

    const AGO: u64 = NOW - SECOND / 4;

    #[test]
    fn what_is_true_holds_for_the_same_clock_and_for_another() {
        let past = past(&known(NOW - SECOND, 0));
        let checks = audit(&past, &report(HERE, AGO, AGO), Some(&relation(0)));
        assert_eq!(checks, [(Check::Relation, true), (Check::Time, true)]);
        let checks = audit(&past, &report(ELSEWHERE, AGO + AHEAD, AGO), Some(&relation(AHEAD)));
        assert_eq!(checks, [(Check::Time, true)]);
    }

    #[test]
    fn a_time_out_of_its_bound_is_found_on_either_side() {
        let past = past(&known(NOW - SECOND, 0));
        for wrong in [AGO - 3_000_000, AGO + 3_000_000] {
            let checks = audit(&past, &report(HERE, AGO, wrong), None);
            assert_eq!(checks, [(Check::Time, false)]);
            let stated = report(ELSEWHERE, AGO + AHEAD, wrong);
            assert_eq!(audit(&past, &stated, Some(&relation(AHEAD))), [(Check::Time, false)]);
        }
        for near in [AGO - 1_900_000, AGO + 1_900_000] {
            assert_eq!(audit(&past, &report(HERE, AGO, near), None), [(Check::Time, true)]);
        }
    }

    #[test]
    fn a_relation_of_a_clock_with_itself_is_nothing_but_zero() {
        let past = Past::default();
        for ahead in [100_000, AHEAD] {
            let checks = audit(&past, &report(HERE, AGO, AGO), Some(&relation(ahead)));
            assert_eq!(checks, [(Check::Relation, false)]);
        }
        let runs = relation(0);
        let fast = Relation { least_rate: Slope::of_units(1), ..runs };
        let slow = Relation { most_rate: Slope::of_units(-1), ..runs };
        for wrong in [fast, slow] {
            let checks = audit(&past, &report(HERE, AGO, AGO), Some(&wrong));
            assert_eq!(checks, [(Check::Relation, false)]);
        }
    }

    /// The map that came later is wrong about the time before it by 5 ms, and right since.
    #[test]
    fn a_reading_is_held_against_the_map_of_its_moment_and_none_that_came_later() {
        let mut past = past(&known(NOW - SECOND, 0));
        past.note(LocalTime(NOW - SECOND / 10), Some(&known(NOW, 5 * MILLISECOND)));
        assert_eq!(audit(&past, &report(HERE, AGO, AGO), None), [(Check::Time, true)]);
        let checks = audit(&past, &report(HERE, NOW - SECOND / 20, NOW), None);
        assert_eq!(checks, [(Check::Time, false)], "that of this moment is of the later one");
    }

    #[test]
    fn what_cannot_be_known_is_not_checked() {
        let sure = past(&known(NOW - SECOND, 0));
        let early = report(HERE, NOW - 2 * SECOND, 0);
        assert_eq!(audit(&sure, &early, None), [], "nothing was known then");
        let stated = Report { bound_ns: None, ..report(HERE, AGO, 0) };
        assert_eq!(audit(&sure, &stated, None), [], "the peer knows nothing");
        assert_eq!(audit(&sure, &report(ELSEWHERE, AGO, 0), None), [], "no relation is known");
        let mut disrupted = known(NOW - SECOND, 0);
        disrupted.disrupted_until = NOW;
        assert_eq!(audit(&past(&disrupted), &report(HERE, AGO, 0), None), []);
        let mut other = past(&known(NOW - SECOND, 0));
        other.note(LocalTime(NOW), None);
        assert_eq!(audit(&other, &report(HERE, AGO, 0), None), [], "there is no time of all");
    }

    #[test]
    fn of_the_maps_of_the_past_few_are_kept_and_the_one_in_force_always() {
        let mut past = Past::default();
        for second in 0..100 {
            past.note(LocalTime(second * SECOND), Some(&known(second * SECOND, 0)));
        }
        assert_eq!(past.0.len(), 4);
        past.note(LocalTime(1_000 * SECOND), Some(&known(99 * SECOND, 0)));
        assert_eq!(past.0.len(), 1);
        for nanosecond in 0..1_000 {
            past.note(LocalTime(NOW + nanosecond), Some(&known(NOW + nanosecond, 0)));
        }
        assert_eq!(past.0.len(), MAPS);
    }

    /// Whatever a peer states, the arithmetic holds.
    #[test]
    fn no_number_that_a_peer_states_is_too_large() {
        let past = past(&known(NOW - SECOND, 0));
        let relations = [None, Some(relation(0)), Some(relation(AHEAD))];
        for domain in [HERE, ELSEWHERE] {
            for raw in [0, 1, NOW, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
                for time_ns in [i64::MIN, 0, i64::MAX] {
                    for bound_ns in [None, Some(0), Some(u64::MAX - 1), Some(u64::MAX)] {
                        let raw = LocalTime(raw);
                        let stated = Report { raw, time_ns, bound_ns, ..report(domain, 0, 0) };
                        for relation in &relations {
                            audit(&past, &stated, relation.as_ref());
                        }
                    }
                }
            }
        }
    }
}
