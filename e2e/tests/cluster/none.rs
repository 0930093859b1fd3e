//! A group without an arbiter: as the textbooks have it, in pods.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use conclave_e2e::product::{Group, SIDECAR, SOON, claim_path};
use conclave_testbed::cluster::{Cluster, Cut, Pod, Signal};
use conclave_testbed::wait;

const NONE: &str = "{arbiter: None, timing: {leaderLease: 600ms, heartbeat: 120ms, memberLease: 3s, apiOutage: 30s}}";

const QUORUM: &str =
    "{timing: {leaderLease: 600ms, heartbeat: 120ms, memberLease: 3s, apiOutage: 30s}}";

#[test]
fn pods_find_one_another_and_each_side_of_a_partition_has_its_own_leader() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a partition") {
        return Ok(());
    }
    cluster.in_namespace("none-parts", |namespace| {
        let group = Group::start(namespace, NONE, 3)?;
        let pods = group.pods()?;
        let leader = group.await_agreement(&pods)?;
        let grant = group.lock(&pods[0], "advised", "10s")?;
        ensure!(grant.text("guarantee")? == "advisory", "{grant:?}");
        ensure!(grant.body["token"].is_null(), "a token without an arbiter: {grant:?}");
        let refused = group.post(&pods[1], "/v1/locks/advised")?;
        ensure!(refused.status == 423, "{refused:?}");
        group.unlock(&pods[0], &grant)?;

        // Nobody reads or writes the register: the Lease has never had a record.
        let record = ["get", "lease/conclave-orders", "-o", "jsonpath={.metadata.annotations}"];
        let record = namespace.kubectl(&record)?;
        ensure!(!record.contains("record"), "somebody wrote {record}");

        let (alone, others): (Vec<Pod>, Vec<Pod>) =
            pods.iter().cloned().partition(|pod| pod.name == leader);
        cluster.cut(&alone[0], Cut::Both)?;
        wait::until("a leader on each side", SOON, || {
            for side in [&alone, &others] {
                let known = group.await_agreement(side)?;
                ensure!(side.iter().any(|pod| pod.name == known), "{known} is on the other side");
            }
            Ok(())
        })?;
        let both =
            [group.lock(&alone[0], "twice", "10s")?, group.lock(&others[0], "twice", "10s")?];
        ensure!(both.iter().all(|grant| grant.body["guarantee"] == "advisory"), "{both:?}");
        cluster.heal(&alone[0])?;
        group.await_agreement(&pods)?;

        // Another process of the same pod is another member.
        let leader = group.await_agreement(&pods)?;
        let killed = pods.iter().find(|pod| pod.name == leader).expect("it is one of them");
        cluster.signal_container(killed, SIDECAR, Signal::KILL)?;
        group.await_members(3)?;
        group.await_agreement(&pods).map(drop)
    })
}

#[test]
fn the_arbiter_of_a_living_group_is_taken_away_and_given_back() -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.in_namespace("none-switches", |namespace| {
        let group = Group::start(namespace, QUORUM, 3)?;
        let pods = group.pods()?;
        let held = group.lock(&pods[0], "kept", "10s")?;
        ensure!(held.text("guarantee")? == "safe", "{held:?}");
        set_arbiter(&group, &pods, "None")?;
        ensure!(group.check(&pods[0], &held)? == 204, "the hold was lost on the way");
        let claim = group.get(&pods[0], &claim_path(&held)?)?;
        ensure!(claim.text("guarantee")? == "advisory", "{claim:?}");

        let waiting = group.post(&pods[1], "/v1/locks/kept?wait=0s")?;
        ensure!(waiting.status == 423, "{waiting:?}");
        thread::scope(|scope| -> Result<()> {
            let waiter = scope.spawn(|| group.lock(&pods[1], "kept", "60s"));
            thread::sleep(Duration::from_secs(1));
            set_arbiter(&group, &pods, "Quorum")?;
            ensure!(group.check(&pods[0], &held)? == 410, "an advisory hold became a safe one");
            let next = waiter.join().expect("it does not panic")?;
            ensure!(next.text("guarantee")? == "safe", "{next:?}");
            ensure!(next.number("token")? > held.number("token")?, "{held:?}, then {next:?}");
            Ok(())
        })
    })
}

/// Edits the resource, and waits until all go by it.
fn set_arbiter(group: &Group<'_>, pods: &[Pod], arbiter: &str) -> Result<()> {
    let patch = format!(r#"{{"spec":{{"arbiter":"{arbiter}"}}}}"#);
    group.namespace.kubectl(&["patch", "ccv", "orders", "--type=merge", "--patch", &patch])?;
    wait::until(arbiter, SOON, || {
        for pod in pods {
            let status = group.get(pod, "/v1/status")?;
            ensure!(status.text("arbiter")? == arbiter, "{} has {status:?}", pod.name);
        }
        group.await_leader().map(drop)
    })
}
