//! What a sidecar costs its node: memory and time on a core, at rest and under load.

use std::fmt::Display;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use conclave_testbed::cluster::{Cluster, Pod};
use rustix::param::clock_ticks_per_second;

use super::server::memory_kib;
use crate::load::{Habit, HandOvers, Load};
use crate::product::{Group, SIDECAR};

/// How many pods the group has.
const PODS: usize = 5;

/// For how long each part is measured.
const SPAN: Duration = Duration::from_secs(30);

/// Measures a group of the default profile: each pod's application takes a lock of its own, as fast as it can.
pub(super) fn run() -> Result<()> {
    let cluster = &Cluster::from_env()?;
    ensure!(
        cluster.is_ours_or_skip("the processes of sidecars"),
        "this needs a cluster of its own"
    );
    cluster.in_namespace("bench-footprint", |namespace| {
        let group = Group::start(namespace, "{}", PODS)?;
        let leader = group.await_leader()?;
        let sidecars: Vec<Sidecar> = group
            .pods()?
            .iter()
            .map(|pod| Sidecar::of(cluster, pod, pod.uid == leader.uid))
            .collect::<Result<_>>()?;
        println!(
            "\n| a sidecar | of a core | resident | of that its own |\n| --- | --- | --- | --- |"
        );
        // By the end it has given back the code of its start.
        thread::sleep(SPAN * 2);
        measure("at rest", &sidecars)?;
        let mut load = Load::new(HandOvers::None);
        for pod in group.pods()? {
            let own = Habit::Takes(format!("of-{}", pod.name), Duration::ZERO);
            load.add(cluster, &pod, &[own])?;
        }
        let begun = load.now();
        measure("under load", &sidecars)?;
        let took = load.now().saturating_sub(begun);
        let diary = load.end()?;
        let grants = diary.grants().iter().filter(|grant| grant.at > begun).count();
        let rate = f64::from(u32::try_from(grants)?) / took.as_secs_f64();
        println!("{rate:.0} locks a second by {PODS} clients");
        Ok(())
    })
}

/// The process of a sidecar.
struct Sidecar {
    pid: i32,
    name: &'static str,
}

impl Sidecar {
    fn of(cluster: &Cluster, pod: &Pod, leads: bool) -> Result<Self> {
        let name = if leads { "at the leader" } else { "at a follower" };
        Ok(Self { pid: cluster.host_pid(pod, SIDECAR)?, name })
    }
}

fn measure(how: &str, sidecars: &[Sidecar]) -> Result<()> {
    let (begin, before) = (Instant::now(), times(sidecars)?);
    thread::sleep(SPAN);
    let (took, after) = (begin.elapsed(), times(sidecars)?);
    for (sidecar, (before, after)) in sidecars.iter().zip(before.into_iter().zip(after)) {
        let share = 100.0 * after.saturating_sub(before).as_secs_f64() / took.as_secs_f64();
        let pid = sidecar.pid.try_into()?;
        let [resident, own] = [memory_kib(pid, "VmRSS:")?, memory_kib(pid, "RssAnon:")?];
        let name = sidecar.name;
        println!("| {name}, {how} | {share:.1} % | {resident} KiB | {own} KiB |");
    }
    Ok(())
}

/// The time of each on a core so far.
fn times(sidecars: &[Sidecar]) -> Result<Vec<Duration>> {
    sidecars.iter().map(|sidecar| time_on_core(sidecar.pid)).collect()
}

/// The time of a process on a core so far.
pub(super) fn time_on_core(pid: impl Display) -> Result<Duration> {
    of_stat(&fs::read_to_string(format!("/proc/{pid}/stat"))?)
}

/// That of its threads of a name.
pub(super) fn thread_time_on_core(pid: i32, name: &str) -> Result<Duration> {
    let mut total = Duration::ZERO;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = thread?.path();
        if fs::read_to_string(path.join("comm"))?.trim_end() == name {
            total += of_stat(&fs::read_to_string(path.join("stat"))?)?;
        }
    }
    Ok(total)
}

fn of_stat(stat: &str) -> Result<Duration> {
    // proc_pid_stat(5): the command in parentheses may itself contain any character; utime and stime
    // are the twelfth and the thirteenth field after it.
    let (_, fields) = stat.rsplit_once(") ").context("no command")?;
    let mut ticks = 0;
    for field in fields.split(' ').skip(11).take(2) {
        ticks += field.parse::<u64>()?;
    }
    Ok(Duration::from_millis(ticks * 1_000 / clock_ticks_per_second()))
}
