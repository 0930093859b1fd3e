//! What many holds cost: the group at rest, a lock beside them, and a change of view.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use conclave_testbed::http::Http;

use super::footprint::time_on_core;
use super::server::{Dev, MEMBERS, api};
use super::{SOON, lock_and_unlock, print, timed};

/// How many locks each member holds, one step after the other, each with metadata of 2 KiB.
const STEPS: [usize; 3] = [0, 4_000, 10_000];

/// The member at which a lock is taken beside the holds.
const BESIDE: u16 = 4;

/// For how long a group at rest is measured.
const REST: Duration = Duration::from_secs(20);

/// The most that all members may take at rest, in percent of a core.
const MOST_AT_REST: f64 = 5.0;

/// How many locks are taken and released beside the holds.
const TAKEN: usize = 2_000;

/// A hold of a member's application.
struct Held {
    member: u16,
    path: String,
}

/// Fills the group of a `conclave dev`, in which each member holds so much.
pub(super) fn run(dev: &Dev) -> Result<()> {
    Dev::await_members(SOON)?;
    let mut holds = Vec::new();
    println!("\n| holds of each of {MEMBERS} members | all members, of a core | resident |");
    println!("| --- | --- | --- |");
    let mut times = Vec::new();
    for step in STEPS {
        for member in 0..MEMBERS {
            fill(member, step, &mut holds)?;
        }
        // What was sent on the way has been acknowledged.
        thread::sleep(Duration::from_secs(3));
        let (begin, before) = (Instant::now(), time_on_core(dev.pid())?);
        thread::sleep(REST);
        let spent = time_on_core(dev.pid())?.saturating_sub(before);
        let share = 100.0 * spent.as_secs_f64() / begin.elapsed().as_secs_f64();
        println!("| {step} | {share:.1} % | {} KiB |", dev.memory_kib()?);
        ensure!(share < MOST_AT_REST, "all members take {share:.1} % of a core at rest");
        if step < STEPS[STEPS.len() - 1] {
            times.push((step, beside()?));
        }
    }
    let refused = Http::connect(api(0))?.call("POST", "/v1/locks/one-more?wait=0s")?;
    ensure!(refused.status == 429, "a full group answers {}", refused.status);
    for member in 0..MEMBERS {
        release_one(member, &mut holds)?;
    }
    // With its next heartbeat the leader says that there is room.
    thread::sleep(Duration::from_secs(1));
    times.push((STEPS[STEPS.len() - 1], beside()?));
    println!("\n| a lock and its release, beside so many holds of each | p50 | p99 | n |");
    println!("| --- | --- | --- | --- |");
    let p99s: Vec<Duration> =
        times.into_iter().map(|(step, times)| print(&step.to_string(), times)).collect();
    changes(&holds)?;
    // One pause of the machine is among the slowest hundredth.
    let most = (p99s[0] * 2).max(Duration::from_millis(5));
    ensure!(p99s.iter().all(|p99| *p99 <= most), "beside holds a lock takes more than {most:?}");
    Ok(())
}

/// Has a member hold so many locks.
fn fill(member: u16, upto: usize, holds: &mut Vec<Held>) -> Result<()> {
    let mut client = Http::connect(api(member))?;
    let note = "x".repeat(2_000);
    let body = format!(r#"{{"wait":"10s","max_hold":"30m","metadata":{{"note":"{note}"}}}}"#);
    let begun = holds.iter().filter(|held| held.member == member).count();
    for number in begun..upto {
        let lock = format!("/v1/locks/held-{member}-{number}");
        let reply = client.call_with("POST", &lock, &body)?;
        ensure!(reply.status == 201, "{lock}: {} {}", reply.status, reply.body);
        let path = reply.location.context("a grant has a location")?;
        holds.push(Held { member, path });
    }
    Ok(())
}

/// Gives back one of the locks that a member holds, so that it has room for another.
fn release_one(member: u16, holds: &mut Vec<Held>) -> Result<()> {
    let place = holds.iter().position(|held| held.member == member).context("it holds some")?;
    let held = holds.swap_remove(place);
    let reply = Http::connect(api(member))?.call("DELETE", &held.path)?;
    ensure!(reply.status == 204, "{}: {}", held.path, reply.status);
    Ok(())
}

/// How long a lock takes that nobody else wants.
fn beside() -> Result<Vec<Duration>> {
    let mut client = Http::connect(api(BESIDE))?;
    (0..TAKEN).map(|_| timed(|| lock_and_unlock(&mut client, "beside?wait=10s"))).collect()
}

/// Members come and go with all that they hold, while a client of another works. Counts what those lose
/// that stay.
fn changes(holds: &[Held]) -> Result<()> {
    println!("\n| with {} holds, the longest acquire and release while | |", holds.len());
    println!("| --- | --- |");
    let leader = Dev::await_leader(SOON)?;
    let follower = (0..MEMBERS).rfind(|member| *member != leader).context("there are others")?;
    let mut gone = BTreeSet::new();
    for (who, member, how) in [
        ("a follower", follower, "leave"),
        ("it", follower, "revive"),
        ("the leader", leader, "kill"),
    ] {
        gone.insert(member);
        let works = (0..MEMBERS).find(|works| ![leader, follower].contains(works));
        let works = works.context("there are others")?;
        let mut client = Http::connect(api(works))?;
        let working = thread::spawn(move || -> Result<Duration> {
            let (mut longest, start) = (Duration::ZERO, Instant::now());
            while start.elapsed() < Duration::from_secs(8) {
                longest = longest.max(timed(|| lock_and_unlock(&mut client, "pause?wait=10s"))?);
            }
            Ok(longest)
        });
        thread::sleep(Duration::from_millis(500));
        let leads = Dev::await_leader(SOON)?;
        ensure!(leads == leader, "{leads} leads before member {member} may {how}");
        Dev::act(member, how)?;
        let longest = working.join().expect("it does not panic")?;
        println!("| {who}: {how} | {:.0} ms |", longest.as_secs_f64() * 1e3);
    }
    // By now every lease has run out that was not extended.
    thread::sleep(Duration::from_secs(12));
    let (mut lost, mut stayed) = (0, 0);
    for member in (0..MEMBERS).filter(|member| !gone.contains(member)) {
        let mut client = Http::connect(api(member))?;
        for held in holds.iter().filter(|held| held.member == member) {
            let reply = client.call("GET", &format!("{}/check", held.path))?;
            lost += usize::from(reply.status != 204);
            stayed += 1;
        }
    }
    println!("\n{lost} of {stayed} holds of the members that stayed were lost.");
    ensure!(lost == 0, "holds were lost");
    Ok(())
}
