//! The commands of the documents, pasted as they stand there: those for the shell of an operator, and those for the shell
//! of an application's container.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use conclave_e2e::product::{self, APPLICATION, Group, SIDECAR, SOON, SYSTEM};
use conclave_e2e::rotation;
use conclave_testbed::cluster::{Cluster, Namespace, Pod, Signal};
use conclave_testbed::{binaries, cache, skipped, wait};

use super::alerts::{delete_webhook_secret, make_webhook_secret};

/// Commands that change what is installed come last.
const PAGES: [&str; 8] = [
    "docs/http-api.md",
    "docs/clients.md",
    "docs/resource.md",
    "docs/runbooks.md",
    "docs/troubleshooting.md",
    "docs/monitoring.md",
    "docs/operating.md",
    "docs/security.md",
];

/// Commands that are for what an earlier one of their section began, and may have to wait for that.
const LATER: [&str; 2] = ["/resign?", "reports/transfer?"];

/// Commands that something else runs.
const ELSEWHERE: [(&str, &str); 6] = [
    ("cargo xtask image", "the benchmarks on the cluster run this image"),
    ("helm install conclave", "every test of the cluster has installed it so"),
    ("certificates.provider=CertManager", "alone/alerts.rs"),
    ("https://kubernetes.default.svc", "the cluster of the tests has no DNS"),
    ("conclave elect reports", "sidecar/tests/elect.rs"),
    ("kubectl apply -f - <<END", "the group of this test"),
];

#[test]
fn every_command_of_the_documents_runs_as_it_is_written() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("kinds of other operators") {
        return Ok(());
    }
    if !rotation::pastes()? {
        skipped::note("commands are pasted on one day of two, and this is the other");
        return Ok(());
    }
    product::install(&cluster)?;
    cluster.in_namespace("pasted", |namespace| {
        OTHERS.iter().try_for_each(|kind| define(&cluster, "apply", kind))?;
        make_webhook_secret(&cluster, 48)?;
        let pasted = Reader::begin(namespace).and_then(|reader| reader.pastes_all());
        let restored = product::helm_install(&cluster, &["--reset-values"]);
        let forgotten = delete_webhook_secret(&cluster);
        let undefined = OTHERS.iter().try_for_each(|kind| define(&cluster, "delete", kind));
        pasted.and(restored).and(forgotten).and(undefined)
    })
}

/// Somebody who follows the documents.
struct Reader<'a> {
    group: Group<'a>,
}

impl<'a> Reader<'a> {
    fn begin(namespace: &'a Namespace<'a>) -> Result<Self> {
        let client = &namespace.cluster().images().client;
        namespace.apply(&GROUP.replace("IMAGE", client))?;
        namespace.await_deployment("till")?;
        let group = Group::of(namespace, "orders");
        group.await_members(3)?;
        // So that there is a log of an earlier process.
        for pod in group.pods()? {
            namespace.cluster().signal_container(&pod, SIDECAR, Signal::TERM)?;
        }
        group.await_members(3)?;
        for pod in namespace.cluster().pods_in(SYSTEM, "app.kubernetes.io/component=operator")? {
            namespace.cluster().signal_container(&pod, "operator", Signal::TERM)?;
        }
        Ok(Self { group })
    }

    fn pastes_all(&self) -> Result<()> {
        let mut failed = Vec::new();
        let (mut done, mut left) = (0, BTreeSet::new());
        for page in PAGES {
            let text = fs::read_to_string(cache::workspace().join(page))?;
            for script in text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next())
            {
                let pod = self.settles()?;
                for command in commands(script) {
                    if let Some((known, _)) = ELSEWHERE.iter().find(|(of, _)| command.contains(of))
                    {
                        left.insert(known);
                        continue;
                    }
                    done += 1;
                    if let Err(error) = self.pastes(&pod, &command) {
                        failed.push(format!("{page}: {command}: {error:#}"));
                    }
                }
                self.ends_what_it_began()?;
            }
        }
        println!("{done} commands were pasted");
        ensure!(done > 100, "only {done} commands were found");
        ensure!(left.len() == ELSEWHERE.len(), "of what is left out, only {left:?} is there");
        ensure!(failed.is_empty(), "{failed:#?}");
        Ok(())
    }

    /// Waits until pods that were replaced are members, and takes the leader. The register names it too: a command may
    /// have had that deleted.
    fn settles(&self) -> Result<Pod> {
        self.group.namespace.await_deployment("till")?;
        self.group.await_members(3)?;
        let condition = r#"jsonpath={.status.conditions[?(@.type=="LeaderElected")].status}"#;
        wait::until("a leader in the resource", SOON, || {
            let get = ["get", "conclave/orders", "-o", condition];
            let is_there = self.group.namespace.kubectl(&get)?;
            ensure!(is_there == "True", "LeaderElected is {is_there}");
            Ok(())
        })?;
        self.group.await_leader()
    }

    fn pastes(&self, pod: &Pod, command: &str) -> Result<()> {
        if !command.starts_with("curl") {
            return self.outside(pod, command);
        }
        if LATER.iter().any(|later| command.contains(later)) {
            return wait::until(command, SOON, || self.in_the_container(pod, command));
        }
        self.in_the_container(pod, command)
    }

    fn in_the_container(&self, pod: &Pod, command: &str) -> Result<()> {
        let to = self.group.pods()?.into_iter().find(|other| other.uid != pod.uid);
        let to = to.context("another pod")?.name;
        let command = command.replace("to=shop-1", &format!("to={to}"));
        let is_stream = command.contains("curl -N");
        let command = if is_stream { format!("{command} --max-time 2") } else { command };
        let mut bash = self.bash(pod);
        let exec = ["-c", r#"kubectl exec -n "$NS" "$POD" -c "$0" -- bash -c "$1""#];
        let output = bash.args(exec).args([APPLICATION, &command]).output()?;
        let shown = String::from_utf8_lossy(&output.stdout);
        // The stream goes on: the time is over.
        let is_good = if is_stream { shown.contains("data:") } else { output.status.success() };
        ensure!(is_good, "{shown}{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    fn outside(&self, pod: &Pod, command: &str) -> Result<()> {
        let namespace = self.group.namespace;
        let (_, tag) = namespace.cluster().images().product.rsplit_once(':').context("a tag")?;
        let script = command
            .replace("-n shop", "-n $NS")
            .replace("--namespace shop", "--namespace $NS")
            .replace("{shop}", &format!("{{{}}}", namespace.name()))
            // One that is built from its source takes a cluster that it is not shown for an old one.
            .replace("helm template", "helm template --kube-version 1.34")
            .replace("image.tag=NEW", &format!("image.tag={tag}"));
        let mut bash = self.bash(pod);
        bash.args(["-euo", "pipefail", "-c", &script]).current_dir(cache::workspace());
        if command.contains("-n conclave-system $POD") {
            let operators =
                namespace.cluster().pods_in(SYSTEM, "app.kubernetes.io/component=operator")?;
            bash.env("POD", &operators.first().context("an operator")?.name);
        }
        let output = bash.output()?;
        // `grep` has found nothing in a log: that is an answer too.
        let complaints = String::from_utf8_lossy(&output.stderr);
        let has_found_nothing = command.starts_with("kubectl logs")
            && command.contains("| grep")
            && output.status.code() == Some(1)
            && !complaints.to_lowercase().contains("error");
        ensure!(output.status.success() || has_found_nothing, "{complaints}");
        Ok(())
    }

    fn bash(&self, pod: &Pod) -> Command {
        let mut bash = Command::new("bash");
        let programs = [&binaries::KUBECTL, &binaries::HELM_3].map(|program| program.path());
        let programs = programs.iter().filter_map(|program| program.parent());
        let path = std::env::var("PATH").unwrap_or_default();
        let path = programs.fold(path, |path, more| format!("{}:{path}", more.display()));
        bash.env("PATH", path).env("KUBECONFIG", self.group.namespace.cluster().kubeconfig());
        bash.envs([("NS", self.group.namespace.name()), ("POD", &pod.name)]);
        bash.envs([("GROUP", "orders"), ("ELECTION", "reports"), ("SA", "default")]);
        bash
    }

    /// Gives back the locks of a section, as somebody who goes on to the next.
    fn ends_what_it_began(&self) -> Result<()> {
        let pod = self.settles()?;
        let locks = self.group.get(&pod, "/v1/locks")?;
        for lock in locks.body["locks"].as_array().into_iter().flatten() {
            let holders = lock["holders"].as_array().into_iter().flatten();
            for claim in holders.filter_map(|holder| holder["claim"].as_str()) {
                let name = lock["lock"].as_str().context("a name")?.replace('/', "%2F");
                let path = format!("/v1/locks/{name}/claims/{claim}");
                self.group.call(&pod, "DELETE", &path)?;
            }
        }
        Ok(())
    }
}

/// The commands of a script: a line, with those that it goes on in.
fn commands(script: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut goes_on = false;
    let mut is_document = false;
    for line in script.lines() {
        match all.last_mut() {
            Some(last) if goes_on || is_document => last.extend(["\n", line]),
            _ => all.push(line.to_owned()),
        }
        is_document = line.contains("<<END") || (is_document && line != "END");
        goes_on = line.ends_with('\\') || line.ends_with('|');
    }
    all
}

/// Defines a kind of another operator, or takes it away.
pub(super) fn define(
    cluster: &Cluster,
    verb: &str,
    (group, kind, plural): &(&str, &str, &str),
) -> Result<()> {
    let definition = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    });
    cluster.kubectl_with_input(&[verb, "--filename=-"], &definition.to_string()).map(drop)
}

/// What those that the chart can work with define.
const OTHERS: [(&str, &str, &str); 4] = [
    CERTIFICATES,
    ("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
    ("monitoring.coreos.com", "PodMonitor", "podmonitors"),
    ("monitoring.coreos.com", "PrometheusRule", "prometheusrules"),
];

/// What helm must know to install a `Certificate` of cert-manager.
pub(super) const CERTIFICATES: (&str, &str, &str) =
    ("cert-manager.io", "Certificate", "certificates");

const GROUP: &str = "
apiVersion: conclave.dev/v1alpha1
kind: Conclave
metadata: {name: orders}
spec: {elections: [{name: reports, preemption: Graceful}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: till}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata:
      labels: {app: shop, conclave.dev/group: orders}
      annotations:
        config.conclave.dev/leader-elector: reports
        config.conclave.dev/mount-socket: application
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: application
        image: IMAGE
        imagePullPolicy: IfNotPresent
        command: [bash, -c, 'trap exit TERM; sleep infinity & wait']
";
