//! In which order a member finds what came while it was frozen: its application's intents, the messages
//! of each peer, the answers of the register, its timers. A process that goes on after a pause finds
//! all of them at once, and nothing prescribes which of them it looks at first.

use conclave_protocols::member::{Command, Node, StatusEpoch};
use conclave_protocols::random::Random;
use conclave_protocols::sim::Waiting;

use crate::nodes::Place;
use crate::world::World;

/// Where something comes from: what is of one source keeps its order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    Application,
    Timers,
    Register,
    Peer(u64),
}

impl World {
    /// Lets a member go on. False if it missed nothing.
    pub(crate) fn thaw_node(&mut self, member: usize) -> bool {
        let node = self.node(member);
        let Some(orders) = &mut self.orders else { return self.sim.thaw(node) };
        let salt = orders.draw();
        let mut waiting: Vec<(u64, Source)> =
            self.sim.waiting(node).map(|one| (place(salt, &one), source(&one))).collect();
        waiting.sort_by_key(|(place, _)| *place);
        let first = |is: &dyn Fn(Source) -> bool| waiting.iter().position(|one| is(one.1));
        let register = first(&|source| source == Source::Register);
        let peers = first(&|source| matches!(source, Source::Peer(_)));
        let timers = first(&|source| source == Source::Timers);
        let pairs = [
            (register, peers, "the register before peers"),
            (peers, register, "peers before the register"),
            (timers, peers, "timers before peers"),
            (peers, timers, "peers before timers"),
            (timers, register, "timers before the register"),
            (register, timers, "the register before timers"),
        ];
        for (one, other, what) in pairs {
            if let (Some(one), Some(other)) = (one, other)
                && one < other
            {
                self.besides(what);
            }
        }
        self.sim.thaw_in_order(node, |one| place(salt, one))
    }

    /// Stops a member: now and then while the register has an answer for it on its way.
    pub(crate) fn freeze_node(&mut self, member: usize) {
        if self.orders.as_mut().is_some_and(|orders| orders.once_in(2)) {
            self.command(member, Command::Look);
        }
        self.sim.freeze(self.node(member));
    }

    /// Something happened that is no fault.
    /// The watch of the resource notifies everybody of what the operator wrote, some time ago or now.
    pub(crate) fn tell_status(&mut self, status: StatusEpoch) {
        for member in self.living().collect::<Vec<_>>() {
            self.command(member, Command::Status(status));
        }
    }

    pub(crate) fn besides(&mut self, what: &'static str) {
        *self.seen.besides.entry(what).or_default() += 1;
    }
}

fn source(waiting: &Waiting<'_, Place>) -> Source {
    match waiting {
        Waiting::Command(_) => Source::Application,
        Waiting::Timer(_) => Source::Timers,
        Waiting::Message(Node::Register, _) => Source::Register,
        Waiting::Message(Node::Member(peer), _) => Source::Peer(peer.run),
    }
}

/// Sources come in an order that the salt draws.
fn place(salt: u64, waiting: &Waiting<'_, Place>) -> u64 {
    let number = match source(waiting) {
        Source::Application => 1,
        Source::Timers => 2,
        Source::Register => 3,
        Source::Peer(run) => run,
    };
    Random::new(salt ^ number).draw()
}
