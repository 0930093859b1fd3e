//! The one task that owns the group: the member, its clock, its claims, its timers.
//!
//! It takes one thing at a time from its sources (requests, peers, the register, timers, discovery,
//! the end) and carries out what the protocols want. Nothing else has any of its state.

mod arbiter;
pub(crate) mod steps;

use std::time::Duration;

use conclave_protocols::clock::{self, ClockMap};
use conclave_protocols::member::message::{Message, PeerMessage};
use conclave_protocols::member::{self, Command, Event, Member, Node, StatusEpoch};
use conclave_protocols::mutex::PaidBy;
use conclave_protocols::policy::Policy;
use conclave_protocols::record::{MEMBERS_MAX, MemberInfo, Record};
use conclave_protocols::trace::Recorder;
use conclave_protocols::{
    Effect, Epoch, Incarnation, Input, LocalTime, LockName, Outbox, Protocol, register,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use self::steps::Step;
use super::believers::Notified;
use super::book::{Book, Due, Intent};
use super::costs::{election_cost, lock_costs};
use super::publish::Publisher;
use super::slot::Slot;
use super::time::{Time, virtual_clock};
use super::timers::{PodTimers, sleep_until};
use super::{Leadership, Request};
use crate::claims::{AskError, ClaimId};
use crate::links::Links;
use crate::metrics::Metrics;
use crate::os_clock::OsClock;
use crate::register::{Register, Sight};
use crate::wire::Payload;

/// What a life in a group begins with.
pub(crate) struct Beginning {
    pub(crate) me: MemberInfo,
    pub(crate) policy: Policy,
    /// What the status of the group's resource says was used.
    pub(crate) status: watch::Receiver<StatusEpoch>,
    pub(crate) register: Register,
    pub(crate) links: Links,
    pub(crate) inbox: mpsc::Receiver<(Incarnation, Payload)>,
    /// What the group's resource says; nothing once the group is dissolved.
    pub(crate) policies: watch::Receiver<Option<Policy>>,
    /// Whom discovery found, where no register names the members.
    pub(crate) found: watch::Receiver<Option<Vec<MemberInfo>>>,
    /// Changes when somebody else may have changed the register.
    pub(crate) sight: watch::Receiver<Sight>,
    /// Processes that are surely dead.
    pub(crate) dead: mpsc::Receiver<Incarnation>,
    /// What the member says and does, for whoever draws it.
    pub(crate) sent: Option<mpsc::Sender<Sent>>,
    pub(crate) end: CancellationToken,
}

/// What whoever draws a member gets to know.
#[derive(Clone, Debug)]
pub(crate) enum Sent {
    /// It sent a message.
    Message(Spoken),
    /// Something happened to a lock.
    Step(Step),
}

/// A message that a member sent.
#[derive(Clone, Debug)]
pub(crate) struct Spoken {
    pub(crate) to: Incarnation,
    pub(crate) protocol: &'static str,
    pub(crate) name: &'static str,
    pub(crate) lock: Option<LockName>,
}

/// The names of the task's timers.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum PodTimer {
    Member(member::Timer),
    Clock(clock::Timer),
    Claim(LockName, ClaimId, Due),
    /// Tells to whom links are open.
    Links,
    /// Leaving takes too long.
    Leave,
    /// This member hands over: who may believe in it?
    Believers,
}

pub(super) struct Task<'a> {
    me: MemberInfo,
    pub(super) member: Member,
    /// Writes down what the member does, where somebody wants that.
    recorder: Option<Recorder>,
    pub(super) time: Time,
    book: Book,
    pub(super) timers: PodTimers<PodTimer>,
    links: Links,
    /// Whom discovery found.
    peers: Vec<MemberInfo>,
    register: Register,
    answers: mpsc::Sender<register::Message>,
    publisher: &'a Publisher,
    pub(super) map: &'a watch::Sender<ClockMap>,
    pub(super) metrics: &'a Metrics,
    pub(super) clock: OsClock,
    sent: Option<mpsc::Sender<Sent>>,
    /// Somebody wanted to join the present view and did not fit in.
    is_full: bool,
    believers: watch::Receiver<Notified>,
    left: bool,
}

/// How long leaving may take, whatever the member still waits for: a part of a pod's usual grace period.
/// While the register answers it takes milliseconds. Where Kubernetes leaves less time, it ends the process.
const LEAVE: Duration = Duration::from_secs(10);

/// Answers of the register that may wait for the task.
const ANSWERS: usize = 64;

impl Slot {
    /// Lives in the group until it has left it.
    pub(crate) async fn live(&mut self, beginning: Beginning) {
        let Beginning { me, policy, mut status, register, links, end, .. } = beginning;
        let (answers, answered) = mpsc::channel(ANSWERS);
        self.publisher.begins(me.incarnation, &policy);
        let time =
            Time { sync: None, clock: virtual_clock(self.clock, &policy), epoch: Epoch::default() };
        let member = Member::new(me.clone(), policy, *status.borrow_and_update());
        let task = Task {
            recorder: crate::telemetry::is_traced().then(|| Recorder::new(&member)),
            member,
            time,
            book: Book::new(&me.name, me.incarnation, self.metrics.locks.clone()),
            timers: PodTimers::new(),
            links,
            peers: Vec::new(),
            register,
            answers,
            publisher: &self.publisher,
            map: &self.map,
            metrics: &self.metrics,
            clock: self.clock,
            sent: beginning.sent,
            is_full: false,
            believers: self.believers.watch(),
            left: false,
            me,
        };
        let sources = Sources {
            asked: &mut self.asked,
            answered,
            inbox: beginning.inbox,
            policies: beginning.policies,
            status,
            found: beginning.found,
            sight: beginning.sight,
            dead: beginning.dead,
            believers: self.believers.watch(),
        };
        task.run(sources, end).await;
    }
}

struct Sources<'a> {
    asked: &'a mut mpsc::Receiver<Request>,
    answered: mpsc::Receiver<register::Message>,
    inbox: mpsc::Receiver<(Incarnation, Payload)>,
    policies: watch::Receiver<Option<Policy>>,
    status: watch::Receiver<StatusEpoch>,
    found: watch::Receiver<Option<Vec<MemberInfo>>>,
    sight: watch::Receiver<Sight>,
    dead: mpsc::Receiver<Incarnation>,
    believers: watch::Receiver<Notified>,
}

impl Task<'_> {
    async fn run(mut self, mut sources: Sources<'_>, end: CancellationToken) {
        let now = self.clock.now();
        let mut out = Outbox::default();
        self.member.start(now, &mut out);
        self.carry_out(now, out);
        self.timers.set(PodTimer::Links, now.after(LINKS));
        let mut leaving = false;
        while !self.left {
            let due = self.timers.next();
            tokio::select! {
                biased;
                () = end.cancelled(), if !leaving => {
                    leaving = true;
                    self.leave();
                }
                () = sleep_until(self.clock, due) => self.fire(),
                Some(answer) = sources.answered.recv() => {
                    let message = Message::Register(answer);
                    self.feed(Input::Message { from: Node::Register, message });
                }
                Some((from, payload)) = sources.inbox.recv() => self.on_payload(from, payload),
                Some(request) = sources.asked.recv() => self.on_request(request),
                Ok(()) = sources.policies.changed() => {
                    let policy = sources.policies.borrow_and_update().clone();
                    self.on_policy(policy);
                }
                Ok(()) = sources.status.changed() => {
                    let status = *sources.status.borrow_and_update();
                    self.feed(Input::Command(Command::Status(status)));
                }
                Ok(()) = sources.found.changed() => {
                    let found = sources.found.borrow_and_update().clone();
                    self.on_found(found);
                }
                Ok(()) = sources.sight.changed() => self.feed(Input::Command(Command::Look)),
                Ok(()) = sources.believers.changed() => self.heed_believers(),
                Some(dead) = sources.dead.recv() => {
                    self.feed(Input::Command(Command::Evidence(dead)));
                }
            }
        }
        // What was said last is on its way before the links end.
        tokio::time::sleep(FLUSH).await;
    }

    fn on_payload(&mut self, from: Incarnation, payload: Payload) {
        match payload {
            Payload::Member(message) => {
                if let Some(word) = message.of_lock().filter(|w| w.paid_by == PaidBy::Receiver) {
                    self.book.count_message(word.lock);
                }
                if let PeerMessage::Join(info) = &message {
                    self.links.meet(info);
                }
                let message = Message::Peer(message);
                self.feed(Input::Message { from: Node::Member(from), message });
            }
            Payload::Clock { epoch, message } => self.on_clock_message(from, epoch, message),
        }
    }

    /// Rings every timer that is due.
    fn fire(&mut self) {
        let now = self.clock.now();
        self.note_pause(now);
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                PodTimer::Member(timer) => self.feed(Input::Timer(timer)),
                PodTimer::Clock(timer) => self.feed_clock(Input::Timer(timer)),
                PodTimer::Claim(lock, id, due) => {
                    self.book.on_due(now, &lock, &id, due);
                    self.grant_intents();
                }
                PodTimer::Links => {
                    self.publisher.connected(|peer| self.links.is_open(peer));
                    self.timers.set(PodTimer::Links, now.after(LINKS));
                }
                PodTimer::Leave => {
                    warn!(
                        "this pod ends before it has left its group: the others take it for dead"
                    );
                    self.left = true;
                }
                PodTimer::Believers => self.heed_believers(),
            }
        }
    }

    /// A process that was held up for long has missed heartbeats, and deadlines may have passed.
    fn note_pause(&self, now: LocalTime) {
        let late = self.timers.next().map_or(Duration::ZERO, |due| now - due);
        if late >= NOTICEABLE {
            self.metrics.members.pauses.observe(late.as_secs_f64());
        }
        if late >= LONG {
            warn!(late_ms = late.as_millis(), "this process was held up");
        }
    }

    fn on_request(&mut self, request: Request) {
        let now = self.clock.now();
        match request {
            Request::Ask(ask, reply) => {
                let answer = self.ask(now, ask);
                answered(reply, answer);
            }
            Request::Find(lock, id, reply) => answered(reply, self.book.find(&lock, &id)),
            Request::Renew(lock, id, ttl, reply) => {
                answered(reply, self.book.renew(now, &lock, &id, ttl));
            }
            Request::Release(lock, id, reply) => {
                answered(reply, self.book.release(now, &lock, &id));
            }
            Request::Claims(reply) => answered(reply, self.book.claims()),
            Request::Abandon(lock, id) => self.book.abandon(now, &lock, &id),
            Request::Drain => {
                self.publisher.draining();
                self.feed(Input::Command(Command::Drain));
            }
        }
        self.grant_intents();
    }

    fn ask(&mut self, now: LocalTime, ask: crate::claims::Ask) -> Result<super::Asked, AskError> {
        let missing = self.publisher.status.borrow().missing.clone();
        match (missing, self.member.record()) {
            (None, _) if self.member.is_one_too_many() => {
                Err(AskError::NotReady(format!("the group is full: it has {MEMBERS_MAX} members")))
            }
            (None, Some(record)) => {
                let policy = record.policy.clone();
                self.book.ask(now, ask, &policy)
            }
            (Some(missing), _) => Err(AskError::NotReady(missing)),
            (None, None) => Err(AskError::NotReady("this member is in no view yet".to_owned())),
        }
    }

    /// A leader that hands over need not wait until its last deadline, if no application was told so
    /// much.
    fn heed_believers(&mut self) {
        let notified = *self.believers.borrow();
        let ends = self.publisher.election.borrow().leadership == Leadership::HandingOver;
        if ends && notified.streams == 0 {
            self.feed(Input::Command(Command::Notified(notified.until)));
        }
    }

    fn on_policy(&mut self, policy: Option<Policy>) {
        if let Some(policy) = policy {
            self.feed(Input::Command(Command::Policy(Box::new(policy))));
        } else {
            info!("the group was dissolved");
            self.leave();
        }
    }

    fn leave(&mut self) {
        let now = self.clock.now();
        self.publisher.draining();
        self.publisher.out("the sidecar is leaving its group");
        self.book.close(now);
        self.grant_intents();
        self.timers.set(PodTimer::Leave, now.after(LEAVE));
        self.feed(Input::Command(Command::Leave));
    }

    /// Carries out what the claims want of the member, and of the timers.
    fn grant_intents(&mut self) {
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
                return self.book.has_left();
            }
            for intent in intents {
                self.feed_member(Input::Command(match intent {
                    Intent::Enter(lock, note) => Command::Enter { lock, note },
                    Intent::Exit(lock) => Command::Exit { lock },
                }));
            }
        }
    }

    fn feed(&mut self, input: conclave_protocols::protocol::InputOf<Member>) {
        self.feed_member(input);
        self.grant_intents();
    }

    fn carry_out(
        &mut self,
        now: LocalTime,
        mut out: conclave_protocols::protocol::OutboxOf<Member>,
    ) {
        for effect in out.drain() {
            match effect {
                Effect::Send { to: Node::Member(to), message: Message::Peer(message) } => {
                    self.note_sent(now, to, &message);
                    self.send(to, message);
                }
                Effect::Send { message: Message::Register(call), .. } => {
                    self.register.call(call, self.answers.clone());
                }
                Effect::Send { to: Node::Register, message: Message::Peer(_) } => {}
                Effect::Arm { timer, after } => {
                    self.timers.set(PodTimer::Member(timer), now.after(after));
                }
                Effect::Disarm(timer) => self.timers.clear(&PodTimer::Member(timer)),
                Effect::Tell(event) => self.on_event(now, event),
            }
        }
    }

    fn send(&mut self, to: Incarnation, message: PeerMessage) {
        let word = message.of_lock();
        let lock = word.map(|word| word.lock.clone());
        match word.map(|word| (word.lock, word.paid_by)) {
            Some((lock, PaidBy::Sender)) => self.book.count_message(lock),
            Some((lock, PaidBy::Leaver)) => self.book.count_last_message(lock),
            Some((_, PaidBy::Receiver | PaidBy::Nobody)) | None => {}
        }
        self.say(to, Payload::Member(message), lock);
    }

    pub(super) fn say(&mut self, to: Incarnation, payload: Payload, lock: Option<LockName>) {
        if let Some(sent) = &self.sent {
            let (protocol, name) = payload.names();
            // Whoever draws may miss something.
            let _ = sent.try_send(Sent::Message(Spoken { to, protocol, name, lock }));
        }
        self.links.send(to, payload);
    }

    fn on_event(&mut self, now: LocalTime, event: Event) {
        self.note_event(now, &event);
        match event {
            Event::Met(info) => self.links.meet(&info),
            Event::Installed(record) => self.on_view(now, &record),
            Event::Leadership(leadership) => {
                debug!(?leadership, "leadership");
                self.publisher.stands(now, &self.member, leadership);
                if leadership == member::Leadership::HandingOver {
                    self.timers.set(PodTimer::Believers, now);
                }
            }
            Event::Grants(grants) => self.publisher.grants(grants),
            Event::Grace(until) => {
                self.publisher.grace(until);
                self.book.grace(until);
            }
            Event::Confirmed(at) => self.publisher.confirmed(at),
            Event::Elected { winner, messages, took } => {
                self.publisher.elected(messages, took);
                let algorithm = self.publisher.election.borrow().algorithm;
                let last = super::LastElection { messages, duration: took };
                let won = winner == self.me.incarnation;
                self.metrics.elections.ended(algorithm, won, last);
            }
            Event::Lock(lock, event) => {
                let pod_of = |member: Incarnation| name_of(self.member.record(), member);
                self.book.on_event(now, &lock, event, pod_of);
            }
            Event::Ignored(reason) => {
                if reason == "full" && !std::mem::replace(&mut self.is_full, true) {
                    warn!(members = MEMBERS_MAX, "the group is full: another pod wants to join");
                }
                self.metrics.peers.messages_ignored.with_label_values(&[reason]).inc();
            }
            Event::Undone(what) => warn!("this pod ends before it could {what}"),
            Event::Left => self.left = true,
        }
    }

    fn on_view(&mut self, now: LocalTime, record: &Record) {
        self.is_full = false;
        for info in &record.members {
            self.links.meet(info);
        }
        let is_found = |peer| self.peers.iter().any(|info| info.incarnation == peer);
        self.links.keep_only(|peer| record.rank(*peer).is_some() || is_found(*peer));
        info!(
            epoch = record.epoch.0,
            members = record.members.len(),
            leader = name_of(Some(record), record.leader.unwrap_or(self.me.incarnation)),
            "view"
        );
        self.publisher.installed(now, record, |peer| self.links.is_open(peer));
        self.book.is_granted_by(&record.policy);
        for (algorithm, messages) in lock_costs(record, self.me.incarnation) {
            self.metrics.locks.expect(algorithm, messages);
        }
        let (best, worst) = election_cost(record.policy.election, record.members.len());
        self.metrics.elections.expect(record.policy.election, best, worst);
        let Some(rank) = record.rank(self.me.incarnation) else { return };
        self.enter_time(record, rank);
    }
}

/// By how much a timer may be late on a busy machine; more is a pause.
const NOTICEABLE: Duration = Duration::from_millis(50);

/// A pause that costs a leader its leader lease, or nearly.
const LONG: Duration = Duration::from_secs(1);

/// How often it is told to whom links are open.
const LINKS: Duration = Duration::from_secs(1);

/// How long links stay after the member has left.
const FLUSH: Duration = Duration::from_millis(50);

pub(super) fn answered<T>(reply: oneshot::Sender<T>, answer: T) {
    // Whoever asked has hung up.
    let _ = reply.send(answer);
}

fn name_of(record: Option<&Record>, member: Incarnation) -> String {
    let info = record.and_then(|record| record.member(record.rank(member)?));
    info.map_or_else(|| member.pod.to_string(), |info| info.name.clone())
}
