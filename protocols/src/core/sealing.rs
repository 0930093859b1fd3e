//! A member's seals: that it refuses a view from now on, and what it holds.

use super::message::Seal;
use super::{Member, Nominator, Out, PeerMessage, Role, Service, send};
use crate::ids::{Epoch, Incarnation};
use crate::time::LocalTime;

impl<S: Service, N: Nominator> Member<S, N> {
    /// A candidate asks this member to end a view (rule 12).
    pub(super) fn on_seal_request(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        base: Epoch,
        out: &mut Out<S, N>,
    ) {
        let Some(record) = &self.record else { return };
        if base > record.epoch {
            // There is a view that this member knows nothing of.
            return self.read_register(now, out);
        }
        // Rule 39: the register may hold an older view again, and know nothing of a later one.
        let later = record.epoch.max(self.promises.epoch());
        if base < later {
            if later > record.epoch || record.leader != Some(from) {
                send(from, PeerMessage::SealRefused { base: later }, out);
            }
            let leads = self.leader_lease().is_some_and(|until| until > now);
            if leads || self.promises.run(now) {
                send(from, PeerMessage::SealRefused { base }, out);
            }
            return;
        }
        if record.rank(self.me.incarnation).is_none() {
            return;
        }
        let beside = self.runs_beside(now, record);
        match self.seal(now, base, out) {
            Some(seal) => {
                if let Some(base) = beside {
                    send(from, PeerMessage::SealRefused { base }, out);
                }
                send(from, PeerMessage::Seal(Box::new(seal)), out);
            }
            None => send(from, PeerMessage::SealRefused { base }, out),
        }
    }

    /// Seals a view, or reports again how it was sealed; nothing while a promise runs.
    ///
    /// Only the own promise counts. That a leader resigned is known to that leader for sure; the
    /// others' seals also state that its own holds are over, but for those that they report, and those may
    /// last as long as the leader lease would have.
    ///
    /// From now on this member refuses promises, grants and releases of that view and those below.
    /// A leader without a leader lease gives its whole table with its seal.
    pub(super) fn seal(
        &mut self,
        now: LocalTime,
        base: Epoch,
        out: &mut Out<S, N>,
    ) -> Option<Seal> {
        // Rule 37: nor while its own applications may believe that it leads.
        if self.promises.epoch() > base || self.promises.run(now) || self.is_believed(now) {
            return None;
        }
        let hand_over = match &self.role {
            Role::Leader(leader) if leader.leader_lease_until() > now => return None,
            // Its table may lack whom the members admitted among themselves; their seals report them.
            Role::Leader(leader) => {
                let known = leader.record().policy.is_all_led();
                self.retire(now, out).filter(|_| known).map(Box::new)
            }
            Role::Joiner { .. }
            | Role::Follower
            | Role::Candidate(_)
            | Role::Resigned(_)
            | Role::Gone => None,
        };
        let report = self.holds.report(now);
        self.promises.seal_view(base);
        self.end_view();
        let list = self.list_known(now, base);
        Some(Seal { base, holds: report.holds, waits: report.waits, list, hand_over })
    }
}
