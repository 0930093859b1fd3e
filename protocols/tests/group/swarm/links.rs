//! Faults of links.

use std::time::Duration;

use conclave_protocols::member::Node;

use super::effect::Effect;
use super::run::Run;

impl Run {
    pub(super) fn cut(&mut self, side: &[usize], other: &[usize], both: bool) -> Effect {
        let mut links = Vec::new();
        for one in side {
            for other in other {
                links.push((self.world.node(*one), self.world.node(*other)));
                if both {
                    links.push((self.world.node(*other), self.world.node(*one)));
                }
            }
        }
        self.cut_links(links)
    }

    fn cut_links(&mut self, links: Vec<(Node, Node)>) -> Effect {
        let before = self.lost(&links);
        for (from, to) in &links {
            self.world.sim.cut(*from, *to);
        }
        Effect::Lost(links, before)
    }

    pub(super) fn isolate(&mut self, member: Option<usize>) -> Effect {
        let Some(member) = member else { return Effect::Nothing };
        let me = self.world.node(member);
        let links = self.everything().into_iter().flat_map(|node| [(me, node), (node, me)]);
        self.cut_links(links.collect())
    }

    pub(super) fn split(&mut self) -> Effect {
        let all: Vec<usize> = self.world.living().collect();
        let (side, rest): (Vec<usize>, Vec<usize>) =
            all.iter().partition(|_| self.world.sim.random().once_in(2));
        self.cut(&side, &rest, true)
    }

    /// Half of the group or less, which has no majority, for as long as it takes the others to grant.
    pub(super) fn split_leader_off(&mut self) -> Effect {
        let living: Vec<usize> = self.world.living().collect();
        let Some(leader) = self.world.leader().filter(|_| living.len() > 3) else {
            return Effect::Nothing;
        };
        let holders = self.plan.locks.iter().flat_map(|lock| self.world.holders(lock));
        let holders: Vec<usize> = holders.filter(|holder| living.contains(holder)).collect();
        let mut side = vec![leader];
        for member in holders.into_iter().chain(living.clone()) {
            if side.len() < living.len() / 2 && !side.contains(&member) {
                side.push(member);
            }
        }
        let rest: Vec<usize> = living.into_iter().filter(|m| !side.contains(m)).collect();
        let effect = self.cut(&side, &rest, true);
        let timing = self.world.policy.timing;
        self.live(timing.leader_lease * 4 + timing.member_lease);
        effect
    }

    pub(super) fn cut_register(&mut self, members: &[usize]) -> Effect {
        let links = members.iter().map(|member| self.world.node(*member));
        let links = links.flat_map(|node| [(node, Node::Register), (Node::Register, node)]);
        self.cut_links(links.collect())
    }

    pub(super) fn swizzle(&mut self) -> Effect {
        let all = self.everything();
        let mut order: Vec<usize> = self.world.living().collect();
        let pause = self.plan.policy.timing.leader_lease;
        let links = |me: Node| all.iter().flat_map(move |node| [(me, *node), (*node, me)]);
        let mut cut = Vec::new();
        for member in &order {
            let links: Vec<(Node, Node)> = links(self.world.node(*member)).collect();
            for (from, to) in &links {
                self.world.sim.cut(*from, *to);
            }
            cut.extend(links);
            let span = self.world.sim.random().below(pause);
            self.live(span);
        }
        let before = 0;
        let lost = self.lost(&cut) > before;
        while !order.is_empty() {
            let next = order.remove(self.any(order.len()));
            for (from, to) in links(self.world.node(next)) {
                self.world.sim.join(from, to);
            }
            let span = self.world.sim.random().below(pause);
            self.live(span);
        }
        if lost { Effect::Done } else { Effect::Nothing }
    }

    /// Two groups are cut off from each other, or one does not hear the other.
    pub(super) fn cut_groups(&mut self) -> Effect {
        let all: Vec<usize> = self.world.living().collect();
        let (first, last) = (all.first().copied(), all.last().copied());
        let (side, rest): (Vec<usize>, Vec<usize>) = all.iter().partition(|member| {
            let drawn = self.world.sim.random().once_in(2);
            Some(**member) == first || drawn && Some(**member) != last
        });
        if self.any(3) == 0 {
            self.cut_register(&side);
        }
        let both = self.any(2) == 0;
        self.cut(&side, &rest, both)
    }

    /// What members send to each other comes twice.
    pub(super) fn repeat(&mut self) -> Effect {
        let members: Vec<Node> =
            (0..self.world.count()).map(|member| self.world.node(member)).collect();
        let pairs = |from: &Node| {
            let others = members.iter().filter(move |to| *to != from);
            others.map(move |to| (*from, *to)).collect::<Vec<_>>()
        };
        let links: Vec<(Node, Node)> = members.iter().flat_map(pairs).collect();
        let before = self.repeated(&links);
        let timing = self.plan.policy.timing;
        let within =
            [timing.leader_lease, timing.leader_lease * 2, timing.member_lease * 2][self.any(3)];
        let one_in = 1 + self.world.sim.random().up_to(4);
        for (from, to) in &links {
            self.world.sim.repeat(*from, *to, one_in, within);
        }
        // Now and then while the leader asks all who holds what, and one of them answers slowly.
        if self.any(2) == 0 {
            let slow = self.any(self.world.count());
            self.slow_links(slow);
            for _ in 0..4 {
                self.edit();
                self.live(timing.leader_lease * 2);
            }
        }
        Effect::Again(links, before)
    }

    pub(super) fn repeated(&self, links: &[(Node, Node)]) -> u64 {
        links.iter().map(|(from, to)| self.world.sim.repeated(*from, *to)).sum()
    }

    /// All sessions of one member break, until something was under way.
    pub(super) fn break_sessions(&mut self, member: usize) -> Effect {
        let me = self.world.node(member);
        let links: Vec<(Node, Node)> =
            self.everything().into_iter().flat_map(|node| [(me, node), (node, me)]).collect();
        let before = self.lost(&links);
        for _ in 0..100 {
            for (from, to) in &links {
                self.world.sim.break_link(*from, *to);
            }
            self.live(Duration::from_millis(10));
        }
        Effect::Lost(links, before)
    }

    pub(super) fn hold_back(&mut self, one: usize, others: &[Node]) -> Effect {
        let me = self.world.node(one);
        let links: Vec<(Node, Node)> = others.iter().map(|node| (me, *node)).collect();
        for (from, to) in &links {
            self.world.sim.hold_back(*from, *to);
        }
        Effect::Late(links)
    }

    pub(super) fn slow_links(&mut self, one: usize) -> Effect {
        if !self.lives(one) || self.world.living().count() < 2 {
            return Effect::Nothing;
        }
        let me = self.world.node(one);
        let most = self.plan.policy.timing.leader_lease / 2;
        for node in self.everything() {
            if node != Node::Register {
                self.world.sim.slow(me, node, Duration::ZERO, most);
                self.world.sim.slow(node, me, Duration::ZERO, most);
            }
        }
        Effect::Done
    }
}
