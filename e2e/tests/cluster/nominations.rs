//! What an election costs on a real cluster: the leader is killed, and the messages of those that live are counted.

use anyhow::{Context, Result, ensure};
use conclave_e2e::cluster::{Cluster, Pod, Signal};
use conclave_e2e::product::{Group, SIDECAR, SOON};
use conclave_e2e::wait;
use conclave_protocols::cost;
use conclave_protocols::policy::ElectionAlgorithm;

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
                group.await_members(MEMBERS)?;
                a_leader_dies(group, algorithm)?;
            }
            Ok(())
        })
    })
}

/// Three pods of no capacity form the group, and two that have one join it.
#[test]
fn the_greatest_capacity_leads_next_and_then_the_other_that_has_it() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a crash of a sidecar") {
        return Ok(());
    }
    cluster.in_namespace("nominations-capacity", |namespace| {
        Group::traced(namespace, FAST, MEMBERS - 2, |group| {
            group.elects_by(ElectionAlgorithm::SpanningTree.name())?;
            group.apply_deployment(LARGE, 0)?;
            let two = r#"{"spec": {"replicas": 2, "template": {"metadata": {"annotations": {
                "conclave.dev/capacity": "8"}}}}}"#;
            namespace.kubectl(&["patch", &format!("deployment/{LARGE}"), "--patch", two])?;
            group.await_members(MEMBERS)?;
            let first = group.await_leader()?;
            ensure!(!first.name.starts_with(LARGE), "{} took the lead away", first.name);
            let second = successor(group, &first)?;
            ensure!(second.name.starts_with(LARGE), "{} leads", second.name);
            group.await_members(MEMBERS)?;
            let third = successor(group, &second)?;
            ensure!(third.name.starts_with(LARGE), "{} leads", third.name);
            Ok(())
        })
    })
}

const LARGE: &str = "large";

/// Kills the leader, and waits for the next.
fn successor(group: &Group<'_>, leader: &Pod) -> Result<Pod> {
    group.namespace.cluster().signal_container(leader, SIDECAR, Signal::KILL)?;
    wait::until("another leader", SOON, || {
        let next = group.leader()?;
        ensure!(next.uid != leader.uid, "it is the one that was killed");
        Ok(next)
    })
}

fn a_leader_dies(group: &Group<'_>, algorithm: ElectionAlgorithm) -> Result<()> {
    let (leader, living) = (group.await_leader()?, group.followers()?);
    let before = Counts::of(group, &living)?;
    successor(group, &leader)?;
    let end = || Counts::of(group, &living)?.since(&before);
    let counts = wait::until("the end of the election", SOON, end)?;
    println!("{}: {} messages, {} elections", algorithm.name(), counts.sent, counts.held);
    let (least, most) = costs(algorithm);
    let within = least..=most * counts.held;
    ensure!(within.contains(&counts.sent), "{algorithm:?}: {counts:?}, not {within:?}");
    Ok(())
}

/// What all together send at least and at most in one election. All begin at about the same time, and a nominee stops to
/// take part, so that one on a ring may end before it has come round once more.
fn costs(algorithm: ElectionAlgorithm) -> (u64, u64) {
    let n = MEMBERS as u64;
    match algorithm {
        ElectionAlgorithm::Bully => {
            (cost::bully_best(n), cost::bully_worst(n) + cost::bully_announced_upwards(n, n - 2))
        }
        // The send to the dead one is one more.
        ElectionAlgorithm::Ring => (n - 1, cost::ring(n, n - 1) + n - 1),
        ElectionAlgorithm::ChangRoberts => (n - 1, cost::chang_roberts(n, 0) + 1),
        // Each asks the dead one too, in each computation.
        ElectionAlgorithm::SpanningTree => (n - 1, cost::spanning_tree_most(n)),
    }
}

/// What some members have counted so far.
#[derive(Debug)]
struct Counts {
    /// Messages that the source of the algorithm counts, of all together.
    sent: u64,
    /// Elections that ended, of the member that held most.
    held: u64,
    each: Vec<u64>,
}

impl Counts {
    fn of(group: &Group<'_>, pods: &[Pod]) -> Result<Self> {
        let (mut sent, mut each) = (0, Vec::new());
        for pod in pods {
            let metrics = group.metrics(pod)?;
            sent += sum(&metrics, "conclave_election_messages_sent_total", "kind=\"textbook\"")?;
            each.push(sum(&metrics, "conclave_elections_total", "result=")?);
        }
        Ok(Self { sent, held: 0, each })
    }

    /// What came on top; an error until an election has ended.
    fn since(self, before: &Self) -> Result<Self> {
        let each: Vec<u64> =
            self.each.iter().zip(&before.each).map(|(now, then)| now - then).collect();
        ensure!(each.iter().any(|held| *held > 0), "no election has ended: {each:?}");
        let held = each.iter().max().copied().context("some live")?;
        Ok(Self { sent: self.sent - before.sent, held, each })
    }
}

/// The sum of the series of the group's own election that have a label.
fn sum(metrics: &str, name: &str, label: &str) -> Result<u64> {
    let lines = metrics.lines().filter(|line| line.starts_with(name));
    let lines = lines.filter(|line| line.contains("election=\"default\"") && line.contains(label));
    let values = lines
        .map(|line| line.rsplit(' ').next().context("a value")?.parse::<u64>().context("a count"));
    let values = values.collect::<Result<Vec<_>>>()?;
    ensure!(!values.is_empty(), "no {name} with {label}: {metrics}");
    Ok(values.into_iter().sum())
}
