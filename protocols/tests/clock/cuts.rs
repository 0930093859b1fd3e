//! Who hears whom is not transitive.

use std::collections::BTreeSet;

use conclave_protocols::clock::AnyClock;
use conclave_protocols::clock::ntp::System;
use conclave_protocols::random::Random;

use crate::weather::{SEEDS, converge, converge_again, settings, world};
use crate::world::{MS, SECOND, World, between};

#[test]
fn clocks_keep_within_their_bounds_while_pairs_are_cut_off_from_each_other() {
    for seed in 0..SEEDS {
        let mut world = world(seed);
        converge(&mut world);
        let mut random = Random::new(seed ^ 0xc075);
        for (epoch, leader) in (2..).zip([0, 3, 4, 1]) {
            for _ in 0..4 {
                world.cuts = some_pairs(&mut random);
                let until = world.now + 500 * MS + random.up_to(5 * SECOND);
                run_with_rings(&mut world, until);
            }
            world.change_view(epoch, leader, &[0, 1, 2, 3, 4]);
        }
        world.cuts.clear();
        // Cut off for 22 s in each of four views, a bound grows by 4.4 ms, and is handed on.
        let end = world.now + 60 * SECOND;
        converge_again(&mut world, end, 25 * MS);
    }
}

/// Each pair of five, or not.
fn some_pairs(random: &mut Random) -> BTreeSet<(usize, usize)> {
    let pairs = (0..5).flat_map(|high| (0..high).map(move |low| (low, high)));
    pairs.filter(|_| random.up_to(3) == 0).collect()
}

/// A group that is kept by NTP, of which the last leads, with clocks at the limits.
fn by_ntp(seed: u64) -> World {
    let mut random = Random::new(seed);
    let rates = [(); 5].map(|()| [-50_000, 50_000][usize::from(random.up_to(2) == 1)]);
    let off = [(); 5].map(|()| between(&mut random, -100_000_000, 100_000_000));
    World::new(seed, settings(2), &rates, &off)
}

/// How a member stands that is kept by NTP and in its view.
fn system(world: &World, member: usize) -> Option<System> {
    let member = &world.members[member];
    match &member.node {
        AnyClock::Ntp(ntp) if !member.is_sealed => Some(ntp.system()),
        AnyClock::Ntp(_) | AnyClock::Berkeley(_) | AnyClock::Cristian(_) => None,
    }
}

fn strata(world: &World) -> [u8; 5] {
    [0, 1, 2, 3, 4].map(|member| system(world, member).map_or(0, |system| system.stratum))
}

/// Member 0 reaches only 1, and that loses the leader.
#[test]
fn a_member_goes_on_with_the_one_that_it_follows_when_that_comes_to_be_of_a_higher_stratum() {
    for seed in 0..20 {
        let mut world = by_ntp(seed);
        converge(&mut world);
        world.cuts = [(0, 2), (0, 3), (0, 4)].into();
        world.run_until(world.now + 20 * SECOND, &mut |_| {});
        assert_eq!(strata(&world), [3, 2, 2, 2, 1], "seed {seed}");
        world.cuts.insert((1, 4));
        let mut widest = 0;
        world.run_until(world.now + 60 * SECOND, &mut |world| {
            widest = widest.max(world.bound(0).expect("a bound"));
        });
        assert_eq!(strata(&world), [4, 3, 2, 2, 1], "seed {seed}");
        // That of a member that hears nothing grows by 200 ppm: to more than 12 ms.
        assert!(widest < 10 * MS, "seed {seed}: a bound of {widest} ns");
    }
}

/// First two lose it and follow the others, then these lose it too.
#[test]
fn members_that_all_lose_the_leader_follow_nobody_in_the_end() {
    for seed in 0..20 {
        let mut world = by_ntp(seed);
        converge(&mut world);
        world.cuts = [(0, 4), (1, 4)].into();
        world.run_until(world.now + 20 * SECOND, &mut |_| {});
        assert_eq!(strata(&world), [3, 3, 2, 2, 1], "seed {seed}");
        world.cuts.extend([(2, 4), (3, 4)]);
        let end = world.now + 60 * SECOND;
        run_with_rings(&mut world, end);
        assert_eq!(strata(&world), [16, 16, 16, 16, 1], "seed {seed}");
        world.cuts.clear();
        let end = world.now + 20 * SECOND;
        converge_again(&mut world, end, 5 * MS);
        assert_eq!(strata(&world), [2, 2, 2, 2, 1], "seed {seed}");
    }
}

/// Runs until a moment, in which no ring of members that follow one another by NTP lasts.
///
/// Each of a ring states a stratum above that of the next, as it heard it in one of the last polls, so each poll of all
/// raises the lowest by one at least, up to 16.
fn run_with_rings(world: &mut World, end: u64) {
    let mut since = None;
    world.run_until(end, &mut |world| {
        if !has_ring(world) {
            since = None;
            return;
        }
        let lasts = world.now - *since.get_or_insert(world.now);
        assert!(lasts < 30 * SECOND, "seed {}: a ring lasts, {:?}", world.seed, strata(world));
    });
}

/// Whether the way from a member to the one that it follows, and so on, comes round.
fn has_ring(world: &World) -> bool {
    let reference = |at: usize| Some(system(world, at)?.reference?.0 as usize);
    (0..5).any(|begin| (0..5).try_fold(begin, |at, _| reference(at)).is_some())
}
