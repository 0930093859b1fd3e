//! The members' clocks at one moment, and how far they are from each other.

use conclave_protocols::clock::{Reading, State};
use serde::Serialize;

use super::super::super::member::Members;
use crate::group::Group;
use crate::os_clock::{ClockFault, OsClock};

/// A member's clock.
#[derive(Debug, Serialize)]
pub(super) struct ClockView {
    /// What was injected.
    offset_ns: i64,
    drift_ppm: i32,
    state: State,
    /// How far the virtual clock is from the average of those that are synchronised.
    apart_ns: Option<i64>,
    error_ns: Option<u64>,
    /// What is still to be slewed.
    slewing_ns: i64,
}

/// Compares the clocks of all who live.
pub(super) fn compare(members: &Members, groups: &[Option<Group>]) -> Vec<Option<ClockView>> {
    let begun = OsClock::default().raw().0;
    let readings: Vec<Option<Reading>> =
        groups.iter().map(|group| Some(read(group.as_ref()?, begun))).collect();
    let known: Vec<i64> = readings
        .iter()
        .flatten()
        .filter(|reading| reading.state != State::Unsynchronised)
        .map(|reading| reading.now_ns)
        .collect();
    let average = average(&known);
    let faults = (0..members.count()).map(|number| members.fault(number).unwrap_or_default());
    let views = readings.into_iter().zip(faults);
    views.map(|(reading, fault)| Some(view(&reading?, fault, average))).collect()
}

/// A member's reading, less what passed since the comparison began.
fn read(group: &Group, begun: u64) -> Reading {
    let map = *group.group_time().borrow();
    let passed = OsClock::default().raw().0.saturating_sub(begun);
    let mut reading = map.reading(group.os_clock().raw().0);
    reading.now_ns = reading.now_ns.saturating_sub_unsigned(passed);
    reading
}

fn view(reading: &Reading, fault: ClockFault, average: Option<i64>) -> ClockView {
    ClockView {
        offset_ns: fault.offset_ns,
        drift_ppm: fault.drift_ppm,
        state: reading.state,
        apart_ns: average.map(|average| reading.now_ns.saturating_sub(average)),
        error_ns: reading.error_ns,
        slewing_ns: reading.slewing_ns,
    }
}

/// The average, without the sum that would not fit.
fn average(times: &[i64]) -> Option<i64> {
    let first = *times.first()?;
    let apart: i64 = times.iter().map(|time| time.saturating_sub(first)).sum();
    Some(first.saturating_add(apart / i64::try_from(times.len()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_of_times_since_1970_does_not_overflow() {
        let now = 1_800_000_000_000_000_000;
        assert_eq!(average(&[now - 6, now + 1, now + 2]), Some(now - 1));
        assert_eq!(average(&[]), None);
    }
}
