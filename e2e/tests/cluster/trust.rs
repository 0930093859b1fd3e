//! A labelled deployment is admitted to a group, and nobody else.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use conclave_e2e::documented;
use conclave_e2e::product::{self, APPLICATION, Group, RELEASE, SIDECAR, SOON, SYSTEM};
use conclave_testbed::cluster::{Cluster, Namespace, Pod};
use conclave_testbed::wait;
use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;

use crate::group::clocks_of_one_machine_pass_the_audit;

/// What a user does in the first five minutes: a group, a label, a lock from their own container.
#[test]
fn a_label_is_all_that_a_deployment_needs() -> Result<()> {
    let cluster = Cluster::from_env()?;
    product::install(&cluster)?;
    cluster.in_namespace("trust-label", |namespace| {
        enforce_restricted(namespace)?;
        namespace.apply(CONCLAVE)?;
        namespace.apply(&labelled(&cluster, DEPLOYMENT))?;
        namespace.await_deployment("shop")?;
        let group = Group::of(namespace, "orders");
        group.await_members(3)?;
        let pods = group.pods()?;
        let held = group.lock(&pods[0], "report", "5s")?;
        group.unlock(&pods[0], &held)?;
        if cluster.is_ours_or_skip("the audit of clocks that are one") {
            clocks_of_one_machine_pass_the_audit(&group)?;
        }
        the_webhook_and_the_command_make_the_same_pod(&cluster, namespace)
    })
}

/// What the page about trust begins with: an account of the group's own, whose token is mounted nowhere unasked.
#[test]
fn the_application_has_no_credentials_and_its_sidecar_has() -> Result<()> {
    let cluster = Cluster::from_env()?;
    product::install(&cluster)?;
    cluster.in_namespace("trust-credentials", |namespace| {
        namespace.apply(CONCLAVE)?;
        namespace.apply(&documented::manifest(documented::SECURITY, "shop")?)?;
        let own = DEPLOYMENT.replace("containers:", "serviceAccountName: shop\n      containers:");
        namespace.apply(&labelled(&cluster, &own))?;
        namespace.await_deployment("shop")?;
        let group = Group::of(namespace, "orders");
        group.await_members(3)?;
        let pod = &group.pods()?[0];
        let held = group.lock(pod, "report", "5s")?;
        group.unlock(pod, &held)?;

        let tokens = "shopt -s nullglob; echo /var/run/secrets/*/*";
        let tokens = namespace.exec(&pod.name, APPLICATION, &["bash", "-c", tokens])?;
        ensure!(tokens.trim().is_empty(), "the application has {tokens}");
        let name = namespace.name();
        let register = "leases.coordination.k8s.io [] [conclave-orders] [get list watch update]";
        let may = |account| {
            Ok::<_, anyhow::Error>(cluster.rights([name, account], name)?.contains(register))
        };
        ensure!(may("shop")?, "the account of the group may not write its register");
        ensure!(!may("default")?, "every pod of the namespace may write the register");
        Ok(())
    })
}

fn the_webhook_and_the_command_make_the_same_pod(
    cluster: &Cluster,
    namespace: &Namespace<'_>,
) -> Result<()> {
    let plain = labelled(cluster, POD);
    let by_webhook = as_created(namespace, &plain)?;
    let injected = product::inject(&plain, "orders", &cluster.images().product)?;
    let by_command = as_created(namespace, &injected)?;
    ensure!(by_webhook == by_command, "{by_webhook:#}\nis not\n{by_command:#}");
    let first = &by_webhook["spec"]["initContainers"][0];
    ensure!(first["name"] == SIDECAR, "the first init container is {}", first["name"]);
    Ok(())
}

/// What the API server would make of a manifest.
fn as_created(namespace: &Namespace<'_>, manifest: &str) -> Result<Value> {
    let cluster = namespace.cluster();
    let create = ["--namespace", namespace.name(), "create", "--dry-run=server"];
    let create = [&create[..], &["--output=json", "--filename=-"]].concat();
    let mut pod: Value = serde_json::from_str(&cluster.kubectl_with_input(&create, manifest)?)?;
    let spec = pod["spec"].take().to_string();
    // The API server draws the name of the volume with its token.
    let drawn = spec.find("kube-api-access-").and_then(|at| spec.get(at..at + 21));
    let spec = drawn.map_or_else(|| spec.clone(), |name| spec.replace(name, "kube-api-access"));
    Ok(serde_json::json!({
        "spec": serde_json::from_str::<Value>(&spec)?,
        "labels": pod["metadata"]["labels"],
        "annotations": pod["metadata"]["annotations"],
    }))
}

#[test]
fn a_pod_that_cannot_have_the_sidecar_is_refused_with_the_reason() -> Result<()> {
    let cluster = Cluster::from_env()?;
    product::install(&cluster)?;
    cluster.in_namespace("trust-refused", |namespace| {
        let in_the_network_of_the_node =
            labelled(&cluster, POD).replace("spec:", "spec:\n  hostNetwork: true");
        let misspelt = labelled(&cluster, POD)
            .replace("metadata:", "metadata:\n  annotations: {config.conclave.dev/imag: x}");
        let pods =
            [(in_the_network_of_the_node, "hostNetwork"), (misspelt, "config.conclave.dev/imag")];
        let each_is_refused = || {
            pods.iter().try_for_each(|(pod, field)| {
                let refused = namespace.apply(pod).err().context("it was accepted")?.to_string();
                ensure!(refused.contains(field), "refused without `{field}`: {refused}");
                Ok(())
            })
        };
        each_is_refused()?;

        // The status of the group shows it too, and each problem for itself.
        namespace.apply(CONCLAVE)?;
        each_is_refused()?;
        let field = "--field-selector=reason=PodRefused,regarding.kind=Conclave,type=Warning";
        let events = ["get", "events.events.k8s.io", field, "-o", "jsonpath={.items[*].note}"];
        wait::until("an Event of each problem", SOON, || {
            let notes = namespace.kubectl(&events)?;
            let is_notified = pods.iter().all(|(_, field)| notes.contains(field));
            ensure!(is_notified, "`{notes}`");
            Ok(())
        })
    })
}

#[test]
fn a_job_with_a_sidecar_completes() -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.in_namespace("trust-job", |namespace| {
        let group = Group::start(namespace, "{}", 3)?;
        namespace.apply(&labelled(&cluster, JOB))?;
        namespace.kubectl(&["wait", "job/report", "--for=condition=complete", "--timeout=120s"])?;
        let printed = namespace.logs("job/report", APPLICATION)?;
        ensure!(printed.contains("\"token\""), "the job got no lock: {printed}");
        let init = namespace.logs("job/report", "prepare")?;
        ensure!(init.contains("\"members\""), "an init container found no sidecar: {init}");
        // It ended without giving the lock back: that comes free when its lease is over.
        let held = group.lock(&group.pods()?[0], "job", "30s")?;
        group.unlock(&group.pods()?[0], &held)
    })
}

/// A pod that is no member speaks to a member's peer port, and to the authority.
#[test]
fn a_hostile_pod_gets_nothing() -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.in_namespace("trust-hostile", |namespace| {
        let group = Group::start(namespace, "{}", 3)?;
        let leader = group.await_leader()?;
        let held = group.lock(&leader, "kept", "5s")?;
        namespace.apply(&labelled(&cluster, HOSTILE))?;
        namespace.kubectl(&["wait", "pod/alone", "--for=condition=Ready", "--timeout=60s"])?;

        let peer = leader.address;
        let plain =
            format!("exec 3<>/dev/tcp/{peer}/7071; echo hello hello >&3; timeout 5 cat <&3 2>&-");
        let sent = attempt(namespace, &plain)?;
        ensure!(sent.is_empty(), "it answered in plain text: {sent}");
        let tls = format!(
            "curl --no-alpn --silent --show-error --insecure --max-time 5 https://{peer}:7071/"
        );
        let sent = attempt(namespace, &tls)?;
        ensure!(sent.contains("alert"), "without a certificate it was told: {sent}");
        for reason in ["plain-text", "certificate"] {
            await_refusal(&group, &leader, reason)?;
        }

        // A token that is for the API server, and one for the authority in a pod of no group.
        for (token, expected) in [("api/token", "401"), ("conclave/token", "403")] {
            let sent = attempt(namespace, &ask_for_certificate(namespace, token)?)?;
            ensure!(sent.ends_with(expected), "with {token} the authority answered {sent:?}");
        }
        ensure!(group.check(&leader, &held)? == 204, "the lock was lost");
        ensure!(group.await_leader()?.uid == leader.uid, "another leads");
        group.unlock(&leader, &held)
    })
}

/// What a script of the hostile pod prints, whether it succeeds or not.
fn attempt(namespace: &Namespace<'_>, script: &str) -> Result<String> {
    let script = format!("({script}) 2>&1 || true");
    Ok(namespace.exec("alone", APPLICATION, &["bash", "-c", &script])?.trim().to_owned())
}

fn ask_for_certificate(namespace: &Namespace<'_>, token: &str) -> Result<String> {
    let path = "jsonpath={.status.authority.address}";
    let address = namespace.kubectl(&["get", "conclave/orders", "--output", path])?;
    let request = CertificateParams::default().serialize_request(&KeyPair::generate()?)?.pem()?;
    let body = serde_json::json!({"group": "orders", "request": request});
    Ok(format!(
        "curl --silent --insecure --max-time 10 --output /dev/null --write-out '%{{http_code}}' \
         --header \"Authorization: Bearer $(cat /tokens/{token})\" \
         --json '{body}' https://{address}/v1/certificates"
    ))
}

fn await_refusal(group: &Group<'_>, pod: &Pod, reason: &str) -> Result<()> {
    wait::until(reason, SOON, || {
        let metrics = group.metrics(pod)?;
        let label = format!("reason=\"{reason}\"");
        let counted = metrics.lines().find(|line| {
            line.starts_with("conclave_peer_") && line.contains(&label) && !line.ends_with(" 0")
        });
        ensure!(counted.is_some(), "no refusal was counted as {reason}");
        Ok(())
    })
}

/// What the service account of a group's pods may do that one of no group may not.
#[test]
fn the_pods_of_a_group_have_exactly_the_rights_that_are_documented() -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.in_namespace("trust-rights", |namespace| {
        let _group =
            Group::start(namespace, "{elections: [{name: reports, leaseName: reports}]}", 1)?;
        namespace.kubectl(&["create", "serviceaccount", "bare"])?;
        let name = namespace.name();
        let bare = cluster.rights([name, "bare"], name)?;
        let more: BTreeSet<String> = &cluster.rights([name, "default"], name)? - &bare;
        let documented = [
            "conclaves.conclave.dev [] [orders] [get list watch]",
            "endpointslices.discovery.k8s.io [] [] [get list watch]",
            "endpointslices.discovery.k8s.io [] [conclave-orders.reports] [patch]",
            "leases.coordination.k8s.io [] [conclave-orders] [get list watch update]",
            "leases.coordination.k8s.io [] [reports] [get list watch update]",
        ];
        ensure!(more.iter().eq(&documented), "the pods of a group may {more:#?}");
        Ok(())
    })
}

/// With the operator's own rights, and its own account. A bystander's Lease and Service stay as they are, and the
/// group works, whose objects are the operator's to write.
#[test]
fn the_operators_token_is_refused_what_belongs_to_no_group() -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.in_namespace("trust-guard", |namespace| {
        let _group = Group::start(namespace, "{elections: [{name: reports}]}", 1)?;
        namespace.apply(BYSTANDERS)?;
        let operator = format!("--as=system:serviceaccount:{SYSTEM}:{RELEASE}-operator");
        // It may `update` the one and `patch` the other: no right is missing.
        let apply = ["apply", "--server-side", "--force-conflicts"];
        for (kind, write) in [("lease", &["replace"][..]), ("service", &apply)] {
            let get = ["get", &format!("{kind}/bystander"), "--output=json"];
            let to = ["--namespace", namespace.name(), &operator, "--filename=-"];
            let write = [write, &to].concat();
            wait::until("a refusal", SOON, || {
                let mut object: Value = serde_json::from_str(&namespace.kubectl(&get)?)?;
                object["metadata"].as_object_mut().context("metadata")?.remove("managedFields");
                object["metadata"]["labels"] = serde_json::json!({"tests": "guard"});
                let written = cluster.kubectl_with_input(&write, &object.to_string());
                let refusal = written.err().context("it was written")?.to_string();
                ensure!(refusal.contains("nothing but what belongs to a Conclave"), "{refusal}");
                Ok(())
            })?;
        }
        Ok(())
    })
}

fn enforce_restricted(namespace: &Namespace<'_>) -> Result<()> {
    let label = "pod-security.kubernetes.io/enforce=restricted";
    namespace.cluster().kubectl(&["label", "namespace", namespace.name(), label]).map(drop)
}

pub(crate) fn labelled(cluster: &Cluster, manifest: &str) -> String {
    manifest.replace("IMAGE", &cluster.images().client).replace("RESTRICTED", RESTRICTED)
}

const CONCLAVE: &str = "
apiVersion: conclave.dev/v1alpha1
kind: Conclave
metadata: {name: orders}
spec: {}
";

/// What Pod Security asks of a container.
const RESTRICTED: &str = "{runAsNonRoot: true, runAsUser: 1000, allowPrivilegeEscalation: false, \
     capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}";

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop, conclave.dev/group: orders}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: application
        image: IMAGE
        imagePullPolicy: IfNotPresent
        command: [bash, -c, 'trap exit TERM; sleep infinity & wait']
        securityContext: RESTRICTED
";

/// What a thief of the operator's token would like to change.
const BYSTANDERS: &str = "
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: bystander}
spec: {holderIdentity: somebody}
---
apiVersion: v1
kind: Service
metadata: {name: bystander}
spec: {selector: {app: shop}, ports: [{port: 80}]}
";

pub(crate) const POD: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: alone
  labels: {conclave.dev/group: orders}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: application
    image: IMAGE
    imagePullPolicy: IfNotPresent
    command: [bash, -c, 'trap exit TERM; sleep infinity & wait']
    securityContext: RESTRICTED
";

/// It has every token that a pod can ask for, and is in no group.
const HOSTILE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: application
    image: IMAGE
    imagePullPolicy: IfNotPresent
    command: [bash, -c, 'trap exit TERM; sleep infinity & wait']
    securityContext: RESTRICTED
    volumeMounts:
    - {name: api, mountPath: /tokens/api}
    - {name: conclave, mountPath: /tokens/conclave}
  volumes:
  - name: api
    projected: {sources: [{serviceAccountToken: {path: token}}]}
  - name: conclave
    projected: {sources: [{serviceAccountToken: {path: token, audience: conclave}}]}
";

const JOB: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: report}
spec:
  template:
    metadata: {labels: {conclave.dev/group: orders}}
    spec:
      restartPolicy: Never
      initContainers:
      - name: prepare
        image: IMAGE
        imagePullPolicy: IfNotPresent
        command: [bash, -c, 'for i in $(seq 100); do curl -fsS localhost:7070/v1/members && exit; sleep 0.3; done; exit 1']
      containers:
      - name: application
        image: IMAGE
        imagePullPolicy: IfNotPresent
        command: [bash, -c, 'curl -fsS -X POST -H "Accept: application/json" "localhost:7070/v1/locks/job?wait=30s"']
"#;
