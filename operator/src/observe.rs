//! Reads what there is of one group.

use std::collections::BTreeSet;

use conclave_crds::{AuthorityStatus, Conclave, GROUP_LABEL, SIDECAR_CONTAINER, object_name};
use conclave_pods::inject::GROUP_VARIABLE;
use conclave_protocols::ids::Incarnation;
use futures::try_join;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Container, Pod, Service};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use crate::elections::{self, Published};
use crate::record::Register;
use crate::relabelled::{self, Relabelled};

/// All that the plan is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The resource.
    pub conclave: Conclave,
    /// Its register.
    pub register: Register,
    /// The Lease that it stands on.
    pub lease: Option<Lease>,
    /// For a mark, should one be made.
    pub nonce: u64,
    /// What was made for the group.
    pub children: Children,
    /// The pods with the group's label.
    pub pods: Vec<PodSeen>,
    /// The members whose pod lives and does not have the group's label any more.
    pub relabelled: Vec<Relabelled>,
    /// What the last plan saw, if this process made it.
    pub before: Before,
    /// Who certifies members, if this process knows.
    pub authority: Option<AuthorityStatus>,
    /// The time for conditions. Nothing is decided by it.
    pub now: Timestamp,
}

/// What the last plan saw: only for reporting what changed.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// The members, if this process has seen them.
    pub members: Option<BTreeSet<MemberPod>>,
    /// The UIDs of pods that were relabelled.
    pub relabelled: BTreeSet<String>,
}

/// What was made for a group.
#[derive(Clone, Debug, Default)]
pub struct Children {
    /// The headless Service.
    pub service: Option<Service>,
    /// What members may do.
    pub role: Option<Role>,
    /// Who may do it.
    pub role_binding: Option<RoleBinding>,
    /// What was made for elections.
    pub published: Published,
}

/// A member, as events name it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct MemberPod {
    /// Its pod and its process.
    pub incarnation: Incarnation,
    /// The name of its pod.
    pub pod: String,
}

/// What matters of a pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodSeen {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The ServiceAccount it runs as.
    pub service_account: String,
    /// It is ready.
    pub is_ready: bool,
    /// All its containers ended for good.
    pub is_over: bool,
    /// It has the sidecar of the group that its label names.
    pub has_sidecar: bool,
}

impl From<&Pod> for PodSeen {
    fn from(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
        let main = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
        let account = spec.and_then(|spec| spec.service_account_name.as_deref());
        let phase = status.and_then(|status| status.phase.as_deref());
        let conditions = status.and_then(|status| status.conditions.as_deref());
        Self {
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            service_account: account.unwrap_or("default").to_owned(),
            is_ready: conditions
                .unwrap_or_default()
                .iter()
                .any(|condition| condition.type_ == "Ready" && condition.status == "True"),
            is_over: matches!(phase, Some("Succeeded" | "Failed")),
            has_sidecar: init.iter().chain(main).any(|c| is_sidecar_of(c, pod)),
        }
    }
}

/// A sidecar stays in the group that it was injected for, whatever becomes of the label.
fn is_sidecar_of(container: &Container, pod: &Pod) -> bool {
    let mut variables = container.env.iter().flatten();
    let group = variables.find(|variable| variable.name == GROUP_VARIABLE);
    let group = group.and_then(|variable| variable.value.as_ref());
    let label = pod.labels().get(GROUP_LABEL);
    container.name == SIDECAR_CONTAINER && group.is_none_or(|group| Some(group) == label)
}

/// It does not go, and has not ended.
pub(crate) fn is_alive(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && !PodSeen::from(pod).is_over
}

/// Reads a group from the API server; `None` if the resource is gone. The reads are consistent:
/// what is decided about a missing Lease must not come from a cache.
pub async fn observe(
    client: &Client,
    namespace: &str,
    name: &str,
    before: Before,
    authority: Option<AuthorityStatus>,
) -> kube::Result<Option<Observed>> {
    // First, so that everything below is at least as new as the resource.
    let conclaves: Api<Conclave> = Api::namespaced(client.clone(), namespace);
    let Some(conclave) = conclaves.get_opt(name).await? else { return Ok(None) };

    // Before the pods: one that stands in a slice was there before that was read.
    let published = elections::read(client, &conclave).await?;

    let object = object_name(name);
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let roles: Api<Role> = Api::namespaced(client.clone(), namespace);
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let of_group = ListParams::default().labels(&format!("{GROUP_LABEL}={name}"));
    let (lease, service, role, role_binding, labelled) = try_join!(
        leases.get_opt(&object),
        services.get_opt(&object),
        roles.get_opt(&object),
        bindings.get_opt(&object),
        pods.list(&of_group),
    )?;
    let register = Register::read(lease.as_ref(), &conclave);
    let seen: Vec<_> = labelled.iter().map(PodSeen::from).collect();
    let relabelled = relabelled::find(name, &pods, &register, &seen).await?;
    Ok(Some(Observed {
        register,
        lease,
        nonce: draw(),
        conclave,
        children: Children { service, role, role_binding, published },
        pods: seen,
        relabelled,
        before,
        authority,
        now: Timestamp::now(),
    }))
}

/// A number that no other mark has: 53 bits, as everything that becomes a JSON number, and not zero.
fn draw() -> u64 {
    let drawn = getrandom::u64().expect("the system has a source of chance");
    (drawn & ((1 << 53) - 1)).max(1)
}
