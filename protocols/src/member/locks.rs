//! All locks of one member in one view: the mutex of each, and what the books leave out around it.
//!
//! What is put around a mutex:
//!
//! * **A token.** Every message carries the highest token of the lock that its sender knows; who
//!   enters takes the next. The coordinator computes the same and writes it into its table.
//! * **A lease.** A grant is good for `hold(lock wait)` from the stamp of the member's own message
//!   that it answers; the coordinator keeps others out for the whole lock wait from when it sent
//!   the grant. A member lists its holds with every promise, and the leader's next heartbeat
//!   extends them.
//! * **A gate.** The coordinator hears nothing of a lock while its leader has no office or the
//!   quiet time of a new view runs: what arrives is kept, in order.

mod carry;
mod coordinator;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::message::{Extended, LockMessage, LockNote, Note};
use super::{LockEvent, LostReason};
use crate::ids::{Epoch, FencingToken, Incarnation, LockName, MemberId};
use crate::mutex::central::{self, Central, RequestNumber};
use crate::mutex::{Command, Event, Mutex, Phase};
use crate::protocol::{Effect, Input, InputOf, Outbox, Protocol};
use crate::record::Record;
use crate::time::{LocalTime, hold};
use crate::view::View;

/// All locks of one member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Locks {
    me: Incarnation,
    seat: Option<Seat>,
    locks: BTreeMap<LockName, Lock>,
    /// No token of a forgotten lock of this view is higher.
    floor: FencingToken,
    /// When the holds of a leader end: with its office.
    office_until: LocalTime,
    /// The coordinator may let members in.
    open: bool,
    /// When each member was last heard of: by its own clock, and by ours.
    heard: BTreeMap<MemberId, Heard>,
}

/// A place in a view.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Seat {
    rank: MemberId,
    view: View,
    incarnations: Vec<Incarnation>,
    ceiling: Epoch,
    lock_wait: Duration,
    office_wait: Duration,
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
    mutex: Option<Central>,
    highest: FencingToken,
    /// The application's wish, if it has one.
    wish: Option<Wish>,
    hold: Option<Hold>,
    /// Messages of this entry so far, as the books count them.
    messages: u64,
    /// The leader's knowledge of who is inside.
    entry: Option<Entry>,
    /// The leader's knowledge of who waits.
    notes: BTreeMap<MemberId, Note>,
    /// Nobody is let in before.
    closed_until: LocalTime,
    /// What the coordinator has not heard yet, in order.
    kept: VecDeque<Kept>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Wish {
    since: LocalTime,
    note: Note,
}

/// A hold of this member.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Hold {
    token: FencingToken,
    /// When this member entered.
    entered: LocalTime,
    /// A deadline that has passed is final.
    deadline: LocalTime,
    bond: Bond,
}

/// What a hold lives on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Bond {
    /// The leader extends it.
    Lease,
    /// This member leads: it ends with the office.
    Office,
    /// The present view does not know it: it runs out.
    Orphan,
}

/// The leader's knowledge of who is inside.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Entry {
    holder: Incarnation,
    token: FencingToken,
    busy_until: LocalTime,
    since: LocalTime,
    note: Note,
}

/// What the coordinator has not heard yet.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Kept {
    /// This member itself.
    Command(Command),
    /// Another.
    Message(MemberId, central::Message),
    /// The lease of whoever is inside is over.
    Expel,
}

/// What the locks want done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum LockEffect {
    Send(Incarnation, Box<LockMessage>),
    Tell(LockName, LockEvent),
}

pub(super) type LockOut = Vec<LockEffect>;

/// Where a grant or an entry comes from.
#[derive(Clone, Copy)]
enum Base {
    /// The leader let itself in.
    Own,
    /// A grant that answers what this member said at that time.
    Stamp(Option<LocalTime>),
}

impl Locks {
    pub(super) fn new(me: Incarnation) -> Self {
        Self {
            me,
            seat: None,
            locks: BTreeMap::new(),
            floor: FencingToken::default(),
            office_until: LocalTime::default(),
            open: false,
            heard: BTreeMap::new(),
        }
    }

    /// The application wants a lock.
    pub(super) fn enter(&mut self, now: LocalTime, name: &LockName, note: Note, out: &mut LockOut) {
        let lock = self.lock(name);
        if lock.wish.is_some() {
            return;
        }
        lock.wish = Some(Wish { since: now, note });
        lock.messages = 0;
        self.command(now, name, Command::Enter, out);
    }

    /// The application leaves a lock, or no longer wants it.
    pub(super) fn exit(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        if lock.wish.take().is_none() {
            return;
        }
        let orphan = lock.hold.take().is_some_and(|hold| hold.bond == Bond::Orphan);
        if !orphan {
            self.command(now, name, Command::Exit, out);
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
        self.heard.insert(rank, Heard { stamp: message.stamp, at: now });
        let lock = self.lock(&name);
        lock.highest = lock.highest.max(message.highest);
        let input = Input::Message { from: rank, message: message.message };
        match message.message {
            central::Message::Request(_) | central::Message::Release(_) => {
                if let Some(note) = message.note {
                    lock.notes.insert(rank, note.note);
                }
                self.coordinate(now, &name, Kept::Message(rank, message.message), out);
            }
            central::Message::Grant(_) => {
                lock.messages += 1;
                self.feed(now, &name, input, Base::Stamp(message.heard), out);
            }
            central::Message::Queued(_) => {
                if lock.wish.is_some() {
                    out.push(LockEffect::Tell(name.clone(), LockEvent::Queued(message.note)));
                }
                self.feed(now, &name, input, Base::Stamp(None), out);
            }
        }
        self.tidy(&name);
    }

    /// The leader extended what a promise of this member listed: every hold that it had then.
    pub(super) fn on_extended(&mut self, now: LocalTime, extended: &Extended, out: &mut LockOut) {
        let Some(seat) = &self.seat else { return };
        let deadline = extended.stamp.after(hold(seat.lock_wait));
        for (name, lock) in &mut self.locks {
            let Some(held) = &mut lock.hold else { continue };
            let refused = extended.refused.iter().any(|(n, t)| n == name && *t == held.token);
            let listed = held.entered < extended.stamp;
            if held.bond == Bond::Lease && held.deadline > now && listed && !refused {
                held.deadline = held.deadline.max(deadline);
                let contended = extended.contended.contains(name);
                let event = LockEvent::Extended { deadline: held.deadline, contended };
                out.push(LockEffect::Tell(name.clone(), event));
            }
        }
    }

    /// Ends the holds whose deadline has passed. Returns the next deadline.
    pub(super) fn expire_holds(&mut self, now: LocalTime, out: &mut LockOut) -> Option<LocalTime> {
        let over = |lock: &Lock| lock.hold.is_some_and(|hold| hold.deadline <= now);
        let names: Vec<LockName> = self
            .locks
            .iter()
            .filter(|(_, lock)| over(lock))
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            self.lose(now, &name, LostReason::LeaseExpired, out);
        }
        self.locks.values().filter_map(|lock| lock.hold).map(|hold| hold.deadline).min()
    }

    /// Ends a hold that nobody gave back.
    fn lose(&mut self, now: LocalTime, name: &LockName, reason: LostReason, out: &mut LockOut) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        let Some(hold) = lock.hold.take() else { return };
        lock.wish = None;
        out.push(LockEffect::Tell(name.clone(), LockEvent::Lost(reason)));
        match hold.bond {
            // Nobody else can take it out of the table of a leader.
            Bond::Office => self.command(now, name, Command::Exit, out),
            Bond::Lease => {
                if let Some(mutex) = &mut lock.mutex {
                    mutex.forget_own_hold();
                }
            }
            Bond::Orphan => {}
        }
        self.tidy(name);
    }

    /// The office of this member, which leads, lasts until then. A hold that was carried into the
    /// view keeps its own deadline until the office has begun; from then on it ends with it.
    pub(super) fn set_office(&mut self, now: LocalTime, until: LocalTime, out: &mut LockOut) {
        self.office_until = until;
        for (name, lock) in &mut self.locks {
            let contended = lock.mutex.as_ref().is_some_and(|mutex| mutex.queue().next().is_some());
            let Some(held) = &mut lock.hold else { continue };
            let runs = held.deadline > now && until > now;
            if held.bond == Bond::Office && runs && held.deadline != until {
                held.deadline = until;
                let event = LockEvent::Extended { deadline: until, contended };
                out.push(LockEffect::Tell(name.clone(), event));
            }
        }
    }

    // ----- inside

    fn lock(&mut self, name: &LockName) -> &mut Lock {
        if !self.locks.contains_key(name) {
            let mutex = self
                .seat
                .as_ref()
                .map(|seat| Central::new(seat.rank, seat.view, &crate::mutex::Carried::default()));
            let highest = self.floor;
            self.locks.insert(name.clone(), Lock { mutex, highest, ..Lock::default() });
        }
        self.locks.get_mut(name).expect("it was just put there")
    }

    fn rank_of(&self, member: Incarnation, epoch: Epoch) -> Option<MemberId> {
        let seat = self.seat.as_ref().filter(|seat| seat.view.epoch == epoch)?;
        let place = seat.incarnations.iter().position(|other| *other == member)?;
        u32::try_from(place).ok().map(MemberId)
    }

    fn coordinates(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.rank == seat.view.leader)
    }

    fn command(&mut self, now: LocalTime, name: &LockName, command: Command, out: &mut LockOut) {
        if self.coordinates() {
            self.coordinate(now, name, Kept::Command(command), out);
        } else {
            self.feed(now, name, Input::Command(command), Base::Stamp(None), out);
        }
    }

    /// Hands one input to the mutex of a lock, and carries out what it wants.
    fn feed(
        &mut self,
        now: LocalTime,
        name: &LockName,
        input: InputOf<Central>,
        base: Base,
        out: &mut LockOut,
    ) {
        let mut effects = Outbox::default();
        let Some(mutex) = self.locks.get_mut(name).and_then(|lock| lock.mutex.as_mut()) else {
            return;
        };
        mutex.handle(now, input, &mut effects);
        for effect in effects.drain() {
            match effect {
                Effect::Send { to, message } => self.send(now, name, to, message, out),
                Effect::Tell(Event::Entered) => self.entered(now, name, base, out),
                Effect::Tell(Event::Queued) | Effect::Arm { .. } | Effect::Disarm(_) => {}
            }
        }
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
        let highest = self.lock(name).highest;
        let note = self.note_for(now, name, message);
        let lock = self.lock(name);
        match message {
            central::Message::Request(_) | central::Message::Release(_) => lock.messages += 1,
            central::Message::Queued(_) => {}
            central::Message::Grant(_) => self.record_grant(now, name, to),
        }
        let lock = name.clone();
        let message = LockMessage { epoch, lock, stamp: now, heard, highest, note, message };
        out.push(LockEffect::Send(receiver, Box::new(message)));
    }

    /// What goes along for people: with a request who asks, with `queued` who holds.
    fn note_for(
        &self,
        now: LocalTime,
        name: &LockName,
        message: central::Message,
    ) -> Option<Box<LockNote>> {
        let lock = self.locks.get(name)?;
        let note = match message {
            central::Message::Request(_) => LockNote {
                member: self.me,
                note: lock.wish.as_ref()?.note.clone(),
                token: None,
                held: Duration::ZERO,
            },
            central::Message::Queued(_) => {
                lock.entry.as_ref().map(|entry| entry.for_people(now))?
            }
            central::Message::Grant(_) | central::Message::Release(_) => return None,
        };
        Some(Box::new(note))
    }

    /// The mutex let this member in.
    fn entered(&mut self, now: LocalTime, name: &LockName, base: Base, out: &mut LockOut) {
        let Some(seat) = &self.seat else { return };
        let (rank, ceiling, epoch) = (seat.rank, seat.ceiling, seat.view.epoch);
        let (deadline, bond) = match base {
            Base::Own => (self.office_until, Bond::Office),
            Base::Stamp(stamp) => {
                (stamp.unwrap_or_default().after(hold(seat.lock_wait)), Bond::Lease)
            }
        };
        if let Base::Own = base {
            self.record_grant(now, name, rank);
        }
        let lock = self.lock(name);
        let token = match base {
            Base::Own => Some(lock.highest),
            Base::Stamp(_) => lock.highest.successor(ceiling),
        };
        let Some(token) = token.filter(|_| deadline > now && lock.wish.is_some()) else {
            return self.decline(now, name, out);
        };
        lock.highest = token;
        lock.hold = Some(Hold { token, entered: now, deadline, bond });
        let messages = lock.messages;
        let token = Some(token);
        let event = LockEvent::Entered { token, epoch, deadline, messages };
        out.push(LockEffect::Tell(name.clone(), event));
    }

    /// A grant came too late, or nobody wants it any more: leaves, and asks again if somebody does.
    fn decline(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        self.command(now, name, Command::Exit, out);
        if self.lock(name).wish.is_some() {
            self.command(now, name, Command::Enter, out);
        }
    }

    /// Forgets a lock that nobody uses; the floor keeps its tokens from coming again.
    fn tidy(&mut self, name: &LockName) {
        let Some(lock) = self.locks.get(name) else { return };
        let unused = lock.mutex.as_ref().is_none_or(Central::is_unused);
        let idle = unused && lock.kept.is_empty() && lock.closed_until == LocalTime::default();
        if idle && lock.wish.is_none() && lock.hold.is_none() {
            self.floor = self.floor.max(lock.highest);
            self.locks.remove(name);
        }
    }
}

impl Entry {
    fn for_people(&self, now: LocalTime) -> LockNote {
        LockNote {
            member: self.holder,
            note: self.note.clone(),
            token: Some(self.token),
            held: now - self.since,
        }
    }
}

impl Record {
    fn seat(&self, me: Incarnation) -> Option<Seat> {
        Some(Seat {
            rank: self.rank(me)?,
            view: self.view(),
            incarnations: self.incarnations().collect(),
            ceiling: self.ceiling,
            lock_wait: self.timing.lock_wait,
            office_wait: self.timing.office_wait,
        })
    }
}

/// What a promise says of this member's locks.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    pub(super) holds: Vec<(LockName, FencingToken)>,
    pub(super) waits: Vec<(LockName, RequestNumber)>,
}

impl Locks {
    /// What this member holds and waits for, for a promise.
    pub(super) fn listed(&self, now: LocalTime) -> Listed {
        let mut listed = Listed::default();
        for (name, lock) in &self.locks {
            if let Some(hold) = lock.hold.filter(|h| h.bond != Bond::Orphan && h.deadline > now) {
                listed.holds.push((name.clone(), hold.token));
            }
            if let Some(mutex) = lock.mutex.as_ref().filter(|m| m.phase() == Phase::Waiting) {
                listed.waits.push((name.clone(), mutex.latest()));
            }
        }
        listed
    }
}
