//! How long it took until another member led.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;

use super::snapshot::millis;

/// The clock that is started when a leader is disturbed, and stopped when another leads.
#[derive(Debug, Default)]
pub(super) struct Failover {
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    running: Option<Begun>,
    last: Option<Took>,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Instant,
    from: u16,
    cause: &'static str,
}

/// A fail-over that has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(super) struct Took {
    ms: u64,
    from: u16,
    to: u16,
    cause: &'static str,
}

/// How fail-overs stand.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct FailoverView {
    /// Since when nobody else leads.
    running_ms: Option<u64>,
    last: Option<Took>,
}

impl Failover {
    /// The leader was disturbed.
    pub(super) fn begin(&self, now: Instant, from: u16, cause: &'static str) {
        self.state().running = Some(Begun { at: now, from, cause });
    }

    /// A member leads. Ends what runs, if it is another member than before.
    pub(super) fn leads(&self, now: Instant, to: u16) {
        let mut state = self.state();
        let Some(Begun { at, from, cause }) = state.running.filter(|begun| begun.from != to) else {
            return;
        };
        let ms = millis(now.duration_since(at));
        *state = State { running: None, last: Some(Took { ms, from, to, cause }) };
    }

    /// A member leads again that led before: there was no fail-over.
    pub(super) fn came_to_nothing(&self, from: u16) {
        let mut state = self.state();
        state.running = state.running.filter(|begun| begun.from != from);
    }

    pub(super) fn view(&self, now: Instant) -> FailoverView {
        let state = *self.state();
        let running_ms = state.running.map(|begun| millis(now.duration_since(begun.at)));
        FailoverView { running_ms, last: state.last }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_failover_lasts_until_another_member_leads() {
        let (failover, start) = (Failover::default(), Instant::now());
        failover.begin(start, 4, "killed");
        failover.leads(start + Duration::from_millis(10), 4);
        assert_eq!(failover.view(start + Duration::from_millis(20)).running_ms, Some(20));
        failover.leads(start + Duration::from_millis(420), 3);
        let view = failover.view(start + Duration::from_secs(9));
        assert_eq!(view.running_ms, None);
        assert_eq!(view.last, Some(Took { ms: 420, from: 4, to: 3, cause: "killed" }));
    }

    #[test]
    fn a_leader_that_goes_on_ends_the_measurement_without_a_figure() {
        let (failover, start) = (Failover::default(), Instant::now());
        failover.begin(start, 4, "paused");
        failover.came_to_nothing(4);
        failover.leads(start, 3);
        let view = failover.view(start);
        assert!(view.running_ms.is_none() && view.last.is_none());
    }
}
