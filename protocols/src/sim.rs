//! A seeded simulator: any protocol, in virtual time, with clocks that differ and links that fail.
//!
//! One seed gives one run. Links are FIFO while they are up; each message takes a random delay.
//! Every node has a clock of its own, with an offset and a rate. A node can crash, freeze and thaw:
//! its clock goes on meanwhile, or stands still too. A link can be cut one way, so that what is sent
//! is lost; be held back, so that it comes late, in order; break, so that what is under way is lost;
//! and repeat itself, at once or much later.
//!
//! ```
//! use conclave_protocols::election::{AnyElection, Command, Place, Timing};
//! use conclave_protocols::policy::ElectionAlgorithm;
//! use conclave_protocols::sim::Simulator;
//! use conclave_protocols::{Epoch, MemberId, View};
//! use std::time::Duration;
//!
//! let view = View { epoch: Epoch(1), size: 5, leader: MemberId(4) };
//! let timing =
//!     Timing { answer: Duration::from_millis(50), announcement: Duration::from_millis(150) };
//! let mut sim = Simulator::new(7);
//! for me in view.members() {
//!     sim.add(me, AnyElection::new(ElectionAlgorithm::Bully, Place::new(me, view), timing));
//! }
//! sim.crash(MemberId(4));
//! sim.command(MemberId(0), Command::Elect);
//! sim.run_for(Duration::from_secs(1));
//! assert_eq!(sim.node(MemberId(0)).and_then(AnyElection::elected), Some(MemberId(3)));
//! ```

mod agenda;
mod circuit;
mod clock;
mod links;

use std::collections::BTreeMap;
use std::time::Duration;

use self::agenda::Agenda;
pub use self::circuit::circuit;
pub use self::clock::Clock;
use self::links::Links;
use crate::protocol::{Effect, Input, Named, Outbox, Protocol};
use crate::random::Random;
use crate::time::LocalTime;

/// A group of nodes in virtual time. A copy goes on by itself from the same state.
#[derive(Clone)]
pub struct Simulator<P: Protocol> {
    random: Random,
    now: Duration,
    nodes: BTreeMap<P::Peer, Node<P>>,
    agenda: Agenda<Happening<P>>,
    links: Links<P>,
    notified: Vec<(Duration, P::Peer, P::Event)>,
    sent: BTreeMap<&'static str, u64>,
}

#[derive(Clone)]
struct Node<P: Protocol> {
    protocol: P,
    clock: Clock,
    /// Armed timers, by name, with the number that distinguishes a replaced one, and when they are due
    /// by the node's clock.
    timers: BTreeMap<P::Timer, (u64, LocalTime)>,
    frozen: Option<Frozen<P>>,
}

/// What a frozen node will find when it thaws.
#[derive(Clone)]
struct Frozen<P: Protocol> {
    waiting: Vec<Happening<P>>,
    /// Since when its clock has stood still, if it does.
    clock: Option<Duration>,
}

/// What waits for a frozen node.
#[derive(Debug)]
pub enum Waiting<'a, P: Protocol> {
    /// Its application asked for something.
    Command(&'a P::Command),
    /// It was sent something.
    Message(P::Peer, &'a P::Message),
    /// A timer went off.
    Timer(P::Timer),
}

#[derive(Clone)]
enum Happening<P: Protocol> {
    Asking {
        of: P::Peer,
        command: P::Command,
    },
    Arrival {
        from: P::Peer,
        to: P::Peer,
        session: u64,
        message: P::Message,
    },
    /// A message arrives once more.
    Again {
        from: P::Peer,
        to: P::Peer,
        session: u64,
        message: P::Message,
    },
    Timer {
        of: P::Peer,
        timer: P::Timer,
        number: u64,
    },
}

impl<P: Protocol> Happening<P> {
    fn as_waiting(&self) -> Waiting<'_, P> {
        match self {
            Self::Asking { command, .. } => Waiting::Command(command),
            Self::Arrival { from, message, .. } | Self::Again { from, message, .. } => {
                Waiting::Message(*from, message)
            }
            Self::Timer { timer, .. } => Waiting::Timer(*timer),
        }
    }
}

impl<P: Protocol> Simulator<P> {
    /// An empty group. Messages take between 0.2 and 1 ms until [`Simulator::set_delay`].
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            now: Duration::ZERO,
            nodes: BTreeMap::new(),
            agenda: Agenda::new(),
            links: Links::default(),
            notified: Vec::new(),
            sent: BTreeMap::new(),
        }
    }

    /// Adds a node with a perfect clock, and starts it.
    pub fn add(&mut self, name: P::Peer, protocol: P) {
        self.add_with_clock(name, protocol, Clock { offset: Duration::ZERO, rate_ppm: 0 });
    }

    /// Adds a node, and starts it.
    pub fn add_with_clock(&mut self, name: P::Peer, protocol: P, clock: Clock) {
        let mut node = Node { protocol, clock, timers: BTreeMap::new(), frozen: None };
        let mut out = Outbox::default();
        node.protocol.start(clock.read(self.now), &mut out);
        self.nodes.insert(name, node);
        self.carry_out(name, out);
    }

    /// How long a message takes: between these two.
    pub fn set_delay(&mut self, least: Duration, most: Duration) {
        self.links.delay = (least, most.max(least));
    }

    /// How long a message of one link takes until [`Simulator::heal`]: between these two.
    pub fn slow(&mut self, from: P::Peer, to: P::Peer, least: Duration, most: Duration) {
        self.links.slow.insert((from, to), (least, most.max(least)));
    }

    /// Ends a node for good.
    pub fn crash(&mut self, name: P::Peer) {
        self.nodes.remove(&name);
    }

    /// Stops a node; its clock goes on, and what happens to it has to wait.
    pub fn freeze(&mut self, name: P::Peer) {
        self.stop(name, None);
    }

    /// Stops a node and its clock.
    pub fn freeze_with_clock(&mut self, name: P::Peer) {
        self.stop(name, Some(self.now));
    }

    fn stop(&mut self, name: P::Peer, clock: Option<Duration>) {
        if let Some(node) = self.nodes.get_mut(&name) {
            node.frozen.get_or_insert(Frozen { waiting: Vec::new(), clock });
        }
    }

    /// What waits for a frozen node, in the order in which it came.
    pub fn waiting(&self, name: P::Peer) -> impl Iterator<Item = Waiting<'_, P>> {
        let frozen = self.nodes.get(&name).and_then(|node| node.frozen.as_ref());
        frozen.into_iter().flat_map(|frozen| frozen.waiting.iter().map(Happening::as_waiting))
    }

    /// Lets a node go on. False if it was not frozen, or nothing happened to it meanwhile.
    pub fn thaw(&mut self, name: P::Peer) -> bool {
        self.thaw_in_order(name, |_| 0)
    }

    /// Lets a node go on, and hands it first what has the lowest place; what has the same comes in the
    /// order in which it came.
    pub fn thaw_in_order(&mut self, name: P::Peer, place: impl Fn(&Waiting<'_, P>) -> u64) -> bool {
        let Some(node) = self.nodes.get_mut(&name) else { return false };
        let Some(mut frozen) = node.frozen.take() else { return false };
        frozen.waiting.sort_by_key(|happening| place(&happening.as_waiting()));
        if let Some(since) = frozen.clock {
            node.clock = node.clock.back(self.now.saturating_sub(since));
        }
        let missed = !frozen.waiting.is_empty();
        for happening in frozen.waiting {
            let stood = frozen.clock.is_some();
            if !(stood && matches!(happening, Happening::Timer { .. })) {
                self.agenda.enter(self.now, happening);
            }
        }
        if frozen.clock.is_some() {
            self.rearm(name);
        }
        missed
    }

    /// Whether a node is frozen.
    pub fn is_frozen(&self, name: P::Peer) -> bool {
        self.nodes.get(&name).is_some_and(|node| node.frozen.is_some())
    }

    /// A node's clock jumps forward.
    pub fn step_clock(&mut self, name: P::Peer, by: Duration) {
        let Some(node) = self.nodes.get_mut(&name) else { return };
        node.clock.offset += by;
        self.rearm(name);
    }

    /// Sets the timers of a node anew, because its clock has changed.
    fn rearm(&mut self, name: P::Peer) {
        let Some(node) = self.nodes.get(&name) else { return };
        let now = node.clock.read(self.now);
        let due: Vec<(P::Timer, Duration)> =
            node.timers.iter().map(|(timer, (_, at))| (*timer, now.until(*at))).collect();
        for (timer, after) in due {
            self.arm(name, timer, after);
        }
    }

    /// Loses everything that goes from one node to the other.
    pub fn cut(&mut self, from: P::Peer, to: P::Peer) {
        self.links.cut.insert((from, to));
    }

    /// Whether everything that goes from one node to the other is lost.
    pub fn is_cut(&self, from: P::Peer, to: P::Peer) -> bool {
        self.links.cut.contains(&(from, to))
    }

    /// Puts one link together again.
    pub fn join(&mut self, from: P::Peer, to: P::Peer) {
        self.links.cut.remove(&(from, to));
    }

    /// Keeps back everything that goes from one node to the other, until [`Simulator::let_go`].
    pub fn hold_back(&mut self, from: P::Peer, to: P::Peer) {
        self.links.held.entry((from, to)).or_default();
    }

    /// Delivers what was kept back, in order. How many messages that is.
    pub fn let_go(&mut self, from: P::Peer, to: P::Peer) -> usize {
        let kept = self.links.held.remove(&(from, to)).unwrap_or_default();
        let count = kept.len();
        for (session, message) in kept {
            self.agenda.enter(self.now, Happening::Arrival { from, to, session, message });
        }
        count
    }

    /// From now on, one message in so many from one node to the other arrives once more, so much later
    /// at most.
    pub fn repeat(&mut self, from: P::Peer, to: P::Peer, one_in: u64, within: Duration) {
        self.links.repeats.insert((from, to), (one_in, within));
    }

    /// How many messages of a link arrived once more.
    pub fn repeated(&self, from: P::Peer, to: P::Peer) -> u64 {
        self.links.repeated.get(&(from, to)).copied().unwrap_or(0)
    }

    /// Loses what is under way from one node to the other. What is sent later arrives.
    pub fn break_link(&mut self, from: P::Peer, to: P::Peer) {
        *self.links.sessions.entry((from, to)).or_default() += 1;
    }

    /// How many messages of a link were lost.
    pub fn lost(&self, from: P::Peer, to: P::Peer) -> u64 {
        self.links.lost.get(&(from, to)).copied().unwrap_or(0)
    }

    /// Puts all links together again, and delivers what was kept back.
    pub fn heal(&mut self) {
        self.links.cut.clear();
        self.links.slow.clear();
        self.links.repeats.clear();
        let held: Vec<(P::Peer, P::Peer)> = self.links.held.keys().copied().collect();
        for (from, to) in held {
            self.let_go(from, to);
        }
    }

    /// The application of a node asks for something. A frozen node hears it when it thaws.
    pub fn command(&mut self, name: P::Peer, command: P::Command) {
        self.happen(Happening::Asking { of: name, command });
    }

    /// Goes on for so long.
    pub fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        while self.step_until(end) {}
        self.now = end;
    }

    /// Does the next thing that happens before `end`. False if nothing does.
    pub fn step_until(&mut self, end: Duration) -> bool {
        let Some((at, happening)) = self.agenda.next_until(end) else { return false };
        self.now = self.now.max(at);
        self.happen(happening);
        true
    }

    /// True time since the beginning.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// What a node's clock shows.
    pub fn local_time(&self, name: P::Peer) -> Option<LocalTime> {
        self.nodes.get(&name).map(|node| node.clock.read(self.now))
    }

    /// A node's clock, unless it crashed.
    pub fn clock(&self, name: P::Peer) -> Option<Clock> {
        self.nodes.get(&name).map(|node| node.clock)
    }

    /// A node, unless it crashed.
    pub fn node(&self, name: P::Peer) -> Option<&P> {
        self.nodes.get(&name).map(|node| &node.protocol)
    }

    /// All living nodes.
    pub fn nodes(&self) -> impl Iterator<Item = (P::Peer, &P)> {
        self.nodes.iter().map(|(name, node)| (*name, &node.protocol))
    }

    /// Takes out what the nodes have reported so far, in order, with true times.
    pub fn take_notified(&mut self) -> Vec<(Duration, P::Peer, P::Event)> {
        std::mem::take(&mut self.notified)
    }

    /// How many messages of a name were sent, to crashed nodes too.
    pub fn sent(&self, name: &str) -> u64 {
        self.sent.get(name).copied().unwrap_or(0)
    }

    /// How many messages were sent in all.
    pub fn sent_in_all(&self) -> u64 {
        self.sent.values().sum()
    }

    /// The simulator's source of chance, to choose faults by.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn happen(&mut self, happening: Happening<P>) {
        let name = match &happening {
            Happening::Arrival { to, .. } | Happening::Again { to, .. } => *to,
            Happening::Timer { of, .. } | Happening::Asking { of, .. } => *of,
        };
        let Some(node) = self.nodes.get_mut(&name) else { return };
        if let Some(frozen) = &mut node.frozen {
            return frozen.waiting.push(happening);
        }
        match happening {
            Happening::Asking { of, command } => self.feed(of, Input::Command(command)),
            Happening::Arrival { from, to, session, message } => {
                if let Some(message) = self.links.arrive(from, to, session, message) {
                    self.come_again(from, to, session, &message);
                    self.feed(to, Input::Message { from, message });
                }
            }
            Happening::Again { from, to, session, message } => {
                if let Some(message) = self.links.arrive(from, to, session, message) {
                    *self.links.repeated.entry((from, to)).or_default() += 1;
                    self.feed(to, Input::Message { from, message });
                }
            }
            Happening::Timer { of, timer, number } => {
                if node.timers.get(&timer).is_some_and(|(armed, _)| *armed == number) {
                    node.timers.remove(&timer);
                    self.feed(of, Input::Timer(timer));
                }
            }
        }
    }

    /// A message arrived; perhaps it does so again.
    fn come_again(&mut self, from: P::Peer, to: P::Peer, session: u64, message: &P::Message) {
        let Some(&(one_in, within)) = self.links.repeats.get(&(from, to)) else { return };
        if self.random.once_in(one_in) {
            let at = self.now + self.random.below(within);
            let message = message.clone();
            self.agenda.enter(at, Happening::Again { from, to, session, message });
        }
    }

    fn feed(&mut self, name: P::Peer, input: crate::protocol::InputOf<P>) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&name) else { return };
        let mut out = Outbox::default();
        node.protocol.handle(node.clock.read(now), input, &mut out);
        self.carry_out(name, out);
    }

    fn carry_out(&mut self, name: P::Peer, mut out: crate::protocol::OutboxOf<P>) {
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => self.send(name, to, message),
                Effect::Arm { timer, after } => self.arm(name, timer, after),
                Effect::Disarm(timer) => {
                    if let Some(node) = self.nodes.get_mut(&name) {
                        node.timers.remove(&timer);
                    }
                }
                Effect::Tell(event) => self.notified.push((self.now, name, event)),
            }
        }
    }

    fn send(&mut self, from: P::Peer, to: P::Peer, message: P::Message) {
        *self.sent.entry(message.name()).or_default() += 1;
        let (shortest, longest) = self.links.delay_of(from, to);
        let delay = shortest + self.random.below(longest.saturating_sub(shortest));
        if let Some((at, session)) = self.links.send(from, to, self.now + delay) {
            self.agenda.enter(at, Happening::Arrival { from, to, session, message });
        }
    }

    fn arm(&mut self, name: P::Peer, timer: P::Timer, after: Duration) {
        let Some(node) = self.nodes.get_mut(&name) else { return };
        let number = self.agenda.entered() + 1;
        node.timers.insert(timer, (number, node.clock.read(self.now).after(after)));
        let at = self.now.saturating_add(node.clock.true_span(after));
        self.agenda.enter(at, Happening::Timer { of: name, timer, number });
    }
}
