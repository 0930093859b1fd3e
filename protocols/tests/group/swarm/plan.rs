//! What a seed draws before its run begins.

use std::time::Duration;

use conclave_protocols::policy::{
    Caching, ElectionAlgorithm, LockAlgorithm, LockPolicy, Policy, SuperpeersPolicy, Timing,
    Topology,
};
use conclave_protocols::random::Random;

use super::kinds::Kind;
use crate::weather::BRIEF;
use crate::world::{DRIFT, Variety};

/// An edit takes the other one.
pub(crate) const TOPOLOGIES: [Topology; 2] = [Topology::FullMesh, Topology::Zones];

/// A run, as its seed has it. Most runs have few kinds of faults: many at once hide what a few would
/// show (Groce and others, *Swarm Testing*, ISSTA 2012).
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) members: usize,
    pub(crate) policy: Policy,
    pub(crate) locks: Vec<&'static str>,
    pub(crate) kinds: Vec<Kind>,
    /// The faults, one after another.
    pub(crate) faults: Vec<Kind>,
    /// Faults are mended after one in so many.
    pub(crate) mends: u64,
    /// Applications do something once in so many parts of a leader lease.
    pub(crate) haste: u32,
    /// How far the rates of clocks are off.
    pub(crate) drift: i32,
    pub(crate) variety: Variety,
    /// Edits change every wait, and locks are closed for a while after they were lost.
    pub(crate) wide: bool,
    /// How many applications of a member at most take a lock in one turn.
    pub(crate) turn: usize,
}

impl Plan {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x05ee_d000_5aa7_4d11);
        let mut up_to = |limit: u64| usize::try_from(random.up_to(limit)).expect("small");
        let timing = [Timing::default(), Timing::FAST, BRIEF, BRIEF][up_to(4)];
        let election = ElectionAlgorithm::ALL[up_to(ElectionAlgorithm::ALL.len() as u64)];
        // Several coordinators in a small group.
        let superpeers = SuperpeersPolicy { share_percent: 50 };
        let topology = TOPOLOGIES[usize::from(seed.is_multiple_of(2))];
        let policy = Policy { timing, election, superpeers, topology, ..Policy::default() };
        let mut plan = Self {
            seed,
            members: 1 + up_to(5),
            policy,
            locks: vec!["a", "b", "c", "d"],
            kinds: Vec::new(),
            faults: Vec::new(),
            mends: 1 + up_to(3) as u64,
            haste: 2 + u32::try_from(up_to(8)).expect("small"),
            drift: DRIFT,
            variety: Variety::default(),
            wide: false,
            turn: 1,
        };
        plan.locks.truncate(1 + up_to(4));
        // One run in eight is beyond what clocks are trusted for.
        let beyond = up_to(8) == 0;
        if beyond {
            plan.kinds.push(Kind::BEYOND[up_to(3)]);
        }
        let count = plan.kinds.len() + 1 + up_to(6);
        while plan.kinds.len() < count {
            let kind = Kind::WITHIN[up_to(Kind::WITHIN.len() as u64)];
            if kind.fits(&plan) && !plan.kinds.contains(&kind) {
                plan.kinds.push(kind);
            }
        }
        if plan.kinds.contains(&Kind::ClocksRunWild) {
            plan.drift = 250_000;
        }
        let length = 8 + up_to(25);
        plan.faults = plan.kinds.clone();
        while plan.faults.len() < length.max(plan.kinds.len() * 2) {
            plan.faults.push(plan.kinds[up_to(plan.kinds.len() as u64)]);
        }
        for place in (1..plan.faults.len()).rev() {
            plan.faults.swap(place, up_to(place as u64 + 1));
        }
        plan
    }

    /// The same, with locks of any algorithms: one for all, or one of its own for the first.
    pub(crate) fn any_algorithm(seed: u64) -> Self {
        let mut plan = Self::draw(seed);
        let mut random = Random::new(seed ^ 0x0a16_0217_0035_c4b1);
        plan.policy.locks = vec![any_lock(&["*".to_owned()], &mut random)];
        if random.once_in(3) {
            plan.policy.locks.push(any_lock(&["a".to_owned()], &mut random));
        }
        let mut random = Random::new(seed ^ 0x00de_1a95_3b1c_77e2);
        let member_lease = plan.policy.timing.member_lease;
        let lock_delay = match random.up_to(6) {
            0 => member_lease * 2,
            1 => member_lease / 2,
            _ => Duration::ZERO,
        };
        for lock in &mut plan.policy.locks {
            lock.lock_delay = lock_delay;
        }
        plan
    }

    /// The same, with what differs among members, and more kinds of faults.
    pub(crate) fn any(seed: u64) -> Self {
        let mut plan = Self::any_algorithm(seed);
        let mut random = Random::new(seed ^ 0x6e0a_7e5e_ed50_0c13);
        plan.wide = random.once_in(2);
        plan.variety = Variety {
            priorities: random.once_in(3),
            corners: plan.drift == DRIFT && random.once_in(3),
            orders: !random.once_in(4),
        };
        if plan.wide {
            delay_some(&mut plan.policy, &mut random);
        }
        let count = random.up_to(4);
        plan.add(&Kind::MORE, count, &mut random);
        let mut random = Random::new(seed ^ 0x7c0b_5f21_99d3_48ea);
        let count = u64::from(random.once_in(12));
        plan.add(&Kind::LATER, count, &mut random);
        plan
    }

    /// The same; in some runs leaders resign.
    pub(crate) fn with_resignations(seed: u64) -> Self {
        let mut plan = Self::any(seed);
        let mut random = Random::new(seed ^ 0x2e51_6a90_77b4_0d3f);
        let count = u64::from(random.once_in(6));
        plan.add(&Kind::LATEST, count, &mut random);
        plan
    }

    /// The same; in some runs several applications of a member take a lock in one turn.
    pub(crate) fn in_turns(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x7042_5a90_c1d3_11e6);
        let turn = [1, 2, 5][usize::try_from(random.up_to(3)).expect("small")];
        Self { turn, ..Self::with_resignations(seed) }
    }

    /// Some of these kinds, each a few times at any place among the others.
    fn add(&mut self, kinds: &[Kind], count: u64, random: &mut Random) {
        let mut up_to = |limit: usize| usize::try_from(random.up_to(limit as u64)).expect("small");
        for _ in 0..count {
            let kind = kinds[up_to(kinds.len())];
            if kind.fits(self) && !self.kinds.contains(&kind) {
                self.kinds.push(kind);
                for _ in 0..2 + up_to(3) {
                    self.faults.insert(up_to(self.faults.len() + 1), kind);
                }
            }
        }
    }
}

/// Some locks are closed for a while after they were lost.
pub(crate) fn delay_some(policy: &mut Policy, random: &mut Random) {
    let longest = policy.timing.member_lease;
    for lock in &mut policy.locks {
        let is_delayed = random.once_in(2);
        lock.lock_delay = if is_delayed { random.below(longest) } else { Duration::ZERO };
    }
}

/// Locks of these names by any algorithm, with what admits members kept or not, if it may be.
pub(crate) fn any_lock(names: &[String], random: &mut Random) -> LockPolicy {
    let algorithm = any_algorithm(random);
    let cached = algorithm.may_cache() && random.once_in(2);
    let caching = if cached { Caching::Enabled } else { Caching::Disabled };
    LockPolicy { names: names.to_vec(), algorithm, caching, ..LockPolicy::default() }
}

/// One of all; more often than others that which the leader grants.
fn any_algorithm(random: &mut Random) -> LockAlgorithm {
    let place = usize::try_from(random.up_to(9)).expect("small");
    LockAlgorithm::ALL.get(place).copied().unwrap_or(LockAlgorithm::Central)
}
