//! A member that tells the same lie in every message: how far it moves group time in total.

use std::time::Duration;

use conclave_protocols::clock::Params;
use conclave_protocols::policy::{Averaging, ClockAlgorithm, ClockPolicy};
use conclave_protocols::random::Random;

use crate::lies::Lie;
use crate::weather::converge;
use crate::world::{ClockSettings, MS, SECOND, World, between};

const LIAR: usize = 1;
const HONEST: [usize; 4] = [0, 2, 3, 4];
/// That of the usual policy.
const PRECISION_NS: u64 = MS;
/// How far group time advances in the same time where nobody lies: exchanges are misread.
const MISREAD_NS: u64 = 200_000;

/// Five members by the usual policy, whose raw clocks run alike, so that group time runs as they do. They have agreed. The
/// messages of the one that will lie take longer, either way.
fn alike(seed: u64, (algorithm, averaging): (ClockAlgorithm, Averaging), slow_ns: u64) -> World {
    alike_by(&ClockPolicy { algorithm, averaging, ..ClockPolicy::default() }, seed, slow_ns)
}

fn alike_by(policy: &ClockPolicy, seed: u64, slow_ns: u64) -> World {
    let settings = ClockSettings { algorithm: policy.algorithm, params: Params::from(policy) };
    let mut random = Random::new(seed);
    let off = [(); 5].map(|()| between(&mut random, -5_000_000, 5_000_000));
    let mut world = World::new(seed, settings, &[0; 5], &off);
    world.members[LIAR].slow_ns = slow_ns;
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

/// Each algorithm, Berkeley's by each rule, and what part of its lie a member that is averaged moves group time by: of three
/// clocks where two answers are lost, one part in three; the middle of all by half. None moves the others.
const KEPT: [(ClockAlgorithm, Averaging, Option<u64>); 5] = [
    (ClockAlgorithm::Berkeley, Averaging::LargestSet, Some(3)),
    (ClockAlgorithm::Berkeley, Averaging::Median, Some(2)),
    (ClockAlgorithm::Berkeley, Averaging::Intervals, Some(2)),
    (ClockAlgorithm::Cristian, Averaging::LargestSet, None),
    (ClockAlgorithm::Ntp, Averaging::LargestSet, None),
];

/// By how much two raw clocks at the limits of drift come apart in a minute and a half.
const DRIFTED_NS: u64 = 18 * MS;

/// It says how far ahead of the leader it is, within the range of those that are averaged, and how wrong that may be.
#[test]
fn a_lie_in_every_round_moves_group_time_no_further_than_a_clock_that_drifts() {
    let most_ns = 2 * PRECISION_NS + DRIFTED_NS;
    for (algorithm, averaging, part) in KEPT {
        for (off_ns, bound_ns, is_possible) in [
            // What is measured contradicts it.
            (19_000_000, 0, false),
            (1_000_000, 0, false),
            (-19_000_000, 1_000_000, false),
            // Its bound leaves room for it.
            (19_000_000, 20_000_000, true),
            (1_000_000, 2_000_000, true),
            (-3_000_000, 3_000_000, true),
        ] {
            let most = part.filter(|_| is_possible).map_or(0, |part| most_ns / part);
            for seed in 0..2 {
                let mut world = alike(seed, (algorithm, averaging), 0);
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

/// Lies that follow one another, and by how much the liar's messages are late either way: some are larger than what the
/// others can follow in a round, some use up what is left to the others.
const CYCLES: [(u64, &[i64]); 5] = [
    (0, &[1_000_000, 1_000_000, 1_000_000, -300_000]),
    (1_700_000, &[-3_000_000, 2_000_000, 2_000_000]),
    (4_600_000, &[-10_000_000, -10_000_000, 8_000_000, 8_000_000]),
    (10_000_000, &[19_000_000]),
    (10_000_000, &[-2_000_000, -20_000_000, -20_000_000, -20_000_000, -20_000_000]),
];

/// A lie in the rounds in which the leader's clock takes a correction, and one in the rest that makes up for it.
const TURNING: [[i64; 2]; 2] = [[1_900_000, -800_000], [-1_500_000, 400_000]];

/// It uses up what it is left, and what more it does then is no more than a raw clock at the limit of drift does: as long as
/// it behaves like that, nobody can tell.
#[test]
fn lies_that_follow_one_another_change_the_rate_no_more_than_a_clock_that_drifts() {
    for (averaging, part) in
        [(Averaging::LargestSet, 5), (Averaging::Median, 2), (Averaging::Intervals, 2)]
    {
        let cycles = CYCLES.map(|(slow_ns, lies)| (slow_ns, Lie::Cycle(lies, 20 * MS)));
        let turning = TURNING.map(|lies| (0, Lie::Turning(lies, 20 * MS)));
        for (slow_ns, lies) in cycles.into_iter().chain(turning) {
            let mut world = alike(1, (ClockAlgorithm::Berkeley, averaging), slow_ns);
            world.calm = Some(100_000);
            world.members[LIAR].lies = Some(lies);
            displaced(&mut world);
            let off = displaced(&mut world);
            let most = (2 * PRECISION_NS + DRIFTED_NS) / part + MISREAD_NS;
            assert!(
                off < most,
                "{averaging:?}, late by {slow_ns} ns, {lies:?}: it moves it by {off} ns of {most}"
            );
        }
    }
}

/// Twice this precision is more than the others can follow in a round. What a member moves the average by beyond that, and
/// takes back in small steps, is not allowed for.
#[test]
fn a_coarse_precision_leaves_a_liar_no_more() {
    let policy = ClockPolicy { precision: Duration::from_millis(5), ..ClockPolicy::default() };
    for lies in [&[-7_500_000, 5_000_000, 5_000_000], &[-5_000_000, 2_500_000, 2_500_000]] {
        let mut world = alike_by(&policy, 1, 0);
        world.calm = Some(100_000);
        world.members[LIAR].lies = Some(Lie::Cycle(lies, 20 * MS));
        displaced(&mut world);
        let off = displaced(&mut world);
        let most = (5 * MS / 2 + DRIFTED_NS) / 5 + MISREAD_NS;
        assert!(off < most, "{lies:?}: it moves it by {off} ns of {most}");
    }
}

/// One message takes so much longer than another that each clock is misread by more than is left to it, now and then. Then it
/// counts for nothing, and the others go on without it; all are not averaged for that.
#[test]
fn a_lie_moves_nobody_further_where_clocks_are_misread() {
    for (late_ns, most_ns) in [(3 * MS, 6 * MS), (5 * MS, 10 * MS)] {
        let mut world = alike(0, (ClockAlgorithm::Berkeley, Averaging::LargestSet), 0);
        world.calm = Some(most_ns);
        world.members.iter_mut().for_each(|member| member.slow_ns = late_ns / 2);
        // Exchanges were faster in the view before.
        world.change_view(2, 4, &[0, 1, 2, 3, 4]);
        world.members[LIAR].lies = Some(Lie::Ahead(12_000_000, 20 * MS));
        displaced(&mut world);
        let off = displaced(&mut world);
        let most = (2 * PRECISION_NS + DRIFTED_NS) / 3 + most_ns / 2;
        assert!(off < most, "{most_ns} ns more or less: it moves it by {off} ns of {most}");
    }
}

/// The raw clock of the leader is as slow as allowed, and the others as fast, so that its clock, which is slewed slowly, does
/// not come to their mean. What it has still to be corrected by does not add up.
#[test]
fn a_daemon_that_cannot_keep_up_stays_behind_by_no_more_in_time() {
    let params = Params::from(&ClockPolicy::default());
    let settings = ClockSettings { algorithm: ClockAlgorithm::Berkeley, params };
    let fast = 100_000;
    let mut world = World::new(1, settings, &[fast, fast, fast, fast, -fast], &[0; 5]);
    (world.calm, world.probes) = (Some(100_000), false);
    converge(&mut world);
    let mut behind = |end: u64| {
        world.run_until(end, &mut |_| {});
        world.shown(0) - world.shown(4)
    };
    let (soon, late) = (behind(300 * SECOND), behind(900 * SECOND));
    assert!(late < soon + 200_000, "{soon} ns after five minutes, {late} after fifteen");
}
