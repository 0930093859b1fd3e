//! Elections.

use conclave_protocols::LocalTime;
use serde_json::json;

use super::double::*;
use crate::group::{Election, Leadership};

#[tokio::test]
async fn an_election_shows_who_leads() {
    let double = Double::new();
    let answer = double.get("/v1/elections/default").await;
    assert_eq!(answer.status.as_u16(), 200);
    let mut election = answer.json();
    assert!(election["leader"]["since_ms"].as_u64().is_some_and(|ms| ms < 60_000));
    election["leader"]["since_ms"] = json!(0);
    let expected = json!({
        "election": "default", "algorithm": "Bully", "arbiter": "Quorum", "guarantee": "safe",
        "epoch": 12, "index": 311, "is_leader": false, "state": "following",
        "leader": {"pod": "shop-1", "uid": "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01",
            "ip": "10.1.2.3", "since_ms": 0},
        "candidates": 2, "transitions": 4, "last_election": {"messages": 7, "duration_ms": 38}
    });
    assert_eq!(election, expected);
    assert_eq!(double.get("/v1/elections").await.json()["elections"][0]["election"], "default");
}

#[tokio::test]
async fn self_is_200_only_while_this_member_surely_leads() {
    let double = Double::new();
    let now = double.group.os_clock().now();
    let cases = [
        (following(), 503, "following"),
        (leading(), 200, "leading"),
        (Election { safe_until: Some(now), ..leading() }, 503, "isolated"),
        (Election { safe_until: None, ..leading() }, 503, "isolated"),
        (Election { leadership: Leadership::HandingOver, ..leading() }, 503, "handing-over"),
        (
            Election { leadership: Leadership::Electing, leader: None, ..following() },
            503,
            "electing",
        ),
        (
            Election { leadership: Leadership::Isolated, leader: None, ..following() },
            503,
            "isolated",
        ),
    ];
    for (election, status, state) in cases {
        double.election.send_replace(election);
        let answer = double.get("/v1/elections/default/self").await;
        assert_eq!(answer.status.as_u16(), status, "{state}");
        let body = answer.json();
        assert_eq!((&body["is_leader"], &body["state"]), (&(status == 200).into(), &state.into()));
        assert_eq!(body.get("safe_for_ms").is_some(), status == 200);
        let leads_itself = body["leader"]["pod"] == "shop-0";
        assert_eq!(leads_itself, status == 200 || state == "handing-over", "{body}");
    }
}

#[tokio::test]
async fn a_long_poll_answers_when_another_leads() {
    let double = Double::new();
    let call = double.call("GET /v1/elections/default?wait=1m&index=311", &[], "");
    tokio::task::yield_now().await;
    double.election.send_replace(leading());
    assert_eq!(soon(call).await.unwrap().json()["is_leader"], true);
}

#[tokio::test]
async fn an_application_that_learned_that_this_member_leads_is_waited_for() {
    let double = Double::new();
    let notified = || *double.group.believers.watch().borrow();
    double.get("/v1/elections/default/self").await;
    assert_eq!(notified().until, LocalTime(0), "it follows");
    double.election.send_replace(leading());
    let until = double.election.borrow().safe_until.expect("it leads");
    for path in ["/v1/elections", "/v1/elections/default", "/v1/elections/default/self"] {
        double.get(path).await;
        assert_eq!((notified().until, notified().streams), (until, 0), "{path}");
    }
}

#[tokio::test]
async fn there_is_no_election_of_another_name() {
    let double = Double::new();
    for path in ["/v1/elections/other", "/v1/elections/other/self"] {
        let answer = double.get(path).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (404, "not-found"));
    }
}
