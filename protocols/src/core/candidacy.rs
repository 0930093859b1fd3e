//! From being nominated to the end of the old leader lease: read the register, collect seals, or wait
//! until every promise has run out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::evidence::Dead;
use super::joining::Joiners;
use super::message::{HandOver, Seal};
use super::replacing::Mark;
use super::{Going, Member, Nominator, Out, PeerMessage, Role, Service, Timer, say_each};
use crate::ids::{Epoch, Incarnation};
use crate::record::Record;
use crate::register::{Value, Version};
use crate::time::LocalTime;

/// A member that is about to begin a view (rule 4).
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Candidate {
    pub(super) step: Step,
    since: LocalTime,
    /// The record that the candidacy starts from, once it is read.
    pub(super) base: Option<Record>,
    pub(super) version: Version,
    pub(super) time_term: Epoch,
    /// The members that sealed, and when each last said so.
    pub(super) seals: BTreeMap<Incarnation, (Seal, LocalTime)>,
    /// Who is surely dead, and since when that is known.
    pub(super) dead: Dead,
    /// The table that the leader of the base gave, and when it came.
    pub(super) inherited: Option<(HandOver, LocalTime)>,
    /// What it read while it led, and is to replace by its next view with its own table (rule 33).
    pub(super) replaces: Option<Mark>,
    /// When the leader lease of the base was over.
    pub(super) over_at: Option<LocalTime>,
    /// When the register was known to say that the base is closing.
    pub(super) closing_at: Option<LocalTime>,
    /// Until when those who have not sealed are waited for, once enough have.
    stragglers_until: Option<LocalTime>,
    /// There was a view that the base does not know of, or what was written in its place.
    pub(super) beside: bool,
    /// When a member last refused to seal: it follows somebody.
    refused_at: Option<LocalTime>,
    pub(super) joiners: Joiners,
    /// What was written in place of which version, and is not known to be there, or not to be.
    pub(super) written: Option<(Version, Record)>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Step {
    /// Asks the register for the base.
    Reading,
    /// Asks the members of the base for their seals.
    Sealing,
    /// The leader lease is over; who seals now still saves the wait.
    Stragglers,
    /// Asks the register to put the mark `closing` on the base.
    Closing,
    /// Asks the register to replace the base.
    Writing,
}

/// One round trip and 20 ms: rule 16. A member that heard the old leader once more than the others
/// seals a heartbeat later than they.
const STRAGGLERS: Duration = Duration::from_millis(30);

impl Candidate {
    fn new(now: LocalTime, dead: Dead, inherited: Option<HandOver>) -> Self {
        let mut joiners = Joiners::default();
        for info in inherited.iter().flat_map(|table| &table.joins) {
            joiners.note(now, info.clone());
        }
        Self {
            step: Step::Reading,
            since: now,
            base: None,
            version: Version::default(),
            time_term: Epoch::default(),
            seals: BTreeMap::new(),
            dead,
            joiners,
            inherited: inherited.map(|table| (table, now)),
            replaces: None,
            over_at: None,
            closing_at: None,
            stragglers_until: None,
            beside: false,
            refused_at: None,
            written: None,
        }
    }

    /// Whether all members of the base sealed it or are dead, but for its leader: its own holds were
    /// tied to its leader lease, which is over, or others tell them (rule 22).
    pub(super) fn has_all_seals(&self, now: LocalTime, base: &Record) -> bool {
        let sealed = |m| Some(m) == base.leader || self.has_sealed(now, base, m);
        !base.base_unknown && base.incarnations().all(sealed)
    }

    fn has_sealed(&self, now: LocalTime, base: &Record, member: Incarnation) -> bool {
        self.seals.contains_key(&member) || self.is_dead(now, base, member)
    }

    /// Whether its view may be in the register soon, or is asked for by a leader that resigned.
    pub(super) fn is_bound(&self) -> bool {
        self.written.is_some() || self.inherited.is_some()
    }

    /// A member leaves, and is not to be in the view that this candidate has yet to write.
    pub(super) fn leave_out(&mut self, leaver: Incarnation) {
        self.joiners.remove(leaver);
        if let Some((table, _)) = &mut self.inherited {
            table.stays.retain(|member| *member != leaver);
            table.joins.retain(|info| info.incarnation != leaver);
        }
    }

    /// The members that answered lately.
    pub(super) fn answered(&self, now: LocalTime, base: &Record) -> BTreeSet<Incarnation> {
        let patience = base.timing.leader_lease * 2;
        let lately = self.seals.iter().filter(|(_, (_, at))| now - *at <= patience);
        let stay = self.inherited.iter().flat_map(|(table, _)| &table.stays);
        lately.map(|(member, _)| member).chain(stay).copied().collect()
    }

    /// Whether it waited so long for seals that it is time to wait for the last promise instead.
    fn is_patient(&self, now: LocalTime, base: &Record) -> bool {
        now - self.since > base.timing.leader_lease * 2
    }

    /// Rule 15: whether the leader lease of the base is over. Seals are counted in the old membership; of
    /// a base that was lost nobody knows whose would count.
    fn leader_lease_is_over(&self, now: LocalTime, base: &Record) -> bool {
        let waited = base.timing.api_outage + base.timing.leader_lease;
        let closed = self.closing_at.is_some_and(|at| at.after(waited) <= now);
        let seals = base.incarnations().filter(|m| self.has_sealed(now, base, *m)).count();
        let dead = base.leader.is_some_and(|leader| self.is_dead(now, base, leader));
        let sealed = !base.base_unknown && (seals >= base.seals_needed() || dead);
        self.inherited.is_some() || sealed || closed
    }
}

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
        let replaces = inherited.as_ref().and_then(|table| Mark::to_replace(table.base, &value));
        let candidate = Candidate::new(now, self.dead.clone(), inherited);
        self.role = Role::Candidate(Box::new(Candidate { replaces, ..candidate }));
        if self.going == Going::Leaves {
            // A leader waits for less: nothing of it is on the way to the register.
            out.arm(Timer::Leave, now.until(self.leave_until));
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
        if let Some((version, written)) = candidate.written.take() {
            if value.record.as_ref().is_some_and(|record| record.nonce == written.nonce) {
                return self.write_is_in_place(now, sent, written, out);
            }
            if value.version == version {
                return self.write(now, version, written, out);
            }
        }
        let Some(candidate) = self.candidate() else { return };
        let changed = candidate.version != value.version;
        candidate.version.clone_from(&value.version);
        candidate.time_term = value.time_term;
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
        let void = |candidate: &mut Candidate| {
            let begun = candidate.base.is_some() || candidate.over_at.is_some();
            candidate.replaces.is_some() || base.base_unknown && changed && begun
        };
        if self.candidate().is_some_and(void) {
            // Nobody knows what came after what was read first, though that was nothing, or lost
            // too.
            let (version, time_term) = (value.version, value.time_term);
            let anew = Candidate::new(now, self.dead.clone(), None);
            let anew = Candidate { version, time_term, ..anew };
            self.role = Role::Candidate(Box::new(anew));
        }
        self.take_base(now, &base, out);
    }

    /// A record that is older than what this member knows was brought back from a backup. Nobody
    /// knows what came after it, so it is as good as lost, and the longest known waits are waited.
    pub(super) fn as_base(&self, record: Record) -> Record {
        if record.epoch >= self.latest_known() && !record.base_unknown {
            return record;
        }
        let mine = self.record.as_ref().map_or(self.policy.timing, |known| known.timing);
        Record { base_unknown: true, timing: record.timing.longest(mine), ..record }
    }

    /// The register holds nothing: there never was a view, or it was lost and is not to be taken
    /// for new.
    fn take_nothing_for_base(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if self.knows_of_a_view() {
            return self.withdraw(now, out);
        }
        let Some(candidate) = self.candidate() else { return };
        candidate.over_at = Some(now);
        self.activate(now, out);
    }

    /// Whether this group had a view, as far as this member knows.
    pub(super) fn knows_of_a_view(&self) -> bool {
        self.status.epoch.max(self.promises.epoch()) > Epoch::default() || self.record.is_some()
    }

    fn take_base(&mut self, now: LocalTime, base: &Record, out: &mut Out<S, N>) {
        let (me, leaves) = (self.me.incarnation, self.going == Going::Leaves);
        let Role::Candidate(candidate) = &self.role else { return };
        let since = self.first_read(&candidate.version, base).unwrap_or(now);
        let beside = self.runs_beside(now, base).is_some();
        let Some(candidate) = self.candidate() else { return };
        candidate.beside |= beside;
        if base.base_unknown {
            candidate.inherited = None;
        }
        if leaves && (base.is_closed() || candidate.inherited.is_none()) {
            return self.depart(now, out);
        }
        if base.closing {
            candidate.closing_at.get_or_insert(since);
        } else if candidate.closing_at.take().is_some() {
            // The mark is gone, with a backup that was brought back: members confirm the view again.
            candidate.over_at = None;
        }
        let begun = candidate.inherited.is_some() || candidate.over_at.is_some();
        let over = base.is_closed() || base.is_advisory() || begun;
        candidate.base = Some(base.clone());
        if over {
            candidate.over_at.get_or_insert(now);
            return self.activate(now, out);
        }
        candidate.step = Step::Sealing;
        // Of a base that was lost no seal counts, but a refusal tells that a leader lease lives.
        if base.rank(me).is_some() && !base.base_unknown {
            match self.seal(now, base.epoch, out) {
                Some(seal) => {
                    if let Some(candidate) = self.candidate() {
                        candidate.seals.insert(me, (seal, now));
                    }
                }
                None => return self.withdraw(now, out),
            }
        }
        say_each(base.others(me), &PeerMessage::SealRequest { base: base.epoch }, out);
        self.check_seals(now, out);
    }

    /// A member sealed the base.
    pub(super) fn on_seal(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        mut seal: Seal,
        out: &mut Out<S, N>,
    ) {
        let Some(candidate) = self.candidate() else { return };
        let Some(base) = candidate.base.as_ref().filter(|base| base.epoch == seal.base) else {
            return;
        };
        let asked = matches!(candidate.step, Step::Sealing | Step::Stragglers);
        if base.rank(from).is_none() || base.base_unknown || !asked {
            return;
        }
        // Rule 13: the seal of the leader itself, while it led, is all that is needed.
        let table = seal.hand_over.take().filter(|_| base.leader == Some(from));
        if let Some(table) = table.filter(|table| table.base == seal.base) {
            candidate.inherited = Some((*table, now));
        }
        candidate.seals.insert(from, (seal, now));
        self.check_seals(now, out);
    }

    /// Somebody follows a leader of the base, or knows of a later view.
    pub(super) fn on_seal_refused(&mut self, now: LocalTime, base: Epoch, out: &mut Out<S, N>) {
        if let Some(candidate) = self.candidate()
            && candidate.base.as_ref().is_some_and(|record| record.epoch == base)
        {
            candidate.refused_at = Some(now);
        } else if self.leader().is_some_and(|leader| leader.record.epoch == base) {
            // There is another of this number.
            self.waits_for_the_unknown(now, out);
        } else {
            self.hears_of_view(now, base, out);
        }
    }

    /// Goes on as soon as the leader lease of the base is over.
    pub(super) fn check_seals(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let Some(candidate) = self.candidate() else { return };
        let Some(base) = candidate.base.clone() else { return };
        if !candidate.leader_lease_is_over(now, &base) {
            candidate.step = Step::Sealing;
            let (pause, haste) = (base.timing.heartbeat, !candidate.is_patient(now, &base));
            return out.arm(Timer::Candidacy, if haste { pause / 2 } else { pause * 2 });
        }
        candidate.over_at.get_or_insert(now);
        if candidate.inherited.is_some() || candidate.has_all_seals(now, &base) {
            return self.activate(now, out);
        }
        if candidate.step != Step::Stragglers {
            candidate.step = Step::Stragglers;
            candidate.stragglers_until = Some(now.after(base.timing.heartbeat + STRAGGLERS));
            out.arm(Timer::Candidacy, STRAGGLERS);
        }
    }

    /// Rule 16: asks those again that have not sealed, until there is no time left for it.
    fn go_on_collecting(&mut self, now: LocalTime, base: &Record, out: &mut Out<S, N>) {
        let me = self.me.incarnation;
        let Some(candidate) = self.candidate() else { return };
        if candidate.stragglers_until.is_none_or(|until| until <= now) {
            return self.activate(now, out);
        }
        let missing = base.others(me).filter(|m| !candidate.seals.contains_key(m));
        say_each(missing, &PeerMessage::SealRequest { base: base.epoch }, out);
        out.arm(Timer::Candidacy, STRAGGLERS);
    }

    pub(super) fn candidacy_step(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let me = self.me.incarnation;
        let Some(candidate) = self.candidate() else { return };
        let Some(base) = candidate.base.clone() else { return };
        match candidate.step {
            Step::Stragglers => self.go_on_collecting(now, &base, out),
            Step::Sealing => {
                let patient = candidate.is_patient(now, &base);
                if patient && candidate.closing_at.is_none() {
                    let lately = base.timing.leader_lease / 2;
                    let refused = candidate.refused_at.is_some_and(|at| now - at < lately);
                    if refused {
                        // There may be a later view by now.
                        self.withdraw(now, out);
                        self.read_register(now, out);
                    } else {
                        self.close_base(now, base, out);
                    }
                    return;
                }
                // In a long wait also those that sealed already: they may be dead by its end.
                let sealed = |m: &Incarnation| candidate.seals.contains_key(m) && !patient;
                let asked = base.others(me).filter(|m| !sealed(m));
                say_each(asked, &PeerMessage::SealRequest { base: base.epoch }, out);
                self.check_seals(now, out);
            }
            Step::Reading | Step::Closing | Step::Writing => {}
        }
    }

    /// Rule 15 (c): marks the base, so that its members confirm it no longer.
    fn close_base(&mut self, now: LocalTime, base: Record, out: &mut Out<S, N>) {
        let nonce = self.register.nonce();
        let Some(candidate) = self.candidate() else { return };
        candidate.step = Step::Closing;
        let version = candidate.version.clone();
        self.write(now, version, Record { closing: true, nonce, ..base }, out);
    }

    /// The register does not answer a candidate. Without an unknown write it gives up: another may
    /// reach the register. With one it must find out.
    pub(super) fn candidate_without_register(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let Some(candidate) = self.candidate() else { return };
        if candidate.written.is_some() {
            return self.read_register(now, out);
        }
        self.withdraw(now, out);
    }

    /// Leaves the nomination to others, for a while: twice as long each time that the register did not
    /// answer, until all others have had their turn. Else the highest ranks would come back before
    /// the one member that reaches the register is asked.
    pub(super) fn withdraw(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if self.going == Going::Leaves {
            return self.depart(now, out);
        }
        let timing = self.record.as_ref().map_or(self.policy.timing, |record| record.timing);
        let members = self.record.as_ref().map_or(1, |record| record.members.len());
        let turns = u32::try_from(members).unwrap_or(u32::MAX);
        let share = 1_u32.checked_shl(self.withdrawals).unwrap_or(u32::MAX).min(turns);
        self.withdrawals += 1;
        self.abstains_until = now.after(timing.leader_lease * share);
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
