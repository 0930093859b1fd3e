//! Faults of all kinds, one after another, as a seed has it; then fair weather.

use std::time::Duration;

use conclave_protocols::member::Node;
use conclave_protocols::policy::{ElectionAlgorithm, Policy, Timing};

use crate::nodes::{Ask, Mood};
use crate::world::World;

/// What the weather is like.
#[derive(Clone, Debug)]
pub(crate) struct Storm {
    pub(crate) members: usize,
    pub(crate) policy: Policy,
    /// How many things happen.
    pub(crate) length: u64,
    /// The longest time between two of them.
    pub(crate) pause: Duration,
    /// Whether the resource is edited meanwhile.
    pub(crate) edits: bool,
}

impl Storm {
    pub(crate) fn of(members: usize, timing: Timing) -> Self {
        let policy = Policy { timing, ..Policy::default() };
        let pause = timing.office_wait * 5 / 2;
        Self { members, policy, length: 60, pause, edits: false }
    }

    /// One run. Every step is checked by the world; in the end somebody leads, everybody belongs to
    /// the group, and everybody gets every lock.
    pub(crate) fn run(&self, seed: u64, trace: bool) -> World {
        let mut world = World::new(seed, self.members, self.policy.clone());
        world.trace = trace;
        for _ in 0..self.length {
            self.something_happens(&mut world);
            let span = world.sim.random().below(self.pause);
            world.run_for(span);
        }
        if trace {
            println!("{:?} FAIR WEATHER", world.sim.now());
        }
        world.heal();
        clear_up(&mut world);
        world
    }

    fn something_happens(&self, world: &mut World) {
        let all = world.count() as u64;
        let one = usize::try_from(world.sim.random().up_to(all)).expect("small");
        let other = usize::try_from(world.sim.random().up_to(all)).expect("small");
        let lock = ["a", "b", "c"][usize::try_from(world.sim.random().up_to(3)).expect("small")];
        let living = world.living().count();
        let draw = world.sim.random().up_to(40);
        let what = self.happen(world, draw, (one, other), lock, living);
        *world.seen.faults.entry(what).or_default() += 1;
        if world.trace {
            println!("{:?} {what}: {one} {other} {lock}", world.sim.now());
        }
    }

    fn happen(
        &self,
        world: &mut World,
        draw: u64,
        (one, other): (usize, usize),
        lock: &str,
        living: usize,
    ) -> &'static str {
        match draw {
            0 | 1 if living > 1 => world.crash(one),
            2..=4 if living < self.members + 2 => {
                world.join();
            }
            5 if living > 1 => world.leave(one),
            6 => world.drain(one),
            7 | 8 => world.isolate(one),
            9 | 10 => world.part(world.node(one), world.node(other)),
            11 => world.sim.cut(world.node(one), world.node(other)),
            12 => world.split(&[one, other]),
            13 | 14 => world.freeze(one),
            15 => world.thaw(one),
            16 => world.cut_register(),
            17 => world.part(world.node(one), Node::Register),
            18 => {
                world.cut_register();
                world.run_for(self.policy.timing.api_outage);
            }
            19 => unsure(world),
            20 => slow(world),
            21 => world.register(Ask::Touch),
            22 if self.edits => self.edit(world),
            22..=25 => world.heal(),
            26..=28 => world.exit(one, lock),
            0..=5 | 29.. => world.enter(one, lock),
        }
        FAULTS[usize::try_from(draw).expect("small").min(FAULTS.len() - 1)]
    }

    fn edit(&self, world: &mut World) {
        let mut policy = world.policy.clone();
        policy.generation += 1;
        policy.election = match policy.election {
            ElectionAlgorithm::Bully => ElectionAlgorithm::Ring,
            ElectionAlgorithm::Ring => ElectionAlgorithm::Bully,
        };
        let factor = 1 + u32::try_from(world.sim.random().up_to(3)).expect("small");
        policy.timing.lock_wait = self.policy.timing.lock_wait * factor;
        policy.timing.office_wait = self.policy.timing.office_wait * factor.min(2);
        world.set_policy(&policy);
    }
}

const FAULTS: [&str; 30] = [
    "crash",
    "crash",
    "join",
    "join",
    "join",
    "leave",
    "drain",
    "isolate",
    "isolate",
    "part",
    "part",
    "one-way cut",
    "split",
    "freeze",
    "freeze",
    "thaw",
    "register away",
    "register away for one",
    "long outage",
    "register unsure",
    "register slow",
    "register touched",
    "edit",
    "heal",
    "heal",
    "heal",
    "exit",
    "exit",
    "exit",
    "enter",
];

fn unsure(world: &mut World) {
    let unsure = 1 + world.sim.random().up_to(4);
    world.register(Ask::Mood(Mood { unsure, ..Mood::default() }));
}

fn slow(world: &mut World) {
    let slow = Duration::from_millis(20 << world.sim.random().up_to(7));
    let unsure = world.sim.random().up_to(6);
    world.register(Ask::Mood(Mood { slow, unsure }));
}

/// What must come true when nothing is wrong any more.
fn clear_up(world: &mut World) {
    let timing = world.policy.timing;
    let longest = timing.api_outage + timing.office_wait * 12 + timing.lock_wait * 4;
    let led = |world: &World| world.leader().is_some_and(|m| world.living().any(|l| l == m));
    world.run_until("one leads", longest, led);
    world.run_until("all belong", timing.office_wait * 8 + timing.lock_wait * 4, |world| {
        let record = world.record();
        led(world)
            && world.living().all(|index| {
                record.rank(world.incarnation(index)).is_some()
                    && world.member(index).and_then(|m| m.record()).map(|r| r.epoch)
                        == Some(record.epoch)
            })
    });
    // What was promised during the storm has run out.
    world.run_for(timing.office_wait);
    for lock in ["a", "b", "c"] {
        everybody_gets(world, lock, timing.lock_wait * 4 + timing.office_wait * 4);
    }
}

/// Whoever holds a lock leaves it, and whoever lives gets it once.
fn everybody_gets(world: &mut World, lock: &str, patience: Duration) {
    let all: Vec<usize> = world.living().collect();
    for member in &all {
        world.exit(*member, lock);
        world.enter(*member, lock);
    }
    for _ in &all {
        world.run_until(lock, patience, |world| {
            world.holder(lock).is_some_and(|holder| world.wants(holder, lock))
        });
        let holder = world.holder(lock).expect("just seen");
        world.exit(holder, lock);
    }
    let without: Vec<&usize> = all.iter().filter(|member| world.wants(**member, lock)).collect();
    assert!(without.is_empty(), "seed {}: {without:?} never got {lock}", world.seed);
}
