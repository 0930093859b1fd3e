//! A member that tells the same lie in every message: how far it moves group time in total.

use conclave_protocols::clock::Params;
use conclave_protocols::policy::{Averaging, ClockAlgorithm, ClockPolicy};
use conclave_protocols::random::Random;

use crate::lies::Lie;
use crate::weather::converge;
use crate::world::{Kept, MS, SECOND, World, between};

const LIAR: usize = 1;
const HONEST: [usize; 4] = [0, 2, 3, 4];
/// That of the usual policy.
const PRECISION_NS: u64 = MS;
/// How far group time goes in the same time where nobody lies: exchanges are misread.
const MISREAD_NS: u64 = 200_000;

/// Five members by the usual policy, whose raw clocks run alike, so that group time runs as they do. They have agreed.
fn alike(seed: u64, (algorithm, averaging): (ClockAlgorithm, Averaging)) -> World {
    let policy = ClockPolicy { averaging, ..ClockPolicy::default() };
    let kept = Kept { algorithm, params: Params::from(&policy) };
    let mut random = Random::new(seed);
    let off = [(); 5].map(|()| between(&mut random, -5_000_000, 5_000_000));
    let mut world = World::new(seed, kept, &[0; 5], &off);
    converge(&mut world);
    let end = world.now + 40 * SECOND;
    world.run_until(end, &mut |_| {});
    world
}

/// How far the clocks of the honest members come from where they would be in a minute and a half, at most.
fn displaced(world: &mut World) -> u64 {
    let (begun, shown) = (world.now, HONEST.map(|member| world.shown(member)));
    let mut most = 0;
    world.run_until(begun + 90 * SECOND, &mut |world| {
        let passed = i64::try_from(world.now - begun).expect("small");
        for (member, shown) in HONEST.into_iter().zip(shown) {
            most = world.shown(member).abs_diff(shown + passed).max(most);
        }
    });
    most
}

/// Each algorithm, Berkeley's by each rule, and how far one liar moves group time at most: a third of twice the precision
/// where two answers are lost.
const KEPT: [(ClockAlgorithm, Averaging, u64); 5] = [
    (ClockAlgorithm::Berkeley, Averaging::LargestSet, 2 * PRECISION_NS / 3),
    (ClockAlgorithm::Berkeley, Averaging::Median, PRECISION_NS),
    (ClockAlgorithm::Berkeley, Averaging::Intervals, PRECISION_NS),
    (ClockAlgorithm::Cristian, Averaging::LargestSet, 0),
    (ClockAlgorithm::Ntp, Averaging::LargestSet, 0),
];

/// It says how far ahead of the leader it is, within the range of those that are averaged, and how wrong that may be.
#[test]
fn a_lie_in_every_round_adds_up_to_no_more_than_bounds_say() {
    for (algorithm, averaging, most) in KEPT {
        for (off_ns, bound_ns, most) in [
            // What is measured contradicts it.
            (19_000_000, 0, 0),
            (1_000_000, 0, 0),
            (-19_000_000, 1_000_000, 0),
            // Its bound leaves room for it.
            (19_000_000, 20_000_000, most),
            (1_000_000, 2_000_000, most),
            (-3_000_000, 3_000_000, most),
        ] {
            for seed in 0..2 {
                let mut world = alike(seed, (algorithm, averaging));
                world.members[LIAR].lies = Some(Lie::Ahead(off_ns, bound_ns));
                let off = displaced(&mut world);
                assert!(
                    off < most + MISREAD_NS,
                    "{algorithm:?} {averaging:?}, seed {seed}: {off_ns} within {bound_ns} moves it by {off} ns"
                );
            }
        }
    }
}
