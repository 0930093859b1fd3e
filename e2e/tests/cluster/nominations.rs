//! What an election costs on a real cluster: the leader is killed or withdraws, and the messages of the others are counted.

use anyhow::{Context, Result, bail, ensure};
use conclave_e2e::product::{Group, SIDECAR, SOON};
use conclave_protocols::cost;
use conclave_protocols::policy::ElectionAlgorithm;
use conclave_testbed::cluster::{Cluster, Pod, Signal};
use conclave_testbed::wait;

use crate::counts::Counts;
use crate::elections::{lead, lead_after, path, stand, withdraw};

const FAST: &str =
    "{timing: {leaderLease: 600ms, heartbeat: 120ms, memberLease: 3s, apiOutage: 30s}}";

const MEMBERS: usize = 5;

#[test]
fn a_new_leader_costs_no_more_messages_than_its_algorithms_formula_has() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a crash of a sidecar") {
        return Ok(());
    }
    cluster.in_namespace("nominations", |namespace| {
        Group::traced(namespace, FAST, MEMBERS, |group| {
            for algorithm in ElectionAlgorithm::ALL {
                group.elects_by(algorithm.name())?;
                a_leader_dies(group, algorithm)?;
            }
            Ok(())
        })
    })
}

/// Three pods of no capacity and no zone form the group, and three that have both join it.
#[test]
fn zones_save_messages_and_the_greatest_capacity_of_both_leads_next_and_then_another_that_has_it()
-> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a crash of a sidecar") {
        return Ok(());
    }
    cluster.in_namespace("nominations-zones", |namespace| {
        Group::traced(namespace, ZONES, OF_A_ZONE, |group| {
            group.apply_deployment(LARGE, 0)?;
            let large = r#"{"spec": {"replicas": 3, "template": {"metadata": {"annotations": {
                "conclave.dev/capacity": "8", "conclave.dev/zone": "large"}}}}}"#;
            namespace.kubectl(&["patch", &format!("deployment/{LARGE}"), "--patch", large])?;
            group.await_members(2 * OF_A_ZONE)?;
            let first = group.await_leader()?;
            ensure!(!first.name.starts_with(LARGE), "{} took the lead away", first.name);
            zones_are_known(group)?;
            a_ballot_goes_by_way_of_the_gateways(group)?;
            let second = a_large_one_follows(group, first)?;
            group.await_members(2 * OF_A_ZONE)?;
            a_large_one_follows(group, second).map(drop)
        })
    })
}

/// As [`FAST`].
const ZONES: &str = "{timing: {leaderLease: 600ms, heartbeat: 120ms, memberLease: 3s, apiOutage: 30s}, \
     topology: {kind: Zones}, elections: [{name: default, algorithm: SpanningTree}, \
     {name: reports, algorithm: SpanningTree}]}";

const OF_A_ZONE: usize = 3;

/// One of three and three has died or withdrawn. Three neighbours each of whom has two, two who have each other, and two
/// gateways in both zones: 3 + 1 + 4 links of 10.
fn of_five_in_two_zones() -> u64 {
    cost::spanning_tree(5, 8)
}

/// Without the leader one zone has three members, and the other has two.
fn zones_are_known(group: &Group<'_>) -> Result<()> {
    let name = "conclave_election_messages_expected";
    let series = format!("{name}{{algorithm=\"SpanningTree\",case=\"best\",election=\"default\"");
    for pod in group.pods()? {
        wait::until("what an election is to cost", SOON, || {
            let metrics = group.metrics(&pod)?;
            let line = metrics.lines().find(|line| line.starts_with(&series));
            let value = line.and_then(|line| line.rsplit(' ').next()).context(metrics.clone())?;
            ensure!(value == of_five_in_two_zones().to_string(), "{}: {value}", pod.name);
            Ok(())
        })?;
    }
    Ok(())
}

/// All stand, the leader withdraws, and one of the other five begins the ballot. A member that answers too late counts as dead, which
/// changes what the ballot costs; so there are several.
fn a_ballot_goes_by_way_of_the_gateways(group: &Group<'_>) -> Result<()> {
    let (pods, expected) = (group.pods()?, of_five_in_two_zones());
    for pod in &pods {
        ensure!(stand(group, pod, REPORTS, 0)? == 201);
    }
    let mut costs = Vec::new();
    while costs.len() < 5 && !costs.contains(&expected) {
        let (leader, first) = lead(group, REPORTS, &pods)?;
        let before = Counts::of(group, REPORTS, &pods)?;
        withdraw(group, &leader, REPORTS)?;
        lead_after(group, REPORTS, &pods, first)?;
        let counts = before.await_end(group, &pods)?;
        println!("{REPORTS}: {} messages, {} ballots", counts.sent, counts.held);
        costs.push(counts.sent);
        ensure!(stand(group, &leader, REPORTS, 0)? == 201);
    }
    ensure!(costs.contains(&expected), "{costs:?}, and never {expected}");
    Ok(())
}

const REPORTS: &str = "reports";

const LARGE: &str = "large";

const DEFAULT: &str = "default";

/// A large one that answers late counts as dead, and another leads; so several leaders may be killed until one follows.
fn a_large_one_follows(group: &Group<'_>, mut leader: Pod) -> Result<Pod> {
    for _ in 0..DEATHS {
        leader = successor(group, &leader)?;
        println!("{} leads", leader.name);
        if leader.name.starts_with(LARGE) {
            return Ok(leader);
        }
        group.await_members(2 * OF_A_ZONE)?;
    }
    bail!("after {DEATHS} leaders, {} leads", leader.name)
}

/// Kills the leader, and waits for the next, which has a later epoch.
fn successor(group: &Group<'_>, leader: &Pod) -> Result<Pod> {
    let epoch = |pod: &Pod| group.get(pod, &path(DEFAULT))?.number("epoch");
    let before = epoch(leader)?;
    group.namespace.cluster().signal_container(leader, SIDECAR, Signal::KILL)?;
    wait::until("another leader of a later epoch", SOON, || {
        let next = group.leader()?;
        ensure!(next.uid != leader.uid, "it is the one that was killed");
        let after = epoch(&next)?;
        ensure!(after > before, "epoch {before}, then {after}");
        Ok(next)
    })
}

/// A member that answers late counts as dead, which changes what an election costs; so there are several, until one goes by the
/// formula.
fn a_leader_dies(group: &Group<'_>, algorithm: ElectionAlgorithm) -> Result<()> {
    let (least, most) = costs(algorithm, MEMBERS as u64);
    let mut seen = Vec::new();
    while seen.len() < DEATHS {
        let (leader, living) = (group.await_leader()?, group.followers()?);
        let before = Counts::of(group, DEFAULT, &living)?;
        successor(group, &leader)?;
        let counts = before.await_end(group, &living)?;
        println!("{}: {} messages, {} elections", algorithm.name(), counts.sent, counts.held);
        group.await_members(MEMBERS)?;
        if (least..=most * counts.held).contains(&counts.sent) {
            return Ok(());
        }
        seen.push(counts);
    }
    bail!("{algorithm:?}: {seen:?}, never {least} to {most} in each")
}

/// Leaders at most that die of one algorithm.
const DEATHS: usize = 3;

/// What all together send at least and at most in one election of n, of which the leader is dead. All begin at about the
/// same time, and a nominee stops to take part, so that one on a ring may end before it has come round once more.
pub(crate) fn costs(algorithm: ElectionAlgorithm, n: u64) -> (u64, u64) {
    match algorithm {
        ElectionAlgorithm::Bully => (cost::bully_best(n), cost::bully_next(n)),
        ElectionAlgorithm::Ring => (n - 1, cost::ring_next(n)),
        ElectionAlgorithm::ChangRoberts => (n - 1, cost::chang_roberts_next(n)),
        // One of those that live is asked by each other, and answers.
        ElectionAlgorithm::SpanningTree => {
            (cost::spanning_tree_living(n - 1), cost::spanning_tree_next(n))
        }
    }
}
