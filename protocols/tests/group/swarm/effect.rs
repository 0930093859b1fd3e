//! What faults do, and how it is known that they did something.

use std::time::Duration;

use conclave_protocols::member::{Node, StatusEpoch};
use conclave_protocols::policy::{ElectionAlgorithm, LockPolicy};

use super::plan::{TOPOLOGIES, any_lock, delay_some};
use conclave_protocols::record::Record;

use super::kinds::Kind;
use super::run::Run;
use crate::kit::Command;
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
    /// If these links repeat more messages than that.
    Again(Vec<(Node, Node)>, u64),
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
                | Self::LeaveAll
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
            Kind::FreezeShort => self.freeze(Some(one), timing.leader_lease / 3),
            Kind::FreezeLong => self.freeze(Some(one), timing.member_lease * 5 / 4),
            Kind::FreezeLeader => self.freeze(self.world.leader(), timing.leader_lease * 2),
            Kind::FreezeHolder => {
                let lock = self.any_lock();
                self.freeze(self.world.holder(lock), timing.member_lease * 5 / 4)
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
                self.live(timing.api_outage + timing.leader_lease * 6);
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
            Kind::RegisterRestored => {
                self.restore(|_| true, true).map_or(Effect::Nothing, |_| Effect::Done)
            }
            Kind::AllRestored => self.restore_all(),
            Kind::RestoredUnheard => {
                self.gather();
                self.restore_unheard()
            }
            Kind::Edit => self.edit(),
            Kind::LeaveAll => self.leave_all(),
            Kind::LeaveHeldUp => {
                self.gather();
                self.leave_held_up()
            }
            Kind::LeaveUnheard => {
                self.gather();
                self.leave_unheard()
            }
            Kind::Resign => self.resign(),
            Kind::CutGroups => {
                self.gather();
                self.cut_groups()
            }
            Kind::Repeat => {
                self.gather();
                self.repeat()
            }
            Kind::RegisterLate => self.late_answers(),
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
            Effect::Again(links, before) => self.repeated(&links) > before,
            Effect::Late(links) => {
                let kept = links.into_iter().map(|(from, to)| self.world.sim.let_go(from, to));
                kept.sum::<usize>() > 0
            }
            Effect::Moody(before) => self.moody() > before,
        }
    }

    /// Two that live, or one twice. One in two times the leader is among them: others send little
    /// to each other.
    pub(super) fn any_two(&mut self) -> (usize, usize) {
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
            Some(Place::Member(..)) | None => 0,
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

    /// There are two at least, and time for one of them to lead.
    pub(super) fn gather(&mut self) {
        while self.world.living().count() < 2 {
            self.world.join();
        }
        let leader_lease = self.plan.policy.timing.leader_lease;
        let is_led = |run: &Self| run.world.leader().is_some_and(|leader| run.lives(leader));
        for _ in 0..8 {
            if !is_led(self) {
                self.live(leader_lease);
            }
        }
    }

    /// All leave in order. Others come a while later.
    fn leave_all(&mut self) -> Effect {
        let pause = self.plan.policy.timing.leader_lease * [0, 1, 4][self.any(3)] / 4;
        let all: Vec<usize> = self.world.living().collect();
        for member in all.clone() {
            self.world.leave(member);
            let span = self.world.sim.random().below(pause);
            self.world.run_for(span);
        }
        let span = self.world.sim.random().below(self.plan.policy.timing.leader_lease * 4);
        self.live(span);
        let are_gone = all.iter().all(|member| self.world.seen.gone.contains(member));
        for _ in 0..self.plan.members {
            self.world.join();
        }
        if are_gone { Effect::Done } else { Effect::Nothing }
    }

    /// What others send to the leader comes late, so that its promises nearly run out, or do. It is
    /// instructed to end meanwhile, and their promises arrive while it does.
    fn leave_held_up(&mut self) -> Effect {
        let Some(leader) = self.world.leader().filter(|leader| self.lives(*leader)) else {
            return Effect::Nothing;
        };
        let to = self.world.node(leader);
        let others = self.world.living().filter(|member| *member != leader);
        let others: Vec<Node> = others.map(|member| self.world.node(member)).collect();
        for from in &others {
            self.world.sim.hold_back(*from, to);
        }
        let promised = self.world.policy.timing.leader_lease;
        let span = promised / 2 + self.world.sim.random().below(promised);
        self.live(span);
        let is_held_up = self.any(2) == 0;
        if is_held_up {
            self.world.freeze(leader);
            let span = self.world.sim.random().below(promised / 4);
            self.live(span);
        }
        self.world.leave(leader);
        let span = self.world.sim.random().below(Duration::from_millis(5));
        let pauses = if is_held_up { [Duration::ZERO, span] } else { [span, Duration::ZERO] };
        self.world.run_for(pauses[0]);
        let arrives = !self.world.seen.gone.contains(&leader);
        let kept: usize = others.into_iter().map(|from| self.world.sim.let_go(from, to)).sum();
        self.world.run_for(pauses[1]);
        self.world.thaw(leader);
        if arrives && kept > 0 { Effect::Done } else { Effect::Nothing }
    }

    /// What the leader sends is lost. It is instructed to end before it knows, so that its successor learns of nothing.
    fn leave_unheard(&mut self) -> Effect {
        let Some(leader) = self.world.leader().filter(|leader| self.lives(*leader)) else {
            return Effect::Nothing;
        };
        let all: Vec<usize> = self.world.living().filter(|member| *member != leader).collect();
        let effect = self.cut(&[leader], &all, false);
        let timing = self.world.policy.timing;
        let span = self.world.sim.random().below(timing.leader_lease / 2);
        self.live(span);
        if self.any(2) == 0 {
            self.cut_register(&[leader]);
            self.world.leave(leader);
        } else {
            self.world.drain(leader);
        }
        self.live(timing.leader_lease * 3);
        effect
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
        let longest = self.plan.policy.timing.member_lease * 2;
        let span = self.world.sim.random().below(longest);
        self.live(span);
        if self.world.thaw(member) { Effect::Done } else { Effect::Nothing }
    }

    fn jump(&mut self, member: usize) -> Effect {
        if !self.lives(member) {
            return Effect::Nothing;
        }
        let longest = self.plan.policy.timing.member_lease * 2;
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

    /// Answers come late, while everybody asks now and then.
    fn late_answers(&mut self) -> Effect {
        let leader_lease = self.plan.policy.timing.leader_lease;
        let most = leader_lease * (1 + u32::try_from(self.any(3)).expect("small"));
        let late = (1 + self.world.sim.random().up_to(3), most);
        let effect = self.mood(Mood { late, ..Mood::default() });
        for _ in 0..3 {
            for member in self.world.living().collect::<Vec<_>>() {
                self.world.command(member, Command::Look);
            }
            self.live(leader_lease / 2);
        }
        effect
    }

    /// The register is brought back from a backup. Only if its waits were no longer than those of the
    /// backup: nothing else reports them (`found.rs`, what is ignored). All who live know of the view that
    /// is forgotten by that, as those who start later do: by the resource's status, or, should that be
    /// brought back too, because they were in it.
    fn restore(&mut self, may: impl Fn(&Record) -> bool, all: bool) -> Option<Record> {
        let least = 1 + self.any(4);
        let latest = self.world.record();
        let (epoch, waits) = (latest.epoch, latest.timing);
        let fits = |record: &&Record| record.timing.longest(waits) == record.timing && may(record);
        let Some(Place::Register(register)) = self.world.sim.node(Node::Register) else {
            return None;
        };
        let backup = |ago| Some((ago, register.backup(ago).filter(fits)?.clone()));
        let (ago, record) = (least..least + 8).find_map(backup)?;
        let knows = |member| {
            let record = self.world.member(member).and_then(|member| member.record());
            record.is_some_and(|record| record.epoch >= epoch)
        };
        if !self.world.living().all(knows) {
            if all {
                return None;
            }
            let status = self.world.status_epoch();
            self.world.tell_status(status);
        }
        self.world.register(Ask::Restore(ago));
        let longest = self.world.longest;
        self.world.forgotten = longest.api_outage + longest.leader_lease + longest.member_lease;
        Some(record)
    }

    fn restore_unheard(&mut self) -> Effect {
        let living: Vec<usize> = self.world.living().collect();
        let leader = self.world.leader();
        let Some(one) = living.iter().copied().find(|member| Some(*member) != leader) else {
            return Effect::Nothing;
        };
        let joiner = self.world.join();
        let others: Vec<usize> =
            living.into_iter().chain([joiner]).filter(|other| *other != one).collect();
        self.cut(&[one], &others, true);
        self.live(self.plan.policy.timing.leader_lease / 2);
        self.restore(|_| true, false).map_or(Effect::Nothing, |_| Effect::Done)
    }

    /// With the status of the resource, so that a member that starts later knows of nothing that came after
    /// the backup. Not to when the group was closed: there no wait would be left (`guarantees.md`).
    fn restore_all(&mut self) -> Effect {
        let Some(record) = self.restore(|record| record.leader.is_some(), true) else {
            return Effect::Nothing;
        };
        self.world.status = StatusEpoch { epoch: record.epoch, ceiling: record.ceiling };
        let one = self.world.join();
        // One in two reaches none of those who know better.
        if self.any(2) == 0 {
            let others: Vec<usize> = self.world.living().filter(|other| *other != one).collect();
            self.cut(&[one], &others, true);
        }
        Effect::Done
    }

    pub(super) fn edit(&mut self) -> Effect {
        let mut policy = self.world.policy.clone();
        policy.generation += 1;
        let mut others = ElectionAlgorithm::ALL.to_vec();
        others.retain(|one| *one != policy.election);
        policy.election = others[self.any(others.len())];
        policy.topology = TOPOLOGIES[usize::from(policy.topology == TOPOLOGIES[0])];
        let factor = 1 + u32::try_from(self.any(3)).expect("small");
        policy.timing.member_lease = self.plan.policy.timing.member_lease * factor;
        policy.timing.leader_lease = self.plan.policy.timing.leader_lease * factor.min(2);
        for lock in &mut policy.locks {
            let any = any_lock(&lock.names, self.world.sim.random());
            *lock = LockPolicy { lock_delay: lock.lock_delay, ..any };
        }
        if self.plan.wide {
            let base = self.plan.policy.timing;
            policy.timing.heartbeat = base.heartbeat / [1, 2][self.any(2)];
            policy.timing.api_outage = base.api_outage * [1, 2][self.any(2)];
            delay_some(&mut policy, self.world.sim.random());
        }
        self.world.set_policy(&policy);
        Effect::Done
    }
}
