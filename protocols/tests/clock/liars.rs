//! A member that lies about its clock moves nobody by more than its bound.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::MemberId;
use conclave_protocols::clock::{Candidate, Params, average};
use conclave_protocols::policy::{Averaging, ClockAlgorithm};
use conclave_protocols::random::Random;

use crate::lies::{Lie, choice};
use crate::weather::{self, SEEDS, converge};
use crate::world::{ClockSettings, MS, SECOND, World, between};

const GAMMA_NS: u64 = 20 * MS;

/// The rule by itself: four clocks that are within their bounds of group time, and one that says anything.
#[test]
fn one_liar_of_five_does_not_pull_the_average_from_where_the_others_may_be() {
    for seed in 0..3_000 {
        let mut random = Random::new(seed);
        let truth = between(&mut random, -1_000_000, 1_000_000);
        let mut clocks: BTreeMap<MemberId, Candidate> = (0..4)
            .map(|rank| {
                let error = between(&mut random, 1_000_000, 3_000_000);
                let ns = truth + between(&mut random, -error, error);
                (MemberId(rank), Candidate { ns, error_ns: error.unsigned_abs() })
            })
            .collect();
        let ends: Vec<(i64, i64)> = clocks
            .values()
            .map(|one| {
                (
                    one.ns.saturating_sub_unsigned(one.error_ns),
                    one.ns.saturating_add_unsigned(one.error_ns),
                )
            })
            .collect();
        let (lowest, highest) =
            (clocks.values().map(|c| c.ns).min(), clocks.values().map(|c| c.ns).max());
        let most =
            [2_000_000, 30_000_000, 60_000_000_000][usize::try_from(seed % 3).expect("small")];
        let liar = Candidate {
            ns: between(&mut random, -most, most),
            error_ns: random.up_to(most.unsigned_abs()),
        };
        clocks.insert(MemberId(4), liar);
        let by = |rule| average(rule, &clocks, GAMMA_NS, MemberId(0)).expect("clocks").ns;
        let median = Some(by(Averaging::Median));
        assert!(lowest <= median && median <= highest, "seed {seed}");
        let agreed = by(Averaging::Intervals);
        let fits = ends.iter().filter(|(low, high)| (*low..=*high).contains(&agreed)).count();
        assert!(fits >= 3, "seed {seed}: {agreed} fits {fits} of {ends:?}, {liar:?}");
        let largest = Some(by(Averaging::LargestSet));
        let share = i64::try_from(GAMMA_NS / 5).expect("small");
        let far = lowest.map(|ns| ns - share) > largest || largest > highest.map(|ns| ns + share);
        assert!(!far, "seed {seed}: {largest:?}");
    }
}

/// In a group: all intervals but the liar's go on to have group time in common, also when the daemon is
/// another, and stay small.
#[test]
fn a_follower_that_lies_moves_nobody_out_of_its_bound() {
    for seed in 0..SEEDS {
        let ClockSettings { algorithm, params } = weather::settings(seed);
        let params = Params { gamma: Duration::from_nanos(GAMMA_NS), ..params };
        let settings = ClockSettings { algorithm, params };
        let mut random = Random::new(seed);
        let rates = [(); 5].map(|()| between(&mut random, -50_000, 50_000));
        let off = [(); 5].map(|()| between(&mut random, -5_000_000, 5_000_000));
        let mut world = World::new(seed, settings, &rates, &off);
        converge(&mut world);
        world.members[1].lies = Some(Lie::Anything);
        let most = match (algorithm, params.averaging) {
            // What a liar adds to the average: a fifth of the range.
            (ClockAlgorithm::Berkeley, Averaging::LargestSet) => 10 * MS,
            (ClockAlgorithm::Berkeley, Averaging::Median | Averaging::Intervals)
            | (ClockAlgorithm::Cristian | ClockAlgorithm::Ntp, _) => 7 * MS,
        };
        for (epoch, leader) in (2..).zip([3, 0, 4, 2]) {
            let end = world.now + 15 * SECOND;
            world.run_until(end, &mut |world| {
                for member in [0, 2, 3, 4] {
                    let bound = world.bound(member);
                    let is_small = bound.is_some_and(|bound| bound < most);
                    assert!(is_small, "seed {seed}: m{member} has {bound:?}");
                }
            });
            world.change_view(epoch, leader, &[0, 1, 2, 3, 4]);
        }
    }
}

/// Its interval covers everybody's, and it says that it is near stratum 1. A member begins anew, and others lose the
/// leader or, each for itself, the liar.
#[test]
fn a_liar_with_a_wide_bound_sets_no_member_that_begins_anew_and_moves_none_that_lost_its_leader() {
    for seed in 0..SEEDS {
        let mut world = weather::world(seed);
        converge(&mut world);
        let mut random = Random::new(seed ^ 0x11a5);
        let liar = 1;
        let lies = [Lie::Widely, Lie::Anything][usize::from(seed.is_multiple_of(5))];
        world.members[liar].lies = Some(lies);
        for (epoch, leader) in (2..).zip([3_u32, 0, 4, 2]) {
            let leads = leader as usize;
            let others: Vec<usize> = (0..5).filter(|id| ![liar, leads].contains(id)).collect();
            let anew = others[choice(&mut random, 3)];
            world.restart(anew);
            world.change_view(epoch, leader, &[0, 1, 2, 3, 4]);
            let end = world.now + 12 * SECOND;
            world.run_until(end, &mut |world| within(world, &others, HELD_OVER));
            // Of the others, one hears the leader no more.
            let cut = others[choice(&mut random, 3)];
            world.cuts = [(cut.min(leads), cut.max(leads))].into();
            let end = world.now + 15 * SECOND;
            world.run_until(end, &mut |world| within(world, &others, HELD_OVER));
            // Nor does anybody but the liar, which asserts so in any case.
            world.cuts.extend(others.iter().map(|id| (leads.min(*id), leads.max(*id))));
            let end = world.now + 15 * SECOND;
            world.run_until(end, &mut |world| within(world, &others, HELD_OVER));
            world.cuts.clear();
            let end = world.now + 5 * SECOND;
            world.run_until(end, &mut |world| within(world, &others, HELD_OVER));
            assert!(world.bound(anew).is_some(), "seed {seed}: m{anew} has no time");
        }
    }
}

/// The servers of NTP outvote it, also in what it states of its own clock. Where its lie is within what they know it is
/// their time, which is why the laws are not asserted.
#[test]
fn a_leader_that_lies_moves_no_client_of_ntp_whose_servers_outvote_it() {
    for seed in (0..SEEDS).filter(|seed| weather::settings(*seed).algorithm == ClockAlgorithm::Ntp)
    {
        let mut world = weather::world(seed);
        converge(&mut world);
        world.run_until(20 * SECOND, &mut |_| {});
        let (shown, begun) = ([0, 1, 2, 3].map(|member| world.shown(member)), world.now);
        world.members[4].lies = Some(Lie::Anything);
        let end = world.now + 30 * SECOND;
        world.run_unchecked(end, &mut |world| {
            within(world, &[0, 1, 2, 3], HELD_OVER);
            let passed = i64::try_from(world.now - begun).expect("small");
            for (member, shown) in shown.iter().enumerate() {
                let off = world.shown(member) - shown - passed;
                assert!(off.abs() < 20_000_000, "seed {seed}: m{member} is off by {off} ns");
            }
        });
    }
}

/// It reaches only the liar for a while.
#[test]
fn a_leader_that_begins_anew_takes_no_time_from_a_liar_alone() {
    for seed in 0..SEEDS {
        let mut world = weather::world(seed);
        converge(&mut world);
        let liar = 1;
        let lies = [Lie::Widely, Lie::Anything][usize::from(seed.is_multiple_of(2))];
        world.members[liar].lies = Some(lies);
        for (epoch, leader) in (2..).zip([3_u32, 0, 4]) {
            let leads = leader as usize;
            let others: Vec<usize> = (0..5).filter(|id| ![liar, leads].contains(id)).collect();
            world.cuts = others.iter().map(|id| (leads.min(*id), leads.max(*id))).collect();
            world.restart(leads);
            world.change_view(epoch, leader, &[0, 1, 2, 3, 4]);
            let end = world.now + 6 * SECOND;
            world.run_until(end, &mut |world| {
                let bound = world.bound(leads);
                assert_eq!(bound, None, "seed {seed}: m{leads} believes the liar");
            });
            world.cuts.clear();
            let end = world.now + 20 * SECOND;
            world.run_until(end, &mut |_| {});
            within(&world, &others, 30 * MS);
            within(&world, &[leads], 30 * MS);
            assert!(world.bound(leads).is_some(), "seed {seed}: m{leads} has no time");
        }
    }
}

/// What a bound grows by in the runs below, where a leader that is cut off holds over for half a minute in each view, and
/// sheds but a little of it in between; and a fifth of γ, by which a liar moves the average of the largest set. The lies
/// themselves are of seconds, or of an hour.
const HELD_OVER: u64 = 100 * MS;

/// A member that has a time has a small bound.
fn within(world: &World, members: &[usize], most: u64) {
    for member in members {
        let bound = world.bound(*member);
        assert!(bound < Some(most), "seed {}: m{member} has {bound:?}", world.seed);
    }
}
