//! Each lock algorithm in turn, in one living group: it is changed under load, no increment is lost
//! though a pod dies that holds, tokens rise, and Prometheus measures what the books say.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_e2e::cluster::{Cluster, Signal};
use conclave_e2e::counter::{self, Counter};
use conclave_e2e::load::{HandOvers, Load};
use conclave_e2e::product::{Group, SIDECAR, SOON};
use conclave_e2e::prometheus::{self, Prometheus};
use conclave_e2e::rotation::{self, Algorithm, Books, Visits};
use conclave_e2e::wait;
use serde_json::{Value, json};

/// Short waits, so that the test need not be long.
const FAST: &str = "{timing: {officeWait: 600ms, heartbeat: 120ms, lockWait: 3s, apiOutage: 30s}}";

const PODS: usize = 5;

/// How often each of the two clients in a pod counts.
const EACH: u64 = 100;

/// How often each pod goes in and out while messages are measured.
const VISITS: u64 = 3;

#[test]
fn each_algorithm_keeps_its_promises_in_a_living_group() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a crash of a sidecar, and a Prometheus beside the cluster") {
        return Ok(());
    }
    let algorithms = rotation::chosen()?;
    println!("algorithms: {}", rotation::shown(&algorithms));
    cluster.in_namespace("locks", |namespace| {
        let group = Group::start(namespace, FAST, PODS)?;
        let counter = Counter::deploy(&group)?;
        let prometheus = Prometheus::start(&cluster, namespace.name())?;
        let mut token = 0;
        for (turn, algorithm) in algorithms.iter().enumerate() {
            println!("{}", algorithm.name);
            change_under_load(&cluster, &group, algorithm, turn)?;
            token = a_holder_dies_while_all_count(&group, &counter, turn, token)?;
            the_measured_messages_are_those_of_the_books(&group, &prometheus, algorithm)?;
        }
        Ok(())
    })
}

/// Edits the resource while applications use locks, which goes on all the time.
fn change_under_load(
    cluster: &Cluster,
    group: &Group<'_>,
    algorithm: &Algorithm,
    turn: usize,
) -> Result<()> {
    let load = Load::start(cluster, &group.pods()?, HandOvers::None)?;
    thread::sleep(Duration::from_secs(2));
    // The first may be what the group has already. Another `maxHold` makes it a change all the same.
    let locks = json!([{
        "names": ["*"], "algorithm": algorithm.name, "maxHold": format!("{}s", 601 + turn),
    }]);
    let patch = json!({"spec": {"locks": locks}}).to_string();
    let before = generations(group)?;
    group.namespace.kubectl(&["patch", "ccv", group.name, "--type=merge", "--patch", &patch])?;
    wait::until("the policy in force", SOON, || {
        let now = generations(group)?;
        ensure!(now.wanted > before.wanted, "the resource is unchanged");
        ensure!(now.in_force == Some(now.wanted), "{now:?}");
        Ok(())
    })?;
    let changed = load.now();
    thread::sleep(Duration::from_secs(2));
    let diary = load.end()?;
    let granted = diary.grants().iter().any(|grant| grant.asked > changed);
    ensure!(granted, "nothing was granted by {}", algorithm.name);
    diary.check()
}

/// Which state of the specification there is, and which one the members run.
#[derive(Debug)]
struct Generations {
    wanted: i64,
    /// Nothing while they run another, or it is not known which.
    in_force: Option<i64>,
}

fn generations(group: &Group<'_>) -> Result<Generations> {
    let text = group.namespace.kubectl(&["get", "ccv", group.name, "-o", "json"])?;
    let resource: Value = serde_json::from_str(&text)?;
    let wanted = resource["metadata"]["generation"].as_i64().context("no generation")?;
    let conditions = resource["status"]["conditions"].as_array().context("no conditions")?;
    let in_force = conditions
        .iter()
        .find(|condition| condition["type"] == "PolicyInForce" && condition["status"] == "True")
        .and_then(|condition| condition["observedGeneration"].as_i64());
    Ok(Generations { wanted, in_force })
}

/// The sidecar of a pod is killed that holds the lock which all clients count under; another pod each
/// turn, since Kubernetes takes its time with one that dies again and again. The token of the next to
/// hold it.
fn a_holder_dies_while_all_count(
    group: &Group<'_>,
    counter: &Counter<'_>,
    turn: usize,
    before: u64,
) -> Result<u64> {
    let (pods, followers) = (group.pods()?, group.followers()?);
    let [dies, next] = [turn, turn + 1].map(|turn| &followers[turn % followers.len()]);
    let last = thread::scope(|scope| -> Result<u64> {
        let counting = scope.spawn(|| counter.count(&pods, counter::LOCKED, EACH));
        let held = group.lock(dies, "counter", "60s")?;
        group.namespace.cluster().signal_container(dies, SIDECAR, Signal::KILL)?;
        let after = group.lock(next, "counter", "60s")?;
        let tokens = [before, held.number("token")?, after.number("token")?];
        ensure!(tokens.is_sorted_by(|one, other| one < other), "tokens do not rise: {tokens:?}");
        group.unlock(next, &after)?;
        let sum = counting.join().expect("it does not panic")?;
        let expected = EACH * 2 * pods.len() as u64;
        ensure!(sum == expected, "{sum} of {expected} increments");
        Ok(tokens[2])
    })?;
    group.await_members(PODS)?;
    Ok(last)
}

/// Each pod goes in and out a few times, while nobody else wants in.
fn the_measured_messages_are_those_of_the_books(
    group: &Group<'_>,
    prometheus: &Prometheus,
    algorithm: &Algorithm,
) -> Result<()> {
    let pods = group.pods()?;
    let others = PODS as u64 - 1;
    let visits = |each| Visits { members: PODS as u64, of_leader: each, of_others: others * each };
    let visit = || -> Result<()> {
        for pod in pods.iter().flat_map(|pod| (0..VISITS).map(move |_| pod)) {
            let held = group.lock(pod, "measured", "10s")?;
            ensure!(held.text("algorithm")? == algorithm.name, "{held:?}");
            group.unlock(pod, &held)?;
        }
        Ok(())
    };
    match algorithm.books {
        Books::Equal(cost) => {
            let label = format!("algorithm=\"{}\"", algorithm.name);
            let before = prometheus::sum_over(&pods, "conclave_lock_messages_sum", &label)?;
            visit()?;
            let sum = before + u32::try_from(cost(visits(VISITS))).map(f64::from)?;
            let measured = format!("sum(conclave_lock_messages_sum{{{label}}})");
            prometheus.await_value(&measured, &sum.to_string())?;
            let expected = format!("sum(conclave_lock_messages_expected{{{label}}})");
            prometheus.await_value(&expected, &cost(visits(1)).to_string())
        }
        Books::AtMost(cost, types) => {
            let sent = || -> Result<f64> {
                let of = |name| format!("protocol=\"lock\",type=\"{name}\"");
                let each = types.split('|').map(|name| {
                    prometheus::sum_over(&pods, "conclave_peer_messages_sent_total", &of(name))
                });
                each.sum()
            };
            let before = sent()?;
            visit()?;
            let (sent, most) = (sent()? - before, cost(visits(VISITS)));
            println!("{}: {sent} messages, at most {most}", algorithm.name);
            ensure!(sent > 0.0 && sent <= u32::try_from(most).map(f64::from)?);
            Ok(())
        }
    }
}
