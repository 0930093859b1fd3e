//! Who may ask the page's server: its own page, and programs on this machine that are no browser.
//!
//! Every site that a browser shows can send requests to loopback, and can have its own name point
//! there. So the `Host` must be this server's, and an `Origin`, which browsers send with whatever
//! changes something, must be this page (RFC 6454, section 7).

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Turns others away, and says what the page may load.
pub(super) async fn guard(State(port): State<u16>, request: Request, next: Next) -> Response {
    let mut response = if is_own(request.headers(), port) {
        next.run(request).await
    } else {
        (StatusCode::FORBIDDEN, "this is not the page's own address").into_response()
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn is_own(headers: &HeaderMap, port: u16) -> bool {
    let own = ["127.0.0.1", "localhost"].map(|host| format!("{host}:{port}"));
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Some(host) = own.iter().find(|own| host.as_bytes() == own.as_bytes()) else { return false };
    let origin = format!("http://{host}");
    headers.get_all(ORIGIN).iter().all(|given| given.as_bytes() == origin.as_bytes())
}

const HEADERS: [(HeaderName, &str); 4] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
        headers.extend(origin.map(|origin| (ORIGIN, origin.parse().unwrap())));
        headers
    }

    #[test]
    fn the_page_and_programs_without_an_origin_are_admitted() {
        assert!(is_own(&headers("127.0.0.1:7370", None), 7370));
        assert!(is_own(&headers("localhost:7370", Some("http://localhost:7370")), 7370));
    }

    #[test]
    fn a_foreign_origin_is_turned_away() {
        for origin in ["http://evil.example", "null", "http://localhost:7070", ""] {
            assert!(!is_own(&headers("localhost:7370", Some(origin)), 7370), "{origin}");
        }
    }

    #[test]
    fn a_foreign_name_that_points_here_is_turned_away() {
        for host in ["evil.example:7370", "127.0.0.1", "127.0.0.1:80", "", "localhost:7370.evil"] {
            assert!(!is_own(&headers(host, None), 7370), "{host}");
        }
        assert!(!is_own(&HeaderMap::new(), 7370));
    }
}
