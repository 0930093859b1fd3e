//! What a pod runs, as one value without input or output of its own: its member, its claims, its group
//! clock, its timers, and the order in which they are served.
//!
//! The group task drives it with sockets and the clocks of the machine, the swarm with simulated ones.
//! Each call has one reading of the clocks, and comes in three steps:
//!
//! 1. What is due comes before what has arrived: a process that was held up ends what has ended before it
//!    hears of anything else.
//! 2. What has arrived goes to the part that it is for.
//! 3. What the claims want of the member by then is handed to it, until they want nothing more.

mod ending;
mod lead;
mod locks;
pub(super) mod requests;
mod time;

use std::collections::BTreeMap;

use conclave_protocols::clock::{self, ClockMap, VirtualClock};
use conclave_protocols::elections::election_of;
use conclave_protocols::member::message::{Message, PeerMessage};
use conclave_protocols::member::{
    self, Command, Event, Leadership, LockCommand, Member, Node, OfElection, OfLock, OfService,
    StatusEpoch,
};
use conclave_protocols::policy::{Arbiter, Policy};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::record::{MemberInfo, Record};
use conclave_protocols::{
    Effect, Incarnation, Input, LocalTime, LockName, MemberId, Outbox, Protocol, register,
};
use tracing::warn;

use self::time::GroupTime;
pub(in crate::group) use self::time::Relations;
use super::Request;
use super::believers::Notified;
use super::book::{Book, Intent};
use super::candidacies::Candidacies;
use super::timers::PodTimers;
use crate::application::Application;
use crate::claims::ClaimId;
use crate::lease::{News, Order};
use crate::metrics::LockMetrics;
use crate::wire::Payload;

/// One moment, by the two clocks of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// By the clock that deadlines are counted by.
    pub(super) now: LocalTime,
    /// By the clock that the group clock is made from.
    pub(super) raw: LocalTime,
}

/// What arrives at a node.
#[derive(Debug)]
pub(super) enum Arrival {
    /// Nothing: a timer may be due.
    Nothing,
    /// From another member.
    Payload(Incarnation, Payload),
    /// An answer of the register.
    Register(register::Message),
    /// Of a Lease that an election needs.
    Lease(News),
    /// From the application.
    Request(Request),
    /// For the member: what the group's resource, discovery or the kubelet says.
    Command(Command),
    /// Something else was reported to applications about this member's leadership.
    Notified,
    /// What others report of the application.
    Application(Application),
    /// What clock probes say.
    Relations(Relations),
    /// The node is to leave its group.
    End,
}

impl Arrival {
    /// What kind of thing it is.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Nothing => "timer",
            Self::Payload(_, payload) => payload.names().1,
            Self::Register(_) => "register",
            Self::Lease(_) => "lease",
            Self::Request(_) => "request",
            Self::Command(_) => "command",
            Self::Notified => "notified",
            Self::Application(_) => "application",
            Self::Relations(_) => "relations",
            Self::End => "end",
        }
    }
}

/// What a node is in: a process, or the swarm.
pub(super) trait Surroundings {
    /// Hands an input to the member, and may look on.
    fn hand(
        &mut self,
        member: &mut Member,
        now: LocalTime,
        input: InputOf<Member>,
        out: &mut OutboxOf<Member>,
    );

    /// Sends something to another member.
    fn send(&mut self, to: Incarnation, payload: Payload);

    /// Calls the register.
    fn call(&mut self, call: register::Message);

    /// Does something with Leases that elections need.
    fn order(&mut self, order: Order);

    /// The member reported something. What concerns a claim is reported to the claim instead.
    fn notify(&mut self, now: LocalTime, member: &Member, event: Event);

    /// The member goes by that arbiter from now on.
    fn goes_by(&mut self, arbiter: Arbiter);

    /// What was reported to applications about this member's leadership by now. One thread runs a node and answers
    /// applications, so nothing is reported within a step.
    fn notified(&self) -> Notified;

    /// The group clock has another course.
    fn adjusted(&mut self, map: &ClockMap);

    /// This member has compared its clock with those of others.
    fn compared(&mut self, sources: &BTreeMap<MemberId, clock::Source>);

    /// The node drains, or leaves its group.
    fn ends(&mut self, ending: Ending);
}

/// How a node ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ending {
    /// It hands over, and goes on otherwise.
    Drains,
    /// It hands over, and leaves its group when its application leads no more.
    Waits,
    /// It leaves its group.
    Leaves,
}

/// The names of a node's timers.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum PodTimer {
    Member(member::Timer),
    Clock(clock::AnyTimer),
    Claim(LockName, ClaimId),
    /// Leaving takes too long.
    Leave,
    /// The application takes too long to stop.
    Stop,
    /// Something about a candidacy is over.
    Candidacies,
    /// This member hands over: may some application believe in it yet?
    Believers,
}

/// A pod's part in its group.
pub(super) struct PodNode {
    me: Incarnation,
    member: Member,
    book: Book,
    candidacies: Candidacies,
    time: Box<GroupTime>,
    timers: PodTimers<PodTimer>,
    notified: Notified,
    leadership: Leadership,
    ending: Option<Ending>,
    left: bool,
}

impl PodNode {
    /// A node that has yet to be started, with the group clock as it is without a group.
    pub(super) fn new(
        me: MemberInfo,
        policy: Policy,
        status: StatusEpoch,
        metrics: LockMetrics,
        clock: VirtualClock,
        candidacies: Candidacies,
    ) -> Self {
        Self {
            me: me.incarnation,
            book: Book::new(&me.name, me.incarnation, metrics),
            candidacies,
            member: Member::new(me, policy, status),
            time: Box::new(GroupTime::new(clock)),
            timers: PodTimers::new(),
            notified: Notified::default(),
            leadership: Leadership::Isolated,
            ending: None,
            left: false,
        }
    }

    pub(super) fn member(&self) -> &Member {
        &self.member
    }

    /// Whether it has left its group, and does nothing more.
    pub(super) fn has_left(&self) -> bool {
        self.left
    }

    /// When it is to be called, whether anything arrives or not.
    pub(super) fn next_due(&self) -> Option<LocalTime> {
        self.timers.next()
    }

    /// Whether a step is for the group clock: what has arrived, or what is due first.
    pub(super) fn is_for_clock(&self, now: LocalTime, arrival: &Arrival) -> bool {
        matches!(arrival, Arrival::Payload(_, Payload::Clock { .. }) | Arrival::Relations(_))
            || matches!(self.timers.first_due(now), Some(PodTimer::Clock(_)))
    }

    /// Begins, before anything arrives.
    pub(super) fn start(&mut self, at: Moment, around: &mut impl Surroundings) {
        let mut out = Outbox::default();
        self.member.start(at.now, &mut out);
        self.carry_out(at, out, around);
    }

    /// Deals with what has arrived, after all that is due.
    pub(super) fn handle(&mut self, at: Moment, arrival: Arrival, around: &mut impl Surroundings) {
        // Before a timer asks for it.
        self.notified = around.notified();
        self.fire(at, around);
        match arrival {
            Arrival::Nothing => {}
            Arrival::Payload(from, payload) => self.on_payload(at, from, payload, around),
            Arrival::Register(answer) => {
                let message = Message::Register(answer);
                self.feed(at, Input::Message { from: Node::Register, message }, around);
            }
            Arrival::Lease(news) => self.candidacies.on_lease(at.now, &news),
            Arrival::Request(request) => self.on_request(at, request, around),
            Arrival::Command(command) => self.feed(at, Input::Command(command), around),
            Arrival::Notified => self.heed_believers(at, around),
            Arrival::Application(application) => self.candidacies.heed(application),
            Arrival::Relations(relations) => self.on_relations(at, &relations, around),
            Arrival::End => self.end(at, around),
        }
        self.grant_intents(at, around);
        self.leave_if_stopped(at, around);
    }

    /// Fires every timer that is due.
    fn fire(&mut self, at: Moment, around: &mut impl Surroundings) {
        while let Some(timer) = self.timers.take_due(at.now) {
            match timer {
                PodTimer::Member(timer) => self.feed(at, Input::Timer(timer), around),
                PodTimer::Clock(timer) => self.feed_clock(at, Input::Timer(timer), around),
                PodTimer::Claim(lock, id) => self.book.on_due(at.now, &lock, &id),
                PodTimer::Candidacies => self.candidacies.tick(at.now),
                PodTimer::Stop => self.leave(at, around),
                PodTimer::Leave => {
                    warn!(
                        "this pod ends before it has left its group: the others take it for dead"
                    );
                    self.left = true;
                }
                PodTimer::Believers => self.heed_believers(at, around),
            }
            self.grant_intents(at, around);
        }
    }

    fn on_payload(
        &mut self,
        at: Moment,
        from: Incarnation,
        payload: Payload,
        around: &mut impl Surroundings,
    ) {
        match payload {
            Payload::Member(message) => {
                if let PeerMessage::Join(info) = &message {
                    around.notify(at.now, &self.member, Event::Met(info.clone()));
                }
                let message = Message::Peer(message);
                self.feed(at, Input::Message { from: Node::Member(from), message }, around);
            }
            Payload::Clock { epoch, message } => {
                self.on_clock_message(at, from, epoch, message, around);
            }
        }
    }

    /// A leader that hands over need not wait until its last deadline, if no application was sent one so
    /// late.
    fn heed_believers(&mut self, at: Moment, around: &mut impl Surroundings) {
        let hands_over = match self.leadership {
            Leadership::HandingOver => true,
            Leadership::Electing => self.ending.is_some(),
            Leadership::Leading(_) | Leadership::Following(..) | Leadership::Isolated => false,
        };
        if hands_over && self.notified.streams == 0 {
            let command = Command::Notified(self.notified.until);
            self.feed(at, Input::Command(command), around);
        }
    }

    /// Carries out what the claims want of the member, and of the timers.
    fn grant_intents(&mut self, at: Moment, around: &mut impl Surroundings) {
        self.carry_out_intents(at, around);
        for order in self.candidacies.take_orders() {
            around.order(order);
        }
        match self.candidacies.next_due() {
            // What is due since long ago, such as a Lease that anybody may take, is due now: nothing was held up.
            Some(due) => self.timers.set(PodTimer::Candidacies, due.max(at.now)),
            None => self.timers.clear(&PodTimer::Candidacies),
        }
    }

    fn carry_out_intents(&mut self, at: Moment, around: &mut impl Surroundings) {
        loop {
            for ((lock, id), when) in std::mem::take(&mut self.book.timers) {
                let timer = PodTimer::Claim(lock, id);
                match when {
                    Some(when) => self.timers.set(timer, when),
                    None => self.timers.clear(&timer),
                }
            }
            let intents = std::mem::take(&mut self.book.intents);
            let commands = std::mem::take(&mut self.candidacies.intents);
            if intents.is_empty() && commands.is_empty() && self.book.timers.is_empty() {
                return;
            }
            for command in commands {
                self.feed(at, Input::Command(Command::Service(command)), around);
            }
            for intent in intents {
                let command = match intent {
                    Intent::Enter(lock, note) => {
                        Command::Service(LockCommand::Enter { lock, note }.into())
                    }
                    Intent::Exit(lock) => Command::Service(LockCommand::Exit { lock }.into()),
                    Intent::Pass(lock, note) => {
                        Command::Service(LockCommand::Pass { lock, note }.into())
                    }
                };
                self.feed(at, Input::Command(command), around);
            }
        }
    }

    /// Hands something to the member. No claim ever says `safe` of a hold that is not: a hold is
    /// advisory before it is notified of what the member did without an arbiter, and safe only after it
    /// was notified of what ended with the new one.
    fn feed(&mut self, at: Moment, input: InputOf<Member>, around: &mut impl Surroundings) {
        let mut out = Outbox::default();
        around.hand(&mut self.member, at.now, input, &mut out);
        if self.member.arbiter() == Arbiter::None {
            self.goes_by(Arbiter::None, around);
        }
        self.carry_out(at, out, around);
        self.goes_by(self.member.arbiter(), around);
    }

    fn goes_by(&mut self, arbiter: Arbiter, around: &mut impl Surroundings) {
        around.goes_by(arbiter);
        self.book.goes_by(arbiter);
        self.candidacies.goes_by(arbiter);
        self.time_goes_by(arbiter, around);
    }

    fn carry_out(&mut self, at: Moment, mut out: OutboxOf<Member>, around: &mut impl Surroundings) {
        for effect in out.drain() {
            match effect {
                Effect::Send { to: Node::Member(to), message: Message::Peer(message) } => {
                    around.send(to, Payload::Member(message));
                }
                Effect::Send { message: Message::Register(call), .. } => around.call(call),
                Effect::Send { to: Node::Register, message: Message::Peer(_) } => {}
                Effect::Arm { timer, after } => {
                    self.timers.set(PodTimer::Member(timer), at.now.after(after));
                }
                Effect::Disarm(timer) => self.timers.clear(&PodTimer::Member(timer)),
                Effect::Tell(event) => self.on_event(at, event, around),
            }
        }
    }

    fn on_event(&mut self, at: Moment, event: Event, around: &mut impl Surroundings) {
        match event {
            Event::Service(OfService::Election(OfElection { ref election, event: ref of })) => {
                self.candidacies.on_election(at.now, election, of, self.member.record());
            }
            Event::Service(OfService::Lock(OfLock { lock, event }))
                if election_of(&lock).is_some() =>
            {
                return self.candidacies.on_lead(at.now, &lock, &event, self.member.record());
            }
            Event::Service(OfService::Lock(OfLock { lock, event })) => {
                let pod_of = |member: Incarnation| name_of(self.member.record(), member);
                return self.book.on_event(at.now, &lock, event, pod_of);
            }
            Event::Installed(record) => {
                around.notify(at.now, &self.member, Event::Installed(record.clone()));
                return self.enter(at, &record, around);
            }
            Event::Leadership(leadership) => {
                self.leadership = leadership;
                self.candidacies.stands(leadership);
                if leadership == Leadership::HandingOver {
                    self.timers.set(PodTimer::Believers, at.now);
                }
            }
            Event::Confirmed(asked) => self.time.confirmed = asked,
            Event::Grace(until) => self.book.grace(until),
            Event::Full(full) => self.book.group_is_full(full),
            Event::Lease(lease) => {
                self.candidacies.extend_all(lease);
                self.on_led(at, lease.leads_until, around);
                return self.book.extend_all(at.now, lease);
            }
            Event::Left => self.left = true,
            Event::Met(_)
            | Event::Grants(_)
            | Event::Elected { .. }
            | Event::Suspected(_)
            | Event::Trusted { .. }
            | Event::Ignored(_)
            | Event::Undone(_) => {}
        }
        around.notify(at.now, &self.member, event);
    }

    /// The member entered a view.
    fn enter(&mut self, at: Moment, record: &Record, around: &mut impl Surroundings) {
        self.book.set_policy(&record.policy);
        self.candidacies.entered(record);
        if let Some(rank) = record.rank(self.me) {
            self.enter_time(at, record, rank, around);
        }
    }
}

/// The name of a member's pod, as a view has it.
pub(super) fn name_of(record: Option<&Record>, member: Incarnation) -> String {
    let info = record.and_then(|record| record.member(record.rank(member)?));
    info.map_or_else(|| member.pod.to_string(), |info| info.name.clone())
}
