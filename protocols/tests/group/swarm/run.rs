//! One run: a calm beginning, faults among applications at work, fair weather, and the laws.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocols::member::StatusEpoch;
use conclave_protocols::policy::{Caching, LockAlgorithm};

use super::effect::Effect;
use super::kinds::Kind;
use super::plan::Plan;
use crate::nodes::Ask;
use crate::storm::{all_belong, clear_up};
use crate::world::World;

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) simulated: Duration,
    pub(crate) operations: usize,
    pub(crate) grants: u64,
    pub(crate) algorithms: BTreeMap<LockAlgorithm, u64>,
    pub(crate) refused: u64,
    /// How often each kind of fault had an effect.
    pub(crate) effects: BTreeMap<Kind, u64>,
    /// What happened besides.
    pub(crate) besides: BTreeMap<&'static str, u64>,
    /// Why the run shows nothing, if that is so.
    pub(crate) void: Option<String>,
}

/// A run under way.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) world: World,
    /// Faults whose effect is not known yet.
    pub(crate) open: Vec<(Kind, Effect)>,
    effects: BTreeMap<Kind, u64>,
    /// What the operator wrote into the status when it was looked at last.
    written: StatusEpoch,
}

impl Run {
    /// Everything, from beginning to end. It panics if a promise is broken.
    pub(crate) fn all(plan: Plan, trace: bool) -> Outcome {
        let (members, policy) = (plan.members, plan.policy.clone());
        let mut world = World::with_variety(plan.seed, members, policy, plan.drift, plan.variety);
        world.trace = trace;
        if plan.kinds.contains(&Kind::AllRestored) {
            world.register(Ask::Time);
        }
        let mut run = Self {
            plan,
            world,
            open: Vec::new(),
            effects: BTreeMap::new(),
            written: StatusEpoch::default(),
        };
        run.begin();
        let calm = run.world.seen.clone();
        for kind in run.plan.faults.clone() {
            run.fault(kind);
        }
        run.mend();
        run.try_again();
        run.wait_for_a_grant(calm.grants);
        let storm = run.world.seen.clone();
        run.end();
        run.world.check_history();
        let views = run.world.seen.views - calm.views;
        let void = run.void(calm.grants, storm.grants - calm.grants, views);
        Outcome {
            simulated: run.world.sim.now(),
            operations: run.world.history.len(),
            grants: run.world.seen.grants,
            algorithms: run.world.seen.algorithms.clone(),
            refused: run.world.seen.refused,
            effects: run.effects,
            besides: run.world.seen.besides,
            void,
        }
    }

    /// Why a run shows nothing: too little happened in it.
    fn void(&self, before: u64, since: u64, views: u64) -> Option<String> {
        let chosen: BTreeSet<Kind> = self.plan.kinds.iter().copied().collect();
        let effective: BTreeSet<Kind> = self.effects.keys().copied().collect();
        if before < 3 {
            Some("no work before the first fault".to_owned())
        } else if since == 0 {
            Some("no grant after a fault".to_owned())
        } else if views == 0 && chosen.iter().any(|kind| kind.changes_views()) {
            Some("no view change".to_owned())
        } else {
            let without = chosen.difference(&effective).next();
            without.map(|kind| format!("{kind:?} had no effect"))
        }
    }

    fn begin(&mut self) {
        all_belong(&mut self.world);
        if self.plan.kinds.contains(&Kind::ClocksRunWild) {
            self.took(Kind::ClocksRunWild);
        }
        let patience = self.plan.policy.timing.leader_lease * 40;
        let begin = self.world.sim.now();
        while self.world.seen.grants < 5 && self.world.sim.now() < begin + patience {
            self.live(self.plan.policy.timing.leader_lease);
        }
    }

    fn fault(&mut self, kind: Kind) {
        let before = self.world.sim.now();
        if self.world.trace {
            println!("{before:?} {kind:?}");
        }
        if self.plan.kinds.contains(&Kind::RestoredUnheard) {
            let latest = self.world.status_epoch();
            let status = std::mem::replace(&mut self.written, latest);
            self.world.tell_status(status);
        }
        let effect = self.inflict(kind);
        if self.world.trace {
            println!("{:?} {kind:?}: {effect:?}", self.world.sim.now());
        }
        match effect {
            Effect::Done => self.took(kind),
            Effect::Nothing => {}
            Effect::Lost(..) | Effect::Again(..) | Effect::Late(_) | Effect::Moody(_) => {
                self.open.push((kind, effect));
            }
        }
        self.live_for_a_while();
        if self.world.sim.random().once_in(self.plan.mends) {
            self.mend();
            self.live_for_a_while();
        }
    }

    /// Faults that came at a time when there was nothing to do them to.
    fn try_again(&mut self) {
        for _ in 0..5 {
            let had = |kind: &Kind| self.effects.contains_key(kind);
            let without: Vec<Kind> =
                self.plan.kinds.iter().copied().filter(|kind| !had(kind)).collect();
            for kind in without {
                self.fault(kind);
                self.mend();
            }
        }
    }

    /// Works on until somebody was granted something since the first fault.
    fn wait_for_a_grant(&mut self, before: u64) {
        let timing = self.plan.policy.timing;
        let longest = timing.api_outage * 2 + timing.member_lease * 4;
        let end = self.world.sim.now() + longest;
        while self.world.seen.grants == before && self.world.sim.now() < end {
            self.live(timing.leader_lease);
        }
    }

    pub(crate) fn took(&mut self, kind: Kind) {
        *self.effects.entry(kind).or_default() += 1;
    }

    /// Everything that can be mended is.
    pub(crate) fn mend(&mut self) {
        for (kind, effect) in std::mem::take(&mut self.open) {
            if self.had_effect(effect) {
                self.took(kind);
            }
        }
        self.world.heal();
    }

    fn live_for_a_while(&mut self) {
        let longest = self.plan.policy.timing.leader_lease * 5;
        let span = self.world.sim.random().below(longest);
        self.live(span);
    }

    /// Applications work: they take locks, write to what the locks protect, and give them back.
    pub(crate) fn live(&mut self, span: Duration) {
        let end = self.world.sim.now() + span;
        let pause = self.plan.policy.timing.leader_lease / self.plan.haste;
        while self.world.sim.now() < end {
            self.work();
            let rest = end.saturating_sub(self.world.sim.now());
            let span = self.world.sim.random().below(pause).min(rest);
            self.world.run_for(span.max(Duration::from_millis(1)));
        }
    }

    fn work(&mut self) {
        let member = self.any(self.world.count());
        let lock = self.any_lock();
        match self.world.sim.random().up_to(4) {
            0 => self.world.write(member, lock),
            1 if self.world.holders(lock).contains(&member) => self.give_back(member, lock),
            // Some give up.
            2 if self.world.sim.random().once_in(20) => self.world.exit(member, lock),
            _ => self.world.enter(member, lock),
        }
    }

    /// A member that may enter again without asking often does so at once, a few times.
    fn give_back(&mut self, member: usize, lock: &str) {
        if self.plan.turn > 1 {
            self.pass_on(member, lock);
        }
        self.world.exit(member, lock);
        let policy = self.world.policy.for_lock(lock);
        if policy.is_none_or(|policy| policy.caching == Caching::Disabled) {
            return;
        }
        for _ in 0..self.any(8) {
            self.world.enter(member, lock);
            if !self.world.holders(lock).contains(&member) {
                return;
            }
            self.world.write(member, lock);
            self.world.exit(member, lock);
        }
    }

    /// Some others of its pod take their turn.
    fn pass_on(&mut self, member: usize, lock: &str) {
        for _ in 0..self.any(self.plan.turn) {
            self.world.pass(member, lock);
            if !self.world.holders(lock).contains(&member) {
                return;
            }
            self.live_a_little();
            self.world.write(member, lock);
        }
    }

    fn live_a_little(&mut self) {
        if self.world.sim.random().once_in(4) {
            let pause = self.plan.policy.timing.leader_lease / self.plan.haste;
            let span = self.world.sim.random().below(pause);
            self.world.run_for(span);
        }
    }

    pub(crate) fn any_lock(&mut self) -> &'static str {
        let place = self.any(self.plan.locks.len());
        self.plan.locks[place]
    }

    /// One of so many.
    pub(crate) fn any(&mut self, count: usize) -> usize {
        usize::try_from(self.world.sim.random().up_to(count as u64)).expect("small")
    }

    /// Nothing is wrong any more: somebody leads, all belong to the group, everybody gets every lock.
    fn end(&mut self) {
        if self.world.trace {
            println!("{:?} FAIR WEATHER", self.world.sim.now());
        }
        while self.world.living().count() < self.plan.members.min(2) {
            self.world.join();
        }
        clear_up(&mut self.world, &self.plan.locks);
        for lock in self.plan.locks.clone() {
            for member in 0..self.world.count() {
                self.world.write(member, lock);
            }
        }
    }
}
