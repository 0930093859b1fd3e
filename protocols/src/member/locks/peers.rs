//! Locks that the members grant among themselves, by permission or by a token.
//!
//! No table says who is in the critical section, so what the leader does for its own locks is done at every member
//! (rules 26 to 28 and 31 of `docs/views.md`):
//!
//! * **Admission.** While the leader's latest heartbeat does not say that locks are granted, or this
//!   member's lease does not run, its mutexes hear nothing: what arrives is kept, in order.
//! * **A lease.** A member has one for all its holds: until `hold(lease)` after the stamp of its latest
//!   promise that the leader has acknowledged in this view. The leader has its leader lease.
//! * **A token.** Every message carries the highest token of the lock that its sender knows. Whoever
//!   was in the critical section has since sent something, by which the next is let in; so the next knows its token.
//! * **Links without gaps.** The algorithms lean on links that lose nothing. A message that follows a
//!   gap is not heard, nor any after it: the view is to be changed.

use std::collections::BTreeMap;

use super::super::message::{Admission, LockNote, PeerLockMessage, PeerMessage};
use super::coordinator::Deferred;
use super::{Base, LockEffect, LockOut, Locks};
use crate::ids::{Epoch, Incarnation, LockName, MemberId};
use crate::mutex::{AnyMessage, AnyTimer, PaidBy, ricart_agrawala};
use crate::protocol::{Input, Outbox, Protocol};
use crate::time::LocalTime;

/// What a member keeps of such locks beside the mutexes themselves.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct PeerLocks {
    /// The leader's latest word.
    is_open: bool,
    /// Until when the holds of this member are good.
    pub(super) lease_until: LocalTime,
    /// How many messages went to each.
    sent: BTreeMap<MemberId, u64>,
    /// How many came from each without a gap; nothing more is heard after one.
    links: BTreeMap<MemberId, Link>,
    /// What others said in a view that this member has yet to enter, in order.
    early: Vec<(Incarnation, PeerLockMessage)>,
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
struct Link {
    received: u64,
    broken: bool,
}

/// How many messages of views to come are kept. A gap follows what is dropped.
const EARLY_MAX: usize = 4096;

impl PeerLocks {
    /// What is known when a view begins.
    pub(super) fn anew(&mut self) {
        *self = Self { early: std::mem::take(&mut self.early), ..Self::default() };
    }

    /// No view without an arbiter is to come.
    pub(super) fn forget_unarbitrated(&mut self) {
        self.early.retain(|(_, message)| !message.epoch.is_unarbitrated());
    }

    /// Whether this is the next message of a link, and none is missing.
    fn is_next(&mut self, from: MemberId, number: u64) -> bool {
        let link = self.links.entry(from).or_default();
        let next = link.received.saturating_add(1);
        link.broken |= number > next;
        let is_next = !link.broken && number == next;
        if is_next {
            link.received = number;
        }
        is_next
    }
}

impl Locks {
    /// The leader said whether locks are granted.
    pub(in crate::member) fn hear_admission(
        &mut self,
        now: LocalTime,
        admission: Admission,
        out: &mut LockOut,
    ) {
        self.peers.is_open = admission.open;
        self.set_ceiling(admission.ceiling);
        self.tick(now, out);
    }

    /// A message of such a lock.
    pub(in crate::member) fn on_peer(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        message: PeerLockMessage,
        out: &mut LockOut,
    ) {
        let Some(rank) = self.rank_of(from, message.epoch) else { return };
        if !self.peers.is_next(rank, message.number) || self.is_led(&message.lock) {
            return;
        }
        let name = message.lock;
        let lock = self.lock(&name);
        if message.highest > lock.highest {
            lock.highest = message.highest;
            lock.moved = now;
        }
        if lock.intent.is_some() && message.message.paid_by() == PaidBy::Receiver {
            lock.messages += 1;
        }
        if let Some(note) = message.note {
            if note.token.is_some() {
                lock.rumour = Some(note);
            } else {
                lock.notes.insert(rank, note.note);
            }
        }
        self.docket.highest = self.docket.highest.max(message.highest);
        self.consult(now, &name, Deferred::Message(rank, message.message), out);
        self.tidy(&name);
    }

    /// A message of a view that this member has yet to enter.
    pub(in crate::member) fn keep_early(&mut self, from: Incarnation, message: PeerLockMessage) {
        if self.peers.early.len() < EARLY_MAX {
            self.peers.early.push((from, message));
        }
    }

    /// What others said in this view before this member entered it.
    pub(super) fn hear_early(&mut self, now: LocalTime, epoch: Epoch, out: &mut LockOut) {
        let early = std::mem::take(&mut self.peers.early);
        for (from, message) in early {
            let same_kind = message.epoch.is_unarbitrated() == epoch.is_unarbitrated();
            if message.epoch == epoch {
                self.on_peer(now, from, message, out);
            } else if message.epoch > epoch || !same_kind {
                self.peers.early.push((from, message));
            }
        }
    }

    /// Something for the mutex of such a lock: now if admission is open, else later.
    pub(super) fn consult(
        &mut self,
        now: LocalTime,
        name: &LockName,
        deferred: Deferred,
        out: &mut LockOut,
    ) {
        if self.seat.is_none() {
            return;
        }
        self.lock(name).keep(deferred);
        self.docket.stirred.insert(name.clone());
        self.work_off_lock(now, name, out);
    }

    /// Rules 26 and 30: whether the mutex of such a lock hears anything. There must be a token left,
    /// too: whoever entered would have none.
    pub(super) fn may_consult(&self, now: LocalTime, name: &LockName) -> bool {
        let (Some(lock), Some(seat)) = (self.all.get(name), &self.seat) else { return false };
        let open = if self.coordinates() { self.docket.open_to_peers } else { self.peers.is_open };
        open && now < self.lease_until()
            && lock.closed_until <= now
            && lock.highest.successor(seat.ceiling).is_some()
    }

    /// Rule 27: until when whoever its peers let in may hold.
    pub(super) fn lease_until(&self) -> LocalTime {
        if self.coordinates() { self.leader_lease_until } else { self.peers.lease_until }
    }

    /// The view has begun for a mutex, once.
    pub(super) fn begin(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        let Some(lock) = self.all.get_mut(name).filter(|lock| !lock.started) else { return };
        lock.started = true;
        let mut effects = Outbox::default();
        if let Some(mutex) = &mut lock.mutex {
            mutex.start(now, &mut effects);
        }
        self.carry_out(now, name, effects, Base::Peers, out);
    }

    pub(super) fn hear_peer(
        &mut self,
        now: LocalTime,
        name: &LockName,
        deferred: Deferred,
        out: &mut LockOut,
    ) {
        let input = match deferred {
            Deferred::Command(command) => Input::Command(command),
            Deferred::Message(from, message) => Input::Message { from, message },
            Deferred::Timer(timer) => Input::Timer(timer),
        };
        self.feed(now, name, input, Base::Peers, out);
    }

    /// Not every algorithm tells whoever waits that it is known to. What a promise listed that the
    /// leader has acknowledged is: `asked` is when it was sent.
    pub(super) fn tell_who_waits(&mut self, now: LocalTime, asked: LocalTime, out: &mut LockOut) {
        let waits = |name: &LockName| {
            let lock = self.all.get(name).filter(|lock| !lock.notified && lock.hold.is_none())?;
            let since = lock.intent.as_ref().map(|intent| intent.since)?;
            (since < asked && !self.is_led(name) && self.may_consult(now, name)).then_some(())
        };
        let names: Vec<LockName> =
            self.mine.iter().filter(|name| waits(name).is_some()).cloned().collect();
        for name in names {
            self.queued(now, &name, Base::Peers, out);
        }
    }

    /// When the next timer of a mutex goes off.
    pub(in crate::member) fn next_timer(&self) -> Option<LocalTime> {
        self.timers.next()
    }

    /// Whether that is another time than the member's timer is set for, which it is to be now.
    pub(in crate::member) fn takes_arming(&mut self) -> bool {
        self.timers.takes_arming()
    }

    /// Lets the timers go off that are due.
    pub(in crate::member) fn fire(&mut self, now: LocalTime, out: &mut LockOut) {
        while let Some((name, timer)) = self.timers.pop(now) {
            match timer {
                AnyTimer::Central(timer) => self.is_idle(now, &name, timer, out),
                AnyTimer::TokenRing(_)
                | AnyTimer::Raymond(_)
                | AnyTimer::Lamport(_)
                | AnyTimer::RicartAgrawala(_)
                | AnyTimer::Maekawa(_)
                | AnyTimer::Voting(_) => self.consult(now, &name, Deferred::Timer(timer), out),
            }
            self.tidy(&name);
        }
    }

    /// Says something to another member.
    pub(super) fn say(
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
        let (highest, lock) = (lock.highest, name.clone());
        let number = self.peers.sent.entry(to).or_default();
        *number += 1;
        let number = *number;
        let message = PeerLockMessage { epoch, number, lock, highest, note, message };
        out.push(LockEffect::Send(receiver, PeerMessage::PeerLock(Box::new(message))));
    }

    /// What goes along for people: who asks, with a request to whoever is asked for itself; who holds,
    /// from the holder to whom it lets wait.
    fn note_about(
        &self,
        now: LocalTime,
        name: &LockName,
        message: &AnyMessage,
    ) -> Option<Box<LockNote>> {
        let lock = self.all.get(name)?;
        let note = lock.intent.as_ref()?.note.clone();
        let (token, held) = match (message, lock.hold) {
            (AnyMessage::RicartAgrawala(ricart_agrawala::Message::Queued(_)), Some(hold)) => {
                (Some(hold.token), now - hold.entered)
            }
            (message, None) if message.paid_by() == PaidBy::Sender && asks_for_itself(message) => {
                (None, std::time::Duration::ZERO)
            }
            (_, _) => return None,
        };
        Some(Box::new(LockNote { member: self.me, note, token, held }))
    }
}

/// Whether whoever sends such a message speaks of itself alone.
fn asks_for_itself(message: &AnyMessage) -> bool {
    match message {
        AnyMessage::Central(_) | AnyMessage::TokenRing(_) | AnyMessage::Raymond(_) => false,
        AnyMessage::Lamport(_)
        | AnyMessage::RicartAgrawala(_)
        | AnyMessage::Maekawa(_)
        | AnyMessage::Voting(_) => true,
    }
}
