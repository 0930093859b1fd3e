//! Waiting for the group clock.

use std::time::Duration;

use serde_json::Value;

use super::double::*;
use super::hanging_up::{connect, send};
use super::time::synchronise;

/// The earliest time that there may be now.
async fn earliest(double: &Double) -> i64 {
    number(&double.get("/v1/time").await.json(), "earliest_ns")
}

fn number(time: &Value, name: &str) -> i64 {
    time[name].as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{time}"))
}

#[tokio::test]
async fn a_moment_that_has_surely_passed_is_answered_at_once() {
    let double = Double::new();
    synchronise(&double);
    let until = earliest(&double).await;
    let answer = double.get(&format!("/v1/time/wait?until_ns={until}&timeout=0")).await;
    assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
    let time = answer.json();
    assert!(number(&time, "earliest_ns") > until, "{time}");
    assert_eq!((&time["group"], &time["status"]), (&"orders".into(), &"synchronized".into()));
    assert_eq!(answer.header("conclave-time-ns"), time["time_ns"].as_str());
    let waited = "conclave_clock_wait_seconds_count{group=\"orders\"} 1\n";
    assert!(double.metrics.scrape(&double.group).contains(waited));
}

#[tokio::test]
async fn a_moment_that_is_to_come_is_answered_after_it_and_soon() {
    let double = Double::new();
    synchronise(&double);
    let until = earliest(&double).await + 200_000_000;
    let began = std::time::Instant::now();
    let answer = double.get(&format!("/v1/time/wait?until_ns={until}&timeout=9s")).await;
    assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
    let time = answer.json();
    // Not before it has surely passed, and no more than a machine under load may be late.
    assert!(number(&time, "earliest_ns") > until, "{time}");
    assert!(number(&time, "earliest_ns") < until + 3_000_000_000, "{time}");
    assert!(began.elapsed() > Duration::from_millis(150));
}

#[tokio::test]
async fn a_wait_that_is_over_too_early_ends_in_vain() {
    let double = Double::new();
    synchronise(&double);
    for until in [earliest(&double).await + 3_600_000_000_000, i64::MAX] {
        for timeout in ["0", "50ms"] {
            let path = format!("/v1/time/wait?until_ns={until}&timeout={timeout}");
            let answer = double.get(&path).await;
            assert_eq!((answer.status.as_u16(), answer.problem()), (423, "wait-timeout".into()));
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
    }
    let waited = "conclave_clock_wait_seconds_count{group=\"orders\"} 0\n";
    assert!(double.metrics.scrape(&double.group).contains(waited));
}

#[tokio::test]
async fn a_clock_that_is_not_known_is_waited_for() {
    for query in ["timeout=forever", "timeout=9s&until_ns=-9223372036854775808"] {
        let double = Double::new();
        for timeout in ["0", "20ms"] {
            let query = query.replace("9s", timeout).replace("forever", timeout);
            let answer = double.get(&format!("/v1/time/wait?{query}")).await;
            assert_eq!((answer.status.as_u16(), answer.problem()), (503, "time-unknown".into()));
        }
        let call = double.call(&format!("GET /v1/time/wait?{query}"), &[], "");
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!call.is_finished(), "{query}");
        synchronise(&double);
        let answer = soon(call).await.expect("the call ends");
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["status"]),
            (200, &"synchronized".into())
        );
    }
}

/// No map says that a disruption ends.
#[tokio::test]
async fn the_end_of_a_disruption_is_waited_for() {
    let double = Double::new();
    synchronise(&double);
    let until = double.group.os_clock().raw().0 + 300_000_000;
    double.time.send_modify(|map| map.disrupted_until = until);
    assert_eq!(double.get("/v1/time").await.status.as_u16(), 503);
    let answer = double.get("/v1/time/wait?until_ns=1&timeout=forever").await;
    assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
    assert!(double.group.os_clock().raw().0 >= until);
}

#[tokio::test]
async fn a_closer_bound_is_waited_for_too() {
    let double = Double::new();
    synchronise(&double);
    let close = "/v1/time/wait?timeout=20ms&max_error=";
    assert_eq!(double.get(&format!("{close}1s")).await.status.as_u16(), 200);
    assert_eq!(double.get(&format!("{close}1ms")).await.problem(), "time-unknown");
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let double = Double::new();
    synchronise(&double);
    for (query, field) in [
        ("", "timeout"),
        ("until_ns=1", "timeout"),
        ("timeout=5", "timeout"),
        ("timeout=never", "timeout"),
        ("timeout=1s&until_ns=", "until_ns"),
        ("timeout=1s&until_ns=9223372036854775808", "until_ns"),
        ("timeout=1s&until_ns=1.5", "until_ns"),
        ("timeout=1s&max_error=x", "max_error"),
        ("timeout=1s&wait=1s", "wait"),
        ("timeout=1s&timeout=1s", "timeout"),
    ] {
        let answer = double.get(&format!("/v1/time/wait?{query}")).await;
        assert_eq!((answer.status.as_u16(), answer.problem()), (400, "invalid".into()), "{query}");
        assert_eq!(answer.json()["field"], field, "{query}");
    }
}

#[tokio::test]
async fn a_shell_that_waits_gets_one_line() {
    let double = Double::new();
    synchronise(&double);
    let line = "GET /v1/time/wait?timeout=1s";
    let answer = double.call(line, &["Accept: text/plain"], "").await.expect("the call ends");
    assert!(answer.text.starts_with("status=synchronized time_ns="), "{}", answer.text);
}

#[tokio::test]
async fn the_end_of_the_group_ends_the_wait() {
    let mut double = Double::new();
    let call = double.call("GET /v1/time/wait?timeout=forever", &[], "");
    tokio::task::yield_now().await;
    let (time, _) = tokio::sync::watch::channel(*double.time.borrow());
    drop(std::mem::replace(&mut double.time, time));
    assert_eq!(soon(call).await.expect("the call ends").problem(), "terminating");
}

#[tokio::test]
async fn hanging_up_ends_the_wait_for_the_clock() {
    let mut double = Double::new();
    double.limits.long_calls = 1;
    let (mut stream, _shutdown) = connect(&double).await;
    let address = stream.peer_addr().expect("it is connected");
    send(&mut stream, "GET /v1/time/wait?timeout=forever", "").await;
    // Another cannot wait meanwhile, and then can.
    await_status(address, "429").await;
    drop(stream);
    await_status(address, "503").await;
}

/// Waits until a wait of a moment is answered so.
async fn await_status(address: std::net::SocketAddr, status: &str) {
    let begins = format!("HTTP/1.1 {status} ");
    soon(async {
        loop {
            let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
            send(&mut stream, "GET /v1/time/wait?timeout=1ms", "").await;
            let line = super::hanging_up::read_until(&mut stream, "HTTP/1.1 ").await;
            if line.starts_with(&begins) {
                return;
            }
        }
    })
    .await;
}
