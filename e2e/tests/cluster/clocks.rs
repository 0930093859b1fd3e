//! Five pods whose clocks are wrong, each in its own way, in one group time.

use std::{slice, thread};

use anyhow::{Context, Result, ensure};
use conclave_e2e::product::{self, APPLICATION, Group, SOON};
use conclave_e2e::prometheus;
use conclave_testbed::cluster::{Cluster, Namespace, Pod};
use conclave_testbed::wait;
use serde_json::Value;

/// How far each pod's clock is off, in milliseconds, and how much too fast it runs, in parts per
/// million. The drifts are within the group's `maxDriftPpm`.
const FAULTS: [(i32, i32); 5] = [(0, 0), (1_500, 80), (-2_500, -90), (400, 40), (-700, -60)];

/// How much group time may be set faster or slower, and so move against true time between two
/// readings.
const SLEW_PPM: i128 = 1_000;

#[test]
fn pods_whose_clocks_are_off_and_drift_agree_within_their_bounds() -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.in_namespace("clocks-agree", |namespace| {
        product::install(&cluster)?;
        let group = Group::of_wrong_clocks(namespace)?;
        // One after the other on the living group: group time goes on without a step.
        let mut readings: Vec<Vec<Reading>> = vec![Vec::new(); FAULTS.len()];
        for (algorithm, averaging, clock) in KEPT {
            namespace.apply(&resource(clock))?;
            wait::until("synchronised clocks", SOON, || {
                for pod in group.pods()? {
                    let time = group.get(&pod, "/v1/time")?;
                    let is_so = time.text("status")? == "synchronized"
                        && time.text("algorithm")? == algorithm
                        && time.body["averaging"].as_str() == averaging;
                    ensure!(is_so, "{} has {time:?}", pod.name);
                    read_by_messages(&time.body)
                        .with_context(|| format!("{} has {time:?}", pod.name))?;
                }
                Ok(())
            })?;
            for (all, new) in readings.iter_mut().zip(read_all(namespace, &group)?) {
                all.extend(new);
            }
            each_clock_is_wrong_in_its_way(&group.pods()?)?;
            check(&readings).with_context(|| format!("with clock: {clock}"))?;
        }
        Ok(())
    })
}

/// What the algorithm's own messages say agrees with the time that clock probes made closer. A leader that asks nobody
/// reads nothing.
fn read_by_messages(time: &Value) -> Result<()> {
    let one = &time["by_messages"];
    if time["algorithm"] != "Berkeley" && time["master"] == time["self"] {
        ensure!(one.is_null(), "a leader that asks nobody has a reading");
        return Ok(());
    }
    let ns = |time: &Value| time["time_ns"].as_str().and_then(|ns| ns.parse::<i128>().ok());
    let apart = ns(one).context("no reading by messages")? - ns(time).context("no time")?;
    let of_both = one["error_bound_ns"].as_u64().zip(time["error_bound_ns"].as_u64());
    let (of_messages, bound) = of_both.context("no bounds")?;
    ensure!(apart.unsigned_abs() <= (of_messages + bound).into(), "they are {apart} ns apart");
    ensure!(one["textbook_error_ns"].is_u64(), "no error by the source");
    Ok(())
}

/// Else the test would show nothing: what a machine's clock is off by is what each pod reports.
fn each_clock_is_wrong_in_its_way(pods: &[Pod]) -> Result<()> {
    let off = |pod: &Pod| {
        let metric = "conclave_clock_host_offset_seconds";
        prometheus::sum_over(slice::from_ref(pod), metric, "group=")
    };
    let mut offsets = pods.iter().map(off).collect::<Result<Vec<f64>>>()?;
    offsets.sort_by(f64::total_cmp);
    let mut injected = FAULTS.map(|(ms, _)| f64::from(ms) / 1_000.0);
    injected.sort_by(f64::total_cmp);
    for (pair, expected) in offsets.windows(2).zip(injected.windows(2)) {
        let (apart, expected) = (pair[1] - pair[0], expected[1] - expected[0]);
        ensure!((apart - expected).abs() < 0.1, "{offsets:?} are not {injected:?} apart");
    }
    Ok(())
}

/// What the pods read now, pod by pod.
fn read_all(namespace: &Namespace<'_>, group: &Group<'_>) -> Result<Vec<Vec<Reading>>> {
    let pods = group.pods()?;
    thread::scope(|scope| {
        let readers: Vec<_> =
            pods.iter().map(|pod| scope.spawn(move || read(namespace, pod))).collect();
        let readings = readers.into_iter().map(|reader| reader.join().expect("no panic"));
        readings.collect()
    })
}

fn check(readings: &[Vec<Reading>]) -> Result<()> {
    let all: Vec<&Reading> = readings.iter().flatten().collect();
    for one in &all {
        ensure!(one.bound < 50_000_000, "a bound of {} ns says nothing", one.bound);
        all.iter().try_for_each(|other| agree(one, other))?;
    }
    for of_pod in readings {
        let rises = of_pod.windows(2).all(|pair| pair[0].time < pair[1].time);
        ensure!(rises, "group time went back: {of_pod:?}");
    }
    Ok(())
}

fn resource(clock: &str) -> String {
    format!(
        "{{apiVersion: conclave.dev/v1alpha1, kind: Conclave, metadata: {{name: orders}}, \
         spec: {{clock: {clock}}}}}"
    )
}

/// The ways to keep clocks, one after the other: the algorithm, how it averages, and the specification.
const KEPT: [(&str, Option<&str>, &str); 6] = [
    ("Berkeley", Some("LargestSet"), "{}"),
    ("Cristian", None, "{algorithm: Cristian}"),
    ("NTP", None, "{algorithm: NTP}"),
    ("Berkeley", Some("Median"), "{averaging: Median}"),
    ("Berkeley", Some("Intervals"), "{averaging: Intervals}"),
    ("NTP", None, "{algorithm: NTP}"),
];

/// Group time as a pod reported it, between two readings of the machine's clock, all in nanoseconds.
#[derive(Clone, Debug)]
struct Reading {
    before: i128,
    time: i128,
    bound: i128,
    after: i128,
}

/// At each moment there is one group time, from which a reading differs by its bound at most.
fn agree(one: &Reading, other: &Reading) -> Result<()> {
    let apart = (one.before - other.before).abs().max((one.after - other.after).abs());
    let slewed = apart * SLEW_PPM / 1_000_000;
    let earliest = |r: &Reading| r.time - r.bound - r.after;
    let latest = |r: &Reading| r.time + r.bound - r.before;
    ensure!(earliest(one) <= latest(other) + slewed, "no group time fits {one:?} and {other:?}");
    Ok(())
}

fn read(namespace: &Namespace<'_>, pod: &Pod) -> Result<Vec<Reading>> {
    let text = namespace.exec(&pod.name, APPLICATION, &["bash", "-c", READ])?;
    text.lines().map(parse).collect()
}

fn parse(line: &str) -> Result<Reading> {
    let (before, rest) = line.split_once(' ').context("no time before")?;
    let (body, after) = rest.rsplit_once(' ').context("no time after")?;
    let body: Value = serde_json::from_str(body)?;
    let time = body["time_ns"].as_str().context("no time_ns")?;
    let bound = body["error_bound_ns"].as_u64().context("no error_bound_ns")?;
    Ok(Reading {
        before: before.parse()?,
        time: time.parse()?,
        bound: bound.into(),
        after: after.parse()?,
    })
}

const READ: &str = r#"
for i in $(seq 20); do
  before=$(date +%s%N)
  time=$(curl -fsS http://localhost:7070/v1/time)
  echo "$before $time $(date +%s%N)"
done
"#;

/// What a test of wrong clocks wants of a group.
trait WrongClocks<'a>: Sized {
    /// A group of a pod for each of [`FAULTS`].
    fn of_wrong_clocks(namespace: &'a Namespace<'a>) -> Result<Self>;
}

impl<'a> WrongClocks<'a> for Group<'a> {
    fn of_wrong_clocks(namespace: &'a Namespace<'a>) -> Result<Self> {
        namespace.apply(&resource("{}"))?;
        let group = Self::of(namespace, "orders");
        for (number, (offset_ms, drift_ppm)) in FAULTS.iter().enumerate() {
            group.deploy_with_wrong_clock(&format!("shop-{number}"), (*offset_ms, *drift_ppm))?;
        }
        group.await_members(FAULTS.len())?;
        Ok(group)
    }
}
