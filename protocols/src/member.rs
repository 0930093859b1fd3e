//! One member of a group: views, the leader lease, and all locks.
//!
//! The textbook algorithms assume no partition and often no crash. Each stays as the textbook has it,
//! inside a **view**: a number (the epoch), frozen members, a leader, a policy. What the textbook lacks
//! is here, once for all of them:
//!
//! * The **leader lease** is a set of unexpired promises of a majority of the view's members.
//!   A member promises only while the register confirmed the view not too long ago.
//! * A **view change** reads the register, collects seals of enough members of the old view, and
//!   replaces the record by one compare-and-swap. A seal is given only when the member's own
//!   promise has run out, or by the leader itself when it resigns. So the old leader lease is over before
//!   the new one begins.
//! * **Locks** are carried over as the seals tell, and none is newly granted while a member that
//!   did not seal could still hold one.
//!
//! The rules are numbered in `docs/views.md`; the number stands at the code that keeps the rule.

mod activation;
mod admission;
mod advisory;
mod candidacy;
mod changing;
mod election;
mod evidence;
mod freezing;
mod interface;
mod joining;
mod leadership;
mod leading;
mod leaving;
mod listing;
mod locks;
pub mod message;
mod promising;
mod registering;
mod replacing;
mod restored;
mod sealing;
mod switching;

use std::collections::BTreeMap;

use self::admission::Admissions;
use self::advisory::Discovered;
use self::candidacy::Candidate;
use self::election::Electing;
use self::evidence::Dead;
pub use self::interface::{
    Command, Event, Heard, Leadership, Lease, LockEvent, LostReason, Node, StatusEpoch, Term, Timer,
};
use self::leadership::Belief;
use self::leading::Leader;
use self::leaving::{Legacy, Resigned};
use self::listing::Listed;
pub use self::locks::GROUP_MAX;
use self::locks::{LockEffect, LockOut, Locks};
use self::message::{Leave, LockMessage, Message, PeerMessage};
use self::registering::RegisterClient;
use self::replacing::Sighting;
use self::restored::Lineage;
use self::switching::InForce;
use crate::ids::{Epoch, Incarnation};
use crate::policy::Policy;
use crate::protocol::{Input, InputOf, OutboxOf, Protocol};
use crate::record::{MemberInfo, Record};
use crate::time::LocalTime;

/// One member of a group, from its start to its end.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Member {
    me: MemberInfo,
    /// What the group's resource says, as far as this member knows.
    policy: Policy,
    in_force: InForce,
    /// The latest view that others told of: the resource's status, and members that refused to seal.
    status: StatusEpoch,
    role: Role,
    pledge: Pledge,
    /// The latest view that this member was in, or learned of as a joiner.
    record: Option<Record>,
    locks: Locks,
    register: RegisterClient,
    electing: Option<Electing>,
    /// Takes part in no election before: it could not reach the register.
    abstains_until: LocalTime,
    /// How often in a row it withdrew without an answer of the register.
    withdrawals: u32,
    going: Going,
    /// By then a member that leaves is gone, whatever is still to be done.
    leave_until: LocalTime,
    /// What it knows of the latest view that it led and will lead no more.
    legacy: Option<Legacy>,
    /// What those said last who left its view.
    leaves: BTreeMap<Incarnation, Leave>,
    /// Whom discovery found; only the arbiter `None` needs it.
    peers: Discovered,
    /// Who is surely dead.
    dead: Dead,
    /// The mark that stands in the place of a lost record.
    sighting: Option<Sighting>,
    belief: Belief,
    admissions: Admissions,
    /// What the leader of the view listed last.
    listed: Option<Listed>,
    lineage: Lineage,
}

/// What a member is at the moment.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Role {
    /// In no view. `heard`: when somebody of the recorded view last said anything.
    Joiner { heard: LocalTime },
    /// In a view that another leads, or led.
    Follower,
    /// About to begin a view.
    Candidate(Box<Candidate>),
    /// In leader lease, or about to gain or to lose it.
    Leader(Box<Leader>),
    /// It led, resigned for good, and leaves once it is known that somebody took over or that the
    /// register says so. Nothing leads from here to any other role but [`Role::Gone`].
    Resigned(Resigned),
    /// Out of the group for good.
    Gone,
}

/// Whether a member is about to end.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Going {
    /// Not that it knew of.
    Stays,
    /// Soon: another should lead, if there is one.
    Drains,
    /// Now.
    Leaves,
}

/// What this member promised (rule 2).
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Pledge {
    /// The epoch of the latest view that it entered or sealed.
    epoch: Epoch,
    /// It sealed that view, and refuses it.
    sealed: bool,
    /// It follows the leader of the view that it promised in last until then.
    until: LocalTime,
    followed: Epoch,
    /// The latest heartbeat of that view that it heard.
    heard: u64,
    /// The register held that view, and not as closing, at that time or later; counted from before
    /// the read was sent.
    confirmed: Option<(Epoch, LocalTime)>,
    /// It led this view alone, and knows of all that runs.
    settled: Option<Epoch>,
}

type Out = OutboxOf<Member>;

impl Member {
    /// A new member: a process that has just started and is in no view.
    ///
    /// `status` is what the status of the group's resource says, zero if there is none.
    pub fn new(me: MemberInfo, policy: Policy, status: impl Into<StatusEpoch>) -> Self {
        let locks = Locks::new(me.incarnation);
        let register = RegisterClient::new(me.incarnation);
        Self {
            me,
            in_force: InForce::new(policy.arbiter),
            policy,
            status: status.into(),
            role: Role::Joiner { heard: LocalTime::default() },
            pledge: Pledge::default(),
            record: None,
            locks,
            register,
            electing: None,
            abstains_until: LocalTime::default(),
            withdrawals: 0,
            going: Going::Stays,
            leave_until: LocalTime::default(),
            legacy: None,
            leaves: BTreeMap::new(),
            peers: Discovered::default(),
            dead: Dead::default(),
            sighting: None,
            belief: Belief::default(),
            admissions: Admissions::default(),
            listed: None,
            lineage: Lineage::default(),
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
        !self.pledge.sealed
    }

    /// The latest view that this member entered or refused, and until when it promised to follow the
    /// leader of its view.
    pub fn pledged(&self) -> (Epoch, LocalTime) {
        (self.pledge.epoch, self.pledge.until)
    }

    /// The view of which this member, about to begin the next, has the table of who holds what.
    pub fn inherits(&self) -> Option<Epoch> {
        let Role::Candidate(candidate) = &self.role else { return None };
        candidate.inherited.as_ref().map(|(table, _)| table.base)
    }

    /// How many locks this member holds, and how many it waits for.
    pub fn lock_counts(&self) -> (usize, usize) {
        self.locks.counts()
    }

    fn command(&mut self, now: LocalTime, command: Command, out: &mut Out) {
        match command {
            Command::Enter { .. } if self.going == Going::Leaves => {}
            Command::Enter { lock, note } => {
                self.with_locks(now, out, |locks, effects| locks.enter(now, &lock, note, effects));
            }
            Command::Exit { lock } => {
                self.with_locks(now, out, |locks, effects| locks.exit(now, &lock, effects));
            }
            Command::Policy(policy) => self.on_policy(now, *policy, out),
            Command::Status(status) => self.on_status(now, status, out),
            Command::Peers(peers) => self.found(now, peers, out),
            Command::Evidence(member) => self.on_evidence(now, member),
            Command::Look => self.look(now, out),
            Command::Drain => self.drain(now, out),
            Command::Notified(until) => self.believed_until(now, until, out),
            Command::Leave => self.leave(now, out),
        }
    }

    fn on_peer(&mut self, now: LocalTime, from: Incarnation, message: PeerMessage, out: &mut Out) {
        self.hear_of(now, from);
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
            // There is a group with an arbiter; the register tells whether this member is one of it.
            PeerMessage::SealRequest { .. } if self.is_advisory() => self.ask_register(now, out),
            PeerMessage::SealRequest { base } => self.on_seal_request(now, from, base, out),
            PeerMessage::Seal(seal) => self.on_seal(now, from, *seal, out),
            PeerMessage::SealRefused { base } => self.on_seal_refused(now, base, out),
            PeerMessage::HandOver(table) => self.on_hand_over(now, from, *table, out),
            PeerMessage::Taken { epoch } => self.on_taken(from, epoch, out),
            PeerMessage::Election { epoch, message } => {
                self.on_election(now, from, epoch, message, out);
            }
            PeerMessage::Lock(message) => self.on_lock(now, from, *message, out),
        }
    }

    /// A member that entered a view earlier may speak of its locks before this one has entered it.
    fn on_lock(&mut self, now: LocalTime, from: Incarnation, message: LockMessage, out: &mut Out) {
        if self.may_enter(message.epoch) {
            return self.locks.keep_early(from, message);
        }
        // Rule 12: a member that sealed a view neither sends nor hears anything of its locks any more.
        if self.pledge.sealed {
            return out.tell(Event::Ignored("sealed"));
        }
        self.with_locks(now, out, |locks, effects| locks.on_message(now, from, message, effects));
    }

    fn on_timer(&mut self, now: LocalTime, timer: Timer, out: &mut Out) {
        match timer {
            Timer::Heartbeat => self.beat(now, out),
            Timer::Promise => self.promise_ran_out(now, out),
            Timer::Reread => self.reread(now, out),
            Timer::Register => self.register_is_silent(now, out),
            Timer::Candidacy => self.candidacy_step(now, out),
            Timer::Nominee => self.nominee_is_late(now, out),
            Timer::Join => self.try_to_join(now, out),
            Timer::Holds => self.arm_holds(now, out),
            Timer::Mutexes => self.with_locks(now, out, |locks, effects| locks.fire(now, effects)),
            Timer::Grace => self.grace_is_over(now, out),
            Timer::Leave => self.leave_is_due(now, out),
            Timer::Election(timer) => self.election_timer(now, timer, out),
        }
    }

    /// Lets the locks do something, and carries out what they want.
    fn with_locks<R>(
        &mut self,
        now: LocalTime,
        out: &mut Out,
        act: impl FnOnce(&mut Locks, &mut LockOut) -> R,
    ) -> R {
        let mut effects = LockOut::new();
        let result = act(&mut self.locks, &mut effects);
        let notified = effects
            .iter()
            .any(|effect| matches!(effect, LockEffect::Tell(..) | LockEffect::Lease(_)));
        carry_out(effects, out);
        if notified {
            self.arm_holds(now, out);
        }
        self.arm_mutexes(now, out);
        result
    }

    /// Ends the holds that are over by now, and sets the timer for the next.
    fn arm_holds(&mut self, now: LocalTime, out: &mut Out) {
        let mut effects = LockOut::new();
        let next = self.locks.expire_holds(now, &mut effects);
        carry_out(effects, out);
        match next {
            Some(deadline) => out.arm(Timer::Holds, now.until(deadline)),
            None => out.disarm(Timer::Holds),
        }
        self.arm_mutexes(now, out);
    }

    /// Sets the timer for the next timer of a mutex, if that has changed.
    fn arm_mutexes(&mut self, now: LocalTime, out: &mut Out) {
        if !self.locks.takes_arming() {
            return;
        }
        match self.locks.next_timer() {
            Some(at) => out.arm(Timer::Mutexes, now.until(at)),
            None => out.disarm(Timer::Mutexes),
        }
    }
}

impl Protocol for Member {
    type Peer = Node;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut Out) {
        if !self.is_advisory() {
            self.begin_joining(now, out);
        }
        self.tell_leadership(now, out);
        self.tell_admission(now, out);
    }

    /// Rule 6: `now` is the one reading of the clock by which everything is decided.
    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut Out) {
        if self.role == Role::Gone {
            return;
        }
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
        self.tell_leadership(now, out);
        self.tell_admission(now, out);
    }
}

fn carry_out(effects: LockOut, out: &mut Out) {
    for effect in effects {
        match effect {
            LockEffect::Send(to, message) => say(to, message, out),
            LockEffect::Tell(lock, event) => out.tell(Event::Lock(lock, event)),
            LockEffect::Lease(lease) => out.tell(Event::Lease(lease)),
        }
    }
}

fn say(to: Incarnation, message: PeerMessage, out: &mut Out) {
    out.send(Node::Member(to), Message::Peer(message));
}

fn say_each(to: impl IntoIterator<Item = Incarnation>, message: &PeerMessage, out: &mut Out) {
    for peer in to {
        say(peer, message.clone(), out);
    }
}
