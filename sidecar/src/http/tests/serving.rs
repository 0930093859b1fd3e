//! Connections, their limits, and their end.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_util::sync::CancellationToken;

use super::double::*;
use super::hanging_up::{connect, read_until, send};
use crate::http::{Listeners, serve};

/// What is still to come.
pub(super) async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end too.
    let _ = soon(stream.read_to_end(&mut bytes)).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn both_loopback_addresses_and_a_unix_socket_are_served() {
    let double = Double::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conclave.sock");
    let bind = || Listeners::on_loopback(0).unwrap().and_unix(&path).unwrap();
    drop(bind()); // An earlier process leaves its socket behind.
    let listeners = bind();
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o666);
    let addresses = listeners.addresses();
    assert!(addresses.iter().all(|address| address.ip().is_loopback()));
    let (group, metrics, limits) = (double.group.clone(), double.metrics.clone(), double.limits);
    tokio::spawn(serve(
        listeners,
        group,
        double.clocks.clone(),
        metrics,
        limits,
        CancellationToken::new(),
    ));

    for address in addresses {
        let mut stream = TcpStream::connect(address).await.unwrap();
        send(&mut stream, "GET /v1/status", "").await;
        assert_eq!(read_until(&mut stream, "HTTP").await, "HTTP/1.1 200 OK");
    }
    let mut stream = UnixStream::connect(&path).await.unwrap();
    // Any host will do here, but still no page.
    for (head, status) in [
        ("", "200 OK"),
        ("Host: conclave\r\n", "200 OK"),
        ("Origin: http://localhost\r\n", "403 Forbidden"),
    ] {
        let request = format!("GET /v1/status HTTP/1.1\r\n{head}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = vec![0; 4096];
        let read = soon(stream.read(&mut bytes)).await.unwrap();
        let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{text}");
    }
}

/// Else a client would find the one process or the other, by the address that it takes.
#[tokio::test]
async fn a_port_that_another_process_has_at_one_loopback_address_is_an_error() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = Listeners::on_loopback(port).unwrap_err();
    assert_eq!(error.address, taken.local_addr().unwrap());
    assert_eq!(error.source.kind(), std::io::ErrorKind::AddrInUse);
}

#[tokio::test]
async fn over_tcp_a_host_is_needed_from_http_1_1_on() {
    let double = Double::new();
    for (version, status) in [("1.1", "403 Forbidden"), ("1.0", "200 OK")] {
        let (mut stream, _shutdown) = connect(&double).await;
        let request = format!("GET /v1/status HTTP/{version}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(read_until(&mut stream, "HTTP").await, format!("HTTP/{version} {status}"));
    }
}

#[tokio::test]
async fn too_many_or_too_large_headers_are_431() {
    let double = Double::new();
    let many = "x: 1\r\n".repeat(64);
    let large = format!("x: {}\r\n", "x".repeat(17 * 1024));
    for headers in [many, large] {
        let (mut stream, _shutdown) = connect(&double).await;
        send(&mut stream, "GET /v1/status", &headers).await;
        let status = read_until(&mut stream, "HTTP").await;
        assert_eq!(status, "HTTP/1.1 431 Request Header Fields Too Large");
    }
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let mut double = Double::new();
    double.limits.head_time = Duration::from_millis(100);
    for beginning in ["", "GET /v1/status HTTP/1.1\r\nHost: loc"] {
        let (mut stream, _shutdown) = connect(&double).await;
        stream.write_all(beginning.as_bytes()).await.unwrap();
        let end = rest(&mut stream).await;
        assert!(!end.contains("200"), "{end}");
    }
}

#[tokio::test]
async fn a_body_that_comes_slowly_is_408() {
    let mut double = Double::new();
    double.limits.body_time = Duration::from_millis(100);
    let (mut stream, _shutdown) = connect(&double).await;
    let headers = "Content-Type: application/json\r\nContent-Length: 20\r\n";
    send(&mut stream, "POST /v1/locks/orders", headers).await;
    stream.write_all(b"{\"wait\":").await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout"), "{answer}");
    assert!(answer.contains("https://conclave.dev/problems/request-timeout"), "{answer}");
}

#[tokio::test]
async fn further_connections_wait_for_one_to_end() {
    let mut double = Double::new();
    double.limits.connections = 1;
    let (mut first, _shutdown) = connect(&double).await;
    send(&mut first, "GET /v1/elections/default", "Accept: text/event-stream\r\n").await;
    read_until(&mut first, "event: leader").await;

    let mut second = TcpStream::connect(first.peer_addr().unwrap()).await.unwrap();
    send(&mut second, "GET /v1/status", "").await;
    let mut byte = [0];
    let answered = tokio::time::timeout(Duration::from_millis(200), second.read(&mut byte)).await;
    assert!(answered.is_err(), "it is not served yet");
    drop(first);
    assert_eq!(read_until(&mut second, "HTTP").await, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn at_shutdown_requests_may_end_and_nothing_new_begins() {
    let mut double = Double::new();
    let (mut stream, shutdown) = connect(&double).await;
    let address = stream.peer_addr().unwrap();
    send(&mut stream, "POST /v1/locks/orders?wait=30s", "").await;
    let claim = double.accept(waiting()).await;
    shutdown.cancel();
    claim.send_modify(|claim| {
        claim.state = crate::claims::ClaimState::Refused(crate::claims::Refusal::Terminated);
    });
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("https://conclave.dev/problems/terminating"), "{answer}");
    let refused = soon(async {
        loop {
            match TcpStream::connect(address).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        }
    });
    assert_eq!(refused.await.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_stream_does_not_hold_up_the_shutdown() {
    let mut double = Double::new();
    double.limits.end_time = Duration::from_millis(50);
    let (mut stream, shutdown) = connect(&double).await;
    send(&mut stream, "GET /v1/elections/default", "Accept: text/event-stream\r\n").await;
    read_until(&mut stream, "event: leader").await;
    shutdown.cancel();
    rest(&mut stream).await;
}
