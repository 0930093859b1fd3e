//! Counting refused connections, and saying so once in a while.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, warn};

use super::Local;
use super::secure::Refusal;
use crate::wire;

/// When a reason was last warned of. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<HashMap<&'static str, Instant>>>);

/// Between two warnings for the same reason; the metrics count them all.
const PAUSE: Duration = Duration::from_mins(1);

impl Warnings {
    /// Whether it is time to warn again.
    fn is_due(&self, reason: &'static str, now: Instant) -> bool {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = warned.get(reason).is_none_or(|last| now.duration_since(*last) >= PAUSE);
        if is_due {
            warned.insert(reason, now);
        }
        is_due
    }
}

impl Local {
    /// There is no connection with a peer, or somebody was turned away.
    pub(super) fn refused(&self, peer: impl Display, refusal: &Refusal) {
        let reason = refusal.label();
        self.metrics.peers.connect_failures.with_label_values(&[reason]).inc();
        if refusal.is_suspicious() && self.warnings.is_due(reason, Instant::now()) {
            warn!(%peer, reason, "no connection: {refusal}");
        } else {
            debug!(%peer, reason, "no connection: {refusal}");
        }
    }

    /// There is no version of the protocol that a peer and this program speak.
    pub(super) fn speaks_otherwise(&self, peer: impl Display) {
        let (lowest, highest) = wire::VERSIONS;
        if self.warnings.is_due("version", Instant::now()) {
            warn!(%peer, "no connection: it speaks no version of the protocol from {lowest} to {highest}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_warned_of_once_in_a_while() {
        let (warnings, now) = (Warnings::default(), Instant::now());
        assert!(warnings.is_due("group", now));
        assert!(!warnings.is_due("group", now + PAUSE / 2));
        assert!(warnings.is_due("pod", now), "another reason");
        assert!(warnings.is_due("group", now + PAUSE));
    }
}
