//! What goes to other members and to the API server, and what comes from them.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge};

use super::definitions::{Definitions, doubling};

/// The traffic with other members. The transport counts it.
#[derive(Clone)]
pub(crate) struct PeerMetrics {
    /// By protocol and type of message.
    pub(crate) messages_sent: IntCounterVec,
    /// By protocol and type of message.
    pub(crate) messages_received: IntCounterVec,
    /// By reason.
    pub(crate) messages_ignored: IntCounterVec,
    /// With frames and handshakes.
    pub(crate) bytes_sent: IntCounter,
    /// With frames and handshakes.
    pub(crate) bytes_received: IntCounter,
    /// Sessions that are open.
    pub(crate) connections: IntGauge,
    /// By reason.
    pub(crate) connect_failures: IntCounterVec,
}

/// The traffic with the API server.
#[derive(Clone)]
pub(crate) struct RegisterMetrics {
    requests: IntCounterVec,
    duration: HistogramVec,
}

impl PeerMetrics {
    pub(super) fn new(define: &mut Definitions) -> Self {
        Self {
            messages_sent: define.counters(
                "conclave_peer_messages_sent_total",
                "Messages sent to other members.",
                &["protocol", "type"],
            ),
            messages_received: define.counters(
                "conclave_peer_messages_received_total",
                "Messages received from other members.",
                &["protocol", "type"],
            ),
            messages_ignored: define.counters(
                "conclave_messages_ignored_total",
                "Messages of other members that were dropped, by why.",
                &["reason"],
            ),
            bytes_sent: define
                .counter("conclave_peer_sent_bytes_total", "Bytes sent to other members."),
            bytes_received: define.counter(
                "conclave_peer_received_bytes_total",
                "Bytes received from other members.",
            ),
            connections: define
                .count("conclave_peer_connections", "Sessions with other members that are open."),
            connect_failures: define.counters(
                "conclave_peer_connect_failures_total",
                "Sessions with other members that could not be opened, by why.",
                &["reason"],
            ),
        }
    }
}

impl RegisterMetrics {
    pub(super) fn new(define: &mut Definitions) -> Self {
        Self {
            requests: define.counters(
                "conclave_arbiter_requests_total",
                "Requests to the API server about the group's Lease, by outcome.",
                &["verb", "outcome"],
            ),
            duration: define.histograms(
                "conclave_arbiter_request_duration_seconds",
                "How long requests to the API server about the group's Lease took.",
                &["verb"],
                &doubling(1e-3, 15),
            ),
        }
    }

    /// A request was answered, or given up. Both labels come from closed sets.
    pub(crate) fn answered(&self, verb: &'static str, outcome: &'static str, took: Duration) {
        self.requests.with_label_values(&[verb, outcome]).inc();
        self.duration.with_label_values(&[verb]).observe(took.as_secs_f64());
    }
}
