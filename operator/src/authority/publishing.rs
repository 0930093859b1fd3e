//! Where people and programs find out whom to trust: the status of each group, and the webhook.

use conclave_crds::{AuthorityStatus, Conclave};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use tracing::info;

/// The field manager of the one field in the webhook's configuration that is not the chart's.
const FIELD_MANAGER: &str = "conclave-operator-authority";

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
        let params = PatchParams::apply(FIELD_MANAGER).force();
        api.patch(name, &params, &Patch::Apply(body)).await?;
        info!(name, "the webhook has the certificates of the authority");
        Ok(())
    }

    /// Whether every group and the webhook have these certificates.
    pub(super) async fn is_done(&self, bundle: &str) -> kube::Result<bool> {
        if let Some(name) = &self.webhook {
            let api: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
            let found = api.get_opt(name).await?.unwrap_or_default();
            if !webhooks(&found).iter().all(|webhook| trusts(webhook, bundle)) {
                return Ok(false);
            }
        }
        let apis: Vec<Api<Conclave>> = match self.namespaces.as_slice() {
            [] => vec![Api::all(self.client.clone())],
            some => some.iter().map(|one| Api::namespaced(self.client.clone(), one)).collect(),
        };
        for api in apis {
            let groups = api.list(&ListParams::default()).await?;
            if !groups.iter().all(|group| knows(group, bundle)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn webhooks(configuration: &MutatingWebhookConfiguration) -> &[MutatingWebhook] {
    configuration.webhooks.as_deref().unwrap_or_default()
}

fn trusts(webhook: &MutatingWebhook, bundle: &str) -> bool {
    webhook.client_config.ca_bundle.as_ref().is_some_and(|found| found.0 == bundle.as_bytes())
}

/// A group that is being deleted is told nothing more.
fn knows(group: &Conclave, bundle: &str) -> bool {
    let status = group.status.as_ref().and_then(|status| status.authority.as_ref());
    group.metadata.deletion_timestamp.is_some()
        || status.is_some_and(|AuthorityStatus { bundle: found, .. }| found == bundle)
}
