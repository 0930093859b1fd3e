//! How the rules compare clocks.

use std::time::Duration;

use crate::policy::Timing;

/// How time is counted along a trace.
#[derive(Clone, Copy, Debug)]
pub enum Clocks {
    /// Any two rates differ by five per cent at most.
    Drifting,
    /// All count the same whole ticks, of this length, and a hold is as long as the wait for it.
    Ticking(Duration),
}

impl Clocks {
    /// Rule 5: how long somebody may count on what another waits for. It is written down here a second
    /// time, because a slip in [`crate::time::hold`] is a slip of the members.
    pub(super) fn hold(self, wait: Duration) -> Duration {
        match self {
            Self::Drifting => wait.saturating_sub(Duration::from_millis(20)) * 20 / 21,
            Self::Ticking(_) => wait,
        }
    }

    /// The least true time in which anybody's clock counts this: of two rates that differ by five per
    /// cent one is as far above the true one as the other below.
    pub(super) fn least(self, wait: Duration) -> Duration {
        match self {
            Self::Drifting => wait * 41 / 42,
            Self::Ticking(_) => wait,
        }
    }

    /// The least true time of rule 15 (c): for E, and then for P. In whole ticks the promise that is given
    /// in the last tick of E has the rest of it for its first.
    pub(super) fn least_until_closed(self, timing: Timing) -> Duration {
        let both = timing.api_outage + timing.leader_lease;
        match self {
            Self::Drifting => self.least(both),
            Self::Ticking(tick) => both.saturating_sub(tick),
        }
    }
}
