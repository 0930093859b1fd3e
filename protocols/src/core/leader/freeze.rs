//! Admission that a leader has closed, so that it is known what everybody holds (rule 29 of `docs/views.md`).

use std::collections::BTreeSet;

use super::Leader;
use super::task::CHANGE_PERIOD;
use crate::ids::Incarnation;
use crate::register::Value;
use crate::time::LocalTime;

/// Admission that is closed, and why.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Freeze {
    /// The first heartbeat that stated it.
    seq: u64,
    since: LocalTime,
    then: Then,
    /// Who has yet to answer that one or a later one.
    asked: BTreeSet<Incarnation>,
}

/// What is to follow.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(in crate::core) enum Then {
    /// The leader changes the view, which the register had like this.
    Change(Box<Value>),
    /// It changes a view that no register has.
    ChangePeers,
    /// It hands over, and stays.
    Drain,
    /// It leaves.
    Leave,
}

/// Whether it is known what everybody holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::core) enum Outcome {
    Pending,
    Whole,
    /// Somebody did not answer for too long.
    Late,
}

/// Whether admission is closed before what a leader wants to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::core) enum Frozen {
    /// It need not be.
    Needless,
    /// It is, or has to wait.
    Waits,
    /// It is from now on.
    Begins,
}

impl Leader {
    /// Closes admission, if there is need to before this.
    pub(in crate::core) fn freeze_first(
        &mut self,
        now: LocalTime,
        me: Incarnation,
        then: Then,
    ) -> Frozen {
        if self.is_whole(now, me) {
            return Frozen::Needless;
        }
        let leaves = then == Then::Leave;
        // What the register holds may have changed while the answers are waited for.
        let same = |freeze: &&mut Freeze| {
            matches!((&freeze.then, &then), (Then::Change(_), Then::Change(_)))
        };
        if let Some(freeze) = self.freeze.as_mut().filter(|freeze| leaves || same(freeze)) {
            freeze.then = then;
            return Frozen::Waits;
        }
        let rests = self.thawed.is_some_and(|at| now - at < CHANGE_PERIOD);
        if self.freeze.is_some() || !leaves && (rests || !self.all_answer(now, me)) {
            return Frozen::Waits;
        }
        let (seq, asked) = (self.heartbeats.next_seq(), self.record.others(me).collect());
        self.freeze = Some(Freeze { seq, since: now, then, asked });
        Frozen::Begins
    }

    /// What is to follow, if admission is closed, and whether it may. Nothing while that is pending.
    pub(in crate::core) fn frozen(&self, now: LocalTime) -> Option<(Outcome, Then)> {
        let freeze = self.freeze.as_ref()?;
        let outcome = self.outcome(now, freeze);
        (outcome != Outcome::Pending).then(|| (outcome, freeze.then.clone()))
    }

    pub(in crate::core) fn is_frozen(&self) -> bool {
        self.freeze.is_some()
    }

    /// Opens admission again.
    pub(in crate::core) fn thaw(&mut self, now: LocalTime) {
        self.freeze = None;
        self.thawed = Some(now);
    }

    /// A member promised, in answer to this heartbeat.
    pub(in crate::core) fn note_answer(&mut self, member: Incarnation, seq: u64) {
        if let Some(freeze) = self.freeze.as_mut().filter(|freeze| seq >= freeze.seq) {
            freeze.asked.remove(&member);
        }
    }

    /// Whether the table names all that is held: nobody can have entered since its holder was asked.
    pub(in crate::core) fn is_whole(&self, now: LocalTime, me: Incarnation) -> bool {
        self.record.policy.is_all_led()
            || self.record.others(me).all(|m| self.is_over(now, m))
            || self.freeze.as_ref().is_some_and(|f| self.outcome(now, f) == Outcome::Whole)
    }

    /// Whether a member needs not be asked: it has left and reported what it holds, or it never had a lease in
    /// this view to enter by (rule 27), or it was not heard of for a whole member lease, and nothing is left of
    /// its leases.
    fn is_over(&self, now: LocalTime, member: Incarnation) -> bool {
        let heard = self.heard.get(&member).copied().unwrap_or(self.since);
        self.parted.contains(&member)
            || !self.leased.contains(&member)
            || now - heard > self.record.timing.member_lease
    }

    /// Whether every other member that could hold something was heard of lately, so that it is of use
    /// to ask.
    fn all_answer(&self, now: LocalTime, me: Incarnation) -> bool {
        let patience = self.record.timing.heartbeat * 3;
        let heard = |m: &Incarnation| self.heard.get(m).is_some_and(|at| now - *at <= patience);
        self.record.others(me).all(|m| heard(&m) || self.is_over(now, m))
    }

    fn outcome(&self, now: LocalTime, freeze: &Freeze) -> Outcome {
        if freeze.asked.iter().all(|m| self.is_over(now, *m)) {
            Outcome::Whole
        } else if now - freeze.since > self.record.timing.leader_lease / 2 {
            Outcome::Late
        } else {
            Outcome::Pending
        }
    }
}
