//! Callers that go away, over real connections.

use conclave_protocols::LockName;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::double::*;
use crate::claims::{Ask, Claim, Wait};
use crate::group::{ElectionRequest, Keepalive, Request, Stood};
use crate::http::{Listeners, hold, serve};

/// Serves the double's API on a port of its own, and connects to it.
pub(super) async fn connect(double: &Double) -> (TcpStream, CancellationToken) {
    let listeners = Listeners::on_loopback(0).expect("a loopback");
    let address = listeners.addresses()[0];
    let shutdown = CancellationToken::new();
    let (group, metrics, limits) = (double.group.clone(), double.metrics.clone(), double.limits);
    tokio::spawn(serve(listeners, group, double.clocks.clone(), metrics, limits, shutdown.clone()));
    (TcpStream::connect(address).await.expect("it listens"), shutdown)
}

pub(super) async fn send(stream: &mut TcpStream, line: &str, headers: &str) {
    let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.expect("it reads");
}

/// Reads until a line that begins so.
pub(super) async fn read_until(stream: &mut TcpStream, beginning: &str) -> String {
    let mut lines = BufReader::new(stream).lines();
    loop {
        let line = soon(lines.next_line()).await.expect("it writes").expect("it goes on");
        if line.starts_with(beginning) {
            return line;
        }
    }
}

#[tokio::test]
async fn hanging_up_while_waiting_gives_the_claim_up() {
    let mut double = Double::new();
    let (mut stream, _shutdown) = connect(&double).await;
    send(&mut stream, "POST /v1/locks/orders?wait=forever", "").await;
    let _claim = double.accept(waiting()).await;
    drop(stream);
    let (lock, claim) = double.next_release().await;
    assert_eq!((lock.as_str(), claim.as_str()), ("orders", "1f-1"));
}

#[tokio::test]
async fn a_candidacy_by_a_stream_ends_with_it_whether_or_not_it_was_answered() {
    for answered in [true, false] {
        let mut double = Double::new();
        let (mut stream, _shutdown) = connect(&double).await;
        let line = "PUT /v1/elections/reports/candidacy?priority=2";
        send(&mut stream, line, "Accept: text/event-stream\r\n").await;
        let (_, ElectionRequest::Stand(stands, reply)) = double.next_about_election().await else {
            panic!("another")
        };
        let Keepalive::Connection(connection) = stands.keepalive else { panic!("another") };
        let (_election, seen) = watch::channel(leading());
        if answered {
            assert!(reply.send(Ok(Stood { created: true, election: seen })).is_ok());
            read_until(&mut stream, "event: elected").await;
        }
        drop(stream);
        let (election, ElectionRequest::HungUp(by)) = double.next_about_election().await else {
            panic!("another")
        };
        assert!(election == "reports" && by.is(&connection), "answered: {answered}");
    }
}

#[tokio::test]
async fn hanging_up_before_the_group_has_answered_gives_the_claim_up() {
    let mut double = Double::new();
    let (mut stream, _shutdown) = connect(&double).await;
    send(&mut stream, "POST /v1/locks/orders?wait=forever", "").await;
    let (_, mut reply) = double.next_ask().await;
    drop(stream);
    // Then the group gives the claim up, because nobody hears its answer.
    soon(reply.closed()).await;
}

#[tokio::test]
async fn hanging_up_at_the_moment_of_the_answer_gives_the_claim_up() {
    let mut double = Double::new();
    let api = double.api();
    let lock = LockName::try_from("orders".to_owned()).expect("a good name");
    let (wait, max_hold) = (Wait::Forever, None);
    let ask = Ask { lock, claim: None, owner: None, metadata: None, wait, ttl: None, max_hold };
    let mut asking = Box::pin(hold::ask(api, ask, hold::OnHangUp::Release));
    let _sender = tokio::select! {
        biased;
        _ = asking.as_mut() => panic!("it is not answered yet"),
        sender = grant(&mut double) => sender,
    };
    drop(asking);
    assert_eq!(double.next_release().await.1.as_str(), "1f-1");
}

async fn grant(double: &mut Double) -> watch::Sender<Claim> {
    let (_, reply) = double.next_ask().await;
    let (sender, claim) = watch::channel(claim(held()));
    reply.send(Ok(crate::group::Asked { created: true, claim })).expect("somebody asks");
    sender
}

/// Found by reading: a stream of a named claim whose caller hung up just then left it held until its `max_hold`.
#[tokio::test]
async fn what_a_stream_is_granted_at_the_moment_it_ends_is_given_back_also_if_it_is_named() {
    let streams: &[&str] = &["Accept: text/event-stream", "Content-Length: 0"];
    for (headers, gives_back) in [(streams, true), (&streams[1..], false)] {
        let mut double = Double::new();
        let router = double.router();
        let put = request("PUT /v1/locks/orders/claims/mine?wait=forever", headers, "");
        let mut call = Box::pin(router.oneshot(put));
        let _sender = tokio::select! {
            biased;
            _ = call.as_mut() => panic!("it is not answered yet"),
            sender = grant(&mut double) => sender,
        };
        drop(call);
        let request = double.next().await;
        assert_eq!(matches!(request, Request::Release(..)), gives_back, "{request:?}");
        assert_eq!(matches!(request, Request::Abandon(..)), !gives_back, "{request:?}");
    }
}

#[tokio::test]
async fn hanging_up_the_wait_of_a_named_claim_gives_up_the_wait_alone() {
    let mut double = Double::new();
    let (mut stream, _shutdown) = connect(&double).await;
    send(&mut stream, "PUT /v1/locks/orders/claims/mine?wait=forever", "Content-Length: 0\r\n")
        .await;
    let _claim = double.accept(waiting()).await;
    drop(stream);
    let request = double.next().await;
    let Request::Abandon(lock, claim) = request else { panic!("not abandoned: {request:?}") };
    assert_eq!((lock.as_str(), claim.as_str()), ("orders", "mine"));
}

#[tokio::test]
async fn a_grant_that_was_delivered_outlives_its_connection() {
    let mut double = Double::new();
    let (mut stream, _shutdown) = connect(&double).await;
    send(&mut stream, "POST /v1/locks/orders", "Connection: close\r\n").await;
    let _claim = double.accept(held()).await;
    let mut text = String::new();
    soon(stream.read_to_string(&mut text)).await.expect("an answer");
    assert!(text.starts_with("HTTP/1.1 201 Created\r\n"), "{text}");
    assert!(text.contains(r#""state":"held""#), "{text}");
    drop(stream);
    // Whatever the connection leaves behind has been dropped when another request is through.
    let probe = double.call("DELETE /v1/locks/orders/claims/probe", &[], "");
    assert_eq!(double.next_release().await.1.as_str(), "probe");
    probe.abort();
}

#[tokio::test]
async fn a_grant_whose_answer_nobody_takes_is_given_back() {
    let mut double = Double::new();
    let router = double.router();
    let request = request("POST /v1/locks/orders", &[], "");
    let call = tokio::spawn(router.oneshot(request));
    let _claim = double.accept(held()).await;
    let response = call.await.unwrap().unwrap();
    assert_eq!(response.status().as_u16(), 201);
    drop(response);
    assert_eq!(double.next_release().await.1.as_str(), "1f-1");
}

#[tokio::test]
async fn a_streamed_claim_is_held_until_its_stream_ends() {
    let mut double = Double::new();
    let (mut stream, _shutdown) = connect(&double).await;
    let accept = "Accept: text/event-stream\r\n";
    send(&mut stream, "POST /v1/locks/orders?wait=forever", accept).await;
    let claim = double.accept(waiting()).await;
    read_until(&mut stream, "event: waiting").await;
    claim.send_modify(|claim| {
        claim.state = held();
        claim.index += 1;
    });
    read_until(&mut stream, "event: held").await;
    assert!(double.requests.try_recv().is_err(), "it is still held");
    drop(stream);
    assert_eq!(double.next_release().await.1.as_str(), "1f-1");
}
