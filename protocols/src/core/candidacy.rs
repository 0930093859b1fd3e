//! From being nominated to the end of the old leader lease: read the register, collect seals, or wait
//! until every promise has run out.

use super::candidate::{Basis, Candidate, Due, Fate};
use super::message::{HandOver, Seal};
use super::{Member, Nominator, Out, PeerMessage, Role, Service, Timer, send_each};
use crate::ids::{Epoch, Incarnation};
use crate::record::Record;
use crate::register::Value;
use crate::time::LocalTime;

impl<S: Service, N: Nominator> Member<S, N> {
    /// Rule 11: reads the register first; without an answer it does nothing.
    pub(super) fn begin_candidacy(
        &mut self,
        now: LocalTime,
        inherited: Option<HandOver>,
        out: &mut Out<S, N>,
    ) {
        self.drop_nomination(out);
        if self.is_advisory() {
            return self.lead_peers(now, inherited, out);
        }
        let candidate = Candidate::new(now, self.dead.clone(), inherited);
        self.role = Role::Candidate(Box::new(candidate));
        self.read_register(now, out);
    }

    /// Begins with what was read already.
    pub(super) fn begin_candidacy_with(
        &mut self,
        now: LocalTime,
        inherited: Option<HandOver>,
        value: Value,
        out: &mut Out<S, N>,
    ) {
        let candidate = Candidate::with(now, self.dead.clone(), inherited, &value);
        self.role = Role::Candidate(Box::new(candidate));
        if self.going.leaves() {
            // A leader waits for less: nothing of it is on the way to the register.
            out.arm(Timer::Leave, self.going.time_to_leave(now));
        }
        self.candidate_reads(now, now, value, out);
    }

    pub(super) fn candidate(&mut self) -> Option<&mut Candidate> {
        match &mut self.role {
            Role::Candidate(candidate) => Some(candidate),
            Role::Joiner { .. }
            | Role::Follower
            | Role::Leader(_)
            | Role::Resigned(_)
            | Role::Gone => None,
        }
    }

    /// What the register holds decides the next step.
    pub(super) fn candidate_reads(
        &mut self,
        now: LocalTime,
        sent: LocalTime,
        value: Value,
        out: &mut Out<S, N>,
    ) {
        let Some(candidate) = self.candidate() else { return };
        // Rule 18: what was written is there, or may still come, or cannot any more.
        match candidate.fate(&value) {
            Some(Fate::InPlace(written)) => {
                return self.write_is_in_place(now, sent, written, out);
            }
            Some(Fate::Open(version, written)) => return self.write(now, version, written, out),
            None => {}
        }
        let Some(candidate) = self.candidate() else { return };
        let changed = candidate.look_at(&value);
        let Some(record) = value.record else {
            return self.take_nothing_for_base(now, out);
        };
        if self.is_news(&record) || self.yields_to(&record) {
            return self.learn_of(now, record, out);
        }
        if let Some(base) = self.in_place_of(&value.version, &record) {
            return self.take_base(now, &base, out);
        }
        let base = self.as_base(record);
        let dead = self.dead.clone();
        if let Some(candidate) = self.candidate().filter(|one| one.is_void(&base, changed)) {
            // Nobody knows what came after what was read first, though that was nothing, or lost
            // too.
            candidate.begin_anew(now, dead);
        }
        self.take_base(now, &base, out);
    }

    /// A record that is older than what this member knows was brought back from a backup. Nobody
    /// knows what came after it, so it is as good as lost, and the longest known waits are waited.
    pub(super) fn as_base(&self, record: Record) -> Record {
        if record.epoch >= self.latest_known() && !record.base_unknown {
            return record;
        }
        let known = self.record.as_ref();
        let mine = known.map_or(self.policy.timing, |known| known.timing);
        let longest = known.map_or(mine.leader_lease, |known| known.longest_leader_lease);
        Record {
            base_unknown: true,
            timing: record.timing.longest(mine),
            longest_leader_lease: record.longest_leader_lease.max(longest),
            ..record
        }
    }

    /// The register holds nothing: there never was a view, or it was lost and is not to be taken
    /// for new.
    fn take_nothing_for_base(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if self.knows_of_a_view() {
            return self.withdraw(now, out);
        }
        let Some(candidate) = self.candidate() else { return };
        candidate.starts_from_nothing(now);
        self.activate(now, out);
    }

    /// Whether this group had a view, as far as this member knows.
    pub(super) fn knows_of_a_view(&self) -> bool {
        self.status.epoch.max(self.promises.epoch()) > Epoch::default() || self.record.is_some()
    }

    fn take_base(&mut self, now: LocalTime, base: &Record, out: &mut Out<S, N>) {
        let (me, leaves) = (self.me.incarnation, self.going.leaves());
        let Role::Candidate(candidate) = &self.role else { return };
        let since = self.first_read(candidate.version(), base).unwrap_or(now);
        let beside = self.runs_beside(now, base).is_some();
        let Some(candidate) = self.candidate() else { return };
        match candidate.start_from(now, since, base, beside, leaves) {
            Basis::Idle => return self.depart(now, out),
            Basis::Over => return self.activate(now, out),
            Basis::MayLive => {}
        }
        // Of a base that was lost no seal counts, but a refusal shows that a leader lease lives.
        if base.rank(me).is_some() && !base.base_unknown {
            match self.seal(now, base.epoch, out) {
                Some(seal) => {
                    if let Some(candidate) = self.candidate() {
                        candidate.seal(now, me, seal);
                    }
                }
                None => return self.withdraw(now, out),
            }
        }
        send_each(base.others(me), &PeerMessage::SealRequest { base: base.epoch }, out);
        self.check_seals(now, out);
    }

    /// A member sealed the base.
    pub(super) fn on_seal(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        seal: Seal,
        out: &mut Out<S, N>,
    ) {
        if self.candidate().is_some_and(|candidate| candidate.hear_seal(now, from, seal)) {
            self.check_seals(now, out);
        }
    }

    /// Somebody follows a leader of the base, or knows of a later view.
    pub(super) fn on_seal_refused(&mut self, now: LocalTime, base: Epoch, out: &mut Out<S, N>) {
        if self.candidate().is_some_and(|candidate| candidate.hear_refusal(now, base)) {
            // It goes on, and asks the register before it is sure.
        } else if self.leader().is_some_and(|leader| leader.epoch() == base) {
            // There is another of this number.
            self.waits_for_the_unknown(now, out);
        } else {
            self.hears_of_view(now, base, out);
        }
    }

    /// Goes on as soon as the leader lease of the base is over.
    pub(super) fn check_seals(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let due = self.candidate().map(|candidate| candidate.look_at_seals(now));
        self.do_what_is_due(now, due.unwrap_or(Due::Nothing), out);
    }

    pub(super) fn candidacy_step(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let me = self.me.incarnation;
        let due = self.candidate().map(|candidate| candidate.next_step(now, me));
        self.do_what_is_due(now, due.unwrap_or(Due::Nothing), out);
    }

    fn do_what_is_due(&mut self, now: LocalTime, due: Due, out: &mut Out<S, N>) {
        match due {
            Due::Nothing => {}
            Due::Wait(pause) => out.arm(Timer::Candidacy, pause),
            Due::Ask(base, members, pause) => {
                send_each(members, &PeerMessage::SealRequest { base }, out);
                match pause {
                    Some(pause) => out.arm(Timer::Candidacy, pause),
                    None => self.check_seals(now, out),
                }
            }
            Due::Withdraw => {
                self.withdraw(now, out);
                self.read_register(now, out);
            }
            Due::Close => self.close_base(now, out),
            Due::Activate => self.activate(now, out),
        }
    }

    /// Rule 15 (c): marks the base, so that its members confirm it no longer.
    fn close_base(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let nonce = self.register.nonce();
        let closed = self.candidate().and_then(|candidate| candidate.begin_to_close(nonce));
        if let Some((version, record)) = closed {
            self.write(now, version, record, out);
        }
    }

    /// The register does not answer a candidate. What became of a write it must find out. While it waits for seals, or for
    /// the last promise, it needs no answer, and would have to wait anew if it gave up. Otherwise it does: another may
    /// reach the register.
    pub(super) fn candidate_without_register(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let Some(candidate) = self.candidate() else { return };
        if candidate.has_written() {
            self.read_register(now, out);
        } else if !candidate.waits() {
            self.withdraw(now, out);
        }
    }

    /// Leaves the nomination to others, for a while: twice as long each time that the register did not
    /// answer, until all others have had their turn. Else the highest ranks would come back before
    /// the one member that reaches the register is asked.
    pub(super) fn withdraw(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if self.going.leaves() {
            return self.depart(now, out);
        }
        let timing = self.record.as_ref().map_or(self.policy.timing, |record| record.timing);
        let members = self.record.as_ref().map_or(1, |record| record.members.len());
        let turns = u32::try_from(members).unwrap_or(u32::MAX);
        self.nominations.withdraw(now, timing.leader_lease, turns);
        out.disarm(Timer::Candidacy);
        let member = self.record.as_ref().is_some_and(|record| {
            let same = record.policy.arbiter == self.arbiter();
            same && record.rank(self.me.incarnation).is_some()
        });
        if member {
            self.role = Role::Follower;
            out.arm(Timer::Nominee, timing.leader_lease);
        } else {
            self.begin_joining(now, out);
        }
    }
}
