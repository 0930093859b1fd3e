//! Evidence of death on a real cluster: kubelets report containers that have terminated.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use conclave_e2e::cluster::{Cluster, Pod, Signal};
use conclave_e2e::load::{HandOvers, Load};
use conclave_e2e::product::{Group, SIDECAR, SOON};
use conclave_e2e::wait;

const EVIDENCE: &str = "{evidence: ContainerStatus, \
     timing: {leaderLease: 600ms, heartbeat: 120ms, memberLease: 3s, apiOutage: 60s}}";

/// Far less than the `apiOutage` that the others would wait without evidence.
const LIMIT: Duration = Duration::from_secs(30);

/// One of three can seal nothing, but the kubelets say that the others are dead.
#[test]
fn two_of_three_that_the_kubelet_reports_dead_cost_no_outage() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("two deaths") {
        return Ok(());
    }
    cluster.in_namespace("evidence-two", |namespace| {
        let group = Group::start(namespace, EVIDENCE, 3)?;
        let pods = group.pods()?;
        let role = ["get", "role/conclave-orders", "-o", "jsonpath={.rules[*].resources[*]}"];
        let resources = namespace.kubectl(&role)?;
        ensure!(resources.split_whitespace().any(|name| name == "pods"), "{resources}");

        let kill = |pod: &Pod| cluster.signal_container(pod, SIDECAR, Signal::KILL);
        for leader_dies in [true, false] {
            group.await_members(3)?;
            let (leader, followers) = (group.await_leader()?, group.followers()?);
            let first = if leader_dies { &leader } else { &followers[0] };
            let epoch = group.epoch(&leader)?;
            let load = Load::start(&cluster, &pods, HandOvers::None)?;
            thread::sleep(Duration::from_secs(2));
            let at = load.now();
            kill(first)?;
            kill(&followers[1])?;
            wait::until("a view after the deaths", SOON, || {
                let now = group.epoch(&group.leader()?)?;
                ensure!(now > epoch, "it is still view {now}");
                Ok(())
            })?;
            // Whatever was sent to the dead has run out by then.
            thread::sleep(Duration::from_secs(8));
            let diary = load.end()?;
            let granted = diary.next_grant(at, epoch)?;
            let who = if leader_dies { "leader and a follower" } else { "both followers" };
            println!("evidence, {who} killed: next grant {} ms", granted.as_millis());
            ensure!(granted < LIMIT, "granted again after {granted:?} only");
            diary.check()?;
        }
        group.await_members(3)
    })
}
