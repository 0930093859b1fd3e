//! Claims on locks.

use std::time::Duration;

use conclave_protocols::policy::{Caching, LockAlgorithm, Policy};
use prometheus::{HistogramVec, IntCounterVec, IntGauge, IntGaugeVec};

use super::definitions::{Definitions, doubling};
use crate::claims::{Claim, ClaimState, LostReason, Refusal};

/// Claims on locks. The group task counts them.
#[derive(Clone)]
pub(crate) struct LockMetrics {
    acquisitions: IntCounterVec,
    releases: IntCounterVec,
    wait: HistogramVec,
    hold: HistogramVec,
    messages: HistogramVec,
    messages_expected: IntGaugeVec,
    cached_entries: IntCounterVec,
    /// Locks that claims of this member hold.
    pub(crate) held: IntGauge,
    /// Claims of this member that wait.
    pub(crate) waiters: IntGauge,
    /// Locks that claims of this member hold or wait for.
    pub(crate) wanted: IntGauge,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HoldEnd {
    /// The application gave it back, or hung up.
    Released,
    /// It was lost.
    Lost(LostReason),
}

impl LockMetrics {
    pub(super) fn new(define: &mut Definitions) -> Self {
        Self {
            acquisitions: define.counters(
                "conclave_lock_acquisitions_total",
                "Claims that stopped waiting, by what became of them.",
                &["algorithm", "result"],
            ),
            releases: define.counters(
                "conclave_lock_releases_total",
                "Holds that ended, by why.",
                &["algorithm", "reason"],
            ),
            wait: define.histograms(
                "conclave_lock_wait_seconds",
                "How long granted claims waited.",
                &["algorithm"],
                &doubling(50e-6, 20),
            ),
            hold: define.histograms(
                "conclave_lock_hold_seconds",
                "How long locks were held.",
                &["algorithm"],
                &doubling(50e-6, 20),
            ),
            messages: define.histograms(
                "conclave_lock_messages",
                "Messages of one entry and its exit that this member sent or received, as the textbook \
                 counts them, whether it serves one claim of the pod or several that waited for it; \
                 of `TokenRing` and `Raymond` not those of other members on the token's way.",
                &["algorithm"],
                &MESSAGES,
            ),
            messages_expected: define.counts(
                "conclave_lock_messages_expected",
                "Messages of one entry and its exit by the formula of the textbook, in this view, if \
                 nobody else wants in. None for `TokenRing` and `Raymond`: there the formula is of \
                 where the token is, which no member knows beforehand. None for `Superpeers` at a \
                 member that coordinates some locks: its own cost nothing.",
                &["algorithm"],
            ),
            cached_entries: define.counters(
                "conclave_lock_cached_entries_total",
                "Entries that asked nobody, where members may keep what admits them.",
                &["algorithm"],
            ),
            held: define.count("conclave_locks_held", "Locks that claims of this member hold."),
            waiters: define.count("conclave_lock_waiters", "Claims of this member that wait."),
            wanted: define.count(
                "conclave_locks_wanted",
                "Locks that claims of this member hold or wait for: what a group may have 50000 of.",
            ),
        }
    }

    /// By these algorithms locks are granted from now on; what there was of others stays.
    pub(super) fn list(&self, policy: &Policy) {
        for lock in &policy.locks {
            let algorithm = lock.algorithm.name();
            for result in RESULTS {
                self.acquisitions.with_label_values(&[algorithm, result]);
            }
            for reason in std::iter::once(RELEASED).chain(LostReason::ALL.map(LostReason::name)) {
                self.releases.with_label_values(&[algorithm, reason]);
            }
            for histogram in [&self.wait, &self.hold, &self.messages] {
                histogram.with_label_values(&[algorithm]);
            }
            if lock.caching == Caching::Enabled {
                self.cached_entries.with_label_values(&[algorithm]);
            }
        }
    }

    /// What the textbook says that an entry and its exit cost in the present view, by the algorithms that it has.
    pub(crate) fn expect(&self, costs: &[(LockAlgorithm, u64)]) {
        for algorithm in LockAlgorithm::ALL {
            let cost = costs.iter().find(|(of, _)| *of == algorithm).map(|(_, cost)| *cost);
            let Some(cost) = cost else {
                // Of one that never was in force there is nothing to remove.
                let _ = self.messages_expected.remove_label_values(&[algorithm.name()]);
                continue;
            };
            let expected = self.messages_expected.with_label_values(&[algorithm.name()]);
            expected.set(i64::try_from(cost).unwrap_or(i64::MAX));
        }
    }

    /// A claim stopped waiting.
    pub(crate) fn settled(&self, claim: &Claim) {
        let algorithm = claim.algorithm.name();
        self.acquisitions.with_label_values(&[algorithm, result(&claim.state)]).inc();
        if let (ClaimState::Held(_), Some(settled)) = (&claim.state, claim.settled) {
            let waited = (settled - claim.asked).as_secs_f64();
            self.wait.with_label_values(&[algorithm]).observe(waited);
        }
    }

    /// A hold ended, after this time.
    pub(crate) fn ended(&self, algorithm: LockAlgorithm, end: HoldEnd, held: Duration) {
        let reason = match end {
            HoldEnd::Released => RELEASED,
            HoldEnd::Lost(reason) => reason.name(),
        };
        self.releases.with_label_values(&[algorithm.name(), reason]).inc();
        self.hold.with_label_values(&[algorithm.name()]).observe(held.as_secs_f64());
    }

    /// So many messages were for a hold that has ended: for its entry and its exit.
    ///
    /// An entry for which nobody was asked is counted apart: the textbook knows of none.
    pub(crate) fn cost(&self, algorithm: LockAlgorithm, caching: Caching, messages: u64) {
        if caching == Caching::Enabled && messages == 0 {
            return self.cached_entries.with_label_values(&[algorithm.name()]).inc();
        }
        self.messages.with_label_values(&[algorithm.name()]).observe(float(messages));
    }
}

const RELEASED: &str = "released";

/// What may become of a claim that waits.
pub(super) const RESULTS: [&str; 7] =
    ["granted", "canceled", "held", "timeout", "no-quorum", "grace-period", "terminated"];

/// What became of a claim that waited.
fn result(state: &ClaimState) -> &'static str {
    match state {
        ClaimState::Held(_) => "granted",
        ClaimState::Waiting { .. } | ClaimState::Released => "canceled",
        ClaimState::Refused(Refusal::Held { .. }) => "held",
        ClaimState::Refused(Refusal::WaitTimeout { .. }) => "timeout",
        ClaimState::Refused(Refusal::NoQuorum) => "no-quorum",
        ClaimState::Refused(Refusal::GracePeriod { .. }) => "grace-period",
        ClaimState::Refused(Refusal::Terminated) | ClaimState::Lost(_) => "terminated",
    }
}

/// A count that is far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts of messages are far below 2^53")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

/// Counts of messages: up to 3(n - 1) for the largest group.
pub(super) const MESSAGES: [f64; 14] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1024.0];
