//! What every request must be before anything else looks at it.
//!
//! The API listens on loopback, and a browser can reach loopback: by a page of another site, or by
//! a name that is made to point there. So a request must name a loopback host, must carry no
//! `Origin`, and when it changes something its body must be JSON, which no form can send.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Api;
use super::fields::too_large;
use super::problem::Problem;
use super::problem_type::ProblemType;
use super::server::Via;

/// Turns away what must not come in, and marks answers as not to be kept.
pub(super) async fn guard(State(api): State<Api>, request: Request, next: Next) -> Response {
    let mut response = match check(&request, api.limits.body_bytes) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn check(request: &Request, body_bytes: usize) -> Result<(), Problem> {
    check_origin(request.headers())?;
    check_host(request)?;
    if !request.method().is_safe() {
        check_type(request.headers())?;
    }
    check_length(request.headers(), body_bytes)
}

fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(ORIGIN) {
        let detail = "a request with an `Origin` comes from a browser's page";
        return Err(Problem::new(ProblemType::Forbidden, detail));
    }
    Ok(())
}

/// Every host that the request names must be the loopback; one that names none came through the
/// Unix socket, or is HTTP/1.0.
fn check_host(request: &Request) -> Result<(), Problem> {
    let hosts = request.headers().get_all(HOST).iter();
    let named: Vec<Option<Authority>> = hosts
        .map(|host| host.to_str().ok().and_then(|host| host.parse().ok()))
        .chain(request.uri().authority().map(|authority| Some(authority.clone())))
        .collect();
    let none_needed = request.version() == Version::HTTP_10
        || request.extensions().get::<Via>() == Some(&Via::Unix);
    let allowed = match named.as_slice() {
        [] => none_needed,
        named => named.iter().all(|host| host.as_ref().is_some_and(is_loopback)),
    };
    if allowed {
        return Ok(());
    }
    let detail = "the `Host` must be localhost, 127.0.0.1 or [::1]";
    Err(Problem::new(ProblemType::Forbidden, detail))
}

fn is_loopback(host: &Authority) -> bool {
    let name = host.host();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let known = match address {
        Ok(IpAddr::V4(address)) => address.octets() == [127, 0, 0, 1],
        Ok(IpAddr::V6(address)) => address.is_loopback(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    };
    known && !host.as_str().contains('@')
}

fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let is_json = |value: &HeaderValue| {
        let media = value.to_str().ok().and_then(|value| value.split(';').next());
        media.is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
    };
    if headers.get_all(CONTENT_TYPE).iter().all(is_json) {
        return Ok(());
    }
    let detail = "the `Content-Type` must be application/json, or absent with an empty body";
    Err(Problem::new(ProblemType::UnsupportedMediaType, detail))
}

fn check_length(headers: &HeaderMap, body_bytes: usize) -> Result<(), Problem> {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    match length.and_then(|length| length.parse::<usize>().ok()) {
        Some(length) if length > body_bytes => Err(too_large(body_bytes)),
        Some(_) | None => Ok(()),
    }
}
