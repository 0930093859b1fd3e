//! All locks of one member in one view: the mutex of each, and what the textbook leaves out around it.
//!
//! What is put around a mutex, the same for every algorithm (rules 22 to 28 and 31 of `docs/views.md`):
//!
//! * **Admission.** While the leader's latest heartbeat does not say that locks are granted, or this
//!   member's lease does not run, its mutexes hear nothing: what arrives is kept, in order.
//! * **A lease.** A member has one for all its holds: until `hold(lease)` after the stamp of its latest
//!   promise that the leader has acknowledged in this view. The leader has its leader lease.
//! * **A token.** Every message carries the highest token of the lock that its sender knows. The holder
//!   before has since sent something, by which the next is let in; so the next knows its token, and takes
//!   the one after it.
//! * **Links.** Messages are numbered on each link ([`links`]).
//!
//! Of a lock with a coordinator, which is the leader's mutex, the leader knows at once who is in the critical section
//! ([`coordinator`]); of any other, what promises list ([`tables`]).

mod admission;
mod advisory;
mod carry;
mod changes;
mod coordinator;
mod holding;
mod keeping;
mod links;
mod list;
mod map;
mod notes;
mod seat;
mod tables;
mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

pub(super) use self::changes::Copied;
use self::changes::OwnList;
pub use self::coordinator::GROUP_MAX;
use self::coordinator::{Deferred, Docket, TableEntry};
use self::holding::{Bond, Hold, OwnLease};
use self::keeping::Reserved;
use self::links::Links;
use self::map::LockMap;
use self::notes::Notes;
use self::seat::Seat;
use self::tables::{Listing, Waiter};
use self::timers::MutexTimers;
use super::message::{LockMessage, LockNote, Note, PeerMessage};
use super::{Heard, Lease, LockEvent, LostReason, Term};
use crate::ids::{Epoch, FencingToken, Incarnation, LockName, MemberId};
use crate::mutex::central::{self, Central};
use crate::mutex::{AnyMessage, AnyMutex, Carried, Command, Event, PaidBy, ricart_agrawala};
use crate::policy::{Arbiter, Policy};
use crate::protocol::{Effect, Input, Outbox, OutboxOf, Protocol};
use crate::time::LocalTime;

/// All locks of one member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Locks {
    me: Incarnation,
    seat: Option<Seat>,
    /// Of the latest view: a hold may end when this member is in none.
    policy: Policy,
    all: LockMap,
    /// Those that the application wants or holds, or of which this member keeps the grant.
    mine: BTreeSet<LockName>,
    /// Those of them that it waits for.
    waiting: BTreeSet<LockName>,
    /// Those of them that it holds and another wants, as its application was told.
    contended: BTreeSet<LockName>,
    /// Those of them that the leader does not extend.
    refused: BTreeSet<LockName>,
    /// What its promises list, or, if it leads, its heartbeats.
    own_list: OwnList,
    /// How many changes of it the leader knows.
    leader_knows: u64,
    /// How many the members know, if it leads.
    listeners: BTreeMap<Incarnation, u64>,
    /// It is about to leave the leader lease or the group, and keeps nothing any more.
    goes: bool,
    /// When own holds end, each as it was known at some time; the lease may have extended it since.
    deadlines: BTreeSet<(LocalTime, LockName)>,
    /// No token of a forgotten lock of this view is higher.
    floor: FencingToken,
    /// Nor is the number of a request for one.
    latest: u64,
    /// What extends its holds.
    lease: OwnLease,
    /// When each member was last heard of.
    heard: BTreeMap<MemberId, LocalTime>,
    /// What the coordinators have to do.
    docket: Docket,
    links: Links,
    /// What the members' latest promises listed, at the leader.
    listings: BTreeMap<MemberId, Listing>,
    /// Until when the entries of each member run that its promises extend.
    leases: BTreeMap<Incarnation, LocalTime>,
    notes: Notes,
    timers: MutexTimers,
}

/// One lock.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Lock {
    /// Nothing while this member is in no view.
    mutex: Option<AnyMutex>,
    /// The mutex knows that the view has begun.
    started: bool,
    highest: FencingToken,
    /// The application's intent, if it has one.
    intent: Option<Intent>,
    /// What it holds, or could without asking anybody: a grant that is kept belongs to no intent.
    hold: Option<Hold>,
    /// At the leader: up to where a member that may keep its grant may have used tokens.
    reserved: Option<Reserved>,
    /// Messages of this entry so far, as the textbook counts them.
    messages: u64,
    /// The leader's knowledge of who is in the critical section.
    entry: Option<TableEntry>,
    /// The leader's knowledge of who waits.
    notes: BTreeMap<MemberId, Note>,
    /// Nobody is let in before.
    closed_until: LocalTime,
    /// It is closed because this member lost it by time, with that token.
    lost: Option<FencingToken>,
    /// What the mutex has not heard yet, in order.
    deferred: VecDeque<Deferred>,
    /// Who waits among the members, as far as the leader knows.
    waiters: BTreeMap<MemberId, Waiter>,
    /// When somebody was last seen to hold it, or a token to be given, among the members.
    moved: LocalTime,
    /// Who holds, as another member says.
    rumour: Option<Box<LockNote>>,
    /// The application knows that its intent is known and has to wait.
    notified: bool,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Intent {
    since: LocalTime,
    note: Note,
}

/// What the locks want done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum LockEffect {
    Send(Incarnation, PeerMessage),
    Tell(LockName, LockEvent),
    Lease(Lease),
}

pub(super) type LockOut = Vec<LockEffect>;

impl Locks {
    pub(super) fn new(me: Incarnation) -> Self {
        Self {
            me,
            seat: None,
            policy: Policy::default(),
            all: LockMap::default(),
            mine: BTreeSet::new(),
            waiting: BTreeSet::new(),
            contended: BTreeSet::new(),
            refused: BTreeSet::new(),
            own_list: OwnList::default(),
            leader_knows: 0,
            listeners: BTreeMap::new(),
            goes: false,
            deadlines: BTreeSet::new(),
            floor: FencingToken::default(),
            latest: 0,
            lease: OwnLease::default(),
            heard: BTreeMap::new(),
            docket: Docket::default(),
            links: Links::default(),
            listings: BTreeMap::new(),
            leases: BTreeMap::new(),
            notes: Notes::default(),
            timers: MutexTimers::default(),
        }
    }

    /// The application wants a lock.
    pub(super) fn enter(&mut self, now: LocalTime, name: &LockName, note: Note, out: &mut LockOut) {
        let lock = self.lock(name);
        if lock.intent.is_some() {
            return;
        }
        self.check_kept(now, name, out);
        let lock = self.lock(name);
        lock.intent = Some(Intent { since: now, note });
        lock.messages = 0;
        lock.notified = false;
        lock.rumour = None;
        self.mine.insert(name.clone());
        self.command(now, name, Command::Enter, out);
    }

    /// The application leaves a lock, or no longer wants it.
    pub(super) fn exit(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        let Some(lock) = self.all.get_mut(name) else { return };
        if lock.intent.take().is_none() {
            return;
        }
        self.mine.remove(name);
        if lock.hold.take_if(|hold| hold.bond == Bond::Orphan).is_none() {
            self.strike_own(now, name);
            self.command(now, name, Command::Exit, out);
            self.keep(now, name, out);
        }
        self.tidy(name);
    }

    /// A message of a lock.
    pub(super) fn on_message(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        message: LockMessage,
        out: &mut LockOut,
    ) {
        let Some(rank) = self.rank_of(from, message.epoch) else { return };
        let name = message.lock;
        let repairs = self.has_coordinator(&name);
        if !self.links.is_next(rank, message.number, repairs) {
            return;
        }
        self.hear(rank, now);
        let lock = self.lock(&name);
        if message.highest > lock.highest {
            lock.highest = message.highest;
            lock.moved = now;
        }
        lock.is_settled_by(rank, &message.message);
        if lock.intent.is_some() && message.message.paid_by() == PaidBy::Receiver {
            lock.messages += 1;
        }
        if let Some(note) = message.note {
            if note.token.is_some() || note.member != from {
                lock.rumour = Some(note);
            } else {
                lock.notes.insert(rank, note.note);
            }
        }
        self.docket.highest = self.docket.highest.max(message.highest);
        self.consult(now, &name, Deferred::Message(rank, message.message), out);
        self.tidy(&name);
    }

    /// How many locks this member holds, and how many it waits for.
    pub(super) fn counts(&self) -> (usize, usize) {
        let wants = self.mine_all().filter(|(_, lock)| lock.intent.is_some());
        let held = wants.clone().filter(|(_, lock)| lock.hold.is_some() && !lock.keeps()).count();
        (held, wants.count() - held)
    }

    // ----- the parts of that

    fn lock(&mut self, name: &LockName) -> &mut Lock {
        if !self.all.contains_key(name) {
            let mutex = self.seat.as_ref().map(|seat| {
                let nobody = Carried::default();
                seat.mutex(name, &nobody).numbered_after(self.latest)
            });
            let (highest, moved) = (self.floor, LocalTime::default());
            let started = true;
            let lock = Lock { mutex, started, highest, moved, ..Lock::default() };
            self.all.insert(name.clone(), lock);
        }
        self.all.get_mut(name).expect("it was just put there")
    }

    /// Whether one member, the leader, lets all others in.
    fn has_coordinator(&self, name: &LockName) -> bool {
        self.seat.as_ref().is_none_or(|seat| seat.algorithm(name).has_coordinator())
    }

    /// The locks that the application wants or holds.
    fn mine_all(&self) -> impl Iterator<Item = (&LockName, &Lock)> + Clone {
        self.mine.iter().filter_map(|name| Some((name, self.all.get(name)?)))
    }

    fn rank_of(&self, member: Incarnation, epoch: Epoch) -> Option<MemberId> {
        let seat = self.seat.as_ref().filter(|seat| seat.view.epoch == epoch)?;
        let place = seat.incarnations.iter().position(|other| *other == member)?;
        u32::try_from(place).ok().map(MemberId)
    }

    /// A member was heard of.
    fn hear(&mut self, rank: MemberId, now: LocalTime) {
        self.heard.insert(rank, now);
        self.docket.silent.remove(&rank);
    }

    /// Whether this member leads the view, and so is the coordinator of every lock that has one.
    fn coordinates(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.rank == seat.view.leader)
    }

    fn is_advisory(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.policy.arbiter == Arbiter::None)
    }

    fn command(&mut self, now: LocalTime, name: &LockName, command: Command, out: &mut LockOut) {
        self.consult(now, name, Deferred::Command(command), out);
    }

    /// Hands one input to the mutex of a lock, and carries out what it wants.
    fn feed(&mut self, now: LocalTime, name: &LockName, deferred: Deferred, out: &mut LockOut) {
        let Some(mutex) = self.all.get_mut(name).and_then(|lock| lock.mutex.as_mut()) else {
            return;
        };
        let input = match deferred {
            Deferred::Command(command) => Input::Command(command),
            Deferred::Message(from, message) => Input::Message { from, message },
            Deferred::Timer(timer) => Input::Timer(timer),
        };
        let mut effects = Outbox::default();
        mutex.handle(now, input, &mut effects);
        self.carry_out(now, name, effects, out);
        self.drop_entry_of_nobody(name);
        self.drop_what_went_back(now, name, out);
        self.tell_contended(now, name, out);
        self.note_contended(name);
    }

    fn carry_out(
        &mut self,
        now: LocalTime,
        name: &LockName,
        mut effects: OutboxOf<AnyMutex>,
        out: &mut LockOut,
    ) {
        for effect in effects.drain() {
            match effect {
                Effect::Send { to, message } => self.send(now, name, to, message, out),
                Effect::Tell(Event::Entered) => self.entered(now, name, out),
                Effect::Tell(Event::Queued) => self.queued(now, name, out),
                Effect::Arm { timer, after } => self.timers.set(name, timer, now.after(after)),
                Effect::Disarm(timer) => self.timers.clear(name, timer),
            }
        }
    }

    /// The mutex lets this member wait; the application is told, and by whom as far as it is known.
    fn queued(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        let (advisory, knows) =
            (self.is_advisory(), self.coordinates() && self.has_coordinator(name));
        let waits = |lock: &&mut Lock| lock.intent.is_some() && lock.hold.is_none();
        let Some(lock) = self.all.get_mut(name).filter(waits) else { return };
        lock.notified = true;
        let entry = lock.entry.as_ref().filter(|_| knows);
        let note = match entry.map(|entry| entry.for_people(now, advisory)) {
            Some(note) => Some(Box::new(note)),
            None => lock.rumour.clone(),
        };
        out.push(LockEffect::Tell(name.clone(), LockEvent::Queued(note)));
    }

    /// Sends something to another member.
    fn send(
        &mut self,
        now: LocalTime,
        name: &LockName,
        to: MemberId,
        message: AnyMessage,
        out: &mut LockOut,
    ) {
        let Some(seat) = &self.seat else { return };
        let epoch = seat.view.epoch;
        let Some(&receiver) = seat.incarnations.get(to.0 as usize) else { return };
        let note = self.note_about(now, name, &message);
        let lock = self.lock(name);
        if lock.mutex.as_ref().is_some_and(|mutex| mutex.pays_for(&message)) {
            lock.messages += 1;
        }
        let highest = if let AnyMessage::Central(central::Message::Grant(number)) = message {
            self.grant(now, name, to, number)
        } else {
            lock.highest
        };
        let (number, lock) = (self.links.next(to), name.clone());
        let message = LockMessage { epoch, number, lock, highest, note, message };
        out.push(LockEffect::Send(receiver, PeerMessage::Lock(Box::new(message))));
    }

    /// What goes along for people: the member that asks, with a request for itself; the holder, with the
    /// answer to a member that has to wait.
    fn note_about(
        &self,
        now: LocalTime,
        name: &LockName,
        message: &AnyMessage,
    ) -> Option<Box<LockNote>> {
        let lock = self.all.get(name)?;
        if let AnyMessage::Central(central::Message::Queued(_)) = message {
            return Some(Box::new(lock.entry.as_ref()?.for_people(now, self.is_advisory())));
        }
        let note = lock.intent.as_ref()?.note.clone();
        let (token, held) = match (message, lock.hold) {
            (AnyMessage::RicartAgrawala(ricart_agrawala::Message::Queued(_)), Some(hold)) => {
                (Some(hold.token), now - hold.entered)
            }
            (message, None) if message.paid_by() == PaidBy::Sender && asks_for_itself(message) => {
                (None, Duration::ZERO)
            }
            (_, _) => return None,
        };
        Some(Box::new(LockNote { member: self.me, note, token, held }))
    }

    /// Not every algorithm tells a member that waits that it is known to. What a promise listed that the
    /// leader has acknowledged is: `asked` is when it was sent.
    fn tell_who_waits(&mut self, now: LocalTime, asked: LocalTime, out: &mut LockOut) {
        self.look_at_touched();
        let waits = |name: &LockName| {
            let lock = self.all.get(name).filter(|lock| !lock.notified && lock.hold.is_none())?;
            let since = lock.intent.as_ref().map(|intent| intent.since)?;
            (since < asked && !self.has_coordinator(name) && self.may_consult(now, name))
                .then_some(())
        };
        let names: Vec<LockName> =
            self.waiting.iter().filter(|name| waits(name).is_some()).cloned().collect();
        for name in names {
            self.queued(now, &name, out);
        }
    }

    /// When the next timer of a mutex fires.
    pub(super) fn next_timer(&self) -> Option<LocalTime> {
        self.timers.next()
    }

    /// Whether that is another time than the member's timer is set for, which it is to be now.
    pub(super) fn takes_arming(&mut self) -> bool {
        self.timers.takes_arming()
    }

    /// Fires the timers that are due.
    pub(super) fn fire(&mut self, now: LocalTime, out: &mut LockOut) {
        while let Some((name, timer)) = self.timers.pop(now) {
            self.consult(now, &name, Deferred::Timer(timer), out);
            self.tidy(&name);
        }
    }

    /// Forgets a lock that nobody uses. Neither its tokens nor its requests' numbers come again.
    fn tidy(&mut self, name: &LockName) {
        let Some(lock) = self.all.get(name) else { return };
        let unused = lock.mutex.as_ref().is_none_or(AnyMutex::is_unused);
        let unknown = lock.entry.is_none() && lock.waiters.is_empty();
        let idle = unused && lock.deferred.is_empty() && lock.closed_until == LocalTime::default();
        if idle && unknown && lock.intent.is_none() && lock.hold.is_none() {
            self.floor = self.floor.max(lock.spent());
            let latest = lock.mutex.as_ref().map(AnyMutex::latest);
            self.latest = self.latest.max(latest.unwrap_or_default());
            self.timers.forget(name);
            self.all.remove(name);
        }
    }
}

impl Lock {
    /// The mutex, if it has a coordinator.
    fn central(&self) -> Option<&Central> {
        self.mutex.as_ref().and_then(AnyMutex::central)
    }

    fn central_mut(&mut self) -> Option<&mut Central> {
        self.mutex.as_mut().and_then(AnyMutex::central_mut)
    }
}

/// Whether the sender of such a message speaks of itself alone.
fn asks_for_itself(message: &AnyMessage) -> bool {
    match message {
        AnyMessage::TokenRing(_) | AnyMessage::Raymond(_) => false,
        AnyMessage::Central(_)
        | AnyMessage::Lamport(_)
        | AnyMessage::RicartAgrawala(_)
        | AnyMessage::Maekawa(_)
        | AnyMessage::Voting(_) => true,
    }
}
