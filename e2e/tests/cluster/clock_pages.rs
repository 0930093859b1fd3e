//! What the clock pages of a group state is true, and time on them does not go back, whatever becomes of members.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use conclave_e2e::clock_pages::{self, Fault, Findings, Source, Watch, at};
use conclave_e2e::cluster::{Cluster, Pod, Signal};
use conclave_e2e::product::{self, Group, SIDECAR, SOON};
use conclave_e2e::wait;

/// How far the raw clock of each sidecar is off, in milliseconds, how much too fast it runs, in parts per million, and by how
/// much its rate differs from that one way and then the other, in parts per billion: otherwise all would have the same. The
/// drifts are within the group's `maxDriftPpm`, and any two wander apart by `maxWanderPpb` at most.
const FAULTS: [(i32, i32, i32); 5] =
    [(0, 0, 0), (1_500, 80, 7_000), (-2_500, -90, -7_000), (400, 40, 3_000), (-700, -60, -5_000)];

#[test]
fn pages_of_clocks_that_are_off_agree_within_their_errors_through_faults() -> Result<()> {
    const TEST: &str = "clock-pages";
    let cluster = &Cluster::from_env()?;
    if !cluster.is_ours_or_skip(TEST) {
        return Ok(());
    }
    cluster.in_namespace(TEST, |namespace| {
        product::install(cluster)?;
        let fault = |(offset_ms, drift_ppm, wander_ppb)| Fault { offset_ms, drift_ppm, wander_ppb };
        let faults = FAULTS.map(fault);
        let group = clock_pages::form_of_wrong_clocks(namespace, "{}", &faults)?;
        await_steps(cluster, &group)?;
        let page = |pod: &Pod| Source::of(cluster, pod);
        let watch = Watch::start(group.pods()?.iter().map(page).collect::<Result<_>>()?);
        let outcome = break_members(cluster, &group);
        let found = watch.end()?;
        show(&found);
        outcome?;
        found.check()
    })
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
