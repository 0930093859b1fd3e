//! Members, a register, and what must hold at every moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocols::member::message::{Message, Note};
use conclave_protocols::member::{Command, Event, LockEvent, Member, Node, Timer};
use conclave_protocols::policy::Policy;
use conclave_protocols::protocol::{Input, InputOf, OutboxOf};
use conclave_protocols::record::{MemberInfo, Record};
use conclave_protocols::register::MemoryRegister;
use conclave_protocols::sim::{Clock, Simulator};
use conclave_protocols::{Epoch, FencingToken, Incarnation, LocalTime, LockName, PodUid, Protocol};

/// A node of the simulated cluster.
pub(crate) enum Place {
    Member(Box<Member>),
    Register(MemoryRegister),
}

impl Protocol for Place {
    type Peer = Node;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        if let Self::Member(member) = self {
            member.start(now, out);
        }
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match (self, input) {
            (Self::Member(member), input) => member.handle(now, input, out),
            (
                Self::Register(register),
                Input::Message { from, message: Message::Register(call) },
            ) => {
                let term = Epoch(now.0 / 1_000_000_000);
                if let Some(answer) = register.answer(&call, term) {
                    out.send(from, Message::Register(answer));
                }
            }
            (Self::Register(_), _) => {}
        }
    }
}

/// A lock that a member believes to hold: until when by its own clock, and with which token.
type Belief = (LocalTime, FencingToken);

pub(crate) struct World {
    sim: Simulator<Place>,
    members: Vec<Incarnation>,
    policy: Policy,
    believes: BTreeMap<(usize, LockName), Belief>,
    tokens: BTreeMap<LockName, FencingToken>,
    grants: u64,
    seed: u64,
    pub(crate) trace: bool,
    /// Members that are about to end, and lead no more.
    ending: BTreeSet<usize>,
}

impl World {
    pub(crate) fn new(seed: u64, members: usize, policy: Policy) -> Self {
        let mut sim = Simulator::new(seed);
        sim.add(Node::Register, Place::Register(MemoryRegister::default()));
        let mut world = Self {
            sim,
            members: Vec::new(),
            policy,
            believes: BTreeMap::new(),
            tokens: BTreeMap::new(),
            grants: 0,
            seed,
            trace: false,
            ending: BTreeSet::new(),
        };
        for _ in 0..members {
            world.join();
        }
        world
    }

    pub(crate) fn join(&mut self) -> usize {
        let index = self.members.len();
        let pod = PodUid(index as u128 + 1);
        let incarnation = Incarnation { pod, run: self.sim.random().up_to(1 << 53) };
        let info = MemberInfo {
            incarnation,
            name: format!("pod-{index}"),
            addresses: Vec::new(),
            priority: 0,
            admission: 0,
            protocol: (1, 1),
        };
        let offset = Duration::from_secs(self.sim.random().up_to(1_000_000));
        let rate = i32::try_from(self.sim.random().up_to(40_001)).expect("small") - 20_000;
        let clock = Clock { offset, rate_ppm: rate };
        let member = Member::new(info, self.policy.clone(), Epoch(0));
        self.members.push(incarnation);
        let place = Place::Member(Box::new(member));
        self.sim.add_with_clock(Node::Member(incarnation), place, clock);
        index
    }

    fn node(&self, member: usize) -> Node {
        Node::Member(self.members[member])
    }

    fn member(&self, index: usize) -> Option<&Member> {
        match self.sim.node(self.node(index))? {
            Place::Member(member) => Some(member),
            Place::Register(_) => None,
        }
    }

    pub(crate) fn record(&self) -> &Record {
        match self.sim.node(Node::Register) {
            Some(Place::Register(register)) => register.record().expect("a view"),
            Some(Place::Member(_)) | None => unreachable!("the register does not crash"),
        }
    }

    /// Who has an office at this moment, by its own clock.
    pub(crate) fn leaders(&self) -> Vec<usize> {
        let leads = |index: &usize| {
            let now = self.sim.local_time(self.node(*index));
            self.member(*index).and_then(Member::office) > now
        };
        (0..self.members.len())
            .filter(|index| self.member(*index).is_some() && leads(index))
            .collect()
    }

    pub(crate) fn holder(&self, lock: &str) -> Option<usize> {
        let holders = self.holders(&name(lock));
        assert!(holders.len() <= 1, "seed {}: {holders:?} hold {lock}", self.seed);
        holders.first().copied()
    }

    fn holders(&self, lock: &LockName) -> Vec<usize> {
        let believes = |index: &usize| {
            let now = self.sim.local_time(self.node(*index));
            let deadline = self.believes.get(&(*index, lock.clone())).map(|(until, _)| *until);
            now.is_some() && deadline > now
        };
        (0..self.members.len()).filter(believes).collect()
    }

    pub(crate) fn grants(&self) -> u64 {
        self.grants
    }

    pub(crate) fn enter(&mut self, member: usize, lock: &str) {
        let note = Note { owner: format!("app-{member}"), metadata: None };
        self.command(member, Command::Enter { lock: name(lock), note });
    }

    pub(crate) fn exit(&mut self, member: usize, lock: &str) {
        self.believes.remove(&(member, name(lock)));
        self.command(member, Command::Exit { lock: name(lock) });
    }

    pub(crate) fn leave(&mut self, member: usize) {
        self.believes.retain(|(index, _), _| *index != member);
        self.command(member, Command::Leave);
    }

    pub(crate) fn set_policy(&mut self, policy: &Policy) {
        self.policy = policy.clone();
        for member in 0..self.members.len() {
            self.command(member, Command::Policy(Box::new(policy.clone())));
        }
    }

    fn command(&mut self, member: usize, command: Command) {
        self.sim.command(self.node(member), command);
        self.observe();
    }

    pub(crate) fn crash(&mut self, member: usize) {
        self.sim.crash(self.node(member));
        self.believes.retain(|(index, _), _| *index != member);
    }

    pub(crate) fn isolate(&mut self, member: usize) {
        let me = self.node(member);
        for other in 0..self.members.len() {
            self.sim.cut(me, self.node(other));
            self.sim.cut(self.node(other), me);
        }
        self.sim.cut(me, Node::Register);
        self.sim.cut(Node::Register, me);
    }

    pub(crate) fn cut_register(&mut self, away: bool) {
        if !away {
            return self.sim.heal();
        }
        for member in 0..self.members.len() {
            self.sim.cut(Node::Register, self.node(member));
            self.sim.cut(self.node(member), Node::Register);
        }
    }

    pub(crate) fn heal(&mut self) {
        self.sim.heal();
        for member in 0..self.members.len() {
            self.sim.thaw(self.node(member));
        }
        self.observe();
    }

    pub(crate) fn run_for(&mut self, span: Duration) {
        let end = self.sim.now() + span;
        while self.sim.step_until(end) {
            self.observe();
        }
        self.sim.run_for(end.saturating_sub(self.sim.now()));
    }

    /// Faults of all kinds, one after another.
    pub(crate) fn storm(&mut self, faults: u64) {
        for _ in 0..faults {
            let span = self.sim.random().below(Duration::from_secs(4));
            self.fault();
            self.run_for(span);
        }
    }

    fn fault(&mut self) {
        let all = self.members.len() as u64;
        let one = usize::try_from(self.sim.random().up_to(all)).expect("small");
        let other = usize::try_from(self.sim.random().up_to(all)).expect("small");
        let fit = |m: &usize| self.member(*m).is_some() && !self.ending.contains(m);
        let living = (0..self.members.len()).filter(fit).count();
        let locks = ["a", "b"];
        let lock = locks[usize::from(self.sim.random().once_in(2))];
        let fault = self.sim.random().up_to(16);
        if self.trace {
            println!("{:?} FAULT {fault} one {one} other {other} lock {lock}", self.sim.now());
        }
        match fault {
            0 if living > 3 => self.crash(one),
            1 if living < 7 => {
                self.join();
            }
            2 => self.isolate(one),
            3 => self.sim.cut(self.node(one), self.node(other)),
            4 => self.sim.freeze(self.node(one)),
            5 => self.cut_register(true),
            6 | 7 => self.heal(),
            8 if living > 3 => {
                self.ending.insert(one);
                self.leave(one);
            }
            9 if living > 3 => {
                self.ending.insert(one);
                self.command(one, Command::Drain);
            }
            10 | 11 => self.exit(one, lock),
            _ => self.enter(one, lock),
        }
    }

    /// Takes note of what was told, and checks what must hold.
    fn observe(&mut self) {
        for (at, node, event) in self.sim.take_told() {
            let Node::Member(incarnation) = node else { continue };
            let index = self.members.iter().position(|m| *m == incarnation).expect("known");
            if self.trace {
                println!("{at:?} {index} {event:?}");
            }
            match event {
                Event::Lock(lock, LockEvent::Entered { token: Some(token), deadline, .. }) => {
                    let last = self.tokens.insert(lock.clone(), token);
                    assert!(
                        last < Some(token),
                        "seed {} at {at:?}: {lock} went from {last:?} to {token}",
                        self.seed
                    );
                    self.believes.insert((index, lock), (deadline, token));
                    self.grants += 1;
                }
                Event::Lock(lock, LockEvent::Extended { deadline, .. }) => {
                    if let Some(belief) = self.believes.get_mut(&(index, lock)) {
                        belief.0 = deadline;
                    }
                }
                Event::Lock(lock, LockEvent::Lost(_)) => {
                    self.believes.remove(&(index, lock));
                }
                Event::Lock(_, LockEvent::Queued(_) | LockEvent::Entered { token: None, .. })
                | Event::Met(_)
                | Event::Installed(_)
                | Event::Standing(_)
                | Event::Confirmed(_)
                | Event::Elected { .. }
                | Event::Ignored(_)
                | Event::Left => {}
            }
        }
        let leaders = self.leaders();
        assert!(leaders.len() <= 1, "seed {} at {:?}: {leaders:?} lead", self.seed, self.sim.now());
        for lock in self.tokens.keys() {
            let holders = self.holders(lock);
            assert!(
                holders.len() <= 1,
                "seed {} at {:?}: {holders:?} hold {lock}",
                self.seed,
                self.sim.now()
            );
        }
    }
}

pub(crate) fn name(lock: &str) -> LockName {
    LockName::try_from(lock.to_owned()).expect("a good name")
}
