//! Long polls and streams.

use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use tower::ServiceExt;

use super::double::*;
use super::events::Events;
use crate::claims::{Claim, ClaimError, ClaimState, Held, LostReason, Refusal};
use crate::group::{Asked, Request};

fn change(claim: &mut Claim, state: ClaimState) {
    claim.state = state;
    claim.index += 1;
}

#[tokio::test]
async fn a_long_poll_answers_when_the_index_changes() {
    let mut double = Double::new();
    for query in ["?wait=1m&index=1", "?wait=1m"] {
        let call = double.call(&format!("GET /v1/locks/orders/claims/1f-1{query}"), &[], "");
        let claim = double.find(Ok(claim(waiting()))).await.unwrap();
        // Renewals are no change.
        claim.send_modify(|_| {});
        tokio::task::yield_now().await;
        assert!(!call.is_finished());
        claim.send_modify(|claim| change(claim, held()));
        let answer = soon(call).await.unwrap();
        assert_eq!((&answer.json()["state"], &answer.json()["index"]), (&"held".into(), &2.into()));
    }
}

#[tokio::test]
async fn a_long_poll_that_has_not_seen_the_present_state_answers_at_once() {
    let mut double = Double::new();
    let call = double.call("GET /v1/locks/orders/claims/1f-1?wait=1m&index=0", &[], "");
    let _claim = double.find(Ok(claim(waiting()))).await;
    assert_eq!(soon(call).await.unwrap().json()["index"], 1);
}

#[tokio::test]
async fn a_long_poll_ends_when_its_wait_is_over() {
    let mut double = Double::new();
    let began = std::time::Instant::now();
    let call = double.call("GET /v1/locks/orders/claims/1f-1?wait=50ms&index=1", &[], "");
    let _claim = double.find(Ok(claim(waiting()))).await;
    assert_eq!(soon(call).await.unwrap().status.as_u16(), 200);
    assert!(began.elapsed() >= Duration::from_millis(50));
}

#[tokio::test]
async fn a_long_poll_answers_when_the_hold_runs_out() {
    let mut double = Double::new();
    let call = double.call("GET /v1/locks/orders/claims/1f-1?wait=1m&index=1", &[], "");
    let safe_until = double.group.os_clock().now().after(Duration::from_millis(50));
    let short = ClaimState::Held(Held { safe_until, ..hold() });
    let _claim = double.find(Ok(claim(short))).await;
    assert_eq!(soon(call).await.unwrap().problem(), "lost");
}

#[tokio::test]
async fn a_stream_begins_with_the_present_state_and_tells_every_change() {
    let mut double = Double::new();
    let router = double.router();
    let request = request(
        "GET /v1/locks/orders/claims/1f-1",
        &["Accept: application/json;q=0.5, text/event-stream"],
        "",
    );
    let call = tokio::spawn(router.oneshot(request));
    let claim = double.find(Ok(claim(waiting()))).await.unwrap();
    let body = call.await.unwrap().unwrap().into_body().into_data_stream();
    let mut events = Events::of(body);

    assert_eq!(events.expect("waiting").await["holders"][0]["pod"], "shop-1");
    claim.send_modify(|claim| change(claim, held()));
    assert!(events.expect("held").await["token"].is_u64());
    claim.send_modify(|claim| {
        change(claim, ClaimState::Held(Held { contended: true, ..hold() }));
    });
    assert_eq!(events.expect("contended").await["contended"], true);
    let in_doubt = || Held { jeopardy: true, contended: true, ..hold() };
    claim.send_modify(|claim| change(claim, ClaimState::Held(in_doubt())));
    assert_eq!(events.expect("jeopardy").await["jeopardy"], true);
    claim.send_modify(|claim| {
        change(claim, ClaimState::Held(Held { jeopardy: false, ..in_doubt() }));
    });
    assert_eq!(events.expect("safe").await["state"], "held");
    claim.send_modify(|claim| change(claim, ClaimState::Lost(LostReason::LeaseExpired)));
    assert_eq!(events.expect("lost").await["reason"], "lease-expired");
    assert_eq!(events.next().await, None, "nothing comes after the end");
}

#[tokio::test]
async fn two_changes_between_two_reads_are_both_sent() {
    let moment = crate::os_clock::OsClock::default().moment();
    let before = crate::http::claim_view::ClaimView::at(&claim(held()), moment);
    let both = ClaimState::Held(Held { jeopardy: true, contended: true, ..hold() });
    let now = crate::http::claim_view::ClaimView::at(&claim(both), moment);
    assert_eq!(now.hold_events(Some(&before)), ["contended", "jeopardy"]);
    assert_eq!(now.hold_events(None), ["jeopardy"]);
}

fn double_now() -> conclave_protocols::LocalTime {
    crate::os_clock::OsClock::default().now()
}

#[tokio::test]
async fn a_stream_says_lost_when_the_hold_runs_out_unrenewed() {
    let mut double = Double::new();
    let router = double.router();
    let request = request("GET /v1/locks/orders/claims/1f-1", &["Accept: text/event-stream"], "");
    let call = tokio::spawn(router.oneshot(request));
    let safe_until = double_now().after(Duration::from_millis(300));
    let short = ClaimState::Held(Held { safe_until, ..hold() });
    let claim = double.find(Ok(claim(short))).await.unwrap();
    let body = call.await.unwrap().unwrap().into_body().into_data_stream();
    let mut events = Events::of(body);

    events.expect("held").await;
    claim.send_modify(|claim| {
        let safe_until = double_now().after(Duration::from_millis(600));
        claim.state = ClaimState::Held(Held { safe_until, ends_by: LostReason::MaxHold, ..hold() });
    });
    events.expect("safe").await;
    assert_eq!(events.expect("lost").await["reason"], "max-hold", "what ends it last");
    assert!(safe_until < double_now());
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_streamed_claim_that_only_tries_is_refused_by_its_status() {
    let mut double = Double::new();
    let call = double.call("POST /v1/locks/orders", &["Accept: text/event-stream"], "");
    let refused = ClaimState::Refused(Refusal::Held { holder: None });
    let _claim = double.accept(refused).await;
    assert_eq!(call.await.unwrap().problem(), "held");
}

#[tokio::test]
async fn a_streamed_claim_that_waits_is_refused_by_an_event() {
    let mut double = Double::new();
    let router = double.router();
    let line = "POST /v1/locks/orders?wait=30s";
    let call = tokio::spawn(router.oneshot(request(line, &["Accept: text/event-stream"], "")));
    let claim = double.accept(waiting()).await;
    let response = call.await.unwrap().unwrap();
    assert_eq!(response.headers()["location"], "/v1/locks/orders/claims/1f-1");
    let mut events = Events::of(response.into_body().into_data_stream());
    events.expect("waiting").await;
    let refusal = Refusal::WaitTimeout { holder: None };
    claim.send_modify(|claim| change(claim, ClaimState::Refused(refusal)));
    assert_eq!(events.expect("refused").await["reason"], "wait-timeout");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_silent_stream_is_kept_alive() {
    let mut double = Double::new();
    assert_eq!(double.limits.keep_alive, Duration::from_secs(10));
    double.limits.keep_alive = Duration::from_millis(20);
    let mut events = Events::open(double.router(), "GET /v1/elections/default").await;
    events.expect("leader").await;
    let chunk = soon(events.body.next()).await.unwrap().unwrap();
    assert_eq!(&chunk[..], b": keep-alive\n\n");
}

#[tokio::test]
async fn an_election_streams_who_leads_and_whether_it_is_this_member() {
    let double = Double::new();
    let mut events = Events::open(double.router(), "GET /v1/elections/default").await;
    assert_eq!(events.expect("leader").await["leader"]["pod"], "shop-1");
    double.election.send_replace(crate::group::Election {
        leader: None,
        index: 312,
        ..following()
    });
    assert_eq!(events.expect("no-leader").await["leader"], Value::Null);
    double.election.send_replace(crate::group::Election { index: 313, ..leading() });
    assert_eq!(events.expect("elected").await["is_leader"], true);
    double.election.send_replace(crate::group::Election { index: 314, ..following() });
    events.expect("lost").await;
    assert_eq!(events.expect("leader").await["leader"]["pod"], "shop-1");
}

#[tokio::test]
async fn a_view_change_in_which_the_leader_stays_is_an_event_of_its_own() {
    use crate::group::Election;
    let double = Double::new();
    double.election.send_replace(leading());
    let mut events = Events::open(double.router(), "GET /v1/elections/default").await;
    events.expect("elected").await;
    let epoch = conclave_protocols::Epoch(16);
    double.election.send_replace(Election { epoch, index: 313, ..leading() });
    let next = events.expect("epoch").await;
    assert_eq!((&next["is_leader"], &next["epoch"]), (&true.into(), &16.into()));
    double.election.send_replace(Election { epoch, index: 314, ..following() });
    events.expect("lost").await;
    events.expect("leader").await;
    let epoch = conclave_protocols::Epoch(20);
    double.election.send_replace(Election { epoch, index: 315, ..following() });
    assert_eq!(events.expect("epoch").await["leader"]["pod"], "shop-1");
}

#[tokio::test]
async fn an_application_that_leads_in_a_pod_that_ends_is_notified_once() {
    use crate::group::{CandidacyState, Election, Leadership};
    let double = Double::new();
    let candidacy = CandidacyState::Stands;
    double.election.send_replace(Election { candidacy, ..leading() });
    let open = || Events::open(double.router(), "GET /v1/elections/default");
    let mut events = open().await;
    assert_eq!(events.expect("elected").await["candidacy"], "stands");
    let candidacy = CandidacyState::Terminating;
    let ends = Election { candidacy, index: 313, ..leading() };
    double.election.send_replace(ends.clone());
    let data = events.expect("terminating").await;
    assert_eq!((&data["state"], &data["is_leader"]), (&"leading".into(), &true.into()));
    let mut late = open().await;
    late.expect("terminating").await;
    let leadership = Leadership::HandingOver;
    double.election.send_replace(Election { leadership, index: 314, ..ends.clone() });
    events.expect("handing-over").await;
    let mut later = open().await;
    later.expect("terminating").await;
    later.expect("handing-over").await;
    // One that does not lead has nothing to stop.
    double.election.send_replace(Election { candidacy, index: 315, ..following() });
    events.expect("lost").await;
    events.expect("leader").await;
}

#[tokio::test]
async fn a_stream_is_waited_for_until_it_has_sent_the_end() {
    use crate::group::{Election, Leadership};
    let double = Double::new();
    let notified = || *double.group.believers.watch().borrow();
    let lead = leading();
    let until = lead.safe_until.expect("it leads");
    double.election.send_replace(lead);
    let mut events = Events::open(double.router(), "GET /v1/elections/default").await;
    events.expect("elected").await;
    let mut hangs_up = Events::open(double.router(), "GET /v1/elections/default").await;
    hangs_up.expect("elected").await;
    assert_eq!(notified().streams, 2);
    let ends = Election { leadership: Leadership::HandingOver, safe_until: None, ..leading() };
    double.election.send_replace(Election { index: 314, ..ends });
    events.expect("lost").await;
    assert_eq!(notified().streams, 2, "what comes after it is not written yet");
    events.expect("handing-over").await;
    let more = tokio::time::timeout(Duration::from_millis(1), events.next()).await;
    assert!(more.is_err(), "there is no more to say");
    assert_eq!(notified().streams, 1);
    assert!(notified().until < until, "it has read the end");
    drop(hangs_up);
    assert_eq!((notified().streams, notified().until), (0, until), "it never read the end");
}

#[tokio::test]
async fn a_leader_learns_from_its_clock_that_its_lease_has_run_out() {
    let double = Double::new();
    let safe_until = Some(double_now().after(Duration::from_millis(100)));
    double.election.send_replace(crate::group::Election { safe_until, ..leading() });
    let mut events = Events::open(double.router(), "GET /v1/elections/default").await;
    events.expect("elected").await;
    assert_eq!(events.expect("lost").await["state"], "isolated");
    events.expect("no-leader").await;
}

#[tokio::test]
async fn calls_that_wait_leave_connections_for_those_that_do_not() {
    let mut double = Double::new();
    double.limits.long_calls = 1;
    let router = double.router();
    let stream = request("GET /v1/elections/default", &["Accept: text/event-stream"], "");
    let first = router.clone().oneshot(stream).await.unwrap();

    let wait = request("GET /v1/status?wait=1m", &[], "");
    let refused = router.clone().oneshot(wait).await.unwrap();
    assert_eq!(refused.status().as_u16(), 429);
    let short = router.clone().oneshot(request("GET /v1/status", &[], "")).await.unwrap();
    assert_eq!(short.status().as_u16(), 200);

    drop(first);
    let wait = request("GET /v1/status?wait=1m&index=0", &[], "");
    assert_eq!(router.oneshot(wait).await.unwrap().status().as_u16(), 200);
}

/// Else its name would be used up, or it would hold.
#[tokio::test]
async fn a_claim_that_may_not_wait_is_turned_away_before_it_is_made() {
    let mut double = Double::new();
    double.limits.long_calls = 0;
    let named = "PUT /v1/locks/orders/claims/run-17?wait=30s";
    for (line, header, is_looked_for) in [
        (named, "Accept: text/event-stream", false),
        (named, "Accept: */*", true),
        ("POST /v1/locks/orders", "Accept: */*", false),
    ] {
        let call = double.call(line, &[header], "");
        if is_looked_for {
            let Request::Find(_, _, reply) = double.next().await else { panic!("{line}") };
            reply.send(Err(ClaimError::NotFound)).expect("the call waits");
        }
        let answer = soon(call).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (429, "queue-full"));
        assert!(double.requests.try_recv().is_err(), "the group was asked: {line}, {header}");
    }
}

/// Its caller may not have heard that it holds.
#[tokio::test]
async fn a_claim_that_is_there_is_shown_however_many_wait() {
    let mut double = Double::new();
    double.limits.long_calls = 0;
    let call = double.call("PUT /v1/locks/orders/claims/run-17?wait=30s", &[], "");
    let (_claim, seen) = tokio::sync::watch::channel(claim(held()));
    let Request::Find(_, _, reply) = double.next().await else { panic!("nobody looked") };
    reply.send(Ok(seen.clone())).expect("the call waits");
    let Request::Ask(_, reply) = double.next().await else { panic!("nobody asked") };
    reply.send(Ok(Asked { created: false, claim: seen })).expect("the call waits");
    assert_eq!(soon(call).await.unwrap().status.as_u16(), 200);
}
