//! The group and this member.

use std::time::Duration;

use serde_json::json;

use super::double::*;
use crate::group::Election;
use crate::os_clock::OsClock;

#[tokio::test]
async fn members_are_those_of_the_view() {
    let double = Double::new();
    let answer = double.get("/v1/members").await;
    let members = answer.json();
    assert_eq!((&members["epoch"], &members["index"]), (&json!(12), &json!(9)));
    assert_eq!(members["members"].as_array().map(Vec::len), Some(2));
    let expected = json!({
        "pod": "shop-1", "uid": "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01", "run": 7,
        "addresses": ["10.1.2.3:7071"], "rank": 1, "leader": true, "me": false, "connected": true,
        "suspected": true
    });
    assert_eq!(members["members"][1], expected);
}

#[tokio::test]
async fn status_always_answers() {
    let double = Double::new();
    let ready = double.get("/v1/status").await.json();
    assert_eq!((&ready["ready"], &ready["missing"]), (&json!(true), &json!(null)));
    assert_eq!(
        (&ready["leader"], &ready["outage_survived_ms"]),
        (&json!("shop-1"), &json!(47_000))
    );

    let call = double.call("GET /v1/status?wait=1m&index=9", &[], "");
    double.status.send_modify(|status| {
        status.missing = Some("the Lease conclave-orders".to_owned());
        status.members.clear();
        status.index += 1;
    });
    double.election.send_replace(isolated());
    let answer = soon(call).await.unwrap();
    assert_eq!(answer.status.as_u16(), 200);
    let missing = answer.json();
    assert_eq!(missing["missing"], "the Lease conclave-orders");
    assert_eq!((&missing["ready"], &missing["leader"]), (&json!(false), &json!(null)));
}

#[tokio::test]
async fn status_and_members_name_whom_the_election_names() {
    let double = Double::new();
    double.status.send_modify(|status| status.grants = None);
    let now = double.group.os_clock().now();
    let run_out = Election { safe_until: Some(now), ..leading() };
    for (election, leader) in
        [(following(), json!("shop-1")), (isolated(), json!(null)), (run_out, json!(null))]
    {
        double.election.send_replace(election);
        let shown = double.get("/v1/elections/default").await.json();
        let status = double.get("/v1/status").await.json();
        let members = double.get("/v1/members").await.json();
        let leaders = members["members"].as_array().into_iter().flatten();
        let leaders = leaders.filter(|member| member["leader"] == true).count();
        let named = shown["leader"].get("pod").cloned().unwrap_or_default();
        assert_eq!((&named, &status["leader"]), (&leader, &leader));
        assert_eq!((leaders > 0, &status["ready"]), (!leader.is_null(), &(leaders > 0).into()));
        assert_eq!(status["missing"].is_null(), leaders > 0, "{status}");
    }
}

#[tokio::test]
async fn status_says_for_how_long_nothing_is_granted() {
    let double = Double::new();
    assert_eq!(double.get("/v1/status").await.json()["grace_ms"], json!(null));
    let until = OsClock::default().now().after(Duration::from_secs(7));
    double.status.send_modify(|status| status.grace_until = Some(until));
    let grace = double.get("/v1/status").await.json()["grace_ms"].as_u64().unwrap();
    assert!((6_000..=7_000).contains(&grace), "{grace} ms");
}

#[tokio::test]
async fn requests_are_counted_by_route_and_not_by_path() {
    let mut double = Double::new();
    let call = double.call("POST /v1/locks/some-secret-name", &[], "");
    let _claim = double.accept(held()).await;
    call.await.unwrap();
    double.get("/nowhere").await;
    double.call("BREW /v1/locks/some-secret-name", &[], "").await.unwrap();

    let text = double.metrics.scrape(&double.group);
    for line in [
        r#"conclave_http_requests_total{code="201",method="POST",route="/v1/locks/{name}",group="orders"} 1"#,
        r#"conclave_http_requests_total{code="404",method="GET",route="unmatched",group="orders"} 1"#,
        r#"conclave_http_requests_total{code="405",method="other",route="/v1/locks/{name}",group="orders"} 1"#,
    ] {
        assert!(text.lines().any(|one| one == line), "{line}\n{text}");
    }
    assert!(!text.contains("some-secret-name") && !text.contains("nowhere"));
}
