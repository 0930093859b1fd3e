//! The logical clocks of the application.

use prometheus::{IntCounterVec, IntGaugeVec};

use super::definitions::{Definitions, begin};
use crate::clocks::{ClockError, Clocks, Event, Kind};

/// The logical clocks of the application: counted at each event.
#[derive(Clone)]
pub(crate) struct LogicalMetrics {
    clocks: IntGaugeVec,
    events: IntCounterVec,
    refused: IntCounterVec,
}

impl LogicalMetrics {
    pub(super) fn new(define: &mut Definitions) -> Self {
        let metrics = Self {
            clocks: define.counts(
                "conclave_logical_clocks",
                "Names of logical clocks in use at this pod, by kind.",
                &["kind"],
            ),
            events: define.counters(
                "conclave_logical_events_total",
                "Events that logical clocks of this pod gave a stamp.",
                &["kind", "event"],
            ),
            refused: define.counters(
                "conclave_logical_stamps_refused_total",
                "Stamps of others that logical clocks of this pod did not receive, by why; `ahead`: a hybrid \
                 stamp later than any clock of the group can show.",
                &["reason"],
            ),
        };
        for kind in Kind::ALL {
            metrics.clocks.with_label_values(&[kind.name()]).set(0);
            begin(&metrics.events, &EVENTS.map(|event| [kind.name(), event]));
        }
        begin(&metrics.refused, &REASONS.map(|reason| [reason]));
        metrics
    }

    /// An event has a stamp.
    pub(crate) fn stamped(&self, kind: Kind, event: &Event, clocks: &Clocks) {
        self.events.with_label_values(&[kind.name(), event.name()]).inc();
        self.counted(kind, clocks);
    }

    /// There are other clocks of that kind.
    pub(crate) fn counted(&self, kind: Kind, clocks: &Clocks) {
        let count = i64::try_from(clocks.count(kind)).unwrap_or(i64::MAX);
        self.clocks.with_label_values(&[kind.name()]).set(count);
    }

    /// A stamp of another was not received.
    pub(crate) fn refused(&self, error: &ClockError) {
        let reason = match error {
            ClockError::Ahead(_) => "ahead",
            ClockError::Untrue(_) => "untrue",
            ClockError::Exhausted(_) => "exhausted",
            ClockError::VectorFull(_) => "vector-full",
            ClockError::KindDiffers { .. } => "kind",
            ClockError::TooMany => "clocks",
            ClockError::TimeUnknown(_) => "time",
            // A stamp states its kind.
            ClockError::NoKind => return,
        };
        self.refused.with_label_values(&[reason]).inc();
    }
}

const EVENTS: [&str; 2] = ["tick", "receive"];

const REASONS: [&str; 7] =
    ["ahead", "untrue", "exhausted", "vector-full", "kind", "clocks", "time"];
