//! The port for the platform: probes, metrics, and what the kubelet calls before a pod ends.
//!
//! None of the probes depends on other pods or on the API server: a group that cannot form must not
//! get its members restarted.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Extension, Router};
use tokio::sync::watch;

use crate::group::Group;
use crate::http::{Via, is_from_page, names_an_address};
use crate::metrics::{MEDIA_TYPE, Metrics};

/// What the handlers have.
#[derive(Clone)]
pub struct Admin {
    group: Group,
    metrics: Metrics,
    bound: watch::Receiver<bool>,
}

impl Admin {
    /// The admin port of one sidecar. `bound` becomes true once the API's port is.
    pub fn new(group: Group, metrics: Metrics, bound: watch::Receiver<bool>) -> Self {
        Self { group, metrics, bound }
    }

    /// Whether an application's call would be answered.
    fn is_usable(&self) -> bool {
        *self.bound.borrow() && !self.group.requests.is_closed()
    }
}

/// The routes; a page may be merged in at `/`.
pub fn router(admin: Admin) -> Router {
    Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/startupz", get(started))
        .route("/metrics", get(metrics))
        .route("/drain", get(drain).post(drain))
        .with_state(admin)
}

/// The process runs its tasks.
async fn live() -> &'static str {
    "alive\n"
}

/// The API on localhost answers.
async fn ready(State(admin): State<Admin>) -> impl IntoResponse {
    verdict(admin.is_usable(), "ready\n", "the API on localhost is not there\n")
}

/// The API's port is bound.
async fn started(State(admin): State<Admin>) -> impl IntoResponse {
    verdict(*admin.bound.borrow(), "started\n", "the API on localhost is not bound yet\n")
}

async fn metrics(State(admin): State<Admin>) -> impl IntoResponse {
    ([(CONTENT_TYPE, MEDIA_TYPE)], admin.metrics.scrape(&admin.group))
}

/// What `preStop` calls by `conclave drain`: the leadership goes to another, locks stay. Done again
/// it does nothing.
///
/// Only the pod itself may do so: a sidecar that is drained does not come back. A browser is kept from it
/// as from the API.
async fn drain(
    State(admin): State<Admin>,
    via: Option<Extension<Via>>,
    headers: HeaderMap,
) -> impl IntoResponse {
    if !via.is_some_and(|Extension(via)| is_loopback(via)) {
        return (StatusCode::FORBIDDEN, "only from within the pod\n");
    }
    if is_from_page(&headers) || !names_an_address(&headers) {
        return (StatusCode::FORBIDDEN, "not from a page\n");
    }
    admin.group.drain().await;
    (StatusCode::OK, "draining\n")
}

/// Whether somebody calls over loopback. A socket of both families has IPv4 within IPv6.
fn is_loopback(via: Via) -> bool {
    match via {
        Via::Tcp(peer) => peer.ip().to_canonical().is_loopback(),
        Via::Unix => false,
    }
}

fn verdict(good: bool, yes: &'static str, no: &'static str) -> (StatusCode, &'static str) {
    if good { (StatusCode::OK, yes) } else { (StatusCode::SERVICE_UNAVAILABLE, no) }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::{Request, Response};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;
    use crate::group;
    use crate::http::tests::double::{Double, soon};

    async fn call(double: &Double, bound: bool, line: &str, header: &str) -> Response<Body> {
        call_from(Some("127.0.0.1:1"), double, bound, line, header).await
    }

    async fn call_from(
        peer: Option<&str>,
        double: &Double,
        bound: bool,
        line: &str,
        header: &str,
    ) -> Response<Body> {
        let (_sender, bound) = watch::channel(bound);
        let admin = Admin::new(double.group.clone(), double.metrics.clone(), bound);
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path);
        if let Some((name, value)) = header.split_once(": ") {
            request = request.header(name, value);
        }
        if let Some(peer) = peer {
            request = request.extension(Via::Tcp(peer.parse().unwrap()));
        }
        router(admin).oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn probes_ask_about_this_process_alone() {
        let mut double = Double::new();
        double.status.send_modify(|status| status.missing = Some("everything".to_owned()));
        let probes = ["/livez", "/readyz", "/startupz"];
        let mut seen = Vec::new();
        for bound in [false, true] {
            for probe in probes {
                let answer = call(&double, bound, &format!("GET {probe}"), "").await;
                seen.push(answer.status().as_u16());
            }
        }
        assert_eq!(seen, [200, 503, 503, 200, 200, 200]);
        double.requests.close();
        assert_eq!(call(&double, true, "GET /readyz", "").await.status().as_u16(), 503);
        assert_eq!(call(&double, true, "GET /livez", "").await.status().as_u16(), 200);
    }

    #[tokio::test]
    async fn the_group_learns_of_draining_by_get_and_by_post() {
        let mut double = Double::new();
        for line in ["GET /drain", "POST /drain"] {
            for host in ["", "Host: 10.1.2.3:7072", "Host: [fd00::1]:7072", "Host: localhost"] {
                assert_eq!(call(&double, true, line, host).await.status().as_u16(), 200, "{host}");
                assert!(matches!(soon(double.requests.recv()).await, Some(group::Request::Drain)));
            }
        }
    }

    #[tokio::test]
    async fn only_the_pod_itself_drains() {
        let mut double = Double::new();
        let strangers = ["10.1.2.4:1", "[fd00::2]:1", "[::ffff:10.1.2.4]:1", "0.0.0.0:1", "[::]:1"];
        for stranger in strangers.map(Some).into_iter().chain([None]) {
            for line in ["GET /drain", "POST /drain"] {
                let answer = call_from(stranger, &double, true, line, "Host: localhost").await;
                assert_eq!(answer.status().as_u16(), 403, "{stranger:?}");
            }
        }
        assert!(double.requests.try_recv().is_err());
        for own in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            let answer = call_from(Some(own), &double, true, "GET /drain", "").await;
            assert_eq!(answer.status().as_u16(), 200, "{own}");
            assert!(matches!(soon(double.requests.recv()).await, Some(group::Request::Drain)));
        }
    }

    #[tokio::test]
    async fn no_page_drains() {
        let mut double = Double::new();
        for header in [
            "Origin: http://localhost",
            "Sec-Fetch-Site: cross-site",
            "Host: evil.example:7072",
            "Host: 10.1.2.3.evil.example",
        ] {
            for line in ["GET /drain", "POST /drain"] {
                assert_eq!(call(&double, true, line, header).await.status().as_u16(), 403);
            }
        }
        assert!(double.requests.try_recv().is_err());
    }

    #[tokio::test]
    async fn metrics_have_the_media_type_of_the_text_format() {
        let answer = call(&Double::new(), true, "GET /metrics", "").await;
        assert_eq!(answer.headers()[CONTENT_TYPE], MEDIA_TYPE);
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(text.starts_with(b"# HELP conclave_"));
    }
}
