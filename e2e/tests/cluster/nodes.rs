//! A node is drained: its pods are evicted, and what one of them led another leads at once.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_e2e::leader_watch::{LEADS_GROUP, LeaderWatch};
use conclave_e2e::product::{APPLICATION, Group};
use conclave_testbed::cluster::{Cluster, Namespace, Pod};

use crate::elections::lead;

/// Five pods on three nodes: no node has the majority.
const PODS: usize = 5;

/// A lead that is not handed over ends with its lease, which is long.
const SPEC: &str = "{timing: {leaderLease: 6s, heartbeat: 250ms}, elections: [{name: reports}]}";

/// The gauge by which a pod reports that it leads the election.
const LEADS_NAMED: &str = r#"conclave_election_leading{election="reports""#;

/// For less than that, which is half of the leader lease, nobody may lead when the pod of the leader is evicted in order.
/// What it was is printed.
const HOLE: Duration = Duration::from_secs(3);

/// An application that stands by a stream, and ends with its container.
const STANDS: &str = "curl --silent --no-buffer --request PUT --header 'Accept: text/event-stream' \
     http://localhost:7070/v1/elections/reports/candidacy > /dev/null 2>&1 &";

#[test]
fn the_node_of_the_leader_is_drained() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a node that is drained") {
        return Ok(());
    }
    cluster.in_namespace("nodes", |namespace| {
        Group::traced(namespace, SPEC, PODS, |group| {
            // One pod leads the group, and the election: it stood first.
            let pods = group.pods()?;
            let leader = group.await_leader()?;
            stand(namespace, &leader)?;
            ensure!(lead(group, "reports", &pods)?.0.uid == leader.uid, "it is alone");
            let others = pods.iter().filter(|pod| pod.uid != leader.uid);
            others.clone().try_for_each(|pod| stand(namespace, pod))?;
            ensure!(lead(group, "reports", &pods)?.0.uid == leader.uid, "another leads already");
            // An application that asks who leads the group may believe that until its deadline.
            thread::sleep(Duration::from_secs(7));
            let name = namespace.name().to_owned();
            let watch = LeaderWatch::start([LEADS_GROUP, LEADS_NAMED], move || pods_of(&name));
            drain(namespace, &leader.node)?;
            namespace.await_deployment("shop")?;
            group.await_members(PODS)?;
            ensure!(group.pods()?.iter().all(|pod| pod.uid != leader.uid), "it was not evicted");
            let [of_group, of_reports] = watch.longest_holes()?;
            for (what, hole) in [("the group", of_group), ("reports", of_reports)] {
                println!("the leader's node is drained: {what} {} ms without", hole.as_millis());
                ensure!(hole < HOLE, "{hole:?} without a leader of {what}");
            }
            Ok(())
        })
    })
}

fn stand(namespace: &Namespace<'_>, pod: &Pod) -> Result<()> {
    namespace.exec(&pod.name, APPLICATION, &["bash", "-c", STANDS]).map(drop)
}

/// Of this group's pods alone: those of other tests stay where they are.
fn drain(namespace: &Namespace<'_>, node: &str) -> Result<()> {
    let cluster = namespace.cluster();
    namespace.kubectl(&["label", "pods", "--all", "drained=nodes"])?;
    let own = "--pod-selector=drained=nodes";
    let drained = cluster.kubectl(&["drain", node, own, "--delete-emptydir-data", "--timeout=60s"]);
    cluster.kubectl(&["uncordon", node])?;
    drained.context("drain the node").map(drop)
}

fn pods_of(namespace: &str) -> Result<Vec<Pod>> {
    Cluster::from_env()?.pods_in(namespace, "app=shop")
}
