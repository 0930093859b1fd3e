//! Bodies and queries of the API's routes: a line such as `POST /v1/locks/orders?wait=1s`, then the
//! body.

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use tokio::time::timeout;
use tower::ServiceExt;

use crate::service::{PATIENCE, on_runtime};

/// An answer is a good one, or a whole problem that blames the caller or the time.
pub(crate) fn run(input: &[u8]) {
    let Some((request, body)) = request(input) else { return };
    let answer = on_runtime(|runtime, api| {
        let answering = async {
            let response = api.router().oneshot(request).await.expect("a router does not fail");
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, ANSWER).collect().await.ok()?;
            Some((parts, body.to_bytes()))
        };
        // A caller may wait for ever, and a stream of events has no end.
        runtime.block_on(async { timeout(PATIENCE, answering).await.ok().flatten() })
    });
    let Some((parts, answered)) = answer else { return };
    let shown = String::from_utf8_lossy(&answered);
    let status = parts.status;
    let is_ours = !status.is_server_error() || status == StatusCode::SERVICE_UNAVAILABLE;
    assert!(is_ours, "{status} answers {:?}: {shown}", String::from_utf8_lossy(body));
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let has_body = !input.starts_with(b"HEAD ");
    if has_body && kind.is_some_and(|kind| kind.contains("json")) {
        let json: serde_json::Value = serde_json::from_slice(&answered).expect("JSON");
        let is_problem = kind == Some("application/problem+json");
        let is_error = status.is_client_error() || status.is_server_error();
        let is_whole = is_error && json["status"] == status.as_u16();
        assert!(!is_problem || is_whole, "{status}: {shown}");
    }
}

/// The request, and its body.
fn request(input: &[u8]) -> Option<(Request<Body>, &[u8])> {
    let (line, body) = match input.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (input, &[][..]),
    };
    let (method, path) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    if !path.starts_with('/') {
        return None;
    }
    let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
    let request = request.header(header::CONTENT_TYPE, "application/json");
    Some((request.body(Body::from(body.to_vec())).ok()?, body))
}

/// More than any answer but a stream has.
const ANSWER: usize = 1 << 20;
