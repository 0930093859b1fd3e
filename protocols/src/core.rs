//! One member of a group: views, the leader lease, and holds.
//!
//! The textbook algorithms assume no partition and often no crash. Each stays as the textbook has it,
//! within a **view**: a number (the epoch), frozen members, a leader, a policy. What the textbook lacks
//! is here, once for all of them, and none of them is known here:
//!
//! * The **leader lease** is a set of unexpired promises of a majority of the view's members.
//!   A member promises only while the register confirmed the view not too long ago.
//! * A **view change** reads the register, collects seals of enough members of the old view, and
//!   replaces the record by one compare-and-swap. A seal is given only when the member's own
//!   promise has run out, or by the leader itself when it resigns. So the old leader lease is over before
//!   the new one begins.
//! * **Holds** are carried over as the seals report, and none is newly granted while a member that
//!   did not seal could still have one (`core/holds.rs`).
//! * A **service** decides who is to have a hold ([`Service`]); a **nominator**, who is to begin the next
//!   view when promises have run out ([`Nominator`]).
//!
//! The rules are numbered in `docs/views.md`; the number stands at the code that keeps the rule.

mod activation;
mod admission;
mod advisory;
mod announced;
mod belief;
mod calls;
mod candidacy;
mod candidate;
mod changing;
mod departures;
mod detecting;
mod evidence;
mod freezing;
mod going;
mod holds;
mod interface;
mod joining;
mod leader;
mod leadership;
mod leading;
mod leaving;
mod links;
mod listing;
pub mod message;
mod nominating;
mod nomination;
mod nominator;
mod promises;
mod promising;
mod registering;
mod replacing;
mod resting;
mod restored;
mod sealing;
mod seam;
mod service;
mod switching;

use self::admission::Admissions;
use self::advisory::Discovered;
use self::belief::Belief;
use self::calls::Calls;
use self::candidate::Candidate;
use self::departures::Departures;
use self::detecting::Detection;
use self::evidence::Dead;
use self::going::Going;
pub use self::holds::{Claim, GROUP_MAX, Holder, Holds, Lines, Seat, Shown, Taken};
pub use self::interface::{
    Command, Event, Heard, Leadership, Lease, Node, StatusEpoch, Term, Timer,
};
use self::leader::Leader;
use self::leaving::Resigned;
use self::links::Links;
use self::listing::Listed;
use self::message::{Message, PeerMessage};
use self::nomination::Nominations;
pub use self::nominator::{Nominator, NominatorOut};
use self::promises::Promises;
use self::replacing::Sighting;
use self::restored::Lineage;
use self::seam::Serving;
pub use self::service::{CarriedHolds, Cx, Notice, PartNumber, Service};
use self::switching::InForce;
use crate::ids::{Epoch, HoldName, Incarnation};
use crate::policy::Policy;
use crate::protocol::{Input, InputOf, Outbox, OutboxOf, Protocol};
use crate::record::{MemberInfo, Record};
use crate::time::LocalTime;

/// One member of a group, from its start to its end.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Member<S: Service, N: Nominator> {
    me: MemberInfo,
    /// What the group's resource states, as far as this member knows.
    policy: Policy,
    in_force: InForce,
    /// The latest view that others reported: the resource's status, and members that refused to seal.
    status: StatusEpoch,
    role: Role,
    promises: Promises,
    /// The latest view that this member was in, or learned of as a joiner.
    record: Option<Record>,
    holds: Holds,
    links: Links<S::Message>,
    serving: Serving<S>,
    register: Calls,
    nominations: Nominations<N>,
    going: Going,
    departures: Departures,
    /// Whom discovery found; only the arbiter `None` needs it.
    discovered: Discovered,
    /// Who is surely dead.
    dead: Dead,
    /// The mark that stands in the place of a lost record.
    sighting: Option<Sighting>,
    belief: Belief,
    admissions: Admissions,
    /// What the leader of the view listed last.
    listed: Option<Listed>,
    lineage: Lineage,
    detection: Detection,
}

/// What a member is at the moment.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Role {
    /// In no view. `heard`: when somebody of the recorded view last sent anything.
    Joiner { heard: LocalTime },
    /// In a view that another leads, or led.
    Follower,
    /// About to begin a view.
    Candidate(Box<Candidate>),
    /// In leader lease, or about to gain or to lose it.
    Leader(Box<Leader>),
    /// It led, resigned for good, and leaves once it is known that somebody took over or that the
    /// register states so. Nothing leads from here to any other role but [`Role::Gone`].
    Resigned(Resigned),
    /// Out of the group for good.
    Gone,
}

type Out<S, N> = OutboxOf<Member<S, N>>;

impl<S: Service, N: Nominator> Member<S, N> {
    /// A new member: a process that has just started and is in no view.
    ///
    /// `status` is what the status of the group's resource states, zero if there is none.
    pub fn new(me: MemberInfo, policy: Policy, status: impl Into<StatusEpoch>) -> Self {
        let register = Calls::new(me.incarnation);
        Self {
            in_force: InForce::new(policy.arbiter),
            policy,
            status: status.into(),
            role: Role::Joiner { heard: LocalTime::default() },
            promises: Promises::default(),
            record: None,
            holds: Holds::new(me.incarnation),
            links: Links::default(),
            serving: Serving::new(me.incarnation),
            register,
            nominations: Nominations::default(),
            going: Going::default(),
            departures: Departures::default(),
            discovered: Discovered::default(),
            dead: Dead::default(),
            sighting: None,
            belief: Belief::default(),
            admissions: Admissions::default(),
            listed: None,
            lineage: Lineage::default(),
            detection: Detection::default(),
            me,
        }
    }

    /// Who this is.
    pub fn me(&self) -> Incarnation {
        self.me.incarnation
    }

    /// The latest view that this member was in, or learned of.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// Until when this member has the leader lease, if it leads.
    pub fn leader_lease(&self) -> Option<LocalTime> {
        match &self.role {
            Role::Leader(leader) => Some(leader.leader_lease_until()),
            Role::Joiner { .. }
            | Role::Follower
            | Role::Candidate(_)
            | Role::Resigned(_)
            | Role::Gone => None,
        }
    }

    /// Whether this member takes part in the view of its record: it did not seal it.
    pub fn is_in_view(&self) -> bool {
        !self.promises.is_sealed()
    }

    /// The latest view that this member entered or refused, and until when it promised to follow the
    /// leader of its view.
    pub fn pledged(&self) -> (Epoch, LocalTime) {
        (self.promises.epoch(), self.promises.until())
    }

    /// The view of which this member, about to begin the next, has the table of all holds.
    pub fn inherits(&self) -> Option<Epoch> {
        let Role::Candidate(candidate) = &self.role else { return None };
        candidate.inherits()
    }

    /// How many names this member holds, and how many it waits for.
    #[cfg(any(test, feature = "testing"))]
    pub fn hold_counts(&self) -> (usize, usize) {
        self.holds.counts()
    }

    /// Whether this member leads, and has heard what all the others hold.
    pub fn knows_all(&self, now: LocalTime) -> bool {
        self.holds.knows_all(now)
    }

    /// How a name stands; nothing where this member does not lead, or has yet to hear what the others hold.
    pub fn shown(&self, now: LocalTime, name: &HoldName) -> Option<Shown> {
        self.knows_all(now).then(|| self.holds.shown(now, name))
    }

    /// The names of which this member can show how they stand. One may come twice.
    pub fn names_shown(&self, now: LocalTime) -> impl Iterator<Item = &HoldName> {
        self.knows_all(now).then(|| self.holds.names_shown()).into_iter().flatten()
    }

    /// This member's place in the view that it has entered, if it is in one.
    pub fn seat(&self) -> Option<&Seat> {
        self.holds.seat()
    }

    /// The service of this member.
    pub fn service(&self) -> &S {
        self.serving.service()
    }

    fn command(&mut self, now: LocalTime, command: Command<S::Command>, out: &mut Out<S, N>) {
        match command {
            Command::Service(command) => {
                self.with_service(now, out, |service, cx| service.command(cx, command));
            }
            Command::Policy(policy) => self.on_policy(now, *policy, out),
            Command::Detection(stated) => self.detect_by(now, stated, out),
            Command::Status(status) => self.on_status(now, status, out),
            Command::Discovered(found) => self.found(now, found, out),
            Command::Evidence(member) => self.on_evidence(now, member),
            Command::Look => self.look(now, out),
            Command::Resign { to, cooldown } => self.rest(now, to, cooldown, out),
            Command::Drain => self.drain(now, out),
            Command::Notified(until) => self.believed_until(now, until, out),
            Command::Leave => self.leave(now, out),
        }
    }

    fn on_peer(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        message: PeerMessage<S::Message, N::Message>,
        out: &mut Out<S, N>,
    ) {
        self.hear_of(now, from);
        self.take_for_a_sign(now, from, &message, out);
        if message.since() > self.me.protocol.1 {
            return out.tell(Event::Ignored("version"));
        }
        match message {
            PeerMessage::Join(info) => self.on_join(now, from, *info, out),
            PeerMessage::Noted => {}
            PeerMessage::Leave(leave) => self.on_leave(now, from, *leave, out),
            PeerMessage::Heartbeat(heartbeat) => self.on_heartbeat(now, from, *heartbeat, out),
            #[cfg(feature = "next-version")]
            PeerMessage::NextHeartbeat(heartbeat) => self.on_heartbeat(now, from, *heartbeat, out),
            PeerMessage::Promise(promise) => self.on_promise(now, from, *promise, out),
            PeerMessage::Refusal { floor } => self.on_refusal(now, from, floor, out),
            // There is a group with an arbiter; the register states whether this member is one of it.
            PeerMessage::SealRequest { .. } if self.is_advisory() => self.ask_register(now, out),
            PeerMessage::SealRequest { base } => self.on_seal_request(now, from, base, out),
            PeerMessage::Seal(seal) => self.on_seal(now, from, *seal, out),
            PeerMessage::SealRefused { base } => self.on_seal_refused(now, base, out),
            PeerMessage::HandOver(table) => self.on_hand_over(now, from, *table, out),
            PeerMessage::Taken { epoch } => self.on_taken(from, epoch, out),
            PeerMessage::Nominator { epoch, message } => {
                self.on_nomination(now, from, epoch, message, out);
            }
            PeerMessage::Service(envelope) => self.on_envelope(now, from, *envelope, out),
        }
    }

    fn on_timer(&mut self, now: LocalTime, timer: Timer<N::Timer>, out: &mut Out<S, N>) {
        match timer {
            Timer::Heartbeat => self.beat(now, out),
            Timer::Promise => self.promise_ran_out(now, out),
            Timer::Reread => self.reread(now, out),
            Timer::Register => self.register_is_silent(now, out),
            Timer::Candidacy => self.candidacy_step(now, out),
            Timer::Nominee => self.nominee_is_late(now, out),
            Timer::Join => self.try_to_join(now, out),
            Timer::Holds => self.arm_holds(now, out),
            Timer::Service => self.service_timer(now, out),
            Timer::Grace => self.grace_is_over(now, out),
            Timer::Detection => self.detection_is_due(now, out),
            Timer::Leave => self.leave_is_due(now, out),
            Timer::Nominator(timer) => self.nomination_timer(now, timer, out),
        }
    }
}

impl<S: Service, N: Nominator> Protocol for Member<S, N> {
    type Peer = Node;
    type Command = Command<S::Command>;
    type Message = Message<S::Message, N::Message>;
    type Timer = Timer<N::Timer>;
    type Event = Event<S::Event>;

    fn start(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if !self.is_advisory() {
            self.begin_joining(now, out);
        }
        self.tell_leadership(now, out);
        self.tell_admission(now, out);
    }

    /// Rule 6: `now` is the one reading of the clock by which everything is decided.
    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut Out<S, N>) {
        if self.role == Role::Gone {
            return;
        }
        self.look_at_rest(now);
        match input {
            Input::Command(command) => self.command(now, command, out),
            Input::Message { from: Node::Member(from), message: Message::Peer(message) } => {
                self.on_peer(now, from, message, out);
            }
            Input::Message { from: Node::Register, message: Message::Register(message) } => {
                self.on_register(now, message, out);
            }
            Input::Message { .. } => out.tell(Event::Ignored("misrouted")),
            Input::Timer(timer) => self.on_timer(now, timer, out),
        }
        self.watch_peers(now, out);
        self.tell_leadership(now, out);
        self.tell_admission(now, out);
    }
}

fn send<B, M, T, E>(
    to: Incarnation,
    message: PeerMessage<B, M>,
    out: &mut Outbox<Node, Message<B, M>, T, E>,
) {
    out.send(Node::Member(to), Message::Peer(message));
}

fn send_each<B: Clone, M: Clone, T, E>(
    to: impl IntoIterator<Item = Incarnation>,
    message: &PeerMessage<B, M>,
    out: &mut Outbox<Node, Message<B, M>, T, E>,
) {
    for peer in to {
        send(peer, message.clone(), out);
    }
}
