//! The clocks of the operating system, behind one type, so that tests and `conclave dev` can give
//! a member a clock that is off.

use std::time::Duration;

use conclave_protocols::LocalTime;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// What a member reads its clocks by.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsClock {
    fault: ClockFault,
}

/// A clock error that is injected: none in production.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClockFault {
    /// Added to the raw clock and to the wall clock, in nanoseconds.
    pub offset_ns: i64,
    /// How much too fast the raw clock runs, in parts per million.
    pub drift_ppm: i32,
}

impl OsClock {
    /// The clock of this machine with an error injected.
    pub fn with_fault(fault: ClockFault) -> Self {
        Self { fault }
    }

    /// The clock that deadlines are counted by: it goes on while the machine is suspended
    /// (`CLOCK_BOOTTIME`).
    pub fn now(self) -> LocalTime {
        LocalTime(nanos(clock_gettime(ClockId::Boottime)))
    }

    /// The clock that the group clock is made from: no daemon slews it (`CLOCK_MONOTONIC_RAW`).
    pub fn raw(self) -> LocalTime {
        let raw = nanos(clock_gettime(ClockId::MonotonicRaw));
        let drift = i128::from(raw) * i128::from(self.fault.drift_ppm) / 1_000_000;
        LocalTime(u64::try_from(i128::from(raw) + drift).unwrap_or(0))
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

fn nanos(time: Timespec) -> u64 {
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    secs.saturating_mul(1_000_000_000).saturating_add(nanos)
}
