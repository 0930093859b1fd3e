//! A node is drained: its pods are evicted, and the lead of theirs is another's at once.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_e2e::cluster::{Cluster, Namespace, Pod};
use conclave_e2e::load::{LEADS_GROUP, LeaderWatch};
use conclave_e2e::product::{Group, SOON};
use conclave_e2e::wait;

use crate::elections::lead;

/// All pods stand, by their annotation.
const SPEC: &str = "{elections: [{name: reports}]}";

/// The gauge by which a pod reports that it leads the election.
const LEADS_NAMED: &str = r#"conclave_election_leading{election="reports""#;

/// So long nobody may lead when the pod of the leader is evicted in order.
const HOLE: Duration = Duration::from_secs(1);

#[test]
fn the_node_of_the_leader_is_drained() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a node that is drained") {
        return Ok(());
    }
    cluster.in_namespace("nodes", |namespace| {
        Group::traced(namespace, SPEC, 3, |group| {
            let annotation = r#"{"spec": {"template": {"metadata": {"annotations": {
                "conclave.dev/elections": "reports"}}}}}"#;
            namespace.kubectl(&["patch", "deployment/shop", "--patch", annotation])?;
            namespace.await_deployment("shop")?;
            group.await_members(3)?;
            let leader = group.await_leader()?;
            drain_under_watch(group, "the group", &leader, LEADS_GROUP)?;
            let (leader, _) = lead(group, "reports", &group.pods()?)?;
            drain_under_watch(group, "reports", &leader, LEADS_NAMED)
        })
    })
}

/// Drains the node of a leader, of this group's pods alone, and sees for how long nobody leads.
fn drain_under_watch(
    group: &Group<'_>,
    what: &str,
    leader: &Pod,
    gauge: &'static str,
) -> Result<()> {
    let namespace = group.namespace;
    // Those of other tests stay where they are.
    namespace.kubectl(&["label", "pods", "--all", "drained=nodes"])?;
    let name = namespace.name().to_owned();
    let watch = LeaderWatch::start(gauge, move || pods_of(&name));
    let drained = drain(namespace, &leader.node);
    namespace.cluster().kubectl(&["uncordon", &leader.node])?;
    drained?;
    namespace.await_deployment("shop")?;
    group.await_members(3)?;
    thread::sleep(Duration::from_secs(1));
    let hole = watch.longest_hole()?;
    println!(
        "the node of the leader of {what} is drained: at most {} ms without",
        hole.as_millis()
    );
    let now: BTreeSet<String> = group.pods()?.into_iter().map(|pod| pod.uid).collect();
    ensure!(!now.contains(&leader.uid), "{} was not evicted", leader.name);
    ensure!(hole < HOLE, "{hole:?} without a leader of {what}");
    wait::until("another leader", SOON, || group.await_leader().map(drop))
}

fn drain(namespace: &Namespace<'_>, node: &str) -> Result<()> {
    let drain = ["drain", node, "--pod-selector=drained=nodes", "--timeout=60s"];
    namespace.cluster().kubectl(&drain).context("drain the node").map(drop)
}

fn pods_of(namespace: &str) -> Vec<Pod> {
    let cluster = Cluster::from_env().expect("it was there just now");
    cluster.pods_in(namespace, "app=shop").unwrap_or_default()
}
