//! Whole members in the simulator, with a register: what they send in the elections of their group.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::elections::hold_of;
use conclave_protocols::member::message::{ElectionPart, Message, Note};
use conclave_protocols::member::{
    Candidacy, Command, ElectionCommand, ElectionEvent, Event, LockCommand, LockEvent, Member,
    Node, OfElection, OfLock, OfService, ServiceCommand, Timer,
};
use conclave_protocols::policy::{ElectionAlgorithm, ElectionPolicy, Policy};
use conclave_protocols::protocol::{Effect, Input, InputOf, Outbox, OutboxOf};
use conclave_protocols::record::{MemberInfo, Record};
use conclave_protocols::register::MemoryRegister;
use conclave_protocols::sim::Simulator;
use conclave_protocols::{Epoch, HoldName, Incarnation, LocalTime, PodUid, Protocol, version};

use crate::measure::T;

/// A group with one named election.
#[derive(Clone)]
pub(crate) struct Whole {
    pub(crate) sim: Simulator<Place>,
    policy: Policy,
    members: u32,
}

/// A node of the simulator.
#[derive(Clone)]
pub(crate) enum Place {
    Member(Box<Pod>),
    Register(Box<MemoryRegister>),
}

/// A member, and what a sidecar does for its application: a nominee asks for the lead.
#[derive(Clone)]
pub(crate) struct Pod {
    member: Member,
    candidate: bool,
    asked: bool,
    leads: bool,
    /// What it sent about the named election, and about the one of the group's leader.
    pub(crate) named: BTreeMap<ElectionPart, u64>,
    pub(crate) nominating: BTreeMap<ElectionPart, u64>,
    /// What the ballots that it took part in cost it, as it was notified.
    pub(crate) reported: Vec<u64>,
}

impl Whole {
    /// A group of one member.
    pub(crate) fn new(algorithm: ElectionAlgorithm) -> Self {
        let elections = vec![ElectionPolicy::new(NAME, algorithm)];
        let policy = Policy { election: algorithm, elections, ..Policy::default() };
        let mut sim = Simulator::new(0);
        sim.set_delay(T, T);
        sim.add(Node::Register, Place::Register(Box::default()));
        let mut whole = Self { sim, policy, members: 0 };
        whole.grow(1);
        whole
    }

    /// More members join, until there are so many.
    pub(crate) fn grow(&mut self, members: u32) {
        for index in self.members..members {
            let incarnation = Incarnation { pod: PodUid(u128::from(index) + 1), run: 7 };
            let info = MemberInfo {
                incarnation,
                name: format!("pod-{index}"),
                addresses: Vec::new(),
                priority: 0,
                capacity: 0,
                zone: None,
                seniority: 0,
                protocol: (version::FIRST, version::LATEST),
            };
            let member = Member::new(info, self.policy.clone(), Epoch(0));
            self.sim.add(Node::Member(incarnation), Place::Member(Box::new(Pod::new(member))));
        }
        self.members = members;
        let all = |whole: &Self| {
            whole.record().is_some_and(|record| record.members.len() == members as usize)
        };
        self.until("all are members", all);
        // Leases and admission are as they stay.
        self.sim.run_for(Duration::from_secs(8));
    }

    pub(crate) fn record(&self) -> Option<&Record> {
        match self.sim.node(Node::Register) {
            Some(Place::Register(register)) => register.record(),
            Some(Place::Member(_)) | None => None,
        }
    }

    /// The members of the view that live, by rank.
    pub(crate) fn ranks(&self) -> Vec<Incarnation> {
        let all = self.record().into_iter().flat_map(|record| record.members.iter());
        all.map(|info| info.incarnation).filter(|one| self.pod(*one).is_some()).collect()
    }

    pub(crate) fn pod(&self, member: Incarnation) -> Option<&Pod> {
        match self.sim.node(Node::Member(member)) {
            Some(Place::Member(pod)) => Some(pod),
            Some(Place::Register(_)) | None => None,
        }
    }

    fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.sim.nodes().filter_map(|(_, place)| match place {
            Place::Member(pod) => Some(&**pod),
            Place::Register(_) => None,
        })
    }

    /// The member with the leader lease.
    pub(crate) fn group_leader(&self) -> Option<Incarnation> {
        let now = |pod: &Pod| self.sim.local_time(Node::Member(pod.member.me()));
        let leader = self.pods().find(|pod| pod.member.leader_lease() > now(pod));
        leader.map(|pod| pod.member.me())
    }

    /// The member that leads in the named election.
    pub(crate) fn lead(&self) -> Option<Incarnation> {
        let leaders: Vec<_> =
            self.pods().filter(|pod| pod.leads).map(|pod| pod.member.me()).collect();
        assert!(leaders.len() <= 1, "{leaders:?} lead");
        leaders.first().copied()
    }

    /// What the members that live have sent.
    pub(crate) fn count(
        &self,
        of: fn(&Pod) -> &BTreeMap<ElectionPart, u64>,
        part: ElectionPart,
    ) -> u64 {
        self.pods().map(|pod| of(pod).get(&part).copied().unwrap_or(0)).sum()
    }

    /// What the ballots cost, as the members were notified.
    pub(crate) fn reported(&self) -> u64 {
        self.pods().flat_map(|pod| pod.reported.iter()).sum()
    }

    pub(crate) fn stand(&mut self, member: Incarnation, priority: i32) {
        let candidacy = Candidacy { priority, ..Candidacy::default() };
        let stand = ElectionCommand::Stand { election: lead(), candidacy };
        self.sim.command(Node::Member(member), Command::Service(stand.into()));
    }

    pub(crate) fn withdraw(&mut self, member: Incarnation) {
        let withdraw = ElectionCommand::Withdraw { election: lead() };
        self.sim.command(Node::Member(member), Command::Service(withdraw.into()));
    }

    /// Goes on until something is so.
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let end = self.sim.now() + Duration::from_mins(2);
        while !is_so(self) {
            assert!(self.sim.step_until(end), "{what}: not in time");
        }
    }
}

impl Pod {
    fn new(member: Member) -> Self {
        Self {
            member,
            candidate: false,
            asked: false,
            leads: false,
            named: BTreeMap::new(),
            nominating: BTreeMap::new(),
            reported: Vec::new(),
        }
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Member>, out: &mut OutboxOf<Member>) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            if let Input::Command(Command::Service(command)) = &input {
                inputs.extend(self.candidacy(command));
            }
            let mut effects = Outbox::default();
            self.member.handle(now, input, &mut effects);
            for effect in effects.effects() {
                match effect {
                    Effect::Send { message: Message::Peer(message), .. } => {
                        if let Some(about) = message.of_election() {
                            let counts = match about.election {
                                Some(_) => &mut self.named,
                                None => &mut self.nominating,
                            };
                            *counts.entry(about.part).or_default() += 1;
                        }
                    }
                    Effect::Tell(event) => inputs.extend(self.hear(event)),
                    Effect::Send { .. } | Effect::Arm { .. } | Effect::Disarm(_) => {}
                }
            }
            effects.pour_into(out, |message| message, |timer| timer);
        }
    }

    /// The application stands, or does not any more and gives the lead back.
    fn candidacy(&mut self, command: &ServiceCommand) -> Option<InputOf<Member>> {
        match command {
            ServiceCommand::Election(ElectionCommand::Stand { .. }) => self.candidate = true,
            ServiceCommand::Election(ElectionCommand::Withdraw { .. }) => {
                self.candidate = false;
                return self.exit();
            }
            ServiceCommand::Election(ElectionCommand::Transfer { .. })
            | ServiceCommand::Lock(_) => {}
        }
        None
    }

    fn exit(&mut self) -> Option<InputOf<Member>> {
        self.leads = false;
        let exit = LockCommand::Exit { lock: lead() };
        std::mem::take(&mut self.asked).then(|| Input::Command(Command::Service(exit.into())))
    }

    fn hear(&mut self, event: &Event) -> Option<InputOf<Member>> {
        let Event::Service(about) = event else { return None };
        match about {
            OfService::Election(OfElection { event, .. }) => self.election(event),
            OfService::Lock(OfLock { event, .. }) => {
                match event {
                    LockEvent::Entered { .. } => self.leads = self.asked,
                    LockEvent::Lost(_) => (self.asked, self.leads) = (false, false),
                    LockEvent::Queued(_)
                    | LockEvent::Extended { .. }
                    | LockEvent::Left { .. }
                    | LockEvent::Renewed { .. } => {}
                }
                None
            }
        }
    }

    fn election(&mut self, event: &ElectionEvent) -> Option<InputOf<Member>> {
        match event {
            ElectionEvent::Elected { winner, messages, .. } => {
                self.reported.push(*messages);
                if *winner == self.member.me() && self.candidate && !self.asked {
                    self.asked = true;
                    let enter = LockCommand::Enter { lock: lead(), note: Note::default() };
                    return Some(Input::Command(Command::Service(enter.into())));
                }
                None
            }
            ElectionEvent::State { leader, .. } => {
                let other = leader.is_some_and(|leader| leader != self.member.me());
                if other && !self.leads { self.exit() } else { None }
            }
            ElectionEvent::HandOver => self.exit(),
        }
    }
}

impl Protocol for Place {
    type Peer = Node;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = ();

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        if let Self::Member(pod) = self {
            let mut effects = Outbox::default();
            pod.member.start(now, &mut effects);
            without_events(effects, out);
        }
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match (self, input) {
            (Self::Member(pod), input) => {
                let mut effects = Outbox::default();
                pod.handle(now, input, &mut effects);
                without_events(effects, out);
            }
            (
                Self::Register(register),
                Input::Message { from, message: Message::Register(call) },
            ) => {
                if let Some(answer) = register.answer(&call, Epoch(0)) {
                    out.send(from, Message::Register(answer));
                }
            }
            (Self::Register(_), input) => unreachable!("{input:?}"),
        }
    }
}

fn without_events(mut effects: OutboxOf<Member>, out: &mut OutboxOf<Place>) {
    for effect in effects.drain() {
        match effect {
            Effect::Send { to, message } => out.send(to, message),
            Effect::Arm { timer, after } => out.arm(timer, after),
            Effect::Disarm(timer) => out.disarm(timer),
            Effect::Tell(_) => {}
        }
    }
}

fn lead() -> HoldName {
    hold_of(NAME).expect("a name")
}

const NAME: &str = "reports";
