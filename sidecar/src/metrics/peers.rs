//! What goes to other members and to the API server, and what comes from them.

use std::time::Duration;

use conclave_protocols::LocalTime;
use prometheus::{Gauge, HistogramVec, IntCounter, IntCounterVec, IntGauge};

use super::definitions::{Definitions, begin, doubling};
use crate::group::Status;

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
    /// Sessions of this member that were opened through a gateway.
    pub(crate) relayed: IntCounter,
    /// Sessions of others that it passes on.
    pub(crate) relays: IntGauge,
}

/// The traffic with the API server.
#[derive(Clone)]
pub(crate) struct RegisterMetrics {
    requests: IntCounterVec,
    duration: HistogramVec,
    confirmed_age: Gauge,
    outage_survived: Gauge,
}

impl PeerMetrics {
    pub(super) fn new(define: &mut Definitions) -> Self {
        let metrics = Self {
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
            relayed: define.counter(
                "conclave_peer_relayed_sessions_total",
                "Sessions with other members that were opened through a gateway.",
            ),
            relays: define.count(
                "conclave_peer_relays",
                "Sessions between other members that this one passes on as a gateway.",
            ),
        };
        begin(&metrics.messages_ignored, &IGNORED.map(|reason| [reason]));
        begin(&metrics.connect_failures, &FAILED.map(|reason| [reason]));
        metrics
    }
}

/// Why a message of another member is dropped.
pub(super) const IGNORED: [&str; 17] = [
    "absurd",
    "announcement",
    "epoch",
    "full",
    "hand_over",
    "join",
    "misrouted",
    "no-address",
    "older base",
    "overtaken",
    "queue-full",
    "resigned",
    "sealed",
    "stranger",
    "transfer",
    "unannounced",
    "version",
];

/// Why a session with another member cannot be opened.
pub(super) const FAILED: [&str; 17] = [
    "broken",
    "certificate",
    "crowded",
    "group",
    "incarnation",
    "no-certificate",
    "plain-text",
    "pod",
    "protocol",
    "refused",
    "rejected",
    "relay",
    "session",
    "timeout",
    "tls",
    "unreachable",
    "version",
];

impl RegisterMetrics {
    pub(super) fn new(define: &mut Definitions) -> Self {
        let metrics = Self {
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
            confirmed_age: define.gauge(
                "conclave_arbiter_confirmed_age_seconds",
                "Since when the group's Lease has not confirmed the view to this member; +Inf if it \
                 never did.",
            ),
            outage_survived: define.gauge(
                "conclave_arbiter_outage_survived_seconds",
                "For how long since then this member surely goes on without the API server; +Inf if it \
                 does so for good, without an arbiter, and before the first view.",
            ),
        };
        for (verb, outcomes) in OUTCOMES {
            metrics.duration.with_label_values(&[verb]);
            for outcome in outcomes {
                metrics.requests.with_label_values(&[verb, outcome]);
            }
        }
        metrics.confirmed_age.set(f64::INFINITY);
        metrics.outage_survived.set(f64::INFINITY);
        metrics
    }

    /// Takes over when the register was last heard of, at `now`.
    pub(super) fn observe(&self, status: &Status, now: LocalTime) {
        let seconds = |known: Option<Duration>| known.map_or(f64::INFINITY, |d| d.as_secs_f64());
        self.confirmed_age.set(seconds(status.confirmed.map(|confirmed| now - confirmed)));
        self.outage_survived.set(seconds(status.outage_survived));
    }

    /// A request was answered, or given up. Both labels come from closed sets.
    pub(crate) fn answered(&self, verb: &'static str, outcome: &'static str, took: Duration) {
        self.requests.with_label_values(&[verb, outcome]).inc();
        self.duration.with_label_values(&[verb]).observe(took.as_secs_f64());
    }
}

/// What is asked of the register, and what may come of it. A record that cannot be read, or was taken off, is no
/// error of the API server's.
pub(super) const OUTCOMES: [(&str, &[&str]); 2] = [
    ("read", &["success", "error", "unreadable"]),
    ("write", &["success", "conflict", "refused", "unknown"]),
];
