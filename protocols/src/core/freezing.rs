//! The moment before a leader resigns of its own will, in a view with holds that the members grant
//! among themselves (rule 29 of `docs/views.md`).
//!
//! Its table names who held what when the latest promises were sent, and somebody may have entered
//! since. So it closes admission with a heartbeat, and waits until everybody's promise answers that one
//! or a later one: these list all holds, and nobody enters any more.

use super::leader::{Frozen, Outcome, Then};
use super::{Member, Nominator, Out, Service};
use crate::time::LocalTime;

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
        match leader.freeze_first(now, me, then) {
            Frozen::Needless => return false,
            Frozen::Waits => {}
            Frozen::Begins => {
                self.send_heartbeats(now, out);
                self.refresh_leader_lease(now, out);
            }
        }
        true
    }

    /// Goes on as soon as it is known what everybody holds, or opens admission again.
    pub(super) fn consider_freeze(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let frozen = self.leader().and_then(|leader| leader.frozen(now));
        let Some((outcome, then)) = frozen else { return };
        match (outcome, then) {
            (Outcome::Pending, _) => {}
            (Outcome::Whole, Then::Change(value)) => self.change_view(now, *value, out),
            (Outcome::Whole, Then::ChangePeers) => self.change_peers(now, out),
            (Outcome::Whole, Then::Drain) => {
                // Rule 37: without a successor for a moment, applications may have been notified again that they lead.
                let notified = !self.belief.ends() || self.is_believed(now);
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
        leader.thaw(now);
        self.refresh_leader_lease(now, out);
    }
}
