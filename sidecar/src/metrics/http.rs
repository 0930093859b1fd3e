//! What applications ask.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus::{HistogramVec, IntCounterVec};

use super::definitions::{Definitions, doubling};

/// Requests on the ports for applications and the Unix socket.
#[derive(Clone)]
pub(crate) struct HttpMetrics {
    requests: IntCounterVec,
    duration: HistogramVec,
}

impl HttpMetrics {
    pub(super) fn new(define: &mut Definitions) -> Self {
        Self {
            requests: define.counters(
                "conclave_http_requests_total",
                "Requests of applications, by route and status.",
                &["route", "method", "code"],
            ),
            duration: define.histograms(
                "conclave_http_request_duration_seconds",
                "How long requests of applications took until the answer began.",
                &["route", "method"],
                &doubling(50e-6, 20),
            ),
        }
    }

    /// A request was answered. `route` is a template, never a path.
    pub(crate) fn answered(
        &self,
        route: Option<&str>,
        method: &Method,
        status: StatusCode,
        took: Duration,
    ) {
        let (route, method) = (route.unwrap_or("unmatched"), known(method));
        self.requests.with_label_values(&[route, method, status.as_str()]).inc();
        self.duration.with_label_values(&[route, method]).observe(took.as_secs_f64());
    }
}

/// The methods of our routes; anything that a client may invent is one other.
fn known(method: &Method) -> &'static str {
    let methods = ["GET", "HEAD", "POST", "PUT", "DELETE"];
    methods.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}
