//! The elections that are published: the Service of each that wants one, and the slice to which its leader writes
//! itself.
//!
//! A slice has two owners. What it is for is the operator's: its labels and ports. The lead is the leader's: the
//! endpoint, and the token of the lead. So neither has to wait for the other, and a Service follows its leader while
//! the operator is away. Only a pod that is gone cannot take itself off, and the operator does.

use std::collections::BTreeSet;

use conclave_crds::{
    Conclave, DEFAULT_ELECTION, ELECTION_LABEL, ElectionService, ElectionSpec, ElectionStatus,
    GROUP_LABEL, LeaderStatus, TOKEN_ANNOTATION, lease_names, policy, published, service_name,
    slice_name,
};
use futures::try_join;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Api, ListParams, ObjectMeta};
use kube::{Client, Resource, ResourceExt};

use crate::objects::{self, covers};
use crate::observe::{Observed, PodSeen};
use crate::plan::{Change, ObjectRef};

/// The label by which Kubernetes knows the Service of a slice.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// What that label has where there is no Service. None can have this name, because of the dot; kube-proxy
/// complains of a slice without the label.
const NO_SERVICE: &str = "no.service";

/// The label by which Kubernetes' own controllers leave a slice alone, and what it has.
const MANAGED: (&str, &str) = ("endpointslice.kubernetes.io/managed-by", "conclave.dev");

/// What was made for elections.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// Services: the group's, and those of other owners that have the name of one that is wanted.
    pub services: Vec<Service>,
    /// The slices of the group's elections.
    pub slices: Vec<EndpointSlice>,
    /// The Leases that the group's leaders must have besides, as far as they are there.
    pub leases: BTreeSet<String>,
}

/// Reads what was made for the elections of a group. A group that publishes none, and did not, costs no call.
pub(crate) async fn read(client: &Client, conclave: &Conclave) -> kube::Result<Published> {
    let did = conclave.status.as_ref().is_some_and(|status| !status.elections.is_empty());
    if !did && published(&conclave.spec).next().is_none() {
        return Ok(Published::default());
    }
    let namespace = conclave.namespace().unwrap_or_default();
    let services: Api<Service> = Api::namespaced(client.clone(), &namespace);
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), &namespace);
    let labels = format!("{GROUP_LABEL}={},{ELECTION_LABEL}", conclave.name_any());
    let of_group = ListParams::default().labels(&labels);
    let lists = try_join!(services.list(&of_group), slices.list(&of_group))?;
    let (mut made, mut of_elections) = (lists.0.items, lists.1.items);
    for (election, _) in with_service(conclave) {
        let name = service_name(&conclave.name_any(), election);
        if !made.iter().any(|service| service.name_any() == name) {
            made.extend(services.get_opt(&name).await?);
        }
    }
    for name in slices_wanted(conclave) {
        // One without our labels is somebody else's.
        if find(&of_elections, &name).is_none() {
            of_elections.extend(slices.get_opt(&name).await?);
        }
    }
    let all: Api<Lease> = Api::namespaced(client.clone(), &namespace);
    let mut leases = BTreeSet::new();
    for name in lease_names(&conclave.spec) {
        leases.extend(all.get_metadata_opt(name).await?.map(|lease| lease.name_any()));
    }
    Ok(Published { services: made, slices: of_elections, leases })
}

/// What is to be as it should be. While the specification is not understood all stays as it is.
pub(crate) fn changes(observed: &Observed) -> Vec<Change> {
    let conclave = &observed.conclave;
    if policy(conclave).is_err() {
        return Vec::new();
    }
    let seen = &observed.children.published;
    let services = with_service(conclave).filter_map(|(election, wanted)| {
        let wanted = service(conclave, election, wanted);
        let found = find(&seen.services, &wanted.name_any());
        let may = found.is_none_or(|found| is_of(conclave, found)) && !covers(found, &wanted);
        may.then(|| Change::ApplyService(Box::new(wanted)))
    });
    let slices = published(&conclave.spec).filter_map(|election| apply_slice(observed, election));
    let wanted = slices_wanted(conclave);
    let is_stale = |endpoint: &_| leader_of(endpoint, &observed.pods).is_none();
    let left = own_slices(observed)
        .filter(|slice| wanted.contains(&slice.name_any()) && slice.endpoints.iter().any(is_stale));
    let left = left.map(|slice| Change::EmptySlice(ObjectRef::of(slice)));
    let leases = lease_names(&conclave.spec).filter(|name| !seen.leases.contains(*name));
    let leases = leases.map(|name| objects::shared_lease(conclave, name));
    let leases = leases.map(|lease| Change::CreateLease(Box::new(lease)));
    // A Service may be refused, such as by a quota: then the leaders are known all the same.
    left.chain(slices).chain(leases).chain(services).collect()
}

/// Takes away what is there, and belongs to the group, and is not wanted any more. A status without elections comes
/// after that: it says that there is nothing left.
pub(crate) fn no_longer_wanted(observed: &Observed) -> Vec<Change> {
    let conclave = &observed.conclave;
    if policy(conclave).is_err() {
        return Vec::new();
    }
    let group = conclave.name_any();
    let services: BTreeSet<_> =
        with_service(conclave).map(|(election, _)| service_name(&group, election)).collect();
    let slices = slices_wanted(conclave);
    let seen = observed.children.published.services.iter();
    let services = seen
        .filter(|service| is_of(conclave, *service) && !services.contains(&service.name_any()))
        .map(|service| Change::DeleteService(ObjectRef::of(service)));
    let slices = own_slices(observed)
        .filter(|slice| !slices.contains(&slice.name_any()))
        .map(|slice| Change::DeleteSlice(ObjectRef::of(slice)));
    services.chain(slices).collect()
}

/// Who leads each published election, by its slice. While the specification is not understood nothing is news.
pub(crate) fn status(observed: &Observed) -> Vec<ElectionStatus> {
    let conclave = &observed.conclave;
    let before = conclave.status.as_ref().map(|status| status.elections.clone());
    let before = before.unwrap_or_default();
    if policy(conclave).is_err() {
        return before;
    }
    let of = |election: &ElectionSpec| {
        let name = &election.name;
        let slice = slice_name(&conclave.name_any(), name);
        let slice = own_slices(observed).find(|found| found.name_any() == slice);
        let known = before.iter().find(|known| known.name == *name);
        let token = slice.and_then(token).or_else(|| known?.token);
        let endpoint = slice.and_then(|slice| slice.endpoints.first()).filter(|_| token.is_some());
        let leader = endpoint.and_then(|endpoint| leader_of(endpoint, &observed.pods));
        let since =
            known.filter(|known| known.token == token).and_then(|known| known.since.clone());
        let leader = leader.map(|pod| LeaderStatus { pod: pod.name.clone(), uid: pod.uid.clone() });
        let since = since.or_else(|| token.map(|_| whole_seconds(observed.now)));
        ElectionStatus { name: name.clone(), leader, token, since }
    };
    published(&conclave.spec).map(of).collect()
}

/// Who leads the elections, in one text; nothing if there are no others than `default`.
pub(crate) fn leaders(elections: &[ElectionStatus]) -> Option<String> {
    let named = elections.iter().filter(|election| election.name != DEFAULT_ELECTION);
    let shown = named.map(|election| {
        let leader = election.leader.as_ref().map_or("-", |leader| leader.pod.as_str());
        format!("{}={leader}", election.name)
    });
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| shown.join(","))
}

/// The Services that are wanted, and whose name has another owner.
pub(crate) fn taken(observed: &Observed) -> Vec<String> {
    let conclave = &observed.conclave;
    let names =
        with_service(conclave).map(|(election, _)| service_name(&conclave.name_any(), election));
    names.filter(|name| is_taken(observed, name)).collect()
}

/// Whether a group wants Services at all.
pub(crate) fn wants_services(conclave: &Conclave) -> bool {
    with_service(conclave).next().is_some()
}

fn is_taken(observed: &Observed, name: &str) -> bool {
    let found = find(&observed.children.published.services, name);
    found.is_some_and(|found| !is_of(&observed.conclave, found))
}

/// The names of the slices of published elections.
pub(crate) fn slices_wanted(conclave: &Conclave) -> BTreeSet<String> {
    let group = conclave.name_any();
    published(&conclave.spec).map(|election| slice_name(&group, &election.name)).collect()
}

fn with_service(conclave: &Conclave) -> impl Iterator<Item = (&ElectionSpec, &ElectionService)> {
    let elections = conclave.spec.elections.iter();
    elections.filter_map(|election| Some((election, election.service.as_ref()?)))
}

/// A Service without a selector: its slice is what it leads to.
pub(crate) fn service(
    conclave: &Conclave,
    election: &ElectionSpec,
    wanted: &ElectionService,
) -> Service {
    let port = ServicePort {
        port: wanted.port,
        target_port: Some(IntOrString::Int(wanted.target_port)),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    };
    let spec = ServiceSpec { ports: Some(vec![port]), ..ServiceSpec::default() };
    let name = service_name(&conclave.name_any(), election);
    Service { metadata: metadata(conclave, election, name), spec: Some(spec), ..Service::default() }
}

/// Makes a slice, or what is the operator's of it, if it is not as it should be. The family of its addresses is that
/// of Services, as the headless one of the group has it, and cannot change.
fn apply_slice(observed: &Observed, election: &ElectionSpec) -> Option<Change> {
    let conclave = &observed.conclave;
    let name = slice_name(&conclave.name_any(), &election.name);
    let found = find(&observed.children.published.slices, &name);
    if found.is_some_and(|found| !is_of(conclave, found)) {
        return None;
    }
    let family = found.map(|found| found.address_type.clone());
    let address_type = family.or_else(|| family_of(observed.children.service.as_ref()?))?;
    let endpoints = found.map(|found| found.endpoints.clone()).unwrap_or_default();
    let wanted = EndpointSlice { endpoints, ..slice(observed, election, address_type) };
    (!covers(found, &wanted)).then(|| Change::ApplySlice(Box::new(wanted)))
}

/// The slice of an election, without endpoints.
pub(crate) fn slice(
    observed: &Observed,
    election: &ElectionSpec,
    address_type: String,
) -> EndpointSlice {
    let conclave = &observed.conclave;
    let name = service_name(&conclave.name_any(), election);
    let service = election.service.as_ref().filter(|_| !is_taken(observed, &name));
    let port = |service: &ElectionService| EndpointPort {
        port: Some(service.target_port),
        protocol: Some("TCP".to_owned()),
        ..EndpointPort::default()
    };
    let ports = Some(service.map(port).into_iter().collect());
    let leads_to = service.map_or_else(|| NO_SERVICE.to_owned(), |_| name);
    let slice = slice_name(&conclave.name_any(), &election.name);
    let mut metadata = metadata(conclave, election, slice);
    metadata.labels.get_or_insert_default().extend([
        (SERVICE_LABEL.to_owned(), leads_to),
        (MANAGED.0.to_owned(), MANAGED.1.to_owned()),
    ]);
    EndpointSlice { address_type, endpoints: Vec::new(), metadata, ports }
}

fn metadata(conclave: &Conclave, election: &ElectionSpec, name: String) -> ObjectMeta {
    let mut metadata = ObjectMeta { name: Some(name), ..objects::metadata(conclave) };
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(ELECTION_LABEL.to_owned(), election.name.clone());
    metadata
}

fn family_of(service: &Service) -> Option<String> {
    let families = service.spec.as_ref()?.ip_families.as_ref();
    let first = families.and_then(|families| families.first());
    Some(first.cloned().unwrap_or_else(|| "IPv4".to_owned()))
}

fn own_slices(observed: &Observed) -> impl Iterator<Item = &EndpointSlice> {
    let slices = observed.children.published.slices.iter();
    slices.filter(|slice| is_of(&observed.conclave, *slice))
}

/// The pod behind an endpoint, if it is one of the group and lives.
fn leader_of<'a>(
    endpoint: &k8s_openapi::api::discovery::v1::Endpoint,
    pods: &'a [PodSeen],
) -> Option<&'a PodSeen> {
    let uid = endpoint.target_ref.as_ref()?.uid.as_deref()?;
    pods.iter().find(|pod| pod.uid == uid && !pod.is_over)
}

fn token(slice: &EndpointSlice) -> Option<i64> {
    slice.annotations().get(TOKEN_ANNOTATION)?.parse().ok()
}

fn find<'a, K: Resource<DynamicType = ()>>(objects: &'a [K], name: &str) -> Option<&'a K> {
    objects.iter().find(|object| object.name_any() == name)
}

/// Whether an object belongs to the resource.
fn is_of<K: Resource>(conclave: &Conclave, object: &K) -> bool {
    let owner = conclave.metadata.uid.as_deref();
    let owners = object.owner_references().iter();
    owner.is_some() && owners.map(|reference| reference.uid.as_str()).any(|uid| Some(uid) == owner)
}

/// The API server keeps whole seconds.
fn whole_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
