//! Stamps that the kernel puts on packets, by the raw clock.
//!
//! The kernel stamps by `CLOCK_REALTIME` (its documentation, `networking/timestamping.rst`), which daemons slew and
//! set. So the two clocks are read together right after a stamp was fetched, and what lies between the stamp and that
//! moment is counted back from the raw clock.

use conclave_protocols::LocalTime;
use rustix::time::{ClockId, clock_gettime};

use super::{OsClock, nanos};

/// Converts stamps of the kernel for one thread.
#[derive(Debug)]
pub(crate) struct Stamps {
    clock: OsClock,
    /// How the clocks stood when they were read last.
    last: Option<Pair>,
    /// When the wall clock was last seen to have been set, by the raw clock of the machine.
    set: Option<u64>,
}

/// The raw clock, the wall clock, the raw clock again: readings of the machine in nanoseconds, without a fault.
#[derive(Clone, Copy, Debug)]
struct Pair {
    before: u64,
    wall: u64,
    after: u64,
}

/// How stamps of the last moments are converted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversion {
    clock: OsClock,
    now: Pair,
}

impl Stamps {
    pub(crate) fn of(clock: OsClock) -> Self {
        Self { clock, last: None, set: None }
    }

    /// Reads the clocks. Nothing if the wall clock was set within the last moments: no one knows on which side of that a
    /// stamp lies. It counts as set if it moved against the raw clock by more than a daemon slews it. What it is moved by
    /// less between two readings, some 100 µs, is not noticed.
    pub(crate) fn convert(&mut self) -> Option<Conversion> {
        self.convert_by(Pair::read())
    }

    fn convert_by(&mut self, now: Pair) -> Option<Conversion> {
        let last = self.last.replace(now);
        if last.is_some_and(|last| !now.goes_on_from(last)) {
            self.set = Some(now.after);
        }
        let is_long_ago = self.set.is_none_or(|set| now.after.saturating_sub(set) > AFTER_SET_NS);
        is_long_ago.then_some(Conversion { clock: self.clock, now })
    }
}

impl Pair {
    /// A thread may lose its processor between the readings; of a few pairs the closest is taken.
    fn read() -> Self {
        let read = || {
            let before = nanos(clock_gettime(ClockId::MonotonicRaw));
            let wall = nanos(clock_gettime(ClockId::Realtime));
            Self { before, wall, after: nanos(clock_gettime(ClockId::MonotonicRaw)) }
        };
        let mut closest = read();
        for _ in 0..TRIES {
            if closest.bracket() <= CLOSE_NS {
                break;
            }
            let next = read();
            if next.bracket() < closest.bracket() {
                closest = next;
            }
        }
        closest
    }

    /// How long the reading took.
    fn bracket(self) -> u64 {
        self.after.saturating_sub(self.before)
    }

    /// The wall clock less the raw clock, at the latest reading of that.
    fn apart(self) -> i128 {
        i128::from(self.wall) - i128::from(self.after)
    }

    /// Whether a clock that is only slewed comes from there to here.
    fn goes_on_from(self, last: Self) -> bool {
        let passed = self.after.saturating_sub(last.after);
        let slewed = i128::from(slewed(passed) + self.bracket() + last.bracket());
        (self.apart() - last.apart()).abs() <= slewed
    }
}

impl Conversion {
    /// When a packet left at the earliest, by the raw clock. Nothing if the stamp is no moment of the last second.
    pub(crate) fn departed(self, wall_ns: u64) -> Option<LocalTime> {
        let age = self.age(wall_ns)?;
        let earliest = self.now.before.checked_sub(age + slewed(age))?;
        Some(self.clock.raw_at(i128::from(earliest)))
    }

    /// When a packet arrived at the latest. Nothing as above.
    pub(crate) fn arrived(self, wall_ns: u64) -> Option<LocalTime> {
        let age = self.age(wall_ns)?;
        let latest = (self.now.after + slewed(age)).checked_sub(age)?;
        Some(self.clock.raw_at(i128::from(latest.min(self.now.after))))
    }

    /// How long ago that was by the wall clock.
    fn age(self, wall_ns: u64) -> Option<u64> {
        self.now.wall.checked_sub(wall_ns).filter(|age| *age <= OLDEST_NS)
    }
}

/// By how much a daemon slews the wall clock in that long: 500 parts per million at most, which is as far as the
/// kernel lets a frequency be adjusted (`adjtimex(2)`). By other ways more is possible; then the clock counts as set.
fn slewed(passed_ns: u64) -> u64 {
    passed_ns.div_ceil(2_000)
}

/// A pair that was read in that long is close enough.
const CLOSE_NS: u64 = 200;

/// How often a closer pair is tried for.
const TRIES: usize = 3;

/// A stamp that is older was not fetched in time.
const OLDEST_NS: u64 = 1_000_000_000;

/// For how long no stamp is converted after the wall clock was set: those from before it are too old then, also by a
/// clock that was set back by as much as they may be old.
const AFTER_SET_NS: u64 = 2 * OLDEST_NS;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os_clock::ClockFault;

    const SECOND: u64 = 1_000_000_000;
    /// What the wall clock shows when the raw clock is at 0.
    const WALL: u64 = 1_700_000_000 * SECOND;

    fn pair(at: u64, wall_is_off: i64) -> Pair {
        let wall = (WALL + at).saturating_add_signed(wall_is_off);
        Pair { before: at - 30, wall, after: at + 30 }
    }

    #[test]
    fn a_stamp_is_counted_back_from_now_and_errs_to_the_safe_side() {
        let mut stamps = Stamps::of(OsClock::default());
        let conversion = stamps.convert_by(pair(5_000 * SECOND, 0)).expect("the first pair");
        let truly = 5_000 * SECOND - 40_000;
        let departed = conversion.departed(WALL + truly).expect("a moment ago").0;
        let arrived = conversion.arrived(WALL + truly).expect("a moment ago").0;
        assert!((truly - 60..=truly).contains(&departed), "{departed}");
        assert!((truly..=truly + 60).contains(&arrived), "{arrived}");
    }

    #[test]
    fn a_wall_clock_that_was_set_converts_nothing_until_all_stamps_are_new() {
        for step in [-3_600_000_000_000, -300_000, 300_000, 3_600_000_000_000] {
            let mut stamps = Stamps::of(OsClock::default());
            assert!(stamps.convert_by(pair(5_000 * SECOND, 0)).is_some());
            let later = 5_000 * SECOND + SECOND / 4;
            assert!(stamps.convert_by(pair(later, step)).is_none(), "{step}");
            for quarter in 1..=8 {
                let at = later + quarter * SECOND / 4;
                assert!(stamps.convert_by(pair(at, step)).is_none(), "{step}");
            }
            assert!(stamps.convert_by(pair(later + 9 * SECOND / 4, step)).is_some(), "{step}");
        }
    }

    #[test]
    fn a_wall_clock_that_is_slewed_goes_on() {
        let mut stamps = Stamps::of(OsClock::default());
        for quarter in 0..40 {
            let off = 40_000 * i64::try_from(quarter).expect("a few");
            let at = 5_000 * SECOND + quarter * SECOND / 4;
            assert!(stamps.convert_by(pair(at, off)).is_some(), "160 ppm");
        }
    }

    #[test]
    fn what_lies_ahead_or_long_ago_is_no_stamp() {
        let mut stamps = Stamps::of(OsClock::default());
        let now = 5_000 * SECOND;
        let conversion = stamps.convert_by(pair(now, 0)).expect("the first pair");
        for stamp in [0, WALL + now - 2 * SECOND, WALL + now + SECOND] {
            assert_eq!((conversion.departed(stamp), conversion.arrived(stamp)), (None, None));
        }
    }

    /// A stamp and a reading of the same moment agree, whatever is wrong with the clock.
    #[test]
    fn a_fault_is_in_stamps_as_it_is_in_readings() {
        for (offset_ns, drift_ppm) in [(0, 0), (74_000_000, 0), (-74_000_000, 36), (0, -500)] {
            let clock = OsClock::with_fault(ClockFault { offset_ns, drift_ppm });
            let mut stamps = Stamps::of(clock);
            let mut worst = 0;
            for _ in 0..1_000 {
                let before = clock.raw().0;
                let wall = nanos(clock_gettime(ClockId::Realtime));
                let after = clock.raw().0;
                let Some(conversion) = stamps.convert() else { continue };
                let departed = conversion.departed(wall).expect("a moment ago").0;
                let arrived = conversion.arrived(wall).expect("a moment ago").0;
                assert!(departed <= after && before <= arrived, "{offset_ns} {drift_ppm}");
                assert!(departed <= arrived);
                worst = worst.max(arrived - departed);
            }
            // A second that a thread was held up costs a millisecond.
            assert!(worst < 5_000_000, "{worst} ns between the earliest and the latest");
            println!("offset {offset_ns} ns, drift {drift_ppm} ppm: within {worst} ns");
        }
    }
}
