//! `cargo xtask bench`: what a lock, a fail-over and a join cost in `conclave dev`, with Redis beside
//! it in the same run. Machines are noisy: the ratios say more than the figures.

mod failover;
mod redis;
mod server;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use self::server::{Dev, MEMBERS, RedisServer, api};
use crate::http::Http;
use crate::wait;

/// Rounds of taking and releasing a lock.
const ROUNDS: usize = 3_000;

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

/// Taking and releasing a lock that nobody else wants, beside SET NX and DEL.
fn locks() -> Result<()> {
    let _redis = RedisServer::start()?;
    let mut client = RedisServer::connect()?;
    let leader = Dev::await_leader(SOON)?;
    let follower = (leader + 1) % MEMBERS;
    let mut own = Http::connect(api(leader))?;
    let mut other = Http::connect(api(follower))?;
    let mut times = [const { Vec::new() }; 3];
    // In turn, so that a slow moment of the machine is everybody's.
    for round in 0..ROUNDS {
        times[0].push(timed(|| client.lock_and_unlock("bench"))?);
        times[1].push(timed(|| own.lock_and_unlock(&format!("own-{}", round % 8)))?);
        times[2].push(timed(|| other.lock_and_unlock(&format!("other-{}", round % 8)))?);
    }
    let names = ["Redis SET NX + DEL", "lock at the leader", "lock at a follower"];
    for (name, times) in names.iter().zip(times) {
        print(&format!("acquire + release, {name}"), times);
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
