//! One run of a group, in which every message takes equally long and is counted.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use conclave_protocols::protocol::InputOf;
use conclave_protocols::{Effect, Input, LocalTime, MemberId, Named, Outbox};
use litemap::LiteMap;

use super::Subject;

/// A group in the middle of a run.
pub struct Walk<P: Subject> {
    /// All members, by rank.
    pub members: Vec<P>,
    /// Who does not live.
    pub dead: BTreeSet<MemberId>,
    /// All that was sent, in order.
    pub sent: Vec<Sent<P::Message>>,
    in_flight: VecDeque<Sent<P::Message>>,
    timers: LiteMap<(MemberId, P::Timer), Duration>,
    elapsed: Duration,
}

/// A message, and between whom.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sent<M> {
    /// Who sent it.
    pub from: MemberId,
    /// To whom, dead or alive.
    pub to: MemberId,
    /// What it contains.
    pub message: M,
}

impl<P: Subject> Walk<P> {
    /// So many members, of which some are dead.
    pub fn new(
        size: u32,
        dead: impl IntoIterator<Item = u32>,
        member: impl Fn(MemberId) -> P,
    ) -> Self {
        Self {
            members: (0..size).map(MemberId).map(member).collect(),
            dead: dead.into_iter().map(MemberId).collect(),
            sent: Vec::new(),
            in_flight: VecDeque::new(),
            timers: LiteMap::new(),
            elapsed: Duration::ZERO,
        }
    }

    /// The application of a member asks for something; what follows is left to [`Self::settle`].
    pub fn ask(&mut self, member: u32, command: P::Command) {
        self.handle(MemberId(member), Input::Command(command));
    }

    /// Lets messages arrive, and timers go off when none is in flight, until neither is left.
    pub fn settle(&mut self) {
        let steps = (0..STEPS_AT_MOST).take_while(|_| self.step()).count();
        assert!(steps < STEPS_AT_MOST, "this run has no end");
    }

    /// The same, but of the messages in flight the one of the least key arrives next.
    pub fn settle_by<K: Ord>(&mut self, key: impl Fn(&Sent<P::Message>) -> K) {
        for _ in 0..STEPS_AT_MOST {
            self.in_flight.make_contiguous().sort_by_key(&key);
            if !self.step() {
                return;
            }
        }
        panic!("this run has no end");
    }

    /// Lets messages arrive until none is in flight, in no time.
    pub fn deliver(&mut self) {
        while !self.in_flight.is_empty() {
            self.step();
        }
    }

    /// One message arrives or, when none is in flight, one timer goes off. Returns whether there
    /// was any.
    pub fn step(&mut self) -> bool {
        if let Some(Sent { from, to, message }) = self.in_flight.pop_front() {
            self.handle(to, Input::Message { from, message });
            return true;
        }
        let next = self.timers.iter().min_by_key(|(_, at)| **at);
        let Some(((member, timer), at)) = next.map(|(whose, at)| (*whose, *at)) else {
            return false;
        };
        self.timers.remove(&(member, timer));
        self.elapsed = at;
        self.handle(member, Input::Timer(timer));
        true
    }

    /// A member dies, and what it sent arrives.
    pub fn kill(&mut self, member: u32) {
        self.dead.insert(MemberId(member));
        self.timers.retain(|(whose, _), _| whose.0 != member);
    }

    /// A member comes back as it was in the beginning.
    pub fn restart(&mut self, member: u32, protocol: impl Fn(MemberId) -> P) {
        let id = MemberId(member);
        self.dead.remove(&id);
        self.members[member as usize] = protocol(id);
    }

    /// How many messages of this name were sent to members that live, or to dead ones.
    pub fn count(&self, name: &str, to_the_living: bool) -> u64 {
        let counts = |sent: &&Sent<P::Message>| {
            sent.message.name() == name && self.dead.contains(&sent.to) != to_the_living
        };
        self.sent.iter().filter(counts).count() as u64
    }

    /// How long it took by the timers.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    fn handle(&mut self, member: MemberId, input: InputOf<P>) {
        if self.dead.contains(&member) {
            return;
        }
        let mut out = Outbox::default();
        self.members[member.0 as usize].handle(LocalTime(0), input, &mut out);
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => {
                    let sent = Sent { from: member, to, message };
                    self.sent.push(sent.clone());
                    self.in_flight.push_back(sent);
                }
                Effect::Arm { timer, after } => {
                    self.timers.insert((member, timer), self.elapsed + after);
                }
                Effect::Disarm(timer) => {
                    self.timers.remove(&(member, timer));
                }
                Effect::Tell(_) => {}
            }
        }
    }
}

const STEPS_AT_MOST: usize = 1_000_000;
