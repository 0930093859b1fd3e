//! Named elections on a real cluster: several at once, of all algorithms; their leaders are killed, give the lead up
//! and drain.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use conclave_e2e::cluster::{Cluster, Pod, Signal};
use conclave_e2e::product::{APPLICATION, Answer, Group, SIDECAR, SOON};
use conclave_e2e::wait;
use conclave_protocols::cost;

use crate::counts::Counts;

/// A lock lasts long, a lead does not.
const FOUR: &str = "{timing: {leaderLease: 600ms, heartbeat: 120ms, memberLease: 60s, apiOutage: 30s}, \
     elections: [{name: reports, algorithm: Bully}, {name: mails, algorithm: Ring}, \
     {name: bills, algorithm: ChangRoberts}, {name: parcels, algorithm: SpanningTree}, \
     {name: audits, algorithm: Ring}]}";

const NAMES: [&str; 4] = ["reports", "mails", "bills", "parcels"];

/// One to withdraw and one to be killed in each, and one that is left.
const MEMBERS: usize = 6;

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
            for (turn, name) in NAMES.iter().enumerate() {
                ensure!(stand(group, &pods[0], name, 0)? == 201);
                ensure!(lead(group, name, &pods)?.0.uid == pods[0].uid, "it is alone");
                for (place, pod) in pods.iter().enumerate().skip(1) {
                    let priority = if place == 1 + turn { 5 } else { 0 };
                    ensure!(stand(group, pod, name, priority)? == 201);
                }
            }
            for (turn, name) in NAMES.iter().enumerate() {
                let (leader, first) = lead(group, name, &pods)?;
                ensure!(leader.uid == pods[0].uid, "a higher priority took {name} away");
                // Those that were killed before stand no longer.
                let left = pods.len() - 2 - turn;
                let before = Counts::of(group, name, &pods)?;
                is_to_cost(group, &pods[0], name, left + 1)?;
                withdraw(group, &leader, name)?;
                let (leader, second) = lead(group, name, &pods)?;
                ensure!(leader.uid == pods[1 + turn].uid, "{} leads {name}", leader.name);
                ensure!(second > first, "{first}, then {second}");
                costs_what_it_is_to(name, left + 1, &before.await_end(group, &pods)?)?;
                let third = a_leader_that_is_killed_is_followed(group, name, &leader, left)?;
                ensure!(third > second, "{second}, then {third}");
            }
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
    let rollout = ["rollout", "status", "deployment/shop", "--timeout=120s"];
    group.namespace.kubectl(&rollout)?;
    group.await_members(MEMBERS)?;
    let pods = group.pods()?;
    lead(group, "audits", &pods)?;
    let candidates = group.get(&pods[0], &path("audits"))?;
    ensure!(candidates.number("candidates")? == MEMBERS as u64, "{candidates:?}");
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

/// Long before a lock of the same pod may be another's.
fn a_leader_that_is_killed_is_followed(
    group: &Group<'_>,
    name: &str,
    leader: &Pod,
    left: usize,
) -> Result<u64> {
    group.lock(leader, &format!("of-{name}"), "5s")?;
    let mut others = group.pods()?;
    others.retain(|pod| pod.uid != leader.uid);
    let before = Counts::of(group, name, &others)?;
    let killed = Instant::now();
    group.namespace.cluster().signal_container(leader, SIDECAR, Signal::KILL)?;
    let (next, token) = lead(group, name, &others)?;
    println!("{name}: {} leads {} ms after a kill", next.name, killed.elapsed().as_millis());
    // The ballot may still be asked of the one that is dead.
    costs_what_it_is_to(name, left + 1, &before.await_end(group, &others)?)?;
    let lock = group.post(&others[0], &format!("/v1/locks/of-{name}"))?;
    ensure!(lock.status != 201, "the lease of its locks was over too: {lock:?}");
    // Its application stood once, and another process of its sidecar does not know.
    wait::until("the sidecar's next process", SOON, || {
        let shown = group.get(leader, &path(name))?;
        ensure!(shown.status == 200 && shown.body["leader"]["uid"] == next.uid, "{shown:?}");
        ensure!(shown.number("candidates")? == left as u64, "{shown:?}");
        Ok(())
    })?;
    Ok(token)
}

/// At best and at worst, by the formulas, if so many stand that live and one of them begins; and what may come on top.
fn formulas(name: &str, stand: usize) -> (u64, u64, u64) {
    let n = stand as u64;
    match name {
        "reports" => (
            cost::bully_living(n, n - 1),
            cost::bully_living(n, 0),
            cost::bully_announced_again(n, 0),
        ),
        "mails" => (cost::ring_living(n), cost::ring_living(n), 0),
        "bills" => (cost::chang_roberts_living(n, n - 1), cost::chang_roberts_living(n, 0), 0),
        _ => {
            let one = cost::spanning_tree_living(n);
            // Who answers late may begin as well.
            (one, one, cost::spanning_tree_most(n) - one)
        }
    }
}

/// Each member states what the formulas have.
fn is_to_cost(group: &Group<'_>, pod: &Pod, name: &str, stand: usize) -> Result<()> {
    let (best, worst, _) = formulas(name, stand);
    wait::until("what a ballot is to cost", SOON, || {
        let shown = group.get(pod, &path(name))?;
        let expected = &shown.body["expected_messages"];
        ensure!(expected["best"] == best && expected["worst"] == worst, "{expected} of {shown:?}");
        Ok(())
    })
}

/// On a ring, members that know who leads before the list has come round once more send less than its formula has.
fn costs_what_it_is_to(name: &str, stand: usize, counts: &Counts) -> Result<()> {
    let (_, worst, on_top) = formulas(name, stand);
    println!("{name}: {} messages of {stand}, {} ballots", counts.sent, counts.held);
    let within = stand as u64 - 2..=(worst + on_top) * counts.held;
    ensure!(within.contains(&counts.sent), "{name} of {stand}: {counts:?}, not {within:?}");
    Ok(())
}

pub(crate) fn path(name: &str) -> String {
    format!("/v1/elections/{name}")
}

pub(crate) fn stand(group: &Group<'_>, pod: &Pod, name: &str, priority: i32) -> Result<u16> {
    let path = format!("{}/candidacy?priority={priority}", path(name));
    Ok(group.curl(pod, &["--request", "PUT"], &path)?.status)
}

pub(crate) fn withdraw(group: &Group<'_>, pod: &Pod, name: &str) -> Result<()> {
    let answer = group.curl(pod, &["--request", "DELETE"], &format!("{}/candidacy", path(name)))?;
    ensure!(answer.status == 204, "{answer:?}");
    Ok(())
}

/// The one of these pods that leads, and its token; once the others know.
pub(crate) fn lead(group: &Group<'_>, name: &str, pods: &[Pod]) -> Result<(Pod, u64)> {
    wait::until(&format!("a leader of {name}"), SOON, || {
        let seen = |pod: &Pod| group.get(pod, &path(name));
        let seen: Vec<Answer> = pods.iter().map(seen).collect::<Result<_>>()?;
        let leads = |shown: &&Answer| shown.body["is_leader"] == true;
        let leading = seen.iter().find(leads).with_context(|| format!("nobody: {seen:?}"))?;
        let known = |shown: &Answer| shown.body["leader"]["uid"] == leading.body["leader"]["uid"];
        ensure!(seen.iter().all(known), "{seen:?}");
        let leader = pods.iter().find(|pod| leading.body["leader"]["uid"] == pod.uid);
        Ok((leader.context("it names another")?.clone(), leading.number("token")?))
    })
}
