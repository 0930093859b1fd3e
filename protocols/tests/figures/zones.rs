//! What an election sends from one zone to another: all live, and each begins in a run of its own.

use conclave_protocols::election::{AnyElection, AnyMessage, Command, Place, Timing, bully};
use conclave_protocols::policy::{ElectionAlgorithm, Topology};
use conclave_protocols::{MemberId, cost};

use crate::measure::{T, view};
use crate::page::{cells, each, table};
use crate::sent::Sent;
use crate::support::walk::Walk;

/// How many zones there are. Ranks are dealt out over them.
const ZONES: u32 = 3;

/// Zones of one size.
pub(crate) struct Row {
    members: u32,
    /// By a spanning tree in zones, in a mesh, and by a bully at its best and at its worst: what was sent, in how many
    /// runs, and what the formula states of all of them.
    costs: [(u64, u64, Sent); 4],
}

/// All sizes.
pub(crate) fn all() -> Vec<Row> {
    (3..=8).map(row).collect()
}

fn row(members: u32) -> Row {
    let size = ZONES * members;
    let (zones, of_zone) = (u64::from(ZONES), u64::from(members));
    let of_tree = |topology| {
        let runs = (0..size).map(|source| {
            let walk = elect(ElectionAlgorithm::SpanningTree, topology, size, source);
            between(&walk, AnyMessage::is_counted)
        });
        (runs.sum::<u64>(), u64::from(size))
    };
    let of_bully = |source| {
        let walk = elect(ElectionAlgorithm::Bully, Topology::FullMesh, size, source);
        let asked = between(&walk, |message| !is(message, &bully::Message::Coordinator));
        // Each announcement goes to all: one is the source's, and the others are ours.
        let announced = between(&walk, |message| is(message, &bully::Message::Coordinator));
        let again = announced - cost::bully_between_zones(zones, of_zone);
        assert_eq!(again % cost::bully_between_zones(zones, of_zone), 0);
        (asked + announced - again, 1)
    };
    let held = |(sent, runs): (u64, u64), formula: Sent| {
        let formula = formula.map(|one| one * runs);
        assert!(formula.admits(sent), "{sent} in {runs} runs is not {formula:?}");
        (sent, runs, formula)
    };
    // All messages take equally long: each gateway of another zone has its parent in another.
    let tree = cost::spanning_tree_between_zones(zones, 2 * (zones - 1));
    let mesh = cost::mesh_between_zones(zones, of_zone);
    let best = cost::bully_between_zones(zones, of_zone);
    let worst = cost::bully_between_zones_worst(zones, of_zone);
    let costs = [
        held(of_tree(Topology::Zones), Sent::Exactly(tree)),
        held(of_tree(Topology::FullMesh), Sent::Exactly(mesh)),
        held(of_bully(size - 1), Sent::Exactly(best)),
        held(of_bully(0), Sent::Exactly(worst)),
    ];
    Row { members, costs }
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
    let crosses = walk.sent.iter().filter(|sent| sent.from.0 % ZONES != sent.to.0 % ZONES);
    crosses.filter(|sent| counts(&sent.message)).count() as u64
}

/// The part of the page.
pub(crate) fn section(rows: &[Row]) -> String {
    let columns = [
        "members of a zone",
        "SpanningTree, `Zones`",
        "formula",
        "SpanningTree, `FullMesh`",
        "formula",
        "Bully at best",
        "formula",
        "Bully at worst",
        "formula",
    ];
    let mut text = ON_ZONES.to_owned() + &table(&columns);
    for Row { members, costs } in rows {
        let mut line = vec![members.to_string()];
        for (sent, runs, formula) in costs {
            line.extend([each(*sent, *runs), formula.per(*runs)]);
        }
        text += &cells(&line);
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
whose lowest at worst. What comes on top is not in the table: a reply of each gateway whose parent is in another
zone, and what a bully announces again. If all begin at once, as in the nomination of the group's leader, every gateway
may join the computation of each, and the table holds for the one that comes to its end.

";
