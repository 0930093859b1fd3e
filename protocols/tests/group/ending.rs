//! Whole groups that end in order, and those that come after them.

use std::time::Duration;

use conclave_protocols::policy::{LockAlgorithm, LockPolicy, Policy};
use conclave_protocols::random::Random;

use crate::nodes::{Ask, Mood};
use crate::weather::{seeds, wanted};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

/// From the start of the first of the next members to their leader, and to a lock that nobody held.
const SOON: Duration = Duration::from_secs(3);

/// How long a process lives that was instructed to leave: then Kubernetes ends it.
const GRACE: Duration = Duration::from_secs(10);

/// What happens to a group that ends, and when.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Step {
    /// An application gives back what nobody is to hold at the end.
    Exit(usize),
    Drain(usize),
    Leave(usize),
    /// The end of a process that has not left by then.
    Kill(usize),
    /// One of the next members starts.
    Start,
    /// All that is to happen has happened.
    Look,
}

/// How long it took the next members, from the start of the first.
#[derive(Clone, Copy, Debug, Default)]
struct Took {
    leader: Option<Duration>,
    free: Option<Duration>,
    held: Option<Duration>,
}

impl Took {
    fn note(&mut self, world: &World, next: &[usize], started: Duration) {
        let Some(first) = next.first() else { return };
        let since = world.sim.now().saturating_sub(started);
        let leads = world.leader().is_some();
        let holds = |lock| world.holder(lock) == Some(*first);
        for (what, is_so) in [
            (&mut self.leader, leads),
            (&mut self.free, holds("free")),
            (&mut self.held, holds("held")),
        ] {
            if is_so {
                what.get_or_insert(since);
            }
        }
    }

    fn is_late(&self) -> bool {
        [self.leader, self.free].iter().any(|took| took.is_none_or(|took| took > SOON))
            || self.held.is_none()
    }

    fn worst(self, other: Self) -> Self {
        let worst = |one: Option<Duration>, other: Option<Duration>| {
            one.and_then(|one| other.map(|other| one.max(other)))
        };
        Self {
            leader: worst(self.leader, other.leader),
            free: worst(self.free, other.free),
            held: worst(self.held, other.held),
        }
    }
}

/// When the next members start.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Next {
    /// While others of before still leave, as when pods are deleted.
    Meanwhile,
    /// Some seconds after the last has gone, as when a group is scaled to zero and back.
    Afterwards,
}

/// All members of a group leave within so long of each other, in any order, and others start.
fn ends(seed: u64, size: usize, within: Duration, next: Next, policy: &Policy) -> Took {
    let mut random = Random::new(seed ^ 0xe4d);
    let mut world = World::new(seed, size, policy.clone());
    world.trace = wanted().is_some();
    world.sim.set_delay(SECOND / 5000, Duration::from_millis(1 + random.up_to(20)));
    world.run_for(SECOND * 4);
    let slow = Duration::from_millis(5 + random.up_to(45));
    world.register(Ask::Mood(Mood { slow, ..Mood::default() }));
    // As two are: one lock is held to the end, one is given back at some time before.
    let any = |random: &mut Random| usize::try_from(random.up_to(size as u64)).expect("small");
    let (holder, user) = (any(&mut random), any(&mut random));
    world.enter(holder, "held");
    world.enter(user, "free");
    world.run_for(SECOND);
    assert_eq!((world.holder("held"), world.holder("free")), (Some(holder), Some(user)));

    let mut steps = Vec::new();
    let (mut given, mut last) = (Duration::ZERO, Duration::ZERO);
    for member in 0..size {
        let drain = random.below(within);
        let leave = drain + random.below(within.saturating_sub(drain));
        steps.push((drain, Step::Drain(member)));
        steps.push((leave, Step::Leave(member)));
        steps.push((leave + GRACE, Step::Kill(member)));
        if member == user {
            given = leave.saturating_sub(SECOND / 5);
            steps.push((given, Step::Exit(member)));
        }
        last = last.max(leave);
    }
    let start = match next {
        Next::Meanwhile => given.max(random.below(last)),
        Next::Afterwards => last + SECOND + random.below(SECOND * 4),
    };
    let turns = u32::try_from(size).expect("small");
    steps.extend((0..turns).map(|turn| (start + SECOND * turn / 10, Step::Start)));
    steps.push((start + policy.timing.member_lease * 2, Step::Look));
    steps.sort_unstable();
    play(&mut world, &steps)
}

fn play(world: &mut World, steps: &[(Duration, Step)]) -> Took {
    let begin = world.sim.now();
    let mut next = Vec::new();
    let (mut took, mut started) = (Took::default(), begin);
    for (at, step) in steps {
        while world.sim.now() < begin + *at {
            let rest = (begin + *at).saturating_sub(world.sim.now());
            world.run_for(rest.min(SECOND / 100));
            took.note(world, &next, started);
        }
        if world.trace {
            println!("{:?} {step:?}", world.sim.now());
        }
        match step {
            Step::Exit(member) => world.exit(*member, "free"),
            Step::Drain(member) => world.drain(*member),
            Step::Leave(member) => world.leave(*member),
            Step::Kill(member) => world.crash(*member),
            Step::Start => next.push(world.join()),
            // It is checked at each step that nobody is admitted before its lease is over.
            Step::Look => {}
        }
        if next.len() == 1 && matches!(step, Step::Start) {
            started = world.sim.now();
            world.enter(next[0], "free");
            world.enter(next[0], "held");
        }
    }
    world.check_history();
    took
}

fn policies() -> Vec<Policy> {
    let among = |algorithm| {
        let locks = vec![LockPolicy { algorithm, ..LockPolicy::default() }];
        Policy { locks, ..Policy::default() }
    };
    vec![Policy::default(), among(LockAlgorithm::RicartAgrawala), among(LockAlgorithm::TokenRing)]
}

/// However the members of a group end, all at once or one by one: the next need not wait.
#[test]
fn a_member_that_comes_after_a_group_that_ended_in_order_leads_and_grants_within_3_s() {
    let seeds = match wanted() {
        Some(seed) => seed..seed + 1,
        None => 0..seeds(20),
    };
    let mut late = Vec::new();
    for (kind, policy) in policies().iter().enumerate() {
        for size in [1, 2, 3, 5] {
            for within in [SECOND / 50, SECOND / 3, SECOND * 3] {
                for next in [Next::Meanwhile, Next::Afterwards] {
                    let at_once = Some(Duration::ZERO);
                    let mut worst = Took { leader: at_once, free: at_once, held: at_once };
                    for seed in seeds.clone() {
                        let took = ends(seed, size, within, next, policy);
                        if took.is_late() {
                            late.push((kind, size, within, next, seed, took));
                        }
                        worst = worst.worst(took);
                    }
                    println!("{size} within {within:?}, {next:?}, locks {kind}: {worst:?}");
                }
            }
        }
    }
    assert!(late.is_empty(), "{} late: {late:#?}", late.len());
}
