//! Streams that broke, and what their clients missed.

use std::time::Duration;

use axum::Router;
use serde_json::Value;
use tower::ServiceExt;

use super::double::*;
use super::events::Events;
use crate::group::Election;

/// Opens the stream as a client that read the event of that id last.
async fn again(router: &Router, id: &str) -> Events {
    let id = format!("Last-Event-ID: {id}");
    let headers = ["Accept: text/event-stream", &id];
    let request = request("GET /v1/elections/default", &headers, "");
    let response = soon(router.clone().oneshot(request)).await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    Events::of(response.into_body().into_data_stream())
}

/// The election stands so from now on, and that is noticed.
async fn change(double: &Double, election: Election) {
    double.election.send_replace(election);
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// A router whose election somebody listened to, when it had the index 311.
async fn heard(double: &Double) -> Router {
    let router = double.router();
    Events::open(router.clone(), "GET /v1/elections/default").await.expect("leader").await;
    router
}

fn is_now(event: &Value) -> bool {
    event.get("past").is_none() && event.get("missed").is_none()
}

#[tokio::test]
async fn a_client_hears_of_what_it_missed_and_then_of_the_present() {
    let double = Double::new();
    let router = heard(&double).await;
    change(&double, leading()).await;
    change(&double, Election { index: 313, ..following() }).await;
    change(&double, Election { index: 314, ..leading() }).await;

    let mut events = again(&router, "311").await;
    for name in ["elected", "lost", "leader", "elected"] {
        let event = events.expect(name).await;
        assert_eq!((&event["past"], &event["is_leader"]), (&true.into(), &false.into()));
        assert!(event.get("safe_until_boottime_ns").is_none(), "{event}");
    }
    let event = events.expect("elected").await;
    assert!(is_now(&event) && event["is_leader"] == true, "{event}");

    let mut events = again(&router, "313").await;
    assert_eq!(events.expect("elected").await["past"], true);
    assert!(is_now(&events.expect("elected").await));
    double.election.send_replace(Election { index: 315, ..following() });
    assert!(is_now(&events.expect("lost").await));
}

#[tokio::test]
async fn a_client_that_missed_nothing_is_sent_the_present_alone() {
    let double = Double::new();
    let router = heard(&double).await;
    change(&double, leading()).await;
    for id in ["312", ""] {
        let event = again(&router, id).await.expect("elected").await;
        assert!(is_now(&event) && event["is_leader"] == true, "{event}");
    }
}

#[tokio::test]
async fn a_client_of_which_nothing_is_known_is_notified_that_it_may_have_missed_something() {
    let double = Double::new();
    let router = heard(&double).await;
    change(&double, leading()).await;
    for id in ["310", "313", "-1", "+312", "now", "9999999999999999999999", "3 12"] {
        let mut events = again(&router, id).await;
        let event = events.expect("elected").await;
        assert_eq!((&event["missed"], &event["is_leader"]), (&true.into(), &true.into()), "{id}");
        assert!(event.get("past").is_none());
        drop(events);
    }
    // What is too long ago is forgotten.
    for index in 313..480 {
        change(&double, Election { index, ..if index % 2 == 0 { leading() } else { following() } })
            .await;
    }
    assert_eq!(again(&router, "400").await.expect("leader").await["missed"], true);
    let mut events = again(&router, "478").await;
    assert_eq!(events.expect("lost").await["past"], true);
    assert_eq!(events.expect("leader").await["past"], true);
    assert!(is_now(&events.expect("leader").await));
}

/// Two events have one index then, and nobody knows which of them the client has read.
#[tokio::test]
async fn a_client_whose_lead_was_over_by_its_deadline_alone_is_notified_that_it_may_have_missed_it()
{
    let double = Double::new();
    let router = heard(&double).await;
    let safe_until = Some(double.group.os_clock().now().after(Duration::from_millis(50)));
    change(&double, Election { safe_until, ..leading() }).await;
    let mut events = Events::open(router.clone(), "GET /v1/elections/default").await;
    events.expect("elected").await;
    events.expect("lost").await;
    drop(events);
    assert_eq!(again(&router, "312").await.expect("no-leader").await["missed"], true);
    // Also when older events are forgotten at that moment.
    for index in 313..480 {
        change(&double, Election { index, ..if index % 2 == 0 { leading() } else { following() } })
            .await;
    }
    let safe_until = Some(double.group.os_clock().now().after(Duration::from_millis(50)));
    change(&double, Election { safe_until, index: 480, ..leading() }).await;
    let mut events = Events::open(router.clone(), "GET /v1/elections/default").await;
    events.expect("elected").await;
    events.expect("lost").await;
    drop(events);
    assert_eq!(again(&router, "480").await.expect("no-leader").await["missed"], true);
}

#[tokio::test]
async fn the_past_of_an_election_that_is_there_again_is_not_that_of_the_one_before() {
    let double = Double::new();
    let router = double.router();
    let name = || "reports".to_owned();
    let list = |index| {
        let election = Election { name: name(), index, ..following() };
        let (sender, election) = tokio::sync::watch::channel(election);
        double.named.send_replace([(name(), election)].into());
        sender
    };
    let open = async |id: &str| {
        let id = format!("Last-Event-ID: {id}");
        let request = request("GET /v1/elections/reports", &["Accept: text/event-stream", &id], "");
        let response = soon(router.clone().oneshot(request)).await.unwrap();
        Events::of(response.into_body().into_data_stream()).expect("leader").await
    };
    let first = list(5);
    assert_eq!(open("4").await["missed"], true);
    assert!(is_now(&open("5").await));
    drop(first);
    let _second = list(9);
    assert_eq!(open("5").await["missed"], true);
}
