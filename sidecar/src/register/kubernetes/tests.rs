//! Reads of a Lease that an API server answers.

use std::convert::Infallible;

use axum::http::Response;
use conclave_protocols::policy::{Policy, Timing};
use conclave_protocols::register::CallId;
use serde_json::{Value as Json, json};

use super::*;
use crate::http::tests::double::Double;

const GROUP: &str = "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01";

/// The register of a group, of which every read is answered so.
fn register(status: u16, lease: Json, metrics: &Metrics) -> KubernetesRegister {
    let service = tower::service_fn(move |_| {
        let answer = Response::builder().status(status);
        let answer = answer.body(Body::from(lease.to_string().into_bytes()));
        std::future::ready(Ok::<_, Infallible>(answer.expect("an answer")))
    });
    let group = GROUP.parse().expect("a UID");
    let client = Client::new(service, "shop");
    KubernetesRegister::new(client, "shop", "orders", group, Epoch(1), metrics.clone())
}

fn lease(annotations: &Json) -> Json {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": "conclave-orders", "namespace": "shop", "resourceVersion": "12",
            "annotations": annotations,
        },
    })
}

/// A view.
fn record() -> String {
    let record = json!({
        "version": 1, "epoch": 90, "ceiling": 105, "leader": null, "settled": true,
        "closing": false, "baseUnknown": false, "nonce": 3, "members": [],
        "timing": Timing::default(), "longestLeaderLease": Timing::default().leader_lease,
        "policy": Policy::default(),
    });
    record.to_string()
}

/// A member that confirmed the view of another group by its register would lead or hold for longer than that waits.
#[tokio::test]
async fn a_member_reads_the_register_of_its_own_group_alone() {
    let metrics = Metrics::new("orders");
    let read = async |annotations: Json| register(200, lease(&annotations), &metrics).read().await;
    let own = json!({ GROUP_UID_ANNOTATION: GROUP, RECORD_ANNOTATION: record() });
    let value = read(own).await.expect("its own");
    assert_eq!(value.record.map(|record| record.epoch), Some(Epoch(90)));
    let other = "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c02";
    for text in [record(), "{".to_owned()] {
        let others = json!({ GROUP_UID_ANNOTATION: other, RECORD_ANNOTATION: text });
        assert!(matches!(read(others).await, Err(CallError::Foreign)));
    }
    let without = json!({ RECORD_ANNOTATION: record() });
    assert!(matches!(read(without).await, Err(CallError::Foreign)));
}

/// What becomes of a call that is answered so, after the Lease was read, and how it is counted.
async fn counted(call: Message, status: u16, body: Json) -> (Message, String) {
    let metrics = Metrics::new("orders");
    let (answers, mut answered) = mpsc::channel(1);
    let register = register(status, body, &metrics);
    let read = serde_json::from_value(lease(&json!({}))).expect("a Lease");
    register.last.send_replace(Some(read));
    register.call(call, answers);
    let answer = answered.recv().await.expect("an answer");
    let text = metrics.scrape(&Double::new().group);
    let counted = text
        .lines()
        .find(|line| line.starts_with("conclave_arbiter_requests_total{") && line.ends_with(" 1"));
    (answer, counted.expect("it is counted").to_owned())
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_counted_apart_from_an_api_server_that_does_not_answer() {
    let damaged = lease(&json!({ GROUP_UID_ANNOTATION: GROUP, RECORD_ANNOTATION: "{" }));
    for (status, lease, outcome) in [
        (200, damaged, "unreadable"),
        (200, lease(&json!({ GROUP_UID_ANNOTATION: GROUP })), "unreadable"),
        (503, json!({}), "error"),
    ] {
        let (answer, counted) = counted(Message::Read(CallId(1)), status, lease).await;
        assert!(matches!(answer, Message::Unknown(_)), "{answer:?}");
        assert!(counted.contains(&format!("outcome=\"{outcome}\",verb=\"read\"")), "{counted}");
    }
}

/// A write that the API server will not have is none that somebody else was faster with: a writer that took it for that would read,
/// find the same version, and write again, as fast as the API server answers.
#[tokio::test]
async fn a_write_that_is_refused_is_no_conflict() {
    let record: Box<Record> = serde_json::from_str(&record()).expect("a record");
    for (status, outcome) in [
        (200, "success"),
        (409, "conflict"),
        (403, "refused"),
        (413, "refused"),
        (422, "refused"),
        (408, "unknown"),
        (429, "unknown"),
        (503, "unknown"),
    ] {
        let (id, version) = (CallId(1), Version("12".to_owned()));
        let write = Message::Write { id, version: version.clone(), record: record.clone() };
        let body = if status == 200 { lease(&json!({})) } else { json!({ "message": "no" }) };
        let (answer, counted) = counted(write, status, body).await;
        assert!(counted.contains(&format!("outcome=\"{outcome}\",verb=\"write\"")), "{counted}");
        let expected = match outcome {
            "success" => Message::Written { id, version },
            "conflict" => Message::Conflict(id),
            "refused" => Message::Declined(id),
            _ => Message::Unknown(id),
        };
        assert_eq!(answer, expected, "{status}");
    }
}

#[test]
fn the_log_has_the_beginning_of_what_the_api_server_states() {
    let logged = |message: &str| {
        let body = json!({ "kind": "Status", "status": "Failure", "message": message });
        CallError::refused(422, body.to_string().as_bytes()).to_string()
    };
    let text = logged("metadata.annotations: Too long");
    assert_eq!(text, "the API server answered 422: metadata.annotations: Too long");
    assert!(logged(&"ü".repeat(300_000)).len() < 1_000);
    assert_eq!(CallError::refused(502, b"<html>").to_string(), "the API server answered 502: ");
}
