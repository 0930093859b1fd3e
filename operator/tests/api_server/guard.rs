//! The policy of the chart, by which the API server refuses the operator whatever its code never writes. The server of
//! these tests holds each write against it.

use std::sync::LazyLock;

use conclave_crds::GROUP_UID_ANNOTATION;
use kube::core::cel::{AdmissionRequest, GroupVersionResource, VapEvaluator, VapExpression};
use serde_json::{Value, json};

/// One write: at which path, what there was, and what there would be.
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    pub(crate) path: &'a str,
    pub(crate) before: Option<&'a Value>,
    pub(crate) after: Option<&'a Value>,
}

/// Why the API server would refuse this write of the operator's.
pub(crate) fn objections(write: Write<'_>) -> Vec<String> {
    objections_to(OPERATOR, write)
}

fn objections_to(username: &str, write: Write<'_>) -> Vec<String> {
    let operation = match (write.before, write.after) {
        (None, _) => "CREATE",
        (Some(_), None) => "DELETE",
        (Some(_), Some(_)) => "UPDATE",
    };
    let Some((resource, namespace, name)) = place(write.path) else { return Vec::new() };
    let rules = POLICY["spec"]["matchConstraints"]["resourceRules"].as_array().expect("rules");
    let lists =
        |list: &Value, text: &str| list.as_array().is_some_and(|all| all.contains(&json!(text)));
    let is_matched = rules.iter().any(|rule| {
        lists(&rule["apiGroups"], &resource.group)
            && lists(&rule["resources"], &resource.resource)
            && lists(&rule["operations"], operation)
    });
    let evaluator = VapEvaluator::builder()
        .object(write.after.cloned().unwrap_or_default())
        .old_object(write.before.cloned().unwrap_or_default())
        .request(AdmissionRequest {
            operation: operation.to_owned(),
            username: username.to_owned(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            resource,
            ..AdmissionRequest::default()
        })
        .build();
    let results = |list: &str| evaluator.evaluate(&expressions(list));
    if !is_matched || results("matchConditions").iter().any(|condition| !condition.passed) {
        return Vec::new();
    }
    results("validations").into_iter().filter_map(|result| result.message).collect()
}

/// The expressions of a list of the policy. This evaluator knows fields with the name of a reserved word by another, and
/// keys with signs that no identifier has; the API server does so only where a schema declares them.
fn expressions(list: &str) -> Vec<VapExpression> {
    let all = POLICY["spec"][list].as_array().expect("a list of expressions");
    let written = all.iter().map(|one| VapExpression {
        expression: one["expression"]
            .as_str()
            .expect("an expression")
            .replace(".namespace", ".__namespace__")
            .replace("request.__namespace__", "request.namespace")
            .replace(GROUP_UID_ANNOTATION, "conclave__dot__dev__slash__group__dash__uid"),
        message: one["message"].as_str().map(str::to_owned),
        message_expression: None,
    });
    written.collect()
}

/// The resource, the namespace and the name in a path; nothing for a subresource.
fn place(path: &str) -> Option<(GroupVersionResource, &str, &str)> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (group, version, namespace, resource, name) = match *parts.as_slice() {
        ["api", version, "namespaces", namespace, resource, name] => {
            ("", version, namespace, resource, name)
        }
        ["apis", group, version, "namespaces", namespace, resource, name] => {
            (group, version, namespace, resource, name)
        }
        _ => return None,
    };
    let [group, version, resource] = [group, version, resource].map(str::to_owned);
    Some((GroupVersionResource { group, version, resource }, namespace, name))
}

/// As the chart renders it.
static POLICY: LazyLock<Value> = LazyLock::new(|| {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/conclave/snapshots/default.yaml");
    let rendered = std::fs::read_to_string(file).expect("the rendered chart");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&rendered).expect("YAML");
    let mut policies =
        objects.into_iter().filter(|object| object["kind"] == "ValidatingAdmissionPolicy");
    policies.next().expect("the chart has a policy")
});

const OPERATOR: &str = "system:serviceaccount:conclave-system:conclave-operator";

const SERVICES: &str = "/api/v1/namespaces/shop/services/orders-leader";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/till-abc";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
const REGISTER: &str = "/apis/coordination.k8s.io/v1/namespaces/shop/leases/conclave-orders";
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles/conclave-orders";
const BINDING: &str =
    "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings/conclave-orders";

/// An object that belongs to a group.
fn owned(mut object: Value) -> Value {
    let owner = json!({
        "apiVersion": "conclave.dev/v1alpha1", "kind": "Conclave", "name": "orders", "uid": "u",
    });
    object["metadata"] = json!({ "name": "it", "namespace": "shop", "ownerReferences": [owner] });
    object
}

/// An object that belongs to somebody else.
fn foreign() -> Value {
    let owner = json!({ "apiVersion": "apps/v1", "kind": "Conclave", "name": "till", "uid": "u" });
    json!({ "metadata": { "name": "it", "namespace": "shop", "ownerReferences": [owner] } })
}

fn bare() -> Value {
    json!({ "metadata": { "name": "it", "namespace": "shop" } })
}

fn refused(path: &str, before: Option<&Value>, after: Option<&Value>, by: &str) {
    let objections = objections(Write { path, before, after });
    let found = objections.iter().any(|objection| objection.contains(by));
    assert!(found, "{path}, {before:?} to {after:?}: {objections:?}");
}

#[test]
fn the_operators_token_changes_nothing_that_belongs_to_no_group() {
    let of_group = owned(json!({}));
    for path in [SERVICES, SLICES, ROLE, BINDING] {
        for other in [bare(), foreign()] {
            refused(path, Some(&other), Some(&other), "changes and deletes nothing but");
            // Nor is it made a group's first, or given away.
            refused(path, Some(&other), Some(&of_group), "changes and deletes nothing but");
            refused(path, Some(&of_group), Some(&other), "makes nothing but");
            refused(path, Some(&other), None, "changes and deletes nothing but");
        }
    }
    for path in [SERVICES, SLICES, ROLE, BINDING] {
        refused(path, None, Some(&bare()), "makes nothing but");
    }
}

#[test]
fn the_operators_token_changes_no_lease_but_the_register_of_a_group() {
    let register =
        json!({ "metadata": { "name": "it", "annotations": { "conclave.dev/group-uid": "u" } } });
    let write = Write { path: REGISTER, before: Some(&register), after: Some(&register) };
    assert_eq!(objections(write), [""; 0]);
    for other in [bare(), foreign(), owned(json!({}))] {
        refused(REGISTER, Some(&other), Some(&register), "changes and deletes nothing but");
        refused(REGISTER, Some(&register), Some(&other), "makes nothing but");
        refused(LEASE, Some(&other), Some(&other), "changes and deletes nothing but");
        refused(LEASE, Some(&other), None, "changes and deletes nothing but");
    }
    refused(LEASE, Some(&register), Some(&register), "changes and deletes nothing but");
}

#[test]
fn the_operators_token_grants_nobody_else_more_than_a_group_needs() {
    let rule = |names: Value| {
        json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"],
                "resourceNames": names })
    };
    let granting = |names| owned(json!({ "rules": [rule(names)] }));
    let named = granting(json!(["conclave-orders"]));
    assert_eq!(objections(Write { path: ROLE, before: None, after: Some(&named) }), [""; 0]);
    refused(ROLE, None, Some(&granting(json!([]))), "named objects alone");
    let mut unnamed = named.clone();
    unnamed["rules"][0].as_object_mut().expect("a rule").remove("resourceNames");
    refused(ROLE, Some(&named), Some(&unnamed), "named objects alone");

    let binding = |kind: &str, subject: Value| {
        owned(json!({ "roleRef": { "kind": kind, "name": "it" }, "subjects": [subject] }))
    };
    let account =
        |namespace| json!({ "kind": "ServiceAccount", "name": "till", "namespace": namespace });
    let here = binding("Role", account("shop"));
    assert_eq!(objections(Write { path: BINDING, before: None, after: Some(&here) }), [""; 0]);
    for wrong in [
        binding("ClusterRole", account("shop")),
        binding("Role", account("conclave-system")),
        binding("Role", json!({ "kind": "User", "name": "mallory" })),
    ] {
        refused(BINDING, None, Some(&wrong), "of that namespace alone");
    }
}

#[test]
fn the_operators_token_leads_no_call_elsewhere() {
    let slice = |address: &str| owned(json!({ "endpoints": [{ "addresses": [address] }] }));
    let (one, other) = (slice("198.18.0.1"), slice("198.18.0.2"));
    // An election that is led may get a Service, or another.
    let of_service = |service: &str| {
        let mut slice = one.clone();
        slice["metadata"]["labels"] = json!({ "kubernetes.io/service-name": service });
        slice
    };
    let (before, after) = (of_service("no.service"), of_service("till"));
    let write = Write { path: SLICES, before: Some(&before), after: Some(&after) };
    assert_eq!(objections(write), [""; 0]);
    refused(SLICES, None, Some(&one), "writes no endpoint");
    refused(SLICES, Some(&one), Some(&other), "writes no endpoint");
    for kept in [&one, &owned(json!({ "endpoints": [] })), &owned(json!({ "endpoints": null }))] {
        let write = Write { path: SLICES, before: Some(&one), after: Some(kept) };
        assert_eq!(objections(write), [""; 0]);
    }
    let service = |spec: Value| owned(json!({ "spec": spec }));
    for wrong in [json!({ "type": "ExternalName" }), json!({ "externalIPs": ["192.0.2.1"] })] {
        refused(SERVICES, None, Some(&service(wrong)), "within the cluster alone");
    }
}

/// What is not the operator's, and its own Lease, are none of this policy's business.
#[test]
fn others_and_the_turns_of_the_operator_are_not_looked_at() {
    let lease = bare();
    let write = |path| Write { path, before: Some(&lease), after: Some(&lease) };
    let scheduler = "system:kube-scheduler";
    assert_eq!(objections_to(scheduler, write(LEASE)), [""; 0]);
    let turns = "/apis/coordination.k8s.io/v1/namespaces/conclave-system/leases/conclave-operator";
    assert_eq!(objections(write(turns)), [""; 0]);
    let elsewhere = turns.replace("conclave-system", "shop");
    assert!(!objections(write(&elsewhere)).is_empty());
}
