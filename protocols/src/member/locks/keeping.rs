//! Grants that a member keeps when its application leaves, so that it may enter again without asking.
//!
//! With Ricart and Agrawala's lock the permissions are kept by the mutex itself, and nothing is to be
//! seen of them here: an entry takes the next token after the highest that is known, and a member
//! that entered in between had to ask this one. With the central coordinator the member keeps the grant
//! (rule 32 of `docs/views.md`):
//!
//! * **A lease.** For the leader the member is in the critical section. It lists the grant with its promises, and the
//!   leader extends it; when it has ended, nobody enters on it.
//! * **Tokens.** Each entry takes the next one with the same high part. The member tells the last with
//!   the release. If the leader never hears it, it goes on above all that the member may have used.
//! * **A seal** does not list it, as nobody is in the critical section. With the view the grant is gone.

use std::collections::BTreeSet;
use std::time::Duration;

use super::coordinator::Deferred;
use super::holding::{Bond, Hold};
use super::{Lock, LockEffect, LockEvent, LockOut, Locks, Term};
use crate::ids::{FencingToken, LockName, MemberId};
use crate::mutex::central::{self, Central, RequestNumber};
use crate::mutex::{AnyMessage, AnyMutex, AnyTimer, Command, Phase};
use crate::protocol::Outbox;
use crate::time::LocalTime;

/// How long a member keeps what it does not use.
pub(super) const IDLE: Duration = Duration::from_secs(5);

/// Tokens that a member may use without asking.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Reserved {
    holder: MemberId,
    /// The request that was granted.
    number: RequestNumber,
    /// The token of the grant.
    first: FencingToken,
}

impl Locks {
    /// The application has left. If the mutex keeps the grant, so does this member, as long as its lease
    /// runs.
    pub(super) fn keep(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        let (goes, lease) = (self.goes, self.lease);
        let Some(lock) = self.all.get_mut(name) else { return };
        let keeps = lock.keeps();
        let may =
            |held: Hold| keeps && !goes && held.bond == Bond::Lease && held.deadline(&lease) > now;
        if lock.hold.is_some_and(may) {
            self.mine.insert(name.clone());
        } else {
            lock.hold = None;
            self.give_back(now, name, out);
        }
    }

    /// The application wants in: a grant that is of no use any more goes back first.
    pub(super) fn check_kept(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        let Some(lock) = self.all.get(name).filter(|lock| lock.keeps()) else { return };
        let usable = |held: Hold| {
            held.deadline(&self.lease) > now && held.token.next_of_the_same_high().is_some()
        };
        if !lock.hold.is_some_and(usable) {
            self.give_back(now, name, out);
        }
    }

    /// The mutex let this member in on the grant that it kept.
    pub(super) fn enter_again(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        let Some(epoch) = self.seat.as_ref().map(|seat| seat.view.epoch) else { return };
        let (advisory, lease) = (self.is_advisory(), self.lease);
        self.contended.remove(name);
        let Some(lock) = self.all.get_mut(name) else { return };
        let next = |held: Hold| Some(Hold { token: held.token.next_of_the_same_high()?, ..held });
        // It may have waited for admission meanwhile.
        let runs = |hold: &Hold| hold.deadline(&lease) > now;
        let Some(hold) = lock.hold.filter(runs).and_then(next) else {
            lock.hold = None;
            return self.decline(now, name, out);
        };
        lock.highest = lock.highest.max(hold.token);
        let (token, deadline) = (hold.token, hold.deadline(&lease));
        lock.hold = Some(Hold { entered: now, until: deadline, ..hold });
        self.deadlines.insert((deadline, name.clone()));
        let Some(lock) = self.all.get_mut(name) else { return };
        let (token, messages) = ((!advisory).then_some(token), lock.messages);
        let term = Term::new(hold.since, deadline, hold.listed);
        let event = LockEvent::Entered { token, epoch, term, messages };
        out.push(LockEffect::Tell(name.clone(), event));
    }

    /// The mutex may have heard that another wants what this member holds: the application is told, once.
    pub(super) fn tell_contended(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        let Some(lock) = self.all.get(name).filter(|lock| lock.intent.is_some()) else { return };
        let contended = lock.mutex.as_ref().is_some_and(AnyMutex::is_contended);
        let Some(held) = lock.hold.filter(|_| contended && !lock.keeps()) else { return };
        let deadline = held.deadline(&self.lease);
        if held.bond != Bond::Orphan && deadline > now {
            self.tell_wanted(name, deadline, out);
        }
    }

    pub(super) fn tell_wanted(&mut self, name: &LockName, deadline: LocalTime, out: &mut LockOut) {
        if self.contended.insert(name.clone()) {
            let event = LockEvent::Extended { deadline, contended: true };
            out.push(LockEffect::Tell(name.clone(), event));
        }
    }

    /// Nobody else wants what this member holds any more, as far as it knows; of those that are `still`
    /// wanted its leader knows that.
    pub(super) fn tell_uncontended(
        &mut self,
        now: LocalTime,
        still: &BTreeSet<&LockName>,
        out: &mut LockOut,
    ) {
        let wanted = |name: &LockName| {
            let mutex = self.all.get(name).and_then(|lock| lock.mutex.as_ref());
            still.contains(name) || mutex.is_some_and(AnyMutex::is_contended)
        };
        let over: Vec<LockName> =
            self.contended.iter().filter(|name| !wanted(name)).cloned().collect();
        for name in over {
            self.contended.remove(&name);
            let Some(lock) = self.all.get(&name).filter(|lock| lock.intent.is_some()) else {
                continue;
            };
            let held = lock.hold.filter(|_| !lock.keeps());
            let deadline = held.map(|held| held.deadline(&self.lease));
            if let Some(deadline) = deadline.filter(|deadline| *deadline > now) {
                let event = LockEvent::Extended { deadline, contended: false };
                out.push(LockEffect::Tell(name, event));
            }
        }
    }

    /// A member that holds what another wants was heard of: it may not know that it is wanted.
    pub(super) fn recall_again(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        let mut effects = Outbox::default();
        let Some(mutex) = self.all.get_mut(name).and_then(Lock::central_mut) else { return };
        mutex.recall_again(&mut effects);
        let mut of_any = Outbox::default();
        effects.pour_into(&mut of_any, AnyMessage::Central, AnyTimer::Central);
        self.carry_out(now, name, of_any, out);
    }

    /// Gives a grant back that is kept. An application that wants in on it, and waits for admission, asks
    /// like anybody.
    pub(super) fn give_back(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        if let Some(lock) = self.all.get_mut(name).filter(|lock| lock.keeps()) {
            lock.hold = None;
            let enter = Deferred::Command(Command::Enter);
            let waits = lock.deferred.contains(&enter);
            lock.deferred.retain(|deferred| *deferred != enter);
            if lock.intent.is_none() {
                self.mine.remove(name);
            }
            self.command(now, name, Command::Exit, out);
            if waits {
                self.command(now, name, Command::Enter, out);
            }
        }
        self.tidy(name);
    }

    /// This member is about to leave the leader lease or the group: it gives everything back that it keeps,
    /// and keeps nothing from now on.
    pub(in crate::member) fn keep_nothing(&mut self, now: LocalTime, out: &mut LockOut) {
        self.goes = true;
        for name in self.kept() {
            self.give_back(now, &name, out);
        }
    }

    /// The view is over, and with it what is kept.
    pub(super) fn forget_kept(&mut self) {
        for name in self.kept() {
            let Some(lock) = self.all.get_mut(&name) else { continue };
            lock.hold = None;
            if lock.intent.is_none() {
                self.mine.remove(&name);
            }
        }
    }

    fn kept(&self) -> Vec<LockName> {
        let kept = self.mine_all().filter(|(_, lock)| lock.intent.is_none() || lock.keeps());
        kept.map(|(name, _)| name.clone()).collect()
    }

    /// A grant that is not kept any more is no hold; and without a hold none is kept.
    pub(super) fn drop_what_went_back(
        &mut self,
        now: LocalTime,
        name: &LockName,
        out: &mut LockOut,
    ) {
        let Some(lock) = self.all.get_mut(name) else { return };
        let (keeps, wants) = (lock.keeps(), lock.intent.is_some());
        let in_section = lock.mutex.as_ref().is_some_and(|mutex| mutex.phase() == Phase::InSection);
        // The application may want in again, and has to ask. What the view does not know runs out.
        let over = |held: &mut Hold| !wants || !in_section && held.bond != Bond::Orphan;
        if keeps && lock.hold.is_none() {
            self.feed(now, name, Deferred::Command(Command::Exit), out);
        } else if !keeps && lock.hold.take_if(over).is_some() && !wants {
            self.mine.remove(name);
        }
    }

    /// Leaves the mutex for good: nothing is kept.
    pub(super) fn leave(&mut self, now: LocalTime, name: &LockName, out: &mut LockOut) {
        self.command(now, name, Command::Exit, out);
    }
}

impl Lock {
    /// Whether this member has a grant at hand without being in the critical section.
    pub(super) fn keeps(&self) -> bool {
        self.central().is_some_and(Central::keeps)
    }

    /// At the leader: a member was let in that may keep the grant.
    pub(super) fn reserve(&mut self, holder: MemberId, number: RequestNumber, first: FencingToken) {
        self.reserved = Some(Reserved { holder, number, first });
    }

    /// At the leader: the member that had the grant says that it has it no more, and its message tells the last
    /// token that it used.
    pub(super) fn is_settled_by(&mut self, from: MemberId, message: &AnyMessage) {
        let AnyMessage::Central(message) = *message else { return };
        let over = self.reserved.is_some_and(|reserved| {
            reserved.holder == from
                && match message {
                    central::Message::Release(number) => number >= reserved.number,
                    central::Message::Request(number) => number > reserved.number,
                    central::Message::Grant(_)
                    | central::Message::Queued(_)
                    | central::Message::Wanted(_)
                    | central::Message::InUse(_) => false,
                }
        });
        if over {
            self.reserved = None;
        }
    }

    /// No token of this lock was ever higher.
    pub(super) fn spent(&self) -> FencingToken {
        let reserved = self.reserved.map(|reserved| reserved.first.last_of_the_same_high());
        reserved.map_or(self.highest, |last| last.max(self.highest))
    }
}
