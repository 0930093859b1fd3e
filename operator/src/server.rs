//! What the operator serves: probes and metrics.

use std::future::ready;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tracing::warn;

use crate::connections::{self, Limits};
use crate::metrics::Metrics;
use crate::telemetry::chain;

/// Says when the operator has spoken to the API server for the first time, and has looked for its
/// authority. A replica that waits for its turn is ready too, and one that has found no authority:
/// the replica that makes it may wait for this one.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Done>);

#[derive(Debug, Default)]
struct Done {
    answered: AtomicBool,
    looked: AtomicBool,
}

impl Readiness {
    /// The API server has answered.
    pub fn set_answered(&self) {
        self.0.answered.store(true, Ordering::Relaxed);
    }

    /// The authority was looked for.
    pub fn set_looked(&self) {
        self.0.looked.store(true, Ordering::Relaxed);
    }

    /// What is missing.
    fn missing(&self) -> Option<&'static str> {
        if !self.0.answered.load(Ordering::Relaxed) {
            return Some("the API server has not answered yet\n");
        }
        let looked = self.0.looked.load(Ordering::Relaxed);
        (!looked).then_some("the Secret of the authority was not read yet\n")
    }
}

/// Opens the address. Where the kernel has no IPv6, `[::]` means all IPv4 addresses.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(_) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        result => result,
    }
}

/// Serves the router, in plain text.
pub async fn serve(listener: TcpListener, router: Router) {
    let plain = |stream| ready(Ok(stream));
    connections::serve(listener, plain, router, Limits::serving(CONNECTIONS)).await;
}

/// The routes.
pub fn router(metrics: Metrics, readiness: Readiness) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz).with_state(readiness))
        .route("/metrics", get(scrape).with_state(metrics))
}

async fn readyz(State(readiness): State<Readiness>) -> (StatusCode, &'static str) {
    match readiness.missing() {
        None => (StatusCode::OK, "ok\n"),
        Some(missing) => (StatusCode::SERVICE_UNAVAILABLE, missing),
    }
}

async fn scrape(State(metrics): State<Metrics>) -> Response {
    match metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            warn!(error = chain(&error), "the metrics cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Connections at a time: there are the kubelet's probes, and what collects metrics.
const CONNECTIONS: usize = 64;
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use axum::http::Request;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::time::timeout;
    use tower::ServiceExt;

    use super::*;

    async fn status(router: &Router, path: &str) -> StatusCode {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        router.clone().oneshot(request).await.expect("an answer").status()
    }

    #[tokio::test]
    async fn a_replica_is_alive_before_it_is_ready() {
        let readiness = Readiness::default();
        let router = router(Metrics::new().expect("metrics"), readiness.clone());
        assert_eq!(status(&router, "/livez").await, StatusCode::OK);
        assert_eq!(status(&router, "/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
        readiness.set_answered();
        assert_eq!(status(&router, "/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
        readiness.set_looked();
        assert_eq!(status(&router, "/readyz").await, StatusCode::OK);
        assert_eq!(status(&router, "/metrics").await, StatusCode::OK);
    }

    #[tokio::test]
    async fn probes_are_served_with_the_limits_of_the_authority() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let router = router(Metrics::new().expect("metrics"), Readiness::default());
        tokio::spawn(serve(listener, router));
        let mut stream = TcpStream::connect(address).await.expect("connected");
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("written");
        let mut answer = String::new();
        let end = timeout(Duration::from_secs(60), stream.read_to_string(&mut answer)).await;
        end.expect("it ends with its one answer").expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok\n"), "{answer}");
    }
}
