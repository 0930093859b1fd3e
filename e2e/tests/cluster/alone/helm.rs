//! What helm does to an installation, by each helm that the chart is for.
//!
//! The authority and what is signed by it are the operator's, not the chart's. Helm 3 merges what it
//! applies on its own side and Helm 4 has the API server do so, so that each could take away in a way
//! of its own what is not in the chart.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use conclave_e2e::product::{self, APPLICATION, RELEASE, SIDECAR, SOON, SYSTEM};
use conclave_testbed::binaries::{Binary, HELM_3, HELM_4, HELMS};
use conclave_testbed::cluster::{Cluster, Namespace, Pod};
use conclave_testbed::{cache, wait};
use serde_json::Value;

#[test]
fn no_upgrade_and_no_rendering_changes_whom_anybody_trusts() -> Result<()> {
    through_releases("helm-each", &HELMS.map(|helm| Helms { first: helm, then: helm, how: &[] }))
}

/// It would go on as the release before has begun, and is set not to.
#[test]
fn a_release_of_helm_3_goes_over_to_helm_4_and_the_trust_stays() -> Result<()> {
    if !Cluster::from_env()?.is_ours_or_skip("a second helm") {
        return Ok(());
    }
    let over = Helms { first: HELM_3, then: HELM_4, how: &["--server-side=true"] };
    through_releases("helm-over", &[over])
}

/// By which helm the operator is installed, and by which it is upgraded and how.
struct Helms {
    first: Binary,
    then: Binary,
    how: &'static [&'static str],
}

fn through_releases(name: &str, all: &[Helms]) -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.in_namespace(name, |namespace| {
        namespace.apply(&WITNESS.replace("IMAGE", &cluster.images().client))?;
        namespace.kubectl(&["wait", "pod/witness", "--for=condition=Ready", "--timeout=60s"])?;
        let outcome = all.iter().try_for_each(|helms| through_a_release(namespace, helms));
        // The tests after this one expect it, also after a failure.
        let installed = product::install(&cluster);
        outcome.and(installed)
    })
}

fn through_a_release(namespace: &Namespace<'_>, helms: &Helms) -> Result<()> {
    let cluster = namespace.cluster();
    product::helm_uninstall_by(cluster, helms.first)?;
    product::helm_install_by(cluster, helms.first, &[])?;
    let installed = Trust::of(namespace)?;
    labelled_pods_get_the_sidecar(namespace)?;

    the_rendering_is_the_same_beside_the_installation(cluster, helms.then)?;
    product::helm_install_by(cluster, helms.then, helms.how)?;
    Trust::of(namespace)?.must_be_that_of_the_same_pods(&installed)?;

    // Other processes make themselves other certificates, by the same authority.
    let others = ["--set", "operator.podAnnotations.tests=others"];
    product::helm_install_by(cluster, helms.then, &[helms.how, &others].concat())?;
    let replaced = Trust::of(namespace)?;
    ensure!(replaced.authority == installed.authority, "the authority is another");
    ensure!(replaced.webhook == installed.webhook, "the API server trusts another");
    ensure!(replaced.pods.is_disjoint(&installed.pods), "a pod was not replaced");
    labelled_pods_get_the_sidecar(namespace)?;

    product::helm_uninstall_by(cluster, helms.then)?;
    ensure!(authority(cluster)? == installed.authority, "the authority went with the release");
    Ok(())
}

/// Whom members and the API server trust, and what they are shown.
struct Trust {
    /// What the keys and certificates of the authority hash to: no key belongs into a log.
    authority: String,
    /// What the API server checks the webhook's certificate against.
    webhook: String,
    /// Who shows something.
    pods: BTreeSet<String>,
    /// The serving certificate of each replica, by its container: it lives in memory.
    shown: BTreeMap<String, String>,
}

impl Trust {
    /// As it is once the webhook knows the authority. Each replica must show what is signed by it.
    fn of(namespace: &Namespace<'_>) -> Result<Self> {
        let cluster = namespace.cluster();
        let webhook = wait::until("the webhook's authority", SOON, || webhook_bundle(cluster))?;
        let pods = cluster.pods_in(SYSTEM, "app.kubernetes.io/component=operator")?;
        ensure!(pods.len() == 2, "{} replicas", pods.len());
        let mut shown = BTreeMap::new();
        for pod in &pods {
            shown.insert(pod.container_id("operator")?, shown_by(namespace, pod, &webhook)?);
        }
        let pods = pods.into_iter().map(|pod| pod.uid).collect();
        Ok(Self { authority: authority(cluster)?, webhook, pods, shown })
    }

    /// A replica that its kubelet has started anew meanwhile shows what nobody can compare.
    fn must_be_that_of_the_same_pods(&self, before: &Self) -> Result<()> {
        ensure!(self.authority == before.authority, "the authority is another");
        ensure!(self.webhook == before.webhook, "the API server trusts another");
        ensure!(self.pods == before.pods, "pods were replaced that had not changed");
        for (container, shown) in &self.shown {
            let other = before.shown.get(container).filter(|other| *other != shown);
            ensure!(other.is_none(), "{container} showed {other:?} and shows {shown}");
        }
        Ok(())
    }
}

fn authority(cluster: &Cluster) -> Result<String> {
    let get = ["get", "secret/conclave-authority", "--namespace", SYSTEM, "--output=json"];
    let secret: Value = serde_json::from_str(&cluster.kubectl(&get)?)?;
    ensure!(secret["data"].is_object(), "the Secret of the authority is empty");
    Ok(cache::key(&[secret["data"].to_string().as_bytes()]))
}

fn webhook_bundle(cluster: &Cluster) -> Result<String> {
    let configuration = format!("mutatingwebhookconfiguration/{RELEASE}-operator");
    let bundle = "go-template={{(index .webhooks 0).clientConfig.caBundle | base64decode}}";
    let bundle = cluster.kubectl(&["get", &configuration, "--output", bundle])?;
    ensure!(bundle.starts_with("-----BEGIN"), "the webhook trusts nobody yet");
    Ok(bundle)
}

/// The certificate of a replica, as a client that trusts this authority sees it.
fn shown_by(namespace: &Namespace<'_>, replica: &Pod, bundle: &str) -> Result<String> {
    let script = format!(
        "curl --silent --show-error --max-time 5 --cacert <(echo '{bundle}') --output /dev/null \
         --resolve authority.conclave.dev:8443:{} --write-out '%{{certs}}' \
         https://authority.conclave.dev:8443/",
        replica.address
    );
    let shown = namespace.exec("witness", APPLICATION, &["bash", "-c", &script])?;
    ensure!(shown.contains("-----BEGIN CERTIFICATE-----"), "it shows no certificate: {shown}");
    Ok(shown)
}

/// The API server reaches the webhook, and believes it.
fn labelled_pods_get_the_sidecar(namespace: &Namespace<'_>) -> Result<()> {
    let cluster = namespace.cluster();
    let pod = WITNESS
        .replace("IMAGE", &cluster.images().client)
        .replace("{name: witness}", "{name: labelled, labels: {conclave.dev/group: orders}}");
    let create = ["--namespace", namespace.name(), "create", "--dry-run=server", "--output=json"];
    let created = cluster.kubectl_with_input(&[&create[..], &["--filename=-"]].concat(), &pod)?;
    let created: Value = serde_json::from_str(&created)?;
    let first = &created["spec"]["initContainers"][0]["name"];
    ensure!(first == SIDECAR, "the first init container is {first}");
    Ok(())
}

/// Helm is let look at the cluster, where everything is, and finds nothing there to render otherwise.
fn the_rendering_is_the_same_beside_the_installation(
    cluster: &Cluster,
    helm: Binary,
) -> Result<()> {
    let chart = product::chart().into_os_string().into_string();
    let chart = chart.ok().context("the path of the chart is text")?;
    let render = |more: &[&str]| {
        // A helm that is built without a version takes any cluster for an old one.
        let template =
            ["template", RELEASE, &chart, "--namespace", SYSTEM, "--kube-version=1.34.0"];
        cluster.helm_of(helm, &[&template[..], more].concat())
    };
    let alone = render(&[])?;
    for _ in 0..2 {
        let beside = render(&["--dry-run=server"])?;
        ensure!(beside == alone, "helm renders something else beside the installation");
    }
    // What is rendered each time would be applied each time.
    let keys = ["kind: Secret", "caBundle: "];
    let found = alone.lines().find(|line| keys.iter().any(|key| line.trim().starts_with(key)));
    ensure!(found.is_none(), "the chart has a `{found:?}`");
    Ok(())
}

const WITNESS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: witness}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: application
    image: IMAGE
    imagePullPolicy: IfNotPresent
    command: [bash, -c, 'trap exit TERM; sleep infinity & wait']
";
