//! The certificate that this member shows to others.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{Gauge, IntCounterVec};

use super::definitions::Definitions;

/// The certificate. Its renewal counts.
#[derive(Clone)]
pub(crate) struct CertificateMetrics {
    expiry: Gauge,
    /// By outcome.
    pub(crate) requests: IntCounterVec,
}

impl CertificateMetrics {
    pub(super) fn new(define: &mut Definitions) -> Self {
        Self {
            expiry: define.gauge(
                "conclave_certificate_expiry_timestamp_seconds",
                "When this member's certificate ends, in Unix time; 0 before it has one.",
            ),
            requests: define.counters(
                "conclave_certificate_requests_total",
                "Requests to the operator's authority for a certificate, by what came of them.",
                &["result"],
            ),
        }
    }

    /// There is another certificate, which ends then.
    pub(crate) fn expires(&self, ends: SystemTime) {
        let since = ends.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.expiry.set(since.as_secs_f64());
    }
}
