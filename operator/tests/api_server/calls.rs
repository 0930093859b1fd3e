//! Exactly these calls reach the API server, and no other.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use conclave_crds::AuthorityStatus;
use conclave_operator::controller::Context;
use conclave_operator::metrics::Metrics;
use conclave_protocols::policy::Policy;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::server::{ApiServer, Call};

pub(crate) const CONCLAVE: &str = "/apis/conclave.dev/v1alpha1/namespaces/shop/conclaves/orders";
const STATUS: &str = "/apis/conclave.dev/v1alpha1/namespaces/shop/conclaves/orders/status";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/shop/leases";
pub(crate) const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/shop/leases/conclave-orders";
const SERVICE: &str = "/api/v1/namespaces/shop/services/conclave-orders";
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles/conclave-orders";
const BINDING: &str =
    "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings/conclave-orders";
pub(crate) const PODS: &str = "/api/v1/namespaces/shop/pods";
pub(crate) const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/shop/events";
pub(crate) const LEADER: &str = "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01";

/// A cluster with one `Conclave` and nothing else of it.
pub(crate) fn cluster() -> (ApiServer, Arc<Context>) {
    let (server, context, _) = cluster_and_authority();
    (server, context)
}

/// The same, and what announces the authority.
fn cluster_and_authority() -> (ApiServer, Arc<Context>, watch::Sender<Option<AuthorityStatus>>) {
    let server = ApiServer::default();
    server.put(
        CONCLAVE,
        json!({
            "apiVersion": "conclave.dev/v1alpha1",
            "kind": "Conclave",
            "metadata": {
                "name": "orders", "namespace": "shop", "uid": "group-uid", "generation": 1,
            },
            "spec": {},
        }),
    );
    let metrics = Metrics::new().expect("metrics");
    let authority = watch::Sender::new(None);
    let context = Context::new(server.client(), metrics, "operator-0", authority.subscribe());
    (server, context, authority)
}

/// Method and path of each call.
fn named(calls: &[Call]) -> Vec<(&str, &str)> {
    calls.iter().map(|call| (call.method.as_str(), call.path.as_str())).collect()
}

pub(crate) fn pod(name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop", "uid": uid,
            "labels": { "conclave.dev/group": "orders" },
        },
        "spec": { "containers": [{ "name": "conclave" }], "serviceAccountName": "till" },
    })
}

/// A view of one member that leads.
pub(crate) fn record() -> Value {
    let leader = json!({ "pod": LEADER, "run": 1 });
    let wait = |secs: u64| json!({ "secs": secs, "nanos": 0 });
    let policy = Policy { generation: 1, ..Policy::default() };
    json!({
        "version": 1, "epoch": 90, "ceiling": 105, "leader": leader, "settled": true,
        "closing": false, "baseUnknown": false, "nonce": 3,
        "members": [{
            "incarnation": leader, "name": "orders-0", "addresses": [], "priority": 0, "capacity": 0,
            "seniority": 1, "protocol": [1, 3],
        }],
        "timing": {
            "leaderLease": wait(2), "heartbeat": wait(1), "memberLease": wait(10), "apiOutage": wait(60),
        },
        "longestLeaderLease": wait(2),
        "policy": policy,
    })
}

#[tokio::test]
async fn a_new_group_takes_six_reads_and_five_writes_and_then_none() {
    let (server, context) = cluster();
    context.bring_about("shop", "orders").await.expect("it works");
    let (mut reads, writes) = server.take_calls();
    assert_eq!(reads.remove(0), CONCLAVE, "everything else must be at least as new");
    reads.sort();
    let mut expected = [LEASE, SERVICE, ROLE, BINDING, PODS];
    expected.sort_unstable();
    assert_eq!(reads, expected);
    let expected = [
        ("PATCH", SERVICE),
        ("PATCH", ROLE),
        ("PATCH", BINDING),
        ("PATCH", STATUS),
        ("POST", LEASES),
    ];
    assert_eq!(named(&writes), expected);
    assert_eq!(writes[3].body["status"]["epoch"], 0);
    assert_eq!(writes[3].body["metadata"]["resourceVersion"], "1");
    assert_eq!(writes[4].body["spec"], json!({}));
    let metadata = &writes[4].body["metadata"];
    assert_eq!(metadata["annotations"], json!({ "conclave.dev/group-uid": "group-uid" }));
    assert!(metadata["ownerReferences"].is_null(), "it outlives its resource");

    // The register is there now: the status says so, and that is all.
    context.bring_about("shop", "orders").await.expect("it works");
    assert_eq!(named(&server.take_calls().1), [("PATCH", STATUS)]);
    context.bring_about("shop", "orders").await.expect("it works");
    assert_eq!(named(&server.take_calls().1), []);
}

#[tokio::test]
async fn a_group_is_notified_of_the_authority_and_keeps_it_while_nobody_knows_better() {
    let (server, context, authority) = cluster_and_authority();
    context.bring_about("shop", "orders").await.expect("it works");
    assert!(server.object(CONCLAVE)["status"]["authority"].is_null());

    let notified = |bundle: &str| {
        let address = "10.96.0.7:443".to_owned();
        Some(AuthorityStatus { address, bundle: bundle.to_owned() })
    };
    for bundle in ["one", "one and two"] {
        authority.send_replace(notified(bundle));
        context.bring_about("shop", "orders").await.expect("it works");
        let expected = json!({ "address": "10.96.0.7:443", "bundle": bundle });
        assert_eq!(server.object(CONCLAVE)["status"]["authority"], expected);
    }
    authority.send_replace(None);
    server.take_calls();
    context.bring_about("shop", "orders").await.expect("it works");
    assert_eq!(named(&server.take_calls().1), [], "nothing is taken from the status");
}

#[tokio::test]
async fn no_register_is_created_where_the_epoch_could_not_be_written() {
    let (server, context) = cluster();
    server.refuse(&Method::PATCH, STATUS, StatusCode::CONFLICT);
    let error = context.bring_about("shop", "orders").await.expect_err("a conflict");
    assert!(matches!(error, kube::Error::Api(status) if status.is_conflict()));
    assert!(named(&server.take_calls().1).iter().all(|(method, _)| *method != "POST"));
}

#[tokio::test]
async fn a_lost_register_is_made_anew_with_the_last_epoch() {
    let (server, context) = cluster();
    context.bring_about("shop", "orders").await.expect("it works");
    let mut lease = server.object(LEASE);
    lease["metadata"]["annotations"]["conclave.dev/record"] = record().to_string().into();
    server.put(LEASE, lease);
    context.bring_about("shop", "orders").await.expect("it works");
    server.remove(LEASE);
    server.take_calls();

    context.bring_about("shop", "orders").await.expect("it works");
    let (_, writes) = server.take_calls();
    assert_eq!(named(&writes), [("PATCH", STATUS), ("POST", LEASES), ("POST", EVENTS)]);
    let record = writes[1].body["metadata"]["annotations"]["conclave.dev/record"].as_str();
    let record: Value = serde_json::from_str(record.expect("a record")).expect("JSON");
    assert_eq!((&record["epoch"], &record["ceiling"]), (&json!(90), &json!(105)));
    assert_eq!((&record["baseUnknown"], &record["closing"]), (&json!(true), &json!(true)));
    assert_eq!(writes[2].body["reason"], "RegisterLost");
}

/// What was held in the group before may be held for as long as its record says, and its tokens were given.
#[tokio::test]
async fn a_group_that_is_made_anew_takes_the_register_of_the_one_before_over() {
    let (server, context) = cluster();
    context.bring_about("shop", "orders").await.expect("it works");
    let mut lease = server.object(LEASE);
    lease["metadata"]["annotations"]["conclave.dev/record"] = record().to_string().into();
    server.put(LEASE, lease);
    let mut anew = server.object(CONCLAVE);
    anew["metadata"]["uid"] = "later-uid".into();
    anew["status"] = Value::Null;
    server.put(CONCLAVE, anew);
    server.take_calls();

    context.bring_about("shop", "orders").await.expect("it works");
    let (_, writes) = server.take_calls();
    let (calls, lease) = (named(&writes), server.object(LEASE));
    assert_eq!(calls[calls.len() - 3..], [("PATCH", STATUS), ("PUT", LEASE), ("POST", EVENTS)]);
    assert_eq!(server.object(CONCLAVE)["status"]["epoch"], 90);
    assert_eq!(lease["metadata"]["annotations"]["conclave.dev/group-uid"], "later-uid");
    let taken = stands(&server);
    assert_eq!((&taken["epoch"], &taken["ceiling"]), (&json!(90), &json!(105)));
    assert_eq!((&taken["closing"], &taken["policy"]["generation"]), (&json!(true), &json!(0)));
    assert_eq!(writes[calls.len() - 1].body["reason"], "RegisterTakenOver");
    context.bring_about("shop", "orders").await.expect("it works");
    assert_eq!(named(&server.take_calls().1), [("PATCH", STATUS)], "once");
}

/// A member, or another replica, was first: it is not this one that found the register lost.
#[tokio::test]
async fn a_register_that_somebody_else_made_anew_is_not_announced() {
    let (server, context) = cluster();
    context.bring_about("shop", "orders").await.expect("it works");
    server.remove(LEASE);
    server.refuse(&Method::POST, LEASES, StatusCode::CONFLICT);
    server.take_calls();
    let error = context.bring_about("shop", "orders").await.expect_err("it is there already");
    assert!(matches!(error, kube::Error::Api(status) if status.is_already_exists()));
    let (_, writes) = server.take_calls();
    assert_eq!(named(&writes).last(), Some(&("POST", LEASES)), "no event follows");
}

/// What stands on the Lease now, as its record.
fn stands(server: &ApiServer) -> Value {
    let lease = server.object(LEASE);
    let text = lease["metadata"]["annotations"]["conclave.dev/record"].as_str();
    serde_json::from_str(text.expect("a record")).expect("JSON")
}

#[tokio::test]
async fn a_mark_takes_the_place_of_a_record_that_cannot_be_read_once() {
    let (server, context) = cluster();
    context.bring_about("shop", "orders").await.expect("it works");
    let mut lease = server.object(LEASE);
    lease["metadata"]["annotations"]["conclave.dev/record"] = record().to_string().into();
    server.put(LEASE, lease);
    context.bring_about("shop", "orders").await.expect("it works");
    let mut nonces = Vec::new();
    for damage in [json!({ "conclave.dev/record": "{" }), json!({})] {
        let mut lease = server.object(LEASE);
        lease["metadata"]["annotations"] = damage;
        lease["metadata"]["annotations"]["conclave.dev/group-uid"] = "group-uid".into();
        lease["metadata"]["annotations"]["example.org/by"] = "hand".into();
        server.put(LEASE, lease);
        server.take_calls();
        context.bring_about("shop", "orders").await.expect("it works");
        let (_, writes) = server.take_calls();
        assert_eq!(named(&writes), [("PATCH", STATUS), ("PUT", LEASE), ("POST", EVENTS)]);
        let mark = stands(&server);
        assert_eq!((&mark["baseUnknown"], &mark["epoch"]), (&json!(true), &json!(90)));
        nonces.push(mark["nonce"].clone());
        assert_eq!(server.object(LEASE)["metadata"]["annotations"]["example.org/by"], "hand");
        context.bring_about("shop", "orders").await.expect("it works");
        assert_eq!(named(&server.take_calls().1), [("PATCH", STATUS)], "once");
    }
    assert!(nonces[0] != nonces[1] && nonces[0] != json!(0), "{nonces:?}");
}

/// A member has written a view since the operator read what nobody can read.
#[tokio::test]
async fn a_view_that_was_written_meanwhile_is_not_replaced_by_a_mark() {
    let (server, context) = cluster();
    context.bring_about("shop", "orders").await.expect("it works");
    let mut lease = server.object(LEASE);
    lease["metadata"]["annotations"]["conclave.dev/record"] = "{".into();
    server.put(LEASE, lease);
    server.refuse(&Method::PUT, LEASE, StatusCode::CONFLICT);
    server.take_calls();
    let error = context.bring_about("shop", "orders").await.expect_err("a conflict");
    assert!(matches!(error, kube::Error::Api(status) if status.is_conflict()));
    let (_, writes) = server.take_calls();
    let put = writes.iter().find(|call| call.method == Method::PUT).expect("it tried");
    assert_eq!(
        put.body["metadata"]["resourceVersion"],
        server.object(LEASE)["metadata"]["resourceVersion"]
    );
    assert!(writes.iter().all(|call| call.path != EVENTS), "nothing was replaced");
}

/// A group whose only member leads, which the operator does not know yet.
async fn led() -> (ApiServer, Arc<Context>) {
    let (server, context) = cluster();
    context.bring_about("shop", "orders").await.expect("it works");
    server.put(&format!("{PODS}/orders-0"), pod("orders-0", LEADER));
    let mut lease = server.object(LEASE);
    lease["metadata"]["annotations"]["conclave.dev/record"] = record().to_string().into();
    server.put(LEASE, lease);
    server.take_calls();
    (server, context)
}

#[tokio::test]
async fn a_leader_is_reported_and_its_pod_left_alone() {
    let (server, context) = led().await;
    context.bring_about("shop", "orders").await.expect("it works");
    let (_, writes) = server.take_calls();
    assert_eq!(named(&writes), [("PATCH", BINDING), ("PATCH", STATUS), ("POST", EVENTS)]);
    assert_eq!(writes[0].body["subjects"][0]["name"], "till");
    assert_eq!(writes[1].body["status"]["leader"]["pod"], "orders-0");
    assert_eq!(writes[2].body["reason"], "LeaderChanged");
    assert_eq!(writes[2].body["related"]["uid"], LEADER);
}

#[tokio::test]
async fn an_event_that_is_refused_is_no_error() {
    let (server, context) = led().await;
    server.refuse(&Method::POST, EVENTS, StatusCode::FORBIDDEN);
    context.bring_about("shop", "orders").await.expect("it works all the same");
}

#[tokio::test]
async fn what_is_refused_of_a_group_does_not_keep_the_authority_from_it() {
    let (server, context, authority) = cluster_and_authority();
    let notified =
        AuthorityStatus { address: "10.96.0.7:443".to_owned(), bundle: "one".to_owned() };
    authority.send_replace(Some(notified.clone()));
    server.refuse(&Method::PATCH, SERVICE, StatusCode::FORBIDDEN);
    context.bring_about("shop", "orders").await.expect_err("the Service is refused");
    let (_, writes) = server.take_calls();
    assert_eq!(named(&writes), [("PATCH", STATUS), ("PATCH", SERVICE)]);
    assert_eq!(writes[0].body["status"], json!({ "authority": notified }), "and nothing else");
    assert_eq!(writes[0].body["metadata"]["resourceVersion"], "1");
}

#[tokio::test]
async fn the_status_is_set_on_top_of_the_authority_that_was_published_before() {
    let (server, context, authority) = cluster_and_authority();
    let notified =
        AuthorityStatus { address: "10.96.0.7:443".to_owned(), bundle: "one".to_owned() };
    authority.send_replace(Some(notified));
    context.bring_about("shop", "orders").await.expect("no conflict with itself");
    let (_, writes) = server.take_calls();
    let versions = writes.iter().filter(|call| call.path == STATUS);
    let versions: Vec<_> = versions.map(|call| &call.body["metadata"]["resourceVersion"]).collect();
    assert_eq!(versions[0], "1");
    assert_ne!(versions[1], "1", "the version that came of it");
    context.bring_about("shop", "orders").await.expect("it works");
    server.take_calls();
    context.bring_about("shop", "orders").await.expect("it works");
    assert_eq!(server.take_calls().1, []);
}

#[tokio::test]
async fn a_resource_that_is_gone_needs_one_read() {
    let (server, context) = cluster();
    server.remove(CONCLAVE);
    context.bring_about("shop", "orders").await.expect("it works");
    assert_eq!(server.take_calls(), (vec![CONCLAVE.to_owned()], Vec::new()));
}

#[tokio::test]
async fn each_generation_is_announced_by_an_event_of_its_own() {
    let (server, context) = cluster();
    context.bring_about("shop", "orders").await.expect("it works");
    let mut notes = Vec::new();
    for generation in 1..=3 {
        let mut record = record();
        record["policy"]["generation"] = generation.into();
        let mut lease = server.object(LEASE);
        lease["metadata"]["annotations"]["conclave.dev/record"] = record.to_string().into();
        server.put(LEASE, lease);
        context.bring_about("shop", "orders").await.expect("it works");
        let (_, writes) = server.take_calls();
        let notified = writes.into_iter().filter(|call| call.body["reason"] == "PolicyChanged");
        notes.extend(notified.map(|call| (call.method, call.body["note"].clone())));
    }
    let note = |generation| json!(format!("the members run generation {generation}"));
    assert_eq!(notes, [(Method::POST, note(2)), (Method::POST, note(3))]);
}
