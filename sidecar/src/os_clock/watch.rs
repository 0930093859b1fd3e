//! Notices that the wall clock was set.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// A timer that the kernel cancels whenever it sets the wall clock to another time (`TFD_TIMER_CANCEL_ON_SET`,
/// `timerfd_create(2)`): by `clock_settime`, by `ADJ_SETOFFSET`, for a leap second, and after a suspend. A clock that is
/// slewed is not set.
///
/// Nobody waits for it: that it was cancelled is kept until it is asked for.
#[derive(Debug)]
pub(super) struct Watch(OwnedFd);

impl Watch {
    pub(super) fn begin() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // It is never due: the kernel takes this for the end of its time.
        let never = Timespec { tv_sec: i64::MAX, tv_nsec: 0 };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&timer, flags, &Itimerspec { it_interval: zero, it_value: never })?;
        Ok(Self(timer))
    }

    /// Whether the clock was set since this was asked last. The timer goes on.
    pub(super) fn was_set(&self) -> bool {
        // It fails so as long as nothing has happened, and with ECANCELED once after a set.
        !matches!(rustix::io::read(&self.0, &mut [0; 8]), Err(Errno::AGAIN))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use nix::libc;

    use super::*;

    /// No test may set the clock of its machine. The kernel shows what it was asked for (`proc_pid_fdinfo(5)`).
    #[test]
    fn the_kernel_is_asked_to_cancel_the_timer_when_the_wall_clock_is_set() {
        let watch = Watch::begin().expect("the kernel has such timers");
        let path = format!("/proc/self/fdinfo/{}", watch.0.as_raw_fd());
        let info = std::fs::read_to_string(path).expect("the kernel shows its timers");
        let shown = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name} in {info}")).trim().to_owned()
        };
        let clock = shown("clockid:").parse();
        assert_eq!(clock, Ok(libc::CLOCK_REALTIME));
        let flags = i32::from_str_radix(&shown("settime flags:"), 8);
        assert_eq!(flags, Ok(libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET));
    }

    #[test]
    fn a_clock_that_nobody_sets_is_not_reported() {
        let watch = Watch::begin().expect("the kernel has such timers");
        for _ in 0..3 {
            assert!(!watch.was_set());
        }
    }
}
