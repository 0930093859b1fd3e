//! A leader that gives its leader lease to another and stays: because its application or somebody else asks for
//! a transfer. It hands over as one that drains does (rule 37 of `docs/views.md`), and is put last for a while.

use std::time::Duration;

use super::going::Rest;
use super::service::Notice;
use super::{Event, Member, Nominator, Out, Role, Service};
use crate::ids::Incarnation;
use crate::time::LocalTime;

/// For so many leader leases at least a leader tries to hand over: its applications may believe for one, and what is
/// held may have to be asked for.
const TRIES: u32 = 3;

impl<S: Service, N: Nominator> Member<S, N> {
    /// Whether that member could lead next, as far as this one knows. A leader knows which live and which do not rest,
    /// the others only which are in the view.
    pub fn may_lead_next(&self, now: LocalTime, member: Incarnation) -> bool {
        let me = self.me.incarnation;
        match &self.role {
            Role::Leader(leader) => leader.successor(now, me, Some(member), true) == Some(member),
            Role::Joiner { .. }
            | Role::Follower
            | Role::Candidate(_)
            | Role::Resigned(_)
            | Role::Gone => {
                self.record.as_ref().is_some_and(|record| record.rank(member).is_some())
            }
        }
    }

    /// For that long another is to lead, if there is one. A member that is about to end in any case only names its successor.
    pub(super) fn rest(
        &mut self,
        now: LocalTime,
        to: Option<Incarnation>,
        cooldown: Duration,
        out: &mut Out<S, N>,
    ) {
        let timing = self.record.as_ref().map_or(self.policy.timing, |record| record.timing);
        let tries = now.after(timing.leader_lease * TRIES);
        let rest = Rest { since: now, tries, until: tries.max(now.after(cooldown)) };
        if !self.going.begin_rest(rest, to, self.belief.ends()) {
            return;
        }
        self.notice(now, Notice::Rests, out);
        if matches!(self.role, Role::Candidate(_) | Role::Leader(_)) && self.belief.goes_on(now) {
            // Between two views of its own, or in one that has just begun, it hands over once members have promised.
            self.belief.set_ends(true);
        }
        self.drain_lead(now, out);
    }

    /// Whether a leader that rests has yet to hear that the register answers: without that its successor could not begin
    /// a view. It asks.
    pub(super) fn rests_for_the_register(&mut self, now: LocalTime, out: &mut Out<S, N>) -> bool {
        let Some(rest) = self.going.rest() else { return false };
        let waits = !self.is_advisory() && !self.promises.are_confirmed_since(rest.since);
        if waits {
            self.read_register(now, out);
        }
        waits
    }

    /// The register answered, and confirmed the view: a leader that rests may have waited for that.
    pub(super) fn rests_as_the_register_answers(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let confirmed = |rest: Rest| self.promises.are_confirmed_since(rest.since);
        if self.going.rest().is_some_and(confirmed) && self.belief.ends() {
            self.drain_lead(now, out);
        }
    }

    /// Somebody wants that member to lead next.
    pub(super) fn transfer(&mut self, now: LocalTime, to: Incarnation, out: &mut Out<S, N>) {
        if to != self.me.incarnation && self.may_lead_next(now, to) {
            self.rest(now, Some(to), Duration::ZERO, out);
        } else {
            out.tell(Event::Ignored("transfer"));
        }
    }

    /// Once the time is over it is a candidate like others, and a leader that found nobody in time leads on.
    pub(super) fn look_at_rest(&mut self, now: LocalTime) {
        let leads = matches!(self.role, Role::Leader(_));
        if self.going.end_rest(now, leads) {
            self.belief.set_ends(false);
        }
    }

    /// Who would lead next if this member, which leads, gave its leader lease up.
    pub(super) fn successor(&self, now: LocalTime, stay: bool) -> Option<Incarnation> {
        let Role::Leader(leader) = &self.role else { return None };
        leader.successor(now, self.me.incarnation, self.going.next_leader(), stay)
    }
}
