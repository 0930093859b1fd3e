//! Faults of all kinds, one after another, as a seed has it; then fair weather.

use std::time::Duration;

use conclave_protocols::detection::{Stated, Threshold};
use conclave_protocols::member::Node;
use conclave_protocols::policy::{ElectionAlgorithm, Evidence, Policy, Timing};

use crate::kit::Command;
use crate::nodes::{Ask, Mood};
use crate::world::World;

/// What may happen.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Fault {
    Crash,
    Join,
    Leave,
    Drain,
    /// One is cut off from everything.
    Isolate,
    /// Two lose what they send to each other.
    Part,
    PartOneWay,
    /// Two are cut off from all others.
    Split,
    Freeze,
    Thaw,
    RegisterAway,
    RegisterAwayForOne,
    /// The register is away for longer than a view bears.
    LongOutage,
    RegisterUnsure,
    RegisterSlow,
    /// Somebody writes what is there already.
    RegisterTouched,
    /// The record is lost, and made anew.
    RegisterLost,
    /// The resource is edited.
    Edit,
    Heal,
    Exit,
    Enter,
}

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
    /// Whether the register loses its record.
    pub(crate) losses: bool,
    /// Whether many crash.
    pub(crate) deadly: bool,
    /// Whether members guess at random which others have crashed.
    pub(crate) guesses: bool,
}

impl Storm {
    pub(crate) fn of(members: usize, timing: Timing) -> Self {
        let policy = Policy { timing, ..Policy::default() };
        let pause = timing.leader_lease * 5 / 2;
        let (edits, losses, deadly, guesses) = (false, false, false, false);
        Self { members, policy, length: 60, pause, edits, losses, deadly, guesses }
    }

    /// One run. Every step is checked by the world; in the end somebody leads, everybody belongs to
    /// the group, and everybody gets every lock.
    pub(crate) fn run(&self, seed: u64, trace: bool) -> World {
        let mut world = World::new(seed, self.members, self.policy.clone());
        world.trace = trace;
        for _ in 0..self.length {
            self.something_happens(&mut world);
            if self.guesses {
                guess(&mut world);
            }
            let span = world.sim.random().below(self.pause);
            world.run_for(span);
            if self.policy.evidence == Evidence::ContainerStatus {
                world.bring_evidence();
            }
        }
        if trace {
            println!("{:?} FAIR WEATHER", world.sim.now());
        }
        world.heal();
        if self.guesses {
            for member in world.living().collect::<Vec<_>>() {
                world.command(member, Command::Detection(Stated::default()));
            }
        }
        clear_up(&mut world, &["a", "b", "c"]);
        world.check_history();
        world
    }

    fn something_happens(&self, world: &mut World) {
        let all = world.count() as u64;
        let one = usize::try_from(world.sim.random().up_to(all)).expect("small");
        let other = usize::try_from(world.sim.random().up_to(all)).expect("small");
        let lock = ["a", "b", "c"][usize::try_from(world.sim.random().up_to(3)).expect("small")];
        let fault = self.choose(world);
        *world.seen.faults.entry(fault).or_default() += 1;
        if world.trace {
            println!("{:?} {fault:?}: {one} {other} {lock}", world.sim.now());
        }
        self.inflict(world, fault, (one, other), lock);
    }

    fn choose(&self, world: &mut World) -> Fault {
        let living = world.living().count();
        match world.sim.random().up_to(40) {
            0 | 1 if living > 1 => Fault::Crash,
            2..=4 if living < self.members + 2 => Fault::Join,
            5 if living > 1 => Fault::Leave,
            6 => Fault::Drain,
            7 | 8 => Fault::Isolate,
            9 | 10 => Fault::Part,
            11 => Fault::PartOneWay,
            12 => Fault::Split,
            13 | 14 => Fault::Freeze,
            15 => Fault::Thaw,
            16 => Fault::RegisterAway,
            17 => Fault::RegisterAwayForOne,
            18 => Fault::LongOutage,
            19 => Fault::RegisterUnsure,
            20 => Fault::RegisterSlow,
            21 => Fault::RegisterTouched,
            22..=24 if self.deadly && living > 1 => Fault::Crash,
            22 if self.edits => Fault::Edit,
            23 if self.losses => Fault::RegisterLost,
            22..=25 => Fault::Heal,
            26..=28 => Fault::Exit,
            0..=5 | 29.. => Fault::Enter,
        }
    }

    fn inflict(&self, world: &mut World, fault: Fault, (one, other): (usize, usize), lock: &str) {
        match fault {
            Fault::Crash => world.crash(one),
            Fault::Join => {
                world.join();
            }
            Fault::Leave => world.leave(one),
            Fault::Drain => world.drain(one),
            Fault::Isolate => world.isolate(one),
            Fault::Part => world.part(world.node(one), world.node(other)),
            Fault::PartOneWay => world.sim.cut(world.node(one), world.node(other)),
            Fault::Split => world.split(&[one, other]),
            Fault::Freeze => world.freeze(one),
            Fault::Thaw => {
                world.thaw(one);
            }
            Fault::RegisterAway => world.cut_register(),
            Fault::RegisterAwayForOne => world.part(world.node(one), Node::Register),
            Fault::LongOutage => {
                world.cut_register();
                world.run_for(self.policy.timing.api_outage);
            }
            Fault::RegisterUnsure => unsure(world),
            Fault::RegisterSlow => slow(world),
            Fault::RegisterTouched => world.register(Ask::Touch),
            Fault::RegisterLost => world.register(Ask::Lose),
            Fault::Edit => self.edit(world),
            Fault::Heal => world.heal(),
            Fault::Exit => world.exit(one, lock),
            Fault::Enter => world.enter(one, lock),
        }
    }

    fn edit(&self, world: &mut World) {
        let mut policy = world.policy.clone();
        policy.generation += 1;
        let mut others = ElectionAlgorithm::ALL.to_vec();
        others.retain(|one| *one != policy.election);
        let other = usize::try_from(world.sim.random().up_to(others.len() as u64)).expect("small");
        policy.election = others[other];
        let factor = 1 + u32::try_from(world.sim.random().up_to(3)).expect("small");
        policy.timing.member_lease = self.policy.timing.member_lease * factor;
        policy.timing.leader_lease = self.policy.timing.leader_lease * factor.min(2);
        world.set_policy(&policy);
    }
}

fn unsure(world: &mut World) {
    let unsure = 1 + world.sim.random().up_to(4);
    world.register(Ask::Mood(Mood { unsure, ..Mood::default() }));
}

fn slow(world: &mut World) {
    let slow = Duration::from_millis(20 << world.sim.random().up_to(7));
    let unsure = world.sim.random().up_to(6);
    world.register(Ask::Mood(Mood { slow, unsure, ..Mood::default() }));
}

/// One member guesses by another timeout from now on: all that it hears are suspected at once, or some at random, as
/// the moments fall at which it is set.
fn guess(world: &mut World) {
    let all = world.count() as u64;
    let member = usize::try_from(world.sim.random().up_to(all)).expect("small");
    let timeout = match world.sim.random().up_to(3) {
        0 => None,
        1 => Some(Duration::ZERO),
        _ => Some(world.sim.random().below(Timing::default().leader_lease)),
    };
    let threshold = Threshold::new(u8::try_from(world.sim.random().up_to(20)).expect("small"));
    if world.member(member).is_some() {
        world.command(member, Command::Detection(Stated { timeout, threshold }));
    }
}

/// What must come true when nothing is wrong any more.
pub(crate) fn clear_up(world: &mut World, locks: &[&str]) {
    let timing = world.policy.timing;
    // What was promised during the storm runs out: a leader lease may be without its majority already.
    world.run_for(timing.leader_lease * 2);
    all_belong(world);
    for lock in locks {
        // What was lost in the storm stays closed for the delay of the lock, and that once. If the
        // policy has changed it since, that was one of less than a member lease.
        let delay = world.policy.delay(lock) + timing.member_lease;
        let patience = timing.member_lease * 4 + timing.leader_lease * 4 + delay;
        everybody_gets(world, lock, patience + world.forgotten);
    }
}

/// Waits until somebody leads, and all who live are in its view.
pub(crate) fn all_belong(world: &mut World) {
    let timing = world.policy.timing;
    // A record that was lost ends a leader lease only when nobody confirms it any more; then all wait
    // for as long again.
    let longest = world.longest.api_outage * 2 + timing.leader_lease * 12 + timing.member_lease * 4;
    let led = |world: &World| world.leader().is_some_and(|m| world.living().any(|l| l == m));
    world.run_until("one leads", longest, led);
    world.run_until("all belong", longest, |world| {
        let record = world.record();
        led(world)
            && world.living().all(|index| {
                record.rank(world.incarnation(index)).is_some()
                    && world.member(index).and_then(|m| m.record()).map(|r| r.epoch)
                        == Some(record.epoch)
            })
    });
}

/// The holder of a lock leaves it, and each that lives gets it once.
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

impl World {
    /// The kubelets' reports of those that crashed reach some of the living, now or later.
    pub(crate) fn bring_evidence(&mut self) {
        let dead: Vec<usize> = (0..self.count()).filter(|m| self.member(*m).is_none()).collect();
        for one in self.living().collect::<Vec<_>>() {
            for dead in &dead {
                if self.sim.random().once_in(2) {
                    let dead = self.incarnation(*dead);
                    self.command(one, Command::Evidence(dead));
                }
            }
        }
    }
}
