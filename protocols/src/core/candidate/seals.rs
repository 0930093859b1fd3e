//! Who sealed what a candidate starts from, who is dead, and whether the leader lease of it is over.

use std::collections::BTreeSet;

use super::super::message::{List, Seal, TableHold};
use super::{Candidate, Due, STRAGGLERS, Step};
use crate::ids::{Epoch, Incarnation};
use crate::policy;
use crate::record::Record;
use crate::time::LocalTime;

impl Candidate {
    /// A member of the base sealed it. False if that is of no use.
    pub(in crate::core) fn hear_seal(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        mut seal: Seal,
    ) -> bool {
        let Some(base) = self.base.as_ref().filter(|base| base.epoch == seal.base) else {
            return false;
        };
        let asked = matches!(self.step, Step::Sealing | Step::Stragglers);
        if base.rank(from).is_none() || base.base_unknown || !asked {
            return false;
        }
        // Rule 13: the seal of the leader itself, while it led, is all that is needed.
        let table = seal.hand_over.take().filter(|_| base.leader == Some(from));
        if let Some(table) = table.filter(|table| table.base == seal.base) {
            self.inherited = Some((*table, now));
        }
        self.seals.insert(from, (seal, now));
        true
    }

    /// This member itself sealed the base.
    pub(in crate::core) fn seal(&mut self, now: LocalTime, me: Incarnation, seal: Seal) {
        self.seals.insert(me, (seal, now));
    }

    /// A member refused to seal that view. False if it is not the base.
    pub(in crate::core) fn hear_refusal(&mut self, now: LocalTime, view: Epoch) -> bool {
        let of_base = self.base.as_ref().is_some_and(|base| base.epoch == view);
        if of_base {
            self.refused_at = Some(now);
        }
        of_base
    }

    /// Another process is dead. It counts after a while.
    pub(in crate::core) fn note_dead(&mut self, now: LocalTime, member: Incarnation) {
        self.dead.note(now, member);
    }

    /// Goes on as soon as the leader lease of the base is over.
    pub(in crate::core) fn look_at_seals(&mut self, now: LocalTime) -> Due {
        let Some(base) = &self.base else { return Due::Nothing };
        let timing = base.timing;
        if !self.leader_lease_is_over(now, base) {
            let (pause, haste) = (timing.heartbeat, !self.is_patient(now, base));
            self.step = Step::Sealing;
            return Due::Wait(if haste { pause / 2 } else { pause * 2 });
        }
        let complete = self.inherited.is_some() || self.has_all_seals(now, base);
        self.over_at.get_or_insert(now);
        if complete {
            return Due::Activate;
        }
        if self.step == Step::Stragglers {
            return Due::Nothing;
        }
        self.step = Step::Stragglers;
        self.stragglers_until = Some(now.after(timing.heartbeat + STRAGGLERS));
        Due::Wait(STRAGGLERS)
    }

    /// What is due when it has waited.
    pub(in crate::core) fn next_step(&self, now: LocalTime, me: Incarnation) -> Due {
        let Some(base) = &self.base else { return Due::Nothing };
        let missing = |all: bool| {
            let missing = |m: &Incarnation| all || !self.seals.contains_key(m);
            base.others(me).filter(missing).collect()
        };
        match self.step {
            // Rule 16: asks those again that have not sealed, until there is no time left for it.
            Step::Stragglers if self.stragglers_until.is_none_or(|until| until <= now) => {
                Due::Activate
            }
            Step::Stragglers => Due::Ask(base.epoch, missing(false), Some(STRAGGLERS)),
            Step::Sealing => {
                let patient = self.is_patient(now, base);
                if !patient || self.closing_at.is_some() {
                    // In a long wait also those that sealed already: they may be dead by its end.
                    return Due::Ask(base.epoch, missing(patient), None);
                }
                let lately = base.timing.leader_lease / 2;
                let refused = self.refused_at.is_some_and(|at| now - at < lately);
                if refused { Due::Withdraw } else { Due::Close }
            }
            Step::Reading | Step::Closing | Step::Writing => Due::Nothing,
        }
    }

    /// The members that answered lately.
    pub(super) fn answered(&self, now: LocalTime, base: &Record) -> BTreeSet<Incarnation> {
        let patience = base.timing.leader_lease * 2;
        let lately = self.seals.iter().filter(|(_, (_, at))| now - *at <= patience);
        let stay = self.inherited.iter().flat_map(|(table, _)| &table.stays);
        lately.map(|(member, _)| member).chain(stay).copied().collect()
    }

    /// Whether all members of the base sealed it or are dead, but for its leader: its own holds were
    /// tied to its leader lease, which is over, or others report them (rule 22).
    pub(super) fn has_all_seals(&self, now: LocalTime, base: &Record) -> bool {
        let sealed = |m| Some(m) == base.leader || self.has_sealed(now, base, m);
        !base.base_unknown && base.incarnations().all(sealed)
    }

    fn has_sealed(&self, now: LocalTime, base: &Record, member: Incarnation) -> bool {
        self.seals.contains_key(&member) || self.is_dead(now, base, member)
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

    // ----- what the seals report

    /// Rule 20: if all members of the base but its leader sealed it, nothing runs after that which
    /// neither they nor what they report of the leader's list names. Nothing if they cannot know.
    pub(super) fn settled_at(&self, base: &Record) -> Option<LocalTime> {
        if base.settled {
            return Some(LocalTime::default());
        }
        self.lists().map(|(list, at)| at.after(list.rest)).min()
    }

    /// The holds that the leader of the base listed, as the seals report them.
    pub(super) fn listed(&self, now: LocalTime) -> Vec<TableHold> {
        self.lists().flat_map(|(list, at)| list.clone().aged(at, now).holds).collect()
    }

    fn lists(&self) -> impl Iterator<Item = (&List, LocalTime)> {
        self.seals.values().filter_map(|(seal, at)| Some((seal.list.as_ref()?, *at)))
    }

    // ----- the dead

    /// Since when a member is known to be dead, if the base's policy takes evidence.
    fn dead_since(&self, base: &Record, member: Incarnation) -> Option<LocalTime> {
        match base.policy.evidence {
            policy::Evidence::None => None,
            policy::Evidence::ContainerStatus => self.dead.since(member),
        }
    }

    /// Rule 14: whether a member counts as one that sealed the base: whatever it promised before it
    /// died has run out, counted from when the evidence was seen.
    fn is_dead(&self, now: LocalTime, base: &Record, member: Incarnation) -> bool {
        let wait = base.timing.leader_lease;
        self.dead_since(base, member).is_some_and(|seen| seen.after(wait) <= now)
    }

    /// Until when the dead that reported nothing may have been notified that they hold, or of what the leader held.
    /// The leader's own holds ended with its leader lease, or others report them (rule 22).
    pub(super) fn holds_of_the_dead(&self, base: &Record) -> LocalTime {
        let silent = |m: &Incarnation| Some(*m) != base.leader && !self.seals.contains_key(m);
        let seen = base.incarnations().filter(silent).filter_map(|m| self.dead_since(base, m));
        seen.max().map(|seen| seen.after(base.timing.member_lease)).unwrap_or_default()
    }
}
