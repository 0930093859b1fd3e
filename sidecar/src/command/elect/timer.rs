//! A timer by `CLOCK_BOOTTIME`: after a suspend it fires at once if its time has passed meanwhile.

use std::io;
use std::os::fd::OwnedFd;

use conclave_protocols::LocalTime;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub(super) struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    #[expect(
        deprecated,
        reason = "an `OwnedFd` is always the same open file; the other way is unsafe code"
    )]
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        Ok(Self(AsyncFd::with_interest(timer, Interest::READABLE)?))
    }

    /// Waits until then; for ever without a time.
    pub(super) async fn until(&self, time: Option<LocalTime>) -> io::Result<()> {
        let Some(LocalTime(nanos)) = time else { return std::future::pending().await };
        let part = |nanos: u64| i64::try_from(nanos).unwrap_or(i64::MAX);
        // Zero would stop the timer.
        let nanos = nanos.max(1);
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: part(nanos / 1_000_000_000),
                tv_nsec: part(nanos % 1_000_000_000),
            },
        };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::ABSTIME, &once)?;
        // What was seen of a time before may still be there: then this returns early, and the caller looks again.
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::os_clock::OsClock;

    async fn waited(timer: &Timer, time: LocalTime) {
        while OsClock::default().now() < time {
            timer.until(Some(time)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn it_fires_at_its_time_again_and_again_and_at_once_when_that_has_passed() {
        let timer = Timer::new().unwrap();
        let clock = OsClock::default();
        let all = async {
            for _ in 0..3 {
                waited(&timer, clock.now().after(Duration::from_millis(20))).await;
            }
            timer.until(Some(LocalTime(0))).await.unwrap();
        };
        tokio::time::timeout(Duration::from_secs(60), all).await.expect("it fires");
    }

    #[tokio::test]
    async fn it_does_not_fire_before_its_time_nor_without_one() {
        let timer = Timer::new().unwrap();
        let later = OsClock::default().now().after(Duration::from_secs(600));
        for time in [Some(later), None] {
            let brief = tokio::time::timeout(Duration::from_millis(30), timer.until(time)).await;
            assert!(brief.is_err(), "{time:?}");
        }
    }
}
