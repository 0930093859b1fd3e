//! Each lock algorithm in turn, in one living group: it is changed under load, no increment is lost
//! though a pod dies that holds, tokens rise, and Prometheus measures what the textbook says. And what is kept
//! between two entries.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_e2e::counter::{self, Counter};
use conclave_e2e::load::{HandOvers, Load};
use conclave_e2e::product::{Group, SIDECAR, SOON};
use conclave_e2e::prometheus::{self, Prometheus};
use conclave_e2e::rotation::{self, Algorithm, Cost, Sections};
use conclave_testbed::cluster::{Cluster, Pod, Signal};
use conclave_testbed::wait;
use serde_json::{Value, json};

/// Short waits, so that the tests need not be long.
const TIMING: &str = "{leaderLease: 600ms, heartbeat: 120ms, memberLease: 3s, apiOutage: 30s}";

/// How many pods a group has.
pub(super) const PODS: usize = 5;

/// Four of five pods grant locks by it here, and what an entry of theirs costs is of which lock it is: a metric has no
/// label of that.
const SUPERPEERS: &str = "Superpeers";

/// How often each of the two clients in a pod counts.
const EACH: u64 = 100;

/// How far they have counted when a holder is killed.
const BEGUN: u64 = 50;

/// How often each pod enters and leaves while messages are measured.
const SECTIONS: u64 = 3;

#[test]
fn each_algorithm_keeps_its_promises_in_a_living_group() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a crash of a sidecar, and a Prometheus beside the cluster") {
        return Ok(());
    }
    let algorithms = rotation::chosen()?;
    rotation::announce("lock algorithms through crashes", &algorithms)?;
    cluster.in_namespace("locks", |namespace| {
        let spec = format!("{{timing: {TIMING}, superpeers: {{sharePercent: 100}}}}");
        Group::traced(namespace, &spec, PODS, |group| {
            let counter = Counter::deploy(group)?;
            let prometheus = Prometheus::start(&cluster, namespace.name())?;
            let mut token = 0;
            for (turn, algorithm) in algorithms.into_iter().enumerate() {
                println!("{}", algorithm.name());
                change_under_load(&cluster, group, algorithm, turn)?;
                token = a_holder_dies_while_all_count(group, &counter, turn, token)?;
                token = a_pod_is_killed_while_the_others_count(group, &counter, turn, token)?;
                the_measured_messages_are_those_of_the_textbook(group, &prometheus, algorithm)?;
            }
            Ok(())
        })
    })
}

/// Edits the resource while applications use locks, which goes on all the time.
fn change_under_load(
    cluster: &Cluster,
    group: &Group<'_>,
    algorithm: Algorithm,
    turn: usize,
) -> Result<()> {
    let load = Load::start(cluster, &group.pods()?, HandOvers::None)?;
    thread::sleep(Duration::from_secs(2));
    // The first may be what the group has already. Another `maxHold` makes it a change all the same.
    let locks = json!([{
        "names": ["*"], "algorithm": algorithm.name(), "maxHold": format!("{}s", 601 + turn),
    }]);
    put_in_force(group, &locks)?;
    let changed = load.now();
    thread::sleep(Duration::from_secs(2));
    let diary = load.end()?;
    let granted = diary.grants().iter().any(|grant| grant.asked > changed);
    ensure!(granted, "nothing was granted by {}", algorithm.name());
    diary.check()
}

/// Edits the locks of the resource, and waits until the members go by that.
pub(super) fn put_in_force(group: &Group<'_>, locks: &Value) -> Result<()> {
    let patch = json!({"spec": {"locks": locks}}).to_string();
    let before = generations(group)?;
    group.namespace.kubectl(&["patch", "ccv", group.name, "--type=merge", "--patch", &patch])?;
    wait::until("the policy in force", SOON, || {
        let now = generations(group)?;
        ensure!(now.wanted > before.wanted, "the resource is unchanged");
        ensure!(now.in_force == Some(now.wanted), "{now:?}");
        Ok(())
    })
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
    let count = || counter.count(&pods, counter::LOCKED, EACH);
    let kill = || group.namespace.cluster().signal_container(dies, SIDECAR, Signal::KILL);
    let expected = EACH * 2 * pods.len() as u64;
    while_counting(group, [dies, next], before, counter, (count, expected), kill)
}

/// A whole pod is killed that holds it, with its application: by `Superpeers` the one that grants it, else every other turn
/// the pod that leads.
fn a_pod_is_killed_while_the_others_count(
    group: &Group<'_>,
    counter: &Counter<'_>,
    turn: usize,
    before: u64,
) -> Result<u64> {
    let leader_dies = turn.is_multiple_of(2);
    let by_turn =
        if leader_dies { group.await_leader()? } else { group.followers()?.swap_remove(0) };
    let mut others = group.pods()?;
    let lock = group.get(&by_turn, "/v1/locks/counter")?;
    let dies = if lock.text("algorithm")? == SUPERPEERS {
        let name = lock.text("coordinator")?;
        let coordinator = others.iter().find(|pod| pod.name == name);
        coordinator.with_context(|| format!("{name} is no member"))?.clone()
    } else {
        by_turn
    };
    others.retain(|pod| pod.uid != dies.uid);
    let count = || counter.count(&others, counter::LOCKED, EACH);
    let by_force = ["delete", "pod", &dies.name, "--grace-period=0", "--force", "--wait=false"];
    let kill = || group.namespace.kubectl(&by_force).map(drop);
    let pair = [&dies, &others[0]];
    let expected = EACH * 2 * others.len() as u64;
    while_counting(group, pair, before, counter, (count, expected), kill)
}

/// One holds the lock that clients count under, and is killed; another gets it. All that they are to count is counted
/// in the end. The token of the other.
fn while_counting(
    group: &Group<'_>,
    [dies, next]: [&Pod; 2],
    before: u64,
    tally: &Counter<'_>,
    (count, expected): (impl FnOnce() -> Result<u64> + Send, u64),
    kill: impl FnOnce() -> Result<()>,
) -> Result<u64> {
    let token = thread::scope(|scope| -> Result<_> {
        tally.set(next, 0)?;
        let clients = scope.spawn(count);
        wait::until("clients that count", SOON, || {
            let shown = tally.shows(next)?;
            ensure!(shown >= BEGUN, "{shown}");
            Ok(())
        })?;
        let held = group.lock(dies, "counter", "60s")?;
        // Nobody counts while another holds it, so this goes on to be so.
        let shown = tally.shows(next)?;
        ensure!(shown < expected, "nobody counts any more");
        kill()?;
        let after = group.lock(next, "counter", "60s")?;
        let tokens = [before, held.number("token")?, after.number("token")?];
        ensure!(tokens.is_sorted_by(|one, other| one < other), "tokens do not rise: {tokens:?}");
        group.unlock(next, &after)?;
        let sum = clients.join().expect("it does not panic")?;
        ensure!(sum == expected, "{sum} of {expected} increments");
        Ok(tokens[2])
    })?;
    group.await_members(PODS)?;
    Ok(token)
}

/// The rank of each of these pods.
fn ranks(group: &Group<'_>, pods: &[Pod]) -> Result<Vec<u64>> {
    let answer = group.get(&pods[0], "/v1/members")?;
    let members = answer.body["members"].as_array().context("no members")?;
    let rank = |pod: &Pod| {
        let member = members.iter().find(|member| member["uid"] == pod.uid);
        member.and_then(|member| member["rank"].as_u64()).context("a pod is in no view")
    };
    pods.iter().map(rank).collect()
}

/// Each pod enters and leaves a few times, while nobody else wants to enter.
fn the_measured_messages_are_those_of_the_textbook(
    group: &Group<'_>,
    prometheus: &Prometheus,
    algorithm: Algorithm,
) -> Result<()> {
    let pods = group.pods()?;
    let others = PODS as u64 - 1;
    let sections =
        |each| Sections { members: PODS as u64, of_leader: each, of_others: others * each };
    let section_of = |pod: &Pod| -> Result<()> {
        let held = group.lock(pod, "measured", "10s")?;
        ensure!(held.text("algorithm")? == algorithm.name(), "{held:?}");
        group.unlock(pod, &held)
    };
    let unreceived = unreceived_at_rest(&pods)?;
    let section = || {
        pods.iter().try_for_each(|pod| -> Result<()> {
            (0..SECTIONS).try_for_each(|_| section_of(pod))?;
            // A request that overtakes the release of another pod is one of two that want to enter, which costs more.
            wait::until("the last release", SOON, || {
                let now = unreceived_of(&pods)?.1;
                ensure!(now <= unreceived, "{now} messages were not received, {unreceived} before");
                Ok(())
            })
        })
    };
    let sent = |types: &str| -> Result<f64> {
        let of = |name| format!("protocol=\"lock\",type=\"{name}\"");
        let each = types.split('|').map(|name| {
            prometheus::sum_over(&pods, "conclave_peer_messages_sent_total", &of(name))
        });
        each.sum()
    };
    match algorithm.textbook() {
        Cost::Equal(cost) => {
            let label = format!("algorithm=\"{}\"", algorithm.name());
            let before = prometheus::sum_over(&pods, "conclave_lock_messages_sum", &label)?;
            section()?;
            let sum = before + u32::try_from(cost(sections(SECTIONS))).map(f64::from)?;
            let measured = format!("sum(conclave_lock_messages_sum{{{label}}})");
            prometheus.await_value(&measured, &sum.to_string())?;
            let expected = cost(sections(1));
            let stated = pods.iter().map(|pod| -> Result<u64> {
                group.get(pod, "/v1/locks/measured")?.number("expected_messages")
            });
            let stated = stated.sum::<Result<u64>>()?;
            ensure!(stated == expected, "members state {stated}, the formula {expected}");
            if algorithm.name() == SUPERPEERS {
                return Ok(());
            }
            let of_metrics = format!("sum(conclave_lock_messages_expected{{{label}}})");
            prometheus.await_value(&of_metrics, &expected.to_string())
        }
        Cost::FromTo(cost, types) => {
            let ranks = ranks(group, &pods)?;
            let (first, last) = (ranks[0], ranks[PODS - 1]);
            section_of(&pods[PODS - 1])?;
            let on_the_way: u64 = ranks.windows(2).map(|two| cost(two[0], two[1])).sum();
            let sum =
                sent(types)? + u32::try_from(cost(last, first) + on_the_way).map(f64::from)?;
            section()?;
            let measured = "conclave_peer_messages_sent_total{protocol=\"lock\",type=~";
            prometheus.await_value(&format!("sum({measured}\"{types}\"}})"), &sum.to_string())
        }
        Cost::AtMost(cost, types) => {
            let before = sent(types)?;
            section()?;
            let (sent, most) = (sent(types)? - before, cost(sections(SECTIONS)));
            println!("{}: {sent} messages, at most {most}", algorithm.name());
            ensure!(sent > 0.0 && sent <= u32::try_from(most).map(f64::from)?);
            Ok(())
        }
    }
}

/// How many messages about locks these pods have sent, and how many more than were received: some were sent to pods that
/// have died since.
fn unreceived_of(pods: &[Pod]) -> Result<(f64, f64)> {
    let of_locks = r#"protocol="lock""#;
    let sent = prometheus::sum_over(pods, "conclave_peer_messages_sent_total", of_locks)?;
    let received = prometheus::sum_over(pods, "conclave_peer_messages_received_total", of_locks)?;
    Ok((sent, sent - received))
}

/// The latter, once nothing is on its way any more.
fn unreceived_at_rest(pods: &[Pod]) -> Result<f64> {
    wait::until("no messages about locks", SOON, || {
        let before = unreceived_of(pods)?;
        thread::sleep(Duration::from_millis(200));
        let after = unreceived_of(pods)?;
        ensure!(before == after, "{before:?}, then {after:?}");
        Ok(after.1)
    })
}

#[test]
fn a_member_that_was_in_last_enters_again_without_a_message_until_another_wants_in() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a crash of a sidecar") {
        return Ok(());
    }
    cluster.in_namespace("lock-caching", |namespace| {
        let locks = "[{names: [counter, kept], caching: Enabled}, \
                     {names: [permitted], algorithm: RicartAgrawala, caching: Enabled}]";
        Group::traced(namespace, &format!("{{timing: {TIMING}, locks: {locks}}}"), PODS, |group| {
            let (pods, followers) = (group.pods()?, group.followers()?);
            let mut tokens = BTreeMap::<_, Vec<u64>>::new();
            let mut cost = |pod: &Pod, lock| -> Result<u64> {
                let held = group.lock(pod, lock, "10s")?;
                group.unlock(pod, &held)?;
                tokens.entry(lock).or_default().push(held.number("token")?);
                held.body["cost"]["messages"].as_u64().context("a cost")
            };
            for (lock, asks) in [("kept", 2), ("permitted", 8)] {
                let (one, other) = (&followers[0], &followers[1]);
                let costs = [one, one, one, other, other].map(|pod| cost(pod, lock));
                let costs = costs.into_iter().collect::<Result<Vec<_>>>()?;
                ensure!(costs == [asks, 0, 0, asks, 0], "{lock}: {costs:?}");
            }
            let cached = "conclave_lock_cached_entries_total";
            let counted = ["Central", "RicartAgrawala"].map(|algorithm| {
                prometheus::sum_over(&pods, cached, &format!("algorithm=\"{algorithm}\""))
            });
            ensure!(counted.into_iter().collect::<Result<Vec<_>>>()? == [3.0, 3.0]);

            let sum = Counter::deploy(group)?.count(&pods, counter::LOCKED, EACH)?;
            ensure!(sum == EACH * 2 * pods.len() as u64, "{sum} increments");
            // It keeps the grant when it dies.
            cost(&followers[2], "kept")?;
            group.namespace.cluster().signal_container(&followers[2], SIDECAR, Signal::KILL)?;
            cost(&followers[3], "kept")?;
            for (lock, tokens) in &tokens {
                ensure!(tokens.is_sorted_by(|one, next| one < next), "{lock}: {tokens:?}");
            }
            Ok(())
        })
    })
}
