//! A few members on a bench: one clock for all, messages that take no time, and a hand on every
//! link and on the register.

#[path = "bench/looking.rs"]
mod looking;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use conclave_protocols::member::message::{
    LockMessage, Message, Note, PeerMessage, ServiceMessage,
};
use conclave_protocols::member::{
    Command, Event, LockCommand, LockEvent, Member, Node, OfLock, OfService, Timer,
};
use conclave_protocols::policy::{Arbiter, Policy};
use conclave_protocols::protocol::{Effect, Input, InputOf, Named, Outbox};
use conclave_protocols::record::{MemberInfo, Record};
use conclave_protocols::register::{self, CallId, MemoryRegister, time_term};
use conclave_protocols::version::{self, Versions};
use conclave_protocols::{Epoch, Incarnation, LocalTime, LockName, PodUid, Protocol};

use crate::terms::Terms;

/// What a message states of a lock.
pub(crate) fn of_lock(message: &mut ServiceMessage) -> &mut LockMessage {
    match message {
        ServiceMessage::Lock(message) => message,
        ServiceMessage::Election(message) => panic!("{message:?}"),
    }
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// What becomes of the messages of a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Link {
    /// They wait until the link is free again.
    Held,
    /// They are lost.
    Cut,
}

/// A member dies in the middle of what happens on the bench.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    /// When members were handed so many inputs.
    pub(crate) after: u64,
    pub(crate) member: usize,
    /// Whether what it sent, and has not arrived, is lost.
    pub(crate) loses: bool,
}

#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) now: LocalTime,
    pub(crate) members: Vec<Member>,
    pub(crate) register: MemoryRegister,
    /// What the register answers to each write, instead of carrying it out.
    pub(crate) refuses: Option<fn(CallId) -> register::Message>,
    pub(crate) policy: Policy,
    /// All that was sent, in order.
    pub(crate) sent: Vec<(Node, Node, Message)>,
    /// What each member reported, in order.
    pub(crate) notified: Vec<(usize, Event)>,
    /// Until when each holds a lock that it has not left, as it was notified.
    terms: Terms,
    wires: VecDeque<(Node, Node, Message)>,
    links: BTreeMap<(Node, Node), Link>,
    timers: BTreeMap<(usize, Timer), LocalTime>,
    still: BTreeSet<usize>,
    /// How many inputs members were handed: commands, messages, and timers that went off.
    pub(crate) inputs: u64,
    pub(crate) death: Option<Death>,
    /// Messages of this name are lost.
    pub(crate) lost: Option<&'static str>,
    /// What the next to start speaks.
    pub(crate) versions: Versions,
    /// Of the members that start, in order; of all others 0.
    capacities: Vec<u32>,
    /// In which zones those are, by letters; all others are in none.
    zones: &'static str,
}

impl Bench {
    /// So many members, none of which was started.
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            now: LocalTime(1_000_000_000_000),
            members: Vec::new(),
            register: MemoryRegister::default(),
            refuses: None,
            policy,
            sent: Vec::new(),
            notified: Vec::new(),
            terms: Terms::default(),
            wires: VecDeque::new(),
            links: BTreeMap::new(),
            timers: BTreeMap::new(),
            still: BTreeSet::new(),
            inputs: 0,
            death: None,
            lost: None,
            versions: (version::FIRST, version::LATEST),
            capacities: Vec::new(),
            zones: "",
        }
    }

    /// A group of so many members in one view, which the first leads.
    pub(crate) fn group(members: usize, policy: Policy) -> Self {
        Self::of_capacities(&vec![0; members], policy)
    }

    /// The same, of members with these capacities.
    pub(crate) fn of_capacities(capacities: &[u32], policy: Policy) -> Self {
        Self::in_zones("", capacities, policy)
    }

    /// The same, in the zones that letters name.
    pub(crate) fn in_zones(zones: &'static str, capacities: &[u32], policy: Policy) -> Self {
        let members = capacities.len();
        let mut bench = Self { capacities: capacities.to_vec(), zones, ..Self::new(policy) };
        for _ in 0..members {
            bench.start();
            bench.wait(SECOND * 2);
        }
        assert_eq!(bench.record().members.len(), members);
        assert_eq!(bench.leader(), Some(0));
        bench.forget();
        bench
    }

    /// Members that discovery finds, in the zones that letters name: whom they elect leads.
    pub(crate) fn unarbitrated(zones: &'static str, capacities: &[u32], policy: Policy) -> Self {
        let policy = Policy { arbiter: Arbiter::None, ..policy };
        let mut bench = Self { capacities: capacities.to_vec(), zones, ..Self::new(policy) };
        let members: Vec<usize> = capacities.iter().map(|_| bench.start()).collect();
        let found: Vec<MemberInfo> = members.iter().map(|one| bench.started_as(*one)).collect();
        for member in members {
            bench.command(member, Command::Discovered(found.clone()));
        }
        bench.wait(SECOND * 4);
        bench
    }

    /// What a member states of itself when it starts.
    fn started_as(&self, index: usize) -> MemberInfo {
        let capacity = self.capacities.get(index).copied().unwrap_or_default();
        let zone = self.zones.get(index..=index).map(str::to_owned);
        MemberInfo { protocol: self.versions, capacity, zone, ..info(index, 7) }
    }

    /// Another member starts.
    pub(crate) fn start(&mut self) -> usize {
        let index = self.members.len();
        let epoch = self.register.record().map_or(Epoch(0), |record| record.epoch);
        let member = Member::new(self.started_as(index), self.policy.clone(), epoch);
        self.members.push(member);
        let mut out = Outbox::default();
        self.members[index].start(self.now, &mut out);
        self.carry_out(index, out);
        self.settle();
        index
    }

    /// Forgets what was sent and reported so far.
    pub(crate) fn forget(&mut self) {
        self.sent.clear();
        self.notified.clear();
    }

    // ----- looking

    pub(crate) fn node(&self, member: usize) -> Node {
        Node::Member(self.members[member].me())
    }

    pub(crate) fn record(&self) -> &Record {
        self.register.record().expect("there is a view")
    }

    /// Who has a leader lease.
    pub(crate) fn leader(&self) -> Option<usize> {
        let leads = |member: &Member| member.leader_lease() > Some(self.now);
        let leaders: Vec<usize> =
            (0..self.members.len()).filter(|index| leads(&self.members[*index])).collect();
        assert!(leaders.len() <= 1, "{leaders:?} lead");
        leaders.first().copied()
    }

    /// Until when a member holds a lock, as it was last notified.
    pub(crate) fn deadline(&self, member: usize, lock: &str) -> Option<LocalTime> {
        let runs = |(of, until)| (of == member && until > self.now).then_some(until);
        self.terms.of(lock).find_map(runs)
    }

    fn notify(&mut self, member: usize, event: Event) {
        self.terms.hear(member, self.now, &event);
        if let Event::Service(OfService::Lock(OfLock {
            lock,
            event: LockEvent::Entered { term, .. },
        })) = &event
        {
            self.terms.entered((member, lock.clone()), *term);
        }
        // Of a large group each hears of each, again and again.
        if !matches!(event, Event::Met(_)) {
            self.notified.push((member, event));
        }
    }

    pub(crate) fn holds(&self, member: usize, lock: &str) -> bool {
        self.deadline(member, lock).is_some()
    }

    // ----- doing

    /// No application asked who leads, so none is waited for.
    pub(crate) fn command(&mut self, member: usize, command: Command) {
        let drains = matches!(command, Command::Drain | Command::Resign { .. });
        self.command_believed(member, command);
        if drains {
            self.command_believed(member, Command::Notified(self.now));
        }
    }

    /// Applications were notified of all that this member reported about its leader lease.
    pub(crate) fn command_believed(&mut self, member: usize, command: Command) {
        self.feed(member, Input::Command(command));
        self.settle();
    }

    pub(crate) fn enter(&mut self, member: usize, lock: &str) {
        self.command(
            member,
            Command::Service(LockCommand::Enter { lock: name(lock), note: Note::default() }.into()),
        );
    }

    /// Several want a lock at the same moment: none has heard of another's intent.
    pub(crate) fn enter_at_once(&mut self, members: &[usize], lock: &str) {
        for member in members {
            let enter = Command::Service(
                LockCommand::Enter { lock: name(lock), note: Note::default() }.into(),
            );
            self.feed(*member, Input::Command(enter));
        }
        self.settle();
    }

    pub(crate) fn exit(&mut self, member: usize, lock: &str) {
        self.terms.over(&(member, name(lock)));
        self.command(member, Command::Service(LockCommand::Exit { lock: name(lock) }.into()));
    }

    /// An application that holds gives back, and another of its pod that waits takes its place.
    pub(crate) fn pass(&mut self, member: usize, lock: &str, owner: &str) {
        self.terms.over(&(member, name(lock)));
        let note = Note { owner: owner.to_owned(), metadata: None };
        self.command(member, Command::Service(LockCommand::Pass { lock: name(lock), note }.into()));
    }

    /// Delivers a message that no member of the bench has sent.
    pub(crate) fn deliver(&mut self, from: Incarnation, to: usize, message: PeerMessage) {
        let message = Message::Peer(message);
        self.feed(to, Input::Message { from: Node::Member(from), message });
        self.settle();
    }

    /// A member does not act and hears nothing any more: it crashed, or is frozen.
    pub(crate) fn stop(&mut self, member: usize) {
        self.still.insert(member);
    }

    pub(crate) fn is_still(&self, member: usize) -> bool {
        self.still.contains(&member)
    }

    /// A frozen member goes on.
    pub(crate) fn go_on(&mut self, member: usize) {
        self.still.remove(&member);
        self.settle();
    }

    /// What becomes of what these two send to each other.
    pub(crate) fn link(&mut self, one: Node, other: Node, link: Link) {
        self.way(one, other, link);
        self.way(other, one, link);
    }

    /// What becomes of what one sends to the other.
    pub(crate) fn way(&mut self, from: Node, to: Node, link: Link) {
        self.links.insert((from, to), link);
    }

    /// The first message that waits for a link arrives; the others go on waiting.
    pub(crate) fn let_one_pass(&mut self, from: Node, to: Node) {
        let place = self.wires.iter().position(|(f, t, _)| (*f, *t) == (from, to));
        let place = place.expect("a message waits");
        let (from, to, message) = self.wires.remove(place).expect("just seen");
        self.arrive(from, to, message);
        self.settle();
    }

    /// All messages that wait for a link arrive, up to the first of this name.
    pub(crate) fn pass_until(&mut self, from: Node, to: Node, name: &str) {
        let next = |bench: &Self| {
            let (_, _, message) = bench.wires.iter().find(|(f, t, _)| (*f, *t) == (from, to))?;
            Some(message.name())
        };
        while next(self).is_some_and(|next| next != name) {
            self.let_one_pass(from, to);
        }
    }

    /// The last message that waits for a link overtakes the others.
    pub(crate) fn let_last_pass(&mut self, from: Node, to: Node) {
        let place = self.wires.iter().rposition(|(f, t, _)| (*f, *t) == (from, to));
        let last = place.and_then(|place| self.wires.remove(place)).expect("a message waits");
        self.wires.push_front(last);
        self.let_one_pass(from, to);
    }

    pub(crate) fn free(&mut self, one: Node, other: Node) {
        self.links.remove(&(one, other));
        self.links.remove(&(other, one));
        self.settle();
    }

    /// A member can send nothing to any other, and hear nothing.
    pub(crate) fn cut_off(&mut self, member: usize) {
        for other in (0..self.members.len()).filter(|other| *other != member) {
            self.link(self.node(member), self.node(other), Link::Cut);
        }
    }

    /// Time passes, and timers go off in their order.
    pub(crate) fn wait(&mut self, span: Duration) {
        let end = self.now.after(span);
        loop {
            let due = self.timers.iter().filter(|((m, _), _)| !self.still.contains(m));
            let next = due.min_by_key(|(_, at)| **at).map(|(timer, at)| (*timer, *at));
            let Some((timer, at)) = next.filter(|(_, at)| *at <= end) else { break };
            self.now = self.now.max(at);
            self.timers.remove(&timer);
            self.feed(timer.0, Input::Timer(timer.1));
            self.settle();
        }
        self.now = end;
    }

    /// Delivers every message that may be.
    fn settle(&mut self) {
        let may = |bench: &Self, (from, to, _): &(Node, Node, Message)| {
            !bench.links.contains_key(&(*from, *to))
                && bench.index(*to).is_none_or(|index| !bench.still.contains(&index))
        };
        while let Some(place) = self.wires.iter().position(|sent| may(self, sent)) {
            let Some((from, to, message)) = self.wires.remove(place) else { return };
            self.arrive(from, to, message);
        }
    }

    fn arrive(&mut self, from: Node, to: Node, message: Message) {
        match (self.index(to), message) {
            (Some(index), message) => self.feed(index, Input::Message { from, message }),
            (None, Message::Register(call)) => {
                if let Some(answer) = self.answer(&call) {
                    self.put_on_wire(Node::Register, from, Message::Register(answer));
                }
            }
            (None, Message::Peer(_)) => {}
        }
    }

    /// What the register answers.
    fn answer(&mut self, call: &register::Message) -> Option<register::Message> {
        match (call, self.refuses) {
            (register::Message::Write { id, .. }, Some(refused)) => Some(refused(*id)),
            _ => self.register.answer(call, time_term(self.now - LocalTime::default())),
        }
    }

    pub(crate) fn index(&self, node: Node) -> Option<usize> {
        match node {
            Node::Register => None,
            Node::Member(one) => self.members.iter().position(|member| member.me() == one),
        }
    }

    fn feed(&mut self, member: usize, input: InputOf<Member>) {
        let mut out = Outbox::default();
        self.members[member].handle(self.now, input, &mut out);
        self.carry_out(member, out);
        self.inputs += 1;
        if let Some(death) = self.death.take_if(|death| death.after == self.inputs) {
            self.stop(death.member);
            let node = self.node(death.member);
            self.wires.retain(|(from, _, _)| *from != node || !death.loses);
        }
    }

    fn carry_out(&mut self, member: usize, mut out: Outbox<Node, Message, Timer, Event>) {
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => self.put_on_wire(self.node(member), to, message),
                Effect::Arm { timer, after } => {
                    self.timers.insert((member, timer), self.now.after(after));
                }
                Effect::Disarm(timer) => {
                    self.timers.remove(&(member, timer));
                }
                Effect::Tell(event) => self.notify(member, event),
            }
        }
    }

    fn put_on_wire(&mut self, from: Node, to: Node, message: Message) {
        self.sent.push((from, to, message.clone()));
        let lost = self.lost == Some(message.name());
        if self.links.get(&(from, to)) != Some(&Link::Cut) && !lost {
            self.wires.push_back((from, to, message));
        }
    }
}

pub(crate) fn info(index: usize, run: u64) -> MemberInfo {
    // Nonces are drawn from the run: no two processes have the same.
    let run = run + 16 * index as u64;
    MemberInfo {
        incarnation: Incarnation { pod: PodUid(index as u128 + 1), run },
        name: format!("pod-{index}"),
        addresses: Vec::new(),
        priority: 0,
        capacity: 0,
        zone: None,
        seniority: 0,
        protocol: (version::FIRST, version::LATEST),
    }
}

pub(crate) fn name(lock: &str) -> LockName {
    LockName::try_from(lock.to_owned()).expect("a good name")
}
