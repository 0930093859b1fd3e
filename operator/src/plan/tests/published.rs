//! The elections that are published: their Services, their slices, and what is reported of their leaders.

use conclave_crds::{
    ELECTION_LABEL, ElectionService, ElectionSpec, ElectionStatus, GROUP_LABEL, TOKEN_ANNOTATION,
};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::Endpoint;

use super::*;

const SERVICE_LABEL: &str = "kubernetes.io/service-name";

fn election(name: &str, port: Option<i32>) -> ElectionSpec {
    let service = port.map(|target_port| ElectionService { name: None, port: 80, target_port });
    ElectionSpec { name: name.to_owned(), service, ..ElectionSpec::default() }
}

/// The group with these elections, after the operator has seen all that it made.
fn publishing(elections: &[ElectionSpec]) -> Observed {
    let mut observed = settled();
    observed.conclave.spec.elections = elections.to_vec();
    take_turns(&mut observed);
    observed
}

/// Does what is planned, as an API server would, until nothing is left to do. Returns all that was done.
fn take_turns(observed: &mut Observed) -> Vec<Change> {
    let mut all = Vec::new();
    for turn in 0_u128.. {
        assert!(turn < 5, "it does not come to rest: {all:#?}");
        let changes = plan(observed);
        if changes.is_empty() {
            break;
        }
        for change in &changes {
            take_effect(observed, change, &format!("uid-{turn}"));
        }
        all.extend(changes);
    }
    all
}

fn take_effect(observed: &mut Observed, change: &Change, uid: &str) {
    let Children { role, published, .. } = &mut observed.children;
    let Published { services, slices, leases } = published;
    match change {
        Change::ApplyRole(wanted) => *role = Some(wanted.as_ref().clone()),
        Change::SetStatus(status) => observed.conclave.status = Some(status.as_ref().clone()),
        Change::ApplyService(wanted) => put(services, wanted.as_ref(), uid),
        Change::ApplySlice(wanted) => put(slices, wanted.as_ref(), uid),
        Change::EmptySlice(slice) => {
            let found = slices.iter_mut().find(|found| found.name_any() == slice.name);
            found.expect("it is there").endpoints.clear();
        }
        Change::DeleteService(gone) => services.retain(|found| found.uid() != gone.uid),
        Change::DeleteSlice(gone) => slices.retain(|found| found.uid() != gone.uid),
        Change::CreateLease(lease) => assert!(leases.insert(lease.name_any())),
        Change::Announce(_) => {}
        other @ (Change::SetAuthority(_)
        | Change::ApplyRoleBinding(_)
        | Change::MarkLease(_)
        | Change::TakeOverLease(_)) => panic!("nobody asked for {other:?}"),
    }
}

fn put<K: ResourceExt + Clone>(objects: &mut Vec<K>, wanted: &K, uid: &str) {
    let mut object = wanted.clone();
    let uid = format!("{uid}-{}", object.name_any());
    object.meta_mut().uid = Some(uid);
    objects.retain(|found| found.name_any() != object.name_any());
    objects.push(object);
}

fn slice<'a>(observed: &'a mut Observed, name: &str) -> &'a mut EndpointSlice {
    let mut slices = observed.children.published.slices.iter_mut();
    slices.find(|slice| slice.name_any() == name).expect("a slice")
}

/// What a leader does to a slice.
fn lead(slice: &mut EndpointSlice, pod: u128, token: i64) {
    let target_ref =
        ObjectReference { uid: Some(PodUid(pod).to_string()), ..ObjectReference::default() };
    slice.endpoints = vec![Endpoint { target_ref: Some(target_ref), ..Endpoint::default() }];
    slice.annotations_mut().insert(TOKEN_ANNOTATION.to_owned(), token.to_string());
}

fn known<'a>(observed: &'a Observed, name: &str) -> &'a ElectionStatus {
    let status = observed.conclave.status.as_ref().expect("a status");
    status.elections.iter().find(|election| election.name == name).expect("it is listed")
}

fn announced(changes: &[Change]) -> Vec<String> {
    let note = |change: &Change| {
        let Change::Announce(notice) = change else { return None };
        let event = notice.event(None);
        Some(format!("{}: {}", event.reason, event.note.expect("a note")))
    };
    changes.iter().filter_map(note).collect()
}

#[test]
fn a_group_without_named_elections_has_nothing_of_them() {
    let observed = publishing(&[election("default", None)]);
    let status = observed.conclave.status.expect("a status");
    assert_eq!((status.elections, status.leaders), (Vec::new(), None));
    assert_eq!(observed.children.published.slices.len(), 0);
}

#[test]
fn each_named_election_has_a_slice_and_only_those_that_want_one_a_service() {
    let mut observed = publishing(&[
        election("default", None),
        election("reports", Some(8080)),
        election("mails", None),
    ]);
    let services = &observed.children.published.services;
    let names: Vec<_> = services.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["orders-reports"]);
    let spec = services[0].spec.clone().expect("a specification");
    assert_eq!(spec.selector, None, "the slice is what it leads to");
    assert_eq!(
        serde_json::json!(spec.ports),
        serde_json::json!([{ "port": 80, "targetPort": 8080, "protocol": "TCP" }])
    );
    assert_eq!(services[0].labels()[ELECTION_LABEL], "reports");
    assert_eq!(services[0].owner_references()[0].uid, "group-uid");

    let reports = slice(&mut observed, "conclave-orders.reports").clone();
    assert_eq!(reports.labels()[SERVICE_LABEL], "orders-reports");
    assert_eq!(reports.address_type, "IPv4");
    assert_eq!(
        serde_json::json!(reports.ports),
        serde_json::json!([{ "port": 8080, "protocol": "TCP" }])
    );
    let mails = slice(&mut observed, "conclave-orders.mails");
    assert_eq!(mails.labels()[SERVICE_LABEL], "no.service");
    assert_eq!(mails.ports.as_deref(), Some(&[][..]));
    assert_eq!(observed.children.published.slices.len(), 2);
    let status = observed.conclave.status.expect("a status");
    assert_eq!(status.leaders.as_deref(), Some("reports=-,mails=-"));
}

#[test]
fn no_slice_is_made_before_the_family_of_services_is_known() {
    let mut observed = settled();
    observed.conclave.spec.elections = vec![election("reports", None)];
    observed.children.service = None;
    assert!(!names(&plan(&observed)).contains(&"slice"));
    let mut service = objects::service(&observed.conclave);
    service.spec.get_or_insert_default().ip_families =
        Some(vec!["IPv6".to_owned(), "IPv4".to_owned()]);
    observed.children.service = Some(service);
    take_turns(&mut observed);
    assert_eq!(slice(&mut observed, "conclave-orders.reports").address_type, "IPv6");
    // Another family first, as after a change of the cluster: a slice keeps its own.
    observed.children.service = Some(objects::service(&observed.conclave));
    assert_eq!(plan(&observed), []);
}

#[test]
fn the_leader_is_reported_once_and_its_endpoint_stays() {
    let mut observed = publishing(&[election("reports", Some(8080))]);
    observed.now = Timestamp::from_second(40).expect("a time");
    lead(slice(&mut observed, "conclave-orders.reports"), 2, 7);
    let done = take_turns(&mut observed);
    assert_eq!(announced(&done), ["LeaderElected: b leads `reports` with token 7"]);
    assert_eq!(slice(&mut observed, "conclave-orders.reports").endpoints.len(), 1);
    let status = known(&observed, "reports");
    assert_eq!(status.leader.as_ref().map(|leader| leader.pod.as_str()), Some("b"));
    assert_eq!((status.token, &status.since), (Some(7), &Some(Time(observed.now))));

    // Another replica, later: it has the status alone.
    observed.now = Timestamp::from_second(90).expect("a time");
    observed.before.members = None;
    assert_eq!(plan(&observed), []);
    lead(slice(&mut observed, "conclave-orders.reports"), 2, 9);
    let done = take_turns(&mut observed);
    assert_eq!(announced(&done), ["LeaderElected: b leads `reports` with token 9"]);
    assert_eq!(known(&observed, "reports").since, Some(Time(observed.now)));
}

/// The record has the group's leader, and so have `status.leader` and the Event of its own.
#[test]
fn the_leader_of_the_group_is_announced_by_the_record_alone() {
    let mut observed = publishing(&[election("default", Some(8080))]);
    lead(slice(&mut observed, "conclave-orders.default"), 1, 17);
    assert_eq!(announced(&take_turns(&mut observed)), Vec::<String>::new());
    assert_eq!(known(&observed, "default").token, Some(17));
    assert_eq!(observed.conclave.status.and_then(|status| status.leaders), None);
}

#[test]
fn a_lead_that_is_over_is_no_event_and_is_not_announced_again() {
    let mut observed = publishing(&[election("reports", None)]);
    lead(slice(&mut observed, "conclave-orders.reports"), 2, 7);
    take_turns(&mut observed);
    slice(&mut observed, "conclave-orders.reports").endpoints.clear();
    assert_eq!(announced(&take_turns(&mut observed)), Vec::<String>::new());
    let status = observed.conclave.status.clone().expect("a status");
    assert_eq!(status.leaders.as_deref(), Some("reports=-"));
    // The slice was deleted, and its leader writes itself again.
    observed.children.published.slices.clear();
    take_turns(&mut observed);
    assert_eq!(known(&observed, "reports").token, Some(7));
    lead(slice(&mut observed, "conclave-orders.reports"), 2, 7);
    assert_eq!(announced(&take_turns(&mut observed)), Vec::<String>::new());
    assert!(known(&observed, "reports").leader.is_some());
}

#[test]
fn a_pod_that_is_gone_is_taken_off_its_slice() {
    let mut observed = publishing(&[election("reports", Some(8080))]);
    lead(slice(&mut observed, "conclave-orders.reports"), 2, 7);
    take_turns(&mut observed);
    slice(&mut observed, "conclave-orders.reports").metadata.resource_version =
        Some("5".to_owned());
    observed.pods.retain(|pod| pod.name != "b");
    let done = take_turns(&mut observed);
    let emptied = done.iter().find_map(|change| {
        let Change::EmptySlice(slice) = change else { return None };
        Some((slice.name.as_str(), slice.version.as_deref()))
    });
    assert_eq!(emptied, Some(("conclave-orders.reports", Some("5"))), "and no other version");
    assert_eq!(known(&observed, "reports").leader, None);
}

#[test]
fn what_is_wanted_no_longer_goes_away() {
    let mut observed =
        publishing(&[election("default", Some(8081)), election("reports", Some(8080))]);
    assert_eq!(observed.children.published.services.len(), 2);
    lead(slice(&mut observed, "conclave-orders.reports"), 2, 7);
    take_turns(&mut observed);

    // Its pod is gone; what is deleted need not be emptied.
    lead(slice(&mut observed, "conclave-orders.default"), 9, 17);
    observed.conclave.spec.elections = vec![election("reports", None)];
    let changes = plan(&observed);
    assert!(!names(&changes).contains(&"empty"));
    assert_eq!(names(&changes)[1..4], ["delete service", "delete service", "delete slice"]);
    take_turns(&mut observed);
    let kept = slice(&mut observed, "conclave-orders.reports");
    assert_eq!(kept.labels()[SERVICE_LABEL], "no.service");
    assert_eq!((kept.endpoints.len(), kept.ports.as_deref()), (1, Some(&[][..])));

    observed.conclave.spec.elections = vec![];
    take_turns(&mut observed);
    let Published { services, slices, .. } = &observed.children.published;
    assert!(services.is_empty() && slices.is_empty());
    assert_eq!(observed.conclave.status.map(|status| status.elections), Some(Vec::new()));
}

#[test]
fn a_service_of_another_owner_is_left_alone_and_reported() {
    let mut observed = settled();
    observed.conclave.spec.elections = vec![election("reports", Some(8080))];
    let mut other = Service::default();
    other.metadata.name = Some("orders-reports".to_owned());
    observed.children.published.services.push(other.clone());
    let done = take_turns(&mut observed);
    assert_eq!(observed.children.published.services, [other]);
    let found = slice(&mut observed, "conclave-orders.reports");
    assert_eq!(found.labels()[SERVICE_LABEL], "no.service", "nothing is led to our pods");
    let status = observed.conclave.status.clone().expect("a status");
    assert_eq!(condition(&status, status::SERVICES_PRESENT), is("False", "NameTaken"));
    let note =
        "NameTaken: these Services belong to somebody else, and are left alone: orders-reports";
    assert_eq!(announced(&done), [note]);

    observed.children.published.services.clear();
    take_turns(&mut observed);
    let found = slice(&mut observed, "conclave-orders.reports");
    assert_eq!(found.labels()[SERVICE_LABEL], "orders-reports");
    let status = observed.conclave.status.expect("a status");
    assert_eq!(condition(&status, status::SERVICES_PRESENT), is("True", "Present"));
}

#[test]
fn the_slice_of_an_earlier_resource_is_waited_out() {
    let mut observed = publishing(&[election("reports", None)]);
    lead(slice(&mut observed, "conclave-orders.reports"), 2, 7);
    slice(&mut observed, "conclave-orders.reports").owner_references_mut()[0].uid =
        "old".to_owned();
    assert_eq!(plan(&observed), [], "neither read nor written");
}

#[test]
fn a_specification_that_is_not_understood_takes_nothing_away() {
    let mut observed = publishing(&[election("reports", Some(8080))]);
    lead(slice(&mut observed, "conclave-orders.reports"), 2, 7);
    take_turns(&mut observed);
    observed.conclave.spec.elections = vec![election("mails", None), election("mails", None)];
    observed.children.role = Some(objects::role(&observed.conclave));
    assert_eq!(names(&plan(&observed)), ["status", "announce"]);
    take_turns(&mut observed);
    assert!(known(&observed, "reports").leader.is_some());
}

#[test]
fn a_lease_that_others_may_have_is_made_once_and_is_nobodys() {
    let reports =
        ElectionSpec { lease_name: Some("reports".to_owned()), ..election("reports", None) };
    let mut observed = settled();
    observed.conclave.spec.elections = vec![reports];
    let created = |changes: Vec<Change>| -> Vec<Lease> {
        let of = |change| if let Change::CreateLease(lease) = change { Some(*lease) } else { None };
        changes.into_iter().filter_map(of).collect()
    };
    let made = created(take_turns(&mut observed));
    let [lease] = &made[..] else { panic!("{made:?}") };
    assert_eq!((lease.name_any(), lease.owner_references()), ("reports".to_owned(), &[][..]));
    assert_eq!(lease.labels().get(GROUP_LABEL), None, "its renewals would wake the operator");
    let rules = observed.children.role.clone().and_then(|role| role.rules).unwrap_or_default();
    let may_update = |name: &str| {
        let names = Some(vec![name.to_owned()]);
        let rule = rules.iter().find(|rule| rule.resource_names == names).expect("a rule");
        rule.verbs.clone()
    };
    assert_eq!(may_update("reports"), ["get", "list", "watch", "update"]);
    assert_eq!(may_update("conclave-orders"), may_update("reports"));

    // Somebody deleted it, or the election goes another way.
    observed.children.published.leases.clear();
    assert_eq!(created(take_turns(&mut observed)), made);
    observed.conclave.spec.elections[0].lease_name = None;
    let changes = take_turns(&mut observed);
    assert!(matches!(&changes[..], [Change::ApplyRole(_)]), "only the right goes: {changes:?}");
}

#[test]
fn a_lease_that_is_there_already_is_left_as_it_is() {
    let reports =
        ElectionSpec { lease_name: Some("reports".to_owned()), ..election("reports", None) };
    let mut observed = settled();
    observed.conclave.spec.elections = vec![reports];
    observed.children.published.leases.insert("reports".to_owned());
    let changes = take_turns(&mut observed);
    assert!(!changes.iter().any(|change| matches!(change, Change::CreateLease(_))), "{changes:?}");
}
