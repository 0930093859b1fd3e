//! The spanning tree in zones, by count and in one order of what happens. The laws are in `election_laws/zones.rs`.

use std::collections::BTreeSet;

use conclave_protocols::election::spanning_tree::Message;
use conclave_protocols::election::{Bully, Command, Election, Place, SpanningTree};
use conclave_protocols::policy::Topology;
use conclave_protocols::random::Random;
use conclave_protocols::{Epoch, MemberId, Named, View, cost};

use crate::TIMING;
use crate::support::Subject;
use crate::support::walk::{Sent, Walk};

/// Members in zones over which ranks are dealt out.
#[derive(Clone, Copy, Debug)]
struct Zones {
    zones: u32,
    /// Of each zone.
    members: u32,
}

impl Zones {
    fn size(self) -> u32 {
        self.zones * self.members
    }

    fn of(self, member: MemberId) -> u32 {
        member.0 % self.zones
    }

    /// `led`: the highest led until now, and is no gateway.
    fn place(self, topology: Topology, led: bool) -> impl Fn(MemberId) -> Place {
        let size = self.size();
        let view = View { epoch: Epoch(1), size, leader: MemberId(size - 1) };
        move |me| {
            let zones = view.members().map(|one| Some(NAMES[self.of(one) as usize]));
            Place::new(me, view).in_topology(topology, zones, led.then_some(view.leader))
        }
    }

    fn elect<P: Subject + Election>(self, topology: Topology, source: u32) -> Walk<P> {
        let mut walk = self.begin(topology, source);
        walk.settle();
        self.assert_elected(&walk);
        walk
    }

    fn begin<P: Subject + Election>(self, topology: Topology, source: u32) -> Walk<P> {
        let place = self.place(topology, false);
        let mut walk = Walk::new(self.size(), [], |me| P::new(place(me), TIMING));
        walk.ask(source, Command::Elect);
        walk
    }

    fn assert_elected<P: Subject + Election>(self, walk: &Walk<P>) {
        for one in &walk.members {
            assert_eq!(one.elected(), Some(MemberId(self.size() - 1)));
        }
    }

    fn is_between<M>(self, sent: &Sent<M>) -> bool {
        self.of(sent.from) != self.of(sent.to)
    }

    /// The messages from one zone to another, by a property of them.
    fn between<P: Subject>(self, walk: &Walk<P>, counts: impl Fn(&P::Message) -> bool) -> u64 {
        let crosses = walk.sent.iter().filter(|sent| self.is_between(sent));
        crosses.filter(|sent| counts(&sent.message)).count() as u64
    }

    /// Of an election by a spanning tree: the messages between zones, and the links of the tree that are.
    fn cost(self, walk: &Walk<SpanningTree>) -> (u64, u64) {
        let reports = self.between(walk, |message| message.name() == "report");
        (self.between(walk, Message::is_counted), reports)
    }
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Three zones of three to eight, and two to five zones of three.
fn several() -> impl Iterator<Item = Zones> {
    let of_three = (3..=8).map(|members| Zones { zones: 3, members });
    of_three.chain([2, 4, 5].map(|zones| Zones { zones, members: 3 }))
}

/// All messages take equally long, so every gateway of another zone than the source's has its parent in another zone.
#[test]
fn between_zones_an_election_costs_the_same_however_many_members_they_have() {
    for group in several() {
        let zones = u64::from(group.zones);
        for source in 0..group.size() {
            let (sent, reports) = group.cost(&group.elect(Topology::Zones, source));
            assert_eq!(reports, 2 * (zones - 1));
            assert_eq!(sent, cost::spanning_tree_between_zones(zones, reports));
            assert_eq!(sent, 2 * (zones - 1) * (4 * zones - 1));
            let mesh = group.elect(Topology::FullMesh, source);
            let of_mesh = group.cost(&mesh).0;
            assert_eq!(of_mesh, cost::mesh_between_zones(zones, group.members.into()));
            assert!(sent < of_mesh);
        }
    }
}

/// It makes a difference which links are slow: those between zones, or those within them.
#[test]
fn the_tree_has_as_many_links_between_zones_as_there_can_be_and_as_few() {
    for group in several() {
        let zones = u64::from(group.zones);
        for (fast_between, links) in [(false, zones - 1), (true, 2 * zones - 1)] {
            let mut walk = group.begin(Topology::Zones, 0);
            walk.settle_by(|sent| group.is_between(sent) != fast_between);
            group.assert_elected(&walk);
            let expected = cost::spanning_tree_between_zones(zones, links);
            assert_eq!(group.cost(&walk), (expected, links), "{group:?}");
        }
    }
}

/// The one that led is none of the gateways.
#[test]
fn it_costs_the_same_between_zones_if_the_leader_is_dead() {
    for group in several() {
        let place = group.place(Topology::Zones, true);
        let leader = group.size() - 1;
        for source in 0..leader {
            let member = |me| SpanningTree::new(place(me), TIMING);
            let mut walk = Walk::new(group.size(), [leader], member);
            walk.ask(source, Command::Elect);
            walk.settle();
            let (sent, reports) = group.cost(&walk);
            assert_eq!(reports, 2 * (u64::from(group.zones) - 1));
            let expected = cost::spanning_tree_between_zones(group.zones.into(), reports);
            assert_eq!(sent, expected, "{group:?} by {source}");
        }
    }
}

/// Every member begins, and each link is as fast as chance has it: the costs of a full mesh are a bound in zones too.
#[test]
fn if_all_begin_at_once_it_costs_no_more_than_in_a_full_mesh() {
    for (group, seed) in several().flat_map(|group| (0..50).map(move |seed| (group, seed))) {
        let mut walk: Walk<SpanningTree> = group.begin(Topology::Zones, 0);
        for one in 1..group.size() {
            walk.ask(one, Command::Elect);
        }
        walk.settle_by(|sent| {
            Random::new(seed << 16 | u64::from(sent.from.0 << 8 | sent.to.0)).draw()
        });
        group.assert_elected(&walk);
        let counted = walk.sent.iter().filter(|sent| sent.message.is_counted()).count() as u64;
        let most = cost::spanning_tree_most(group.size().into());
        assert!(counted <= most, "{group:?}, {seed}: {counted}, not {most}");
    }
}

#[test]
fn a_bully_sends_fewer_between_zones_at_best_and_more_at_worst() {
    for group in several() {
        let (zones, members) = (u64::from(group.zones), u64::from(group.members));
        let best = group.elect::<Bully>(Topology::Zones, group.size() - 1);
        let worst = group.elect::<Bully>(Topology::Zones, 0);
        let of_best = cost::bully_between_zones(zones, members);
        assert_eq!(group.between(&best, |_| true), of_best);
        // The highest announces itself again to each that asks it but the first.
        let again = (u64::from(group.size()) - 2) * of_best;
        let of_worst = cost::bully_between_zones_worst(zones, members);
        assert_eq!(group.between(&worst, |_| true), of_worst + again);
        let [most, least] =
            [zones - 1, 2 * zones - 1].map(|t| cost::spanning_tree_between_zones(zones, t));
        assert!(of_best < least && most < of_worst, "{group:?}");
    }
}

const OF_THREE: Zones = Zones { zones: 3, members: 3 };

/// All that live elect so often, each after what the others began has ended. Whom they follow each time.
fn attempts(place: impl Fn(MemberId) -> Place, dead: &[u32], times: usize) -> Vec<BTreeSet<u32>> {
    let size = OF_THREE.size();
    let mut walk = Walk::new(size, dead.iter().copied(), |me| SpanningTree::new(place(me), TIMING));
    let living: Vec<u32> = (0..size).filter(|one| !dead.contains(one)).collect();
    let mut followed = Vec::new();
    for _ in 0..times {
        for one in &living {
            walk.ask(*one, Command::Elect);
        }
        walk.settle();
        let elected = living.iter().filter_map(|one| walk.members[*one as usize].elected());
        followed.push(elected.map(|leader| leader.0).collect());
    }
    followed
}

/// The leader, 8, has died, and with it both gateways of a zone: what is left of the zone elects its own best. Without
/// wide computations it would do so for ever.
#[test]
fn the_third_time_all_elect_one_though_both_gateways_of_a_zone_are_dead_and_without_wide_never() {
    for (gateways, left) in [([0, 3], 6), ([1, 4], 7)] {
        let dead = [gateways[0], gateways[1], 8];
        let best = if left == 7 { 6 } else { 7 };
        let divided = BTreeSet::from([best, left]);
        let zones = OF_THREE.place(Topology::Zones, true);
        let never_wide = |me| Place { spares: false, ..zones(me) };
        assert_eq!(attempts(never_wide, &dead, 9), vec![divided.clone(); 9]);
        let one = BTreeSet::from([7]);
        let expected = [divided.clone(), divided, one.clone(), one];
        assert_eq!(attempts(zones, &dead, 4), expected);
    }
}

#[test]
fn one_dead_gateway_of_each_zone_divides_nobody() {
    let zones = OF_THREE.place(Topology::Zones, true);
    for dead in [[0, 1, 2], [3, 4, 5], [0, 4, 8]] {
        let highest = if dead.contains(&8) { 7 } else { 8 };
        assert_eq!(attempts(&zones, &dead, 1), [BTreeSet::from([highest])]);
    }
}
