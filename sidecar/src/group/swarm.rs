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

use conclave_protocols::member::LockEvent;
use conclave_protocols::policy::Policy;
use conclave_protocols::{Epoch, FencingToken, Incarnation, LocalTime, LockName, PodUid};

use self::run::{Outcome, Run};
use super::book::Book;
use crate::claims::{Ask, Wait};
use crate::metrics::Metrics;

/// Found by a pod that took calls before it rang its alarms when it was thawed.
#[test]
fn a_claim_that_is_given_back_after_its_deadline_was_lost() {
    let me = Incarnation { pod: PodUid(1), run: 1 };
    let mut book = Book::new("pod", me, Metrics::new("swarm").locks);
    let lock = LockName::try_from("a".to_owned()).expect("a good name");
    let ask = Ask {
        lock: lock.clone(),
        claim: None,
        wait: Wait::Forever,
        ttl: None,
        max_hold: None,
        owner: None,
        metadata: None,
    };
    let asked = book.ask(LocalTime(1), ask, &Policy::default()).expect("allowed");
    let id = asked.claim.borrow().id.clone();
    let (token, epoch) = (FencingToken::before(Epoch(1)).successor(Epoch(1)), Epoch(1));
    let event = LockEvent::Entered { token, epoch, deadline: LocalTime(9), messages: 0 };
    book.on_event(LocalTime(2), &lock, event, |member| member.pod.to_string());
    assert!(book.release(LocalTime(10), &lock, &id).is_err(), "others may have held it since");
}

/// Found on a cluster: pods that were recreated gave back what their applications still held.
#[test]
fn a_sidecar_that_ends_gives_back_nothing_that_is_held() {
    let me = Incarnation { pod: PodUid(1), run: 1 };
    let mut book = Book::new("pod", me, Metrics::new("swarm").locks);
    let held = LockName::try_from("held".to_owned()).expect("a good name");
    let wanted = LockName::try_from("wanted".to_owned()).expect("a good name");
    for lock in [&held, &wanted] {
        let ask = Ask {
            lock: lock.clone(),
            claim: None,
            wait: Wait::Forever,
            ttl: None,
            max_hold: None,
            owner: None,
            metadata: None,
        };
        book.ask(LocalTime(1), ask, &Policy::default()).expect("allowed");
    }
    let (token, epoch) = (FencingToken::before(Epoch(1)).successor(Epoch(1)), Epoch(1));
    let event = LockEvent::Entered { token, epoch, deadline: LocalTime(9), messages: 0 };
    book.on_event(LocalTime(2), &held, event, |member| member.pod.to_string());
    book.wishes.clear();
    book.close(LocalTime(3));
    assert_eq!(book.wishes, [super::book::Wish::Exit(wanted)]);
}

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
fn whatever_happens_claims_keep_what_they_were_told() {
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
