//! Does what the plan says, one call for each change.

use std::fmt::Debug;

use conclave_crds::{AuthorityStatus, Conclave, ConclaveStatus};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::{error, info, warn};

use crate::events::Events;
use crate::notices::Notice;
use crate::plan::{Change, ObjectRef};
use crate::{AUTHORITY_FIELD_MANAGER, FIELD_MANAGER};

/// What carries out changes.
#[derive(Clone)]
pub struct Hands {
    client: Client,
    events: Events,
}

impl Hands {
    /// Hands that work with this client and sign events with the name of this replica.
    pub fn new(client: Client, replica: &str) -> Self {
        Self { events: Events::new(client.clone(), replica), client }
    }

    /// Carries out one change. The resource has the version of what was written of it after that.
    pub async fn apply(&self, conclave: &mut Conclave, change: &Change) -> kube::Result<()> {
        match change {
            Change::SetAuthority(authority) => self.set_authority(conclave, authority).await,
            Change::ApplyService(service) => self.apply_object(service.as_ref()).await,
            Change::ApplyRole(role) => self.apply_object(role.as_ref()).await,
            Change::ApplyRoleBinding(binding) => self.apply_object(binding.as_ref()).await,
            Change::SetStatus(status) => self.set_status(conclave, status).await,
            Change::CreateLease(lease) => self.create_lease(lease).await,
            Change::MarkLease(lease) => self.write_lease(lease, "lease marked").await,
            Change::TakeOverLease(lease) => self.write_lease(lease, "lease taken over").await,
            Change::ApplySlice(slice) => self.apply_slice(slice).await,
            Change::EmptySlice(slice) => self.empty_slice(conclave, slice).await,
            Change::DeleteService(service) => self.delete::<Service>(conclave, service).await,
            Change::DeleteSlice(slice) => self.delete::<EndpointSlice>(conclave, slice).await,
            Change::Announce(notice) => {
                self.announce(conclave, notice).await;
                Ok(())
            }
        }
    }

    async fn apply_object<K>(&self, object: &K) -> kube::Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let api: Api<K> = self.api(object.namespace());
        api.patch(&object.name_any(), &applied(), &Patch::Apply(object)).await?;
        info!(kind = %K::kind(&()), name = object.name_any(), "applied");
        Ok(())
    }

    /// Of the status this alone, so that it needs nothing else to be in order.
    async fn set_authority(
        &self,
        conclave: &mut Conclave,
        authority: &AuthorityStatus,
    ) -> kube::Result<()> {
        let params = PatchParams::apply(AUTHORITY_FIELD_MANAGER).force();
        self.patch_status(conclave, &params, json!({ "authority": authority })).await
    }

    async fn set_status(
        &self,
        conclave: &mut Conclave,
        status: &ConclaveStatus,
    ) -> kube::Result<()> {
        self.patch_status(conclave, &applied(), json!(status)).await
    }

    /// With the resource version that was read: a replica that slept, or that read before somebody
    /// else wrote, must not put an old epoch in place of a new one.
    async fn patch_status(
        &self,
        conclave: &mut Conclave,
        params: &PatchParams,
        status: Value,
    ) -> kube::Result<()> {
        let api: Api<Conclave> = self.api(conclave.namespace());
        let body = json!({
            "apiVersion": Conclave::api_version(&()),
            "kind": Conclave::kind(&()),
            "metadata": {
                "name": conclave.name_any(),
                "resourceVersion": conclave.resource_version(),
            },
            "status": status,
        });
        let patch = Patch::Apply(body);
        let patched = api.patch_status(&conclave.name_any(), params, &patch).await?;
        conclave.metadata.resource_version = patched.metadata.resource_version;
        Ok(())
    }

    /// A Lease that is there already is left as it is: the members own it. It is looked at anew, and what
    /// was to be announced of a lost one is not.
    async fn create_lease(&self, lease: &Lease) -> kube::Result<()> {
        let api: Api<Lease> = self.api(lease.namespace());
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        api.create(&params, lease).await?;
        info!(name = lease.name_any(), "lease created");
        Ok(())
    }

    /// With the version that was read: whatever somebody else has written meanwhile stays, and is looked
    /// at anew.
    async fn write_lease(&self, lease: &Lease, what: &str) -> kube::Result<()> {
        let api: Api<Lease> = self.api(lease.namespace());
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        api.replace(&lease.name_any(), &params, lease).await?;
        info!(name = lease.name_any(), "{what}");
        Ok(())
    }

    /// Without endpoints: they are the leader's, and stay as they are.
    async fn apply_slice(&self, slice: &EndpointSlice) -> kube::Result<()> {
        let api: Api<EndpointSlice> = self.api(slice.namespace());
        let mut body = json!(slice);
        if let Some(fields) = body.as_object_mut() {
            fields.remove("endpoints");
        }
        api.patch(&slice.name_any(), &applied(), &Patch::Apply(body)).await?;
        info!(name = slice.name_any(), "slice applied");
        Ok(())
    }

    /// With the version that was read: another pod that has begun to lead meanwhile stays.
    async fn empty_slice(&self, conclave: &Conclave, slice: &ObjectRef) -> kube::Result<()> {
        let api: Api<EndpointSlice> = self.api(conclave.namespace());
        let body = json!({ "metadata": { "resourceVersion": slice.version }, "endpoints": [] });
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        api.patch(&slice.name, &params, &Patch::Merge(body)).await?;
        info!(name = slice.name, "the pod in the slice is gone: emptied");
        Ok(())
    }

    /// That object alone: one that is gone already needs nothing, and another of its name stays.
    async fn delete<K>(&self, conclave: &Conclave, object: &ObjectRef) -> kube::Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api: Api<K> = self.api(conclave.namespace());
        let only = Preconditions { uid: object.uid.clone(), ..Preconditions::default() };
        let params = DeleteParams::default().preconditions(only);
        match api.delete(&object.name, &params).await {
            Ok(_) => info!(kind = %K::kind(&()), name = object.name, "deleted"),
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// An event that cannot be written is no reason to do everything again.
    async fn announce(&self, conclave: &Conclave, notice: &Notice) {
        let mut event = notice.event(conclave.namespace());
        let mut regarding = conclave.object_ref(&());
        // A person that looks for the reason looks at the pod.
        if matches!(notice, Notice::LabelChanged { .. })
            && let Some(pod) = event.secondary.replace(regarding.clone())
        {
            regarding = pod;
        }
        let (group, reason, note) = (conclave.name_any(), &event.reason, &event.note);
        if matches!(notice, Notice::RegisterLost { .. }) {
            let namespace = conclave.namespace();
            error!(namespace, group, reason, note, "event");
        } else {
            info!(group, reason, note, "event");
        }
        if let Err(error) = self.events.publish(&event, &regarding).await {
            warn!(%error, reason = event.reason, "no event could be written");
        }
    }

    fn api<K>(&self, namespace: Option<String>) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &namespace.unwrap_or_default())
    }
}

fn applied() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force()
}
