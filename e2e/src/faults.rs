//! What tests that break a group have in common: its waits, and the load that it is under.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use conclave_testbed::cluster::{Cluster, Namespace};

use crate::load::{Diary, HandOvers, Load};
use crate::product::Group;

/// Short waits, so that the tests need not be long.
pub const FAST: &str =
    "{timing: {leaderLease: 600ms, heartbeat: 120ms, memberLease: 3s, apiOutage: 60s}}";

/// The same, with an outage of the API server that is soon too long.
pub const BRIEF: &str =
    "{timing: {leaderLease: 600ms, heartbeat: 120ms, memberLease: 3s, apiOutage: 10s}}";

/// Long enough for any lock of [`FAST`] to come free.
pub const CALM: Duration = Duration::from_secs(8);

/// Runs a test of a group of so many pods, on a cluster that may be broken.
///
/// # Errors
///
/// What the test says, or if there is no cluster or no group.
pub fn with_group(
    name: &str,
    spec: &str,
    pods: usize,
    test: impl FnOnce(&Cluster, &Group<'_>) -> Result<()>,
) -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip(name) {
        return Ok(());
    }
    cluster.in_namespace(name, |namespace: &Namespace<'_>| {
        Group::traced(namespace, spec, pods, |group| test(&cluster, group))
    })
}

/// Does something to the group under load. Prints how long leadership and grants were away.
///
/// # Errors
///
/// If it cannot be done, if nothing is granted afterwards, or if the history breaks a promise.
pub fn under_load(
    name: &str,
    cluster: &Cluster,
    group: &Group<'_>,
    calm: Duration,
    act: impl FnOnce() -> Result<()>,
) -> Result<Diary> {
    let pods = group.pods()?;
    let leader = group.await_leader()?;
    let epoch = group.epoch(&leader)?;
    let load = Load::start(cluster, &pods, HandOvers::None)?;
    thread::sleep(Duration::from_secs(2));
    let at = load.now();
    act()?;
    let done = load.now();
    thread::sleep(calm);
    let end = load.now();
    let diary = load.end()?;
    let shown = |took: Result<Duration>| {
        took.map_or_else(|_| "no other".to_owned(), |took| format!("{} ms", took.as_millis()))
    };
    println!(
        "{name}: next leader {}, its first grant {}, longest pause of all grants {} ms",
        shown(diary.next_leader(at, epoch)),
        shown(diary.next_grant(at, epoch)),
        diary.longest_pause(at, end).as_millis(),
    );
    ensure!(
        diary.grants().iter().any(|grant| grant.asked > done),
        "{name}: nothing was granted afterwards"
    );
    diary.check()?;
    Ok(diary)
}
