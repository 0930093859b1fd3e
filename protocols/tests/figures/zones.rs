//! What an election sends from one zone to another: all live, and each begins in a run of its own.

use std::collections::BTreeSet;

use conclave_protocols::election::{AnyElection, AnyMessage, Command, Place, Timing, bully};
use conclave_protocols::policy::{ElectionAlgorithm, Topology};
use conclave_protocols::{MemberId, cost};

use crate::elections::hold;
use crate::measure::{T, view};
use crate::page::{cells, each, table};
use crate::sent::Sent;
use crate::support::walk::{self, Walk};

/// How many zones there are in these runs. Ranks are dealt out over them.
const ZONES: u32 = 3;

/// Zones of one size.
pub(crate) struct Row {
    members: u32,
    /// By a spanning tree in zones, in a mesh, and by a bully at its best and at its worst.
    costs: [Cost; 4],
}

/// What several runs cost together.
struct Cost {
    election: &'static str,
    runs: u64,
    /// Messages that the sources count.
    messages: (u64, Sent),
    /// Messages that come on top.
    on_top: (u64, Sent),
}

/// All sizes.
pub(crate) fn all() -> Vec<Row> {
    for (zones, members) in (2..=5).flat_map(|zones| (3..=60).map(move |members| (zones, members)))
    {
        let tree = |links| cost::spanning_tree_between_zones(zones, links);
        let best = cost::bully_between_zones(zones, members);
        assert!(tree(zones - 1) < cost::bully_between_zones_worst(zones, members));
        assert_eq!(tree(2 * (zones - 1)) < best, members > 8 * zones - 2, "the page's domain");
    }
    (3..=8).map(row).collect()
}

fn row(members: u32) -> Row {
    let (zones, of_zone) = (u64::from(ZONES), u64::from(members));
    // All messages take equally long: each gateway of another zone has its parent in another, and replies to it.
    let of_tree = 2 * (zones - 1);
    let tree = cost::spanning_tree_between_zones(zones, of_tree);
    let mesh = cost::mesh_between_zones(zones, of_zone);
    let best = cost::bully_between_zones(zones, of_zone);
    let worst = cost::bully_between_zones_worst(zones, of_zone);
    // The highest announces itself again to each that asks it but the first.
    let again = (u64::from(ZONES * members) - 2) * best;
    let costs = [
        of_trees("SpanningTree, `Zones`", Topology::Zones, members, [tree, of_tree]),
        of_trees("SpanningTree, `FullMesh`", Topology::FullMesh, members, [mesh, best]),
        of_bully("Bully at best", members, ZONES * members - 1, [best, 0]),
        of_bully("Bully at worst", members, 0, [worst, again]),
    ];
    Row { members, costs }
}

/// One run for each that may begin.
fn of_trees(election: &'static str, topology: Topology, members: u32, formulas: [u64; 2]) -> Cost {
    let size = ZONES * members;
    let (mut counted, mut all) = (0, 0);
    for source in 0..size {
        let walk = elect(ElectionAlgorithm::SpanningTree, topology, size, source);
        counted += between(&walk, AnyMessage::is_counted);
        all += between(&walk, |_| true);
    }
    let [messages, on_top] = formulas.map(|one| Sent::Exactly(one * u64::from(size)));
    Cost {
        election,
        runs: size.into(),
        messages: hold(counted, messages),
        on_top: hold(all - counted, on_top),
    }
}

/// An announcement to a member that had one of the same sender before comes on top.
fn of_bully(election: &'static str, members: u32, source: u32, formulas: [u64; 2]) -> Cost {
    let size = ZONES * members;
    let walk = elect(ElectionAlgorithm::Bully, Topology::FullMesh, size, source);
    let announced =
        |sent: &&walk::Sent<AnyMessage>| is(&sent.message, &bully::Message::Coordinator);
    let announced = crossing(&walk).filter(announced).map(|sent| (sent.from, sent.to));
    let (first, again) = first_and_again(announced);
    let asked = between(&walk, |message| !is(message, &bully::Message::Coordinator));
    let [messages, on_top] = formulas.map(Sent::Exactly);
    Cost { election, runs: 1, messages: hold(asked + first, messages), on_top: hold(again, on_top) }
}

/// How many of these come for the first time, and how many again.
fn first_and_again(all: impl Iterator<Item = (MemberId, MemberId)>) -> (u64, u64) {
    let mut seen = BTreeSet::new();
    let (mut first, mut again) = (0, 0);
    for one in all {
        if seen.insert(one) { first += 1 } else { again += 1 }
    }
    (first, again)
}

fn is(message: &AnyMessage, one: &bully::Message) -> bool {
    matches!(message, AnyMessage::Bully(message) if message == one)
}

fn elect(
    algorithm: ElectionAlgorithm,
    topology: Topology,
    size: u32,
    source: u32,
) -> Walk<AnyElection> {
    let timing = Timing { answer: T * 10, announcement: T * 30 };
    let mut walk = Walk::new(size, [], |me| {
        let zones = (0..size).map(|rank| Some(["a", "b", "c"][(rank % ZONES) as usize]));
        let place = Place::new(me, view(size)).in_topology(topology, zones, None);
        AnyElection::new(algorithm, place, timing)
    });
    walk.ask(source, Command::Elect);
    walk.settle();
    assert!(walk.members.iter().all(|one| one.elected() == Some(MemberId(size - 1))));
    walk
}

fn between(walk: &Walk<AnyElection>, counts: impl Fn(&AnyMessage) -> bool) -> u64 {
    crossing(walk).filter(|sent| counts(&sent.message)).count() as u64
}

/// What was sent from one zone to another.
fn crossing(walk: &Walk<AnyElection>) -> impl Iterator<Item = &walk::Sent<AnyMessage>> {
    walk.sent.iter().filter(|sent| sent.from.0 % ZONES != sent.to.0 % ZONES)
}

/// The part of the page.
pub(crate) fn section(rows: &[Row]) -> String {
    let columns = ["members of a zone", "election", "messages", "formula", "on top", "formula"];
    let mut text = ON_ZONES.to_owned() + &table(&columns);
    for Row { members, costs } in rows {
        for Cost { election, runs, messages, on_top } in costs {
            let mut line = vec![members.to_string(), (*election).to_owned()];
            for (sent, formula) in [messages, on_top] {
                line.extend([each(*sent, *runs), formula.per(*runs)]);
            }
            text += &cells(&line);
        }
    }
    text + "\n"
}

const ON_ZONES: &str = "\
In the [topology](elections.md#zones) `Zones`, members of different zones are neighbours only if both are gateways, and
each zone has two. So there are four links between two zones, however many members they have: of z zones,
8z(z - 1) messages less those links of the tree that are between zones. These are z - 1 to 2z - 1, and 2(z - 1) if all
messages take equally long, which makes 2(z - 1)(4z - 1) messages. In a full mesh of
zones of k members there are k² links between two zones, 2k²z(z - 1) - k(z - 1) messages. A bully sends k(z - 1) at
best, if the highest begins, and k²z(z - 1) + k(z - 1) at worst. The messages from one zone to another, of three
zones whose members all live: the mean over all that may begin, but for the bully, whose highest begins at best and
whose lowest at worst. On top come a reply of each member whose parent is in another zone, 2(z - 1) in `Zones` and k(z - 1) in a
full mesh; and what a bully announces to a member again, (zk - 2)k(z - 1) at worst. If one begins, a spanning tree in `Zones`
sends less than a bully at worst if k is 3 or more, since 8z - 1 < k²z + k. It sends less than a bully at best only if k is
more than 8z - 2.

";
