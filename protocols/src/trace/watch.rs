//! Takes a trace of a member, at the seam between it and its driver.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use super::event::{Event, TraceEntry};
use crate::core::message::{Heartbeat, Message, PeerMessage};
use crate::core::{self, Command, Node, Nominator, Service, Term};
use crate::election::AnyElection;
use crate::ids::{Epoch, Incarnation, LockName};
use crate::locks::{self, LockEvent};
use crate::member::Member;
use crate::mutex::Coordination;
use crate::policy::Arbiter;
use crate::protocol::{Effect, EffectOf, Input, InputOf, OutboxOf, Protocol};
use crate::services::{self, ServiceMessage, Services};
use crate::time::LocalTime;

/// Where the members of one group and its register write down what they do, in order.
#[derive(Clone, Debug)]
pub struct Log(Sender<TraceEntry<LocalTime>>);

impl Log {
    /// An empty one, and where what is written into it comes out, in order.
    pub fn new() -> (Self, Receiver<TraceEntry<LocalTime>>) {
        let (log, entries) = mpsc::channel();
        (Self(log), entries)
    }

    pub(super) fn note(&self, entry: TraceEntry<LocalTime>) {
        // Nobody takes the trace any more.
        let _ = self.0.send(entry);
    }
}

/// A member that can be watched: that of the product, or one with another service.
pub trait Watched:
    Protocol<
        Peer = Node,
        Command = Command<<Self::Service as Service>::Command>,
        Message = MessageOf<Self>,
        Event = core::Event<<Self::Service as Service>::Event>,
    >
{
    /// Its service.
    type Service: Grants;
    /// Its nominator.
    type Nominator: Nominator;

    /// Where its state is.
    fn core(&self) -> &core::Member<Self::Service, Self::Nominator>;
}

type MessageOf<M> = Message<
    <<M as Watched>::Service as Service>::Message,
    <<M as Watched>::Nominator as Nominator>::Message,
>;

impl Watched for Member {
    type Service = Services;
    type Nominator = AnyElection;

    fn core(&self) -> &core::Member<Services, AnyElection> {
        self
    }
}

impl<S: Grants, N: Nominator> Watched for core::Member<S, N> {
    type Service = S;
    type Nominator = N;

    fn core(&self) -> &Self {
        self
    }
}

/// A service whose applications claim names and are granted them, as those of locks are.
pub trait Grants: Service {
    /// Whether with such a message the leader grants something to a member.
    fn grants(message: &Self::Message) -> bool;

    /// What the application asks about a name, if it does.
    fn asks(command: &Self::Command) -> Option<&locks::Command>;

    /// What it is notified of about a name, if it is.
    fn notifies(event: &Self::Event) -> Option<&locks::Event>;
}

impl Grants for Services {
    fn grants(message: &Self::Message) -> bool {
        let ServiceMessage::Lock(message) = message else { return false };
        matches!(message.message.coordination(), Some(Coordination::Grant(_)))
    }

    fn asks(command: &Self::Command) -> Option<&locks::Command> {
        match command {
            services::Command::Lock(command) => Some(command),
            services::Command::Election(_) => None,
        }
    }

    fn notifies(event: &Self::Event) -> Option<&locks::Event> {
        match event {
            services::Event::Lock(event) => Some(event),
            services::Event::Election(_) => None,
        }
    }
}

/// Watches one member, and writes down what it does. Nothing in the member knows of it.
pub struct Watch {
    me: Incarnation,
    log: Log,
    /// What the member promised itself, and whether it refused its view, when it was looked at last.
    promised: LocalTime,
    refused: Option<Epoch>,
    /// The leader lease that it had then.
    leader_lease: Option<(Epoch, LocalTime)>,
    /// Until when its application was notified that it holds.
    holds: BTreeMap<LockName, Term>,
}

impl Watch {
    /// Watches a process that begins. Its clock is too fast by so many parts per million.
    pub fn new<M: Watched>(member: &M, rate_ppm: i32, log: Log) -> Self {
        let me = member.core().me();
        let started = TraceEntry { who: Some(me), event: Event::Started(rate_ppm) };
        log.note(started);
        let (promised, holds) = Default::default();
        Self { me, log, promised, refused: None, leader_lease: None, holds }
    }

    /// Hands an input to the member, takes down what it does, and passes its effects on.
    pub fn handle<M: Watched>(
        &mut self,
        member: &mut M,
        now: LocalTime,
        input: InputOf<M>,
        out: &mut OutboxOf<M>,
    ) {
        if let Input::Command(Command::Service(command)) = &input
            && let Some(locks::Command::Exit { lock } | locks::Command::Pass { lock, .. }) =
                M::Service::asks(command)
        {
            self.note(Event::Released(lock.clone()));
            self.holds.remove(lock);
        }
        let led = member.core().leader_lease().is_some();
        let mut effects = OutboxOf::<M>::default();
        member.handle(now, input, &mut effects);
        let effects: Vec<EffectOf<M>> = effects.drain().collect();
        let member = member.core();
        // A leader that leaves may promise itself, go on holding by that, and give its leader lease up, all at once.
        let (_, until) = member.pledged();
        let leaves = self.refused.is_none() && !member.is_in_view() && until != self.promised;
        if let Some((epoch, _)) = self.leader_lease.filter(|_| leaves && extends::<M>(&effects)) {
            self.note(Event::Promised(epoch));
        }
        if let Some(base) = member.inherits().filter(|_| led) {
            // It resigned to itself.
            self.note(Event::GaveTable(base));
        }
        self.look::<M>(member, now, &effects);
        for effect in effects {
            match effect {
                Effect::Send { to, message } => out.send(to, message),
                Effect::Arm { timer, after } => out.arm(timer, after),
                Effect::Disarm(timer) => out.disarm(timer),
                Effect::Tell(event) => out.tell(event),
            }
        }
    }

    /// The process is over.
    pub fn ended(log: &Log, who: Incarnation) {
        log.note(TraceEntry { who: Some(who), event: Event::Ended });
    }

    fn note(&self, event: Event<LocalTime>) {
        self.log.note(TraceEntry { who: Some(self.me), event });
    }

    /// What one call of the member did is one moment. What a leader promised itself, and that it is in
    /// leader lease, comes first: the rest of what it does rests on that. That it refuses its view comes last.
    fn look<M: Watched>(
        &mut self,
        member: &core::Member<M::Service, M::Nominator>,
        now: LocalTime,
        effects: &[EffectOf<M>],
    ) {
        let (epoch, until) = member.pledged();
        if member.leader_lease().is_some() && until != self.promised && member.is_in_view() {
            self.note(Event::Promised(epoch));
        }
        self.promised = until;
        let leader_lease =
            member.leader_lease().filter(|until| *until > now).map(|until| (epoch, until));
        // A leader that leaves may gain its leader lease, grant, and give it up, all at once.
        let passing = granted_in::<M>(effects).map(|epoch| (epoch, now.after(MOMENT)));
        let led = leader_lease.or_else(|| passing.filter(|_| self.leader_lease.is_none()));
        if let Some((epoch, until)) = led.filter(|_| led != self.leader_lease) {
            self.note(Event::Leads(epoch, until));
        }
        for effect in effects {
            match effect {
                Effect::Send { to: Node::Member(to), message: Message::Peer(message) } => {
                    self.sent::<M>(*to, message);
                }
                Effect::Tell(event) => self.notified::<M::Service>(now, event),
                Effect::Send { .. } | Effect::Arm { .. } | Effect::Disarm(_) => {}
            }
        }
        if self.leader_lease.or(led).is_some() && leader_lease.is_none() {
            self.note(Event::LeadsNot);
        }
        self.leader_lease = leader_lease;
        let refused = (!member.is_in_view()).then_some(epoch);
        if refused != self.refused {
            self.refused = refused;
            if let Some(epoch) = refused {
                self.note(Event::Refused(epoch));
            }
        }
    }

    fn sent<M: Watched>(
        &self,
        to: Incarnation,
        message: &PeerMessage<
            <M::Service as Service>::Message,
            <M::Nominator as Nominator>::Message,
        >,
    ) {
        match message {
            PeerMessage::Promise(promise) => self.note(Event::Promised(promise.epoch)),
            PeerMessage::Seal(seal) => {
                if seal.hand_over.is_some() {
                    self.note(Event::GaveTable(seal.base));
                }
                self.note(Event::Sealed(seal.base));
            }
            PeerMessage::HandOver(table) => self.note(Event::GaveTable(table.base)),
            PeerMessage::Heartbeat(heartbeat) => self.beat(to, heartbeat),
            #[cfg(feature = "next-version")]
            PeerMessage::NextHeartbeat(heartbeat) => self.beat(to, heartbeat),
            PeerMessage::Service(sent) => {
                if M::Service::grants(&sent.body) {
                    self.note(Event::Granted(sent.epoch));
                }
            }
            PeerMessage::Join(_)
            | PeerMessage::Noted
            | PeerMessage::Leave(_)
            | PeerMessage::Refusal { .. }
            | PeerMessage::SealRequest { .. }
            | PeerMessage::SealRefused { .. }
            | PeerMessage::Taken { .. }
            | PeerMessage::Nominator { .. } => {}
        }
    }

    fn beat(&self, member: Incarnation, heartbeat: &Heartbeat) {
        if let Some(extended) = &heartbeat.extended {
            let (epoch, stamp) = (heartbeat.epoch, extended.stamp);
            self.note(Event::Acknowledged { epoch, member, stamp });
        }
    }

    fn notified<S: Grants>(&mut self, now: LocalTime, event: &core::Event<S::Event>) {
        match event {
            core::Event::Installed(record) => {
                self.note(Event::Entered(record.epoch));
                if record.leader == Some(self.me) && record.policy.arbiter == Arbiter::Quorum {
                    // A leader promises itself with the first heartbeat, even if it leaves at once.
                    self.note(Event::Promised(record.epoch));
                }
            }
            core::Event::Service(event) => {
                let Some(locks::Event { lock, event }) = S::notifies(event) else { return };
                let lock = lock.clone();
                match *event {
                    LockEvent::Entered { token: Some(token), epoch, term, .. } => {
                        let until = term.until();
                        self.holds.insert(lock.clone(), term);
                        self.note(Event::Held { lock, token, epoch, until });
                    }
                    LockEvent::Extended { deadline: until, .. } => {
                        if let Some(term) = self.holds.get_mut(&lock) {
                            term.extend(until);
                            self.note(Event::Extended { lock, until });
                        }
                    }
                    LockEvent::Renewed { renewed, listed } => {
                        if let Some(term) = self.holds.get_mut(&lock) {
                            term.set_renewed(now, renewed, listed);
                        }
                    }
                    LockEvent::Lost(_) => {
                        self.holds.remove(&lock);
                        self.note(Event::Lost(lock));
                    }
                    LockEvent::Entered { token: None, .. }
                    | LockEvent::Queued(_)
                    | LockEvent::Left { .. } => {}
                }
            }
            core::Event::Lease(lease) => {
                for (lock, term) in &mut self.holds {
                    let before = term.until();
                    term.renew(*lease);
                    if term.until() > before {
                        let (lock, until) = (lock.clone(), term.until());
                        let event = Event::Extended { lock, until };
                        self.log.note(TraceEntry { who: Some(self.me), event });
                    }
                }
            }
            core::Event::Met(_)
            | core::Event::Leadership(_)
            | core::Event::Grants(_)
            | core::Event::Grace(_)
            | core::Event::Full(_)
            | core::Event::Confirmed(_)
            | core::Event::Elected { .. }
            | core::Event::Suspected(_)
            | core::Event::Trusted { .. }
            | core::Event::Ignored(_)
            | core::Event::Undone(_) => {}
            core::Event::Left => self.note(Event::Ended),
        }
    }
}

/// The view in which a leader grants something with these effects.
fn granted_in<M: Watched>(effects: &[EffectOf<M>]) -> Option<Epoch> {
    effects.iter().find_map(|effect| match effect {
        Effect::Send { message: Message::Peer(PeerMessage::Service(sent)), .. } => {
            M::Service::grants(&sent.body).then_some(sent.epoch)
        }
        Effect::Send { .. } | Effect::Arm { .. } | Effect::Disarm(_) | Effect::Tell(_) => None,
    })
}

/// Whether an application is notified with these effects that it goes on holding.
fn extends<M: Watched>(effects: &[EffectOf<M>]) -> bool {
    effects.iter().any(|effect| match effect {
        Effect::Tell(core::Event::Service(event)) => M::Service::notifies(event)
            .is_some_and(|notified| matches!(notified.event, LockEvent::Extended { .. })),
        Effect::Tell(core::Event::Lease(_)) => true,
        Effect::Tell(_) | Effect::Send { .. } | Effect::Arm { .. } | Effect::Disarm(_) => false,
    })
}

/// Longer than what is lost when readings of clocks are turned into true time.
const MOMENT: Duration = Duration::from_micros(10);
