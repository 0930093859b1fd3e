//! The spanning tree in weather that none of its promises covers: messages are lost, late and repeated, members crash
//! and come back without memory. It is made good afterwards: nobody waits for ever, and one more election, with
//! any initiator, is followed by all, and elects the best.

use std::time::Duration;

use conclave_protocols::MemberId;
use conclave_protocols::election::{Command, Election, Place, SpanningTree, Timing};
use conclave_protocols::policy::Topology;
use conclave_protocols::sim::Simulator;

use crate::support::graph::Graph;
use crate::{letters, view};

const TIMING: Timing =
    Timing { answer: Duration::from_millis(20), announcement: Duration::from_millis(60) };

struct Weather {
    sim: Simulator<SpanningTree>,
    graph: Graph,
    capacities: Vec<u64>,
    /// Whether the graph is all links that there are, or neighbours go by zones.
    zoned: bool,
    /// How many faults of each kind there were.
    faults: [u64; 6],
}

impl Weather {
    /// Four to nine members on a line with some links more.
    fn new(seed: u64, zoned: bool) -> Self {
        let mut sim = Simulator::new(seed);
        let mut up_to =
            |limit: u32| u32::try_from(sim.random().up_to(limit.into())).expect("small");
        let size = 4 + up_to(6);
        let more: Vec<(u32, u32)> =
            (0..up_to(2 * size)).map(|_| (up_to(size), up_to(size))).collect();
        let line = (1..size).map(|one| (one - 1, one));
        let graph =
            Graph::new(size, line.chain(more.into_iter().filter(|(one, other)| one != other)));
        let capacities = (0..size).map(|_| up_to(3).into()).collect();
        let mut weather = Self { sim, graph, capacities, zoned, faults: [0; 6] };
        for one in 0..size {
            weather.start(MemberId(one));
        }
        weather
    }

    fn start(&mut self, me: MemberId) {
        let view = view(self.graph.size);
        let place = Place::new(me, view).with_capacity(self.capacities[me.0 as usize]);
        let place = if self.zoned {
            let zones = letters(&ZONES[..self.graph.size as usize]);
            place.in_topology(Topology::Zones, zones, Some(view.leader))
        } else {
            place.with_neighbours(self.graph.neighbours(me))
        };
        self.sim.add(me, SpanningTree::new(place, TIMING));
    }

    fn any(&mut self) -> MemberId {
        let limit = u64::from(self.graph.size);
        MemberId(u32::try_from(self.sim.random().up_to(limit)).expect("small"))
    }

    fn fault(&mut self) {
        let (one, other) = (self.any(), self.any());
        let kind = usize::try_from(self.sim.random().up_to(6)).expect("small");
        self.faults[kind] += 1;
        match kind {
            0 => self.sim.cut(one, other),
            1 => self.sim.break_link(one, other),
            2 => self.sim.repeat(one, other, 2, TIMING.answer * 4),
            3 => self.sim.slow(one, other, Duration::ZERO, TIMING.answer * 3),
            4 => {
                self.sim.crash(one);
                self.start(one);
                self.sim.command(one, Command::Inquire);
            }
            _ => self.sim.heal(),
        }
        self.sim.command(other, Command::Elect);
    }

    fn waits(&self) -> usize {
        self.sim.nodes().filter(|(_, member)| member.is_electing()).count()
    }
}

/// Three zones of at most three.
const ZONES: &str = "aabacbcbc";

#[test]
fn after_any_weather_nobody_waits_and_one_election_elects_the_best() {
    after_any_weather(false);
}

#[test]
fn it_is_so_in_zones_too() {
    after_any_weather(true);
}

fn after_any_weather(zoned: bool) {
    let (mut faults, mut wide) = ([0; 6], [0; 2]);
    for seed in 0..2_400 {
        let mut weather = Weather::new(seed, zoned);
        // A member that elects a third time does so wide: after less weather not all have.
        let many = if seed % 6 == 0 { 1 + seed / 6 % 4 } else { 20 };
        for _ in 0..many {
            weather.fault();
            let span = weather.sim.random().below(TIMING.answer * 3);
            weather.sim.run_for(span);
        }
        weather.sim.heal();
        // Those that wait longest began anew when they had waited for all that they wait for.
        weather.sim.run_for(TIMING.answer * weather.graph.size * 12);
        assert_eq!(weather.waits(), 0, "seed {seed}");
        let initiator = weather.any();
        weather.sim.command(initiator, Command::Elect);
        weather.sim.run_for(TIMING.answer * weather.graph.size);
        let capacity = |one: &MemberId| (weather.capacities[one.0 as usize], *one);
        let best = (0..weather.graph.size).map(MemberId).max_by_key(capacity);
        for (me, member) in weather.sim.nodes() {
            assert_eq!(member.elected(), best, "seed {seed}: {me}, if {initiator} begins");
        }
        wide[usize::from(weather.sim.nodes().any(|(_, member)| member.is_wide()))] += 1;
        faults.iter_mut().zip(weather.faults).for_each(|(all, one)| *all += one);
    }
    assert!(faults.iter().all(|kind| *kind > 5_000), "{faults:?}");
    let enough = if zoned { wide.iter().all(|runs| *runs > 100) } else { wide[1] == 0 };
    assert!(enough, "in the end {wide:?} were not wide, and wide");
}
