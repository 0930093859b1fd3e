//! Reads of a Lease that an API server answers.

use std::convert::Infallible;

use axum::http::Response;
use conclave_protocols::register::CallId;
use serde_json::{Value as Json, json};

use super::*;
use crate::http::tests::double::Double;

const OWNER: &str = "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01";

/// What becomes of a read of the Lease of a group that had a view, and how it is counted.
async fn read(status: u16, lease: Json) -> (Message, String) {
    let service = tower::service_fn(move |_| {
        let answer = Response::builder().status(status);
        let answer = answer.body(Body::from(lease.to_string().into_bytes()));
        std::future::ready(Ok::<_, Infallible>(answer.expect("an answer")))
    });
    let (client, metrics) = (Client::new(service, "shop"), Metrics::new("orders"));
    let owner = OWNER.parse().expect("a UID");
    let register =
        KubernetesRegister::new(client, "shop", "orders", owner, Epoch(1), metrics.clone());
    let (answers, mut answered) = mpsc::channel(1);
    register.call(Message::Read(CallId(1)), answers);
    let answer = answered.recv().await.expect("an answer");
    let text = metrics.scrape(&Double::new().group);
    let counted = text
        .lines()
        .find(|line| line.starts_with("conclave_arbiter_requests_total{") && line.ends_with(" 1"));
    (answer, counted.expect("it is counted").to_owned())
}

fn lease(annotations: &Json) -> Json {
    json!({
        "metadata": {
            "name": "conclave-orders", "namespace": "shop", "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "conclave.dev/v1alpha1", "kind": "Conclave", "name": "orders",
                "uid": OWNER,
            }],
        },
    })
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_counted_apart_from_an_api_server_that_does_not_answer() {
    let damaged = lease(&json!({ RECORD_ANNOTATION: "{" }));
    for (status, lease, outcome) in [
        (200, damaged, "unreadable"),
        (200, lease(&json!({})), "unreadable"),
        (503, json!({}), "error"),
    ] {
        let (answer, counted) = read(status, lease).await;
        assert!(matches!(answer, Message::Unknown(_)), "{answer:?}");
        assert!(counted.contains(&format!("outcome=\"{outcome}\",verb=\"read\"")), "{counted}");
    }
}
