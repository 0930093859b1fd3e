//! All locks of one member in one view: the mutex of each, and what the textbook leaves out around it.
//!
//! What is put around a mutex:
//!
//! * **A token.** Every message carries the highest token of the lock that its sender knows; who
//!   enters takes the next. The coordinator computes the same and writes it into its table.
//! * **A lease.** A grant is good for `hold(lease)` from the stamp of the member's own message that
//!   it answers; the coordinator keeps others out for the whole member lease from when it sent the
//!   grant. A member lists its holds with every promise, and the leader's next heartbeat extends
//!   them.
//! * **Grants that are kept** ([`keeping`]), if the policy says so.
//! * **Admission.** The coordinator hears nothing of a lock while its leader has no leader lease or the
//!   grace period of a new view runs: what arrives is kept, in order.
//!
//! That is so of a lock that the leader grants. Of one that the members grant among themselves
//! ([`peers`]) every member keeps what arrives while admission is closed, and whoever is let in counts
//! on the one lease that it has as a member.

mod advisory;
mod carry;
mod coordinator;
mod holding;
mod keeping;
mod list;
mod peers;
mod seat;
mod tables;
mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use self::coordinator::{Deferred, Docket, TableEntry};
use self::holding::{Bond, Hold};
use self::keeping::Reserved;
use self::peers::PeerLocks;
use self::seat::Seat;
use self::tables::{Listing, Waiter};
use self::timers::MutexTimers;
use super::message::{LockMessage, LockNote, Note, PeerMessage};
use super::{LockEvent, LostReason};
use crate::ids::{Epoch, FencingToken, Incarnation, LockName, MemberId};
use crate::mutex::central::{self, Central, RequestNumber};
use crate::mutex::{AnyMessage, AnyMutex, Carried, Command, Event};
use crate::policy::{Arbiter, Policy};
use crate::protocol::{Effect, Input, InputOf, Outbox, OutboxOf, Protocol};
use crate::time::LocalTime;

/// All locks of one member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Locks {
    me: Incarnation,
    seat: Option<Seat>,
    /// Of the latest view: a hold may end when this member is in none.
    policy: Policy,
    all: BTreeMap<LockName, Lock>,
    /// Those that the application wants or holds, or of which this member keeps the grant.
    mine: BTreeSet<LockName>,
    /// It is about to leave the leader lease or the group, and keeps nothing any more.
    goes: bool,
    /// When own holds end, each as it was known at some time; it may have been extended since.
    deadlines: BTreeSet<(LocalTime, LockName)>,
    /// No token of a forgotten lock of this view is higher.
    floor: FencingToken,
    /// Nor is the number of a request for one.
    latest: u64,
    /// Until when this member, which leads, has its leader lease.
    leader_lease_until: LocalTime,
    /// When each member was last heard of: by its own clock, and by ours.
    heard: BTreeMap<MemberId, Heard>,
    /// What the coordinators have to do.
    docket: Docket,
    /// What there is besides if members grant locks among themselves.
    peers: PeerLocks,
    /// What the members' latest promises listed of such locks, at the leader.
    listings: BTreeMap<MemberId, Listing>,
    timers: MutexTimers,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Heard {
    stamp: LocalTime,
    at: LocalTime,
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
}

pub(super) type LockOut = Vec<LockEffect>;

/// Where an entry comes from.
#[derive(Clone, Copy)]
enum Base {
    /// Nobody lets this member in.
    Nobody,
    /// The leader lets itself in.
    Own,
    /// A grant, which answers what this member said at that time.
    Grant { heard: Option<LocalTime>, before: FencingToken },
    /// The members among themselves let this one in.
    Peers,
}

impl Locks {
    pub(super) fn new(me: Incarnation) -> Self {
        Self {
            me,
            seat: None,
            policy: Policy::default(),
            all: BTreeMap::new(),
            mine: BTreeSet::new(),
            goes: false,
            deadlines: BTreeSet::new(),
            floor: FencingToken::default(),
            latest: 0,
            leader_lease_until: LocalTime::default(),
            heard: BTreeMap::new(),
            docket: Docket::default(),
            peers: PeerLocks::default(),
            listings: BTreeMap::new(),
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
        let hold = lock.hold.take();
        if hold.is_none_or(|hold| hold.bond != Bond::Orphan) {
            self.strike_own(now, name);
            self.command(now, name, Command::Exit, out);
            self.keep(now, name, hold, out);
        }
        self.tidy(name);
    }

    /// A message of a lock, of this view, from a member of it.
    pub(super) fn on_message(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        message: LockMessage,
        out: &mut LockOut,
    ) {
        let Some(rank) = self.rank_of(from, message.epoch) else { return };
        let name = message.lock;
        if !self.is_led(&name) {
            return;
        }
        let is_late = !self.hear(rank, message.stamp, now);
        if is_late && matches!(message.message, central::Message::Request(_)) {
            // It may have been given up since. If it was not, the next promise lists it.
            return;
        }
        let lock = self.lock(&name);
        lock.highest = lock.highest.max(message.highest);
        lock.is_settled_by(rank, message.message);
        let sent = AnyMessage::Central(message.message);
        let input = Input::Message { from: rank, message: sent.clone() };
        match message.message {
            central::Message::Request(_)
            | central::Message::Release(_)
            | central::Message::InUse(_) => {
                if let Some(note) = message.note {
                    lock.notes.insert(rank, note.note);
                }
                self.coordinate(now, &name, Deferred::Message(rank, sent), out);
            }
            central::Message::Grant(_) => {
                let base = Base::Grant { heard: message.heard, before: message.highest };
                self.feed(now, &name, input, base, out);
            }
            central::Message::Queued(_) => {
                if lock.intent.is_some() && lock.hold.is_none() {
                    out.push(LockEffect::Tell(name.clone(), LockEvent::Queued(message.note)));
                }
                self.feed(now, &name, input, Base::Nobody, out);
            }
            central::Message::Wanted(_) => self.is_wanted(now, &name, input, out),
        }
        self.tidy(&name);
    }

    /// How many locks this member holds, and how many it waits for.
    pub(super) fn counts(&self) -> (usize, usize) {
        let wants = self.mine_all().filter(|(_, lock)| lock.intent.is_some());
        let held = wants.clone().filter(|(_, lock)| lock.hold.is_some()).count();
        (held, wants.count() - held)
    }

    // ----- inside

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

    /// Whether the leader grants a lock.
    fn is_led(&self, name: &LockName) -> bool {
        self.seat.as_ref().is_none_or(|seat| seat.algorithm(name).is_led())
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

    /// Takes note of what a member said at that time. False if something that it said later was
    /// heard before.
    fn hear(&mut self, rank: MemberId, stamp: LocalTime, now: LocalTime) -> bool {
        if self.heard.get(&rank).is_some_and(|heard| heard.stamp > stamp) {
            return false;
        }
        self.heard.insert(rank, Heard { stamp, at: now });
        self.docket.silent.remove(&rank);
        true
    }

    fn coordinates(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.rank == seat.view.leader)
    }

    fn is_advisory(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.policy.arbiter == Arbiter::None)
    }

    fn command(&mut self, now: LocalTime, name: &LockName, command: Command, out: &mut LockOut) {
        if !self.is_led(name) {
            self.consult(now, name, Deferred::Command(command), out);
        } else if self.coordinates() {
            self.coordinate(now, name, Deferred::Command(command), out);
        } else {
            self.feed(now, name, Input::Command(command), Base::Nobody, out);
        }
    }

    /// Hands one input to the mutex of a lock, and carries out what it wants.
    fn feed(
        &mut self,
        now: LocalTime,
        name: &LockName,
        input: InputOf<AnyMutex>,
        base: Base,
        out: &mut LockOut,
    ) {
        let mut effects = Outbox::default();
        let Some(mutex) = self.all.get_mut(name).and_then(|lock| lock.mutex.as_mut()) else {
            return;
        };
        mutex.handle(now, input, &mut effects);
        self.carry_out(now, name, effects, base, out);
    }

    fn carry_out(
        &mut self,
        now: LocalTime,
        name: &LockName,
        mut effects: OutboxOf<AnyMutex>,
        base: Base,
        out: &mut LockOut,
    ) {
        for effect in effects.drain() {
            match effect {
                Effect::Send { to, message: AnyMessage::Central(message) } => {
                    self.send(now, name, to, message, out);
                }
                Effect::Send { to, message } => self.say(now, name, to, message, out),
                Effect::Tell(Event::Entered) => self.entered(now, name, base, out),
                Effect::Tell(Event::Queued) => self.queued(now, name, base, out),
                Effect::Arm { timer, after } => self.timers.set(name, timer, now.after(after)),
                Effect::Disarm(timer) => self.timers.clear(name, timer),
            }
        }
    }

    /// The mutex lets this member wait. A follower was told with the message, and who holds.
    fn queued(&mut self, now: LocalTime, name: &LockName, base: Base, out: &mut LockOut) {
        let Some(lock) = self.all.get(name).filter(|lock| lock.intent.is_some()) else { return };
        let note = match base {
            Base::Own => {
                let reply = central::Message::Queued(RequestNumber::default());
                self.note_for(now, name, reply)
            }
            Base::Peers => lock.rumour.clone(),
            Base::Nobody | Base::Grant { .. } => return,
        };
        if let Some(lock) = self.all.get_mut(name) {
            lock.notified = true;
        }
        out.push(LockEffect::Tell(name.clone(), LockEvent::Queued(note)));
    }

    fn send(
        &mut self,
        now: LocalTime,
        name: &LockName,
        to: MemberId,
        message: central::Message,
        out: &mut LockOut,
    ) {
        let Some(seat) = &self.seat else { return };
        let epoch = seat.view.epoch;
        let Some(&receiver) = seat.incarnations.get(to.0 as usize) else { return };
        let heard = self.heard.get(&to).map(|heard| heard.stamp);
        let note = self.note_for(now, name, message);
        let lock = self.lock(name);
        let mut highest = lock.highest;
        match message {
            central::Message::Request(_) | central::Message::Release(_) => lock.messages += 1,
            central::Message::Queued(_)
            | central::Message::Wanted(_)
            | central::Message::InUse(_) => {}
            central::Message::Grant(number) => highest = self.grant(now, name, to, number),
        }
        let lock = name.clone();
        let message = LockMessage { epoch, lock, stamp: now, heard, highest, note, message };
        out.push(LockEffect::Send(receiver, PeerMessage::Lock(Box::new(message))));
    }

    /// What goes along for people: with a request who asks, with `queued` who holds.
    fn note_for(
        &self,
        now: LocalTime,
        name: &LockName,
        message: central::Message,
    ) -> Option<Box<LockNote>> {
        let lock = self.all.get(name)?;
        let note = match message {
            central::Message::Request(_) => LockNote {
                member: self.me,
                note: lock.intent.as_ref()?.note.clone(),
                token: None,
                held: Duration::ZERO,
            },
            central::Message::Queued(_) => {
                let entry = lock.entry.as_ref()?;
                entry.for_people(now, self.is_advisory())
            }
            central::Message::Grant(_)
            | central::Message::Release(_)
            | central::Message::Wanted(_)
            | central::Message::InUse(_) => return None,
        };
        Some(Box::new(note))
    }

    /// Forgets a lock that nobody uses. Neither its tokens nor its requests' numbers come again.
    fn tidy(&mut self, name: &LockName) {
        let led = self.is_led(name);
        let Some(lock) = self.all.get(name) else { return };
        let unused = lock.mutex.as_ref().is_none_or(AnyMutex::is_unused);
        let unknown = led || lock.entry.is_none() && lock.waiters.is_empty();
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
    /// The mutex, if the leader grants this lock.
    fn central(&self) -> Option<&Central> {
        self.mutex.as_ref().and_then(AnyMutex::central)
    }

    fn central_mut(&mut self) -> Option<&mut Central> {
        self.mutex.as_mut().and_then(AnyMutex::central_mut)
    }
}
