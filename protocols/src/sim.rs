//! A seeded simulator: any protocol, in virtual time, with clocks that differ and links that fail.
//!
//! One seed gives one run. Links are FIFO while they are up; each message takes a random delay.
//! Every node has a clock of its own, with an offset and a rate. A node can crash, freeze and thaw;
//! links can be cut one way. What happens to a node's clock while it is frozen: it goes on.
//!
//! ```
//! use conclave_protocols::election::{AnyElection, Command, Timing};
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
//!     sim.add(me, AnyElection::new(ElectionAlgorithm::Bully, me, view, timing));
//! }
//! sim.crash(MemberId(4));
//! sim.command(MemberId(0), Command::Elect);
//! sim.run_for(Duration::from_secs(1));
//! assert_eq!(sim.node(MemberId(0)).and_then(AnyElection::elected), Some(MemberId(3)));
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::protocol::{Effect, Input, Named, Outbox, Protocol};
use crate::time::LocalTime;

/// A group of nodes in virtual time.
pub struct Simulator<P: Protocol> {
    random: Random,
    now: Duration,
    nodes: BTreeMap<P::Peer, Node<P>>,
    agenda: BTreeMap<(Duration, u64), Happening<P>>,
    scheduled: u64,
    /// When the latest message of a link arrives, so that none overtakes another.
    links: BTreeMap<(P::Peer, P::Peer), Duration>,
    cut: BTreeSet<(P::Peer, P::Peer)>,
    delay: (Duration, Duration),
    told: Vec<(Duration, P::Peer, P::Event)>,
    sent: BTreeMap<&'static str, u64>,
}

struct Node<P: Protocol> {
    protocol: P,
    clock: Clock,
    /// Armed alarms, by name, with the number that tells a replaced one apart.
    alarms: BTreeMap<P::Timer, u64>,
    frozen: Option<Vec<Happening<P>>>,
}

/// A clock with an error.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Its reading at the beginning.
    pub offset: Duration,
    /// How much too fast it runs, in parts per million; negative for too slow.
    pub rate_ppm: i32,
}

impl Clock {
    /// What it reads when so much true time has passed.
    pub fn read(self, now: Duration) -> LocalTime {
        let nanos = i128::try_from(now.as_nanos()).unwrap_or(i128::MAX);
        let run = nanos + nanos * i128::from(self.rate_ppm) / 1_000_000;
        let reading = run + i128::try_from(self.offset.as_nanos()).unwrap_or(0);
        LocalTime(u64::try_from(reading).unwrap_or(0))
    }

    /// How long in true time until this clock has run for `span`.
    fn true_span(self, span: Duration) -> Duration {
        let nanos = span.as_nanos() * 1_000_000;
        let rate = u128::try_from(1_000_000 + i64::from(self.rate_ppm)).unwrap_or(1).max(1);
        Duration::from_nanos(u64::try_from(nanos.div_ceil(rate)).unwrap_or(u64::MAX))
    }
}

enum Happening<P: Protocol> {
    Asking { of: P::Peer, command: P::Command },
    Arrival { from: P::Peer, to: P::Peer, message: P::Message },
    Alarm { of: P::Peer, timer: P::Timer, number: u64 },
}

impl<P: Protocol> Simulator<P> {
    /// An empty group. Messages take between 0.2 and 1 ms until [`Simulator::set_delay`].
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            now: Duration::ZERO,
            nodes: BTreeMap::new(),
            agenda: BTreeMap::new(),
            scheduled: 0,
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
            delay: (Duration::from_micros(200), Duration::from_millis(1)),
            told: Vec::new(),
            sent: BTreeMap::new(),
        }
    }

    /// Adds a node with a perfect clock, and starts it.
    pub fn add(&mut self, name: P::Peer, protocol: P) {
        self.add_with_clock(name, protocol, Clock { offset: Duration::ZERO, rate_ppm: 0 });
    }

    /// Adds a node, and starts it.
    pub fn add_with_clock(&mut self, name: P::Peer, protocol: P, clock: Clock) {
        let mut node = Node { protocol, clock, alarms: BTreeMap::new(), frozen: None };
        let mut out = Outbox::default();
        node.protocol.start(clock.read(self.now), &mut out);
        self.nodes.insert(name, node);
        self.carry_out(name, out);
    }

    /// How long a message takes: between these two.
    pub fn set_delay(&mut self, least: Duration, most: Duration) {
        self.delay = (least, most.max(least));
    }

    /// Ends a node for good.
    pub fn crash(&mut self, name: P::Peer) {
        self.nodes.remove(&name);
    }

    /// Stops a node; its clock goes on, and what happens to it has to wait.
    pub fn freeze(&mut self, name: P::Peer) {
        if let Some(node) = self.nodes.get_mut(&name) {
            node.frozen.get_or_insert_default();
        }
    }

    /// Lets a node go on.
    pub fn thaw(&mut self, name: P::Peer) {
        let waiting = self.nodes.get_mut(&name).and_then(|node| node.frozen.take());
        for happening in waiting.into_iter().flatten() {
            self.schedule(self.now, happening);
        }
    }

    /// Loses everything that goes from one node to the other.
    pub fn cut(&mut self, from: P::Peer, to: P::Peer) {
        self.cut.insert((from, to));
    }

    /// Puts all links together again.
    pub fn heal(&mut self) {
        self.cut.clear();
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
        let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= end) else {
            return false;
        };
        let ((at, _), happening) = entry.remove_entry();
        self.now = self.now.max(at);
        self.happen(happening);
        true
    }

    /// True time since the beginning.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// What a node's clock says.
    pub fn local_time(&self, name: P::Peer) -> Option<LocalTime> {
        self.nodes.get(&name).map(|node| node.clock.read(self.now))
    }

    /// A node, unless it crashed.
    pub fn node(&self, name: P::Peer) -> Option<&P> {
        self.nodes.get(&name).map(|node| &node.protocol)
    }

    /// All living nodes.
    pub fn nodes(&self) -> impl Iterator<Item = (P::Peer, &P)> {
        self.nodes.iter().map(|(name, node)| (*name, &node.protocol))
    }

    /// Takes out what the nodes have told so far, in order, with true times.
    pub fn take_told(&mut self) -> Vec<(Duration, P::Peer, P::Event)> {
        std::mem::take(&mut self.told)
    }

    /// How many messages of a name were sent, to crashed nodes too.
    pub fn sent(&self, name: &str) -> u64 {
        self.sent.get(name).copied().unwrap_or(0)
    }

    /// How many messages were sent in all.
    pub fn sent_in_all(&self) -> u64 {
        self.sent.values().sum()
    }

    /// The simulator's source of chance, for whoever chooses faults.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn schedule(&mut self, at: Duration, happening: Happening<P>) {
        self.scheduled += 1;
        self.agenda.insert((at, self.scheduled), happening);
    }

    fn happen(&mut self, happening: Happening<P>) {
        let name = match &happening {
            Happening::Arrival { to, .. } => *to,
            Happening::Alarm { of, .. } | Happening::Asking { of, .. } => *of,
        };
        let Some(node) = self.nodes.get_mut(&name) else { return };
        if let Some(waiting) = &mut node.frozen {
            return waiting.push(happening);
        }
        match happening {
            Happening::Asking { of, command } => self.feed(of, Input::Command(command)),
            Happening::Arrival { from, to, message } => {
                if !self.cut.contains(&(from, to)) {
                    self.feed(to, Input::Message { from, message });
                }
            }
            Happening::Alarm { of, timer, number } => {
                if node.alarms.get(&timer) == Some(&number) {
                    node.alarms.remove(&timer);
                    self.feed(of, Input::Timer(timer));
                }
            }
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
                        node.alarms.remove(&timer);
                    }
                }
                Effect::Tell(event) => self.told.push((self.now, name, event)),
            }
        }
    }

    fn send(&mut self, from: P::Peer, to: P::Peer, message: P::Message) {
        *self.sent.entry(message.name()).or_default() += 1;
        let (shortest, longest) = self.delay;
        let delay = shortest + self.random.below(longest.saturating_sub(shortest));
        let arrival = self.now + delay;
        let last = self.links.entry((from, to)).or_default();
        *last = (*last).max(arrival);
        let at = *last;
        if !self.cut.contains(&(from, to)) {
            self.schedule(at, Happening::Arrival { from, to, message });
        }
    }

    fn arm(&mut self, name: P::Peer, timer: P::Timer, after: Duration) {
        let Some(node) = self.nodes.get_mut(&name) else { return };
        let number = self.scheduled + 1;
        node.alarms.insert(timer, number);
        let at = self.now.saturating_add(node.clock.true_span(after));
        self.schedule(at, Happening::Alarm { of: name, timer, number });
    }
}

/// A small source of chance: the same seed, the same numbers (Steele, Lea and Flood, *Fast
/// Splittable Pseudorandom Number Generators*, OOPSLA 2014: `SplitMix64`).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; zero if there is none.
    pub fn up_to(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.draw() % limit }
    }

    /// A time below `limit`.
    pub fn below(&mut self, limit: Duration) -> Duration {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.up_to(nanos))
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.up_to(times) == 0
    }
}
