//! What many holds cost: the group at rest, a lock beside them, and a change of view.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::footprint::time_on_core;
use super::server::{Dev, MEMBERS, api};
use super::{SOON, print, timed};
use crate::http::Http;
use crate::wait;

/// How many locks each member holds, one step after the other, each with metadata of 2 KiB.
const STEPS: [usize; 3] = [0, 4_000, 10_000];

/// The member that has room for more in the end, and one that has room for one more.
const FREED: u16 = 4;
const WORKS: u16 = 1;

/// For how long a group at rest is measured.
const REST: Duration = Duration::from_secs(20);

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
        let (begin, before) = (Instant::now(), time_on_core(dev.pid()?)?);
        thread::sleep(REST);
        let spent = time_on_core(dev.pid()?)?.saturating_sub(before);
        let share = 100.0 * spent.as_secs_f64() / begin.elapsed().as_secs_f64();
        println!("| {step} | {share:.1} % | {} KiB |", dev.memory_kib()?);
        if step < STEPS[STEPS.len() - 1] {
            times.push((step, beside()?));
        }
    }
    let refused = Http::connect(api(0))?.call("POST", "/v1/locks/one-more?wait=0s")?;
    ensure!(refused.status == 429, "a full group answers {}", refused.status);
    release(FREED, usize::MAX, &mut holds)?;
    release(WORKS, 1, &mut holds)?;
    times.push((STEPS[STEPS.len() - 1], beside()?));
    println!("\n| a lock and its release, beside so many holds of each | p50 | p99 | n |");
    println!("| --- | --- | --- | --- |");
    for (step, times) in times {
        print(&step.to_string(), times);
    }
    changes(&holds)
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

/// Gives back so much of what a member holds.
fn release(member: u16, mut count: usize, holds: &mut Vec<Held>) -> Result<()> {
    let mut client = Http::connect(api(member))?;
    let mut goes = |held: &mut Held| {
        let goes = held.member == member && count > 0;
        count -= usize::from(goes);
        goes
    };
    for held in holds.extract_if(.., |held| goes(held)) {
        let reply = client.call("DELETE", &held.path)?;
        ensure!(reply.status == 204, "{}: {}", held.path, reply.status);
    }
    Ok(())
}

/// How long a lock takes that nobody else wants.
fn beside() -> Result<Vec<Duration>> {
    let mut client = Http::connect(api(FREED))?;
    (0..TAKEN).map(|_| timed(|| client.lock_and_unlock("beside?wait=10s"))).collect()
}

/// A member that holds nothing leaves and comes back, while a client works. Counts what is lost.
fn changes(holds: &[Held]) -> Result<()> {
    println!("\n| with {} holds, the longest acquire and release while | |", holds.len());
    println!("| --- | --- |");
    for how in ["leave", "revive"] {
        let mut client = Http::connect(api(WORKS))?;
        let working = thread::spawn(move || -> Result<Duration> {
            let (mut longest, start) = (Duration::ZERO, Instant::now());
            while start.elapsed() < Duration::from_secs(8) {
                longest = longest.max(timed(|| client.lock_and_unlock("pause?wait=10s"))?);
            }
            Ok(longest)
        });
        thread::sleep(Duration::from_millis(500));
        Dev::act(FREED, how)?;
        let members = if how == "leave" { MEMBERS - 1 } else { MEMBERS };
        wait::until("the next view", SOON, || {
            ensure!(Dev::members_known(WORKS)? == members, "it is the one before");
            Ok(())
        })?;
        let longest = working.join().expect("it does not panic")?;
        println!("| member {FREED}: {how} | {:.0} ms |", longest.as_secs_f64() * 1e3);
    }
    thread::sleep(Duration::from_secs(12));
    let mut lost = 0;
    for member in 0..MEMBERS {
        let mut client = Http::connect(api(member))?;
        for held in holds.iter().filter(|held| held.member == member) {
            let reply = client.call("GET", &format!("{}/check", held.path))?;
            lost += usize::from(reply.status != 204);
        }
    }
    println!("\n{lost} of {} holds were lost.", holds.len());
    Ok(())
}
