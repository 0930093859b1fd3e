//! What the group clock takes of processors.

use std::time::Duration;

use prometheus::Counter;
use rustix::time::{ClockId, clock_gettime};

use super::definitions::Definitions;

/// Counts the processor time of everything that the group clock is made of. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ClockCost(Counter);

impl ClockCost {
    pub(super) fn new(define: &mut Definitions) -> Self {
        Self(define.seconds(
            "conclave_clock_cpu_seconds_total",
            "Processor time that the group clock took: clock probes and what is made of them, the handling of its \
             algorithm's messages, and the clock page.",
        ))
    }

    /// Does some of its work. What this thread waits for meanwhile costs nothing.
    pub(crate) fn of<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = thread_time();
        let done = work();
        self.0.inc_by(thread_time().saturating_sub(began).as_secs_f64());
        done
    }
}

/// What this thread has taken of a processor.
fn thread_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_what_it_takes_and_waiting_costs_nothing() {
        let cost = ClockCost::new(&mut Definitions::new("orders"));
        let waits = Duration::from_millis(200);
        cost.of(|| std::thread::sleep(waits));
        let idle = cost.0.get();
        assert!(idle < waits.as_secs_f64() / 2.0, "{idle} s");
        let works = || {
            let began = thread_time();
            while thread_time().saturating_sub(began) < waits {}
        };
        cost.of(works);
        assert!(cost.0.get() - idle >= waits.as_secs_f64(), "{} s", cost.0.get());
    }
}
