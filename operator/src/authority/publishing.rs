//! Where people and programs find out whom to trust: the status of each group, and the webhook.

use conclave_crds::{AuthorityStatus, Conclave};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tracing::info;

use crate::AUTHORITY_FIELD_MANAGER;

/// The port of the Service.
const PORT: u16 = 443;

/// What is published where.
pub(super) struct Publishing {
    pub(super) client: Client,
    /// The namespaces of the groups; all, if there is none.
    pub(super) namespaces: Vec<String>,
    pub(super) services: Api<Service>,
    pub(super) service: String,
    /// The configuration of the webhook, if there is one.
    pub(super) webhook: Option<String>,
}

impl Publishing {
    /// Where certificates are issued. An address, because a sidecar needs no name for it.
    pub(super) async fn address(&self) -> kube::Result<Option<String>> {
        let service = self.services.get_opt(&self.service).await?;
        let ip = service.and_then(|service| service.spec?.cluster_ip);
        Ok(ip
            .and_then(|ip| ip.parse().ok())
            .map(|ip| std::net::SocketAddr::new(ip, PORT).to_string()))
    }

    /// Tells the API server whom to trust when it calls the webhook. A configuration that is not
    /// there is not made: the chart does that.
    pub(super) async fn tell_webhook(&self, bundle: &str) -> kube::Result<()> {
        let Some(name) = &self.webhook else { return Ok(()) };
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let Some(configuration) = api.get_opt(name).await? else { return Ok(()) };
        let stale: Vec<_> = webhooks(&configuration)
            .iter()
            .filter(|webhook| !trusts(webhook, bundle))
            .map(|webhook| {
                let bundle = ByteString(bundle.as_bytes().to_vec());
                json!({ "name": webhook.name, "clientConfig": { "caBundle": bundle } })
            })
            .collect();
        if stale.is_empty() {
            return Ok(());
        }
        let body = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": { "name": name },
            "webhooks": stale,
        });
        // One field is not the chart's.
        let params = PatchParams::apply(AUTHORITY_FIELD_MANAGER).force();
        api.patch(name, &params, &Patch::Apply(body)).await?;
        info!(name, "the webhook has the certificates of the authority");
        Ok(())
    }

    /// Who has not got these certificates yet: groups, by namespace and name, and the webhook.
    pub(super) async fn lacking(&self, bundle: &str) -> kube::Result<Vec<String>> {
        let mut lacking = Vec::new();
        if let Some(name) = &self.webhook {
            let api: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
            let found = api.get_opt(name).await?.unwrap_or_default();
            if !webhooks(&found).iter().all(|webhook| trusts(webhook, bundle)) {
                lacking.push(format!("the webhook {name}"));
            }
        }
        let apis: Vec<Api<Conclave>> = match self.namespaces.as_slice() {
            [] => vec![Api::all(self.client.clone())],
            some => some.iter().map(|one| Api::namespaced(self.client.clone(), one)).collect(),
        };
        for api in apis {
            let groups = api.list(&ListParams::default()).await?;
            let without = groups.iter().filter(|group| !knows(group, bundle));
            lacking.extend(without.map(|group| {
                format!("{}/{}", group.namespace().unwrap_or_default(), group.name_any())
            }));
        }
        Ok(lacking)
    }
}

fn webhooks(configuration: &MutatingWebhookConfiguration) -> &[MutatingWebhook] {
    configuration.webhooks.as_deref().unwrap_or_default()
}

fn trusts(webhook: &MutatingWebhook, bundle: &str) -> bool {
    webhook.client_config.ca_bundle.as_ref().is_some_and(|found| found.0 == bundle.as_bytes())
}

/// A group that is being deleted is notified of nothing more. One that was never notified of an authority has
/// no member that trusts another one, and will be notified of this.
fn knows(group: &Conclave, bundle: &str) -> bool {
    let found = group.status.as_ref().and_then(|status| status.authority.as_ref());
    let knows =
        |found: &AuthorityStatus| *found == AuthorityStatus::new(found.address.clone(), bundle);
    group.metadata.deletion_timestamp.is_some() || found.is_none_or(knows)
}
