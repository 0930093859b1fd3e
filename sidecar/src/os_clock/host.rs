//! How the wall clock of this machine is kept: what its daemon lets the kernel know (`adjtimex(2)`, which anybody may
//! read).
//!
//! It is about UTC, and no group time depends on it. A kernel may refuse the call; then nothing is known.

use conclave_protocols::LocalTime;
use conclave_protocols::clock::Reading;
use nix::libc;
use rtime_clock::adjtime::{Timex, adjtimex};

use super::OsClock;

/// How the wall clock is kept.
///
/// An injected fault of the clock is not in it: it is one that the daemon does not know of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Synchronization {
    /// Whether the daemon says that the clock is synchronized, to whatever it takes for UTC (not `STA_UNSYNC`).
    pub(crate) synchronized: bool,
    /// How far the clock is wrong at most. The kernel lets it grow by 500 parts per million until the daemon states
    /// another.
    pub(crate) max_error_ns: u64,
    /// How far the daemon guesses that it is wrong.
    pub(crate) estimated_error_ns: u64,
}

/// The wall clock of this machine at a reading of the raw clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Host {
    pub(crate) wall: Wall,
    /// How it is kept; nothing if the kernel does not say.
    pub(crate) synchronization: Option<Synchronization>,
}

/// What the wall clock showed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Wall {
    pub(crate) ns: i64,
    /// How far that is wrong at most, since two clocks cannot be read at once.
    pub(crate) error_ns: u64,
}

impl OsClock {
    /// The wall clock at a reading of the raw clock a moment ago.
    pub(crate) fn host_at(self, raw: u64) -> Host {
        Host { wall: self.wall_at(raw), synchronization: Synchronization::read() }
    }

    fn wall_at(self, raw: u64) -> Wall {
        let mut closest = self.read_wall();
        for _ in 0..TRIES {
            let next = self.read_wall();
            if next.width() < closest.width() {
                closest = next;
            }
        }
        closest.at(raw)
    }

    fn read_wall(self) -> Bracket {
        let before = self.raw();
        let wall_ns = self.wall_ns();
        Bracket { before, wall_ns, after: self.raw() }
    }
}

impl Host {
    /// How far a reading is from UTC at most, if the daemon is right: what the wall clock is off from group time, what
    /// that may be wrong by, and what the wall clock may be. Nothing if one of them is not known, or no daemon keeps the
    /// wall clock.
    pub(crate) fn utc_bound_ns(self, reading: &Reading) -> Option<u128> {
        let synchronization = self.synchronization.filter(|one| one.synchronized)?;
        let offset_ns = self.offset_ns(reading)?.unsigned_abs();
        let error_ns = self.error_ns(reading)?;
        Some(offset_ns + u128::from(error_ns) + u128::from(synchronization.max_error_ns))
    }

    /// The wall clock less the reading; nothing before group time is known.
    pub(crate) fn offset_ns(self, reading: &Reading) -> Option<i128> {
        let offset_ns = i128::from(self.wall.ns) - i128::from(reading.now_ns);
        reading.error_ns.map(|_| offset_ns)
    }

    /// How far that is from the wall clock less group time at most.
    pub(crate) fn error_ns(self, reading: &Reading) -> Option<u64> {
        reading.error_ns.map(|bound| bound.saturating_add(self.wall.error_ns))
    }
}

impl Synchronization {
    fn read() -> Option<Self> {
        let mut timex = Timex::new();
        adjtimex(&mut timex).ok()?;
        Some(Self::of(timex.0.status, timex.0.maxerror, timex.0.esterror))
    }

    /// From the fields of the call: errors are in microseconds.
    fn of(status: i32, max_error_us: i64, estimated_error_us: i64) -> Self {
        let nanos = |us: i64| u64::try_from(us).unwrap_or(0).saturating_mul(1_000);
        Self {
            synchronized: status & libc::STA_UNSYNC == 0,
            max_error_ns: nanos(max_error_us),
            estimated_error_ns: nanos(estimated_error_us),
        }
    }
}

/// The raw clock, the wall clock, the raw clock again.
#[derive(Clone, Copy, Debug)]
struct Bracket {
    before: LocalTime,
    wall_ns: i64,
    after: LocalTime,
}

impl Bracket {
    fn width(self) -> u64 {
        self.after.0.saturating_sub(self.before.0)
    }

    /// Both clocks run as fast as time does, for as short a while as lies between.
    fn at(self, raw: u64) -> Wall {
        let middle = self.before.0.saturating_add(self.width() / 2);
        let ns = i128::from(self.wall_ns) - i128::from(middle) + i128::from(raw);
        let ns = i64::try_from(ns).unwrap_or(self.wall_ns);
        Wall { ns, error_ns: self.width().div_ceil(2) }
    }
}

/// How often a closer reading is tried for.
const TRIES: usize = 2;

#[cfg(test)]
mod tests {
    use conclave_protocols::clock::State;

    use super::*;
    use crate::os_clock::ClockFault;

    #[test]
    fn the_kernel_counts_microseconds_and_says_if_no_daemon_keeps_the_clock() {
        let synchronization = Synchronization::of(0x2001, 1_500, 12);
        let expected = Synchronization {
            synchronized: true,
            max_error_ns: 1_500_000,
            estimated_error_ns: 12_000,
        };
        assert_eq!(synchronization, expected);
        let lost = Synchronization::of(0x2041, 16_000_000, 16_000_000);
        assert!(!lost.synchronized && lost.max_error_ns == 16_000_000_000, "{lost:?}");
        assert_eq!(Synchronization::of(0, -1, i64::MAX).max_error_ns, 0);
        assert_eq!(Synchronization::of(0, -1, i64::MAX).estimated_error_ns, u64::MAX);
    }

    #[test]
    fn the_wall_clock_is_counted_back_to_the_reading() {
        let bracket =
            Bracket { before: LocalTime(1_000), wall_ns: 70_050, after: LocalTime(1_101) };
        assert_eq!(bracket.at(1_050), Wall { ns: 70_050, error_ns: 51 });
        assert_eq!(bracket.at(900), Wall { ns: 69_900, error_ns: 51 });
        assert_eq!(bracket.at(0), Wall { ns: 69_000, error_ns: 51 });
    }

    #[test]
    fn the_bound_against_utc_adds_what_each_may_be_wrong_by() {
        let reading = |error_ns| Reading {
            now_ns: 1_000_000,
            error_ns,
            by_messages: None,
            state: State::Synchronised,
            age_ns: None,
            slewing_ns: 0,
        };
        let synchronization =
            Synchronization { synchronized: true, max_error_ns: 5_000, estimated_error_ns: 1 };
        let host = |ns, synchronization| Host { wall: Wall { ns, error_ns: 7 }, synchronization };
        for ns in [1_000_000 - 40_000, 1_000_000 + 40_000] {
            let host = host(ns, Some(synchronization));
            assert_eq!(host.offset_ns(&reading(Some(300))), Some(i128::from(ns) - 1_000_000));
            assert_eq!(host.error_ns(&reading(Some(300))), Some(307));
            assert_eq!(host.utc_bound_ns(&reading(Some(300))), Some(40_000 + 307 + 5_000));
        }
        // Without group time, a daemon, or a word of the kernel, nothing follows.
        assert_eq!(host(0, Some(synchronization)).utc_bound_ns(&reading(None)), None);
        assert_eq!(host(0, Some(synchronization)).offset_ns(&reading(None)), None);
        let lost = Synchronization { synchronized: false, ..synchronization };
        assert_eq!(host(0, Some(lost)).utc_bound_ns(&reading(Some(300))), None);
        assert_eq!(host(0, None).utc_bound_ns(&reading(Some(300))), None);
        let far =
            host(i64::MIN, Some(Synchronization { max_error_ns: u64::MAX, ..synchronization }));
        let bound = far.utc_bound_ns(&Reading { now_ns: i64::MAX, ..reading(Some(u64::MAX)) });
        assert_eq!(bound, Some(3 * u128::from(u64::MAX)));
    }

    #[test]
    fn an_injected_fault_moves_the_wall_clock() {
        let fault = |offset_ns| ClockFault { offset_ns, ..ClockFault::default() };
        let clock = OsClock::with_fault(fault(-90_000_000_000));
        let wall = clock.wall_at(clock.raw().0);
        let true_ns = OsClock::default().wall_ns();
        let behind = true_ns - wall.ns;
        assert!((90_000_000_000..95_000_000_000).contains(&behind), "{behind}");
    }
}
