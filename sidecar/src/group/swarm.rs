//! A swarm of groups of whole sidecars, as far as they concern locks: member and book as the group
//! task drives them, in the simulator. What applications see of their claims is recorded and checked
//! as a history.
//!
//! The protocols have a swarm of their own (`protocols/tests/group/swarm.rs`) with more kinds of
//! faults; this one is about what the book adds: lines of claims, `ttl`, `wait`, `maxHold`, callers
//! that hang up, and the end of a pod.

mod applications;
mod pod;
mod run;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use self::run::{Outcome, Run};

fn run(seed: u64, trace: bool) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| Run::all(seed, trace))).unwrap_or_else(|panic| {
        println!(
            "see it again: CONCLAVE_SEED={seed} cargo test -p conclave-sidecar --lib group::swarm \
             -- --nocapture"
        );
        resume_unwind(panic)
    })
}

/// A number that a test was given by its environment.
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|number| number.parse().ok())
}

#[test]
fn whatever_happens_claims_keep_what_they_were_granted() {
    if let Some(seed) = given("CONCLAVE_SEED") {
        println!("{:?}", run(seed, true));
        return;
    }
    let begin = Instant::now();
    let limit = given("CONCLAVE_SECONDS").map(Duration::from_secs);
    let seeds = if limit.is_some() { u64::MAX } else { given("CONCLAVE_SEEDS").unwrap_or(SEEDS) };
    let (mut runs, mut void, mut operations) = (0_u32, 0_u32, 0);
    let mut simulated = Duration::ZERO;
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    let first = given("CONCLAVE_FROM").unwrap_or(0);
    for seed in (first..).take(usize::try_from(seeds).unwrap_or(usize::MAX)) {
        if limit.is_some_and(|limit| begin.elapsed() >= limit) {
            break;
        }
        let outcome = run(seed, false);
        runs += 1;
        void += u32::from(outcome.void);
        operations += outcome.operations;
        simulated += outcome.simulated;
        for (what, count) in outcome.seen {
            *seen.entry(what).or_default() += count;
        }
    }
    let factor = simulated.as_secs_f64() / begin.elapsed().as_secs_f64();
    println!("{runs} runs, {simulated:.0?} simulated, {factor:.0} times; {void} void");
    println!("{operations} operations checked; {seen:?}");
    assert!(void * 10 <= runs, "{void} of {runs} runs say nothing");
    for what in ALL {
        assert!(seen.contains_key(what), "{what} never happened: {seen:?}");
    }
}

/// How many seeds, if nobody says.
const SEEDS: u64 = 300;

/// What must happen in some run.
const ALL: &[&str] = &[
    "held",
    "extended",
    "released",
    "refused",
    "lease-expired",
    "ttl-expired",
    "max-hold",
    "hung up",
    "renewed",
    "renewal refused",
    "old token refused",
    "crash",
    "end",
    "terminate",
    "freeze",
    "isolate",
    "split",
    "hold back",
    "register away",
    "register unsure",
];
