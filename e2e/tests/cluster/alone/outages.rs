//! What becomes of pods and groups while the API server is away.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use conclave_e2e::faults::{BRIEF, CALM, FAST, with_group};
use conclave_e2e::load::{Grant, HandOvers, Load};
use conclave_e2e::product::{self, Group, SIDECAR};
use conclave_testbed::cluster::{Cluster, Pod, Signal};

use crate::smoke::{SELECTOR, deploy, ping};

/// One outage for two groups, of which one bears it and the other does not.
#[test]
fn the_api_server_is_away_for_longer_than_one_group_bears_and_not_the_other() -> Result<()> {
    with_group("faults-long-outage", BRIEF, 3, |_, brief| {
        with_group("faults-outage", FAST, 5, |cluster, group| {
            both_without_the_api_server(cluster, group, brief)?;
            its_leader_dies_without_the_api_server(cluster, group)
        })
    })
}

fn both_without_the_api_server(
    cluster: &Cluster,
    group: &Group<'_>,
    brief: &Group<'_>,
) -> Result<()> {
    let load = Load::start(cluster, &group.pods()?, HandOvers::None)?;
    let brief_load = Load::start(cluster, &brief.pods()?, HandOvers::None)?;
    thread::sleep(Duration::from_secs(2));
    let (at, brief_at) = (load.now(), brief_load.now());
    cluster.stop_api_server()?;
    thread::sleep(Duration::from_secs(40));
    let (until, brief_back) = (load.now(), brief_load.now());
    cluster.start_api_server()?;
    brief.await_leader()?;
    thread::sleep(CALM);
    let (diary, brief_diary) = (load.end()?, brief_load.end()?);

    let pause = diary.longest_pause(at, until);
    println!("40 s without the API server: longest pause {} ms", pause.as_millis());
    ensure!(pause < Duration::from_secs(2), "nothing was granted for {pause:?}");
    diary.check()?;

    // apiOutage and leaderLease after it began, at the latest.
    let late = brief_at + Duration::from_millis(11_000);
    let within = |grant: &&Grant| (late..brief_back).contains(&grant.at);
    let wrong = brief_diary.grants().iter().find(within);
    ensure!(wrong.is_none(), "granted although the register was away for too long: {wrong:?}");
    let again = brief_diary.grants().iter().find(|grant| grant.at > brief_back);
    let again = again.map(|grant| grant.at.saturating_sub(brief_back));
    println!("an outage that is too long: granted again {again:?} after its end");
    ensure!(again.is_some(), "nothing was granted afterwards");
    brief_diary.check()
}

/// Nobody can follow it before the API server is back.
fn its_leader_dies_without_the_api_server(cluster: &Cluster, group: &Group<'_>) -> Result<()> {
    let leader = group.await_leader()?;
    let epoch = group.epoch(&leader)?;
    let load = Load::start(cluster, &group.pods()?, HandOvers::None)?;
    cluster.stop_api_server()?;
    cluster.signal_container(&leader, SIDECAR, Signal::KILL)?;
    thread::sleep(Duration::from_secs(6));
    let back = load.now();
    cluster.start_api_server()?;
    group.await_members(5)?;
    thread::sleep(Duration::from_secs(3));
    let diary = load.end()?;
    let took = diary.next_grant(back, epoch)?;
    println!("leader killed without the API server: next grant {} ms after it", took.as_millis());
    ensure!(diary.next_grant(Duration::ZERO, epoch)? > back, "a view began without the register");
    diary.check()
}

#[test]
fn locks_go_on_without_the_operator_and_without_the_api_server() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a restart of the API server") {
        return Ok(());
    }
    cluster.in_namespace("group-alone", |namespace| {
        Group::traced(namespace, FAST, 3, |group| {
            let pods = group.pods()?;
            let held = group.lock(&pods[0], "kept", "5s")?;
            let system = ["--namespace", product::SYSTEM];
            let scale = ["scale", "deployment", "--all", "--replicas=0"];
            cluster.kubectl(&[&system[..], &scale].concat())?;
            let taken = group.lock(&pods[1], "new", "5s")?;
            group.unlock(&pods[1], &taken)?;
            let leader = group.await_leader()?;
            cluster.stop_api_server()?;
            thread::sleep(Duration::from_secs(5));
            cluster.start_api_server()?;
            ensure!(group.check(&pods[0], &held)? == 204, "the lock was lost");
            ensure!(group.await_leader()?.uid == leader.uid, "another leads");
            product::install(&cluster)?;
            group.unlock(&pods[0], &held)
        })
    })
}

#[test]
fn a_group_forms_soon_after_the_api_server_was_away() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("the API server is stopped") {
        return Ok(());
    }
    product::install(&cluster)?;
    // Long enough to break every watch, and too short for the operator to lose its turn.
    cluster.stop_api_server()?;
    thread::sleep(Duration::from_secs(3));
    cluster.start_api_server()?;
    cluster.in_namespace("install-soon", |namespace| Group::form(namespace, "{}", 3).map(drop))
}

#[test]
fn running_pods_survive_a_restart_of_the_api_server() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a restart of the API server") {
        return Ok(());
    }
    cluster.in_namespace("smoke-restart", |namespace| {
        let before = deploy(namespace)?;
        cluster.stop_api_server()?;
        ensure!(namespace.kubectl(&["get", "pods"]).is_err(), "the API server still answers");
        cluster.start_api_server()?;

        let after = namespace.pods(SELECTOR)?;
        let uids = |pods: &[Pod]| pods.iter().map(|pod| pod.uid.clone()).collect::<Vec<_>>();
        ensure!(uids(&before) == uids(&after), "other pods than before: {after:?}");
        ping(namespace, &after[0], &after[1].address.to_string())
    })
}
