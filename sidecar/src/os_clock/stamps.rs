//! Stamps that the kernel puts on packets, by the raw clock.
//!
//! The kernel stamps by `CLOCK_REALTIME` (its documentation, `networking/timestamping.rst`), which daemons slew and
//! set. So the two clocks are read together right after a stamp was fetched, and what lies between the stamp and that
//! moment is counted back from the raw clock. What may be wrong with that is seen by an earlier pair of readings, which
//! is older than the stamp:
//!
//! - A wall clock that was *set* between the two is reported by the kernel ([`Watch`]). Then nothing is converted until
//!   all stamps are newer. Where the kernel does not report it, a clock counts as set if it moved by more than a
//!   daemon usually slews it.
//! - A wall clock that is *slewed* runs at a rate of its own, which is known by the pairs before; 500 parts per million
//!   are always taken into account, and more if it was more. What the clock strayed from its rate since the earlier pair
//!   is known too, and widens what is stated: by that much a slew may have begun in between, of whatever rate, or the
//!   clock may have been set without a report so far.
//!
//! Assumed is that the clock strays from its rate one way between the two pairs, or by no more than 500 parts per
//! million on the way from the stamp to the later one.

use conclave_protocols::LocalTime;
use rustix::time::{ClockId, clock_gettime};

use super::watch::Watch;
use super::{OsClock, nanos};

/// Converts stamps of the kernel for one thread.
#[derive(Debug)]
pub(crate) struct Stamps {
    clock: OsClock,
    /// Nothing where the kernel does not report that the wall clock is set.
    watch: Option<Watch>,
    /// How the clocks stood, the latest first, each at least [`APART_NS`] after the one before.
    pairs: [Option<Pair>; 3],
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
    /// When the earlier pair was read. A stamp from before it is not converted.
    since: u64,
    /// How far the wall clock strayed since then from the rate that it had.
    strayed: u64,
    /// The rate at which the wall clock ran away from the raw clock before, in parts per billion, or the usual one if it
    /// was less.
    rate_ppb: u64,
}

impl Stamps {
    pub(crate) fn of(clock: OsClock) -> Self {
        Self::from(clock, Watch::begin().ok(), Pair::read())
    }

    fn from(clock: OsClock, watch: Option<Watch>, first: Pair) -> Self {
        Self { clock, watch, pairs: [Some(first), None, None], set: None }
    }

    /// Reads the clocks. Nothing if the wall clock was set within the last moments: no one knows on which side of that a
    /// stamp lies.
    pub(crate) fn convert(&mut self) -> Option<Conversion> {
        let now = Pair::read();
        // Only afterwards: a set that the pair shows, and that the kernel has reported, is never missed.
        let was_set = self.watch.as_ref().is_some_and(Watch::was_set);
        self.convert_by(now, was_set)
    }

    fn convert_by(&mut self, now: Pair, was_set: bool) -> Option<Conversion> {
        let fastest = if self.watch.is_some() { FASTEST_PPB } else { USUAL_PPB };
        let last = self.pairs[0];
        if was_set || last.is_some_and(|last| !now.goes_on_from(last, fastest)) {
            self.set = Some(now.after);
            self.pairs = [None; 3];
        }
        let conversion = self.conversion(now);
        if self.pairs[0].is_none_or(|last| now.after.saturating_sub(last.after) >= APART_NS) {
            self.pairs.rotate_right(1);
            self.pairs[0] = Some(now);
        }
        let is_long_ago = self.set.is_none_or(|set| now.after.saturating_sub(set) > AFTER_SET_NS);
        conversion.filter(|_| is_long_ago)
    }

    /// By the pair before the latest: a stamp may be a little older than that one.
    fn conversion(&self, now: Pair) -> Option<Conversion> {
        let [latest, earlier, earliest] = self.pairs;
        let base = earlier.or(latest)?;
        let (moved, passed) = now.moved_from(base);
        let before = earlier.zip(earliest).map(|(base, before)| base.moved_from(before));
        let (before, in_that) = before.unwrap_or((0, 1));
        // Each of the two pairs is as uncertain as its reading took; the last nanosecond is that of a division.
        let unsure = i128::from(now.bracket() + base.bracket() + 1);
        let strayed = (moved - before * passed / in_that).abs() + unsure;
        let rate = before.abs() * i128::from(BILLION) / in_that + 1;
        Some(Conversion {
            clock: self.clock,
            now,
            since: base.after,
            strayed: u64::try_from(strayed).ok()?,
            rate_ppb: u64::try_from(rate).ok()?.clamp(USUAL_PPB, FASTEST_PPB),
        })
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

    /// By how much the wall clock moved against the raw clock since then, and in how long.
    fn moved_from(self, last: Self) -> (i128, i128) {
        let passed = i128::from(self.after) - i128::from(last.after);
        (self.apart() - last.apart(), passed.max(1))
    }

    /// Whether a clock that is slewed, and no faster than that, comes from there to here.
    fn goes_on_from(self, last: Self, fastest_ppb: u64) -> bool {
        let (moved, passed) = self.moved_from(last);
        let slewed = passed * i128::from(fastest_ppb) / i128::from(BILLION) + 1;
        moved.abs() <= slewed + i128::from(self.bracket() + last.bracket())
    }
}

impl Conversion {
    /// When a packet left at the earliest, by the raw clock. Nothing if the stamp is no moment of the last second, or is
    /// from before the earlier pair.
    pub(crate) fn departed(self, wall_ns: u64) -> Option<LocalTime> {
        let (earliest, _) = self.bounds(wall_ns)?;
        Some(self.clock.raw_at(i128::from(earliest)))
    }

    /// When a packet arrived at the latest. Nothing as above.
    pub(crate) fn arrived(self, wall_ns: u64) -> Option<LocalTime> {
        let (_, latest) = self.bounds(wall_ns)?;
        Some(self.clock.raw_at(i128::from(latest)))
    }

    /// Between which readings of the machine's raw clock the wall clock showed that.
    fn bounds(self, wall_ns: u64) -> Option<(u64, u64)> {
        let age = self.now.wall.checked_sub(wall_ns).filter(|age| *age <= OLDEST_NS)?;
        // What it strayed is missing in its age, or is too much of it.
        let went = age.saturating_add(self.strayed);
        let unsure = slewed(went, self.rate_ppb).saturating_add(self.strayed);
        let earliest = self.now.before.checked_sub(age)?.checked_sub(unsure)?;
        let latest = (self.now.after - age).saturating_add(unsure).min(self.now.after);
        (earliest >= self.since).then_some((earliest, latest))
    }
}

/// By how much the raw clock may have gone more or less than the wall clock, which runs away from it so fast at most,
/// while that went so far. It went `age / (1 - rate)` if the wall clock was slow.
fn slewed(age_ns: u64, rate_ppb: u64) -> u64 {
    age_ns.saturating_mul(rate_ppb).div_ceil(BILLION - rate_ppb)
}

const BILLION: u64 = 1_000_000_000;

/// So fast a daemon usually slews the wall clock, which is as far as the kernel lets a frequency be adjusted
/// (`adjtimex(2)`): 500 parts per million.
const USUAL_PPB: u64 = 500_000;

/// A clock that goes faster away is not slewed: the kernel lets a tick be 10 % longer or shorter, and a frequency and an
/// offset be adjusted by 500 parts per million each (`adjtimex(2)`).
const FASTEST_PPB: u64 = 101_000_000;

/// How far pairs are apart that are kept: a rate by two of them is known to about a millionth, and a stamp that was
/// fetched in time is younger.
const APART_NS: u64 = 250_000_000;

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

    const SECOND: u64 = BILLION;
    /// What the wall clock shows when the raw clock is at 0.
    const WALL: u64 = 1_700_000_000 * SECOND;
    /// When the tests are.
    const NOON: u64 = 5_000 * SECOND;

    fn pair(at: u64, wall_is_off: i64) -> Pair {
        let wall = (WALL + at).saturating_add_signed(wall_is_off);
        Pair { before: at - 30, wall, after: at + 30 }
    }

    /// As they are where the kernel reports that the clock was set.
    fn watched(first: Pair) -> Stamps {
        let watch = Watch::begin().expect("the kernel has such timers");
        Stamps::from(OsClock::default(), Some(watch), first)
    }

    fn unwatched(first: Pair) -> Stamps {
        Stamps::from(OsClock::default(), None, first)
    }

    /// What a conversion says of a stamp holds for the moment that it was taken at.
    fn holds(conversion: Conversion, stamp: u64, truly: u64) {
        let departed = conversion.departed(stamp).expect("a moment ago").0;
        let arrived = conversion.arrived(stamp).expect("a moment ago").0;
        assert!(departed <= truly && truly <= arrived, "{departed} {truly} {arrived}");
    }

    #[test]
    fn a_stamp_is_counted_back_from_now_and_errs_to_the_safe_side() {
        let mut stamps = watched(pair(NOON - SECOND / 4, 0));
        let conversion = stamps.convert_by(pair(NOON, 0), false).expect("nothing happened");
        let truly = NOON - 40_000;
        holds(conversion, WALL + truly, truly);
        let departed = conversion.departed(WALL + truly).expect("a moment ago").0;
        let arrived = conversion.arrived(WALL + truly).expect("a moment ago").0;
        assert!(arrived - departed < 400, "{departed} {arrived}");
    }

    #[test]
    fn a_wall_clock_that_was_set_converts_nothing_until_all_stamps_are_new() {
        for step in [-3_600_000_000_000, -300_000, 300_000, 3_600_000_000_000] {
            let mut stamps = unwatched(pair(NOON - SECOND / 4, 0));
            assert!(stamps.convert_by(pair(NOON, 0), false).is_some());
            let later = NOON + SECOND / 4;
            assert!(stamps.convert_by(pair(later, step), false).is_none(), "{step}");
            converts_again_after_two_seconds(&mut stamps, later, step);
        }
    }

    /// A step that a daemon might have slewed the clock by, and one that nobody could see in readings.
    #[test]
    fn a_wall_clock_that_is_reported_to_have_been_set_converts_nothing_however_small_the_step() {
        for step in [-100_000, -20, 0, 20, 100_000] {
            let mut stamps = watched(pair(NOON - SECOND / 4, 0));
            assert!(stamps.convert_by(pair(NOON, 0), false).is_some());
            let later = NOON + SECOND / 4;
            assert!(stamps.convert_by(pair(later, step), true).is_none(), "{step}");
            converts_again_after_two_seconds(&mut stamps, later, step);
        }
    }

    fn converts_again_after_two_seconds(stamps: &mut Stamps, later: u64, step: i64) {
        for quarter in 1..=8 {
            let at = later + quarter * SECOND / 4;
            assert!(stamps.convert_by(pair(at, step), false).is_none(), "{step}");
        }
        let at = later + 9 * SECOND / 4;
        let conversion = stamps.convert_by(pair(at, step), false).expect("all stamps are new");
        let truly = at - 40_000;
        holds(conversion, (WALL + truly).saturating_add_signed(step), truly);
    }

    #[test]
    fn what_was_read_before_a_clock_was_set_is_nothing_to_go_by_afterwards() {
        let mut stamps = watched(pair(NOON - SECOND / 4, 0));
        assert!(stamps.convert_by(pair(NOON, 0), false).is_some());
        assert!(stamps.convert_by(pair(NOON + SECOND / 4, 100_000), true).is_none());
        let at = NOON + 5 * SECOND;
        let conversion = stamps.convert_by(pair(at, 100_000), false).expect("long ago");
        let stamp = WALL + at + 100_000 - 2_000;
        holds(conversion, stamp, at - 2_000);
        let (departed, arrived) = (conversion.departed(stamp), conversion.arrived(stamp));
        let within = arrived.expect("a moment ago") - departed.expect("a moment ago");
        assert!(within.as_nanos() < 1_000, "the step is no slew: {within:?}");
    }

    /// Where the kernel does not report it, and in the moment before it does.
    #[test]
    fn a_small_step_that_nobody_reported_is_in_what_is_stated() {
        for step in [-100_000, -1_000, 1_000, 100_000] {
            for mut stamps in
                [watched(pair(NOON - SECOND / 2, 0)), unwatched(pair(NOON - SECOND / 2, 0))]
            {
                assert!(stamps.convert_by(pair(NOON - SECOND / 4, 0), false).is_some());
                let conversion = stamps.convert_by(pair(NOON, step), false).expect("a slew?");
                let truly = NOON - 110_000;
                holds(conversion, WALL + truly, truly);
                holds(conversion, (WALL + truly).saturating_add_signed(step), truly);
            }
        }
    }

    #[test]
    fn a_wall_clock_that_is_slewed_goes_on() {
        for mut stamps in [watched(pair(NOON, 0)), unwatched(pair(NOON, 0))] {
            for quarter in 1..40 {
                let off = 40_000 * i64::try_from(quarter).expect("a few");
                let at = NOON + quarter * SECOND / 4;
                assert!(stamps.convert_by(pair(at, off), false).is_some(), "160 ppm");
            }
        }
    }

    /// What the wall clock is off by at a moment, if it is slewed by so many parts per million from noon on.
    fn slewed_by(ppm: i64, at: u64) -> i64 {
        i64::try_from(at.saturating_sub(NOON)).expect("seconds") * ppm / 1_000_000
    }

    /// As fast as the kernel lets it be, and of what is fast by how a daemon usually slews.
    #[test]
    fn a_slew_of_any_rate_is_in_what_is_stated_from_its_first_moment() {
        for ppm in [-100_000, -10_000, -500, -499, 499, 500, 10_000, 100_000] {
            let mut stamps = watched(pair(NOON - SECOND, 0));
            for quarter in 1..16 {
                // The slew begins a millisecond before the fourth pair.
                let at = NOON + 1_000_000 + quarter * SECOND / 4 - SECOND;
                let now = pair(at, slewed_by(ppm, at));
                let conversion = stamps.convert_by(now, false).expect("it is slewed");
                for age in [2_000, 40_000, 150_000_000] {
                    let truly = at - age;
                    let stamp = (WALL + truly).saturating_add_signed(slewed_by(ppm, truly));
                    holds(conversion, stamp, truly);
                }
                if quarter > 8 {
                    let stamp =
                        (WALL + at - 2_000).saturating_add_signed(slewed_by(ppm, at - 2_000));
                    let (departed, arrived) =
                        (conversion.departed(stamp), conversion.arrived(stamp));
                    let within = arrived.expect("a moment ago") - departed.expect("a moment ago");
                    assert!(within.as_nanos() < 1_000, "{ppm}: the rate is known: {within:?}");
                }
            }
        }
    }

    #[test]
    fn a_small_step_of_a_clock_that_is_slewed_fast_is_in_what_is_stated() {
        for (ppm, step) in [(-100_000, -200_000), (-100_000, 200_000), (100_000, 200_000)] {
            let mut stamps = watched(pair(NOON, 0));
            for quarter in 1..8 {
                let at = NOON + quarter * SECOND / 4;
                stamps.convert_by(pair(at, slewed_by(ppm, at)), false).expect("it is slewed");
            }
            let at = NOON + 2 * SECOND;
            let now = pair(at, slewed_by(ppm, at) + step);
            let conversion = stamps.convert_by(now, false).expect("it is slewed");
            let truly = at - 150_000_000;
            let stamp = (WALL + truly).saturating_add_signed(slewed_by(ppm, truly));
            holds(conversion, stamp, truly);
            holds(conversion, stamp.saturating_add_signed(step), truly);
        }
    }

    #[test]
    fn what_the_kernel_does_not_watch_counts_as_set_if_it_is_slewed_faster_than_usual() {
        let mut stamps = unwatched(pair(NOON, 0));
        let at = NOON + SECOND / 4;
        assert!(stamps.convert_by(pair(at, slewed_by(600, at)), false).is_none());
    }

    #[test]
    fn what_lies_ahead_or_long_ago_or_before_the_earlier_pair_is_no_stamp() {
        let mut stamps = watched(pair(NOON - 3 * SECOND, 0));
        let conversion = stamps.convert_by(pair(NOON, 0), false).expect("nothing happened");
        for stamp in [0, WALL + NOON - 2 * SECOND, WALL + NOON + SECOND] {
            assert_eq!((conversion.departed(stamp), conversion.arrived(stamp)), (None, None));
        }
        let mut stamps = watched(pair(NOON - SECOND / 4, 0));
        let conversion = stamps.convert_by(pair(NOON, 0), false).expect("nothing happened");
        let stamp = WALL + NOON - SECOND / 2;
        assert_eq!((conversion.departed(stamp), conversion.arrived(stamp)), (None, None));
    }

    /// A stamp and a reading of the same moment agree, whatever is wrong with the clock.
    #[test]
    fn a_fault_is_in_stamps_as_it_is_in_readings() {
        for (offset_ns, drift_ppm) in [(0, 0), (74_000_000, 0), (-74_000_000, 36), (0, -500)] {
            let wander_ppb = 100 * drift_ppm;
            let clock = OsClock::with_fault(ClockFault { offset_ns, drift_ppm, wander_ppb });
            let mut stamps = Stamps::of(clock);
            let (mut worst, mut converted) = (0, 0);
            for _ in 0..1_000 {
                let before = clock.raw().0;
                let wall = nanos(clock_gettime(ClockId::Realtime));
                let after = clock.raw().0;
                let Some(conversion) = stamps.convert() else { continue };
                // The first moments may be from before the first pair.
                let ends = conversion.departed(wall).zip(conversion.arrived(wall));
                let Some((LocalTime(departed), LocalTime(arrived))) = ends else { continue };
                assert!(departed <= after && before <= arrived, "{offset_ns} {drift_ppm}");
                assert!(departed <= arrived);
                worst = worst.max(arrived - departed);
                converted += 1;
            }
            assert!(converted > 900, "only {converted} were converted");
            // A second that a thread was held up costs a millisecond.
            assert!(worst < 5_000_000, "{worst} ns between the earliest and the latest");
            println!("offset {offset_ns} ns, drift {drift_ppm} ppm: within {worst} ns");
        }
    }
}
