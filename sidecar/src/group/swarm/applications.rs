//! What applications do with their claims.

use std::time::Duration;

use super::pod::{Limits, Number};
use super::run::Run;
use super::world::State;

/// Claims that applications of one pod have open at most.
const OPEN: usize = 6;

impl Run {
    /// Applications work for so long.
    pub(super) fn live(&mut self, span: Duration) {
        let end = self.world.sim.now() + span;
        let pause = self.world.policy.timing.leader_lease / 4;
        while self.world.sim.now() < end {
            self.work();
            let rest = end.saturating_sub(self.world.sim.now());
            let span = self.world.sim.random().below(pause).min(rest);
            self.world.run_for(span.max(Duration::from_millis(1)));
        }
    }

    fn work(&mut self) {
        if self.election.is_some() && self.world.any(4) == 0 {
            return self.campaign();
        }
        match self.world.sim.random().up_to(10) {
            0..=3 => self.ask(),
            4 | 5 => self.with(&[State::Held], |run, number| run.world.release(number)),
            6 => self.with(&[State::Held, State::Ended], |run, number| run.world.renew(number)),
            7 => {
                let states = [State::Held, State::Ended, State::Left];
                self.with(&states, |run, number| run.world.write(number));
            }
            8 if self.world.sim.random().once_in(4) => {
                self.with(&[State::Waiting], |run, number| run.world.hang_up(number));
            }
            8 => self.with(&[State::Waiting], |run, number| run.world.release(number)),
            _ => self.with(&[State::Held], |run, number| run.world.renew(number)),
        }
    }

    fn ask(&mut self) {
        let pod = self.world.any(self.world.pods.len());
        let open = |state| matches!(state, State::Waiting | State::Held);
        let mine = self.world.claims.values().filter(|claim| claim.pod == pod && open(claim.state));
        if self.world.pod(pod).is_none() || mine.count() >= OPEN {
            return;
        }
        let lock = LOCKS[self.world.any(self.locks)];
        let timing = self.world.policy.timing;
        let wait = match self.world.any(4) {
            0 => Some(Duration::ZERO),
            1 => Some(self.world.sim.random().below(timing.member_lease)),
            _ => None,
        };
        let longest = timing.member_lease * 4;
        let max_hold = timing.leader_lease + self.world.sim.random().below(longest);
        let ttl = (self.world.any(3) == 0)
            .then(|| timing.leader_lease / 2 + self.world.sim.random().below(timing.member_lease));
        let named = self.world.any(2) == 0;
        self.world.ask(pod, lock, named, Limits { wait, max_hold }, ttl);
    }

    /// Does something with a claim in one of these states, if there is one; mostly a late one.
    fn with(&mut self, states: &[State], act: impl Fn(&mut Self, Number)) {
        let latest = self.world.claims.iter().rev().take(60);
        let all: Vec<Number> = latest
            .filter(|(_, claim)| states.contains(&claim.state))
            .map(|(number, _)| *number)
            .collect();
        if !all.is_empty() {
            let number = all[self.world.any(all.len())];
            act(self, number);
        }
    }
}

pub(super) const LOCKS: [&str; 3] = ["a", "b", "c"];
