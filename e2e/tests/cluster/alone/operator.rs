//! What becomes of groups while their operator is replaced, away, or changes its authority.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_e2e::load::{HandOvers, Load};
use conclave_e2e::product::{self, Group, RELEASE, SIDECAR, SOON, SYSTEM};
use conclave_testbed::cluster::{Cluster, Namespace, Signal};
use conclave_testbed::wait;

use crate::trust::{POD, labelled};

#[test]
fn a_group_goes_on_through_upgrade_uninstall_and_install_again() -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.in_namespace("install-again", |namespace| {
        let group = Group::start(namespace, "{}", 3)?;
        let pods = group.pods()?;
        let held = group.lock(&pods[0], "kept", "5s")?;
        let leader = group.await_leader()?;
        product::helm_install(&cluster, &["--set", "operator.replicas=1"])?;
        product::helm_uninstall(&cluster)?;
        let taken = group.lock(&pods[1], "new", "5s")?;
        group.unlock(&pods[1], &taken)?;
        product::install(&cluster)?;
        ensure!(group.check(&pods[0], &held)? == 204, "the lock was lost");
        ensure!(group.await_leader()?.uid == leader.uid, "another leads");
        group.unlock(&pods[0], &held)
    })
}

/// Nobody is certified and nobody is injected meanwhile; all else goes on.
#[test]
fn the_operator_is_away() -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.in_namespace("trust-operator", |namespace| {
        let group = Group::start(namespace, "{}", 3)?;
        let outcome = without_operator(&cluster, || {
            let plain = labelled(&cluster, POD).replace("conclave.dev/group", "group");
            namespace.apply(&plain)?;
            namespace.kubectl(&["wait", "pod/alone", "--for=condition=Ready", "--timeout=60s"])?;
            let mine = labelled(&cluster, POD).replace("name: alone", "name: mine");
            let refused = namespace.apply(&mine).err().context("it was accepted")?.to_string();
            ensure!(refused.contains("conclave"), "refused by somebody else: {refused}");
            let leader = group.await_leader()?;
            let held = group.lock(&leader, "kept", "5s")?;
            // It comes back as another process, which has no certificate yet.
            let follower = group.followers()?[0].clone();
            cluster.signal_container(&follower, SIDECAR, Signal::TERM)?;
            wait::until("what is missing", SOON, || {
                let answer = group.post(&follower, "/v1/locks/none")?;
                ensure!(answer.text("detail")?.contains("certificate"), "{answer:?}");
                Ok(())
            })?;
            group.unlock(&leader, &held)
        });
        outcome?;
        group.await_members(3)
    })
}

pub(super) fn without_operator(cluster: &Cluster, act: impl FnOnce() -> Result<()>) -> Result<()> {
    let scale = |to: &str| {
        let name = format!("{RELEASE}-operator");
        let deployment = format!("deployment/{name}");
        cluster.kubectl(&["--namespace", SYSTEM, "scale", &deployment, "--replicas", to])?;
        cluster.await_deployment(SYSTEM, &name)
    };
    scale("0")?;
    wait::until("no operator", SOON, || {
        let left = cluster.pods_in(SYSTEM, "app.kubernetes.io/name=conclave")?;
        ensure!(left.is_empty(), "{} are left", left.len());
        Ok(())
    })?;
    let outcome = act();
    scale("2")?;
    outcome
}

/// The authority is replaced under load: nobody is refused, and nothing is lost.
#[test]
fn the_authority_is_replaced_under_load() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("clients in the pods' networks") {
        return Ok(());
    }
    cluster.in_namespace("trust-rotation", |namespace| {
        let short = "authority.overlap=10s,authority.certificateLifetime=40s";
        product::helm_install(&cluster, &["--set", short])?;
        let group = Group::form(namespace, "{}", 3)?;
        let before = bundle(namespace)?;
        ensure!(before.len() == 1, "{} authorities at first", before.len());
        let pods = group.pods()?;
        let load = Load::start(&cluster, &pods, HandOvers::None)?;
        let begun = load.now();
        let rotate = ["annotate", "--overwrite", "secret/conclave-authority"];
        // Whatever was asked for before is no new question.
        let now = format!("conclave.dev/rotate={}", uid_of(namespace)?);
        let rotate = [&["--namespace", SYSTEM][..], &rotate, &[now.as_str()]].concat();
        cluster.kubectl(&rotate)?;
        await_authorities(namespace, "both", |now| now.len() == 2 && now[0] == before[0])?;
        // Somebody new comes while there are two.
        group.apply_deployment("more", 2)?;
        namespace.await_deployment("more")?;
        group.await_members(5)?;
        await_authorities(namespace, "the new one", |now| now.len() == 1 && now != before)?;
        thread::sleep(Duration::from_secs(5));
        let end = load.now();
        let diary = load.end()?;
        let pause = diary.longest_pause(begun, end);
        println!("the authority is replaced: longest pause of all grants {} ms", pause.as_millis());
        ensure!(pause < Duration::from_secs(3), "nothing was granted for {pause:?}");
        diary.check()?;
        group.await_members(5)?;
        product::helm_install(&cluster, &["--reset-values"])
    })
}

/// What no other run of this test has.
fn uid_of(namespace: &Namespace<'_>) -> Result<String> {
    let get = ["get", "namespace", namespace.name(), "--output", "jsonpath={.metadata.uid}"];
    namespace.cluster().kubectl(&get)
}

fn await_authorities(
    namespace: &Namespace<'_>,
    what: &str,
    is_so: impl Fn(&[String]) -> bool,
) -> Result<()> {
    wait::until(what, Duration::from_secs(240), || {
        let now = bundle(namespace)?;
        ensure!(is_so(&now), "{} certificates of authorities", now.len());
        Ok(())
    })
}

/// The certificates of the authority that a group trusts.
fn bundle(namespace: &Namespace<'_>) -> Result<Vec<String>> {
    let path = "jsonpath={.status.authority.bundle}";
    let bundle = namespace.kubectl(&["get", "conclave/orders", "--output", path])?;
    Ok(bundle.split_whitespace().map(str::to_owned).collect())
}
