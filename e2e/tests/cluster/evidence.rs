//! Evidence of death on a real cluster: kubelets report containers that have terminated, of sidecars and of
//! applications.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use conclave_e2e::load::{HandOvers, Load};
use conclave_e2e::product::{APPLICATION, Group, SIDECAR, SOON};
use conclave_testbed::cluster::{Cluster, Pod, Signal};
use conclave_testbed::wait;

use crate::elections::{lead, path, stand};

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

const AN_ELECTION: &str = "{evidence: ContainerStatus, elections: [{name: reports}]}";

/// It stands by nothing but its `PUT`: without the report of its kubelet its sidecar would have it lead for ever.
#[test]
fn an_application_whose_container_is_killed_leads_no_more() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("the death of an application") {
        return Ok(());
    }
    cluster.in_namespace("evidence-application", |namespace| {
        Group::traced(namespace, AN_ELECTION, 3, |group| {
            let mut pods = group.pods()?;
            pods.iter().try_for_each(|pod| {
                ensure!(stand(group, pod, "reports", 0)? == 201);
                Ok(())
            })?;
            let (leader, first) = lead(group, "reports", &pods)?;
            let killed = Instant::now();
            cluster.signal_container(&leader, APPLICATION, Signal::KILL)?;
            pods.retain(|pod| pod.uid != leader.uid);
            let (next, second) = lead(group, "reports", &pods)?;
            println!(
                "{} leads {} ms after the application of {} was killed",
                next.name,
                killed.elapsed().as_millis(),
                leader.name
            );
            ensure!(second > first, "{first}, then {second}");
            stand_in_all(group, &next, 2)?;
            // Its next process stands anew, and follows.
            wait::until("the next process", SOON, || {
                ensure!(
                    stand(group, &leader, "reports", 0)? == 201,
                    "it stands by the word of the former"
                );
                Ok(())
            })?;
            pods.push(leader);
            let goes_on = || {
                let (leads, token) = lead(group, "reports", &pods)?;
                let is_same = leads.uid == next.uid && token == second;
                ensure!(
                    is_same,
                    "{} leads with {token}, not {} with {second}",
                    leads.name,
                    next.name
                );
                Ok(())
            };
            goes_on()?;
            stand_in_all(group, &next, 3)?;
            // So it stays; and a trace of so little would show nothing.
            for _ in 0..25 {
                thread::sleep(Duration::from_secs(1));
                goes_on()?;
            }
            Ok(())
        })
    })
}

/// Waits until that many stand, as a pod shows.
fn stand_in_all(group: &Group<'_>, pod: &Pod, candidates: u64) -> Result<()> {
    wait::until("the candidates", SOON, || {
        let shown = group.get(pod, &path("reports"))?;
        ensure!(shown.number("candidates")? == candidates, "{shown:?}");
        Ok(())
    })
}
