//! Whatever happens, clocks are within their bounds; and when it is over, the bounds are small.

use std::time::Duration;

use conclave_protocols::clock::{Assumptions, Link, Params, State};
use conclave_protocols::policy::{Averaging, ClockAlgorithm, ClockPolicy};
use conclave_protocols::random::Random;

use crate::world::{ClockSettings, EPOCH_NS, MS, Member, SECOND, World, between};

const HOURS_NS: i64 = 3 * 3_600_000_000_000;
pub(crate) const SEEDS: u64 = 60;

/// How the clocks of a seed are kept: by each algorithm in turn, Berkeley's daemon by each rule in turn.
pub(crate) fn settings(seed: u64) -> ClockSettings {
    let of = |seed: u64| usize::try_from(seed % 3).expect("small");
    let algorithm = ClockAlgorithm::ALL[of(seed)];
    ClockSettings { algorithm, params: params(Averaging::ALL[of(seed / 3)]) }
}

/// All clocks drift as fast as allowed or anything less.
fn params(averaging: Averaging) -> Params {
    let policy = ClockPolicy { max_drift_ppm: 50, averaging, ..ClockPolicy::default() };
    Params { gamma: Duration::from_millis(250), ..Params::from(&policy) }
}

/// Five members, up to 100 ms off, the second by hours. Half of the seeds have clocks at the limits
/// of what is assumed.
pub(crate) fn world(seed: u64) -> World {
    let mut random = Random::new(seed ^ 0x5eed);
    let rates = [(); 5].map(|()| {
        if seed.is_multiple_of(2) {
            [-50_000, 50_000][usize::from(random.up_to(2) == 1)]
        } else {
            between(&mut random, -50_000, 50_000)
        }
    });
    let mut off = [(); 5].map(|()| between(&mut random, -100_000_000, 100_000_000));
    off[1] = HOURS_NS;
    World::new(seed, settings(seed), &rates, &off)
}

pub(crate) fn converge(world: &mut World) {
    while (0..5).any(|member| world.bound(member).is_none_or(|bound| bound > 5 * MS)) {
        assert!(world.now < 20 * SECOND, "seed {}: no group time", world.seed);
        world.run_until(world.now + SECOND / 10, &mut |_| {});
    }
}

#[test]
fn clocks_stay_within_small_bounds_and_an_outlier_does_not_drag_them() {
    for seed in 0..SEEDS {
        let mut world = world(seed);
        converge(&mut world);
        let off = world.shown(0) - EPOCH_NS - i64::try_from(world.now).expect("small");
        assert!(off.abs() < 101_000_000, "seed {seed}: dragged by {off} ns");
        let (mut widest, mut farthest) = (0, 0);
        world.run_until(60 * SECOND, &mut |world| {
            let bounds = (0..5).map(|member| world.bound(member).expect("it is known"));
            widest = bounds.chain([widest]).max().unwrap_or(0);
            let shown: Vec<i64> = (0..5).map(|member| world.shown(member)).collect();
            let spread = shown.iter().max().zip(shown.iter().min()).map_or(0, |(a, b)| a - b);
            farthest = farthest.max(spread);
        });
        assert!(widest < 5 * MS, "seed {seed}: a bound of {widest} ns");
        assert!(farthest < 3_000_000, "seed {seed}: {farthest} ns apart");
    }
}

#[test]
fn a_cut_off_daemon_and_its_successor_keep_within_each_other_s_bounds() {
    for seed in 0..SEEDS {
        let mut world = world(seed);
        converge(&mut world);
        for member in [0, 4] {
            world.members[member].island = 1;
        }
        world.run_until(world.now + 2 * SECOND, &mut |_| {});
        world.change_view(2, 3, &[1, 2, 3]);
        world.run_until(world.now + 60 * SECOND, &mut |_| {});
        let state = |world: &World, member: usize| {
            let member = &world.members[member];
            member.published.reading(member.raw(world.now)).state
        };
        assert_eq!(state(&world, 4), State::Holdover, "seed {seed}: it polls two of five");
        assert!(world.bound(4) > Some(15 * MS), "seed {seed}");
        assert!(world.bound(3).is_some_and(|bound| bound < 5 * MS), "seed {seed}");

        for member in &mut world.members {
            member.island = 0;
        }
        world.change_view(3, 3, &[0, 1, 2, 3, 4]);
        let healed = world.now;
        converge_again(&mut world, healed + 60 * SECOND, 5 * MS);
    }
}

#[test]
fn the_daemon_changes_again_and_again() {
    for seed in 0..SEEDS {
        let mut world = world(seed);
        converge(&mut world);
        for (epoch, leader) in (2..).zip([0, 1, 4, 2, 3, 3, 0]) {
            world.change_view(epoch, leader, &[0, 1, 2, 3, 4]);
            let pause = if seed.is_multiple_of(3) { 400 * MS } else { 6 * SECOND };
            world.run_until(world.now + pause, &mut |_| {});
        }
        let end = world.now;
        // Every daemon inherits the bound of the one before, and sheds it at 25 ppm.
        converge_again(&mut world, end + 60 * SECOND, 10 * MS);
    }
}

#[test]
fn a_follower_that_is_cut_off_holds_over_within_its_growing_bound() {
    for seed in 0..SEEDS {
        let mut world = world(seed);
        converge(&mut world);
        world.members[2].island = 1;
        let cut = world.now;
        let mut last = 0;
        for minute in 1..=5 {
            world.run_until(cut + minute * 60 * SECOND, &mut |_| {});
            let member = &world.members[2];
            let reading = member.published.reading(member.raw(world.now));
            assert_eq!(reading.state, State::Holdover);
            let bound = reading.error_ns.expect("synchronised");
            assert!(bound > last + 11 * MS && bound < last + 20 * MS, "seed {seed}: {bound}");
            last = bound;
        }
    }
}

#[test]
fn a_clock_that_drifts_more_than_assumed_is_found_out() {
    for seed in 0..3 {
        let mut world = world(seed);
        converge(&mut world);
        // By the daemon, or by the member itself.
        let contradictions = |world: &World| {
            let of = |(id, member): (usize, &Member)| {
                let wrong = member.sources.iter().filter(|(_, one)| one.contradicts);
                wrong.map(|(other, _)| (id, other.0 as usize)).collect::<Vec<_>>()
            };
            world.members.iter().enumerate().flat_map(of).collect::<Vec<_>>()
        };
        assert_eq!(contradictions(&world), [], "seed {seed}");
        world.members[2].rate_ppb += 10_000_000;
        let jumped = world.now;
        let mut found = Vec::new();
        // Its readers see the violation too, so the laws are not checked from here on.
        world.run_unchecked(jumped + 5 * SECOND, &mut |world| found.extend(contradictions(world)));
        assert!(!found.is_empty(), "seed {seed}");
        assert!(found.iter().all(|(by, of)| *by == 2 || *of == 2), "seed {seed}: {found:?}");
    }
}

/// Runs to the end, where all bounds are small again.
pub(crate) fn converge_again(world: &mut World, end: u64, small: u64) {
    world.run_until(end, &mut |_| {});
    for member in 0..5 {
        let bound = world.bound(member);
        let is_small = bound.is_some_and(|bound| bound < small);
        assert!(is_small, "seed {}: m{member} has {bound:?}", world.seed);
    }
}

#[test]
fn a_leader_that_was_just_started_takes_the_time_that_the_group_has() {
    for seed in 0..SEEDS {
        let mut world = world(seed);
        converge(&mut world);
        for (epoch, leader) in (2..).zip([1_u32, 4, 0]) {
            let shown = world.shown(2);
            let begun = world.now;
            world.restart(leader as usize);
            world.change_view(epoch, leader, &[0, 1, 2, 3, 4]);
            converge_again(&mut world, begun + 40 * SECOND, 20 * MS);
            let passed = world.shown(2) - shown - i64::try_from(world.now - begun).expect("small");
            assert!(passed.abs() < 100_000_000, "seed {seed}: group time went by {passed} ns more");
        }
    }
}

#[test]
fn a_living_group_changes_how_its_clocks_are_kept_without_a_step() {
    for seed in 0..SEEDS {
        let mut world = world(seed);
        converge(&mut world);
        let (shown, begun) = (world.shown(2), world.now);
        for (epoch, turn) in (2..).zip(seed..seed + 7) {
            world.settings = settings(turn * 4);
            let leader = if turn.is_multiple_of(2) { 4 } else { 1 };
            world.change_view(epoch, leader, &[0, 1, 2, 3, 4]);
            let pause = if seed.is_multiple_of(4) { 700 * MS } else { 6 * SECOND };
            world.run_until(world.now + pause, &mut |_| {});
        }
        let end = world.now + 60 * SECOND;
        converge_again(&mut world, end, 10 * MS);
        let passed = world.shown(2) - shown - i64::try_from(world.now - begun).expect("small");
        // The rate of group time is within 200 ppm of true time.
        let most = i64::try_from(world.now - begun).expect("small") / 5_000;
        assert!(passed.abs() < most, "seed {seed}: {passed} ns more");
    }
}

/// By how many parts per billion the rate of a clock that wanders differs from its usual one: two differ by twice that,
/// which is less than their link allows for. Half of the seeds have clocks as the usual policy allows for them.
pub(crate) fn wander_ppb(seed: u64) -> i64 {
    if seed.is_multiple_of(2) { 45 } else { 7_450 }
}

/// What the probes of two such clocks say.
pub(crate) fn link(seed: u64, params: Params) -> Link {
    let max_drift_ppm = params.max_drift_ppm;
    let wander_ppb = 2 * wander_ppb(seed).unsigned_abs() + 100;
    let assumptions = Assumptions { max_drift_ppm, wander_ppb, min_delay_ns: 0, stamp_slack_ns: 4 };
    Link::new(assumptions, Duration::from_secs(60))
}
