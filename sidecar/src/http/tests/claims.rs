//! What each outcome of a claim looks like.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::json;

use super::double::*;
use crate::claims::*;
use crate::group::Request;
use crate::os_clock::OsClock;

#[tokio::test]
async fn a_post_that_is_granted_says_all_about_the_grant() {
    let mut double = Double::new();
    let call = double.call("POST /v1/locks/orders", &[], "");
    let _claim = double.accept(held()).await;
    let answer = call.await.unwrap();

    assert_eq!(answer.status, StatusCode::CREATED);
    let token = 12 * 1_048_576 + 1;
    let grant = answer.json();
    let safe_for_ms = grant["safe_for_ms"].as_u64().unwrap();
    assert!((5_000..10_000).contains(&safe_for_ms), "{grant}");
    let left = grant["max_hold_left_ms"].as_u64().unwrap();
    assert!((590_000..=600_000).contains(&left), "{grant}");
    let expected = json!({
        "lock": "orders", "claim": "1f-1", "state": "held", "token": token, "epoch": 12,
        "guarantee": "safe", "arbiter": "Quorum", "algorithm": "Central",
        "safe_for_ms": safe_for_ms,
        "safe_until_boottime_ns": grant["safe_until_boottime_ns"],
        "safe_until_monotonic_ns": grant["safe_until_monotonic_ns"], "held_ms": grant["held_ms"], "jeopardy": false,
        "contended": false, "waited_ms": 41, "max_hold_ms": 600_000, "max_hold_left_ms": grant["max_hold_left_ms"], "index": 1, "owner": "shop-0",
        "metadata": {"job": "reindex"}, "cost": {"messages": 2}
    });
    assert_eq!(grant, expected);
    assert_eq!(answer.header("location"), Some("/v1/locks/orders/claims/1f-1"));
    assert_eq!(answer.header("conclave-fencing-token"), Some(token.to_string().as_str()));
    assert_eq!(answer.header("etag"), Some(format!("\"{token}\"").as_str()));
    assert_eq!(answer.header("conclave-epoch"), Some("12"));
    assert_eq!(answer.header("conclave-safe-for-ms"), Some(safe_for_ms.to_string().as_str()));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn without_an_arbiter_a_grant_is_advisory_and_has_no_token() {
    let mut double = Double::new();
    let call = double.call("POST /v1/locks/orders", &[], "");
    let (_, reply) = double.next_ask().await;
    let mut grant = claim(ClaimState::Held(Held { token: None, ..hold() }));
    grant.arbiter = conclave_protocols::policy::Arbiter::None;
    let (_sender, claim) = tokio::sync::watch::channel(grant);
    reply.send(Ok(crate::group::Asked { created: true, claim })).unwrap();

    let answer = call.await.unwrap();
    let grant = answer.json();
    assert_eq!((grant["guarantee"].as_str(), grant.get("token")), (Some("advisory"), None));
    assert_eq!(answer.header("conclave-fencing-token"), None);
}

#[tokio::test]
async fn body_and_query_say_the_same() {
    let mut double = Double::new();
    let body = r#"{"wait":"1m30s","ttl":"15s","max_hold":"10m","owner":"w","metadata":{"a":1}}"#;
    let call = double.call("POST /v1/locks/a%2Fb", &[], body);
    let (ask, _) = double.next_ask().await;
    call.abort();
    let expected = Ask {
        lock: conclave_protocols::LockName::try_from("a/b".to_owned()).unwrap(),
        claim: None,
        wait: Wait::For(Duration::from_secs(90)),
        ttl: Some(Duration::from_secs(15)),
        max_hold: Some(Duration::from_mins(10)),
        owner: Some("w".to_owned()),
        metadata: Some(r#"{"a":1}"#.to_owned().into()),
    };
    assert_eq!(ask, expected);

    let call = double.call("PUT /v1/locks/a/claims/mine?wait=forever&ttl=15s&owner=w%20x", &[], "");
    let (ask, _) = double.next_ask().await;
    call.abort();
    assert_eq!(ask.claim.as_ref().map(ClaimId::as_str), Some("mine"));
    assert_eq!((ask.wait, ask.ttl), (Wait::Forever, Some(Duration::from_secs(15))));
    assert_eq!((ask.owner.as_deref(), ask.max_hold), (Some("w x"), None));
}

#[tokio::test]
async fn without_a_wait_it_tries_once() {
    let mut double = Double::new();
    let call = double.call("POST /v1/locks/a", &[], "");
    let (ask, _) = double.next_ask().await;
    call.abort();
    assert_eq!((ask.wait, ask.ttl), (Wait::For(Duration::ZERO), None));
}

#[tokio::test]
async fn a_refusal_names_the_holders() {
    let mut double = Double::new();
    let held = || Refusal::Held { holder: Some(holder()) };
    let timeout = || Refusal::WaitTimeout { holder: None };
    for (refusal, kind) in [(held(), "held"), (timeout(), "wait-timeout")] {
        let call = double.call("POST /v1/locks/orders?wait=1s", &[], "");
        let claim = double.accept(waiting()).await;
        claim.send_modify(|claim| {
            claim.settled = Some(claim.asked.after(Duration::from_secs(1)));
            claim.state = ClaimState::Refused(refusal);
        });
        let answer = call.await.unwrap();
        assert_eq!((answer.status, answer.problem().as_str()), (StatusCode::LOCKED, kind));
        let problem = answer.json();
        assert_eq!(problem["waited_ms"], 1_000);
        assert_eq!((&problem["lock"], &problem["claim"]), (&json!("orders"), &json!("1f-1")));
        let holders = match kind {
            "held" => json!([{"owner": "worker-3", "pod": "shop-1", "token": 11 * 1_048_576 + 1,
                "held_ms": 4210, "metadata": {"job": "reindex"}}]),
            _ => json!([]),
        };
        assert_eq!(problem["holders"], holders);
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
}

#[tokio::test]
async fn what_the_group_refuses_has_a_status_of_its_own() {
    let mut double = Double::new();
    let ended = |state| AskError::Ended(Box::new(claim(state)));
    let cases = [
        (AskError::NotAllowed, 403, "not-allowed"),
        (AskError::Differs, 412, "claim-differs"),
        (ended(ClaimState::Released), 410, "released"),
        (ended(ClaimState::Lost(LostReason::TtlExpired)), 410, "lost"),
        (ended(ClaimState::Refused(Refusal::NoQuorum)), 409, "claim-reused"),
        (AskError::Full { what: "waiters", limit: 1_000 }, 429, "queue-full"),
        (AskError::NotReady("no Lease".to_owned()), 503, "not-ready"),
        (AskError::Closed, 503, "terminating"),
    ];
    for (error, status, kind) in cases {
        let call = double.call("PUT /v1/locks/orders/claims/mine", &[], "");
        let (_, reply) = double.next_ask().await;
        reply.send(Err(error)).unwrap();
        let answer = call.await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (status, kind));
    }
}

#[tokio::test]
async fn nobody_heard_of_and_the_end_of_the_sidecar_are_503() {
    let mut double = Double::new();
    for (refusal, kind) in [(Refusal::NoQuorum, "no-quorum"), (Refusal::Terminated, "terminating")]
    {
        let call = double.call("POST /v1/locks/orders", &[], "");
        let _claim = double.accept(ClaimState::Refused(refusal)).await;
        let answer = call.await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (503, kind));
    }
}

#[tokio::test]
async fn a_claim_refused_in_the_grace_period_says_when_to_try_again() {
    let mut double = Double::new();
    let call = double.call("POST /v1/locks/orders", &[], "");
    let until = OsClock::default().now().after(Duration::from_millis(6_300));
    let _claim = double.accept(ClaimState::Refused(Refusal::GracePeriod { until })).await;
    let answer = call.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (503, "grace-period"));
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((6..=7).contains(&seconds), "{seconds} s");
}

#[tokio::test]
async fn a_hold_whose_time_is_over_is_lost_whatever_the_group_says() {
    let mut double = Double::new();
    let call = double.call("POST /v1/locks/orders", &[], "");
    let _claim = double.accept(overdue()).await;
    let answer = call.await.unwrap();
    assert_eq!((answer.status, answer.problem().as_str()), (StatusCode::GONE, "lost"));
    assert_eq!(answer.json()["reason"], "lease-expired");
    assert_eq!(double.next_release().await.1.as_str(), "1f-1");
}

#[tokio::test]
async fn respond_async_answers_202_and_the_claim_goes_on() {
    let mut double = Double::new();
    let call = double.call("POST /v1/locks/orders?wait=30s", &["Prefer: respond-async"], "");
    let claim = double.accept(waiting()).await;
    let answer = call.await.unwrap();
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    assert_eq!(answer.header("location"), Some("/v1/locks/orders/claims/1f-1"));
    let waiting = answer.json();
    assert_eq!(waiting["state"], "waiting");
    assert_eq!(waiting["holders"][0]["owner"], "worker-3");
    claim.send_replace(super::double::claim(held()));
    assert!(double.requests.try_recv().is_err(), "nothing was given up");
}

/// What may be held is counted from the grant, whatever the application renews.
#[tokio::test]
async fn a_hold_says_what_is_left_of_the_longest_that_it_may_last() {
    let mut double = Double::new();
    let now = OsClock::default().now();
    let since = conclave_protocols::LocalTime(now.0 - 60_000_000_000);
    let mut long = claim(ClaimState::Held(Held { since, ..hold() }));
    (long.ttl, long.max_hold) = (Some(Duration::from_secs(15)), Duration::from_secs(90));
    let call = double.call("POST /v1/locks/orders/claims/1f-1/renew?ttl=15s", &[], "");
    let Request::Renew(_, _, _, reply) = double.next().await else { panic!("not renewed") };
    reply.send(Ok(long.clone())).unwrap();
    let renewed = call.await.unwrap().json();
    assert_eq!(renewed["max_hold_ms"], 90_000);
    let left = renewed["max_hold_left_ms"].as_u64().unwrap();
    assert!((20_000..=30_000).contains(&left), "{renewed}");

    long.state = waiting();
    let call = double.call("GET /v1/locks/orders/claims/1f-1", &[], "");
    let _claim = double.find(Ok(long)).await;
    let waits = call.await.unwrap().json();
    assert_eq!((&waits["max_hold_ms"], waits.get("max_hold_left_ms")), (&json!(90_000), None));
}

#[tokio::test]
async fn a_claim_of_another_member_is_neither_lost_nor_unheard_of() {
    let mut double = Double::new();
    let made = |run| {
        let pod = conclave_protocols::PodUid(9);
        ClaimError::OfAnother(conclave_protocols::Incarnation { pod, run }.into())
    };
    for (run, pod) in [(7, json!("shop-1")), (8, json!(null))] {
        for line in ["GET /v1/locks/a/claims/b", "GET /v1/locks/a/claims/b/check"] {
            let call = double.call(line, &[], "");
            double.find(Err(made(run))).await;
            let answer = call.await.unwrap();
            assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (404, "other-member"));
            let problem = answer.json();
            assert_eq!(problem["pod"], pod);
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("ask there"), "{detail}");
            assert_eq!(detail.contains("shop-1"), pod == "shop-1", "{detail}");
        }
        for line in ["POST /v1/locks/a/claims/b/renew", "DELETE /v1/locks/a/claims/b"] {
            let call = double.call(line, &[], "");
            double.change(Err(made(run))).await;
            assert_eq!(call.await.unwrap().problem(), "other-member");
        }
    }
    let call = double.call("GET /v1/locks/a/claims/mine", &[], "");
    double.find(Err(ClaimError::NotFound)).await;
    let detail = call.await.unwrap().json()["detail"].to_string();
    assert!(detail.contains("known to the member that was asked"), "{detail}");
}

#[tokio::test]
async fn a_repeated_put_returns_what_there_is() {
    let mut double = Double::new();
    for (state, status) in [(waiting(), 202), (held(), 200)] {
        let call = double.call("PUT /v1/locks/orders/claims/1f-1?wait=30s", &[], "");
        let (_, reply) = double.next_ask().await;
        let (_sender, claim) = tokio::sync::watch::channel(claim(state));
        reply.send(Ok(crate::group::Asked { created: false, claim })).unwrap();
        assert_eq!(call.await.unwrap().status.as_u16(), status);
    }
    assert!(double.requests.try_recv().is_err(), "nothing was given up");
}

#[tokio::test]
async fn a_get_answers_what_the_claim_has_come_to() {
    let mut double = Double::new();
    let cases = [
        (Ok(claim(waiting())), 200, None),
        (Ok(claim(held())), 200, None),
        (Ok(claim(overdue())), 410, Some("lost")),
        (Ok(claim(ClaimState::Lost(LostReason::MaxHold))), 410, Some("lost")),
        (Ok(claim(ClaimState::Released)), 410, Some("released")),
        (Ok(claim(ClaimState::Refused(Refusal::Held { holder: None }))), 423, Some("held")),
        (Err(ClaimError::NotFound), 404, Some("not-found")),
        (Err(ClaimError::Restarted), 410, Some("lost")),
        (Err(ClaimError::Closed), 503, Some("terminating")),
    ];
    for (found, status, kind) in cases {
        let call = double.call("GET /v1/locks/orders/claims/1f-1", &[], "");
        let _claim = double.find(found).await;
        let answer = call.await.unwrap();
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(kind.map(|_| answer.problem()).as_deref(), kind);
    }
}

#[tokio::test]
async fn check_says_by_its_status_whether_the_claim_holds() {
    let mut double = Double::new();
    let cases = [
        (Ok(claim(held())), 204),
        (Ok(claim(waiting())), 409),
        (Ok(claim(overdue())), 410),
        (Ok(claim(ClaimState::Lost(LostReason::ViewChange))), 410),
        (Ok(claim(ClaimState::Released)), 410),
        (Err(ClaimError::NotFound), 404),
    ];
    for (found, status) in cases {
        let call = double.call("GET /v1/locks/orders/claims/1f-1/check", &[], "");
        let _claim = double.find(found).await;
        let answer = call.await.unwrap();
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(answer.header("conclave-fencing-token").is_some(), status == 204);
        assert_eq!(answer.header("conclave-safe-for-ms").is_some(), status == 204);
    }
}

#[tokio::test]
async fn a_renewal_answers_the_new_time_or_that_the_claim_is_lost() {
    let mut double = Double::new();
    let ended = |state| Err(ClaimError::Ended(Box::new(claim(state))));
    let cases = [
        (Ok(claim(held())), 200),
        (Ok(claim(overdue())), 410),
        (ended(ClaimState::Lost(LostReason::TtlExpired)), 410),
        (ended(ClaimState::Released), 410),
        (Err(ClaimError::Waiting), 409),
        (Err(ClaimError::NotFound), 404),
    ];
    for (renewed, status) in cases {
        let call = double.call("POST /v1/locks/orders/claims/1f-1/renew", &[], r#"{"ttl":"3s"}"#);
        let Request::Renew(_, _, ttl, reply) = double.next().await else { panic!("not renewed") };
        assert_eq!(ttl, Some(Duration::from_secs(3)));
        reply.send(renewed).unwrap();
        assert_eq!(call.await.unwrap().status.as_u16(), status);
    }
}

#[tokio::test]
async fn a_release_is_204_unless_the_claim_was_lost() {
    let mut double = Double::new();
    let ended = |state| Err(ClaimError::Ended(Box::new(claim(state))));
    let cases = [
        (Ok(()), 204),
        (ended(ClaimState::Refused(Refusal::WaitTimeout { holder: None })), 204),
        (ended(ClaimState::Lost(LostReason::LeaseExpired)), 410),
        (Err(ClaimError::NotFound), 404),
        (Err(ClaimError::Restarted), 410),
        (Err(ClaimError::Closed), 503),
    ];
    for (released, status) in cases {
        let call = double.call("DELETE /v1/locks/orders/claims/1f-1", &[], "");
        let Request::Release(_, claim, reply) = double.next().await else { panic!("not released") };
        assert_eq!(claim.as_str(), "1f-1");
        reply.send(released).unwrap();
        assert_eq!(call.await.unwrap().status.as_u16(), status);
    }
}

#[tokio::test]
async fn before_there_is_a_group_calls_say_what_is_missing() {
    let mut double = Double::new();
    double.status.send_modify(|status| status.missing = Some("the Lease conclave-orders".into()));
    let answer = double.call("POST /v1/locks/orders", &[], "").await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (503, "not-ready"));
    assert_eq!(answer.json()["detail"], "the Lease conclave-orders");

    // A claim that was made before is still there to be given back.
    let call = double.call("DELETE /v1/locks/orders/claims/1f-1", &[], "");
    let Request::Release(_, _, reply) = double.next().await else { panic!("not released") };
    reply.send(Ok(())).unwrap();
    assert_eq!(call.await.unwrap().status.as_u16(), 204);

    let call = double.call("GET /v1/locks/orders/claims/1f-1", &[], "");
    double.find(Err(ClaimError::NotFound)).await;
    assert_eq!(call.await.unwrap().problem(), "not-ready");
}

#[tokio::test]
async fn the_end_of_the_group_task_is_an_answer_too() {
    let mut double = Double::new();
    let call = double.call("POST /v1/locks/orders?wait=30s", &[], "");
    drop(double.accept(waiting()).await);
    assert_eq!(call.await.unwrap().problem(), "terminating");
}
