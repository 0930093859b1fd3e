//! Living members whose label is changed or taken off.

use axum::http::Method;
use serde_json::{Value, json};

use crate::calls::{CONCLAVE, EVENTS, LEADER, LEASE, PODS, cluster, pod, record};
use crate::server::ApiServer;

/// The pod of the only member, with that label.
fn put_pod(server: &ApiServer, label: Option<&str>) {
    let mut pod = pod("orders-0", LEADER);
    pod["metadata"]["labels"] =
        json!({ "conclave.dev/group": label, "conclave.dev/injected": "true" });
    if label.is_none() {
        pod["metadata"]["labels"] = json!({ "conclave.dev/injected": "true" });
    }
    let group = json!([{ "name": "CONCLAVE_GROUP", "value": "orders" }]);
    pod["spec"]["containers"][0]["env"] = group;
    server.put(&format!("{PODS}/orders-0"), pod);
}

fn condition(server: &ApiServer, kind: &str) -> Option<Value> {
    let conditions = server.object(CONCLAVE)["status"]["conditions"].clone();
    let mut all = conditions.as_array().into_iter().flatten();
    all.find(|condition| condition["type"] == kind).cloned()
}

#[tokio::test]
async fn a_living_member_whose_label_changes_is_reported_once_on_its_pod_and_on_the_group() {
    let (server, context) = cluster();
    let reconcile = || context.bring_about("shop", "orders");
    reconcile().await.expect("it works");
    put_pod(&server, Some("orders"));
    let mut lease = server.object(LEASE);
    lease["metadata"]["annotations"]["conclave.dev/record"] = record().to_string().into();
    server.put(LEASE, lease);
    reconcile().await.expect("it works");
    assert_eq!(condition(&server, "MembersLabelled"), None);
    for (label, expected) in [(Some("mails"), "was changed to `mails`"), (None, "was taken off")] {
        put_pod(&server, label);
        server.take_calls();
        for events in [1, 0] {
            reconcile().await.expect("it works");
            let (_, writes) = server.take_calls();
            let reported =
                writes.iter().filter(|call| call.path == EVENTS && call.method == Method::POST);
            let reported: Vec<_> =
                reported.filter(|call| call.body["reason"] == "LabelChanged").collect();
            assert_eq!(reported.len(), events, "{label:?}");
            for call in reported {
                assert_eq!(call.body["regarding"]["uid"], LEADER);
                assert_eq!(call.body["related"]["kind"], "Conclave");
                let note = call.body["note"].as_str().expect("a note");
                assert!(note.contains(expected) && note.contains("member of `orders`"), "{note}");
            }
        }
        let found = condition(&server, "MembersLabelled").expect("it is there");
        assert_eq!((&found["status"], &found["reason"]), (&json!("False"), &json!("LabelChanged")));
        assert!(found["message"].as_str().is_some_and(|text| text.ends_with(": orders-0")));
        put_pod(&server, Some("orders"));
        reconcile().await.expect("it works");
        assert_eq!(condition(&server, "MembersLabelled"), None);
    }
}

/// A record names its members long after they are gone, and a name comes again.
#[tokio::test]
async fn a_member_whose_pod_is_gone_or_another_is_not_reported() {
    let (server, context) = cluster();
    context.bring_about("shop", "orders").await.expect("it works");
    let mut lease = server.object(LEASE);
    lease["metadata"]["annotations"]["conclave.dev/record"] = record().to_string().into();
    server.put(LEASE, lease);
    context.bring_about("shop", "orders").await.expect("it works");
    assert_eq!(condition(&server, "MembersLabelled"), None);
    put_pod(&server, None);
    let mut other = server.object(&format!("{PODS}/orders-0"));
    other["metadata"]["uid"] = json!("other-uid");
    let mut going = server.object(&format!("{PODS}/orders-0"));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    for pod in [other, going] {
        server.put(&format!("{PODS}/orders-0"), pod);
        context.bring_about("shop", "orders").await.expect("it works");
        assert_eq!(condition(&server, "MembersLabelled"), None);
    }
}

/// Its sidecar is a member of another group.
#[tokio::test]
async fn a_pod_that_is_labelled_for_a_group_later_is_none_of_its_members() {
    let (server, context) = cluster();
    put_pod(&server, Some("orders"));
    let mut pod = server.object(&format!("{PODS}/orders-0"));
    pod["spec"]["containers"][0]["env"][0]["value"] = json!("mails");
    server.put(&format!("{PODS}/orders-0"), pod);
    context.bring_about("shop", "orders").await.expect("it works");
    let found = condition(&server, "SidecarsPresent").expect("it is there");
    assert_eq!(found["message"], "pods without the sidecar of this group: orders-0");
}
