//! What an election sends from one zone to another if the leader has died and all that live begin at once, as in the
//! nomination of the group's next leader.

use std::time::Duration;

use conclave_protocols::election::{AnyElection, Command, Place, Timing};
use conclave_protocols::policy::{ElectionAlgorithm, Topology};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::random::Random;
use conclave_protocols::sim::Simulator;
use conclave_protocols::{Effect, LocalTime, MemberId, Outbox, Protocol, cost};

use crate::elections::hold;
use crate::measure::{T, UNIT, view};
use crate::page::{cells, each, table};
use crate::sent::{Sent, Spread};

/// Zones of one size.
pub(crate) struct Row {
    zones: u32,
    members: u32,
    bully: (u64, Sent),
    tree: Spread,
    /// In how many runs the tree sent less.
    less: u64,
}

/// So many zones, the members of each up to which a spanning tree sends less in no run, and those from which on it does in
/// all.
const DOMAIN: [(u32, u32, u32); 4] = [(2, 3, 5), (3, 3, 5), (4, 4, 6), (5, 4, 6)];

/// How many runs there are of one size, each with other delays.
const SEEDS: u64 = 30;

/// All sizes.
pub(crate) fn all() -> Vec<Row> {
    let mut rows = vec![];
    for (zones, none, all) in DOMAIN {
        for members in 3..=all + 4 {
            let row = row(zones, members);
            assert_eq!(row.less == 0, members <= none, "{zones} zones of {members}: {}", row.less);
            assert_eq!(row.less == SEEDS, members >= all, "{zones} of {members}: {}", row.less);
            rows.push(row);
        }
    }
    rows
}

fn row(zones: u32, members: u32) -> Row {
    let group = Group { zones, members };
    let runs = |algorithm, topology| -> Vec<u64> {
        (0..SEEDS).map(|seed| group.elect(algorithm, topology, seed)).collect()
    };
    let bully = runs(ElectionAlgorithm::Bully, Topology::FullMesh);
    let tree = runs(ElectionAlgorithm::SpanningTree, Topology::Zones);
    let (z, k) = (u64::from(zones), u64::from(members));
    let formula =
        Sent::Exactly(cost::bully_between_zones_worst(z, k) - cost::bully_between_zones(z, k));
    let bully: Vec<(u64, Sent)> = bully.into_iter().map(|sent| hold(sent, formula)).collect();
    let less = tree.iter().zip(&bully).filter(|(tree, bully)| **tree < bully.0).count() as u64;
    Row { zones, members, bully: bully[0], tree: Spread::of(tree, 1), less }
}

/// Members in zones over which ranks are dealt out.
#[derive(Clone, Copy)]
struct Group {
    zones: u32,
    /// Of each zone.
    members: u32,
}

impl Group {
    /// All but the highest, which led and is dead, begin. What is sent from one zone to another.
    fn elect(self, algorithm: ElectionAlgorithm, topology: Topology, seed: u64) -> u64 {
        let (size, zones) = (self.zones * self.members, self.zones);
        let leader = view(size).leader;
        let timing = Timing { answer: T * 10, announcement: T * 30 };
        let mut sim = Simulator::new(seed);
        self.set_delays(&mut sim, seed);
        for me in view(size).peers(leader) {
            let names = (0..size).map(|rank| Some(ZONES[(rank % zones) as usize]));
            let place = Place::new(me, view(size)).in_topology(topology, names, Some(leader));
            let election = AnyElection::new(algorithm, place, timing);
            sim.add(me, Counted { me, zones, election, between: 0 });
        }
        for me in view(size).peers(leader) {
            sim.command(me, Command::Elect);
        }
        sim.run_for(Duration::from_secs(10));
        for (member, node) in sim.nodes() {
            assert_eq!(node.election.elected(), Some(MemberId(size - 2)), "{member}, {seed}");
        }
        sim.nodes().map(|(_, node)| node.between).sum()
    }

    /// Each link has a delay between T/2 and 3T/2. With every other seed those within a zone take a tenth of that.
    fn set_delays(self, sim: &mut Simulator<Counted>, seed: u64) {
        let mut random = Random::new(seed);
        let members = || (0..self.zones * self.members).map(MemberId);
        for (from, to) in members().flat_map(|from| members().map(move |to| (from, to))) {
            let delay = Duration::from_nanos(UNIT / 2 + random.up_to(UNIT));
            let is_within = from.0 % self.zones == to.0 % self.zones;
            let delay = if is_within && seed % 2 == 1 { delay / 10 } else { delay };
            sim.slow(from, to, delay, delay);
        }
    }
}

const ZONES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A member that counts what it sends to other zones, to the dead too.
struct Counted {
    me: MemberId,
    zones: u32,
    election: AnyElection,
    between: u64,
}

impl Protocol for Counted {
    type Peer = MemberId;
    type Command = <AnyElection as Protocol>::Command;
    type Message = <AnyElection as Protocol>::Message;
    type Timer = <AnyElection as Protocol>::Timer;
    type Event = <AnyElection as Protocol>::Event;

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        let mut effects = Outbox::default();
        self.election.handle(now, input, &mut effects);
        for effect in effects.effects() {
            if let Effect::Send { to, .. } = effect {
                self.between += u64::from(to.0 % self.zones != self.me.0 % self.zones);
            }
        }
        effects.pour_into(out, |message| message, |timer| timer);
    }
}

/// The part of the page.
pub(crate) fn section(rows: &[Row]) -> String {
    let columns =
        ["zones", "members of a zone", "Bully", "formula", "SpanningTree, `Zones`", "sends less"];
    let mut text = on_all() + &table(&columns);
    for Row { zones, members, bully, tree, less } in rows {
        text += &cells(&[
            zones.to_string(),
            members.to_string(),
            each(bully.0, 1),
            bully.1.per(1),
            tree.to_string(),
            format!("{less} of {SEEDS}"),
        ]);
    }
    text + "\n"
}

fn on_all() -> String {
    let domain = DOMAIN.map(|(zones, none, all)| {
        format!("of {zones} zones, none up to k = {none} and all from k = {all} on")
    });
    format!(
        "In the nomination of the group's leader, the leader is dead and all others begin at once. Of every two of them the lower
asks the higher and is answered; all ask the dead one, and the winner announces itself to it too. So a bully sends
k²z(z - 1) from one zone to another, whatever the delays are. What a spanning tree sends depends on them, since each gateway joins
one computation after the other: here the mean of {SEEDS} runs and the least and the most of them, all messages counted. In
each run every link has a delay of its own between T/2 and 3T/2; in every other, links within a zone take a tenth of that.
It sends less than a bully in these runs: {}. It grows with k,
but not with k², since a zone has two gateways however many members it has:\n\n",
        domain.join("; ")
    )
}
