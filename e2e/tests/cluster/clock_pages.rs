//! What the clock pages of a group state is true, and time on them does not go back, whatever becomes of members.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_e2e::clock_pages::{self, Fault, Findings, Source, Watch, at};
use conclave_e2e::product::{self, Group, SIDECAR, SOON};
use conclave_testbed::cluster::{Cluster, Pod, Signal};
use conclave_testbed::wait;

/// How far the raw clock of each sidecar is off, in milliseconds, how much too fast it runs, in parts per million, and by how
/// much its rate differs from that one way and then the other, in parts per billion: otherwise all would have the same. The
/// drifts are within the group's `maxDriftPpm`, and any two wander apart by `maxWanderPpb` at most.
const FAULTS: [(i32, i32, i32); 5] =
    [(0, 0, 0), (1_500, 80, 7_000), (-2_500, -90, -7_000), (400, 40, 3_000), (-700, -60, -5_000)];

#[test]
fn pages_of_clocks_that_are_off_agree_within_their_errors_through_faults() -> Result<()> {
    among("clock-pages", FAULTS, |cluster, group| {
        await_steps(cluster, group)?;
        let page = |pod: &Pod| Source::of(cluster, pod);
        let watch = Watch::start(group.pods()?.iter().map(page).collect::<Result<_>>()?);
        let outcome = break_members(cluster, group);
        let found = watch.end()?;
        show(&found);
        outcome?;
        found.check()
    })
}

/// A group of five in a namespace of its own, whose clocks have these faults.
fn among(
    test: &str,
    faults: [(i32, i32, i32); 5],
    act: impl FnOnce(&Cluster, &Group<'_>) -> Result<()>,
) -> Result<()> {
    let cluster = &Cluster::from_env()?;
    if !cluster.is_ours_or_skip(test) {
        return Ok(());
    }
    cluster.in_namespace(test, |namespace| {
        product::install(cluster)?;
        let fault = |(offset_ms, drift_ppm, wander_ppb)| Fault { offset_ms, drift_ppm, wander_ppb };
        let group = clock_pages::form_of_wrong_clocks(namespace, "{}", &faults.map(fault))?;
        act(cluster, &group)
    })
}

/// The wall clock of [`OFF`] is five seconds off, and [`DRIFTS`] runs 600 parts per million too fast, of which the group
/// assumes 100 at most.
const BROKEN: [(i32, i32, i32); 5] =
    [(0, 0, 0), (2, 20, 0), (-2, -20, 0), (5_000, 40, 0), (1, 600, 0)];

const OFF: &str = "shop-3-";

const DRIFTS: &str = "shop-4-";

#[test]
fn a_raw_clock_that_drifts_more_than_is_assumed_is_noticed_and_a_wall_clock_that_is_off_is_named()
-> Result<()> {
    among("clock-broken", BROKEN, |cluster, group| {
        let leader = group.await_leader()?;
        if leader.name.starts_with(DRIFTS) {
            // Nobody would know group time.
            cluster.signal_container(&leader, SIDECAR, Signal::KILL)?;
            group.await_members(BROKEN.len())?;
        }
        let pods = group.pods()?;
        wait::until("what is said of both", SOON, || {
            pods.iter().try_for_each(|pod| sees_what_is_broken(group, pod))
        })
    })
}

fn sees_what_is_broken(group: &Group<'_>, pod: &Pod) -> Result<()> {
    let found = group.get(pod, "/v1/time/peers")?;
    let peers = found.body["peers"].as_array().context("a list of peers")?;
    ensure!(peers.len() == BROKEN.len() - 1, "{} has {found:?}", pod.name);
    let drifts = pod.name.starts_with(DRIFTS);
    for peer in peers {
        let name = peer["pod"].as_str().context("a name")?;
        let contradicts = peer["contradictions"].as_u64().context("a count")? > 0;
        ensure!(contradicts == (drifts || name.starts_with(DRIFTS)), "{} has {peer}", pod.name);
        let is_named = peer["host"]["outlier"] == true;
        ensure!(drifts || is_named == name.starts_with(OFF), "{} has {peer}", pod.name);
    }
    let is_named = found.body["host"]["outlier"] == true;
    ensure!(is_named == pod.name.starts_with(OFF), "{} has {found:?}", pod.name);
    let time = group.get(pod, "/v1/time")?;
    let is_in_step = time.text("status")? == "synchronized";
    ensure!(is_in_step != drifts, "{} has {time:?}", pod.name);
    Ok(())
}

/// A member that stalls, then a leader that dies.
fn break_members(cluster: &Cluster, group: &Group<'_>) -> Result<()> {
    thread::sleep(CALM);
    let stalls = group.followers()?.pop().context("four follow")?;
    let process = cluster.process(&stalls, SIDECAR)?;
    process.signal(Signal::STOP)?;
    thread::sleep(STALL);
    process.signal(Signal::CONT)?;
    await_steps(cluster, group)?;
    thread::sleep(CALM);
    let leader = group.await_leader()?;
    cluster.signal_container(&leader, SIDECAR, Signal::KILL)?;
    thread::sleep(CALM);
    group.await_members(FAULTS.len())?;
    await_steps(cluster, group)?;
    thread::sleep(CALM);
    Ok(())
}

fn await_steps(cluster: &Cluster, group: &Group<'_>) -> Result<()> {
    wait::until("clocks in step", SOON, || clock_pages::are_in_step(cluster, &group.pods()?))
}

fn show(found: &Findings) {
    println!(
        "the largest difference of two: p50 {:?} ns, p99 {:?} ns, most {:?} ns; error stated: p50 {:?} ns, p99 {:?} ns; \
         {} pairs, {} outside; {} steps backward; {:?}",
        at(&found.apart, 500),
        at(&found.apart, 990),
        at(&found.apart, 1_000),
        at(&found.bounds, 500),
        at(&found.bounds, 990),
        found.pairs,
        found.outside.len(),
        found.backward.len(),
        found.statuses
    );
}

/// Longer than the default leader lease.
const STALL: Duration = Duration::from_secs(5);

/// Long enough to read a page hundreds of times.
const CALM: Duration = Duration::from_secs(8);
