//! Getting into a group: by asking its leader, or by beginning its first view.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Event, Member, Nominator, Out, PeerMessage, Role, Service, Timer, send, send_each};
use crate::ids::Incarnation;
use crate::policy::Timing;
use crate::record::{MEMBERS_MAX, MemberInfo, Record};
use crate::register::Value;
use crate::time::LocalTime;

/// Those that want to join, and when each last announced it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Joiners(BTreeMap<Incarnation, (MemberInfo, LocalTime)>);

impl Joiners {
    pub(super) fn note(&mut self, now: LocalTime, info: MemberInfo) {
        if self.0.len() >= MEMBERS_MAX && !self.0.contains_key(&info.incarnation) {
            // The one that was not heard of for the longest has most likely gone.
            let oldest = self.0.iter().min_by_key(|(_, (_, at))| *at).map(|(member, _)| *member);
            oldest.map(|member| self.0.remove(&member));
        }
        self.0.insert(info.incarnation, (info, now));
    }

    pub(super) fn remove(&mut self, member: Incarnation) {
        self.0.remove(&member);
    }

    /// Those that were heard of lately: a dead member in a view costs it a promise.
    pub(super) fn lately(&self, now: LocalTime, patience: Duration) -> Vec<MemberInfo> {
        let fresh = |(_, at): &&(MemberInfo, LocalTime)| now - *at <= patience;
        self.0.values().filter(fresh).map(|(info, _)| info.clone()).collect()
    }
}

/// How often a joiner asks.
fn ask_period(timing: Timing) -> Duration {
    timing.heartbeat * 2
}

/// How many members a joiner asks at a time besides the leader. If hundreds asked hundreds, that would be most of what a
/// large group sends.
const ASKED_AT_ONCE: usize = 16;

impl<S: Service, N: Nominator> Member<S, N> {
    /// Whether this member is in no view because the group has as many members as it can have.
    pub fn is_one_too_many(&self) -> bool {
        let full =
            |record: &Record| !record.has_room_for(&self.me) && record.rank(self.me()).is_none();
        matches!(self.role, Role::Joiner { .. }) && self.record.as_ref().is_some_and(full)
    }

    /// Starts, or starts anew after it was left out of a view.
    pub(super) fn begin_joining(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        self.role = Role::Joiner { heard: now };
        self.drop_nomination(out);
        self.leave_view();
        if self.is_advisory() {
            return self.wait_for_a_leader(out);
        }
        self.read_register(now, out);
        out.arm(Timer::Reread, self.policy.timing.heartbeat);
        out.arm(Timer::Join, self.policy.timing.heartbeat);
    }

    /// Somebody of the recorded view lives.
    pub(super) fn hear_of(&mut self, now: LocalTime, from: Incarnation) {
        if let Role::Joiner { heard } = &mut self.role
            && self.record.as_ref().is_some_and(|record| record.rank(from).is_some())
        {
            *heard = now;
        }
    }

    /// The register states whom a joiner is to ask.
    pub(super) fn joiner_reads(&mut self, now: LocalTime, value: Value, out: &mut Out<S, N>) {
        let Some(record) = value.record.clone() else {
            return self.begin_first_view(now, value, out);
        };
        if record.is_closed() {
            // An older one was brought back from a backup: what is known stays known.
            if self.record.as_ref().is_none_or(|known| known.epoch <= record.epoch) {
                self.record = Some(record);
            }
            return self.begin_first_view(now, value, out);
        }
        if self.yields_to(&record) {
            return self.learn_of(now, record, out);
        }
        let news = self.is_news(&record);
        if news && record.rank(self.me.incarnation).is_some() {
            return self.learn_of(now, record, out);
        }
        if news && let Role::Joiner { heard } = &mut self.role {
            *heard = now;
        }
        let first = self.record.is_none();
        if news || first {
            self.record = Some(record);
            self.ask_to_join(now, out);
        }
    }

    /// The register is empty, or the last member left it in order: nobody is to be asked.
    ///
    /// An empty register is a lost one if there ever was a view. The keeper of the register sees to
    /// that; to begin as if nothing had been would put a second leader beside one that may live.
    fn begin_first_view(&mut self, now: LocalTime, value: Value, out: &mut Out<S, N>) {
        let lost = value.record.is_none() && self.knows_of_a_view();
        if now >= self.nominations.abstains_until() && !self.going.leaves() && !lost {
            self.begin_candidacy_with(now, None, value, out);
        }
    }

    /// Asks the leader of the recorded view, which will see to it, and some of the others, each time the next ones:
    /// one that lives shows that this member is not alone.
    fn ask_to_join(&self, now: LocalTime, out: &mut Out<S, N>) {
        let Some(record) = &self.record else { return };
        let me = self.me.incarnation;
        let others: Vec<Incarnation> =
            record.others(me).filter(|other| Some(*other) != record.leader).collect();
        let turn = (now - LocalTime::default()).as_nanos()
            / ask_period(record.timing).as_nanos().max(1)
            + u128::from(me.run);
        let first = usize::try_from(turn % others.len().max(1) as u128).unwrap_or(0);
        let asked = others.iter().cycle().skip(first * ASKED_AT_ONCE);
        let asked = asked.take(others.len().min(ASKED_AT_ONCE)).copied();
        let join = PeerMessage::Join(Box::new(self.me.clone()));
        send_each(
            record.leader.filter(|leader| *leader != me).into_iter().chain(asked),
            &join,
            out,
        );
    }

    /// Asks again; or begins a view, if nobody of the recorded one was heard of for long.
    pub(super) fn try_to_join(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let Role::Joiner { heard } = self.role else { return };
        if self.is_advisory() {
            return self.begin_nomination(now, out);
        }
        let timing = self.record.as_ref().map_or(self.policy.timing, |record| record.timing);
        out.arm(Timer::Join, ask_period(timing));
        // Rule 11: a joiner that reaches no member of the recorded view starts without an election.
        // Joiners that started together do not all try at once, and one that rests or is about to end last.
        let stagger = timing.heartbeat * u32::try_from(self.me.incarnation.run % 8).unwrap_or(0);
        let patience = if self.going.stays() { 2 } else { 5 };
        let alone = now - heard > timing.leader_lease * patience + stagger;
        let may = now >= self.nominations.abstains_until() && !self.going.leaves();
        if alone && self.record.is_some() && may {
            self.begin_candidacy(now, None, out);
        } else {
            self.ask_to_join(now, out);
            self.read_register(now, out);
        }
    }

    /// Somebody wants to join. Only the leader can see to it; the others answer that they live.
    pub(super) fn on_join(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        info: MemberInfo,
        out: &mut Out<S, N>,
    ) {
        if info.incarnation != from || !info.is_sound() {
            return out.tell(Event::Ignored("join"));
        }
        // A process that takes no part in a view does not answer for those that do.
        if matches!(self.role, Role::Joiner { .. } | Role::Resigned(_)) {
            return;
        }
        out.tell(Event::Met(Box::new(info.clone())));
        send(from, PeerMessage::Noted, out);
        if self.record.as_ref().is_some_and(|record| !record.can_speak_with(&info)) {
            return out.tell(Event::Ignored("version"));
        }
        match &mut self.role {
            Role::Leader(leader) => {
                let record = leader.record();
                if !record.has_room_for(&info) && record.rank(from).is_none() {
                    out.tell(Event::Ignored("full"));
                }
                leader.note_joiner(now, info);
            }
            Role::Candidate(candidate) => candidate.note_joiner(now, info),
            Role::Joiner { .. } | Role::Follower | Role::Resigned(_) | Role::Gone => {}
        }
        self.consider_change(now, out);
    }
}
