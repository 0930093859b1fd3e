//! `cargo xtask bench time`: how far the clocks of a group are apart, beside Debian's chronyd in the same pods at the
//! same time.
//!
//! All nodes are on this machine and have its kernel's clock, so what two clocks differ by at one moment is their error.

use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use conclave_testbed::cluster::{Cluster, Pod, PodNetwork, Signal};
use conclave_testbed::{packages, wait};

use super::chrony::{Chrony, MODES};
use super::footprint::{thread_time_on_core, time_on_core};
use super::reads;
use super::server::end;
use super::tallies::Tally;
use crate::clock_pages::{self, Findings, Source, Starts, Watch, at};
use crate::product::{self, Group, SIDECAR};

/// How many members the group has.
const MEMBERS: usize = 5;

/// How often each chronyd is asked for its offset.
const ASKED: Duration = Duration::from_millis(250);

/// How many processes burn a core in the second part.
const HOGS: usize = 2;

/// The policy of the third part: clocks are steady to 1 ppm.
const STEADY: &str = r#"{"spec": {"clock": {"maxWanderPpb": 1000}}}"#;

/// The thread of clock probes.
const PROBES: &str = "clock-probes";

/// How many members join, one after the other.
const JOINS: usize = 3;

const SOON: Duration = Duration::from_secs(60);

/// For how long is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    /// Before the first part.
    pub settle: Duration,
    /// Each part.
    pub measure: Duration,
}

/// Measures on the cluster that `cargo xtask cluster up` has booted, and prints the figures.
pub(super) fn run(spans: Spans) -> Result<()> {
    let cluster = &Cluster::from_env()?;
    ensure!(cluster.is_ours_or_skip("the clocks of a group"), "this needs a cluster of its own");
    packages::install_time_rivals()?;
    super::put_on(cluster)?;
    cluster.in_namespace("bench-time", |namespace| {
        product::install(cluster)?;
        let starts = Starts::watch(cluster)?;
        let group = clock_pages::form(namespace, "{}", MEMBERS)?;
        await_steps(cluster, &group)?;
        let mut took = vec![("five start at once", starts.end(cluster, &group.pods()?)?)];
        took.push(("one joins four", joins(cluster, &group)?));
        let bed = Bed { cluster, pods: group.pods()? };
        measure(&bed, &group, spans)?;
        print_starts(&took);
        reads::by_http(cluster, bed.pods.first().context("five pods")?)
    })?;
    reads::of_the_page()
}

/// The pods that are measured.
struct Bed<'a> {
    cluster: &'a Cluster,
    pods: Vec<Pod>,
}

fn measure(bed: &Bed<'_>, group: &Group<'_>, spans: Spans) -> Result<()> {
    let places = bed.places()?;
    let mut rivals: Vec<Chrony> =
        MODES.into_iter().map(|mode| Chrony::start(mode, &places)).collect::<Result<_>>()?;
    for rival in &mut rivals {
        rival.await_steps(SOON)?;
    }
    thread::sleep(spans.settle);
    let mut parts = Vec::new();
    let mut both = |[at_rest, beside_hogs]: [&'static str; 2]| -> Result<()> {
        for (name, hogs) in [(at_rest, 0), (beside_hogs, HOGS)] {
            let hogs = Hogs::start(hogs)?;
            parts.push((name, bed.part(&mut rivals, spans.measure)?));
            drop(hogs);
        }
        Ok(())
    };
    both(["at rest", "beside two processes that burn a core each"])?;
    group.namespace.kubectl(&["patch", "ccv", "orders", "--type=merge", "--patch", STEADY])?;
    thread::sleep(spans.settle);
    both([
        "at rest, `maxWanderPpb: 1000`",
        "beside two processes that burn a core each, `maxWanderPpb: 1000`",
    ])?;
    let leader = group.await_leader()?;
    let pods = group.followers()?;
    bed.cluster.signal_container(&leader, SIDECAR, Signal::KILL)?;
    let followers = Bed { cluster: bed.cluster, pods };
    parts.push(("whose leader is killed, the other four", followers.part(&mut [], spans.measure)?));
    for (name, part) in &parts {
        part.print(name);
    }
    for rival in &rivals {
        let both =
            if rival.has_kernel_stamps()? { "from the kernel" } else { "NOT from the kernel" };
        println!("{}: the stamps of packets are {both}", rival.mode.name);
    }
    parts.iter().try_for_each(|(name, part)| part.found.check().context(*name))
}

impl Bed<'_> {
    fn places(&self) -> Result<Vec<(PodNetwork, IpAddr)>> {
        let place = |pod: &Pod| Ok((self.cluster.network_of(pod)?, pod.address));
        self.pods.iter().map(place).collect()
    }

    /// Measures all at the same time.
    fn part(&self, rivals: &mut [Chrony], span: Duration) -> Result<Part> {
        let pids: Vec<i32> = self
            .pods
            .iter()
            .map(|pod| self.cluster.host_pid(pod, SIDECAR))
            .collect::<Result<_>>()?;
        let spent = || {
            let one = |pid: &i32| Ok((time_on_core(*pid)?, thread_time_on_core(*pid, PROBES)?));
            pids.iter().map(one).collect::<Result<Vec<_>>>()
        };
        let mut figures: Vec<Rival> =
            rivals.iter().map(|rival| Rival::new(rival.mode.name)).collect();
        let tally = Tally::of(&self.pods)?;
        let (begin, before) = (Instant::now(), spent()?);
        let burnt = rivals.iter().map(Chrony::time_on_core).collect::<Result<Vec<_>>>()?;
        let page = |pod: &Pod| Source::of(self.cluster, pod);
        let watch = Watch::start(self.pods.iter().map(page).collect::<Result<_>>()?);
        let mut next = begin;
        while begin.elapsed() < span {
            for (rival, figures) in rivals.iter_mut().zip(&mut figures) {
                figures.note(rival)?;
            }
            next += ASKED;
            thread::sleep(next.saturating_duration_since(Instant::now()));
            next = next.max(Instant::now());
        }
        let (took, after, found) = (begin.elapsed(), spent()?, watch.end()?);
        let counted = Tally::of(&self.pods)?.since(&tally);
        let share = |spent: Duration| 100.0 * spent.as_secs_f64() / took.as_secs_f64();
        for (figures, (rival, burnt)) in figures.iter_mut().zip(rivals.iter().zip(burnt)) {
            let each = rival.time_on_core()?.saturating_sub(burnt) / u32::try_from(MEMBERS)?;
            figures.core = share(each);
        }
        let cores = after.into_iter().zip(before).map(|(after, before)| {
            (share(after.0.saturating_sub(before.0)), share(after.1.saturating_sub(before.1)))
        });
        Ok(Part { found, rivals: figures, cores: cores.collect(), counted })
    }
}

/// What one part has shown.
struct Part {
    found: Findings,
    rivals: Vec<Rival>,
    /// What each sidecar took of a core, and its thread of clock probes, in per cent.
    cores: Vec<(f64, f64)>,
    /// What they counted.
    counted: String,
}

/// What the instances of one mode of chronyd have shown.
struct Rival {
    name: &'static str,
    apart: Vec<u64>,
    bounds: Vec<u64>,
    pairs: usize,
    outside: usize,
    core: f64,
}

impl Rival {
    fn new(name: &'static str) -> Self {
        Self { name, apart: Vec::new(), bounds: Vec::new(), pairs: 0, outside: 0, core: 0.0 }
    }

    /// Asks all instances once.
    fn note(&mut self, rival: &mut Chrony) -> Result<()> {
        let all = rival.tracking()?;
        // The first is the kernel's clock.
        let mut clocks = vec![(0.0, 0.0)];
        clocks.extend(all.iter().map(|clock| (clock.offset, clock.bound)));
        let mut widest = 0.0_f64;
        for (place, one) in clocks.iter().enumerate() {
            for other in &clocks[..place] {
                let apart = (one.0 - other.0).abs();
                widest = widest.max(apart);
                self.pairs += 1;
                self.outside += usize::from(apart > one.1 + other.1);
            }
        }
        self.apart.push(nanoseconds(widest)?);
        for clock in all {
            self.bounds.push(nanoseconds(clock.bound)?);
        }
        Ok(())
    }
}

impl Part {
    fn print(&self, how: &str) {
        println!(
            "\n| five clocks, {how}: the largest difference of two | p50 | p99 | most | p99, Conclave = 1 | error \
             stated, p50 | p99 | pairs within both | back | n |"
        );
        println!("|{}", " --- |".repeat(10));
        let found = &self.found;
        let own = at(&found.apart, 990);
        let back = found.backward.len().to_string();
        let pairs = (found.pairs, found.outside.len());
        row("Conclave", &found.apart, &found.bounds, own, pairs, &back);
        for rival in &self.rivals {
            row(rival.name, &rival.apart, &rival.bounds, own, (rival.pairs, rival.outside), "");
        }
        println!("the status of the pages read: {:?}, missed: {}", found.statuses, found.missed);
        let cores = self.cores.iter().map(|(all, probes)| format!("{all:.2} % ({probes:.2} %)"));
        let cores: Vec<String> = cores.collect();
        println!("{}", self.counted);
        println!("of a core, each sidecar (its thread of clock probes): {}", cores.join(", "));
        for rival in &self.rivals {
            println!("of a core, each instance of {}: {:.2} %", rival.name, rival.core);
        }
    }
}

fn row(
    name: &str,
    apart: &[u64],
    bounds: &[u64],
    own: Option<u64>,
    (pairs, outside): (usize, usize),
    back: &str,
) {
    let [p50, p99, most] = [500, 990, 1_000].map(|per_mille| shown(at(apart, per_mille)));
    let [bound, rare] = [500, 990].map(|per_mille| shown(at(bounds, per_mille)));
    let ratio = match (at(apart, 990), own) {
        (Some(theirs), Some(own)) if own > 0 => format!("{:.1}", share(theirs, own)),
        _ => String::new(),
    };
    let within = 100.0 * share((pairs - outside) as u64, pairs as u64);
    let n = apart.len();
    println!(
        "| {name} | {p50} | {p99} | {most} | {ratio} | {bound} | {rare} | {within:.3} % | {back} | {n} |"
    );
}

#[expect(clippy::cast_precision_loss, reason = "a figure that is printed with three digits")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// In microseconds.
fn shown(nanoseconds: Option<u64>) -> String {
    nanoseconds.map_or_else(|| "-".to_owned(), |ns| format!("{:.2} µs", share(ns, 1_000)))
}

fn nanoseconds(seconds: f64) -> Result<u64> {
    let time = Duration::try_from_secs_f64(seconds).with_context(|| format!("{seconds} s"))?;
    Ok(time.as_nanos().try_into()?)
}

/// Deletes a pod that does not lead, again and again; each time another joins.
fn joins(cluster: &Cluster, group: &Group<'_>) -> Result<Vec<Duration>> {
    let mut all = Vec::new();
    for _ in 0..JOINS {
        let old = group.pods()?;
        let leaves = group.followers()?.pop().context("four follow")?;
        let starts = Starts::watch(cluster)?;
        group.namespace.kubectl(&["delete", "pod", &leaves.name])?;
        group.await_members(MEMBERS)?;
        await_steps(cluster, group)?;
        let is_new = |pod: &Pod| old.iter().all(|other| other.uid != pod.uid);
        let new: Vec<Pod> = group.pods()?.into_iter().filter(is_new).collect();
        all.extend(starts.end(cluster, &new)?);
    }
    Ok(all)
}

/// Waits until each page states a time.
fn await_steps(cluster: &Cluster, group: &Group<'_>) -> Result<()> {
    wait::until("clocks in step", SOON, || clock_pages::are_in_step(cluster, &group.pods()?))
}

fn print_starts(took: &[(&str, Vec<Duration>)]) {
    println!("\n| from the start of a sidecar to a page in step | least | most | n |");
    println!("|{}", " --- |".repeat(4));
    for (what, times) in took {
        let [least, most] = [times.iter().min(), times.iter().max()]
            .map(|time| time.map_or(0, Duration::as_millis));
        println!("| {what} | {least} ms | {most} ms | {} |", times.len());
    }
}

/// Processes that burn a core each.
struct Hogs(Vec<Child>);

impl Hogs {
    fn start(count: usize) -> Result<Self> {
        let mut hogs = Self(Vec::new());
        for _ in 0..count {
            let mut hog = Command::new("setpriv");
            hog.args(["--pdeathsig", "KILL", "sh", "-c", "while :; do :; done"])
                .stdin(Stdio::null());
            hogs.0.push(hog.spawn().context("start a process that burns a core")?);
        }
        Ok(hogs)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(end);
    }
}
