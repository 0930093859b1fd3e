use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::Uri;
use kube::api::GetParams;
use kube::core::Request as Asking;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;

use super::*;

/// What is logged, in the order of it.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    /// Keeps what this thread logs with that filter.
    fn keep(&self, text: &str) -> tracing::subscriber::DefaultGuard {
        let filter: Targets = filter(text).parse().expect("a filter");
        let subscriber =
            tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(self.clone());
        let subscriber = subscriber.json().flatten_event(true).finish().with(filter);
        tracing::subscriber::set_default(subscriber)
    }

    fn lines(&self) -> Vec<Value> {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = String::from_utf8(text).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// An API server that answers one request with this, and returns the request's head; and where it is.
async fn answers_once(answer: &'static str) -> (Uri, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let answering = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a request"));
        }
        stream.write_all(answer.as_bytes()).await.expect("it is read");
        String::from_utf8(head).expect("text")
    });
    (format!("http://{address}").parse().expect("a URI"), answering)
}

const BROKEN: &str = "HTTP/1.1 500 Oh\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const REFUSED: &str = "HTTP/1.1 403 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

fn of(uri: Uri) -> Client {
    client_of(Config::new(uri), "conclave-test").expect("a client")
}

async fn ask(client: &Client) {
    let request = Asking::new("/api/v1/namespaces/shop/pods").get("till", &GetParams::default());
    let request = request.expect("a request").map(Body::from);
    drop(client.send(request).await);
}

#[tokio::test]
async fn the_api_server_sees_which_program_asks_in_which_version() {
    let (uri, answering) = answers_once(REFUSED).await;
    ask(&of(uri)).await;
    let head = answering.await.expect("a request").to_lowercase();
    let expected = format!("user-agent: conclave-test/{}\r\n", env!("CARGO_PKG_VERSION"));
    assert!(head.contains(&expected), "{head}");
}

#[tokio::test]
async fn a_request_that_fails_is_logged_once_with_what_it_was_and_the_time_that_is_left() {
    let log = Log::default();
    let _kept = log.keep("info");
    let (uri, _answering) = answers_once(BROKEN).await;
    let asked = within(Duration::from_secs(60), ask(&of(uri))).await;
    assert!(asked.is_ok());
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((&lines[0]["level"], &lines[0]["status"]), (&"ERROR".into(), &500.into()));
    assert_eq!(lines[0]["method"], "GET");
    assert_eq!(lines[0]["path"], "/api/v1/namespaces/shop/pods/till");
    let remaining = lines[0]["remaining_ms"].as_u64().expect("a deadline");
    assert!((1..=60_000).contains(&remaining), "{remaining}");
}

#[tokio::test]
async fn an_api_server_that_is_not_reached_is_logged_with_the_reason_and_without_a_deadline_there_is_none()
 {
    let log = Log::default();
    let _kept = log.keep("info");
    let (uri, answering) = answers_once(BROKEN).await;
    answering.abort();
    // The port is closed when the task is gone.
    assert!(answering.await.is_err());
    ask(&of(uri)).await;
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["path"], "/api/v1/namespaces/shop/pods/till");
    assert!(lines[0]["error"].as_str().expect("a reason").contains("onnect"), "{lines:?}");
    assert!(lines[0]["status"].is_null() && lines[0]["remaining_ms"].is_null(), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_never_answered_is_given_up() {
    let log = Log::default();
    let _kept = log.keep("info");
    let silent = tower::service_fn(|_| std::future::pending::<Result<Response<Body>, BoxError>>());
    let request = Request::get("/api/v1/pods").body(Body::empty()).expect("a request");
    let answer = timeout(Duration::from_mins(1), Reporting(silent).call(request)).await;
    let error = answer.expect("it is given up").expect_err("nobody answers").to_string();
    assert_eq!(error, "no answer within 30 s");
    let lines = log.lines();
    assert_eq!((lines.len(), &lines[0]["error"]), (1, &error.into()), "{lines:?}");
}

#[tokio::test]
async fn what_is_refused_is_no_failure() {
    let log = Log::default();
    let _kept = log.keep("info");
    let (uri, _answering) = answers_once(REFUSED).await;
    ask(&of(uri)).await;
    assert_eq!(log.lines(), Vec::<Value>::new());
}

#[test]
fn a_directive_of_the_user_beats_the_one_that_is_put_before_it() {
    let filter = filter("info,kube_client::client::builder=debug").parse::<Targets>();
    assert!(filter.expect("a filter").to_string().contains("kube_client::client::builder=debug"));
}
