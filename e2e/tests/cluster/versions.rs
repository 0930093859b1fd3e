//! A group is upgraded pod by pod, and back, while it works.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_e2e::leader_watch::{LEADS_GROUP, LeaderWatch};
use conclave_e2e::load::{HandOvers, Load};
use conclave_e2e::product::{self, Group, SELECTOR, SOON};
use conclave_testbed::cluster::{Cluster, Namespace, Pod};
use conclave_testbed::image;
use conclave_testbed::wait;

/// Short waits, so that the test need not be long.
const FAST: &str =
    "{timing: {leaderLease: 600ms, heartbeat: 120ms, memberLease: 3s, apiOutage: 60s}}";

/// Between two steps, so that the load sees each version at work.
const WHILE: Duration = Duration::from_secs(3);

#[test]
fn a_group_is_upgraded_and_rolled_back_under_load() -> Result<()> {
    let cluster = Cluster::from_env()?;
    // Nobody else's cluster has a sidecar of the next release.
    if !cluster.is_ours_or_skip("versions-rolling") {
        return Ok(());
    }
    product::install(&cluster)?;
    cluster.in_namespace("versions-rolling", |namespace| {
        let group = Group::of(namespace, "orders");
        namespace.apply(&format!(
            "apiVersion: conclave.dev/v1alpha1\nkind: Conclave\nmetadata: {{name: orders}}\n\
             spec: {FAST}\n"
        ))?;
        let present = &cluster.images().product;
        roll(&group, present, 3)?;
        let version = await_version(&group, 3, |_| true)?;
        // Two that are newer from the beginning: the load is theirs, and they follow an older one.
        group.apply_deployment_with("till", 2, image::NEXT)?;
        namespace.await_deployment("till")?;
        ensure!(
            await_version(&group, 5, |_| true)? == version,
            "not all speak more than {version}"
        );
        let load = Load::start(&cluster, &pods_of(namespace, "till")?, HandOvers::Some)?;
        let name = namespace.name().to_owned();
        let watch = LeaderWatch::start([LEADS_GROUP], move || watched(&name));
        let began = load.now();
        thread::sleep(WHILE);
        roll(&group, image::NEXT, 3)?;
        await_version(&group, 5, |one| one == version + 1)?;
        thread::sleep(WHILE);
        roll(&group, present, 3)?;
        await_version(&group, 5, |one| one == version)?;
        thread::sleep(WHILE);
        let end = load.now();
        let diary = load.end()?;
        let [hole] = watch.longest_holes()?;
        println!(
            "upgrade and back under load: {} grants, longest pause of all grants {} ms, at most {} \
             ms without a leader",
            diary.grants().len(),
            diary.longest_pause(began, end).as_millis(),
            hole.as_millis(),
        );
        ensure!(hole < Duration::from_secs(3), "{hole:?} without a leader");
        ensure!(diary.grants().len() > 100, "there was no load");
        diary.check()
    })
}

/// Gives the pods of the deployment `shop` that image, one after another.
fn roll(group: &Group<'_>, image: &str, pods: usize) -> Result<()> {
    group.apply_deployment_with("shop", pods, image)?;
    group.namespace.await_deployment("shop")
}

/// Waits until so many pods agree on the version that their view speaks, and that it is a good one.
fn await_version(group: &Group<'_>, members: u64, is_good: impl Fn(u64) -> bool) -> Result<u64> {
    wait::until("one version for all", SOON, || {
        let mut versions = Vec::new();
        for pod in group.pods()? {
            let status = group.get(&pod, "/v1/status")?;
            ensure!(status.number("members")? == members, "{} knows {status:?}", pod.name);
            versions.push(status.number("protocol_version")?);
        }
        versions.dedup();
        let [version] = versions[..] else { anyhow::bail!("they speak {versions:?}") };
        ensure!(is_good(version), "they speak version {version}");
        Ok(version)
    })
}

fn pods_of(namespace: &Namespace<'_>, deployment: &str) -> Result<Vec<Pod>> {
    let pods = namespace.pods(&format!("of={deployment}"))?;
    (!pods.is_empty()).then_some(pods).with_context(|| format!("{deployment} has no pods"))
}

/// The pods of the group at the moment.
fn watched(namespace: &str) -> Result<Vec<Pod>> {
    Cluster::from_env()?.pods_in(namespace, SELECTOR)
}
