//! The beginning of a view: one compare-and-swap, then the leader lease.

use super::candidate::Knows;
use super::leader::ViewStart;
use super::{Member, Nominator, Out, PeerMessage, Role, Service, Timer, send};
use crate::record::Record;
use crate::register::Version;
use crate::time::LocalTime;

impl<S: Service, N: Nominator> Member<S, N> {
    /// Rule 17: one compare-and-swap on the version that was read.
    pub(super) fn activate(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let nonce = self.register.nonce();
        let Role::Candidate(candidate) = &self.role else { return };
        let record = candidate.next_record(now, nonce, self.knows());
        if record.rank(self.me.incarnation).is_none() {
            // A joiner that found nobody alive, and there is no place for it beside those that have sealed since.
            return self.withdraw(now, out);
        }
        let Some(candidate) = self.candidate() else { return };
        let version = candidate.begin_to_write();
        out.disarm(Timer::Candidacy);
        self.write(now, version, record, out);
    }

    pub(super) fn write(
        &mut self,
        now: LocalTime,
        version: Version,
        record: Record,
        out: &mut Out<S, N>,
    ) {
        let Some(candidate) = self.candidate() else { return };
        candidate.writes(version.clone(), record.clone());
        self.write_register(now, version, record, out);
    }

    /// What decides on the next view besides what the candidate found out: what this member saw itself, and what the
    /// resource's status states.
    fn knows(&self) -> Knows<'_> {
        let known = self.record.as_ref().map(|record| record.epoch.max(record.ceiling));
        let own = self.promises.epoch().max(self.in_force.floor);
        let status = self.status.epoch.max(self.status.ceiling);
        let seen = status.max(own).max(known.unwrap_or_default());
        let (me, policy) = (&self.me, &self.policy);
        Knows { me, policy, seen, believed_for: self.belief.lasts_until() }
    }

    /// The register carried a write out. If that is of an earlier role, nothing that was read meanwhile
    /// counted.
    pub(super) fn candidate_wrote(&mut self, now: LocalTime, sent: LocalTime, out: &mut Out<S, N>) {
        let Some(candidate) = self.candidate() else { return };
        match (candidate.wrote(), candidate.reads()) {
            (Some(written), _) => self.write_is_in_place(now, sent, written, out),
            (None, true) => self.read_register(now, out),
            (None, false) => {}
        }
    }

    /// A write of a candidate is in place.
    pub(super) fn write_is_in_place(
        &mut self,
        now: LocalTime,
        sent: LocalTime,
        written: Record,
        out: &mut Out<S, N>,
    ) {
        let me = self.me.incarnation;
        if written.closing {
            let base = self.as_base(written);
            let Some(candidate) = self.candidate() else { return };
            candidate.note_closing(now, base);
            if self.going.leaves() {
                return self.depart(now, out);
            }
            return self.check_seals(now, out);
        }
        // Rule 19: not a leader lease that this member has sealed itself.
        if self.floor() >= written.epoch {
            return self.withdraw(now, out);
        }
        let Role::Candidate(candidate) = &self.role else { return };
        let (grace_until, mut carried) = (candidate.grace_until(now), candidate.carried(now));
        if let Some(base) = candidate.base() {
            carried.take_back_delays(base, &written);
        }
        let late = candidate.joins(now, &written);
        let former = candidate.former_leader(me).filter(|former| written.rank(*former).is_none());
        let epoch = written.epoch;
        let beside = candidate.is_beside() || self.known_beside(&written).is_some();
        let base = candidate.base().cloned();
        let left = base.as_ref().map(|base| self.departures.of_view(base.epoch));
        let takes_over = candidate.former_leader(me).is_some();
        if let Some(from) = candidate.belief_of_the_former_ends(now, me) {
            self.belief.begins(from);
        }
        if takes_over {
            // A member that is about to end leads for a moment: nobody is notified, so that nobody waits for that.
            self.belief.set_ends(!self.going.stays());
        }
        let start = ViewStart { record: written, base, carried, grace_until };
        self.take_lead(now, sent, start, out);
        if let Role::Leader(leader) = &mut self.role {
            for info in late {
                leader.note_joiner(now, info);
            }
            // While this was written.
            for member in left.into_iter().flatten() {
                leader.left_before(member);
            }
        }
        if let Some(former) = former {
            send(former, PeerMessage::Taken { epoch }, out);
        }
        if beside {
            self.waits_for_the_unknown(now, out);
        }
    }
}
