//! Each algorithm keeps the time by its own messages; and beside clock probes it has a reading of its own.

use std::collections::BTreeMap;

use conclave_protocols::clock::{MessageReading, Reading};
use conclave_protocols::policy::ClockAlgorithm;
use conclave_protocols::random::Random;

use crate::weather::{SEEDS, converge, settings};
use crate::world::{MS, SECOND, World, between};

const LEADER: usize = 4;
/// The eight polls of which NTP takes the best, when some are lost.
const OLDEST: u64 = 20 * SECOND;

/// Five members whose raw clocks are within the 15 ppm that the root distance of NTP allows for.
fn world(seed: u64, probes: bool) -> World {
    let mut random = Random::new(seed ^ 0xb7);
    let rates = [(); 5].map(|()| between(&mut random, -7_000, 7_000));
    let off = [(); 5].map(|()| between(&mut random, -100_000_000, 100_000_000));
    let mut world = World::new(seed, settings(seed), &rates, &off);
    world.probes = probes;
    world
}

fn reading(world: &World, member: usize) -> Reading {
    let member = &world.members[member];
    member.published.reading(member.raw(world.now))
}

fn by_messages(world: &World, member: usize) -> MessageReading {
    let has = reading(world, member).by_messages;
    has.unwrap_or_else(|| panic!("seed {}: m{member} has no reading", world.seed))
}

/// What a reading is off from what the formula of the algorithm's source is about, and that formula.
fn by_the_source(world: &World, member: usize) -> Option<(u64, u64)> {
    let (leader, one) = (reading(world, LEADER), by_messages(world, member));
    match world.settings.algorithm {
        // The average of the same round. The daemon's clock turns slowly while it reads it.
        ClockAlgorithm::Berkeley => {
            let average = by_messages(world, LEADER);
            let is_of_round = average.age_ns.wrapping_sub(one.age_ns) < 260 * MS;
            let turned = 30_000;
            is_of_round.then(|| (one.now_ns.abs_diff(average.now_ns), one.textbook_ns + turned))
        }
        ClockAlgorithm::Cristian | ClockAlgorithm::Ntp => {
            Some((one.now_ns.abs_diff(leader.now_ns), one.textbook_ns))
        }
    }
}

#[test]
fn each_algorithm_keeps_the_time_by_its_messages_alone() {
    for seed in 0..SEEDS {
        let mut world = world(seed, false);
        converge(&mut world);
        world.run_until(40 * SECOND, &mut |world| {
            let shown: Vec<i64> = (0..5).map(|member| world.shown(member)).collect();
            let spread = shown.iter().max().zip(shown.iter().min()).map_or(0, |(a, b)| a - b);
            assert!(spread < 3_000_000, "seed {seed}: {spread} ns apart");
            for member in 0..LEADER {
                let (shown, one) = (reading(world, member), by_messages(world, member));
                assert!(one.age_ns < OLDEST, "seed {seed}: m{member} has {one:?}");
                let bound = shown.error_ns.expect("it has the time");
                assert!(bound < 8 * MS, "seed {seed}: m{member} has {shown:?}");
            }
        });
    }
}

#[test]
fn beside_probes_each_algorithm_has_a_reading_of_its_own_that_holds() {
    let mut seen = BTreeMap::<_, [u64; 3]>::new();
    for seed in 0..SEEDS {
        let mut world = world(seed, true);
        converge(&mut world);
        let begun = world.now + SECOND;
        world.run_until(begun, &mut |_| {});
        let [looks, apart, formula] = seen.entry(world.settings.algorithm).or_default();
        world.run_until(begun + 20 * SECOND, &mut |world| {
            for member in 0..LEADER {
                let (shown, one) = (reading(world, member), by_messages(world, member));
                assert!(one.age_ns < OLDEST, "seed {seed}: m{member} has {one:?}");
                let off = one.now_ns.abs_diff(shown.now_ns);
                let own = shown.error_ns.expect("it has the time");
                assert!(off <= one.error_ns + own, "seed {seed}: m{member}: {one:?}, {shown:?}");
                let leader = reading(world, LEADER);
                let bound = leader.error_ns.expect("it has the time");
                let from_leader = one.now_ns.abs_diff(leader.now_ns);
                assert!(from_leader <= one.error_ns + bound, "seed {seed}: m{member}: {one:?}");
                *looks += 1;
                *apart += u64::from(off > own);
                if let Some((off, textbook)) = by_the_source(world, member) {
                    assert!(off <= textbook, "seed {seed}: m{member} by {off} ns: {one:?}");
                    *formula += 1;
                }
            }
            let asks_nobody = world.settings.algorithm != ClockAlgorithm::Berkeley;
            assert_eq!(reading(world, LEADER).by_messages.is_none(), asks_nobody, "seed {seed}");
        });
    }
    for (algorithm, [looks, apart, formula]) in seen {
        // What is shown is closer than the messages are.
        assert!(2 * apart > looks, "{algorithm:?}: {apart} of {looks}");
        assert!(10 * formula > looks, "{algorithm:?}: {formula} of {looks}");
    }
}

/// A bound is of a group time that is known.
#[test]
fn where_group_time_is_not_known_any_more_messages_have_no_reading() {
    let mut world = world(0, false);
    converge(&mut world);
    let member = &world.members[0];
    let (raw, mut map) = (member.raw(world.now), member.published);
    assert!(map.reading(raw).by_messages.is_some());
    map.void_from = raw;
    assert_eq!((map.reading(raw).error_ns, map.reading(raw).by_messages), (None, None));
}
