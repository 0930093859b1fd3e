//! Grants that a member keeps when its application leaves, so that it may enter again without asking; and those
//! that it passes on within its pod.
//!
//! With Ricart and Agrawala's lock the permissions are kept by the mutex itself, with that of superpeers the
//! coordinator's grant, and nothing is to be seen of them here: an entry takes the next token after the highest that is
//! known, and a member that entered in between had to ask this one, or the coordinator, which had asked this one for
//! the grant. Where the leader grants the member keeps the grant (rule 32 of `docs/views.md`):
//!
//! * **A lease.** For the leader the member is in the critical section. It lists the grant with its promises, and the
//!   leader extends it; when it has ended, nobody enters on it.
//! * **Tokens.** Each entry takes the next one of the same block. The member reports the last with
//!   the release. If the leader never hears it, it goes on above all that the member may have used.
//! * **A seal** does not list it, as nobody is in the critical section. With the view the grant is gone.

use std::collections::BTreeSet;
use std::time::Duration;

use super::coordinator::Deferred;
use super::{Cx, Lock, LockEvent, Locks, tell, tell_entered};
use crate::core::message::Note;
use crate::ids::LockName;
use crate::mutex::{AnyMutex, Command, Coordinated, Phase};
use crate::protocol::Outbox;
use crate::time::LocalTime;

/// How long a member keeps what it does not use.
pub(super) const IDLE: Duration = Duration::from_secs(5);

impl Locks {
    /// The application has left. If the mutex keeps the grant, so does this member, as long as its lease
    /// runs.
    pub(super) fn keep(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        let keeps = self.all.get(name).is_some_and(Lock::keeps);
        if !keeps || self.drains || !cx.holds.may_keep(cx.now, name) {
            cx.holds.put_down(name);
            self.give_back(cx, name);
        }
    }

    /// The application wants in: a grant that is of no use any more goes back first.
    pub(super) fn check_kept(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        let keeps = self.all.get(name).is_some_and(Lock::keeps);
        if keeps && !cx.holds.may_take_again(cx.now, name) {
            self.give_back(cx, name);
        }
    }

    /// The mutex admitted this member on the grant that it kept. It may have waited for admission meanwhile.
    pub(super) fn enter_again(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        self.contended.remove(name);
        match cx.holds.take_again(cx.now, name) {
            Some(taken) => self.tell_entered(cx, name, taken),
            None => self.decline(cx, name),
        }
    }

    /// The application leaves, and another that waits here enters in its place, which no other member hears of
    /// (rule 40; Dice, Marathe and Shavit, *Lock Cohorting*, 2012): as far as that is possible, else
    /// by the mutex. No message counts to the entry of the second.
    pub(super) fn pass(&mut self, cx: &mut Cx<'_>, name: &LockName, note: Note) {
        let keeps = self.all.get(name).is_none_or(Lock::keeps);
        let may = !keeps && !self.drains && self.may_consult(cx, name);
        let Some(taken) = may.then(|| cx.holds.pass(cx.now, name, &note)).flatten() else {
            self.exit(cx, name);
            self.enter(cx, name, note);
            return;
        };
        self.contended.remove(name);
        tell_entered(cx, name, taken, 0);
        self.tell_contended(cx, name);
    }

    /// The mutex may have heard that another wants what this member holds: the application is notified, once.
    pub(super) fn tell_contended(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        let Some(lock) = self.all.get(name) else { return };
        let contended = lock.mutex.as_ref().is_some_and(AnyMutex::is_contended);
        let deadline = cx.holds.runs_until(cx.now, name).filter(|_| contended && !lock.keeps());
        if let Some(deadline) = deadline.filter(|_| cx.holds.claim_of(name).is_some()) {
            self.tell_wanted(cx, name, deadline);
        }
    }

    fn tell_wanted(&mut self, cx: &mut Cx<'_>, name: &LockName, deadline: LocalTime) {
        if self.contended.insert(name.clone()) {
            tell(cx, name, LockEvent::Extended { deadline, contended: true });
        }
    }

    /// Nobody else wants what this member holds any more, as far as it knows; of those that are `still`
    /// wanted its leader knows that.
    pub(super) fn tell_uncontended(&mut self, cx: &mut Cx<'_>, still: &BTreeSet<&LockName>) {
        let wanted = |name: &LockName| {
            let mutex = self.all.get(name).and_then(|lock| lock.mutex.as_ref());
            still.contains(name) || mutex.is_some_and(AnyMutex::is_contended)
        };
        let over: Vec<LockName> =
            self.contended.iter().filter(|name| !wanted(name)).cloned().collect();
        for name in over {
            self.contended.remove(&name);
            let keeps = self.all.get(&name).is_none_or(Lock::keeps);
            if keeps || cx.holds.claim_of(&name).is_none() {
                continue;
            }
            if let Some(deadline) = cx.holds.lasts_until(cx.now, &name) {
                tell(cx, &name, LockEvent::Extended { deadline, contended: false });
            }
        }
    }

    /// Another wants what this member holds: the application is notified. A grant that is only kept goes back.
    pub(super) fn heed_want(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        let Some(deadline) = cx.holds.is_extended_until(cx.now, name) else { return };
        let keeps = self.all.get(name).is_some_and(Lock::keeps);
        match (cx.holds.claim_of(name), keeps) {
            (Some(_), false) => self.tell_wanted(cx, name, deadline),
            // It waits for admission, and was notified of nothing yet.
            (Some(_), true) => {}
            (None, _) => self.give_back(cx, name),
        }
    }

    /// A member that holds what another wants was heard of: it may not know that it is wanted.
    pub(super) fn recall_again(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        let mut effects = Outbox::default();
        let Some(mutex) = self.all.get_mut(name).and_then(|lock| lock.mutex.as_mut()) else {
            return;
        };
        mutex.recall_again(&mut effects);
        self.carry_out(cx, name, effects);
    }

    /// Gives a grant back that is kept. An application that wants in on it, and waits for admission, asks
    /// like anybody.
    pub(super) fn give_back(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        if let Some(lock) = self.all.get_mut(name).filter(|lock| lock.keeps()) {
            let enter = Deferred::Command(Command::Enter);
            let waits = lock.deferred.contains(&enter);
            lock.deferred.retain(|deferred| *deferred != enter);
            cx.holds.put_down(name);
            self.ask(cx, name, Command::Exit);
            if waits {
                self.ask(cx, name, Command::Enter);
            }
        }
        self.tidy(cx, name);
    }

    /// This member is about to leave the lead or the group: it gives everything back that it keeps,
    /// and keeps nothing from now on.
    pub(super) fn keep_nothing(&mut self, cx: &mut Cx<'_>) {
        self.drains = true;
        self.give_back_all(cx);
    }

    /// Gives back everything that it keeps.
    pub(super) fn give_back_all(&mut self, cx: &mut Cx<'_>) {
        for name in cx.holds.kept() {
            self.give_back(cx, &name);
        }
    }

    /// A grant that is not kept any more is no hold; and without a hold none is kept.
    pub(super) fn drop_what_went_back(&mut self, cx: &mut Cx<'_>, name: &LockName) {
        let Some(lock) = self.all.get(name) else { return };
        let in_section = lock.mutex.as_ref().is_some_and(|mutex| mutex.phase() == Phase::InSection);
        let wants = cx.holds.claim_of(name).is_some();
        if lock.keeps() {
            // What the view does not know is no grant that its mutex keeps.
            if !cx.holds.is_held(name) {
                self.feed(cx, name, Deferred::Command(Command::Exit));
            }
        // The application may want in again, and has to ask. What the view does not know runs out.
        } else if !wants || !in_section && cx.holds.is_held(name) {
            cx.holds.put_down(name);
        }
    }
}

impl Lock {
    /// Whether this member has a grant at hand without being in the critical section.
    pub(super) fn keeps(&self) -> bool {
        self.coordinated().is_some_and(Coordinated::keeps)
    }
}
