//! Elections by capacity, and a change of each algorithm into each other while the group lives.

use std::time::Duration;

use conclave_protocols::policy::{ElectionAlgorithm, ElectionPolicy, Policy, Timing};
use conclave_protocols::sim::circuit;

use crate::bench::{Bench, SECOND};
use crate::named_elections::Named;
use crate::world::World;

fn bench(algorithm: ElectionAlgorithm, capacities: &[u32]) -> Bench {
    let policy = Policy { election: algorithm, ..Policy::default() };
    Bench::of_capacities(capacities, policy)
}

/// With the others, the second in the order of seniority follows the first.
#[test]
fn the_member_of_the_greatest_capacity_follows_a_leader_that_dies() {
    for (capacities, tree) in
        [(&[9, 0, 3, 7][..], 3), (&[0, 1, 2, 1], 2), (&[0, 5, 0, 5], 1), (&[3, 0, 0, 0], 1)]
    {
        for algorithm in ElectionAlgorithm::ALL {
            let mut bench = bench(algorithm, capacities);
            bench.stop(0);
            bench.wait(SECOND * 4);
            let next = if algorithm == ElectionAlgorithm::SpanningTree { tree } else { 1 };
            assert_eq!(bench.leader(), Some(next), "{algorithm:?} of {capacities:?}");
        }
    }
}

#[test]
fn each_leader_that_dies_is_followed_by_the_best_of_those_that_live() {
    let mut bench = bench(ElectionAlgorithm::SpanningTree, &[0, 2, 8, 4, 6, 8, 1]);
    // Among equals the one that came first has the higher rank. The last three are no majority.
    for (dies, next) in [(0, 2), (2, 5), (5, 4)] {
        bench.stop(dies);
        bench.wait(SECOND * 12);
        assert_eq!(bench.leader(), Some(next), "without {dies}");
    }
}

/// The leader of the group, which calls the ballots, does not stand.
#[test]
fn in_a_named_election_the_priority_goes_before_the_capacity_and_that_before_the_rank() {
    for (priorities, nominee) in [([0, 0, 0], 3), ([0, 1, 1], 3), ([1, 0, 0], 1), ([-1, 0, -1], 2)]
    {
        let policy = ElectionPolicy::new("reports", ElectionAlgorithm::SpanningTree);
        let mut named = Named::among(policy, &[0, 1, 5, 9, 7]);
        named.stand(4, 0);
        assert_eq!(named.leader(), Some(4), "it is alone");
        for (member, priority) in (1..).zip(priorities) {
            named.stand(member, priority);
        }
        named.wait(SECOND);
        assert_eq!(named.leader(), Some(4), "a greater capacity takes nothing from it");
        named.withdraw(4);
        named.wait(SECOND);
        assert_eq!(named.leader(), Some(nominee), "{priorities:?}");
    }
}

/// The leader dies just before members hear of the new policy, as they do, or just after.
#[test]
fn each_algorithm_takes_the_place_of_each_other_also_when_the_leader_dies_meanwhile() {
    let changes = circuit(ElectionAlgorithm::ALL.len());
    for (seed, late) in [(1, -20), (2, 0), (3, 5), (4, 40)] {
        let election = ElectionAlgorithm::ALL[changes[0].0];
        let policy = Policy { timing: Timing::FAST, election, ..Policy::default() };
        let mut world = World::new(seed, 5, policy.clone());
        world.run_until("one leads", SECOND * 10, |world| world.leaders().len() == 1);
        for (generation, (from, to)) in (1..).zip(&changes) {
            let (from, to) = (ElectionAlgorithm::ALL[*from], ElectionAlgorithm::ALL[*to]);
            assert_eq!(world.record().policy.election, from);
            let leader = world.leaders()[0];
            let policy = Policy { generation, election: to, ..policy.clone() };
            let wait = Duration::from_millis(u64::from(i32::unsigned_abs(late)));
            if late < 0 {
                world.crash(leader);
                world.run_for(wait);
                world.set_policy(&policy);
            } else {
                world.set_policy(&policy);
                world.run_for(wait);
                world.crash(leader);
            }
            world.run_until("another leads by it", SECOND * 20, |world| {
                world.leaders().len() == 1 && world.record().policy.election == to
            });
            world.join();
            world.run_until("it is one of them", SECOND * 20, |world| {
                world.record().members.len() == 5 && world.leaders().len() == 1
            });
        }
    }
}
