//! What every request must be before anything else looks at it.
//!
//! The API listens on loopback, and a browser can reach loopback: by a page of another site, or by
//! a name that is made to point there. So a request must name a loopback host, and must not say that it
//! comes from a page. A body must be JSON, too, which no form can send: `fields.rs` reads it so.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Version};

use super::fields::too_large;
use super::problem::Problem;
use super::problem_type::ProblemType;
use super::server::Via;

/// Refuses what is not a call of the pod itself.
pub(super) fn check(request: &Request, body_bytes: usize) -> Result<(), Problem> {
    check_page(request.headers())?;
    check_host(request)?;
    check_length(request.headers(), body_bytes)
}

fn check_page(headers: &HeaderMap) -> Result<(), Problem> {
    if is_from_page(headers) {
        let detail = "a request with an `Origin` or a `Sec-Fetch-Site` comes from a browser's page";
        return Err(Problem::new(ProblemType::Forbidden, detail));
    }
    Ok(())
}

/// Whether a browser sent this for a page. It sends no `Origin` with what only loads something, such
/// as an image, but states where that belongs (W3C, Fetch Metadata Request Headers); `none` is what
/// somebody typed.
pub(crate) fn is_from_page(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    headers.contains_key(ORIGIN) || sites.any(|site| site.as_bytes() != b"none")
}

/// Whether all hosts that the headers name are addresses or `localhost`: a name can be made to point
/// anywhere by its owner.
pub(crate) fn names_an_address(headers: &HeaderMap) -> bool {
    let is_address = |host: &str| address(host).is_some() || is_loopback(host);
    hosts(headers).all(|host| host.is_some_and(is_address))
}

/// Every host that the request names must be the loopback; one that names none is HTTP/1.0. Through
/// the Unix socket it does not matter: no browser reaches that.
fn check_host(request: &Request) -> Result<(), Problem> {
    if request.extensions().get::<Via>() == Some(&Via::Unix) {
        return Ok(());
    }
    let uri = request.uri().authority().map(Authority::as_str);
    let is_named = request.headers().contains_key(HOST) || uri.is_some();
    let mut named = hosts(request.headers()).chain(uri.map(Some));
    let allowed = named.all(|host| host.is_some_and(is_loopback));
    if allowed && (is_named || request.version() == Version::HTTP_10) {
        return Ok(());
    }
    let detail = "the `Host` must be localhost, 127.0.0.1 or [::1]";
    Err(Problem::new(ProblemType::Forbidden, detail))
}

/// The hosts that headers name; nothing for one that is no text.
fn hosts(headers: &HeaderMap) -> impl Iterator<Item = Option<&str>> {
    headers.get_all(HOST).iter().map(|host| host.to_str().ok())
}

fn is_loopback(host: &str) -> bool {
    match address(host) {
        Some(IpAddr::V4(address)) => address.octets() == [127, 0, 0, 1],
        Some(IpAddr::V6(address)) => address.is_loopback(),
        None => without_port(host).eq_ignore_ascii_case("localhost"),
    }
}

/// The address that a host is, if it is one: that of IPv6 in brackets.
fn address(host: &str) -> Option<IpAddr> {
    let name = without_port(host);
    match name.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
        None => name.parse().ok().map(IpAddr::V4),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    }
}

fn check_length(headers: &HeaderMap, body_bytes: usize) -> Result<(), Problem> {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    match length.and_then(|length| length.parse::<usize>().ok()) {
        Some(length) if length > body_bytes => Err(too_large(body_bytes)),
        Some(_) | None => Ok(()),
    }
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
