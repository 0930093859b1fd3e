//! Anything at all on the bench: holds and waits of three or four members, while links are held or cut, messages of
//! one kind are lost, members freeze, the leader drains or resigns and locks change their algorithm. Whatever happened, one
//! member holds at a time, tokens rise, and in the end everybody gets everything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocols::member::{Command, Event, LockEvent, OfLock, OfService};
use conclave_protocols::policy::{Caching, LockAlgorithm, LockPolicy, Policy};
use conclave_protocols::random::Random;

use crate::bench::{Bench, Link, SECOND};

const LOCKS: [&str; 4] = ["a", "b", "c", "x"];

/// One message of each kind that a lock cannot do without, and promises.
const LOST: [&str; 5] = ["grant", "release", "request", "wanted", "promise"];

#[test]
fn whatever_happens_tokens_rise_and_in_the_end_everybody_gets_everything() {
    let entries: usize = (1..=SEEDS).map(|seed| run(seed, true)).sum();
    assert!(entries > 10_000, "only {entries} entries");
}

/// Two hundred a second. After a change of the core, more are worth while.
const SEEDS: u64 = 500;

/// A leader's table went on naming the leader itself as the holder of a lock that it had given back while it was no
/// leader yet. So nobody noticed that a message was lost, and one that waited never got it.
#[test]
fn a_leader_that_gave_a_lock_back_before_it_led_does_not_keep_it_in_its_table() {
    for seed in [9_463, 13_102, 300_260] {
        run(seed, false);
    }
}

/// All that happens by one seed; leaders may resign besides. Returns how often somebody entered.
fn run(seed: u64, resigns: bool) -> usize {
    let mut chance = Random::new(seed);
    let members = if chance.once_in(2) { 3 } else { 4 };
    let mut bench = Bench::group(members, policy(&mut chance, 1));
    let mut still = BTreeSet::new();
    for _ in 0..220 {
        step(&mut bench, &mut chance, &mut still);
        if resigns && chance.once_in(50) {
            resign(&mut bench, &mut chance, &still);
        }
        for lock in LOCKS {
            let holders: Vec<usize> = (0..members).filter(|one| bench.holds(*one, lock)).collect();
            assert!(holders.len() <= 1, "seed {seed}: {holders:?} hold {lock}");
        }
    }
    mend(&mut bench, &still);
    for lock in LOCKS {
        for member in 0..members {
            bench.enter(member, lock);
            bench.wait(SECOND * 5);
            if !bench.holds(member, lock) {
                bench.wait(SECOND * 40);
            }
            assert!(bench.holds(member, lock), "seed {seed}: {member} never gets {lock}");
            bench.exit(member, lock);
        }
    }
    check_tokens(&bench, seed)
}

fn step(bench: &mut Bench, chance: &mut Random, still: &mut BTreeSet<usize>) {
    let count = bench.members.len();
    let (member, other, lock) =
        (index(chance, count), index(chance, count), LOCKS[index(chance, 4)]);
    let (from, to) = (bench.node(member), bench.node(other));
    match index(chance, 42) {
        0..14 if !still.contains(&member) => bench.enter(member, lock),
        14..25 if !still.contains(&member) => bench.exit(member, lock),
        25..29 => bench.wait(Duration::from_millis(chance.up_to(400))),
        29 => bench.wait(Duration::from_millis(chance.up_to(4000))),
        30..32 if member != other => {
            bench.way(from, to, if chance.once_in(2) { Link::Cut } else { Link::Held });
        }
        32..35 if member != other => bench.free(from, to),
        35 => free_all(bench),
        36 => {
            let leader = bench.leader().filter(|leader| !still.contains(leader));
            if let Some(leader) = leader.filter(|_| chance.once_in(2)) {
                bench.command(leader, Command::Drain);
            }
        }
        37 if still.is_empty() => {
            bench.stop(member);
            still.insert(member);
        }
        38 => {
            if let Some(frozen) = still.pop_first() {
                bench.go_on(frozen);
            }
        }
        39 => bench.lost = LOST.get(index(chance, LOST.len() + 1)).copied(),
        40.. if chance.once_in(3) => {
            bench.policy = policy(chance, bench.policy.generation + 1);
            for member in (0..count).filter(|member| !still.contains(member)) {
                bench.command(member, Command::Policy(Box::new(bench.policy.clone())));
            }
        }
        _ => {}
    }
}

/// The leader gives its lead up, perhaps to one that is named, and stays.
fn resign(bench: &mut Bench, chance: &mut Random, still: &BTreeSet<usize>) {
    let to = index(chance, bench.members.len() + 1);
    let cooldown = Duration::from_millis(chance.up_to(20_000));
    if let Some(leader) = bench.leader().filter(|leader| !still.contains(leader)) {
        let to = bench.members.get(to).map(|member| member.me());
        bench.command(leader, Command::Resign { to, cooldown });
    }
}

/// All links and members work again, and nobody wants anything for long enough.
fn mend(bench: &mut Bench, still: &BTreeSet<usize>) {
    bench.lost = None;
    for member in still {
        bench.go_on(*member);
    }
    free_all(bench);
    for lock in LOCKS {
        for member in 0..bench.members.len() {
            bench.exit(member, lock);
        }
    }
    bench.wait(SECOND * 40);
}

fn free_all(bench: &mut Bench) {
    for one in 0..bench.members.len() {
        for other in 0..one {
            let (one, other) = (bench.node(one), bench.node(other));
            bench.free(one, other);
        }
    }
}

/// `x` is granted among the members, the others in any way; some keep their grants.
fn policy(chance: &mut Random, generation: i64) -> Policy {
    const AMONG: [LockAlgorithm; 4] = [
        LockAlgorithm::RicartAgrawala,
        LockAlgorithm::Lamport,
        LockAlgorithm::Maekawa,
        LockAlgorithm::TokenRing,
    ];
    let mut locks = Vec::new();
    for name in LOCKS {
        let led = name != "x" && chance.once_in(2);
        let algorithm = if led { LockAlgorithm::Central } else { AMONG[index(chance, 4)] };
        let may = matches!(algorithm, LockAlgorithm::Central | LockAlgorithm::RicartAgrawala);
        let caching = if may && !chance.once_in(3) { Caching::Enabled } else { Caching::Disabled };
        let names = vec![name.to_owned()];
        locks.push(LockPolicy { names, algorithm, caching, ..LockPolicy::default() });
    }
    locks.push(LockPolicy::default());
    Policy { generation, locks, ..Policy::default() }
}

/// Tokens of a lock rise. Returns how many there were.
fn check_tokens(bench: &Bench, seed: u64) -> usize {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    let mut count = 0;
    for (member, event) in &bench.notified {
        let Event::Service(OfService::Lock(OfLock {
            lock,
            event: LockEvent::Entered { token, .. },
        })) = event
        else {
            continue;
        };
        let token = token.expect("there is an arbiter").get();
        let before = last.insert(lock.as_str(), token);
        let rises = before < Some(token);
        assert!(rises, "seed {seed}: {member} entered {lock} with {token} after {before:?}");
        count += 1;
    }
    count
}

fn index(chance: &mut Random, count: usize) -> usize {
    usize::try_from(chance.up_to(count as u64)).expect("below a count")
}
