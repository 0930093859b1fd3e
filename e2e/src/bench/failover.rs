//! `cargo xtask bench --cluster`: how long a group is without a leader and without grants when its
//! leader is killed, and when it hands over, and how long a named election is without one; with client-go's leader
//! election in the same run, on the same API server.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use conclave_testbed::binaries::LEADER_ELECTION;
use conclave_testbed::cluster::{Cluster, Pod, Signal};
use conclave_testbed::http::Http;

use super::{named, print};
use crate::load::{Habit, HandOvers, Load};
use crate::product::{self, Group, SIDECAR};

/// How many leaders are lost in each way.
pub(super) const LOSSES: usize = 50;

/// The waits of each group that is measured, as a part of its resource.
const PROFILES: [(&str, &str); 2] =
    [("default", ""), ("fast", "timing: {leaderLease: 600ms, heartbeat: 120ms},")];

const SOON: Duration = Duration::from_secs(120);

/// Runs all measurements, at the same time, and prints them.
pub(super) fn run() -> Result<()> {
    let cluster = &Cluster::from_env()?;
    ensure!(cluster.is_ours_or_skip("the loss of a leader"), "this needs a cluster of its own");
    product::install(cluster)?;
    thread::scope(|scope| {
        let beside = scope.spawn(move || client_go(cluster));
        let groups: Vec<_> = PROFILES
            .iter()
            .flat_map(|(profile, timing)| {
                [conclave, named::run].map(|one| scope.spawn(move || one(cluster, profile, timing)))
            })
            .collect();
        for group in groups {
            group.join().ok().context("a measurement panicked")??;
        }
        beside.join().ok().context("the measurement beside panicked")?
    })
}

/// How a leader goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Loss {
    /// SIGKILL of its sidecar.
    Killed,
    /// It is notified that its pod is about to end.
    Drained,
}

fn conclave(cluster: &Cluster, profile: &str, timing: &str) -> Result<()> {
    cluster.in_namespace(&format!("bench-{profile}"), |namespace| {
        let group = Group::form(namespace, &format!("{{{timing}}}"), 5)?;
        for loss in [Loss::Killed, Loss::Drained] {
            lose_leaders(cluster, &group, profile, loss)?;
        }
        Ok(())
    })
}

fn lose_leaders(cluster: &Cluster, group: &Group<'_>, profile: &str, loss: Loss) -> Result<()> {
    let hand_overs = if loss == Loss::Drained { HandOvers::Some } else { HandOvers::None };
    let mut load = Load::new(hand_overs);
    let mut losses = Vec::new();
    let mut busy = BTreeSet::new();
    for _ in 0..LOSSES {
        group.await_members(5)?;
        for pod in group.pods()? {
            if busy.insert(pod.uid.clone()) {
                let own = Habit::Takes(format!("of-{}", pod.name), Duration::from_millis(20));
                load.add(cluster, &pod, &[Habit::Watches("default".to_owned()), own])?;
            }
        }
        thread::sleep(Duration::from_secs(1));
        let leader = group.await_leader()?;
        let epoch = group.epoch(&leader)?;
        let at = lose(cluster, &load, &leader, loss)?;
        losses.push((at, epoch));
        thread::sleep(Duration::from_secs(3));
        // Its container would be started again later and later; another pod starts at once.
        let delete = ["delete", "pod", &leader.name, "--grace-period=0", "--force"];
        group.namespace.kubectl(&delete)?;
    }
    let diary = load.end()?;
    diary.check()?;
    let leaders: Result<Vec<_>> =
        losses.iter().map(|(at, epoch)| diary.next_leader(*at, *epoch)).collect();
    let how = if loss == Loss::Killed { "SIGKILL" } else { "drain" };
    print(
        &format!(
            "{profile} profile, {how} of the leader: another leads, and its application knows"
        ),
        leaders?,
    );
    // A leader that drains goes on granting until it hands over.
    if loss == Loss::Killed {
        let grants: Result<Vec<_>> =
            losses.iter().map(|(at, epoch)| diary.next_grant(*at, *epoch)).collect();
        print(
            &format!("{profile} profile, {how} of the leader: the next grant of a free lock"),
            grants?,
        );
    }
    Ok(())
}

/// When it was done, by the clock of the load.
fn lose(cluster: &Cluster, load: &Load, leader: &Pod, loss: Loss) -> Result<Duration> {
    match loss {
        Loss::Killed => {
            let process = cluster.process(leader, SIDECAR)?;
            let at = load.now();
            process.signal(Signal::KILL)?;
            Ok(at)
        }
        Loss::Drained => {
            let mut admin = within(cluster, leader)?;
            let at = load.now();
            let reply = admin.call("POST", "/drain")?;
            ensure!((200..300).contains(&reply.status), "{reply:?}");
            Ok(at)
        }
    }
}

/// A connection with the admin port of a pod, from within it: from elsewhere nobody drains.
fn within(cluster: &Cluster, pod: &Pod) -> Result<Http> {
    let network = cluster.network_of(pod)?;
    let connecting = thread::spawn(move || {
        network.enter()?;
        Http::connect(7072)
    });
    connecting.join().ok().context("the connection panicked")?
}

/// Elections that run beside one another, and rounds of killing their leaders.
const ELECTIONS: usize = 10;
const ROUNDS: usize = LOSSES / ELECTIONS;

/// client-go at its defaults: three processes for each election, killed with SIGKILL.
fn client_go(cluster: &Cluster) -> Result<()> {
    cluster.in_namespace("bench-client-go", |namespace| {
        let (tell, hear) = mpsc::channel();
        let mut elections: Vec<Election> = (0..ELECTIONS)
            .map(|number| Election::start(cluster, namespace.name(), number, &tell))
            .collect::<Result<_>>()?;
        let mut times = Vec::new();
        await_leaders(&mut elections, &hear)?;
        for _ in 0..ROUNDS {
            // Long enough for a renewal at any place of its period.
            thread::sleep(Duration::from_secs(3));
            for election in &mut elections {
                election.kill_leader()?;
                thread::sleep(Duration::from_millis(237));
            }
            times.extend(await_leaders(&mut elections, &hear)?);
            for election in &mut elections {
                election.fill_up(&tell)?;
            }
        }
        print("client-go at its defaults, SIGKILL of the leader: another leads", times);
        Ok(())
    })
}

/// Who began to lead which election, and when.
type News = (usize, usize, Instant);

/// One election of client-go's.
struct Election {
    kubeconfig: std::path::PathBuf,
    namespace: String,
    number: usize,
    candidates: Vec<(usize, Child)>,
    started: usize,
    leader: Option<usize>,
    killed: Option<Instant>,
}

impl Election {
    fn start(
        cluster: &Cluster,
        namespace: &str,
        number: usize,
        tell: &Sender<News>,
    ) -> Result<Self> {
        let mut election = Self {
            kubeconfig: cluster.kubeconfig().to_owned(),
            namespace: namespace.to_owned(),
            number,
            candidates: Vec::new(),
            started: 0,
            leader: None,
            killed: None,
        };
        election.fill_up(tell)?;
        Ok(election)
    }

    /// Starts candidates until there are three.
    fn fill_up(&mut self, tell: &Sender<News>) -> Result<()> {
        while self.candidates.len() < 3 {
            let (number, candidate) = (self.number, self.started);
            self.started += 1;
            let mut child = Command::new(LEADER_ELECTION.path())
                .args([&self.namespace, &format!("e-{number}"), &format!("c-{candidate}")])
                .env("KUBECONFIG", &self.kubeconfig)
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .context("start client-go's leader election")?;
            let out = child.stdout.take().context("its output is piped")?;
            let tell = tell.clone();
            thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    if line == "leading" && tell.send((number, candidate, Instant::now())).is_err()
                    {
                        return;
                    }
                }
            });
            self.candidates.push((candidate, child));
        }
        Ok(())
    }

    fn kill_leader(&mut self) -> Result<()> {
        let leader = self.leader.take().context("nobody leads")?;
        let place = self.candidates.iter().position(|(candidate, _)| *candidate == leader);
        let (_, mut child) = self.candidates.remove(place.context("it is gone")?);
        self.killed = Some(Instant::now());
        child.kill()?;
        child.wait()?;
        Ok(())
    }
}

impl Drop for Election {
    fn drop(&mut self) {
        for (_, child) in &mut self.candidates {
            // One that has ended already is no trouble.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until each election has a leader. How long each was without one.
fn await_leaders(elections: &mut [Election], hear: &Receiver<News>) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    while elections.iter().any(|election| election.leader.is_none()) {
        let (number, candidate, at) = hear.recv_timeout(SOON).context("nobody was elected")?;
        let election = elections.get_mut(number).context("an unknown election")?;
        ensure!(election.leader.is_none(), "two believe that they lead election {number}");
        election.leader = Some(candidate);
        if let Some(killed) = election.killed.take() {
            times.push(at.saturating_duration_since(killed));
        }
    }
    Ok(times)
}
