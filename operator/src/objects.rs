//! What the operator makes for a group, each as the group wants it.

use std::collections::{BTreeMap, BTreeSet};

use conclave_crds::{
    Conclave, Evidence, GROUP_LABEL, GROUP_UID_ANNOTATION, PEER_PORT, PEER_PORT_NAME,
    RECORD_ANNOTATION, lease_names, object_name,
};
use conclave_protocols::policy::Policy;
use conclave_protocols::record::Record;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::Value;

use crate::{elections, record};

/// The headless Service by which members find one another, before they are ready too.
pub fn service(conclave: &Conclave) -> Service {
    let port = ServicePort {
        name: Some(PEER_PORT_NAME.to_owned()),
        port: i32::from(PEER_PORT),
        target_port: Some(IntOrString::Int(i32::from(PEER_PORT))),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    };
    let spec = ServiceSpec {
        cluster_ip: Some("None".to_owned()),
        ip_family_policy: Some("PreferDualStack".to_owned()),
        publish_not_ready_addresses: Some(true),
        selector: Some(members(conclave)),
        ports: Some(vec![port]),
        ..ServiceSpec::default()
    };
    Service { metadata: metadata(conclave), spec: Some(spec), ..Service::default() }
}

/// What a member may do at the API server, and no more: read and replace the register, read its
/// `Conclave`, find its peers, take the Leases of elections, write itself to the slices of elections that it leads, and read what became of
/// the containers of its peers if that is evidence.
pub fn role(conclave: &Conclave) -> Role {
    let name = conclave.name_any();
    let mut rules = vec![
        rule("coordination.k8s.io", "leases", Some(object_name(&name)), &["update"]),
        rule(&Conclave::group(&()), &Conclave::plural(&()), Some(name), &[]),
        rule("discovery.k8s.io", "endpointslices", None, &[]),
    ];
    let leases: BTreeSet<&str> = lease_names(&conclave.spec).collect();
    if !leases.is_empty() {
        let names = leases.into_iter().map(str::to_owned).collect();
        let any = rule("coordination.k8s.io", "leases", None, &["update"]);
        rules.push(PolicyRule { resource_names: Some(names), ..any });
    }
    let slices = elections::slices_wanted(conclave);
    if !slices.is_empty() {
        rules.push(PolicyRule {
            resource_names: Some(slices.into_iter().collect()),
            verbs: vec!["patch".to_owned()],
            ..rule("discovery.k8s.io", "endpointslices", None, &[])
        });
    }
    match conclave.spec.evidence {
        Evidence::None => {}
        Evidence::ContainerStatus => rules.push(rule("", "pods", None, &[])),
    }
    Role { metadata: metadata(conclave), rules: Some(rules) }
}

/// Gives the role to the service accounts of the group's pods.
pub fn role_binding(conclave: &Conclave, accounts: &BTreeSet<String>) -> RoleBinding {
    let subject = |account: &String| Subject {
        kind: "ServiceAccount".to_owned(),
        name: account.clone(),
        namespace: conclave.namespace(),
        ..Subject::default()
    };
    let role_ref = RoleRef {
        api_group: Role::group(&()).into_owned(),
        kind: Role::kind(&()).into_owned(),
        name: object_name(&conclave.name_any()),
    };
    let subjects = Some(accounts.iter().map(subject).collect());
    RoleBinding { metadata: metadata(conclave), role_ref, subjects }
}

/// The register of a group that never had one. It has no owner: it outlives its resource, for one that is made anew
/// under the same name.
pub fn new_lease(conclave: &Conclave) -> Lease {
    let metadata = ObjectMeta { owner_references: None, ..metadata(conclave) };
    of_group(Lease { metadata, spec: Some(LeaseSpec::default()) }, conclave)
}

/// The register of an earlier resource of this name as that of this one: its members do not confirm it any more. What
/// it says of what may still run stays, and so do its numbers. A view that nobody closed is marked as closing, for all its
/// promises to be waited for; and its policy is older than any of this resource.
pub fn taken_over(lease: Lease, record: Option<&Record>, conclave: &Conclave) -> Lease {
    let lease = of_group(lease, conclave);
    let Some(record) = record else { return lease };
    let policy = Policy { generation: 0, ..record.policy.clone() };
    let closing = record.closing || record.leader.is_some();
    with_record(lease, &Record { policy, closing, ..record.clone() })
}

fn of_group(mut lease: Lease, conclave: &Conclave) -> Lease {
    let uid = conclave.uid().unwrap_or_default();
    lease.annotations_mut().insert(GROUP_UID_ANNOTATION.to_owned(), uid);
    lease
}

/// A Lease that members and other programs take in turn. It is nobody's: it stays when the group goes, because others
/// may have it.
pub fn shared_lease(conclave: &Conclave, name: &str) -> Lease {
    let mut metadata = metadata(conclave);
    metadata.name = Some(name.to_owned());
    metadata.owner_references = None;
    if let Some(labels) = &mut metadata.labels {
        // The operator hears of what belongs to a group, and of no renewal.
        labels.remove(GROUP_LABEL);
    }
    Lease { metadata, spec: Some(LeaseSpec::default()) }
}

/// A Lease with this record, and with everything else that it has.
pub fn with_record(mut lease: Lease, record: &Record) -> Lease {
    lease.annotations_mut().insert(RECORD_ANNOTATION.to_owned(), record::text(record));
    lease
}

/// Whether an object has everything that is wanted of it. The API server adds fields of its own,
/// and leaves out empty ones.
pub fn covers<K: Serialize>(observed: Option<&K>, wanted: &K) -> bool {
    let json = |object| serde_json::to_value(object).expect("an object of Kubernetes is JSON");
    observed.is_some_and(|observed| contains(&json(observed), &json(wanted)))
}

fn contains(observed: &Value, wanted: &Value) -> bool {
    match (observed, wanted) {
        (Value::Object(observed), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| contains(observed.get(key).unwrap_or(&Value::Null), wanted)),
        (Value::Array(observed), Value::Array(wanted)) => {
            observed.len() == wanted.len()
                && observed.iter().zip(wanted).all(|(observed, wanted)| contains(observed, wanted))
        }
        (Value::Null, Value::Array(wanted)) => wanted.is_empty(),
        (Value::Null, Value::Object(wanted)) => wanted.is_empty(),
        (observed, wanted) => observed == wanted,
    }
}

/// The name, the labels and the owner that all objects of a group have.
pub(crate) fn metadata(conclave: &Conclave) -> ObjectMeta {
    let mut labels = members(conclave);
    labels.insert("app.kubernetes.io/managed-by".to_owned(), crate::FIELD_MANAGER.to_owned());
    labels.insert("app.kubernetes.io/part-of".to_owned(), "conclave".to_owned());
    ObjectMeta {
        name: Some(object_name(&conclave.name_any())),
        namespace: conclave.namespace(),
        labels: Some(labels),
        owner_references: Some(conclave.controller_owner_ref(&()).into_iter().collect()),
        ..ObjectMeta::default()
    }
}

/// The labels that select the group's pods.
fn members(conclave: &Conclave) -> BTreeMap<String, String> {
    BTreeMap::from([(GROUP_LABEL.to_owned(), conclave.name_any())])
}

/// A rule to read a resource, and what else is listed.
fn rule(group: &str, resource: &str, name: Option<String>, more: &[&str]) -> PolicyRule {
    let verbs = ["get", "list", "watch"].iter().chain(more).map(ToString::to_string);
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        resource_names: name.map(|name| vec![name]),
        verbs: verbs.collect(),
        ..PolicyRule::default()
    }
}

#[cfg(test)]
mod tests {
    use conclave_crds::{ConclaveSpec, ElectionSpec};

    use super::*;

    fn orders() -> Conclave {
        let mut conclave = Conclave::new("orders", ConclaveSpec::default());
        conclave.metadata.namespace = Some("shop".to_owned());
        conclave.metadata.uid = Some("u".to_owned());
        conclave
    }

    #[test]
    fn a_member_may_do_exactly_this() {
        let rules = role(&orders()).rules.unwrap_or_default();
        let read = ["get", "list", "watch"];
        let rule = |at: usize| {
            let PolicyRule { api_groups, resources, resource_names, verbs, .. } = rules[at].clone();
            (api_groups.unwrap_or_default(), resources.unwrap_or_default(), resource_names, verbs)
        };
        let expected = |group: &str, resource: &str, name: Option<&str>, verbs: &[&str]| {
            let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
            (texts(&[group]), texts(&[resource]), name.map(|name| texts(&[name])), texts(verbs))
        };
        let lease_verbs = ["get", "list", "watch", "update"];
        let lease = Some("conclave-orders");
        assert_eq!(rule(0), expected("coordination.k8s.io", "leases", lease, &lease_verbs));
        assert_eq!(rule(1), expected("conclave.dev", "conclaves", Some("orders"), &read));
        assert_eq!(rule(2), expected("discovery.k8s.io", "endpointslices", None, &read));
        assert_eq!(rules.len(), 3);
    }

    #[test]
    fn a_member_reads_pods_only_where_their_containers_are_evidence() {
        let without = role(&orders()).rules.unwrap_or_default();
        let mut conclave = orders();
        conclave.spec.evidence = Evidence::ContainerStatus;
        let with = role(&conclave).rules.unwrap_or_default();
        assert_eq!(with[..without.len()], without[..]);
        assert_eq!(with[without.len()..], [rule("", "pods", None, &[])]);
        assert_eq!(with[3].verbs, ["get", "list", "watch"]);
    }

    #[test]
    fn a_member_writes_to_the_slices_of_published_elections_alone() {
        let mut conclave = orders();
        let election =
            |name: &str| ElectionSpec { name: name.to_owned(), ..ElectionSpec::default() };
        conclave.spec.elections = ["default", "reports", "mails"].map(election).into();
        let rules = role(&conclave).rules.unwrap_or_default();
        let names = ["conclave-orders.mails", "conclave-orders.reports"].map(str::to_owned);
        assert_eq!(rules[2].verbs, ["get", "list", "watch"]);
        assert_eq!(rules[3].resources, rules[2].resources);
        assert_eq!(
            (&rules[3].resource_names, &*rules[3].verbs),
            (&Some(names.into()), &["patch".to_owned()][..])
        );
        assert_eq!(rules.len(), 4);
    }

    #[test]
    fn what_the_server_adds_is_no_difference() {
        let wanted = service(&orders());
        let mut observed = wanted.clone();
        observed.metadata.resource_version = Some("7".to_owned());
        if let Some(spec) = &mut observed.spec {
            spec.cluster_ips = Some(vec!["None".to_owned()]);
        }
        assert!(covers(Some(&observed), &wanted));
        assert!(!covers(None, &wanted));
    }

    #[test]
    fn a_subject_too_many_is_a_difference() {
        let wanted = role_binding(&orders(), &BTreeSet::new());
        let observed = role_binding(&orders(), &BTreeSet::from(["till".to_owned()]));
        assert!(!covers(Some(&observed), &wanted));
        let pruned = RoleBinding { subjects: None, ..wanted.clone() };
        assert!(covers(Some(&pruned), &wanted));
    }
}
