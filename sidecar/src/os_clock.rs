//! The clocks of the operating system, behind one type, so that tests and `conclave dev` can give
//! a member a clock that is off.

mod domain;
mod host;
mod stamps;
mod watch;

use std::time::Duration;

use conclave_protocols::LocalTime;
pub(crate) use domain::clock_domain;
pub(crate) use host::{Host, Synchronization};
use rustix::time::{ClockId, Timespec, clock_gettime};
pub(crate) use stamps::Stamps;

/// What a member reads its clocks by.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsClock {
    fault: ClockFault,
}

/// One moment by the two clocks that applications read deadlines by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ApplicationTime {
    /// As [`OsClock::now`].
    pub boottime: LocalTime,
    monotonic_ns: u64,
}

/// A clock error that is injected: none in production.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClockFault {
    /// Added to the raw clock and to the wall clock, in nanoseconds. It may be 30 days below zero.
    pub offset_ns: i64,
    /// How much too fast the raw clock runs, in parts per million.
    pub drift_ppm: i32,
    /// By how much its rate differs from that besides, in parts per billion: by so much one way for ten seconds of the
    /// machine's raw clock, and by as much the other way for the next ten.
    pub wander_ppb: i32,
}

impl OsClock {
    /// The clock of this machine with an error injected.
    pub fn with_fault(fault: ClockFault) -> Self {
        Self { fault }
    }

    /// Whether an error is injected.
    pub fn is_faulty(self) -> bool {
        self.fault != ClockFault::default()
    }

    /// The clock that deadlines are counted by: it goes on while the machine is suspended
    /// (`CLOCK_BOOTTIME`).
    pub fn now(self) -> LocalTime {
        LocalTime(nanos(clock_gettime(ClockId::Boottime)))
    }

    /// The same, and beside it the clock that stands still while the machine is suspended
    /// (`CLOCK_MONOTONIC`), which is the only one that some languages can read.
    ///
    /// That one is read first: time that passes between the two, a suspend too, makes what is stated
    /// by it earlier, and never later.
    pub fn moment(self) -> ApplicationTime {
        let monotonic_ns = nanos(clock_gettime(ClockId::Monotonic));
        ApplicationTime { monotonic_ns, boottime: self.now() }
    }

    /// The clock that the group clock is made from: no daemon slews it (`CLOCK_MONOTONIC_RAW`).
    pub fn raw(self) -> LocalTime {
        self.raw_at(i128::from(nanos(clock_gettime(ClockId::MonotonicRaw))))
    }

    /// What [`OsClock::raw`] reads when the machine's own raw clock is at `host_ns`. A fault is put in here,
    /// and nowhere else: in readings, and in stamps of the kernel, which come by [`Stamps`].
    fn raw_at(self, host_ns: i128) -> LocalTime {
        if !self.is_faulty() {
            return LocalTime(u64::try_from(host_ns).unwrap_or(0));
        }
        let drift = host_ns * i128::from(self.fault.drift_ppm) / 1_000_000;
        let since = (host_ns.rem_euclid(2 * SWING_NS) - SWING_NS).abs();
        let wander = since * i128::from(self.fault.wander_ppb) / 1_000_000_000;
        let offset = i128::from(self.fault.offset_ns) + i128::from(ORIGIN_NS);
        LocalTime(u64::try_from(host_ns + drift + wander + offset).unwrap_or(0))
    }

    /// The wall clock, in nanoseconds since 1970: for people, and for the origin of group time.
    pub fn wall_ns(self) -> i64 {
        let wall = i64::try_from(nanos(clock_gettime(ClockId::Realtime))).unwrap_or(i64::MAX);
        wall.saturating_add(self.fault.offset_ns)
    }

    /// How long until `deadline`; zero if it has passed.
    pub fn until(self, deadline: LocalTime) -> Duration {
        self.now().until(deadline)
    }
}

impl ApplicationTime {
    /// What `CLOCK_MONOTONIC` reads at `deadline`, if the machine is not suspended before it.
    pub fn monotonic_ns_at(self, deadline: LocalTime) -> u64 {
        let left = deadline.0.saturating_sub(self.boottime.0);
        self.monotonic_ns.saturating_add(left)
    }
}

/// A raw clock with a fault counts from that long before the machine began, since an offset may be negative and a
/// [`LocalTime`] is not: 30 days, and an offset in milliseconds has 32 bits.
const ORIGIN_NS: i64 = 30 * 24 * 3600 * 1_000_000_000;

/// For so long a clock that wanders does so in one direction.
const SWING_NS: i128 = 10_000_000_000;

fn nanos(time: Timespec) -> u64 {
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    secs.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_clock_that_wanders_runs_too_slow_for_ten_seconds_and_then_too_fast() {
        let fault = ClockFault { drift_ppm: 2, wander_ppb: 7_000, ..ClockFault::default() };
        let clock = OsClock::with_fault(fault);
        let gained = |second: i128| {
            let host = |second| second * i128::from(SECOND);
            let [from, to] = [second, second + 1].map(|at| i128::from(clock.raw_at(host(at)).0));
            to - from - i128::from(SECOND)
        };
        for second in (0..10).chain(100..110).map(|second| second + 1_000_000) {
            assert_eq!(gained(second), -5_000, "in second {second}");
            assert_eq!(gained(second + 10), 9_000, "in second {}", second + 10);
        }
    }

    #[test]
    fn a_suspend_before_the_moment_makes_a_monotonic_deadline_no_later() {
        // An hour was slept through; ten seconds are left.
        let moment =
            ApplicationTime { boottime: LocalTime(5_000 * SECOND), monotonic_ns: 1_400 * SECOND };
        assert_eq!(moment.monotonic_ns_at(LocalTime(5_010 * SECOND)), 1_410 * SECOND);
    }

    #[test]
    fn a_deadline_that_has_passed_has_passed_by_the_monotonic_clock_too() {
        let moment =
            ApplicationTime { boottime: LocalTime(5_000 * SECOND), monotonic_ns: 1_400 * SECOND };
        assert_eq!(moment.monotonic_ns_at(LocalTime(4_000 * SECOND)), 1_400 * SECOND);
    }

    /// The clocks are as far apart as the machine was suspended. What is stated must not take them for
    /// nearer: then a monotonic deadline would be late.
    #[test]
    fn a_monotonic_deadline_is_never_late() {
        let clock = OsClock::default();
        let apart = |_| {
            let boottime = clock.now().0;
            i128::from(boottime) - i128::from(nanos(clock_gettime(ClockId::Monotonic)))
        };
        let apart = (0..10_000).map(apart).max().expect("some");
        for _ in 0..10_000 {
            let deadline = clock.now().after(Duration::from_secs(10));
            let notified = clock.moment().monotonic_ns_at(deadline);
            assert!(i128::from(notified) <= i128::from(deadline.0) - apart);
        }
    }
}
