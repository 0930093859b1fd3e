//! Leaders that are to give the lead up and stay.

use super::effect::Effect;
use super::run::Run;

impl Run {
    /// The leader resigns, perhaps in favour of one that is named, or somebody asks for a transfer to that one.
    pub(super) fn resign(&mut self) -> Effect {
        self.gather();
        let Some(leader) = self.world.leader().filter(|leader| self.lives(*leader)) else {
            return Effect::Nothing;
        };
        let (asks, to) = self.any_two();
        if self.any(2) == 0 {
            self.world.transfer(asks, to);
        } else {
            let longest = self.plan.policy.timing.leader_lease * 20;
            let cooldown = self.world.sim.random().below(longest);
            let named = self.any(2) == 0;
            self.world.resign(leader, named.then_some(to), cooldown);
        }
        Effect::Done
    }
}
