use axum::http::{Request, Response};
use conclave_protocols::policy::Policy;
use serde_json::json;

use super::*;

/// What a member of the group `PodUid(1)` reads of a Lease with these annotations.
async fn read(annotations: serde_json::Value) -> Result<Value, CallError> {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": "conclave-orders", "namespace": "shop", "resourceVersion": "12",
            "annotations": annotations,
        },
    });
    let service = tower::service_fn(move |_: Request<Body>| {
        let body = Body::from(lease.to_string().into_bytes());
        async { Ok::<_, std::convert::Infallible>(Response::new(body)) }
    });
    let client = Client::new(service, "shop");
    let metrics = Metrics::new("orders");
    let register =
        KubernetesRegister::new(client, "shop", "orders", PodUid(1), Epoch::default(), metrics);
    register.read().await
}

/// A view.
fn record() -> String {
    let record = json!({
        "version": 1, "epoch": 90, "ceiling": 105, "leader": null, "settled": true,
        "closing": false, "baseUnknown": false, "nonce": 3, "members": [],
        "timing": conclave_protocols::policy::Timing::default(), "policy": Policy::default(),
    });
    record.to_string()
}

/// Who confirmed the view of another group by its register would lead or hold for longer than that waits.
#[tokio::test]
async fn a_member_reads_the_register_of_its_own_group_alone() {
    let of = |uid: PodUid| json!({ "conclave.dev/group-uid": uid.to_string(), "conclave.dev/record": record() });
    let value = read(of(PodUid(1))).await.expect("its own");
    assert_eq!(value.record.map(|record| record.epoch), Some(Epoch(90)));
    assert!(matches!(read(of(PodUid(2))).await, Err(CallError::Foreign)));
    let without = json!({ "conclave.dev/record": record() });
    assert!(matches!(read(without).await, Err(CallError::Foreign)));
}
