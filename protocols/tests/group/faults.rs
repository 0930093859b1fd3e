//! What goes wrong in a group in the simulator, and how it is mended.

use std::time::Duration;

use conclave_protocols::history::Scope;
use conclave_protocols::member::Node;
use conclave_protocols::trace::Watch;

use crate::nodes::{Ask, Mood};
use crate::world::World;

impl World {
    pub(crate) fn crash(&mut self, member: usize) {
        self.sim.crash(self.node(member));
        Watch::ended(&self.log, self.members[member].0);
        self.wants.retain(|(index, _)| *index != member);
        self.discover();
    }

    pub(crate) fn freeze(&mut self, member: usize) {
        self.freeze_node(member);
    }

    /// Lets a member go on. False if it missed nothing.
    pub(crate) fn thaw(&mut self, member: usize) -> bool {
        let missed = self.thaw_node(member);
        self.note_clocks();
        self.run_for(Duration::ZERO);
        missed
    }

    /// A member and its clock stand still: from now on only what needs no clock is promised.
    pub(crate) fn freeze_with_clock(&mut self, member: usize) {
        self.scope = Scope::Timeless;
        self.rules = None;
        self.sim.freeze_with_clock(self.node(member));
    }

    /// A member's clock jumps: from now on only what needs no clock is promised.
    pub(crate) fn step_clock(&mut self, member: usize, by: Duration) {
        self.scope = Scope::Timeless;
        self.rules = None;
        self.sim.step_clock(self.node(member), by);
        self.note_clocks();
    }

    fn note_clocks(&mut self) {
        for (incarnation, clock) in &mut self.members {
            *clock = self.sim.clock(Node::Member(*incarnation)).unwrap_or(*clock);
        }
    }

    /// Two nodes lose all that they send to each other.
    pub(crate) fn part(&mut self, one: Node, other: Node) {
        self.sim.cut(one, other);
        self.sim.cut(other, one);
    }

    /// A member is cut off from all others, and from the register.
    pub(crate) fn isolate(&mut self, member: usize) {
        let me = self.node(member);
        for other in 0..self.members.len() {
            self.part(me, self.node(other));
        }
        self.part(me, Node::Register);
    }

    /// These members are cut off from the others.
    pub(crate) fn split(&mut self, side: &[usize]) {
        for one in 0..self.members.len() {
            for other in 0..self.members.len() {
                if side.contains(&one) != side.contains(&other) {
                    self.sim.cut(self.node(one), self.node(other));
                }
            }
        }
    }

    pub(crate) fn cut_register(&mut self) {
        for member in 0..self.members.len() {
            self.part(Node::Register, self.node(member));
        }
    }

    /// All faults that can be mended are.
    pub(crate) fn heal(&mut self) {
        self.sim.heal();
        self.register(Ask::Mood(Mood::default()));
        for member in 0..self.members.len() {
            self.thaw_node(member);
        }
        self.note_clocks();
        self.run_for(Duration::ZERO);
    }
}
