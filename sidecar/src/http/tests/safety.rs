//! Whatever says how long something is safe states a deadline by this machine's clocks.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use conclave_protocols::LocalTime;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use tokio::task::JoinHandle;

use super::double::*;
use super::events::Events;
use crate::claims::{ClaimState, Held};
use crate::group::{Election, Request};
use crate::os_clock::OsClock;

/// As long as a lease is announced for in these tests.
const LEASE: Duration = Duration::from_millis(900);

fn now() -> LocalTime {
    OsClock::default().now()
}

fn monotonic() -> LocalTime {
    let time = clock_gettime(ClockId::Monotonic);
    let nanos = Duration::try_from(time).expect("it began at zero").as_nanos();
    LocalTime(u64::try_from(nanos).expect("centuries"))
}

/// Held until then.
pub(super) fn until(deadline: LocalTime) -> ClaimState {
    ClaimState::Held(Held { safe_until: deadline, ..hold() })
}

fn reading(body: &Value, field: &str) -> LocalTime {
    let text = body[field].as_str().unwrap_or_else(|| panic!("no text `{field}` in {body}"));
    LocalTime(text.parse().expect("a decimal number"))
}

/// What an answer or event states by both clocks is what the member was notified of: not later, and as
/// good as that for a client that reads it now.
fn tells(body: &Value, deadline: LocalTime) {
    assert_eq!(reading(body, "safe_until_boottime_ns"), deadline, "{body}");
    let left = now().until(deadline);
    let notified = monotonic().until(reading(body, "safe_until_monotonic_ns"));
    assert!(notified <= left, "{notified:?} by the one clock, {left:?} by the other");
    assert!(notified + Duration::from_millis(500) > left, "only {notified:?} of {left:?}");
    let shown = Duration::from_millis(body["safe_for_ms"].as_u64().expect("a number"));
    assert!(shown + Duration::from_millis(500) > left, "only {shown:?} of {left:?}");
}

#[tokio::test]
async fn a_grant_after_a_long_wait_tells_the_members_own_deadline() {
    let mut double = Double::new();
    let call = double.call("POST /v1/locks/orders?wait=30s", &[], "");
    let claim = double.accept(waiting()).await;
    // Longer than the lease is: counted from before the call, nothing would be left of it.
    tokio::time::sleep(LEASE + Duration::from_millis(300)).await;
    let deadline = now().after(LEASE);
    claim.send_modify(|claim| claim.state = until(deadline));
    let answer = soon(call).await.unwrap();
    assert_eq!(answer.status, StatusCode::CREATED);
    tells(&answer.json(), deadline);
}

#[tokio::test]
async fn every_answer_about_a_hold_tells_its_deadline() {
    let mut double = Double::new();
    let deadline = now().after(Duration::from_secs(10));
    for line in [
        "POST /v1/locks/orders",
        "PUT /v1/locks/orders/claims/1f-1",
        "GET /v1/locks/orders/claims/1f-1",
        "GET /v1/locks/orders/claims/1f-1?wait=20ms",
        "GET /v1/locks/orders/claims/1f-1/check",
        "POST /v1/locks/orders/claims/1f-1/renew",
    ] {
        let call = double.call(line, &[], "");
        let claim = claim(until(deadline));
        let (_claim, watch) = tokio::sync::watch::channel(claim.clone());
        match double.next().await {
            Request::Ask(_, reply) => {
                let asked = crate::group::Asked { created: true, claim: watch };
                reply.send(Ok(asked)).expect("the call waits");
            }
            Request::Find(_, _, reply) => reply.send(Ok(watch)).expect("the call waits"),
            Request::Renew(_, _, _, reply) => reply.send(Ok(claim)).expect("the call waits"),
            other @ (Request::Release(..)
            | Request::Locks(..)
            | Request::Claims(..)
            | Request::Election(..)
            | Request::Abandon(..)
            | Request::Drain) => panic!("{other:?}"),
        }
        let answer = soon(call).await.unwrap();
        assert!(answer.status.is_success(), "{line}: {answer:?}");
        let header = |name: &str| Value::from(answer.header(name).expect(name));
        let headers = serde_json::json!({
            "safe_for_ms": answer.header("conclave-safe-for-ms").and_then(|ms| ms.parse::<u64>().ok()),
            "safe_until_boottime_ns": header("conclave-safe-until-boottime-ns"),
            "safe_until_monotonic_ns": header("conclave-safe-until-monotonic-ns"),
        });
        tells(&headers, deadline);
        if answer.status != StatusCode::NO_CONTENT {
            tells(&answer.json(), deadline);
        }
    }
}

#[tokio::test]
async fn what_is_not_held_tells_no_deadline() {
    let mut double = Double::new();
    let call = double.call("GET /v1/locks/orders/claims/1f-1", &[], "");
    let _claim = double.find(Ok(claim(waiting()))).await;
    let waits = soon(call).await.unwrap();
    let follows = double.get("/v1/elections/default").await;
    for answer in [waits, follows] {
        assert!(!answer.text.contains("safe_"), "{answer:?}");
        let names = answer.headers.keys();
        assert!(names.into_iter().all(|name| !name.as_str().contains("safe")), "{answer:?}");
    }
}

#[tokio::test]
async fn every_answer_about_a_leader_tells_its_deadline() {
    let double = Double::new();
    let deadline = now().after(Duration::from_secs(10));
    double.election.send_replace(Election { safe_until: Some(deadline), ..leading() });
    for path in ["/v1/elections/default", "/v1/elections/default/self"] {
        tells(&double.get(path).await.json(), deadline);
    }
    tells(&double.get("/v1/elections").await.json()["elections"][0], deadline);
    let mut events = Events::open(double.router(), "GET /v1/elections/default").await;
    tells(&events.expect("elected").await, deadline);
}

/// Extends something by a lease every 30 ms, until it is aborted.
pub(super) fn extend(
    lease: Duration,
    move_on: impl Fn(LocalTime) + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            move_on(now().after(lease));
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    })
}

/// A stream sends a later deadline, again and again, while most of the one before is left.
async fn tells_in_time(events: &mut Events, first: &Value) {
    let mut notified = reading(first, "safe_until_boottime_ns");
    for _ in 0..4 {
        let next = events.expect("safe").await;
        // Two thirds, less what a busy machine takes.
        let left = now().until(notified);
        assert!(left > LEASE * 4 / 10, "only {left:?} of {LEASE:?} were left");
        let later = reading(&next, "safe_until_boottime_ns");
        assert!(later > notified, "{next}");
        tells(&next, later);
        assert!(later <= now().after(LEASE), "nobody was told {later:?}");
        notified = later;
    }
}

#[tokio::test]
async fn a_claims_stream_tells_a_later_deadline_every_third_of_the_lease() {
    let mut double = Double::new();
    let line = "POST /v1/locks/orders";
    let router = double.router();
    let call = tokio::spawn(async move { Events::open(router, line).await });
    let claim = Arc::new(double.accept(until(now().after(LEASE))).await);
    let mut events = call.await.unwrap();
    let first = events.expect("held").await;
    let held = Arc::clone(&claim);
    let extending = extend(LEASE, move |deadline| {
        held.send_modify(|claim| claim.state = until(deadline));
    });
    tells_in_time(&mut events, &first).await;
    extending.abort();
    // What it was extended to last is sent; then there is nothing to send but the end.
    let mut rest = vec![events.next().await.expect("the stream goes on").0];
    rest.extend(events.next().await.map(|(name, ..)| name));
    rest.retain(|name| name != "safe");
    assert_eq!(rest, ["lost"]);
}

#[tokio::test]
async fn an_elections_stream_tells_a_later_deadline_every_third_of_the_lease() {
    let double = Double::new();
    double.election.send_replace(Election { safe_until: Some(now().after(LEASE)), ..leading() });
    let mut events = Events::open(double.router(), "GET /v1/elections/default").await;
    let first = events.expect("elected").await;
    let extending = extend(LEASE, move |deadline| {
        double.election.send_modify(|election| election.safe_until = Some(deadline));
    });
    tells_in_time(&mut events, &first).await;
    extending.abort();
}

#[tokio::test]
async fn an_earlier_deadline_is_sent_at_once() {
    let mut double = Double::new();
    let router = double.router();
    let call =
        tokio::spawn(async move { Events::open(router, "GET /v1/locks/orders/claims/1f-1").await });
    let far = now().after(Duration::from_mins(10));
    let claim = double.find(Ok(claim(until(far)))).await.unwrap();
    let mut events = call.await.unwrap();
    tells(&events.expect("held").await, far);
    // As a renewal with a shorter `ttl` does.
    let near = now().after(Duration::from_secs(5));
    claim.send_modify(|claim| claim.state = until(near));
    tells(&events.expect("safe").await, near);
}
