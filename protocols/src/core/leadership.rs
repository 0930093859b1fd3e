//! How a member stands in its group, for its process, and what its applications may believe of its
//! leadership (rules 35 to 37 of `docs/views.md`).

use super::{Event, Leadership, Member, Nominator, Out, Role, Service, Timer};
use crate::time::{LocalTime, hold};

impl<S: Service, N: Nominator> Member<S, N> {
    /// Notifies the process of how this member stands, if that has changed.
    pub(super) fn tell_leadership(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if let Some(record) = &self.record {
            self.belief.note_view(now, self.me.incarnation, record);
        }
        let leadership = self.leadership(now);
        if self.belief.notify(leadership) {
            out.tell(Event::Leadership(leadership));
        }
    }

    fn leadership(&self, now: LocalTime) -> Leadership {
        let leader = self.record.as_ref().and_then(|record| record.leader);
        match &self.role {
            Role::Leader(leader) if leader.leader_lease_until() > now => {
                self.leadership_by_lease(now, leader.leader_lease_until())
            }
            Role::Leader(_) | Role::Candidate(_) if self.belief.goes_on(now) => {
                Leadership::Leading(self.belief.until())
            }
            Role::Candidate(_) => Leadership::Electing,
            Role::Follower => match leader {
                Some(leader) if self.follows(now) => {
                    Leadership::Following(leader, self.promises.until())
                }
                Some(_) | None => Leadership::Electing,
            },
            Role::Leader(_) | Role::Joiner { .. } | Role::Resigned(_) | Role::Gone => {
                Leadership::Isolated
            }
        }
    }

    fn leadership_by_lease(&self, now: LocalTime, until: LocalTime) -> Leadership {
        if self.belief.ends() {
            Leadership::HandingOver
        } else {
            // Rule 7: a deadline that applications were notified of is not taken back.
            let notified = self.before_a_shorter_wait(until).max(self.belief.until());
            if self.may_believe(now) && notified > now {
                Leadership::Leading(notified)
            } else {
                Leadership::Electing
            }
        }
    }

    /// Where a shorter leader lease is to come into force, applications are notified of no later deadline
    /// than that would give, so that it can.
    fn before_a_shorter_wait(&self, until: LocalTime) -> LocalTime {
        let Some(record) = &self.record else { return until };
        let wanted = self.policy.timing.leader_lease.min(record.timing.leader_lease);
        let less = hold(record.timing.leader_lease).saturating_sub(hold(wanted));
        LocalTime(until.0.saturating_sub(LocalTime::default().after(less).0))
    }

    /// Whether the view has a longer leader lease than its policy, which no belief needs any more.
    pub(super) fn may_shorten_the_wait(&self, now: LocalTime) -> bool {
        let Some(record) = &self.record else { return false };
        let wanted = record.policy.timing.leader_lease;
        wanted < record.timing.leader_lease && self.belief.lasts_until() <= now.after(hold(wanted))
    }

    /// Whether no application of another leader can believe any more. Without an arbiter nobody
    /// promises that.
    pub(super) fn may_believe(&self, now: LocalTime) -> bool {
        self.is_advisory() || self.belief.may_begin(now)
    }

    /// Whether an application may still believe that this member leads.
    pub(super) fn is_believed(&self, now: LocalTime) -> bool {
        !self.is_advisory() && self.belief.until() > now
    }

    /// Rule 37: whether applications keep a leader from handing over. It goes on when the last deadline
    /// that it announced to them has passed.
    pub(super) fn waits_for_believers(&mut self, now: LocalTime, out: &mut Out<S, N>) -> bool {
        let waits = self.is_believed(now) || !self.may_believe(now);
        let until = self.belief.lasts_until();
        if let Some(leader) = self.leader().filter(|_| waits) {
            let heartbeat = leader.timing().heartbeat;
            out.arm(Timer::Heartbeat, heartbeat.min(now.until(until)));
        }
        waits
    }

    /// While this member hands over: no application was notified of a later deadline than this.
    pub(super) fn believed_until(&mut self, now: LocalTime, until: LocalTime, out: &mut Out<S, N>) {
        if self.belief.shorten(until) {
            self.hand_over_in_time(now, out);
        }
    }
}
