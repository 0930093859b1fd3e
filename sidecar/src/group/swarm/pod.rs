//! The nodes: a pod, which is a member and a book driven as `task.rs` drives them, and the register.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::member::message::Message;
use conclave_protocols::member::{Command, Event, Leadership, Member, Node};
use conclave_protocols::policy::Policy;
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::random::Random;
use conclave_protocols::record::MemberInfo;
use conclave_protocols::register::{self, MemoryRegister};
use conclave_protocols::trace::{self, Log, Watch};
use conclave_protocols::{Effect, Epoch, Input, LocalTime, LockName, Outbox, Protocol};
use tokio::sync::watch;

use super::super::book::{Book, Intent};
use super::super::task::PodTimer;
use super::super::timers::PodTimers;
use crate::claims::{Ask, Claim, ClaimId, ClaimState, Wait};
use crate::metrics::LockMetrics;

/// Tells the claims of a run apart.
pub(super) type Number = u64;

pub(super) enum Place {
    Pod(Box<Pod>),
    Register(Box<Register>),
}

/// What an application, or a test, asks of a node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Call {
    Ask {
        number: Number,
        lock: LockName,
        named: bool,
        limits: Limits,
        ttl: Option<Duration>,
    },
    Renew(Number),
    Release(Number),
    /// Whoever asked hung up.
    HangUp(Number),
    Drain,
    /// The pod ends in order.
    End,
    /// Of the register: one call in so many has an unknown outcome; none if zero.
    Unsure(u64),
}

/// How long a claim waits, and the longest that it holds.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Limits {
    pub(super) wait: Option<Duration>,
    pub(super) max_hold: Duration,
}

/// What an application sees.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Seen {
    /// A claim stands so now.
    Claim(Number, Shows),
    /// A renewal was answered.
    Renewed(Number, bool),
    /// A release of a hold was answered.
    Released(Number, bool),
    Leads {
        epoch: Epoch,
        until: LocalTime,
    },
    LeadsNot,
    View,
    Left,
}

/// How a claim stands, as far as its application must know.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Shows {
    Held {
        token: Option<u64>,
        epoch: Epoch,
        until: LocalTime,
    },
    Released,
    /// Why.
    Lost(&'static str),
    Refused,
}

/// The one timer of a pod: the next of its own.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Bell;

type Out = OutboxOf<Place>;

pub(super) struct Pod {
    member: Member,
    watch: Watch,
    book: Book,
    timers: PodTimers<PodTimer>,
    open: BTreeMap<Number, (watch::Receiver<Claim>, Option<Shows>)>,
    ids: BTreeMap<Number, (LockName, ClaimId)>,
    leads: bool,
    leaving: bool,
    left: bool,
    gone: bool,
}

impl Pod {
    pub(super) fn new(
        me: MemberInfo,
        policy: Policy,
        status: Epoch,
        metrics: LockMetrics,
        (rate_ppm, log): (i32, Log),
    ) -> Self {
        let book = Book::new(&me.name, me.incarnation, metrics);
        let member = Member::new(me, policy, status);
        Self {
            book,
            watch: Watch::new(&member, rate_ppm, log),
            member,
            timers: PodTimers::new(),
            open: BTreeMap::new(),
            ids: BTreeMap::new(),
            leads: false,
            leaving: false,
            left: false,
            gone: false,
        }
    }

    pub(super) fn member(&self) -> &Member {
        &self.member
    }

    pub(super) fn has_left(&self) -> bool {
        self.gone
    }

    fn call(&mut self, now: LocalTime, call: Call, out: &mut Out) {
        match call {
            Call::Ask { number, lock, named, limits, ttl } => {
                let claim = named.then(|| format!("claim-{number}"));
                let ask = Ask {
                    claim: claim.map(|id| ClaimId::try_from(id).expect("letters and digits")),
                    lock,
                    wait: limits.wait.map_or(Wait::Forever, Wait::For),
                    ttl,
                    max_hold: Some(limits.max_hold),
                    owner: None,
                    metadata: None,
                };
                self.ask(now, number, ask, out);
            }
            Call::Renew(number) => {
                let Some((lock, id)) = self.ids.get(&number) else { return };
                let renewed = self.book.renew(now, lock, id, None);
                out.tell(Seen::Renewed(number, renewed.is_ok()));
            }
            Call::Release(number) => {
                let Some((lock, id)) = self.ids.get(&number) else { return };
                let released = self.book.release(now, lock, id);
                out.tell(Seen::Released(number, released.is_ok()));
            }
            Call::HangUp(number) => {
                let Some((lock, id)) = self.ids.get(&number) else { return };
                self.book.abandon(now, lock, id);
            }
            Call::Drain => self.feed(now, Input::Command(Command::Drain), out),
            Call::End => self.leave(now, out),
            Call::Unsure(_) => {}
        }
        self.grant_intents(now, out);
    }

    fn ask(&mut self, now: LocalTime, number: Number, ask: Ask, out: &mut Out) {
        let policy = self.member.record().map(|record| record.policy.clone());
        let lock = ask.lock.clone();
        let asked = policy.filter(|_| !self.leaving).map(|policy| self.book.ask(now, ask, &policy));
        let Some(Ok(asked)) = asked else {
            return out.tell(Seen::Claim(number, Shows::Refused));
        };
        let id = asked.claim.borrow().id.clone();
        self.ids.insert(number, (lock, id));
        self.open.insert(number, (asked.claim, None));
    }

    /// As the group task does: the claims end, then the member leaves.
    fn leave(&mut self, now: LocalTime, out: &mut Out) {
        self.leaving = true;
        self.book.close(now);
        self.grant_intents(now, out);
        self.timers.set(PodTimer::Leave, now.after(LEAVE));
        self.feed(now, Input::Command(Command::Leave), out);
    }

    /// Rings every timer that is due.
    fn fire(&mut self, now: LocalTime, out: &mut Out) {
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                PodTimer::Member(timer) => self.feed(now, Input::Timer(timer), out),
                PodTimer::Claim(lock, id, due) => {
                    self.book.on_due(now, &lock, &id, due);
                    self.grant_intents(now, out);
                }
                PodTimer::Leave => self.left = true,
                PodTimer::Clock(_) | PodTimer::Links | PodTimer::Believers => {}
            }
        }
    }

    /// Carries out what the claims want of the member, and of the timers.
    fn grant_intents(&mut self, now: LocalTime, out: &mut Out) {
        loop {
            for ((lock, id, due), at) in std::mem::take(&mut self.book.timers) {
                let timer = PodTimer::Claim(lock, id, due);
                match at {
                    Some(at) => self.timers.set(timer, at),
                    None => self.timers.clear(&timer),
                }
            }
            let intents = std::mem::take(&mut self.book.intents);
            if intents.is_empty() && self.book.timers.is_empty() {
                return;
            }
            for intent in intents {
                let command = match intent {
                    Intent::Enter(lock, note) => Command::Enter { lock, note },
                    Intent::Exit(lock) => Command::Exit { lock },
                };
                self.feed_member(now, Input::Command(command), out);
            }
        }
    }

    fn feed(&mut self, now: LocalTime, input: InputOf<Member>, out: &mut Out) {
        self.feed_member(now, input, out);
        self.grant_intents(now, out);
    }

    fn feed_member(&mut self, now: LocalTime, input: InputOf<Member>, out: &mut Out) {
        let mut effects = Outbox::default();
        self.watch.handle(&mut self.member, now, input, &mut effects);
        self.carry_out(now, effects, out);
    }

    fn carry_out(&mut self, now: LocalTime, mut effects: OutboxOf<Member>, out: &mut Out) {
        for effect in effects.drain() {
            match effect {
                Effect::Send { to, message } => out.send(to, message),
                Effect::Arm { timer, after } => {
                    self.timers.set(PodTimer::Member(timer), now.after(after));
                }
                Effect::Disarm(timer) => self.timers.clear(&PodTimer::Member(timer)),
                Effect::Tell(event) => self.on_event(now, event, out),
            }
        }
    }

    fn on_event(&mut self, now: LocalTime, event: Event, out: &mut Out) {
        match event {
            Event::Lock(lock, event) => {
                self.book.on_event(now, &lock, event, |member| member.pod.to_string());
            }
            Event::Leadership(Leadership::Leading(until)) => {
                let epoch = self.member.record().map(|record| record.epoch);
                self.leads = true;
                out.tell(Seen::Leads { epoch: epoch.unwrap_or_default(), until });
            }
            Event::Leadership(_) => {
                if std::mem::take(&mut self.leads) {
                    out.tell(Seen::LeadsNot);
                }
            }
            Event::Installed(_) => out.tell(Seen::View),
            Event::Left => self.left = true,
            Event::Ignored("version") => {
                panic!("a message of a version that this member does not speak")
            }
            Event::Met(_)
            | Event::Grants(_)
            | Event::Grace(_)
            | Event::Confirmed(_)
            | Event::Elected { .. }
            | Event::Ignored(_)
            | Event::Undone(_) => {}
        }
    }

    /// Shows applications what has changed, as polls and streams do, and sets the bell.
    fn after(&mut self, now: LocalTime, out: &mut Out) {
        let mut ended = Vec::new();
        for (number, (claim, shown)) in &mut self.open {
            let Some(shows) = shows(&claim.borrow().state) else { continue };
            if *shown != Some(shows) {
                *shown = Some(shows);
                out.tell(Seen::Claim(*number, shows));
            }
            if !matches!(shows, Shows::Held { .. }) {
                ended.push(*number);
            }
        }
        for number in ended {
            self.open.remove(&number);
        }
        if std::mem::take(&mut self.left) {
            self.gone = true;
            out.tell(Seen::Left);
        }
        match self.timers.next() {
            Some(at) => out.arm(Bell, now.until(at)),
            None => out.disarm(Bell),
        }
    }
}

fn shows(state: &ClaimState) -> Option<Shows> {
    match state {
        ClaimState::Waiting { .. } => None,
        ClaimState::Held(held) => {
            let token = held.token.map(conclave_protocols::FencingToken::get);
            Some(Shows::Held { token, epoch: held.epoch, until: held.safe_until })
        }
        ClaimState::Released => Some(Shows::Released),
        ClaimState::Lost(reason) => Some(Shows::Lost(reason.name())),
        ClaimState::Refused(_) => Some(Shows::Refused),
    }
}

/// A register that may not say whether it did what it was asked.
pub(super) struct Register {
    memory: MemoryRegister,
    random: Random,
    unsure: u64,
    /// How often it was.
    pub(super) unsaid: u64,
    log: Log,
}

impl Register {
    pub(super) fn new(seed: u64, log: Log) -> Self {
        let (memory, random) = (MemoryRegister::default(), Random::new(seed));
        Self { memory, random, unsure: 0, unsaid: 0, log }
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.memory.record().map(|record| record.epoch).unwrap_or_default()
    }

    fn answer_for_sure(
        &mut self,
        from: Node,
        call: &register::Message,
    ) -> Option<register::Message> {
        trace::answer(&mut self.memory, from, call, Epoch(0), &self.log)
    }

    fn answer(&mut self, from: Node, call: &register::Message, out: &mut Out) {
        if self.unsure > 0 && self.random.once_in(self.unsure) {
            self.unsaid += 1;
            if self.random.once_in(2) {
                self.answer_for_sure(from, call);
            }
        } else if let Some(answer) = self.answer_for_sure(from, call) {
            out.send(from, Message::Register(answer));
        }
    }
}

impl Protocol for Place {
    type Peer = Node;
    type Command = Call;
    type Message = Message;
    type Timer = Bell;
    type Event = Seen;

    fn start(&mut self, now: LocalTime, out: &mut Out) {
        if let Self::Pod(pod) = self {
            let mut effects = Outbox::default();
            pod.member.start(now, &mut effects);
            pod.carry_out(now, effects, out);
            pod.after(now, out);
        }
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut Out) {
        match self {
            Self::Pod(pod) if pod.gone => {}
            Self::Pod(pod) => {
                // What is due comes before what has arrived, as the group task orders it.
                pod.fire(now, out);
                match input {
                    Input::Command(call) => pod.call(now, call, out),
                    Input::Message { from, message } => {
                        pod.feed(now, Input::Message { from, message }, out);
                    }
                    Input::Timer(Bell) => {}
                }
                pod.after(now, out);
            }
            Self::Register(register) => match input {
                Input::Command(Call::Unsure(times)) => register.unsure = times,
                Input::Message { from, message: Message::Register(call) } => {
                    register.answer(from, &call, out);
                }
                Input::Message { .. } | Input::Command(_) | Input::Timer(_) => {}
            },
        }
    }
}

/// As long as the group task gives itself.
const LEAVE: Duration = Duration::from_secs(10);
