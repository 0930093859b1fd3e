//! The certificate that this member shows to others.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::{Gauge, IntCounterVec};

use super::definitions::{Definitions, begin};

/// The certificate. Its renewal counts.
#[derive(Clone)]
pub(crate) struct CertificateMetrics {
    expiry: Gauge,
    renewal: Gauge,
    /// By outcome.
    pub(crate) requests: IntCounterVec,
}

impl CertificateMetrics {
    pub(super) fn new(define: &mut Definitions) -> Self {
        let metrics = Self {
            expiry: define.gauge(
                "conclave_certificate_expiry_timestamp_seconds",
                "When this member's certificate ends, in Unix time; 0 before it has one.",
            ),
            renewal: define.gauge(
                "conclave_certificate_renewal_timestamp_seconds",
                "When this member first asks for its next certificate, in Unix time; 0 before it has one.",
            ),
            requests: define.counters(
                "conclave_certificate_requests_total",
                "Requests to the operator's authority for a certificate, by what came of them.",
                &["result"],
            ),
        };
        begin(&metrics.requests, &RESULTS.map(|result| [result]));
        metrics
    }

    /// There is another certificate, which ends then. The next one is asked for when so much of it is left.
    pub(crate) fn expires(&self, ends: SystemTime, reserve: Duration) {
        let ends = ends.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.expiry.set(ends.as_secs_f64());
        self.renewal.set(ends.saturating_sub(reserve).as_secs_f64());
    }

    /// The group is gone, and with it the certificate.
    pub(crate) fn is_gone(&self) {
        self.expiry.set(0.0);
        self.renewal.set(0.0);
    }
}

/// What may come of a request.
const RESULTS: [&str; 6] =
    ["success", "no-token", "unreachable", "refused", "unusable", "no-request"];
