//! Vasudevan, Kurose and Towsley's election, by hand and by count.

use std::collections::{BTreeMap, BTreeSet};

use conclave_protocols::election::spanning_tree::Message;
use conclave_protocols::election::{Command, Election, Place, SpanningTree};
use conclave_protocols::random::Random;
use conclave_protocols::{Epoch, MemberId, View, cost};

use crate::TIMING;
use crate::support::graph::Graph;
use crate::support::walk::Walk;

type Tree = Walk<SpanningTree>;

/// Members on a graph, with their capacities; those that are not stated are 0.
fn member<'a>(
    graph: &'a Graph,
    capacities: &'a [u64],
) -> impl Fn(MemberId) -> SpanningTree + use<'a> {
    let view = View { epoch: Epoch(1), size: graph.size, leader: MemberId(graph.size - 1) };
    move |me| {
        let capacity = capacities.get(me.0 as usize).copied().unwrap_or(0);
        let place = Place::new(me, view).with_capacity(capacity);
        SpanningTree::new(place.with_neighbours(graph.neighbours(me)), TIMING)
    }
}

fn elect(graph: &Graph, capacities: &[u64], dead: &[u32], sources: &[u32]) -> Tree {
    let mut walk = Walk::new(graph.size, dead.iter().copied(), member(graph, capacities));
    for source in sources {
        walk.ask(*source, Command::Elect);
    }
    walk.settle();
    walk
}

/// The messages that the source counts.
fn counted(walk: &Tree) -> u64 {
    walk.sent.iter().filter(|sent| sent.message.is_counted()).count() as u64
}

/// Who sent a message of this name to whom, in order.
fn routes(walk: &Tree, name: &str) -> Vec<(u32, u32)> {
    use conclave_protocols::Named;
    let sent = walk.sent.iter().filter(|sent| sent.message.name() == name);
    sent.map(|sent| (sent.from.0, sent.to.0)).collect()
}

/// Everybody whom the living of this one's component is made of follows this leader.
#[track_caller]
fn assert_follows(walk: &Tree, graph: &Graph, source: u32, leader: u32) {
    for one in graph.reached(MemberId(source), |one| !walk.dead.contains(&one)) {
        let follower = &walk.members[one.0 as usize];
        assert_eq!(follower.elected(), Some(MemberId(leader)), "{one}");
        assert!(!follower.is_electing(), "{one}");
    }
}

/// Ten nodes, a to j. As in the example of Tanenbaum and van Steen (2nd edition, figure 6-22), a begins and sends to
/// b and j; e and h are children of g, which reports [h, 8] to b. What its text does not state is made up: the other
/// links and capacities.
#[test]
fn of_ten_nodes_a_begins_and_h_of_capacity_eight_wins() {
    let links = pairs("ab aj bc bg cd ce df di eg ef fi gh gj hi");
    let graph = Graph::new(10, links);
    let capacities = [4, 6, 3, 2, 1, 4, 2, 8, 5, 4];
    let walk = elect(&graph, &capacities, &[], &[node(b'a')]);
    let elections = routes(&walk, "election");
    assert_eq!(elections[..2], pairs("ab aj"));
    let mut parents = BTreeMap::new();
    for (from, to) in &elections {
        parents.entry(*to).or_insert(*from);
    }
    parents.remove(&node(b'a'));
    let tree = pairs("ba cb dc ec fd gb hg id ja");
    assert_eq!(parents, tree.iter().copied().collect());
    let reported = |by: u8| {
        walk.sent.iter().filter(|sent| sent.from.0 == node(by)).find_map(|sent| {
            if let Message::Report { best, .. } = sent.message {
                Some((sent.to.0, best.member.0, best.capacity))
            } else {
                None
            }
        })
    };
    for (by, to, best, capacity) in [
        (b'h', b'g', b'h', 8),
        (b'g', b'b', b'h', 8),
        (b'b', b'a', b'h', 8),
        (b'd', b'c', b'i', 5),
        (b'j', b'a', b'j', 4),
    ] {
        assert_eq!(reported(by), Some((node(to), node(best), capacity)), "{}", char::from(by));
    }
    let announced: BTreeSet<_> = routes(&walk, "leader").into_iter().collect();
    assert_eq!(announced, tree.iter().map(|(child, parent)| (*parent, *child)).collect());
    assert_eq!(counted(&walk), cost::spanning_tree(10, 14));
    assert_follows(&walk, &graph, node(b'a'), node(b'h'));
}

/// The node of a letter.
fn node(letter: u8) -> u32 {
    u32::from(letter - b'a')
}

/// Pairs of nodes by their letters.
fn pairs(text: &str) -> Vec<(u32, u32)> {
    let pair = |pair: &str| (node(pair.as_bytes()[0]), node(pair.as_bytes()[1]));
    text.split(' ').map(pair).collect()
}

#[test]
fn among_equal_capacities_the_highest_rank_wins() {
    for (capacities, winner) in [([0; 5], 4), ([1, 7, 7, 0, 3], 2), ([9, 0, 0, 0, 9], 4)] {
        for source in 0..5 {
            let graph = Graph::line(5);
            assert_follows(&elect(&graph, &capacities, &[], &[source]), &graph, source, winner);
        }
    }
}

#[test]
fn one_that_begins_costs_what_the_links_and_the_members_make() {
    let graphs = |n| [Graph::full(n), Graph::line(n), Graph::ring(n), Graph::star(n, n / 2)];
    for n in 2..=64 {
        for graph in graphs(n).iter().chain((n <= 8).then(|| Graph::grid(n)).iter()) {
            let capacities: Vec<u64> = (0..graph.size).map(|one| u64::from(one % 5)).collect();
            let best = (0..graph.size).max_by_key(|one| (one % 5, *one)).expect("there are some");
            for source in [0, graph.size / 2, graph.size - 1] {
                let walk = elect(graph, &capacities, &[], &[source]);
                let members = u64::from(graph.size);
                assert_eq!(counted(&walk), cost::spanning_tree(members, graph.links()));
                let answers = walk.count("not_child", true) + walk.count("report", true);
                assert_eq!(walk.count("election", true), answers);
                assert_eq!(walk.count("election", true), 2 * graph.links() - (members - 1));
                assert_eq!(walk.count("leader", true), members - 1);
                assert_eq!(walk.count("probe", true), 0);
                assert_follows(&walk, graph, source, best);
            }
        }
        let n = u64::from(n);
        assert_eq!(cost::spanning_tree(n, cost::full_mesh(n)), (n - 1) * (2 * n - 1));
        assert_eq!(cost::spanning_tree(n, n - 1), 3 * (n - 1), "a tree");
    }
}

#[test]
fn several_that_begin_at_once_cost_least_if_the_highest_is_heard_first_and_more_if_the_lowest_is() {
    for n in 2..=24 {
        let (graph, size) = (Graph::full(n), u64::from(n));
        for begin in 1..=n {
            let lowest: Vec<u32> = (0..begin).collect();
            let walk = elect(&graph, &[], &[], &lowest);
            assert_eq!(counted(&walk), cost::spanning_tree_at_once(size, begin.into()));
            assert_follows(&walk, &graph, 0, n - 1);
        }
        let descending: Vec<u32> = (0..n).rev().collect();
        let least = counted(&elect(&graph, &[], &[], &descending));
        assert_eq!(least, (size - 1) * (3 * size - 2), "n = {n}");
        assert!(least <= cost::spanning_tree_at_once(size, size));
    }
    for n in [32, 64] {
        let walk = elect(&Graph::full(n), &[], &[], &(0..n).collect::<Vec<_>>());
        let n = u64::from(n);
        assert_eq!(counted(&walk), n * (n - 1) * (n + 2) / 2);
    }
}

/// Each computation runs among all that can be in it before anybody hears of the next.
#[test]
fn all_that_begin_at_once_cost_most_if_each_is_heard_of_as_late_as_can_be() {
    for n in 2..=16 {
        let graph = Graph::full(n);
        let mut walk = Walk::new(n, [], member(&graph, &[]));
        for source in 0..n {
            walk.ask(source, Command::Elect);
        }
        walk.settle_by(|sent| sent.message.of().source);
        assert_eq!(counted(&walk), cost::spanning_tree_most(n.into()), "n = {n}");
        assert_follows(&walk, &graph, 0, n - 1);
    }
}

/// By chance, link by link, and computation by computation too; also if one is dead, the highest.
#[test]
fn in_no_order_of_what_arrives_those_that_begin_at_once_cost_more_than_the_most() {
    for (n, seed) in (2..=8).flat_map(|n| (0..200).map(move |seed| (n, seed))) {
        for dead in [&[][..], &[n]] {
            let graph = Graph::full(n + u32::from(!dead.is_empty()));
            let mut walk = Walk::new(graph.size, dead.iter().copied(), member(&graph, &[]));
            for source in 0..n {
                walk.ask(source, Command::Elect);
            }
            let by_computation = u64::from(seed % 2 == 0);
            walk.settle_by(|sent| {
                let of = by_computation * u64::from(sent.message.of().source.0 << 16);
                let link = u64::from(sent.from.0 << 8 | sent.to.0);
                Random::new(seed << 32 | of | link).draw()
            });
            let (size, counted) = (u64::from(n), counted(&walk));
            let most = if dead.is_empty() {
                cost::spanning_tree_most(size)
            } else {
                cost::spanning_tree_next(size + 1)
            };
            let least = (size - 1) * (3 * size - 2);
            assert!((least..=most).contains(&counted), "{n}, {seed}: {counted}, at most {most}");
            assert_follows(&walk, &graph, 0, n - 1);
        }
    }
}

#[test]
fn a_member_that_was_dead_from_the_beginning_costs_one_wait() {
    for (graph, dead) in [
        (Graph::full(6), 5),
        (Graph::ring(6), 3),
        (Graph::star(6, 0), 4),
        (Graph::two_triangles(), 5),
    ] {
        let walk = elect(&graph, &[], &[dead], &[1]);
        assert_eq!(walk.elapsed(), TIMING.answer, "{graph:?}");
        let highest = if dead == 5 { 4 } else { 5 };
        assert_follows(&walk, &graph, 1, highest);
    }
}

/// The source is at one end: the child of the dead one begins anew, and does without it.
#[test]
fn a_member_that_is_cut_off_elects_again_so_that_both_sides_elect_their_best() {
    let graph = Graph::line(6);
    let mut walk = Walk::new(6, [], member(&graph, &[0, 9, 0, 0, 5, 0]));
    walk.ask(0, Command::Elect);
    while !walk.sent.iter().any(|sent| sent.from == MemberId(3)) {
        walk.step();
    }
    walk.kill(2);
    walk.settle();
    assert_follows(&walk, &graph, 0, 1);
    assert_follows(&walk, &graph, 3, 4);
    assert_eq!(walk.count("outdated", true), 0);
}

/// Its subtree is not cut off: there is another way.
#[test]
fn a_member_that_is_left_out_with_a_dead_parent_is_found_by_another_way() {
    let graph = Graph::new(4, [(0, 1), (1, 2), (2, 3), (3, 0)]);
    for killed_after in 1..20 {
        let mut walk = Walk::new(4, [], member(&graph, &[1, 2, 9, 3]));
        walk.ask(0, Command::Elect);
        for _ in 0..killed_after {
            walk.step();
        }
        walk.kill(1);
        walk.settle();
        assert_follows(&walk, &graph, 0, 2);
    }
}

#[test]
fn a_member_that_comes_back_learns_the_number_and_takes_part_again() {
    for back in 0..5 {
        let graph = Graph::full(5);
        let capacities = [3, 1, 4, 1, 2];
        let mut walk = elect(&graph, &capacities, &[], &[4]);
        walk.ask(3, Command::Elect);
        walk.settle();
        walk.kill(back);
        walk.restart(back, member(&graph, &capacities));
        walk.ask(back, Command::Inquire);
        walk.settle();
        assert_follows(&walk, &graph, 0, 2);
        assert_eq!(walk.elapsed(), std::time::Duration::ZERO, "nobody waited");
    }
}

/// A member far away reports late, and so do all on the way: that is no death.
#[test]
fn a_member_that_waits_for_others_is_not_taken_for_dead() {
    let graph = Graph::line(4);
    let mut walk = Walk::new(4, [], member(&graph, &[]));
    walk.ask(0, Command::Elect);
    while !walk.sent.iter().any(|sent| sent.from == MemberId(2)) {
        walk.step();
    }
    walk.kill(3);
    walk.settle();
    assert_follows(&walk, &graph, 0, 2);
    assert!(walk.count("probe", true) > 0);
    assert_eq!(routes(&walk, "election").len(), 3, "nobody began anew");
}

/// Each member dies at each step, on graphs of which it may be the only way from one part to the other. A member that follows
/// a leader which it cannot reach any more notices, as if it had died.
#[test]
fn with_any_member_dying_at_any_step_each_part_follows_its_best_in_the_end() {
    let graphs = [Graph::two_triangles(), Graph::grid(3), Graph::ring(8), Graph::star(7, 3)];
    let mut tried = 0;
    for graph in &graphs {
        let capacities: Vec<u64> = (0..graph.size).map(|one| u64::from(one * 5 % 4)).collect();
        for sources in [&[0][..], &[1, 4], &[5, 2, 0]] {
            for victim in 0..graph.size {
                for steps in 0.. {
                    let mut walk = Walk::new(graph.size, [], member(graph, &capacities));
                    for source in sources {
                        walk.ask(*source, Command::Elect);
                    }
                    if !(0..steps).all(|_| walk.step()) {
                        break;
                    }
                    walk.kill(victim);
                    tried += 1;
                    assert_best_in_each_part(&mut walk, graph, &capacities);
                }
            }
        }
    }
    assert!(tried > 3_000, "{tried}");
}

fn assert_best_in_each_part(walk: &mut Tree, graph: &Graph, capacities: &[u64]) {
    let part = |walk: &Tree, one| graph.reached(one, |one| !walk.dead.contains(&one));
    let living: Vec<MemberId> =
        (0..graph.size).map(MemberId).filter(|one| !walk.dead.contains(one)).collect();
    for _ in 0..4 {
        walk.settle();
        for one in &living {
            let elected = walk.members[one.0 as usize].elected();
            if elected.is_none_or(|leader| !part(walk, *one).contains(&leader)) {
                walk.ask(one.0, Command::Elect);
            }
        }
    }
    for one in &living {
        let best =
            part(walk, *one).into_iter().max_by_key(|one| (capacities[one.0 as usize], *one));
        assert_eq!(walk.members[one.0 as usize].elected(), best, "{one} without {:?}", walk.dead);
    }
}
