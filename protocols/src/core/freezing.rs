//! The moment before a leader resigns of its own will, in a view with holds that the members grant
//! among themselves (rule 29 of `docs/views.md`).
//!
//! Its table names who held what when the latest promises were sent, and somebody may have entered
//! since. So it closes admission with a heartbeat, and waits until everybody's promise answers that one
//! or a later one: these list all holds, and nobody enters any more.

use std::collections::BTreeSet;

use super::changing::CHANGE_PERIOD;
use super::leading::Leader;
use super::{Member, Nominator, Out, Service};
use crate::ids::Incarnation;
use crate::register::Value;
use crate::time::LocalTime;

/// Admission that is closed, and why.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Freeze {
    /// The first heartbeat that said so.
    seq: u64,
    since: LocalTime,
    then: Then,
    answered: BTreeSet<Incarnation>,
}

/// What is to follow.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Then {
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
enum Outcome {
    Pending,
    Whole,
    /// Somebody said nothing for too long.
    Late,
}

impl Leader {
    /// A member promised, in answer to this heartbeat.
    pub(super) fn note_answer(&mut self, member: Incarnation, seq: u64) {
        if let Some(freeze) = self.freeze.as_mut().filter(|freeze| seq >= freeze.seq) {
            freeze.answered.insert(member);
        }
    }

    /// Whether a member needs not be asked: it has left and said what it holds, or it never had a lease in
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

    /// Whether the table names all that is held: nobody can have entered since its holder was asked.
    pub(super) fn is_whole(&self, now: LocalTime, me: Incarnation) -> bool {
        self.record.policy.is_all_led()
            || self.record.others(me).all(|m| self.is_over(now, m))
            || self.freeze_outcome(now, me) == Outcome::Whole
    }

    fn freeze_outcome(&self, now: LocalTime, me: Incarnation) -> Outcome {
        let Some(freeze) = &self.freeze else { return Outcome::Late };
        let known = |m| freeze.answered.contains(&m) || self.is_over(now, m);
        if self.record.others(me).all(known) {
            Outcome::Whole
        } else if now - freeze.since > self.record.timing.leader_lease / 2 {
            Outcome::Late
        } else {
            Outcome::Pending
        }
    }
}

impl<S: Service, N: Nominator> Member<S, N> {
    /// Closes admission before the leader resigns. False if there is no need, and it may do so now.
    pub(super) fn freezes_first(
        &mut self,
        now: LocalTime,
        then: Then,
        out: &mut Out<S, N>,
    ) -> bool {
        let me = self.me.incarnation;
        let Some(leader) = self.leader() else { return false };
        if leader.is_whole(now, me) {
            return false;
        }
        let leaves = then == Then::Leave;
        // What the register holds may have changed while the answers are waited for.
        let same = |freeze: &&mut Freeze| {
            matches!((&freeze.then, &then), (Then::Change(_), Then::Change(_)))
        };
        if let Some(freeze) = leader.freeze.as_mut().filter(|freeze| leaves || same(freeze)) {
            freeze.then = then;
            return true;
        }
        let rests = leader.thawed.is_some_and(|at| now - at < CHANGE_PERIOD);
        if leader.freeze.is_some() || !leaves && (rests || !leader.all_answer(now, me)) {
            return true;
        }
        let seq = leader.next_seq();
        let answered = BTreeSet::new();
        leader.freeze = Some(Freeze { seq, since: now, then, answered });
        self.send_heartbeats(now, out);
        self.refresh_leader_lease(now, out);
        true
    }

    /// Goes on as soon as it is known what everybody holds, or opens admission again.
    pub(super) fn consider_freeze(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let me = self.me.incarnation;
        let Some(leader) = self.leader() else { return };
        let outcome = leader.freeze_outcome(now, me);
        let Some(freeze) = &leader.freeze else { return };
        let then = freeze.then.clone();
        match (outcome, then) {
            (Outcome::Pending, _) => {}
            (Outcome::Whole, Then::Change(value)) => self.change_view(now, *value, out),
            (Outcome::Whole, Then::ChangePeers) => self.change_peers(now, out),
            (Outcome::Whole, Then::Drain) => {
                // Rule 37: without a successor for a moment, applications may have been told to lead again.
                let notified = !self.is_ending_belief() || self.is_believed(now);
                if notified || !self.hand_over(now, true, out) {
                    self.thaw(now, out);
                }
            }
            (Outcome::Whole | Outcome::Late, Then::Leave) => self.leave_lead(now, out),
            (Outcome::Late, Then::Change(_) | Then::ChangePeers | Then::Drain) => {
                self.thaw(now, out);
            }
        }
    }

    /// Opens admission again: what was to be done has to wait.
    fn thaw(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let Some(leader) = self.leader() else { return };
        leader.freeze = None;
        leader.thawed = Some(now);
        self.refresh_leader_lease(now, out);
    }
}
