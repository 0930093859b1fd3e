//! The arbiter comes and goes at any time, in any weather.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::member::Node;
use conclave_protocols::policy::{Arbiter, LockAlgorithm, Policy};
use conclave_protocols::random::Random;

use super::group::{Group, Seen};
use super::policy;
use crate::nodes::{Ask, Mood};
use crate::swarm::plan::any_lock;
use crate::weather::{BRIEF, seeds, wanted};

const LOCKS: [&str; 2] = ["a", "b"];

#[test]
fn whenever_the_arbiter_changes_safe_holds_exclude_each_other_and_tokens_rise() {
    if let Some(seed) = wanted() {
        println!("{:?}", run(seed, true));
        return;
    }
    let seeds = seeds(800);
    let mut all = Seen::default();
    let mut algorithms: BTreeMap<LockAlgorithm, u64> = BTreeMap::new();
    for seed in 0..seeds {
        let seen = run(seed, false);
        all.safe_grants += seen.safe_grants;
        all.advisory_grants += seen.advisory_grants;
        all.losses += seen.losses;
        all.given += seen.given;
        all.taken += seen.taken;
        all.kept += seen.kept;
        for lock in with_locks(seed, &policy(1, Arbiter::None)).locks {
            *algorithms.entry(lock.algorithm).or_default() += seen.given.min(seen.taken);
        }
    }
    println!("{seeds} seeds: {all:?}, {algorithms:?}");
    let least = all.safe_grants.min(all.advisory_grants).min(all.losses);
    assert!(least > seeds && all.given.min(all.taken) > 10 * seeds, "too little happened: {all:?}");
    assert!(all.kept * 50 > seeds, "nobody believed beyond a loss: {all:?}");
    for algorithm in LockAlgorithm::ALL {
        let changes = algorithms.get(&algorithm).copied().unwrap_or(0);
        assert!(changes * 400 >= seeds * 1_000, "{algorithm:?}: {algorithms:?}");
    }
}

/// One run: faults and changes of the arbiter, then fair weather with one.
fn run(seed: u64, trace: bool) -> Seen {
    let begins = if seed.is_multiple_of(4) { Arbiter::None } else { Arbiter::Quorum };
    let mut group = Group::new(seed, 4, with_locks(seed, &policy(1, begins)));
    group.trace = trace;
    for _ in 0..60 {
        something_happens(&mut group);
        let span = group.world.sim.random().below(BRIEF.leader_lease * 5 / 2);
        group.run_for(span);
    }
    if trace {
        println!("{:?} FAIR WEATHER", group.world.sim.now());
    }
    group.heal();
    group.set_arbiter(Arbiter::Quorum);
    group.discover();
    // What was promised in bad weather runs out: a leader lease may be without its majority already.
    group.run_for(BRIEF.leader_lease * 2);
    let longest = BRIEF.api_outage * 2 + BRIEF.leader_lease * 12 + BRIEF.member_lease * 4;
    group.run_until("all belong", longest, |group| group.all_are(Arbiter::Quorum));
    for lock in LOCKS {
        everybody_gets(&mut group, lock);
    }
    group.seen
}

/// Locks of any algorithms.
fn with_locks(seed: u64, policy: &Policy) -> Policy {
    let mut random = Random::new(seed ^ 0x0a16_0217_0035_c4b1);
    let locks = LOCKS.iter().map(|lock| any_lock(&[(*lock).to_owned()], &mut random)).collect();
    Policy { locks, ..policy.clone() }
}

fn something_happens(group: &mut Group) {
    let all = group.world.count() as u64;
    let one = usize::try_from(group.world.sim.random().up_to(all)).expect("small");
    let other = usize::try_from(group.world.sim.random().up_to(all)).expect("small");
    let lock = LOCKS[usize::try_from(group.world.sim.random().up_to(2)).expect("small")];
    let living = group.living().len();
    let what = group.world.sim.random().up_to(40);
    if group.trace {
        println!("{:?} {what}: {one} {other} {lock}", group.world.sim.now());
    }
    match what {
        0 if living > 1 => group.crash(one),
        1 | 2 if living < 6 => {
            group.join();
        }
        3 => group.world.isolate(one),
        4 => group.world.part(group.world.node(one), group.world.node(other)),
        5 => group.world.split(&[one, other]),
        6 => group.world.freeze(one),
        7 => group.world.part(group.world.node(one), Node::Register),
        8 => {
            let unsure = 1 + group.world.sim.random().up_to(4);
            group.ask_register(Ask::Mood(Mood { unsure, ..Mood::default() }));
        }
        9 => {
            let slow = Duration::from_millis(20 << group.world.sim.random().up_to(6));
            group.ask_register(Ask::Mood(Mood { slow, ..Mood::default() }));
        }
        10 => group.ask_register(Ask::Touch),
        11 | 12 => toggle(group),
        13..=17 => group.tell(one),
        18 | 19 => group.discover(),
        20..=23 => group.heal(),
        24..=28 => group.exit(one, lock),
        0..=2 | 29.. => group.enter(one, lock),
    }
}

/// The resource is edited; some hear of it at once, others later.
fn toggle(group: &mut Group) {
    group.change(match group.world.policy.arbiter {
        Arbiter::Quorum => Arbiter::None,
        Arbiter::None => Arbiter::Quorum,
    });
    for member in group.living() {
        if group.world.sim.random().up_to(4) > 0 {
            group.tell(member);
        }
    }
}

/// The holder of a lock leaves it, and each that lives gets it once.
fn everybody_gets(group: &mut Group, lock: &str) {
    let all = group.living();
    for member in &all {
        group.exit(*member, lock);
        group.enter(*member, lock);
    }
    for _ in &all {
        group.run_until(lock, BRIEF.member_lease * 4 + BRIEF.leader_lease * 4, |group| {
            group.holders(lock).iter().any(|holder| group.wants(*holder, lock))
        });
        let holders = group.holders(lock);
        let holder = holders.into_iter().find(|holder| group.wants(*holder, lock));
        group.exit(holder.expect("just seen"), lock);
    }
    let without: Vec<usize> = all.into_iter().filter(|member| group.wants(*member, lock)).collect();
    assert!(without.is_empty(), "seed {}: {without:?} never got {lock}", group.world.seed);
}
