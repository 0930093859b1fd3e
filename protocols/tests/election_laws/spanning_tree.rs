//! The spanning tree on graphs in which not all are neighbours, with capacities.

use conclave_protocols::election::SpanningTree;

use crate::support::endless::assert_every_run_ends;
use crate::support::graph::Graph;
use crate::support::world::{Order, Timers, World};
use crate::{Elections, Promises, check, world_on};

type Trees = World<SpanningTree, Elections>;

fn trees(graph: Graph, capacities: &[u64], promises: Promises, sources: &[u32]) -> Trees {
    world_on(graph, capacities, promises, sources, &[])
}

/// A line with the best in the middle, a star with it at a tip, a ring with two that are equal, and all of them
/// neighbours.
fn of_four() -> [(Graph, [u64; 4]); 4] {
    [
        (Graph::line(4), [1, 0, 3, 2]),
        (Graph::star(4, 1), [1, 0, 3, 2]),
        (Graph::ring(4), [5, 0, 5, 2]),
        (Graph::full(4), [2, 9, 0, 1]),
    ]
}

/// Those on which more can be searched.
fn sparse() -> Vec<(Graph, [u64; 4])> {
    of_four().into_iter().take(3).collect()
}

/// Two triangles with a bridge, and the best in the one in which nobody begins at first.
const TRIANGLES: [u64; 6] = [1, 2, 0, 4, 9, 3];

#[test]
fn with_any_initiator_the_best_of_all_is_elected_and_nobody_else_ever() {
    for (graph, capacities) in of_four() {
        for source in [0, 2] {
            check(trees(graph.clone(), &capacities, Promises::NobodyCrashes, &[source]));
        }
    }
    for (graph, capacities) in sparse() {
        for sources in [[0, 3], [1, 2]] {
            check(trees(graph.clone(), &capacities, Promises::NobodyCrashes, &sources));
        }
    }
    check(trees(Graph::two_triangles(), &TRIANGLES, Promises::NobodyCrashes, &[0]));
}

#[test]
fn of_several_computations_the_highest_goes_on_also_if_links_reorder() {
    for (graph, capacities) in sparse().into_iter().take(2) {
        let world = trees(graph, &capacities, Promises::NobodyCrashes, &[0, 2, 3]);
        check(world.with_order(Order::Any));
    }
    let triangle = trees(Graph::full(3), &[1, 2, 0], Promises::NobodyCrashes, &[0, 1, 2]);
    check(triangle.with_order(Order::Any));
}

#[test]
fn with_anybody_dying_at_any_moment_each_that_can_be_reached_follows_the_best() {
    for (graph, capacities) in of_four() {
        for source in [0, 3] {
            let world = trees(graph.clone(), &capacities, Promises::Textbook, &[source]);
            check(world.with_crashes(1));
        }
    }
    for (graph, capacities) in sparse() {
        let world = trees(graph, &capacities, Promises::Textbook, &[1, 2]);
        check(world.with_crashes(1));
    }
}

/// `textbook_elections` has the deaths on two triangles, in one order of what happens.
#[test]
fn a_triangle_and_a_tail_elect_their_best_each_if_one_between_them_dies() {
    let kite = Graph::new(5, [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]);
    for source in [0, 4] {
        let world = trees(kite.clone(), &[1, 2, 0, 4, 9], Promises::Textbook, &[source]);
        check(world.with_crashes(1));
    }
}

#[test]
fn two_may_die_on_a_line_and_on_a_ring() {
    for (graph, capacities) in [(Graph::line(4), [1, 0, 3, 2]), (Graph::ring(4), [5, 0, 5, 2])] {
        for source in [0, 2] {
            let world = trees(graph.clone(), &capacities, Promises::Textbook, &[source]);
            check(world.with_crashes(2));
        }
    }
}

#[test]
fn every_run_ends_on_graphs_that_are_sparse() {
    for (graph, capacities) in sparse() {
        let world = trees(graph, &capacities, Promises::Textbook, &[0, 2]);
        assert_every_run_ends(&world.with_crashes(1));
    }
}

#[test]
fn without_synchrony_no_message_goes_about_for_ever_on_a_ring() {
    let world = trees(Graph::ring(4), &[5, 0, 5, 2], Promises::Nothing, &[0, 2]);
    assert_every_run_ends(&world.with_timers(Timers::AtAnyTime(2)));
}
