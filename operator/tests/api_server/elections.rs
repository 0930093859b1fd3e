//! What is made for elections that are published, and what of it is left to their leaders.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use conclave_operator::controller::Context;
use conclave_operator::metrics::Metrics;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::server::{ApiServer, Call};

const CONCLAVE: &str = "/apis/conclave.dev/v1alpha1/namespaces/shop/conclaves/orders";
const SERVICES: &str = "/api/v1/namespaces/shop/services";
const SERVICE: &str = "/api/v1/namespaces/shop/services/orders-reports";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";
const SLICE: &str =
    "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/conclave-orders.reports";
const POD: &str = "/api/v1/namespaces/shop/pods/orders-0";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/shop/events";

/// A cluster with one group and one pod of it.
fn cluster(elections: &Value) -> (ApiServer, Arc<Context>) {
    let server = ApiServer::default();
    put_group(&server, elections);
    server.put(
        POD,
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "orders-0", "namespace": "shop", "uid": "pod-uid",
                "labels": { "conclave.dev/group": "orders" },
            },
            "spec": { "containers": [{ "name": "conclave" }] },
        }),
    );
    (server.clone(), replica(&server))
}

fn replica(server: &ApiServer) -> Arc<Context> {
    let metrics = Metrics::new().expect("metrics");
    let authority = watch::Sender::new(None).subscribe();
    Context::new(server.client(), metrics, "operator-0", authority)
}

fn put_group(server: &ApiServer, elections: &Value) {
    let mut group = server.object(CONCLAVE);
    if group.is_null() {
        group = json!({
            "apiVersion": "conclave.dev/v1alpha1", "kind": "Conclave",
            "metadata": {
                "name": "orders", "namespace": "shop", "uid": "group-uid", "generation": 1,
            },
        });
    }
    group["spec"] = json!({ "elections": elections });
    server.put(CONCLAVE, group);
}

fn with_service() -> Value {
    json!([{ "name": "reports", "service": { "targetPort": 8080 } }])
}

/// Reconciles until nothing is written any more, and returns what was.
async fn settle(server: &ApiServer, context: &Context) -> Vec<Call> {
    server.take_calls();
    let mut all = Vec::new();
    for _ in 0..6 {
        context.bring_about("shop", "orders").await.expect("it works");
        let (_, writes) = server.take_calls();
        if writes.is_empty() {
            return all;
        }
        all.extend(writes);
    }
    panic!("it does not come to rest: {all:#?}");
}

/// What a sidecar does that leads.
fn lead(server: &ApiServer, token: u64) {
    let mut slice = server.object(SLICE);
    slice["metadata"]["annotations"]["conclave.dev/token"] = json!(token.to_string());
    slice["endpoints"] = json!([{
        "addresses": ["10.0.0.7"], "conditions": { "ready": true },
        "targetRef": { "kind": "Pod", "name": "orders-0", "uid": "pod-uid" },
    }]);
    server.put(SLICE, slice);
}

fn to<'a>(calls: &'a [Call], path: &str) -> Vec<&'a Call> {
    calls.iter().filter(|call| call.path == path).collect()
}

#[tokio::test]
async fn a_service_and_its_slice_are_made_once_and_the_endpoints_are_left_to_the_leader() {
    let (server, context) = cluster(&with_service());
    let writes = settle(&server, &context).await;
    assert_eq!((to(&writes, SERVICE).len(), to(&writes, SLICE).len()), (1, 1));
    assert_eq!(server.object(SERVICE)["spec"]["ports"][0]["targetPort"], 8080);
    let labels = &server.object(SLICE)["metadata"]["labels"];
    assert_eq!(labels["kubernetes.io/service-name"], "orders-reports");
    assert_eq!(server.object(SLICE)["endpoints"], Value::Null, "not even none");

    lead(&server, 7);
    let writes = settle(&server, &context).await;
    assert_eq!(to(&writes, SLICE), Vec::<&Call>::new(), "what it writes is no difference");
    let events = to(&writes, EVENTS);
    let note = events.iter().map(|event| event.body["note"].as_str()).collect::<Vec<_>>();
    assert_eq!(note, [Some("orders-0 leads `reports` with token 7")]);
    let status = &server.object(CONCLAVE)["status"];
    assert_eq!(status["leaders"], "reports=orders-0");
    assert_eq!(status["elections"][0]["leader"]["uid"], "pod-uid");
    // Another replica takes over.
    assert_eq!(settle(&server, &replica(&server)).await, []);

    put_group(&server, &json!([{ "name": "reports", "service": { "targetPort": 9090 } }]));
    let writes = settle(&server, &context).await;
    let to_slice = to(&writes, SLICE);
    assert_eq!(to_slice.len(), 1);
    assert_eq!(to_slice[0].body.get("endpoints"), None, "they are not its to write");
    assert_eq!(to_slice[0].body["ports"][0]["port"], 9090);
    assert_eq!(server.object(SLICE)["endpoints"][0]["addresses"][0], "10.0.0.7");
    assert_eq!(server.object(SLICE)["metadata"]["annotations"]["conclave.dev/token"], "7");
}

#[tokio::test]
async fn what_is_wanted_no_longer_is_deleted_by_its_uid() {
    let (server, context) = cluster(&with_service());
    settle(&server, &context).await;
    for path in [SERVICE, SLICE] {
        let mut object = server.object(path);
        object["metadata"]["uid"] = json!(format!("uid of {path}"));
        server.put(path, object);
    }
    put_group(&server, &json!([]));
    let writes = settle(&server, &context).await;
    let deleted: Vec<_> = writes.iter().filter(|call| call.method == Method::DELETE).collect();
    assert_eq!(deleted.iter().map(|call| call.path.as_str()).collect::<Vec<_>>(), [SERVICE, SLICE]);
    for call in deleted {
        assert_eq!(call.body["preconditions"]["uid"], format!("uid of {}", call.path));
    }
    context.bring_about("shop", "orders").await.expect("it works");
    let (reads, _) = server.take_calls();
    assert!(!reads.iter().any(|path| [SERVICES, SLICES].contains(&path.as_str())), "{reads:?}");
}

#[tokio::test]
async fn the_services_of_others_stay_as_they_are() {
    let (server, context) = cluster(&with_service());
    let other = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "orders-reports", "namespace": "shop", "uid": "other" },
        "spec": { "selector": { "app": "till" }, "ports": [{ "port": 80 }] },
    });
    server.put(SERVICE, other);
    let writes = settle(&server, &context).await;
    assert_eq!(to(&writes, SERVICE), Vec::<&Call>::new());
    let labels = &server.object(SLICE)["metadata"]["labels"];
    assert_eq!(labels["kubernetes.io/service-name"], "no.service");
    put_group(&server, &json!([]));
    settle(&server, &context).await;
    assert_eq!(server.object(SERVICE)["metadata"]["uid"], "other");
}

#[tokio::test]
async fn a_pod_that_is_gone_is_taken_off_unless_another_has_begun_to_lead() {
    let (server, context) = cluster(&with_service());
    settle(&server, &context).await;
    lead(&server, 7);
    settle(&server, &context).await;
    server.remove(POD);
    server.refuse(&Method::PATCH, SLICE, StatusCode::CONFLICT);
    let error = context.bring_about("shop", "orders").await.expect_err("a conflict");
    assert!(matches!(error, kube::Error::Api(status) if status.is_conflict()));
    let (_, writes) = server.take_calls();
    let body = &to(&writes, SLICE)[0].body;
    assert_eq!(
        body["metadata"]["resourceVersion"],
        server.object(SLICE)["metadata"]["resourceVersion"]
    );
    assert_eq!(body["endpoints"], json!([]));
    assert_eq!(server.object(CONCLAVE)["status"]["leaders"], "reports=-");
}

#[tokio::test]
async fn a_service_that_is_refused_keeps_nothing_else_from_the_group() {
    let (server, context) = cluster(&with_service());
    server.refuse(&Method::PATCH, SERVICE, StatusCode::FORBIDDEN);
    context.bring_about("shop", "orders").await.expect_err("a quota, perhaps");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/shop/leases/conclave-orders";
    assert!(!server.object(lease).is_null() && !server.object(CONCLAVE)["status"].is_null());
}
