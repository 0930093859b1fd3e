//! Two thousand clients at once, over real connections.

use futures::future::join_all;
use tokio::net::{TcpStream, UnixStream};
use tokio_util::sync::CancellationToken;

use super::double::*;
use super::hanging_up::{connect, read_until, send};
use crate::descriptors;
use crate::http::{Listeners, serve};

const CLIENTS: usize = 2_000;

/// A client that asks, is answered, and keeps its connection.
async fn client(address: std::net::SocketAddr) -> TcpStream {
    let mut stream = soon(TcpStream::connect(address)).await.expect("it listens");
    send(&mut stream, "GET /v1/status", "").await;
    assert_eq!(read_until(&mut stream, "HTTP").await, "HTTP/1.1 200 OK");
    stream
}

#[tokio::test]
async fn two_thousand_connections_are_answered_and_keep_nobody_else_out() {
    descriptors::allow_enough();
    let double = Double::new();
    let (first, _shutdown) = connect(&double).await;
    let address = first.peer_addr().unwrap();
    let idle = join_all((0..CLIENTS).map(|_| client(address))).await;
    assert_eq!(idle.len(), CLIENTS);
    client(address).await;
}

#[tokio::test]
async fn two_thousand_calls_that_wait_leave_room_for_others() {
    descriptors::allow_enough();
    let double = Double::new();
    let (first, _shutdown) = connect(&double).await;
    let address = first.peer_addr().unwrap();
    let waiting = (0..CLIENTS).map(|_| async move {
        let mut stream = soon(TcpStream::connect(address)).await.expect("it listens");
        send(&mut stream, "GET /v1/elections/default", "Accept: text/event-stream\r\n").await;
        assert_eq!(read_until(&mut stream, "HTTP").await, "HTTP/1.1 200 OK");
        stream
    });
    let waiting = join_all(waiting).await;
    assert_eq!(waiting.len(), CLIENTS);
    client(address).await;
}

/// The kernel answers for them until they are accepted. A client that it has no room for tries again after a second.
#[tokio::test]
async fn those_that_come_before_they_are_accepted_are_kept() {
    descriptors::allow_enough();
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").expect("Linux");
    let room = CLIENTS.min(most.trim().parse().expect("a number"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conclave.sock");
    let listeners = Listeners::on_loopback(0).unwrap().and_unix(&path).unwrap();
    let address = listeners.addresses()[0];
    let (mut early, mut local) = (Vec::new(), Vec::new());
    for _ in 0..room {
        early.push(soon(TcpStream::connect(address)).await.expect("there is room"));
        local.push(soon(UnixStream::connect(&path)).await.expect("there is room"));
    }
    drop(local);
    let double = Double::new();
    let (group, metrics, limits) = (double.group.clone(), double.metrics.clone(), double.limits);
    tokio::spawn(serve(
        listeners,
        group,
        double.clocks.clone(),
        metrics,
        limits,
        CancellationToken::new(),
    ));
    let answered = early.iter_mut().map(|stream| async move {
        send(stream, "GET /v1/status", "").await;
        read_until(stream, "HTTP").await
    });
    let answers = join_all(answered).await;
    assert!(answers.iter().all(|answer| answer == "HTTP/1.1 200 OK"), "{answers:?}");
}
