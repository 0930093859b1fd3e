//! The spanning tree in zones: all can send to all, and neighbours are chosen to save messages. The laws are those of a
//! full mesh, also when both gateways of a zone die: what comes to nothing is begun again, and the third time wide.

use conclave_protocols::election::SpanningTree;

use crate::support::endless::assert_every_run_ends;
use crate::support::graph::Graph;
use crate::support::world::{Order, World};
use crate::{Elections, MemberId, Promises, check, world_of};

type Zones = World<SpanningTree, Elections>;

/// Members in the zones that letters name, of which the last led until now.
fn zoned(zones: &'static str, capacities: &[u64], promises: Promises, initiators: &[u32]) -> Zones {
    world_of(Elections {
        initiators: initiators.iter().copied().map(MemberId).collect(),
        inquirers: [].into(),
        promises,
        graph: Graph::full(u32::try_from(zones.len()).expect("few")),
        capacities: capacities.to_vec(),
        zones: Some(zones),
        edges: [].into(),
    })
}

/// A zone of three, with the best where no gateway is, and the leader in a zone of its own.
const THREE_AND_ONE: (&str, [u64; 4]) = ("aaab", [1, 2, 9, 4]);

/// Three zones of two. The leader, 5, is in the third, whose gateway is 2.
const OF_TWO: (&str, [u64; 6]) = ("abcabc", [1, 2, 0, 4, 3, 9]);

/// Two zones of three: 2 and 5 are no gateways.
const OF_THREE: (&str, [u64; 6]) = ("aaabbb", [1, 2, 9, 4, 0, 8]);

fn dead(world: Zones, dead: &[u32]) -> Zones {
    dead.iter().fold(world, |world, one| world.with_dead(*one))
}

#[test]
fn with_any_initiator_the_best_of_all_zones_is_elected_and_nobody_else_ever() {
    let (zones, capacities) = THREE_AND_ONE;
    for source in 0..4 {
        check(zoned(zones, &capacities, Promises::NobodyCrashes, &[source]));
    }
}

#[test]
fn of_three_zones_the_best_is_elected_if_the_leader_and_any_gateway_are_dead() {
    let (zones, capacities) = OF_TWO;
    for gateway in 0..5 {
        let source = (gateway + 1) % 5;
        let world = zoned(zones, &capacities, Promises::Textbook, &[source]);
        check(dead(world, &[5, gateway]));
    }
}

#[test]
fn with_both_gateways_of_a_zone_dying_at_any_moment_the_best_of_all_is_elected() {
    let (zones, capacities) = THREE_AND_ONE;
    for source in [2, 3] {
        let world = zoned(zones, &capacities, Promises::Textbook, &[source]);
        check(dead(world, &[0]).with_crashes(1));
    }
    for source in [2, 3] {
        let world = zoned(zones, &capacities, Promises::Textbook, &[source]);
        check(dead(world, &[0, 1]).with_order(Order::Any));
    }
}

/// The leader lives and is no gateway; one gateway of each of the others lives.
#[test]
fn of_three_zones_one_may_be_cut_off_while_anybody_dies() {
    let (zones, capacities) = OF_TWO;
    for source in [0, 5] {
        let world = zoned(zones, &capacities, Promises::Textbook, &[source]);
        check(dead(world, &[1, 2, 3]).with_crashes(1));
    }
}

#[test]
fn the_rest_of_a_zone_without_gateways_leads_if_it_is_the_best_while_anybody_dies() {
    let (zones, capacities) = OF_THREE;
    for source in [2, 5] {
        let world = zoned(zones, &capacities, Promises::Textbook, &[source]);
        check(dead(world, &[0, 1, 3]).with_crashes(1));
    }
}

#[test]
fn every_run_in_zones_ends() {
    let (zones, capacities) = OF_TWO;
    let world = zoned(zones, &capacities, Promises::Textbook, &[0, 5]);
    assert_every_run_ends(&dead(world, &[1, 2, 3]).with_crashes(1));
    let (zones, capacities) = THREE_AND_ONE;
    let world = zoned(zones, &capacities, Promises::Textbook, &[2]);
    assert_every_run_ends(&dead(world, &[0, 1]));
}
