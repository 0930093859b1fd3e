//! Each lock algorithm in turn, in one living group: it is changed under load, no increment is lost
//! though a pod dies that holds, tokens rise, and Prometheus measures what the textbook says. And each in
//! place of each other: a holder goes on to hold, and one that waits enters. And what is kept between
//! two entries.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use conclave_e2e::cluster::{Cluster, Pod, Signal};
use conclave_e2e::counter::{self, Counter};
use conclave_e2e::load::{Grant, HandOvers, Load};
use conclave_e2e::product::{Answer, Group, SIDECAR, SOON};
use conclave_e2e::prometheus::{self, Prometheus};
use conclave_e2e::rotation::{self, Algorithm, Change, Cost, Sections};
use conclave_e2e::wait;
use serde_json::{Value, json};

/// Short waits, so that the tests need not be long.
const TIMING: &str = "{leaderLease: 600ms, heartbeat: 120ms, memberLease: 3s, apiOutage: 30s}";

/// Waits of a group in which nobody is to fail: a pause of a busy machine costs no leader its holds.
const PATIENT: &str = "{leaderLease: 1500ms, heartbeat: 250ms, memberLease: 4s, apiOutage: 30s}";

const PODS: usize = 5;

/// Four of five pods grant locks by it here, and what an entry of theirs costs is of which lock it is: a metric has no
/// label of that.
const SUPERPEERS: &str = "Superpeers";

/// How often each of the two clients in a pod counts.
const EACH: u64 = 100;

/// How far they have counted when a holder is killed.
const BEGUN: u64 = 50;

/// The same, between two looks at what the counter shows.
const ROUND: u64 = 10;

/// How often each pod enters and leaves while messages are measured.
const SECTIONS: u64 = 3;

/// The lock that is held across each change, while others wait for it.
const WATCHED: &str = "watched";

#[test]
fn each_algorithm_keeps_its_promises_in_a_living_group() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a crash of a sidecar, and a Prometheus beside the cluster") {
        return Ok(());
    }
    let algorithms = rotation::chosen()?;
    println!("algorithms: {}", rotation::shown(&algorithms));
    cluster.in_namespace("locks", |namespace| {
        let spec = format!("{{timing: {TIMING}, superpeers: {{sharePercent: 100}}}}");
        Group::traced(namespace, &spec, PODS, |group| {
            let counter = Counter::deploy(group)?;
            let prometheus = Prometheus::start(&cluster, namespace.name())?;
            let mut token = 0;
            for (turn, algorithm) in algorithms.iter().enumerate() {
                println!("{}", algorithm.name);
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
    algorithm: &Algorithm,
    turn: usize,
) -> Result<()> {
    let load = Load::start(cluster, &group.pods()?, HandOvers::None)?;
    thread::sleep(Duration::from_secs(2));
    // The first may be what the group has already. Another `maxHold` makes it a change all the same.
    let locks = json!([{
        "names": ["*"], "algorithm": algorithm.name, "maxHold": format!("{}s", 601 + turn),
    }]);
    put_in_force(group, &locks)?;
    let changed = load.now();
    thread::sleep(Duration::from_secs(2));
    let diary = load.end()?;
    let granted = diary.grants().iter().any(|grant| grant.asked > changed);
    ensure!(granted, "nothing was granted by {}", algorithm.name);
    diary.check()
}

/// Edits the locks of the resource, and waits until the members go by that.
fn put_in_force(group: &Group<'_>, locks: &Value) -> Result<()> {
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
    algorithm: &Algorithm,
) -> Result<()> {
    let pods = group.pods()?;
    let others = PODS as u64 - 1;
    let sections =
        |each| Sections { members: PODS as u64, of_leader: each, of_others: others * each };
    let section_of = |pod: &Pod| -> Result<()> {
        let held = group.lock(pod, "measured", "10s")?;
        ensure!(held.text("algorithm")? == algorithm.name, "{held:?}");
        group.unlock(pod, &held)
    };
    let section =
        || pods.iter().flat_map(|pod| (0..SECTIONS).map(move |_| pod)).try_for_each(section_of);
    let sent = |types: &str| -> Result<f64> {
        let of = |name| format!("protocol=\"lock\",type=\"{name}\"");
        let each = types.split('|').map(|name| {
            prometheus::sum_over(&pods, "conclave_peer_messages_sent_total", &of(name))
        });
        each.sum()
    };
    match algorithm.textbook {
        Cost::Equal(cost) => {
            let label = format!("algorithm=\"{}\"", algorithm.name);
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
            if algorithm.name == SUPERPEERS {
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
            println!("{}: {sent} messages, at most {most}", algorithm.name);
            ensure!(sent > 0.0 && sent <= u32::try_from(most).map(f64::from)?);
            Ok(())
        }
    }
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

#[test]
fn a_member_that_holds_goes_on_and_the_member_that_waits_enters_whatever_takes_the_place_of_what()
-> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("clients in the networks of pods") {
        return Ok(());
    }
    let changes = rotation::changes()?;
    println!("changes: {}", rotation::shown(&changes));
    let Some(first) = changes.first() else { return Ok(()) };
    let locks = format!("[{{names: [\"*\"], algorithm: {}}}]", first.from);
    cluster.in_namespace("lock-changes", |namespace| {
        let spec = format!("{{timing: {PATIENT}, locks: {locks}}}");
        Group::traced(namespace, &spec, PODS, |group| {
            let (counter, pods) = (Counter::deploy(group)?, group.pods()?);
            let load = Load::start(&cluster, &pods, HandOvers::None)?;
            let over = AtomicBool::new(false);
            let spans = thread::scope(|scope| {
                let counting = scope.spawn(|| count_until(&over, &counter, &pods));
                let walked = walk(group, &load, &changes);
                over.store(true, Ordering::Relaxed);
                let sum = counting.join().expect("it does not panic")?;
                println!("{sum} increments, none lost");
                walked
            })?;
            let diary = load.end()?;
            for span in spans {
                let within = |grant: &&Grant| grant.asked > span.begin && grant.at < span.end;
                let grants = diary.grants().iter().filter(within).count();
                let pause = diary.longest_pause(span.edited, span.end);
                println!(
                    "{}: in force after {} ms, longest pause of all grants {} ms",
                    span.change,
                    span.begin.saturating_sub(span.edited).as_millis(),
                    pause.as_millis(),
                );
                ensure!(grants > 0, "{}: nothing was granted afterwards", span.change);
            }
            diary.check()
        })
    })
}

/// Clients in all pods count from zero again and again. The sum of what the counter showed.
fn count_until(over: &AtomicBool, counter: &Counter<'_>, pods: &[Pod]) -> Result<u64> {
    let mut all = 0;
    while !over.load(Ordering::Relaxed) {
        let sum = counter.count(pods, counter::LOCKED, ROUND)?;
        let expected = ROUND * 2 * pods.len() as u64;
        ensure!(sum == expected, "{sum} of {expected} increments");
        all += sum;
    }
    Ok(all)
}

/// When a change was made, by the clock of the load.
struct Span {
    change: Change,
    edited: Duration,
    /// All go by it.
    begin: Duration,
    /// The next one comes.
    end: Duration,
}

/// Makes the changes one after the other.
fn walk(group: &Group<'_>, load: &Load, changes: &[Change]) -> Result<Vec<Span>> {
    let mut line = Line::begin(group)?;
    let mut spans = Vec::new();
    for change in changes {
        line.fill(change.from)?;
        let edited = load.now();
        put_in_force(group, &json!([{"names": ["*"], "algorithm": change.to.name}]))?;
        let begin = load.now();
        line.is_carried_over().with_context(|| change.to_string())?;
        line.advance().with_context(|| change.to_string())?;
        spans.push(Span { change: *change, edited, begin, end: load.now() });
    }
    line.end()?;
    Ok(spans)
}

/// Who holds the watched lock, and who waits for it. Each change has another holder, who waited across
/// the one before.
struct Line<'a> {
    group: &'a Group<'a>,
    pods: Vec<Pod>,
    held: (Pod, Answer),
    waiting: Vec<(Pod, Answer)>,
    /// How many claims there have been.
    asked: usize,
}

impl<'a> Line<'a> {
    /// Somebody holds.
    fn begin(group: &'a Group<'a>) -> Result<Self> {
        let pods = group.pods()?;
        let held = (pods[0].clone(), group.lock(&pods[0], WATCHED, "60s")?);
        Ok(Self { group, pods, held, waiting: Vec::new(), asked: 1 })
    }

    /// Has two others wait. All pods have their turn.
    fn fill(&mut self, algorithm: Algorithm) -> Result<()> {
        while self.waiting.len() < 2 {
            let in_line = |pod: &Pod| {
                let others = self.waiting.iter().map(|(pod, _)| pod);
                others.chain([&self.held.0]).any(|other| other.uid == pod.uid)
            };
            let mut turns = self.pods.iter().cycle().skip(self.asked).take(PODS);
            let pod = turns.find(|pod| !in_line(pod)).context("all are in the line")?.clone();
            let claim = self.group.line_up(&pod, WATCHED, &format!("claim-{}", self.asked))?;
            ensure!(claim.text("state")? == "waiting", "{claim:?}, while another holds");
            ensure!(claim.text("algorithm")? == algorithm.name, "{claim:?}, and not {algorithm}");
            self.waiting.push((pod, claim));
            self.asked += 1;
        }
        Ok(())
    }

    /// The claim that was held is held with its token, and goes on to be extended. The others wait.
    fn is_carried_over(&self) -> Result<()> {
        let first = self.held_until()?;
        wait::until("a later deadline", SOON, || {
            ensure!(self.held_until()?.start > first.end, "it may be the same still");
            Ok(())
        })?;
        for (pod, claim) in &self.waiting {
            let now = self.group.look(pod, claim)?;
            ensure!(now.text("state")? == "waiting", "{now:?}, while another holds");
        }
        Ok(())
    }

    /// Until when the holder still has what it was granted: the answer counts from a moment between
    /// the question and itself.
    fn held_until(&self) -> Result<Range<Instant>> {
        let (pod, grant) = &self.held;
        let asked = Instant::now();
        let now = self.group.look(pod, grant)?;
        ensure!(now.text("state")? == "held", "{now:?}, and before {grant:?}");
        ensure!(now.number("token")? == grant.number("token")?, "{now:?}, and before {grant:?}");
        let safe = Duration::from_millis(now.number("safe_for_ms")?);
        Ok(asked + safe..Instant::now() + safe)
    }

    /// The holder leaves, and one of those that wait enters.
    fn advance(&mut self) -> Result<()> {
        let (pod, before) = &self.held;
        self.group.unlock(pod, before)?;
        let (place, grant) = wait::until("one of those that wait", SOON, || {
            for (place, (pod, claim)) in self.waiting.iter().enumerate() {
                let now = self.group.look(pod, claim)?;
                if now.text("state")? == "held" {
                    return Ok((place, now));
                }
            }
            bail!("nobody holds")
        })?;
        ensure!(grant.number("token")? > before.number("token")?, "{before:?}, then {grant:?}");
        self.held = (self.waiting.remove(place).0, grant);
        Ok(())
    }

    /// All that still wait enter.
    fn end(mut self) -> Result<()> {
        while !self.waiting.is_empty() {
            self.advance()?;
        }
        self.group.unlock(&self.held.0, &self.held.1)
    }
}
