//! What the rules know of one process.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ids::{Epoch, FencingToken, LockName};

/// One process: a member, from its start to its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    rate_ppm: i32,
    pub(super) ended: Option<Duration>,
    /// The latest view that it took a place in.
    pub(super) entered: Epoch,
    /// It takes part in no view up to this one.
    pub(super) refuses: Epoch,
    /// When the register last answered it that it holds a view; of two answers only the later is kept,
    /// unless that is of a later view.
    confirmed: BTreeMap<Epoch, Duration>,
    /// Its leader lease, as it was notified of it.
    pub(super) belief: Option<Belief>,
    pub(super) holds: BTreeMap<LockName, Hold>,
}

/// That an application was notified that it leads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Belief {
    pub(super) epoch: Epoch,
    pub(super) until: Duration,
}

/// A lock that an application was notified that it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) token: FencingToken,
    pub(super) until: Duration,
    pub(super) state: HoldState,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum HoldState {
    Held,
    /// Its application gave it back.
    Released,
    /// Its application was notified that it is lost. What it was notified of before cannot be taken back.
    Lost,
}

impl Hold {
    /// Whether its application may believe in it.
    pub(super) fn is_live(&self, at: Duration) -> bool {
        self.state != HoldState::Released && self.until > at
    }
}

impl Process {
    pub(super) fn new(rate_ppm: i32) -> Self {
        Self { rate_ppm, ..Self::default() }
    }

    /// How long its clock takes for this, in true time.
    pub(super) fn span(&self, wait: Duration) -> Duration {
        let rate = u128::try_from(1_000_000 + i64::from(self.rate_ppm)).unwrap_or(1).max(1);
        let nanos = (wait.as_nanos() * 1_000_000).div_ceil(rate);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    pub(super) fn confirm(&mut self, at: Duration, epoch: Epoch) {
        self.confirmed.retain(|earlier, _| *earlier < epoch);
        self.confirmed.insert(epoch, at);
    }

    /// When the register last confirmed this view to it, or one before.
    pub(super) fn confirmed(&self, epoch: Epoch) -> Option<Duration> {
        self.confirmed.range(..=epoch).map(|(_, at)| *at).max()
    }

    pub(super) fn leads(&self, at: Duration, epoch: Epoch) -> bool {
        self.belief.is_some_and(|belief| belief.epoch == epoch && belief.until > at)
    }
}
