//! What an administrator does: install, upgrade, uninstall, wrong manifests, Prometheus.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use conclave_e2e::product::{self, Group};
use conclave_e2e::prometheus::Prometheus;
use conclave_testbed::cluster::Cluster;
use conclave_testbed::{binaries, cache, command};

/// What a reader of the quick start pastes once the operator is there. The images are those of this cluster.
#[test]
fn the_quick_start_works_as_it_is_written() -> Result<()> {
    let cluster = Cluster::from_env()?;
    product::install(&cluster)?;
    let page = std::fs::read_to_string(cache::workspace().join("docs/quickstart.md"))?;
    let (_, page) = page.split_once("## On a cluster\n").context("the part about a cluster")?;
    let scripts = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let of_kubectl =
        scripts.filter(|script| script.starts_with("kubectl") && !script.contains("helm"));
    cluster.in_namespace("shop", |_| {
        let mut shown = String::new();
        for script in of_kubectl {
            shown.push_str(&paste(&cluster, script)?);
        }
        ensure!(shown.contains("\"claim\":\"run-1\""), "the lock was not taken: {shown}");
        ensure!(shown.matches("problems/held").count() == 3, "three pods were to try: {shown}");
        Ok(())
    })
}

/// Runs a script of the document, in a namespace that is there already.
fn paste(cluster: &Cluster, script: &str) -> Result<String> {
    let kubectl = binaries::KUBECTL.path();
    let programs = kubectl.parent().context("it is in a directory")?;
    let path = format!("{}:{}", programs.display(), std::env::var("PATH")?);
    let script = script
        .replace("kubectl create namespace shop\n", "")
        .replace("curlimages/curl:8.12.1", &cluster.images().client);
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", &script]).env("KUBECONFIG", cluster.kubeconfig());
    command::output(bash.env("PATH", path))
}

#[test]
fn wrong_resources_are_refused_with_the_name_of_the_field() -> Result<()> {
    let cluster = Cluster::from_env()?;
    product::install(&cluster)?;
    cluster.in_namespace("install-refuses", |namespace| {
        for (spec, field) in WRONG {
            let manifest = format!(
                "{{apiVersion: conclave.dev/v1alpha1, kind: Conclave, metadata: {{name: wrong}}, \
                 spec: {spec}}}"
            );
            let refused = namespace.apply(&manifest).err().context(*spec)?.to_string();
            ensure!(refused.contains(field), "`{spec}` is refused without `{field}`: {refused}");
        }
        let long = "a".repeat(41);
        let manifest = format!(
            "{{apiVersion: conclave.dev/v1alpha1, kind: Conclave, metadata: {{name: {long}}}, \
             spec: {{}}}}"
        );
        ensure!(namespace.apply(&manifest).is_err(), "a name of 41 characters is accepted");
        Ok(())
    })
}

/// Wrong specs, and what the refusal must name.
const WRONG: &[(&str, &str)] = &[
    ("{arbiter: Dictator}", "spec.arbiter"),
    ("{arbitre: Quorum}", "arbitre"),
    ("{timing: {leaderLease: 9s, memberLease: 10s}}", "memberLease"),
    ("{timing: {leaderLease: 1s, heartbeat: 500ms}}", "leaderLease"),
    ("{timing: {leaderLease: soon}}", "leaderLease"),
    ("{locks: [{names: [a]}, {names: [a]}]}", "names"),
    ("{clock: {maxDriftPpm: -1}}", "maxDriftPpm"),
    ("{clock: {maxWanderPpb: 1000001}}", "maxWanderPpb"),
];

#[test]
fn the_definition_applies_without_a_warning() -> Result<()> {
    let cluster = Cluster::from_env()?;
    let definition = cache::workspace().join("crds/conclave.dev_conclaves.yaml");
    let definition = std::fs::read_to_string(definition)?;
    let arguments = ["apply", "--dry-run=server", "--warnings-as-errors", "--filename=-"];
    cluster.kubectl_with_input(&arguments, &definition).map(drop)
}

#[test]
fn prometheus_finds_the_pods_and_counts_one_leader() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a Prometheus beside the cluster") {
        return Ok(());
    }
    cluster.in_namespace("install-metrics", |namespace| {
        let group = Group::start(namespace, "{}", 3)?;
        let followers = group.followers()?;
        let held = group.lock(&followers[0], "counted", "5s")?;
        group.unlock(&followers[0], &held)?;
        let prometheus = Prometheus::start(&cluster, namespace.name())?;
        prometheus.await_value("sum(conclave_leader)", "1")?;
        prometheus.await_value("count(conclave_leader)", "3")?;
        // What the entry cost, and what the textbook says.
        prometheus.await_value("sum(conclave_lock_messages_sum)", "3")?;
        prometheus.await_value("max(conclave_lock_messages_expected)", "3")?;
        its_linter_has_nothing_against_the_metrics(&group)
    })
}

fn its_linter_has_nothing_against_the_metrics(group: &Group<'_>) -> Result<()> {
    let pod = group.await_leader()?;
    let metrics = group.metrics(&pod)?;
    ensure!(metrics.contains("conclave_leader"), "these are no metrics of a sidecar: {metrics}");
    command::output_of_input(&mut Command::new(binaries::PROMLINT.path()), &metrics).map(drop)
}
