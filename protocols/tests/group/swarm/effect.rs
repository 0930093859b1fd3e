//! What faults do, and how it is known that they did something.

use std::time::Duration;

use conclave_protocols::member::Node;
use conclave_protocols::policy::{ElectionAlgorithm, LockPolicy};

use super::plan::any_lock;
use conclave_protocols::record::Record;

use super::kinds::Kind;
use super::run::Run;
use crate::nodes::{Ask, Mood, Place};

/// How it will be known whether a fault had an effect.
#[derive(Debug)]
pub(crate) enum Effect {
    /// It had.
    Done,
    /// There was nothing to do it to.
    Nothing,
    /// If these links lose more messages than that.
    Lost(Vec<(Node, Node)>, u64),
    /// If these links keep messages back.
    Late(Vec<(Node, Node)>),
    /// If the register is moody more often than that.
    Moody(u64),
}

impl Kind {
    /// Whether a view change must follow.
    pub(crate) fn changes_views(self) -> bool {
        matches!(
            self,
            Self::KillLeader
                | Self::KillAll
                | Self::Restart
                | Self::Join
                | Self::IsolateLeader
                | Self::FreezeLeader
                | Self::RegisterLongAway
                | Self::RegisterForOneOnly
                | Self::Edit
        )
    }
}

impl Run {
    pub(crate) fn inflict(&mut self, kind: Kind) -> Effect {
        let (one, other) = self.any_two();
        let timing = self.plan.policy.timing;
        match kind {
            Kind::Crash => self.kill(Some(one)),
            Kind::KillLeader => self.kill(self.world.leader()),
            Kind::KillHolder => {
                let lock = self.any_lock();
                self.kill(self.world.holder(lock))
            }
            Kind::Restart => self.restart(one),
            Kind::KillAll => self.kill_all(),
            Kind::Join => self.join(),
            Kind::Leave => self.leave(one),
            Kind::Drain => self.drain(one),
            Kind::CutPair => self.cut(&[one], &[other], true),
            Kind::CutOneWay => self.cut(&[one], &[other], false),
            Kind::Isolate => self.isolate(Some(one)),
            Kind::IsolateLeader => self.isolate(self.world.leader()),
            Kind::Split => self.split(),
            Kind::SplitLeaderOff => self.split_leader_off(),
            Kind::Swizzle => self.swizzle(),
            Kind::BreakSession => self.break_sessions(one),
            Kind::HoldBack => self.hold_back(one, &[self.world.node(other)]),
            Kind::HoldBackOne => self.hold_back(one, &self.everything()),
            Kind::SlowLinks => self.slow_links(one),
            Kind::FreezeShort => self.freeze(Some(one), timing.office_wait / 3),
            Kind::FreezeLong => self.freeze(Some(one), timing.lock_wait * 5 / 4),
            Kind::FreezeLeader => self.freeze(self.world.leader(), timing.office_wait * 2),
            Kind::FreezeHolder => {
                let lock = self.any_lock();
                self.freeze(self.world.holder(lock), timing.lock_wait * 5 / 4)
            }
            Kind::RegisterAway => self.cut_register(&(0..self.world.count()).collect::<Vec<_>>()),
            Kind::RegisterAwayForOne => self.cut_register(&[one]),
            Kind::RegisterLongAway => {
                let effect = self.cut_register(&(0..self.world.count()).collect::<Vec<_>>());
                self.live(timing.api_outage);
                effect
            }
            Kind::RegisterForOneOnly => {
                let others: Vec<usize> =
                    self.world.living().filter(|member| *member != one).collect();
                self.cut(&[one], &others, true);
                let effect = self.cut_register(&others);
                self.live(timing.api_outage + timing.office_wait * 6);
                effect
            }
            Kind::RegisterUnsure => {
                let unsure = 1 + self.world.sim.random().up_to(4);
                self.mood(Mood { unsure, ..Mood::default() })
            }
            Kind::RegisterRefuses => {
                let refuses = 1 + self.world.sim.random().up_to(4);
                self.mood(Mood { refuses, ..Mood::default() })
            }
            Kind::RegisterSlow => {
                let slow = Duration::from_millis(20 << self.world.sim.random().up_to(7));
                self.mood(Mood { slow, ..Mood::default() })
            }
            Kind::RegisterTouched => {
                self.world.register(Ask::Touch);
                Effect::Done
            }
            Kind::RegisterLost => {
                self.world.register(Ask::Lose);
                Effect::Done
            }
            Kind::RegisterRestored => self.restore(),
            Kind::Edit => self.edit(),
            Kind::ClockStands => self.stop_clock(one),
            Kind::ClockJumps => self.jump(one),
            Kind::ClocksRunWild => Effect::Done,
        }
    }

    pub(crate) fn had_effect(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::Done => true,
            Effect::Nothing => false,
            Effect::Lost(links, before) => self.lost(&links) > before,
            Effect::Late(links) => {
                let kept = links.into_iter().map(|(from, to)| self.world.sim.let_go(from, to));
                kept.sum::<usize>() > 0
            }
            Effect::Moody(before) => self.moody() > before,
        }
    }

    /// Two that live, or one twice. One in two times the leader is among them: others say little to
    /// each other.
    fn any_two(&mut self) -> (usize, usize) {
        let mut living: Vec<usize> = self.world.living().collect();
        if living.is_empty() {
            living.push(self.world.join());
        }
        let one = living.remove(self.any(living.len()));
        let other = if living.is_empty() { one } else { living[self.any(living.len())] };
        let leader = self.world.leader().filter(|leader| living.contains(leader));
        let other = leader.filter(|_| self.any(2) == 0).unwrap_or(other);
        (one, other)
    }

    pub(super) fn lives(&self, member: usize) -> bool {
        self.world.living().any(|living| living == member)
    }

    pub(super) fn lost(&self, links: &[(Node, Node)]) -> u64 {
        links.iter().map(|(from, to)| self.world.sim.lost(*from, *to)).sum()
    }

    fn moody(&self) -> u64 {
        match self.world.sim.node(Node::Register) {
            Some(Place::Register(register)) => register.moody,
            Some(Place::Member(_)) | None => 0,
        }
    }

    /// All members there ever were, and the register.
    pub(super) fn everything(&self) -> Vec<Node> {
        let members = (0..self.world.count()).map(|member| self.world.node(member));
        members.chain([Node::Register]).collect()
    }

    // ----- members

    fn kill(&mut self, member: Option<usize>) -> Effect {
        match member.filter(|member| self.lives(*member)) {
            Some(member) => {
                self.world.crash(member);
                // Somebody must be there for whatever comes next.
                if self.world.living().count() < self.plan.members.min(2) {
                    self.world.join();
                }
                Effect::Done
            }
            None => Effect::Nothing,
        }
    }

    fn restart(&mut self, member: usize) -> Effect {
        if !self.lives(member) {
            return Effect::Nothing;
        }
        self.world.restart(member);
        Effect::Done
    }

    fn kill_all(&mut self) -> Effect {
        let all: Vec<usize> = self.world.living().collect();
        for member in &all {
            self.world.restart(*member);
        }
        Effect::Done
    }

    fn join(&mut self) -> Effect {
        if self.world.living().count() > self.plan.members + 1 {
            return Effect::Nothing;
        }
        self.world.join();
        Effect::Done
    }

    fn leave(&mut self, member: usize) -> Effect {
        if !self.lives(member) || self.world.living().count() < 2 {
            return Effect::Nothing;
        }
        self.world.leave(member);
        Effect::Done
    }

    fn drain(&mut self, member: usize) -> Effect {
        if !self.lives(member) {
            return Effect::Nothing;
        }
        self.world.drain(member);
        Effect::Done
    }

    fn freeze(&mut self, member: Option<usize>, span: Duration) -> Effect {
        let Some(member) = member.filter(|member| self.lives(*member)) else {
            return Effect::Nothing;
        };
        self.world.freeze(member);
        self.live(span);
        if self.world.thaw(member) { Effect::Done } else { Effect::Nothing }
    }

    fn stop_clock(&mut self, member: usize) -> Effect {
        if !self.lives(member) {
            return Effect::Nothing;
        }
        self.world.freeze_with_clock(member);
        let longest = self.plan.policy.timing.lock_wait * 2;
        let span = self.world.sim.random().below(longest);
        self.live(span);
        if self.world.thaw(member) { Effect::Done } else { Effect::Nothing }
    }

    fn jump(&mut self, member: usize) -> Effect {
        if !self.lives(member) {
            return Effect::Nothing;
        }
        let longest = self.plan.policy.timing.lock_wait * 2;
        let by = self.world.sim.random().below(longest);
        self.world.step_clock(member, by);
        Effect::Done
    }

    // ----- the register and the resource

    fn mood(&mut self, mood: Mood) -> Effect {
        let before = self.moody();
        self.world.register(Ask::Mood(mood));
        Effect::Moody(before)
    }

    /// The register is brought back from a backup. Only if all who live know of the view that is
    /// forgotten by that, as those who start later do by the resource's status, and if its waits were
    /// no longer than those of the backup: nothing else tells of them (`found.rs`, what is ignored).
    fn restore(&mut self) -> Effect {
        let least = 1 + self.any(4);
        let latest = self.world.record();
        let (epoch, waits) = (latest.epoch, latest.timing);
        let fits = |record: &Record| record.timing.longest(waits) == record.timing;
        let ago = match self.world.sim.node(Node::Register) {
            Some(Place::Register(register)) => {
                (least..least + 8).find(|ago| register.backup(*ago).is_some_and(fits))
            }
            Some(Place::Member(_)) | None => None,
        };
        let knows = |member| {
            let record = self.world.member(member).and_then(|member| member.record());
            record.is_some_and(|record| record.epoch >= epoch)
        };
        let Some(ago) = ago.filter(|_| self.world.living().all(knows)) else {
            return Effect::Nothing;
        };
        self.world.register(Ask::Restore(ago));
        Effect::Done
    }

    fn edit(&mut self) -> Effect {
        let mut policy = self.world.policy.clone();
        policy.generation += 1;
        policy.election = match policy.election {
            ElectionAlgorithm::Bully => ElectionAlgorithm::Ring,
            ElectionAlgorithm::Ring => ElectionAlgorithm::Bully,
        };
        let factor = 1 + u32::try_from(self.any(3)).expect("small");
        policy.timing.lock_wait = self.plan.policy.timing.lock_wait * factor;
        policy.timing.office_wait = self.plan.policy.timing.office_wait * factor.min(2);
        for lock in &mut policy.locks {
            let any = any_lock(&lock.names, self.world.sim.random());
            *lock = LockPolicy { lock_delay: lock.lock_delay, ..any };
        }
        self.world.set_policy(&policy);
        Effect::Done
    }
}
