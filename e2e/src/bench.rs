//! `cargo xtask bench`: what a lock, a fail-over and a join cost in `conclave dev`, with Redis, etcd and
//! ZooKeeper beside it in the same run. Machines are noisy: the ratios say more than the figures.

mod failover;
mod server;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Deserialize;

use self::server::{Dev, MEMBERS, Rivals, api};
use crate::binaries::{self, RIVALS};
use crate::http::Http;
use crate::{command, packages, wait};

/// Rounds of losing a leader.
const LOSSES: usize = 10;

const SOON: Duration = Duration::from_secs(30);

/// Runs all measurements and prints them.
pub fn run() -> Result<()> {
    let dev = Dev::start()?;
    Dev::await_members(SOON)?;
    locks()?;
    losses("kill", "SIGKILL of the leader")?;
    losses("leave", "the leader leaves in order")?;
    join()?;
    println!("memory of five members in one process: {} KiB", dev.memory_kib()?);
    println!("size of the program: {} KiB", Dev::size()? / 1024);
    Ok(())
}

/// Measures the loss of a leader on the cluster that `cargo xtask cluster up` has booted.
pub fn run_on_cluster() -> Result<()> {
    failover::run()
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
fn locks() -> Result<()> {
    packages::install_rivals()?;
    binaries::build_rivals()?;
    let _rivals = Rivals::start()?;
    let leader = Dev::await_leader(SOON)?;
    let others = (0..MEMBERS).filter(|member| *member != leader);
    let ports: Vec<String> =
        [leader].into_iter().chain(others).map(|member| api(member).to_string()).collect();
    let mut clients = RIVALS.command();
    clients.args(["-conclave", &ports.join(",")]).args(Rivals::arguments());
    for line in command::output(&mut clients)?.lines() {
        let Figure { what, who, rate, p50, p99, n, least, most, overtaken } =
            serde_json::from_str(line)?;
        print!("{what}, {who}: p50 {p50:.3} ms, p99 {p99:.3} ms, n = {n}");
        if rate > 0.0 {
            print!(", {rate:.0} a second, {least:.2} to {most:.2} of a fair share each");
        }
        if overtaken > 0.0 {
            print!(", {:.1} % overtaken", overtaken * 100.0);
        }
        println!();
    }
    Ok(())
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
            waiting.lock_and_unlock("free?wait=20s").map(|()| start.elapsed())
        });
        wait::until("another leader", SOON, || {
            ensure!(Dev::leader().is_some_and(|new| new != leader), "nobody leads");
            Ok(())
        })?;
        leaders.push(start.elapsed());
        grants.push(grant.join().expect("it does not panic")?);
        Dev::act(leader, "revive")?;
    }
    print(&format!("{name}: new leader (seen by polling)"), leaders);
    print(&format!("{name}: next grant of a free lock"), grants);
    Ok(())
}

/// The longest time that a lock took at a follower while a member joined.
fn join() -> Result<()> {
    let mut pauses = Vec::new();
    for _ in 0..LOSSES {
        Dev::await_members(SOON)?;
        let leader = Dev::await_leader(SOON)?;
        let (busy, gone) = ((leader + 1) % MEMBERS, (leader + 2) % MEMBERS);
        Dev::act(gone, "leave")?;
        wait::until("a smaller view", SOON, || {
            ensure!(Dev::members_known(busy)? < MEMBERS, "it is still a member");
            Ok(())
        })?;
        Dev::act(gone, "revive")?;
        let mut client = Http::connect(api(busy))?;
        let (mut longest, start) = (Duration::ZERO, Instant::now());
        while start.elapsed() < Duration::from_secs(3) {
            longest = longest.max(timed(|| client.lock_and_unlock("join?wait=10s"))?);
        }
        pauses.push(longest);
    }
    print("the longest acquire + release while a member joins", pauses);
    Ok(())
}

fn timed(act: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    act()?;
    Ok(start.elapsed())
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
    println!("{what}: p50 {:.3} ms, p99 {:.3} ms, n = {}", at(50), at(99), times.len());
}
