//! A timer for what moves on with every event: it is set anew only if it would fire too late.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Sleeps until a time that its owner states whenever it waits. Of a later time it hears when it fires.
pub(crate) struct LazySleep {
    sleep: Pin<Box<Sleep>>,
}

impl LazySleep {
    pub(crate) fn new() -> Self {
        Self { sleep: Box::pin(tokio::time::sleep(Duration::ZERO)) }
    }

    /// Returns when this time has come.
    pub(crate) async fn until(&mut self, due: Instant) {
        if due < self.sleep.deadline() {
            self.sleep.as_mut().reset(due);
        }
        loop {
            self.sleep.as_mut().await;
            if due <= Instant::now() {
                return;
            }
            self.sleep.as_mut().reset(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_fires_when_it_was_stated_last() {
        let (start, seconds) = (Instant::now(), Duration::from_secs);
        let mut sleep = LazySleep::new();
        for (first, then) in [(5, 9), (9, 5), (5, 5), (60, 1)] {
            let begin = Instant::now();
            let other = tokio::time::timeout(seconds(1) / 2, sleep.until(begin + seconds(first)));
            assert!(other.await.is_err(), "after {:?}", start.elapsed());
            sleep.until(begin + seconds(then)).await;
            assert_eq!(begin.elapsed(), seconds(then), "first {first} s");
        }
        let begin = Instant::now();
        sleep.until(begin).await;
        assert_eq!(begin.elapsed(), Duration::ZERO, "what is over is over");
    }
}
