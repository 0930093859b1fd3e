//! A group in the simulator, and what must hold at every moment.
//!
//! What counts is what applications were told: a lock that somebody was told to hold until a time
//! by its own clock, and has not given back, is held until then, though its member crashed or froze
//! meanwhile. The same goes for the office of leader.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocols::member::message::Note;
use conclave_protocols::member::{Command, Event, LockEvent, Member, Node, Standing};
use conclave_protocols::policy::{Arbiter, Policy};
use conclave_protocols::record::{MemberInfo, Record};
use conclave_protocols::sim::{Clock, Simulator};
use conclave_protocols::{Epoch, FencingToken, Incarnation, LocalTime, LockName, PodUid};

use crate::nodes::{Ask, Mood, Place, Register};
use crate::storm::Fault;

pub(crate) struct World {
    pub(crate) sim: Simulator<Place>,
    pub(crate) seed: u64,
    pub(crate) trace: bool,
    pub(crate) policy: Policy,
    /// All members that there ever were.
    members: Vec<(Incarnation, Clock)>,
    /// Who left.
    left: BTreeSet<usize>,
    /// What applications want, and have not given back.
    wants: BTreeSet<(usize, LockName)>,
    /// Until when applications were told to hold, by their own clocks.
    holds: BTreeMap<(usize, LockName), LocalTime>,
    /// Until when applications were told to lead, by their own clocks.
    leads: BTreeMap<usize, LocalTime>,
    tokens: BTreeMap<LockName, FencingToken>,
    pub(crate) seen: Seen,
    /// Discovery has not spoken yet.
    pub(crate) quiet_discovery: bool,
}

/// What happened, so that a run in which nothing did is not taken for a good one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) grants: u64,
    pub(crate) losses: u64,
    pub(crate) views: u64,
    pub(crate) elections: u64,
    pub(crate) faults: BTreeMap<Fault, u64>,
}

impl World {
    pub(crate) fn new(seed: u64, members: usize, policy: Policy) -> Self {
        let mut sim = Simulator::new(seed);
        sim.add(Node::Register, Place::Register(Box::new(Register::new(seed))));
        let mut world = Self {
            sim,
            seed,
            trace: false,
            policy,
            members: Vec::new(),
            left: BTreeSet::new(),
            wants: BTreeSet::new(),
            holds: BTreeMap::new(),
            leads: BTreeMap::new(),
            tokens: BTreeMap::new(),
            seen: Seen::default(),
            quiet_discovery: false,
        };
        for _ in 0..members {
            world.join();
        }
        world
    }

    /// Another pod starts.
    pub(crate) fn join(&mut self) -> usize {
        let index = self.members.len();
        let pod = PodUid(index as u128 + 1);
        let incarnation = Incarnation { pod, run: self.sim.random().up_to(1 << 53) };
        let offset = Duration::from_secs(self.sim.random().up_to(1_000_000));
        let rate = i32::try_from(self.sim.random().up_to(40_001)).expect("small") - 20_000;
        let clock = Clock { offset, rate_ppm: rate };
        let epoch = self.status_epoch();
        let member = Member::new(info(index, incarnation), self.policy.clone(), epoch);
        self.members.push((incarnation, clock));
        let place = Place::Member(Box::new(member));
        self.sim.add_with_clock(Node::Member(incarnation), place, clock);
        self.discover();
        index
    }

    /// Under the arbiter `None`, all pods that there are become known to all.
    pub(crate) fn discover(&mut self) {
        if self.policy.arbiter == Arbiter::Quorum || self.quiet_discovery {
            return;
        }
        let found: Vec<MemberInfo> =
            self.living().map(|index| info(index, self.members[index].0)).collect();
        for index in self.living().collect::<Vec<_>>() {
            self.command(index, Command::Peers(found.clone()));
        }
    }

    fn status_epoch(&self) -> Epoch {
        match self.policy.arbiter {
            Arbiter::Quorum => self.try_record().map_or(Epoch(0), |record| record.epoch),
            Arbiter::None => Epoch(0),
        }
    }

    // ----- looking

    pub(crate) fn node(&self, member: usize) -> Node {
        Node::Member(self.members[member].0)
    }

    pub(crate) fn count(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn incarnation(&self, member: usize) -> Incarnation {
        self.members[member].0
    }

    pub(crate) fn member(&self, index: usize) -> Option<&Member> {
        match self.sim.node(self.node(index))? {
            Place::Member(member) => Some(member),
            Place::Register(_) => None,
        }
    }

    /// Members that did not crash and did not leave.
    pub(crate) fn living(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len())
            .filter(|index| self.member(*index).is_some() && !self.left.contains(index))
    }

    fn try_record(&self) -> Option<&Record> {
        match self.sim.node(Node::Register) {
            Some(Place::Register(register)) => register.memory.record(),
            Some(Place::Member(_)) | None => unreachable!("the register does not crash"),
        }
    }

    pub(crate) fn record(&self) -> &Record {
        self.try_record().expect("there is a view")
    }

    pub(crate) fn clock(&self, member: usize) -> LocalTime {
        self.members[member].1.read(self.sim.now())
    }

    /// Who was told to lead at this moment.
    pub(crate) fn leaders(&self) -> Vec<usize> {
        let leads =
            |(index, until): (&usize, &LocalTime)| (*until > self.clock(*index)).then_some(*index);
        self.leads.iter().filter_map(leads).collect()
    }

    /// The one leader, unless there is none or there are several.
    pub(crate) fn leader(&self) -> Option<usize> {
        match self.leaders()[..] {
            [leader] => Some(leader),
            _ => None,
        }
    }

    pub(crate) fn holders(&self, lock: &str) -> Vec<usize> {
        let holds = |((index, held), until): (&(usize, LockName), &LocalTime)| {
            (held.as_str() == lock && *until > self.clock(*index)).then_some(*index)
        };
        self.holds.iter().filter_map(holds).collect()
    }

    pub(crate) fn holder(&self, lock: &str) -> Option<usize> {
        self.holders(lock).first().copied()
    }

    pub(crate) fn wants(&self, member: usize, lock: &str) -> bool {
        self.wants.contains(&(member, name(lock)))
    }

    // ----- doing

    pub(crate) fn enter(&mut self, member: usize, lock: &str) {
        if self.left.contains(&member) || self.member(member).is_none() {
            return;
        }
        self.wants.insert((member, name(lock)));
        let note = Note { owner: format!("app-{member}"), metadata: None };
        self.command(member, Command::Enter { lock: name(lock), note });
    }

    pub(crate) fn exit(&mut self, member: usize, lock: &str) {
        self.wants.remove(&(member, name(lock)));
        self.holds.remove(&(member, name(lock)));
        self.command(member, Command::Exit { lock: name(lock) });
    }

    pub(crate) fn leave(&mut self, member: usize) {
        self.left.insert(member);
        self.wants.retain(|(index, _)| *index != member);
        self.command(member, Command::Leave);
    }

    pub(crate) fn drain(&mut self, member: usize) {
        self.command(member, Command::Drain);
    }

    pub(crate) fn set_policy(&mut self, policy: &Policy) {
        self.policy = policy.clone();
        for member in 0..self.members.len() {
            self.command(member, Command::Policy(Box::new(policy.clone())));
        }
    }

    fn command(&mut self, member: usize, command: Command) {
        self.sim.command(self.node(member), Ask::Member(command));
        self.observe();
    }

    pub(crate) fn crash(&mut self, member: usize) {
        self.sim.crash(self.node(member));
        self.wants.retain(|(index, _)| *index != member);
        self.discover();
    }

    pub(crate) fn freeze(&mut self, member: usize) {
        self.sim.freeze(self.node(member));
    }

    pub(crate) fn thaw(&mut self, member: usize) {
        self.sim.thaw(self.node(member));
        self.run_for(Duration::ZERO);
    }

    /// Two nodes lose all that they say to each other.
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

    pub(crate) fn register(&mut self, ask: Ask) {
        self.sim.command(Node::Register, ask);
    }

    /// All faults that can be mended are.
    pub(crate) fn heal(&mut self) {
        self.sim.heal();
        self.register(Ask::Mood(Mood::default()));
        for member in 0..self.members.len() {
            self.sim.thaw(self.node(member));
        }
        self.run_for(Duration::ZERO);
    }

    pub(crate) fn run_for(&mut self, span: Duration) {
        let end = self.sim.now() + span;
        while self.sim.step_until(end) {
            self.observe();
        }
        self.sim.run_for(end.saturating_sub(self.sim.now()));
    }

    /// Goes on until something is so. How long that took; it fails if it is not so in time.
    pub(crate) fn run_until(
        &mut self,
        what: &str,
        patience: Duration,
        is_so: impl Fn(&Self) -> bool,
    ) -> Duration {
        let begin = self.sim.now();
        while !is_so(self) {
            let waited = self.sim.now().saturating_sub(begin);
            assert!(waited < patience, "seed {}: {what}: not within {patience:?}", self.seed);
            self.run_for(Duration::from_millis(10));
        }
        self.sim.now().saturating_sub(begin)
    }

    // ----- checking

    /// Takes note of what was told, and checks what must hold.
    pub(crate) fn observe(&mut self) {
        for (at, node, event) in self.sim.take_told() {
            let Node::Member(incarnation) = node else { continue };
            let index = self.members.iter().position(|(m, _)| *m == incarnation).expect("known");
            if self.trace {
                println!("{at:?} {index} {event:?}");
            }
            match event {
                Event::Lock(lock, event) => self.lock_event(index, lock, &event),
                Event::Standing(Standing::Leading(until)) => {
                    self.leads.insert(index, until);
                    self.check_offices();
                }
                Event::Standing(
                    Standing::Following(..) | Standing::Electing | Standing::Isolated,
                ) => {
                    self.leads.remove(&index);
                }
                Event::Installed(_) => self.seen.views += 1,
                Event::Elected { .. } => self.seen.elections += 1,
                Event::Left => {
                    self.left.insert(index);
                }
                Event::Met(_) | Event::Confirmed(_) | Event::Ignored(_) => {}
            }
        }
    }

    fn lock_event(&mut self, index: usize, lock: LockName, event: &LockEvent) {
        match *event {
            LockEvent::Entered { token, deadline, .. } => {
                if !self.wants.contains(&(index, lock.clone())) {
                    return;
                }
                self.seen.grants += 1;
                self.check_token(&lock, token);
                self.holds.insert((index, lock.clone()), deadline);
                self.check_holders(&lock);
            }
            LockEvent::Extended { deadline, .. } => {
                let (seed, now) = (self.seed, self.sim.now());
                if let Some(until) = self.holds.get_mut(&(index, lock.clone())) {
                    assert!(*until <= deadline, "seed {seed} at {now:?}: {lock} was taken back");
                    *until = deadline;
                    self.check_holders(&lock);
                }
            }
            LockEvent::Lost(_) => {
                self.seen.losses += 1;
                self.wants.remove(&(index, lock.clone()));
                self.holds.remove(&(index, lock));
            }
            LockEvent::Queued(_) => {}
        }
    }

    fn check_token(&mut self, lock: &LockName, token: Option<FencingToken>) {
        assert_eq!(token.is_some(), self.policy.arbiter == Arbiter::Quorum);
        let Some(token) = token else { return };
        let last = self.tokens.insert(lock.clone(), token);
        let (seed, now) = (self.seed, self.sim.now());
        assert!(last < Some(token), "seed {seed} at {now:?}: {lock} went from {last:?} to {token}");
    }

    fn check_holders(&self, lock: &LockName) {
        let holders = self.holders(lock.as_str());
        let (seed, now) = (self.seed, self.sim.now());
        let safe = holders.len() <= 1 || self.policy.arbiter == Arbiter::None;
        assert!(safe, "seed {seed} at {now:?}: {holders:?} hold {lock}");
    }

    fn check_offices(&self) {
        let leaders = self.leaders();
        let (seed, now) = (self.seed, self.sim.now());
        let safe = leaders.len() <= 1 || self.policy.arbiter == Arbiter::None;
        assert!(safe, "seed {seed} at {now:?}: {leaders:?} lead");
    }
}

fn info(index: usize, incarnation: Incarnation) -> MemberInfo {
    MemberInfo {
        incarnation,
        name: format!("pod-{index}"),
        addresses: Vec::new(),
        priority: 0,
        admission: 0,
        protocol: (1, 1),
    }
}

fn name(lock: &str) -> LockName {
    LockName::try_from(lock.to_owned()).expect("a good name")
}
