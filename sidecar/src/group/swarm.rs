//! A swarm of groups of nodes, each of which is what the group task drives: member, claims and group
//! clock, in the simulator. What applications see of their claims is recorded and checked as a history,
//! and what they read of the group clock against its bounds.
//!
//! The protocols have a swarm of their own (`protocols/tests/group/swarm.rs`) with more kinds of
//! faults; this one is about what the book adds: lines of claims, `ttl`, `wait`, `maxHold`, callers
//! that hang up, candidacies, and the end of a pod.

mod applications;
mod leads;
mod pod;
mod probes;
mod register;
mod run;
mod times;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use conclave_protocols::LockName;
use conclave_protocols::policy::Policy;
use conclave_protocols::sim::Waiting;

use self::pod::{Call, Limits, Place, Question};
use self::run::{Outcome, Run};
use self::world::{State, World};

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

/// Members that had the time were cut off before those that joined had it; and one that had it followed one that had not,
/// or entered a view that was made from one in which it was not, and after which nothing arbitrates.
#[test]
fn a_group_time_that_is_begun_anew_contradicts_none_that_is_shown() {
    for seed in [221, 375, 5485] {
        run(seed, false);
    }
}

#[test]
fn what_is_due_comes_before_what_has_arrived() {
    let mut world = World::new(1, Policy::default(), false);
    for _ in 0..2 {
        world.join();
        world.run_for(Duration::from_secs(20));
    }
    let wait = Duration::from_secs(2);
    let holds = world.ask(0, "orders", true, Limits { wait: None, max_hold: HOUR }, None);
    world.run_for(Duration::from_secs(1));
    let waits = world.ask(1, "orders", true, Limits { wait: Some(wait), max_hold: HOUR }, None);
    world.run_for(Duration::from_secs(1));
    let states = |world: &World| [holds, waits].map(|claim| world.claims[&claim].state);
    assert_eq!(states(&world), [State::Held, State::Waiting]);

    // The process stands still until the claim has waited for long enough, and meets the grant first when
    // it goes on.
    let node = world.pods[1].0;
    world.sim.freeze(node);
    world.release(holds);
    world.run_for(wait);
    let is_timer = |waiting: &Waiting<'_, Place>| matches!(waiting, Waiting::Timer(_));
    assert!(world.sim.thaw_in_order(node, |waiting| u64::from(is_timer(waiting))));
    world.run_for(Duration::from_millis(1));
    assert_eq!(states(&world), [State::Left, State::Ended]);
    assert_eq!(world.seen.get("refused"), Some(&1));
}

/// The caller hangs up while its claim is made, or before, and then none is made. (What a client names it finds again,
/// also if it holds.)
#[test]
fn a_claim_of_which_its_caller_never_heard_is_given_up_or_was_never_made() {
    type Unheard = fn(Question) -> Call;
    // A claim that is made is granted at once, and its token is gone.
    let all: [(Unheard, &[bool], bool, u64); 3] = [
        (Call::AskUnheard, &[false], true, 1),
        (Call::AskTooLate, &[false, true], true, 0),
        (Call::AskTooLate, &[false, true], false, 0),
    ];
    let limits = Limits { wait: Some(Duration::from_secs(60)), max_hold: HOUR };
    for (call, are_named, is_free, passed) in all {
        let mut world = World::new(1, Policy::default(), false);
        world.join();
        world.run_for(Duration::from_secs(20));
        let first = world.ask(0, "orders", false, limits, None);
        world.run_for(Duration::from_secs(1));
        let before = world.claims[&first].token.expect("it holds");
        if is_free {
            world.release(first);
            world.run_for(Duration::from_secs(1));
        }
        for (number, named) in (101..).zip(are_named) {
            let lock = LockName::try_from("orders".to_owned()).expect("a good name");
            let question = Question { number, lock, named: *named, limits, ttl: None };
            world.call(0, call(question));
            world.run_for(Duration::from_secs(1));
        }
        if !is_free {
            world.release(first);
            world.run_for(Duration::from_secs(1));
        }
        let tries = Limits { wait: Some(Duration::ZERO), ..limits };
        let next = world.ask(0, "orders", true, tries, None);
        world.run_for(Duration::from_secs(1));
        assert_eq!(world.claims[&next].state, State::Held);
        assert_eq!(world.claims[&next].token, Some(before + 1 + passed));
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

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
    "clocks",
    "renewed",
    "renewal refused",
    "old token refused",
    "crash",
    "end",
    "terminate",
    "resign",
    "transfer",
    "stand",
    "withdraw",
    "resign a lead",
    "transfer a lead",
    "led",
    "lead extended",
    "lead ended",
    "advisory lead",
    "freeze",
    "isolate",
    "split",
    "hold back",
    "register away",
    "register unsure",
    "adjusted",
    "arbiter",
    "back to an arbiter",
    "advisory",
];
