//! A group and programs with client-go's leader election take turns with one Lease, on a real cluster: each gives it
//! back in order, and each is killed. What their applications believe never overlaps.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_e2e::boottime::Boottime;
use conclave_e2e::product::{Group, SIDECAR, SOON};
use conclave_testbed::binaries::LEADER_ELECTION;
use conclave_testbed::cluster::{Cluster, Namespace, Pod, Signal};
use conclave_testbed::http::Http;
use conclave_testbed::wait;
use serde_json::Value;

use crate::elections::{lead, path, stand, withdraw};

const SPEC: &str = "{timing: {leaderLease: 600ms, heartbeat: 120ms, memberLease: 10s, apiOutage: 30s}, \
     elections: [{name: reports, leaseName: reports}]}";

/// The waits of the programs, shorter than client-go's defaults, in the same proportions.
const WAITS: [&str; 3] = ["6s", "4s", "1s"];

#[test]
fn a_group_and_programs_of_client_go_take_turns() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("programs beside a group") {
        return Ok(());
    }
    cluster.in_namespace("interoperation", |namespace| {
        Group::traced(namespace, SPEC, 3, |group| {
            let pods = group.pods()?;
            let watch = Watch::start(&cluster, &pods)?;
            let mut log = Log { begun: watch.begun, programs: Vec::new(), stops: Vec::new() };
            in_order(group, &pods, &mut log)?;
            by_force(group, &pods, &mut log)?;
            let members = watch.end()?;
            check(&log, members)
        })
    })
}

/// The group, a program, and the group again: each gives the Lease back.
fn in_order(group: &Group<'_>, pods: &[Pod], log: &mut Log) -> Result<()> {
    for pod in pods {
        ensure!(stand(group, pod, "reports", 0)? == 201);
    }
    let (leader, _) = lead(group, "reports", pods)?;
    let holder = holder(group.namespace)?;
    ensure!(holder.starts_with(&format!("{}_{}_", leader.name, leader.uid)), "{holder}");
    let program = Program::start(group.namespace, "program-1", log.begun)?;
    // It would lead by now, were the Lease not renewed.
    thread::sleep(Duration::from_secs(8));
    ensure!(program.leads()?.is_none(), "it leads beside {}", leader.name);
    for pod in pods {
        log.withdraw(group, pod)?;
    }
    wait::until("the program to lead", SOON, || program.leads()?.context("it does not"))?;

    for pod in pods {
        ensure!(stand(group, pod, "reports", 0)? == 201);
    }
    wait::until("all members to show who has the Lease", SOON, || {
        for pod in pods {
            let shown = group.get(pod, &path("reports"))?;
            let lease = &shown.body["lease"];
            ensure!(lease["name"] == "reports" && lease["holder"] == "program-1", "{shown:?}");
            ensure!(shown.body["leader"].is_null(), "{shown:?}");
            ensure!(group.get(pod, &format!("{}/self", path("reports")))?.status == 503);
        }
        Ok(())
    })?;
    log.programs.push(program.end(Signal::TERM)?);
    lead(group, "reports", pods)?;
    Ok(())
}

/// The sidecar of the leader is killed, and another member follows; the last candidate is killed, and a program does;
/// that is killed, and a member follows again.
fn by_force(group: &Group<'_>, pods: &[Pod], log: &mut Log) -> Result<()> {
    let (cluster, begun) = (group.namespace.cluster(), log.begun);
    let program = Program::start(group.namespace, "program-2", begun)?;
    let (leader, first) = lead(group, "reports", pods)?;
    let killed = begun.elapsed();
    cluster.signal_container(&leader, SIDECAR, Signal::KILL)?;
    let others: Vec<Pod> = pods.iter().filter(|pod| pod.uid != leader.uid).cloned().collect();
    let (next, second) = lead(group, "reports", &others)?;
    ensure!(second > first, "{first}, then {second}");
    println!(
        "another member leads {} ms after a kill",
        begun.elapsed().saturating_sub(killed).as_millis()
    );
    ensure!(program.leads()?.is_none(), "it did not wait for the Lease");

    // The application of the one that was killed stands no more.
    for pod in others.iter().filter(|pod| pod.uid != next.uid) {
        log.withdraw(group, pod)?;
    }
    let killed = begun.elapsed();
    cluster.signal_container(&next, SIDECAR, Signal::KILL)?;
    let led = wait::until("the program to lead", SOON, || program.leads()?.context("it does not"))?;
    println!("a program leads {} ms after a kill", led.saturating_sub(killed).as_millis());

    group.await_members(3)?;
    log.programs.push(program.end(Signal::KILL)?);
    let killed = begun.elapsed();
    wait::until("the application to stand", SOON, || {
        ensure!(matches!(stand(group, &leader, "reports", 0)?, 200 | 201), "it does not");
        Ok(())
    })?;
    lead(group, "reports", pods)?;
    println!(
        "a member leads {} ms after a program's kill",
        begun.elapsed().saturating_sub(killed).as_millis()
    );
    Ok(())
}

fn holder(namespace: &Namespace<'_>) -> Result<String> {
    namespace.kubectl(&["get", "lease/reports", "-o", "jsonpath={.spec.holderIdentity}"])
}

/// For how long somebody believed that it leads.
#[derive(Clone, Debug)]
struct Belief {
    who: String,
    from: Duration,
    to: Duration,
}

/// What programs believed, and when the applications of which pods have stopped.
struct Log {
    begun: Boottime,
    programs: Vec<Belief>,
    stops: Vec<(String, Duration)>,
}

impl Log {
    /// The application of a pod has stopped, and says so.
    fn withdraw(&mut self, group: &Group<'_>, pod: &Pod) -> Result<()> {
        self.stops.push((pod.name.clone(), self.begun.elapsed()));
        withdraw(group, pod, "reports")
    }
}

/// That of members overlaps that of programs nowhere, nor that of other members.
fn check(log: &Log, mut beliefs: Vec<Belief>) -> Result<()> {
    for belief in &mut beliefs {
        let own = log.stops.iter().filter(|(who, at)| *who == belief.who && *at >= belief.from);
        belief.to = own.map(|(_, at)| *at).fold(belief.to, Duration::min);
    }
    beliefs.extend_from_slice(&log.programs);
    ensure!(beliefs.len() >= 6, "there were fewer turns: {beliefs:#?}");
    for (place, one) in beliefs.iter().enumerate() {
        for other in &beliefs[..place] {
            let apart = one.to <= other.from || other.to <= one.from;
            ensure!(apart || one.who == other.who, "both believed: {one:?}, {other:?}");
        }
    }
    Ok(())
}

/// A program with client-go's leader election, as its output says how it stands.
struct Program {
    child: Child,
    identity: String,
    begun: Boottime,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Program {
    fn start(namespace: &Namespace<'_>, identity: &str, begun: Boottime) -> Result<Self> {
        let mut child = Command::new(LEADER_ELECTION.path())
            .args([namespace.name(), "reports", identity])
            .args(WAITS)
            .env("KUBECONFIG", namespace.cluster().kubeconfig())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("start client-go's leader election")?;
        let out = child.stdout.take().context("its output is piped")?;
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let read = Arc::clone(&lines);
        let reader = thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                read.lock().expect("no reader panics").push(line);
            }
        });
        let reader = Some(reader);
        Ok(Self { child, identity: identity.to_owned(), begun, lines, reader })
    }

    /// When it began or ceased to lead, by the name of its line.
    fn line(&self, name: &str) -> Result<Option<Duration>> {
        let lines = self.lines.lock().expect("no reader panics");
        let found = lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let nanos = found.map(str::parse).transpose().with_context(|| format!("{lines:?}"))?;
        let since = |nanos| Duration::from_nanos(nanos).saturating_sub(self.begun.since_boot());
        Ok(nanos.map(since))
    }

    /// Since when it leads, if it has begun to.
    fn leads(&self) -> Result<Option<Duration>> {
        self.line("leading")
    }

    /// Ends it, and says for how long it believed.
    fn end(mut self, signal: Signal) -> Result<Belief> {
        let killed = signal == Signal::KILL;
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, signal)?;
        self.child.wait()?;
        let gone = self.begun.elapsed();
        if let Some(reader) = self.reader.take() {
            reader.join().ok().context("the reader panicked")?;
        }
        let from = self.leads()?.context("it never led")?;
        let stopped = self.line("stopped")?;
        let to = if killed { gone } else { stopped.context("it was not stopped")? };
        Ok(Belief { who: self.identity.clone(), from, to })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that has ended already is no trouble.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Applications that ask again and again whether they lead.
struct Watch {
    begun: Boottime,
    stop: Arc<AtomicBool>,
    applications: Vec<JoinHandle<Result<Vec<Belief>>>>,
}

impl Watch {
    fn start(cluster: &Cluster, pods: &[Pod]) -> Result<Self> {
        let (begun, stop) = (Boottime::now(), Arc::new(AtomicBool::new(false)));
        let applications = pods.iter().map(|pod| {
            let (network, who, stop) =
                (cluster.network_of(pod)?, pod.name.clone(), Arc::clone(&stop));
            Ok(thread::spawn(move || {
                network.enter()?;
                let mut application = Application { who, begun, beliefs: Vec::new(), leads: false };
                while !stop.load(Ordering::Relaxed) {
                    let asked = Http::connect(7070).and_then(|mut api| {
                        while !stop.load(Ordering::Relaxed) {
                            application.look(&api.call("GET", &path("reports"))?.json())?;
                            thread::sleep(Duration::from_millis(10));
                        }
                        Ok(())
                    });
                    if asked.is_err() {
                        // The sidecar is away: what it answered last counts up to its deadline.
                        application.leads = false;
                        thread::sleep(Duration::from_millis(50));
                    }
                }
                Ok(application.beliefs)
            }))
        });
        let applications = applications.collect::<Result<_>>()?;
        Ok(Self { begun, stop, applications })
    }

    fn end(self) -> Result<Vec<Belief>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut beliefs = Vec::new();
        for application in self.applications {
            beliefs.extend(application.join().ok().context("an application panicked")??);
        }
        Ok(beliefs)
    }
}

struct Application {
    who: String,
    begun: Boottime,
    beliefs: Vec<Belief>,
    leads: bool,
}

impl Application {
    /// It believes from an answer on that it leads, up to the deadline in the latest such answer, or until it is
    /// answered that it does not.
    fn look(&mut self, shown: &Value) -> Result<()> {
        let at = self.begun.elapsed();
        if shown["is_leader"] == true {
            let to = self.begun.until_safe(shown)?;
            if !std::mem::replace(&mut self.leads, true) {
                self.beliefs.push(Belief { who: self.who.clone(), from: at, to });
            }
            if let Some(belief) = self.beliefs.last_mut() {
                belief.to = to;
            }
        } else if std::mem::take(&mut self.leads)
            && let Some(belief) = self.beliefs.last_mut()
        {
            belief.to = belief.to.min(at);
        }
        Ok(())
    }
}
