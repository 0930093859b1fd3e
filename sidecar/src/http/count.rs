//! Counts requests, by the template of their route: a path would be as many labels as locks.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tracing::{Instrument, debug, debug_span};

use super::Api;
use crate::telemetry::PATH;

/// Counts a request, and how long it took until its answer began.
pub(super) async fn count(State(api): State<Api>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let template = route.as_ref().map(MatchedPath::as_str);
    let span = debug_span!(target: PATH, "call", %method, route = template);
    let response = next.run(request).instrument(span).await;
    let took = began.elapsed();
    debug!(%method, route = template, status = response.status().as_u16(), ?took, "answered");
    api.metrics.http.answered(template, &method, response.status(), took);
    response
}
