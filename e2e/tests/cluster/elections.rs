//! Named elections on a real cluster: several at once, of all algorithms; their leaders are killed, give the lead up
//! and drain.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use conclave_e2e::product::{APPLICATION, Answer, Group, SIDECAR, SOON};
use conclave_protocols::cost;
use conclave_protocols::policy::ElectionAlgorithm;
use conclave_testbed::cluster::{Cluster, Pod, Signal};
use conclave_testbed::wait;

use crate::counts::Counts;
use crate::nominations;

/// A lock lasts long, a lead does not. Both together are waited for: after a leader and a follower fell silent at once, also
/// leads wait for the member lease. A busy machine takes no leader lease of such a length away.
const FOUR: &str = "{timing: {leaderLease: 1500ms, heartbeat: 120ms, memberLease: 30s, apiOutage: 30s}, \
     elections: [{name: reports, algorithm: Bully}, {name: mails, algorithm: Ring}, \
     {name: bills, algorithm: ChangRoberts}, {name: parcels, algorithm: SpanningTree}, \
     {name: audits, algorithm: Ring}]}";

/// That of [`FOUR`].
const MEMBER_LEASE: Duration = Duration::from_secs(30);

const NAMES: [(&str, ElectionAlgorithm); 4] = [
    ("reports", ElectionAlgorithm::Bully),
    ("mails", ElectionAlgorithm::Ring),
    ("bills", ElectionAlgorithm::ChangRoberts),
    ("parcels", ElectionAlgorithm::SpanningTree),
];

/// One withdraws in each, and another is killed.
const MEMBERS: usize = 6;

/// Candidates of each ballot in which all live.
const STAND: usize = MEMBERS - 1;

/// Those that are left when one of them was killed.
const LEFT: usize = STAND - 1;

/// Ballots at most until one goes by the formula alone, and the highest priority wins: on a machine with much to do one may
/// answer late, and counts as dead.
const BALLOTS: usize = 10;

#[test]
fn four_elections_at_once_each_have_one_leader_also_when_it_dies_or_resigns() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a crash of a sidecar") {
        return Ok(());
    }
    cluster.in_namespace("elections", |namespace| {
        Group::traced(namespace, FOUR, MEMBERS, |group| {
            // The crash of the group's own leader would cost all four.
            let mut pods = vec![group.await_leader()?];
            pods.extend(group.followers()?);
            for (turn, (name, _)) in NAMES.iter().enumerate() {
                ensure!(stand(group, &pods[0], name, 0)? == 201);
                ensure!(lead(group, name, &pods)?.0.uid == pods[0].uid, "it is alone");
                for (place, pod) in pods.iter().enumerate().skip(1) {
                    let priority = if place == 1 + turn { 5 } else { 0 };
                    ensure!(stand(group, pod, name, priority)? == 201);
                }
            }
            let leads_still = |(name, _): &(&str, _)| -> Result<bool> {
                Ok(lead(group, name, &pods)?.0.uid == pods[0].uid)
            };
            let kept = NAMES.iter().map(leads_still).collect::<Result<Vec<_>>>()?;
            let taken = kept.iter().filter(|kept| !**kept).count();
            ensure!(taken < 3, "a higher priority took {taken} of four leads away");
            let mut followed_at_once = 0;
            for (turn, (name, algorithm)) in NAMES.into_iter().enumerate() {
                let next = &pods[1 + turn];
                let second = a_ballot_goes_by_the_formula(group, (name, algorithm), &pods, next)?;
                let (third, at_once) =
                    a_leader_that_is_killed_is_followed(group, (name, algorithm), next)?;
                followed_at_once += usize::from(at_once);
                ensure!(third > second, "{second}, then {third}");
                for (name, _) in &NAMES[turn + 1..] {
                    wait::until("a candidacy of the next process", SOON, || {
                        let status = stand(group, next, name, 0)?;
                        ensure!(status == 201, "{status}");
                        Ok(())
                    })?;
                }
            }
            ensure!(followed_at_once > 1, "{followed_at_once} of four were followed at once");
            group.await_members(MEMBERS)?;
            applications_that_only_ask_are_put_forward_by_an_annotation(group)
        })
    })
}

/// Every pod is replaced by one that stands from the beginning; and a lead is given up with its connection.
fn applications_that_only_ask_are_put_forward_by_an_annotation(group: &Group<'_>) -> Result<()> {
    let annotation = r#"{"spec": {"template": {"metadata": {"annotations": {
        "conclave.dev/elections": "audits"}}}}}"#;
    let patch = ["patch", "deployment/shop", "--patch", annotation];
    group.namespace.kubectl(&patch)?;
    group.namespace.await_deployment("shop")?;
    group.await_members(MEMBERS)?;
    let pods = group.pods()?;
    lead(group, "audits", &pods)?;
    wait::until("all candidates", SOON, || {
        let shown = group.get(&pods[0], &path("audits"))?;
        ensure!(shown.number("candidates")? == MEMBERS as u64, "{shown:?}");
        Ok(())
    })?;
    // `curl` is the application here, and `timeout` ends it by SIGKILL.
    let url = "http://localhost:7070/v1/elections/bills/candidacy";
    let curl =
        ["timeout", "-s", "KILL", "15", "curl", "--silent", "--no-buffer", "--request", "PUT"];
    let stream = [&curl[..], &["--header", "Accept: text/event-stream", url]].concat();
    std::thread::scope(|scope| -> Result<()> {
        let application = scope.spawn(|| group.namespace.exec(&pods[0].name, APPLICATION, &stream));
        let (leader, _) = lead(group, "bills", &pods)?;
        ensure!(leader.uid == pods[0].uid, "{} leads", leader.name);
        ensure!(application.join().expect("it does not panic").is_err(), "it was not killed");
        Ok(())
    })?;
    wait::until("nobody to lead", SOON, || {
        let bills = group.get(&pods[1], &path("bills"))?;
        ensure!(bills.body["leader"].is_null() && bills.number("candidates")? == 0, "{bills:?}");
        Ok(())
    })
}

/// The leader of the group, which calls the ballots and has the first lead, withdraws, and of those that are left one begins.
/// The token of the next.
fn a_ballot_goes_by_the_formula(
    group: &Group<'_>,
    (name, algorithm): (&str, ElectionAlgorithm),
    pods: &[Pod],
    next: &Pod,
) -> Result<u64> {
    let (leader, mut first) = lead(group, name, pods)?;
    if leader.uid != pods[0].uid {
        // On a busy machine it may have lost the lead since it was alone, to the higher priority.
        println!("{name}: {} leads already", leader.name);
        first = leads_again(group, name, pods, next, (leader, first))?;
    }
    let mut seen = Vec::new();
    for _ in 0..BALLOTS {
        let before = Counts::of(group, name, pods)?;
        is_to_cost(group, &pods[0], name, algorithm)?;
        withdraw(group, &pods[0], name)?;
        let (leader, second) = lead_after(group, name, pods, first)?;
        let counts = before.await_end(group, pods)?;
        println!(
            "{name}: {} messages, {} ballots, {} leads",
            counts.sent, counts.held, leader.name
        );
        if leader.uid == next.uid && among_the_living(algorithm).contains(&counts.sent) {
            return Ok(second);
        }
        seen.push((counts.sent, leader.name.clone()));
        first = leads_again(group, name, pods, next, (leader, second))?;
    }
    bail!("{name}: {seen:?}, and never {} by {:?}", next.name, among_the_living(algorithm))
}

/// The first leads again, as before a ballot, and the others stand. Its token.
fn leads_again(
    group: &Group<'_>,
    name: &str,
    pods: &[Pod],
    next: &Pod,
    (mut leader, mut token): (Pod, u64),
) -> Result<u64> {
    ensure!(stand(group, &pods[0], name, 9)? == 201);
    for _ in 0..BALLOTS {
        withdraw(group, &leader, name)?;
        let (another, later) = lead_after(group, name, pods, token)?;
        let priority = if leader.uid == next.uid { 5 } else { 0 };
        ensure!(stand(group, &leader, name, priority)? == 201);
        (leader, token) = (another, later);
        if leader.uid == pods[0].uid {
            return Ok(token);
        }
    }
    bail!("{name}: the highest priority never leads")
}

/// What a ballot of all that live costs by the formulas, if the first of them begins. That is the lowest rank, and has the
/// lowest place, or the highest if it is the one of the higher priority.
fn among_the_living(algorithm: ElectionAlgorithm) -> RangeInclusive<u64> {
    let n = STAND as u64;
    match algorithm {
        // A member that hears of the winner before anybody asks it asks nobody; and the highest announces itself again to each that
        // asks it after the first.
        ElectionAlgorithm::Bully => {
            let most = cost::bully_living(n, 0) + cost::bully_announced_again(n, 0);
            cost::bully_living(n, n - 1)..=most
        }
        // A member that knows who leads before the announcement comes round passes it on no more; the list has come round.
        ElectionAlgorithm::Ring => n + 1..=cost::ring_living(n),
        ElectionAlgorithm::ChangRoberts => n + 1..=cost::chang_roberts_living(n, 0),
        ElectionAlgorithm::SpanningTree => {
            cost::spanning_tree_living(n)..=cost::spanning_tree_living(n)
        }
    }
}

/// Long before a lock of the same pod may be another's. The token of the next, and whether it was so.
fn a_leader_that_is_killed_is_followed(
    group: &Group<'_>,
    (name, algorithm): (&str, ElectionAlgorithm),
    leader: &Pod,
) -> Result<(u64, bool)> {
    group.lock(leader, &format!("of-{name}"), "5s")?;
    let mut others = group.pods()?;
    others.retain(|pod| pod.uid != leader.uid);
    let before = Counts::of(group, name, &others)?;
    let killed = Instant::now();
    group.namespace.cluster().signal_container(leader, SIDECAR, Signal::KILL)?;
    let (next, token) = lead(group, name, &others)?;
    let took = killed.elapsed();
    println!("{name}: {} leads {} ms after a kill", next.name, took.as_millis());
    // It may still be called among all, and the others may miss it one after the other; and one may have come to nothing.
    let counts = before.await_end(group, &others)?;
    let (_, with_the_dead) = nominations::costs(algorithm, LEFT as u64 + 1);
    let most = with_the_dead.max(most_among_the_living(algorithm, LEFT as u64)) * (counts.held + 1);
    let within = LEFT as u64 - 1..=most;
    println!("{name}: {} messages, {} ballots, {within:?}", counts.sent, counts.held);
    ensure!(within.contains(&counts.sent), "{name}: {counts:?}, not {within:?}");
    let lock = group.post(&others[0], &format!("/v1/locks/of-{name}"))?;
    // If the leader of the group fell silent too, also leads waited for that.
    let at_once = took < MEMBER_LEASE / 2;
    ensure!(!at_once || lock.status != 201, "the lease of its locks was over too: {lock:?}");
    // Its application stood once, and another process of its sidecar does not know.
    let latest = wait::until("the sidecar's next process", SOON, || {
        let (leads, latest) = lead(group, name, &others)?;
        let shown = group.get(leader, &path(name))?;
        ensure!(shown.status == 200 && shown.body["leader"]["uid"] == leads.uid, "{shown:?}");
        ensure!(shown.number("candidates")? == LEFT as u64, "{shown:?}");
        Ok(latest)
    })?;
    // On a busy machine another may lead by then.
    if latest != token {
        println!("{name}: another leads, with {latest} after {token}");
    }
    Ok((latest, at_once))
}

/// What a ballot may cost of so many that live, of which somebody answers late, or the highest bully is asked again and
/// again.
fn most_among_the_living(algorithm: ElectionAlgorithm, n: u64) -> u64 {
    match algorithm {
        ElectionAlgorithm::Bully => cost::bully_living(n, 0) + cost::bully_announced_again(n, 0),
        ElectionAlgorithm::Ring => cost::ring_living(n) + n,
        ElectionAlgorithm::ChangRoberts => cost::chang_roberts_living(n, 0) + n,
        ElectionAlgorithm::SpanningTree => cost::spanning_tree_most(n),
    }
}

/// The API states what the formulas have, if the highest begins and if the lowest does.
fn is_to_cost(
    group: &Group<'_>,
    pod: &Pod,
    name: &str,
    algorithm: ElectionAlgorithm,
) -> Result<()> {
    let n = STAND as u64;
    let of = |begins| match algorithm {
        ElectionAlgorithm::Bully => cost::bully_living(n, begins),
        ElectionAlgorithm::Ring => cost::ring_living(n),
        ElectionAlgorithm::ChangRoberts => cost::chang_roberts_living(n, begins),
        ElectionAlgorithm::SpanningTree => cost::spanning_tree_living(n),
    };
    wait::until("what a ballot is to cost", SOON, || {
        let shown = group.get(pod, &path(name))?;
        let expected = &shown.body["expected_messages"];
        let (best, worst) = (of(n - 1), of(0));
        ensure!(
            expected["best"] == best && expected["worst"] == worst,
            "{best} to {worst}, not {shown:?}"
        );
        Ok(())
    })
}

pub(crate) fn path(name: &str) -> String {
    format!("/v1/elections/{name}")
}

pub(crate) fn stand(group: &Group<'_>, pod: &Pod, name: &str, priority: i32) -> Result<u16> {
    let path = format!("{}/candidacy?priority={priority}", path(name));
    Ok(group.call(pod, "PUT", &path)?.status)
}

pub(crate) fn withdraw(group: &Group<'_>, pod: &Pod, name: &str) -> Result<()> {
    let answer = group.call(pod, "DELETE", &format!("{}/candidacy", path(name)))?;
    ensure!(answer.status == 204, "{answer:?}");
    Ok(())
}

/// The one of these pods that leads, and its token; once the others know.
pub(crate) fn lead(group: &Group<'_>, name: &str, pods: &[Pod]) -> Result<(Pod, u64)> {
    lead_after(group, name, pods, 0)
}

/// The same, of one that began to lead after the token of another.
pub(crate) fn lead_after(
    group: &Group<'_>,
    name: &str,
    pods: &[Pod],
    token: u64,
) -> Result<(Pod, u64)> {
    wait::until(&format!("a leader of {name}"), SOON, || {
        let seen = |pod: &Pod| group.get(pod, &path(name));
        let seen: Vec<Answer> = pods.iter().map(seen).collect::<Result<_>>()?;
        let leads = |shown: &&Answer| shown.body["is_leader"] == true;
        let leading = seen.iter().find(leads).with_context(|| format!("nobody: {seen:?}"))?;
        let known = |shown: &Answer| shown.body["leader"]["uid"] == leading.body["leader"]["uid"];
        ensure!(seen.iter().all(known), "{seen:?}");
        let leader = pods.iter().find(|pod| leading.body["leader"]["uid"] == pod.uid);
        let later = leading.number("token")?;
        ensure!(later > token, "{later} is not after {token}");
        Ok((leader.context("it names another")?.clone(), later))
    })
}
