//! Manifests in the documents, whole ones and parts.

use anyhow::{Context, Result, bail, ensure};
use conclave_pods::inject::{Options, inject};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What the API server and the webhook, or the program, would refuse.
pub(crate) fn check(text: &str) -> Result<()> {
    for document in text.split("\n---\n") {
        let value: Value = serde_saphyr::from_str(document).context("it is no YAML")?;
        match value["kind"].as_str() {
            Some("Conclave") => drop(conclave_crds::read(document)?),
            Some("Deployment") => {
                is_whole::<Deployment>(&value)?;
                can_have_the_sidecar(document)?;
            }
            Some("NetworkPolicy") => is_whole::<NetworkPolicy>(&value)?,
            Some("ServiceAccount") => is_whole::<ServiceAccount>(&value)?,
            Some(kind) => bail!("nobody checks a manifest of the kind {kind}"),
            None => part(&value)?,
        }
    }
    Ok(())
}

/// It has no field that Kubernetes does not know.
fn is_whole<K: Serialize + DeserializeOwned>(value: &Value) -> Result<()> {
    let typed: K = serde_json::from_value(value.clone())?;
    let known = serde_json::to_value(&typed)?;
    ensure!(known == *value, "of {value}\nthis is known: {known}");
    Ok(())
}

/// A `spec` is that of a group; anything else belongs to a pod.
fn part(value: &Value) -> Result<()> {
    let fields: Vec<&String> = value.as_object().context("it is no object")?.keys().collect();
    if fields == ["spec"] {
        let whole = json!({
            "apiVersion": "conclave.dev/v1alpha1", "kind": "Conclave",
            "metadata": { "name": "orders" }, "spec": value["spec"],
        });
        return Ok(conclave_crds::read(&whole.to_string()).map(drop)?);
    }
    // The Prometheus of the cluster tests reads its like.
    if fields == ["rule_files", "scrape_configs"] {
        return Ok(());
    }
    let metadata = if fields == ["metadata"] { &value["metadata"] } else { value };
    let fields = metadata.as_object().context("it is no object")?.keys();
    for field in fields {
        ensure!(["annotations", "labels"].contains(&field.as_str()), "what is `{field}`?");
    }
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": { "containers": [{ "name": "application", "image": "application" }] },
    });
    pod["metadata"]["name"] = "till".into();
    can_have_the_sidecar(&pod.to_string())
}

/// An annotation that nobody knows is refused.
fn can_have_the_sidecar(manifest: &str) -> Result<()> {
    let has_group = manifest.contains("conclave.dev/group");
    let group = if has_group { None } else { Some("orders".to_owned()) };
    let injected = inject(manifest, &Options { group, ..Options::default() })?;
    ensure!(injected != manifest, "its pods get no sidecar: {manifest}");
    Ok(())
}

#[test]
fn what_is_wrong_in_a_manifest_is_refused() {
    let deployment = |label: &str, field: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\nspec:\n  \
             selector: {{matchLabels: {{app: a}}}}\n  template:\n    metadata:\n      \
             labels: {{app: a, {label}: orders}}\n    spec:\n      \
             containers: [{{name: a, {field}: a}}]\n"
        )
    };
    for good in [
        "spec: {evidence: ContainerStatus}",
        "annotations: {conclave.dev/elections: reports}",
        "metadata:\n  labels: {conclave.dev/group: till}",
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}",
        &deployment("conclave.dev/group", "image"),
    ] {
        check(good).unwrap_or_else(|error| panic!("{good}: {error:#}"));
    }
    for wrong in [
        "spec: {evidence: Rumour}",
        "spec: {timing: {heartbeat: 1s}}",
        "annotations: {config.conclave.dev/app-health-prot: '1'}",
        "{apiVersion: conclave.dev/v1, kind: Conclave, metadata: {name: a}, spec: {}}",
        "volumes: []",
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, automount: false}",
        &deployment("conclave.dev/groups", "image"),
        &deployment("conclave.dev/group", "picture"),
    ] {
        assert!(check(wrong).is_err(), "{wrong}");
    }
}
