//! What a leader stated holds for as long as it promised, also if it is stopped, cut off, or replaced before it leads; and
//! clocks wander.

use std::collections::{BTreeMap, BTreeSet};

use conclave_protocols::random::Random;

use crate::lies::choice;
use crate::weather::{converge, settings, wander_ppb};
use crate::world::{MS, SECOND, World, between};

const SEEDS: u64 = 60;

/// Five members, up to 5 ms off, whose raw clocks wander. Probes are quick, and so bounds are small.
fn world(seed: u64) -> World {
    let mut random = Random::new(seed ^ 0x9011);
    let wander = wander_ppb(seed);
    let most = 50_000 - wander;
    // With what they wander by they are at the limit of what is assumed.
    let rates = [(); 5].map(|()| match random.up_to(3) {
        0 => most,
        1 => -most,
        _ => between(&mut random, -most, most),
    });
    let off = [(); 5].map(|()| between(&mut random, -5_000_000, 5_000_000));
    let mut world = World::new(seed, settings(seed), &rates, &off);
    for member in &mut world.members {
        member.wanders = Some((wander, random.up_to(20 * SECOND)));
    }
    world.is_quick = true;
    world
}

fn some_pairs(random: &mut Random) -> BTreeSet<(usize, usize)> {
    let pairs = (0..5).flat_map(|high| (0..high).map(move |low| (low, high)));
    pairs.filter(|_| random.up_to(4) == 0).collect()
}

/// Runs, and counts how often a leader's clock was not group time yet, and how small bounds were.
fn run(world: &mut World, nanos: u64) {
    let (mut waits, mut leads, mut close) = (0, 0, 0);
    // What is unknown of two clocks that wander grows by that.
    let small = 10_000 + 10 * wander_ppb(world.seed).unsigned_abs();
    world.run_until(world.now + nanos, &mut |world| {
        for (id, member) in world.members.iter().enumerate() {
            let known = member.transfer.map().known;
            let is_waiting = known.bound.growth.units() > 0;
            let is_leader = member.leader == id;
            waits += u64::from(is_leader && is_waiting);
            leads += u64::from(is_leader && !is_waiting);
            close += u64::from(!is_leader && world.bound(id).is_some_and(|bound| bound < small));
        }
    });
    for (what, count) in [("waits", waits), ("leads", leads), ("close", close)] {
        *world.seen.entry(what).or_default() += count;
    }
}

/// One view after another. Of the one before, the leader may be stopped, or cut off with one more; it goes on by itself
/// while the others have the next view, and then it is back.
fn many_views(seed: u64) -> World {
    let mut world = world(seed);
    converge(&mut world);
    let mut random = Random::new(seed ^ 0xf0f0);
    let (mut epoch, mut leader) = (1, 4);
    for _ in 0..7 {
        let next = choice(&mut random, 5);
        let stopped = random.up_to(3) == 0 && next != leader;
        let is_cut_off = !stopped && random.up_to(3) == 0 && next != leader;
        let companion = (0..5).find(|one| ![leader, next].contains(one)).expect("five");
        if stopped {
            let long = 500 * MS + random.up_to(11 * SECOND);
            world.members[leader].frozen_until = world.now + long;
            *world.seen.entry("stopped").or_default() += 1;
            let before = random.up_to(3 * SECOND);
            run(&mut world, before);
        }
        let away: &[usize] = match () {
            () if stopped => &[leader],
            () if is_cut_off => &[leader, companion],
            () => &[],
        };
        if is_cut_off {
            for id in away {
                world.members[*id].island = 1;
            }
        }
        world.probe_cuts = if random.up_to(2) == 0 { some_pairs(&mut random) } else { [].into() };
        world.cuts = if random.up_to(4) == 0 { some_pairs(&mut random) } else { [].into() };
        if random.up_to(3) == 0 {
            world.settings = settings(random.up_to(9));
        }
        let members: Vec<usize> = (0..5).filter(|one| !away.contains(one)).collect();
        epoch += 1;
        leader = next;
        world.change_view(epoch, u32::try_from(leader).expect("small"), &members);
        let pauses = [300 * MS, 2 * SECOND, 3_400 * MS, 9 * SECOND];
        let pause = pauses[choice(&mut random, pauses.len())];
        run(&mut world, pause + random.up_to(SECOND));
        if !away.is_empty() {
            for id in away {
                world.members[*id].island = 0;
            }
            // It may still be stopped when it is asked to come back.
            epoch += 1;
            let leader = u32::try_from(leader).expect("small");
            let until = away.iter().map(|id| world.members[*id].frozen_until).max().unwrap_or(0);
            let rest = until.saturating_sub(world.now) + random.up_to(2 * SECOND);
            run(&mut world, rest);
            world.change_view(epoch, leader, &[0, 1, 2, 3, 4]);
            run(&mut world, SECOND);
        }
    }
    run(&mut world, 5 * SECOND);
    world
}

#[test]
fn what_was_stated_holds_while_leaders_are_stopped_cut_off_and_replaced() {
    let mut seen = BTreeMap::<&str, u64>::new();
    for seed in 0..SEEDS {
        for (what, count) in many_views(seed).seen {
            *seen.entry(what).or_default() += count;
        }
    }
    for (what, least) in [
        ("followed", 5_000),
        ("stopped", 40),
        ("thawed", 1_000),
        ("waits", 10_000),
        ("leads", 10_000),
        ("close", 100_000),
    ] {
        assert!(seen.get(what).is_some_and(|count| *count >= least), "{what}: {seen:?}");
    }
}
