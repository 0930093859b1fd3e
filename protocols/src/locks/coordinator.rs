//! What the coordinator of a lock needs besides its algorithm: that nothing is lost for good.
//!
//! Promises list what members wait for. So a request or a grant that was lost is noticed and made good, and
//! a member that is silent or gone is passed over.

use super::{Cx, Lock, Locks};
use crate::ids::{LockName, MemberId, RequestNumber};
use crate::mutex::{AnyMessage, AnyMutex, AnyTimer, Command, Coordinated, Coordination, Phase};
use crate::policy::LeaseClass;
use crate::protocol::Outbox;
use crate::time::LocalTime;

/// What a mutex has not heard yet.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Deferred {
    /// This member itself.
    Command(Command),
    /// Another.
    Message(MemberId, AnyMessage),
    /// A timer.
    Timer(AnyTimer),
}

impl Locks {
    /// A coordinator that granted it to nobody knows of no holder.
    pub(super) fn forget_nobody(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        let mutex = self.all.get(name).and_then(Lock::coordinated);
        if mutex.is_some_and(|mutex| mutex.in_section().is_none()) {
            cx.holds.nobody_holds(name);
        }
    }

    /// The holder was taken out. That admits nobody, so it need not wait for admission.
    pub(super) fn expelled(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        if let Some(mutex) = self.all.get_mut(name).and_then(Lock::coordinated_mut) {
            mutex.expel();
        }
        self.note_wanted(cx, name);
    }

    /// The mutex of a lock has heard something: others may want what is held, or no longer.
    pub(super) fn note_wanted(&mut self, cx: &Cx<'_>, name: &LockName) {
        if !cx.holds.leads() || !cx.holds.is_led(name) {
            return;
        }
        let mutex = self.all.get(name).and_then(|lock| lock.mutex.as_ref());
        if !mutex.is_some_and(AnyMutex::is_contended) {
            self.wanted.remove(name);
        } else if !self.wanted.contains(name) {
            self.wanted.insert(name.clone());
        }
    }

    /// A member waits for a lock: its request must be in the queue, or the grant under way.
    ///
    /// It answered a heartbeat that was sent after the grant, so the grant was lost: sent again.
    pub(super) fn find_again(
        &mut self,
        cx: &mut Cx<'_>,
        rank: MemberId,
        asked: LocalTime,
        name: &LockName,
        number: RequestNumber,
    ) {
        let holder = cx.holds.holder(cx.now, name).filter(|holder| holder.runs);
        let granted = holder.as_ref().is_none_or(|holder| holder.since >= asked);
        let lock = self.lock(cx, name);
        let deferred = lock
            .deferred
            .iter()
            .any(|deferred| matches!(deferred, Deferred::Message(m, _) if *m == rank));
        let in_section = lock.coordinated().is_some_and(|mutex| mutex.is_in_section(rank, number));
        let waits = lock.coordinated().is_some_and(|mutex| mutex.waits(rank, number));
        // It may enter on the lease that this promise extends, by a grant that is under way.
        if in_section && holder.is_some() {
            cx.holds.wait_for_holder(cx.now, name);
        }
        let known = in_section && granted || waits;
        let request = lock.mutex.as_ref().and_then(|mutex| mutex.request(number));
        if let Some(request) = request.filter(|_| !known && !deferred) {
            self.consult(cx, name, Deferred::Message(rank, request));
        }
    }

    /// A member is silent: it is not granted what it waits for.
    pub(super) fn pass_over(&mut self, member: MemberId) {
        for mutex in self.all.values_mut().filter_map(Lock::coordinated_mut) {
            mutex.withdraw(member);
        }
    }

    /// A member has left: what it asked for it would not enter any more.
    pub(super) fn forget_member(&mut self, member: MemberId) {
        for lock in self.all.values_mut() {
            let Some(mutex) = lock.coordinated_mut() else { continue };
            mutex.withdraw(member);
            lock.deferred.retain(|deferred| !deferred.is_of(member));
        }
    }

    /// The lease of this member has not run for a while, so a coordinator may have passed it over, or have
    /// admitted another since it granted what is under way: what this member waits for it asks for anew.
    pub(super) fn ask_again(&mut self, cx: &mut Cx<'_>, class: LeaseClass) {
        for name in self.all.keys().cloned().collect::<Vec<_>>() {
            if cx.holds.class(&name) != class || cx.holds.claim_of(&name).is_none() {
                continue;
            }
            let mut effects = Outbox::default();
            let Some(mutex) = self.all.get_mut(&name).and_then(|lock| lock.mutex.as_mut()) else {
                continue;
            };
            mutex.ask_again(&mut effects);
            self.carry_out(cx, &name, effects);
        }
    }
}

impl Lock {
    /// Whether a member in the queue gives up. That admits nobody, so it need not wait for
    /// admission; and must not, or the member that gave up might be granted the lock when it opens.
    pub(super) fn withdraws(&self, deferred: &Deferred) -> bool {
        let Some(mutex) = self.coordinated().filter(|mutex| mutex.coordinates()) else {
            return false;
        };
        match deferred {
            Deferred::Command(Command::Exit) => {
                self.mutex.as_ref().is_some_and(|mutex| mutex.phase() == Phase::Waiting)
            }
            Deferred::Message(from, message) => match message.coordination() {
                // Of requests that were carried over, one that holds has the same number.
                Some(Coordination::Release(number)) => {
                    mutex.waits(*from, number) && !mutex.is_in_section(*from, number)
                }
                Some(_) | None => false,
            },
            Deferred::Command(Command::Enter) | Deferred::Timer(_) => false,
        }
    }

    /// Keeps something for later. A request that is taken back before it was heard leaves nothing.
    pub(super) fn keep(&mut self, deferred: Deferred) {
        let takes_back = |other: &Deferred| match (&deferred, other) {
            (Deferred::Message(from, left), Deferred::Message(of, asked)) => {
                let released = left.coordination().and_then(Coordination::released);
                let asked = asked.coordination().and_then(Coordination::requested);
                from == of && released.is_some() && released == asked
            }
            (Deferred::Command(Command::Exit), Deferred::Command(Command::Enter)) => true,
            (_, _) => false,
        };
        match self.deferred.iter().position(takes_back) {
            Some(place) => {
                self.deferred.remove(place);
            }
            None => self.deferred.push_back(deferred),
        }
    }

    /// Who waits, the first in line first: the queue, then the requests not heard yet.
    pub(super) fn line(&self, me: MemberId) -> Vec<MemberId> {
        let queue = self.coordinated().into_iter().flat_map(Coordinated::queue);
        let deferred = self.deferred.iter().filter_map(move |deferred| match deferred {
            Deferred::Message(from, message) => message.coordination()?.requested().map(|_| *from),
            Deferred::Command(Command::Enter) => Some(me),
            Deferred::Command(Command::Exit) | Deferred::Timer(_) => None,
        });
        queue.chain(deferred).collect()
    }
}

impl Deferred {
    /// Whether that member sent it.
    fn is_of(&self, member: MemberId) -> bool {
        matches!(self, Self::Message(from, _) if *from == member)
    }
}
