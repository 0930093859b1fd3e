//! `cargo xtask bench`: what a lock, a fail-over and a join cost in `conclave dev`, with Redis, etcd and
//! ZooKeeper beside it in the same run. Machines are noisy: the ratios say more than the figures.

mod chrony;
mod failover;
mod footprint;
mod holds;
mod named;
mod reads;
mod server;
mod starts;
mod tallies;
mod time;

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use conclave_testbed::binaries::{self, RIVALS};
use conclave_testbed::cluster::Cluster;
use conclave_testbed::http::Http;
use conclave_testbed::{campaign, command, packages, stages, wait};
use serde::Deserialize;

use self::server::{Dev, MEMBERS, Rivals, api};
use self::time::Spans;

/// Rounds of losing a leader.
const LOSSES: usize = 10;

/// For how long a client works around a change.
const WATCHED: Duration = Duration::from_secs(3);

const SOON: Duration = Duration::from_secs(30);

/// Measures locks, fail-over and joins in `conclave dev`, with Redis, etcd and ZooKeeper beside it.
#[derive(Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
pub struct Arguments {
    /// Measures fail-over on the running test cluster instead, with client-go beside it.
    #[arg(long)]
    cluster: bool,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand)]
enum What {
    /// Measures group time on the running test cluster, with Debian's chronyd beside it.
    Time {
        /// For how long each part is measured: `60s`, `30m`.
        #[arg(long, value_parser = campaign::time, default_value = "60s")]
        time: Duration,
        /// For how long the clocks settle before.
        #[arg(long, value_parser = campaign::time, default_value = "40s")]
        settle: Duration,
    },
}

impl Arguments {
    /// Measures what they name.
    pub fn run(self) -> Result<()> {
        match self.what {
            Some(What::Time { time: measure, settle }) => time::run(Spans { settle, measure }),
            None if self.cluster => run_on_cluster(),
            None => run_here(),
        }
    }
}

/// Runs all measurements of `conclave dev` and prints them.
fn run_here() -> Result<()> {
    let dev = Dev::start()?;
    Dev::await_members(SOON)?;
    starts::run()?;
    locks(&dev)?;
    losses("kill", "SIGKILL of the leader")?;
    losses("leave", "the leader leaves in order")?;
    pauses()?;
    println!("memory of five members in one process: {} KiB", dev.memory_kib()?);
    holds::run(&dev)?;
    println!("size of the program: {} KiB", Dev::size()? / 1024);
    Ok(())
}

/// Measures the loss of a leader on the cluster, and what a sidecar costs its node, that `cargo xtask cluster up` has booted.
fn run_on_cluster() -> Result<()> {
    put_on(&Cluster::from_env()?)?;
    footprint::run()?;
    failover::run()
}

/// Puts the product as it is shipped on a cluster, whose tests have another build of it there.
fn put_on(cluster: &Cluster) -> Result<()> {
    let archive = stages::product_archive();
    stages::product_image(&archive)?;
    cluster.import_image(&archive)
}

/// What `e2e/go/rivals` says of one way to use one service; times are in milliseconds.
#[derive(Debug, Deserialize)]
struct Figure {
    what: String,
    who: String,
    rate: f64,
    p50: f64,
    p99: f64,
    n: usize,
    least: f64,
    most: f64,
    overtaken: f64,
}

/// Taking and releasing locks that nobody else wants, and that many want, beside the rivals.
fn locks(dev: &Dev) -> Result<()> {
    packages::install_rivals()?;
    binaries::build_rivals()?;
    let rivals = Rivals::start()?;
    let leader = Dev::await_leader(SOON)?;
    let others = (0..MEMBERS).filter(|member| *member != leader);
    let ports: Vec<String> =
        [leader].into_iter().chain(others).map(|member| api(member).to_string()).collect();
    let ports = ports.join(",");
    let measure = |cores: &Cores, more: &[&str]| {
        let mut clients = Command::new("taskset");
        clients.args(["--cpu-list", &cores.of_clients]).arg(RIVALS.path()).args(more);
        tabulate(&command::output(clients.args(["-conclave", &ports]).args(Rivals::arguments()))?)
    };
    let servers = || [dev.pid()].into_iter().chain(rivals.pids());
    let (apart, all) = (Cores::apart()?, Cores::all()?);
    apart.confine(servers())?;
    measure(&apart, &[])?;
    all.confine(servers())?;
    measure(&all, &["-crowd"])
}

/// Which cores whom has, as `taskset` writes it.
struct Cores {
    of_clients: String,
    of_servers: String,
}

impl Cores {
    /// One client has a core of its own. Else it is chance whether its calls wake a thread on the core that it leaves or
    /// on another, which costs more than what is called for.
    fn apart() -> Result<Self> {
        let last = thread::available_parallelism()?.get() - 1;
        ensure!(last > 0, "there is one core: the client would have none of its own");
        Ok(Self { of_clients: "0".to_owned(), of_servers: format!("1-{last}") })
    }

    fn all() -> Result<Self> {
        let all = format!("0-{}", thread::available_parallelism()?.get() - 1);
        Ok(Self { of_clients: all.clone(), of_servers: all })
    }

    /// Leaves these processes their cores.
    fn confine(&self, servers: impl Iterator<Item = u32>) -> Result<()> {
        for server in servers {
            let options = ["--all-tasks", "--cpu-list", "--pid", &self.of_servers];
            command::output(Command::new("taskset").args(options).arg(server.to_string()))?;
        }
        Ok(())
    }
}

fn tabulate(figures: &str) -> Result<()> {
    let mut table = String::new();
    for line in figures.lines() {
        let figure: Figure = serde_json::from_str(line)?;
        if figure.what != table {
            table.clone_from(&figure.what);
            figure.head();
        }
        figure.row();
    }
    Ok(())
}

impl Figure {
    /// The heads of its table.
    fn head(&self) {
        let columns = match (self.rate > 0.0, self.is_of_one_lock()) {
            (false, _) => "p50 | p99 | n",
            (true, false) => "locks a second | wait p50 | wait p99",
            (true, true) => {
                "locks a second | wait p50 | wait p99 | least and most of a fair share | overtaken"
            }
        };
        let lines = " --- |".repeat(columns.matches('|').count() + 2);
        println!("\n| {} | {columns} |\n|{lines}", self.what);
    }

    fn row(&self) {
        let Self { who, rate, p50, p99, n, least, most, overtaken, .. } = self;
        if *rate > 0.0 {
            print!("| {who} | {rate:.0} | {p50:.1} ms | {p99:.1} ms |");
            if self.is_of_one_lock() {
                print!(" {least:.2}, {most:.2} | {:.1} % |", overtaken * 100.0);
            }
            println!();
        } else {
            println!("| {who} | {p50:.3} ms | {p99:.3} ms | {n} |");
        }
    }

    fn is_of_one_lock(&self) -> bool {
        self.what.ends_with("one lock")
    }
}

/// From the loss of the leader to another leader, and to the next grant of a free lock.
fn losses(how: &str, name: &str) -> Result<()> {
    let (mut leaders, mut grants) = (Vec::new(), Vec::new());
    for _ in 0..LOSSES {
        Dev::await_members(SOON)?;
        let leader = Dev::await_leader(SOON)?;
        let waiter = (leader + 2) % MEMBERS;
        let mut waiting = Http::connect(api(waiter))?;
        let start = Instant::now();
        Dev::act(leader, how)?;
        let grant = thread::spawn(move || {
            lock_and_unlock(&mut waiting, "free?wait=20s").map(|()| start.elapsed())
        });
        wait::until("another leader", SOON, || {
            ensure!(Dev::leader().is_some_and(|new| new != leader), "nobody leads");
            Ok(())
        })?;
        leaders.push(start.elapsed());
        grants.push(grant.join().expect("it does not panic")?);
        Dev::act(leader, "revive")?;
    }
    print(&format!("{name}: a new leader, seen by polling"), leaders);
    print(&format!("{name}: the next grant of a free lock"), grants);
    Ok(())
}

/// What happens to a member while a client works at a follower that stays.
const CHANGES: [(&str, Who, &str); 5] = [
    ("a follower is killed", Who::Follower, "kill"),
    ("a follower leaves in order", Who::Follower, "leave"),
    ("the leader is killed", Who::Leader, "kill"),
    ("the leader leaves in order", Who::Leader, "leave"),
    ("a member joins", Who::Follower, "revive"),
];

#[derive(Clone, Copy)]
enum Who {
    Leader,
    Follower,
}

/// The longest time that a lock took at a follower while another member came or went.
fn pauses() -> Result<()> {
    println!(
        "\n| the longest acquire and release while | p50 | p99 | n |\n| --- | --- | --- | --- |"
    );
    for (what, who, how) in CHANGES {
        let mut longest = Vec::new();
        for _ in 0..LOSSES {
            longest.push(pause(who, how)?);
        }
        print(what, longest);
    }
    Ok(())
}

fn pause(who: Who, how: &str) -> Result<Duration> {
    Dev::await_members(SOON)?;
    let leader = Dev::await_leader(SOON)?;
    let (busy, follower) = ((leader + 1) % MEMBERS, (leader + 2) % MEMBERS);
    let changes = match who {
        Who::Leader => leader,
        Who::Follower => follower,
    };
    let joins = how == "revive";
    if joins {
        Dev::act(changes, "leave")?;
        wait::until("a smaller view", SOON, || {
            ensure!(Dev::members_known(busy)? < MEMBERS, "it is still a member");
            Ok(())
        })?;
    }
    let mut client = Http::connect(api(busy))?;
    let working = thread::spawn(move || {
        let (mut longest, start) = (Duration::ZERO, Instant::now());
        while start.elapsed() < WATCHED {
            longest = longest.max(timed(|| lock_and_unlock(&mut client, "pause?wait=10s"))?);
        }
        Ok(longest)
    });
    thread::sleep(WATCHED / 10);
    Dev::act(changes, how)?;
    let longest = working.join().expect("it does not panic");
    if !joins {
        Dev::act(changes, "revive")?;
    }
    longest
}

/// Takes a lock, given by name and query, and gives it back.
fn lock_and_unlock(client: &mut Http, lock: &str) -> Result<()> {
    let reply = client.call("POST", &format!("/v1/locks/{lock}"))?;
    ensure!(reply.status == 201, "{}: {}", reply.status, reply.body);
    let claim = reply.location.context("a grant has a location")?;
    let reply = client.call("DELETE", &claim)?;
    ensure!(reply.status == 204, "{}: {}", reply.status, reply.body);
    Ok(())
}

fn timed(act: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    act()?;
    Ok(start.elapsed())
}

/// Prints the row of these times, and returns the 99th percentile.
fn print(what: &str, mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    let [p50, p99] = [at(50), at(99)].map(|time| time.as_secs_f64() * 1e3);
    println!("| {what} | {p50:.1} ms | {p99:.1} ms | {} |", times.len());
    at(99)
}
