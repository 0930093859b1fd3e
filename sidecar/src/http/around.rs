//! What stands around every route: a call is counted, checked, and admitted, and its answer is not to be kept.
//!
//! One layer does it all, since each costs every call a few allocations.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::{Instrument, debug, debug_span};

use super::{Api, guard, tokens};
use crate::telemetry::PATH;

/// Counts a call by the template of its route, since a path would be as many labels as locks, and how long it took
/// until its answer began.
pub(super) async fn around(State(api): State<Api>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let template = route.as_ref().map(MatchedPath::as_str);
    let span = debug_span!(target: PATH, "call", %method, route = template);
    let mut response = admitted(&api, request, next).instrument(span).await;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let took = began.elapsed();
    debug!(%method, route = template, status = response.status().as_u16(), ?took, "answered");
    api.metrics.http.answered(template, &method, response.status(), took);
    response
}

/// Runs the route if the call is one of the pod itself, and shows the token that the route needs.
async fn admitted(api: &Api, mut request: Request, next: Next) -> Response {
    if let Err(problem) = guard::check(&request, api.limits.body_bytes) {
        return problem.into_response();
    }
    if let Err(refusal) = tokens::admit(api.tokens.as_ref(), &mut request) {
        return refusal.into_response();
    }
    next.run(request).await
}
