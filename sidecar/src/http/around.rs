//! What stands around every route: a call is counted, checked, and admitted, and its answer is not to be kept.
//!
//! One layer does it all, since each costs every call a few allocations.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use futures::future::{Either, ready};
use tower::Service;
use tracing::{Instrument, debug, debug_span};

use super::{Api, guard, tokens};
use crate::telemetry::PATH;

/// A route, and what stands around it.
#[derive(Clone)]
pub(super) struct Around<S> {
    pub(super) api: Api,
    pub(super) route: S,
}

impl<S> Service<Request> for Around<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.route.poll_ready(context)
    }

    /// Counts a call by the template of its route, since a path would be as many labels as locks, and how long it
    /// took until its answer began.
    fn call(&mut self, mut request: Request) -> Self::Future {
        let began = Instant::now();
        let method = request.method().clone();
        let route = request.extensions().get::<MatchedPath>().cloned();
        let span = debug_span!(target: PATH, "call", %method, route = route.as_ref().map(MatchedPath::as_str));
        let answer = match span.in_scope(|| refusal(&self.api, &mut request)) {
            Some(refusal) => Either::Left(ready(Ok(refusal))),
            None => Either::Right(self.route.call(request)),
        };
        let api = self.api.clone();
        Box::pin(async move {
            let mut response = answer.instrument(span).await?;
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            let (template, took) = (route.as_ref().map(MatchedPath::as_str), began.elapsed());
            debug!(%method, route = template, status = response.status().as_u16(), ?took, "answered");
            api.metrics.http.answered(template, &method, response.status(), took);
            Ok(response)
        })
    }
}

/// What a call is answered that is none of the pod itself, or shows no token that the route needs.
fn refusal(api: &Api, request: &mut Request) -> Option<Response> {
    if let Err(problem) = guard::check(request, api.limits.body_bytes) {
        return Some(problem.into_response());
    }
    tokens::admit(api.tokens.as_ref(), request).err().map(IntoResponse::into_response)
}
