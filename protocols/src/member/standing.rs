//! How a member stands in its group, for its process, and what its applications may believe of its
//! leadership (rules 35 to 37 of `docs/office.md`).

use super::{Event, Member, Out, Role, Standing, Timer};
use crate::ids::Epoch;
use crate::time::{LocalTime, hold};

/// What applications may believe: those of this member, and those of whoever led before.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Belief {
    /// The last standing told.
    told: Option<Standing>,
    /// No application of this member was told a later end of its office.
    until: LocalTime,
    /// Nobody is told any more: the office is about to pass on.
    ends: bool,
    /// By then no application of any other member believes that it leads.
    from: LocalTime,
    /// The latest view known.
    known: Epoch,
}

impl Member {
    /// Tells how this member stands, if that has changed.
    pub(super) fn tell_standing(&mut self, now: LocalTime, out: &mut Out) {
        self.note_view(now);
        let standing = self.standing(now);
        if let Standing::Leading(until) = standing {
            self.belief.until = until;
        }
        if self.belief.told != Some(standing) {
            self.belief.told = Some(standing);
            out.tell(Event::Standing(standing));
        }
    }

    /// Rule 36: whoever led before it began the view of another resigned before it wrote that view.
    fn note_view(&mut self, now: LocalTime) {
        let Some(record) = self.record.as_ref().filter(|r| r.epoch != self.belief.known) else {
            return;
        };
        self.belief.known = record.epoch;
        if record.leader != Some(self.me.incarnation) {
            self.belief.from = self.belief.from.max(now.after(record.timing.office_wait));
        }
    }

    fn standing(&self, now: LocalTime) -> Standing {
        let leader = self.record.as_ref().and_then(|record| record.leader);
        match &self.role {
            Role::Leader(office) if office.office_until() > now => {
                self.in_office(now, office.office_until())
            }
            Role::Leader(_) | Role::Candidate(_) if self.goes_on_leading(now) => {
                Standing::Leading(self.belief.until)
            }
            Role::Candidate(_) => Standing::Electing,
            Role::Follower => match leader {
                Some(leader) if self.follows(now) => Standing::Following(leader, self.pledge.until),
                Some(_) | None => Standing::Electing,
            },
            Role::Leader(_) | Role::Joiner { .. } | Role::Resigned(_) | Role::Gone => {
                Standing::Isolated
            }
        }
    }

    fn in_office(&self, now: LocalTime, until: LocalTime) -> Standing {
        if self.belief.ends {
            Standing::HandingOver
        } else {
            // Rule 7: a deadline that was told is not taken back.
            let told = self.before_a_shorter_wait(until).max(self.belief.until);
            if self.may_believe(now) && told > now {
                Standing::Leading(told)
            } else {
                Standing::Electing
            }
        }
    }

    /// Where a shorter office wait is to come into force, applications are told no later deadline than
    /// that would give, so that it can.
    fn before_a_shorter_wait(&self, until: LocalTime) -> LocalTime {
        let Some(record) = &self.record else { return until };
        let wanted = self.policy.timing.office_wait.min(record.timing.office_wait);
        let less = hold(record.timing.office_wait).saturating_sub(hold(wanted));
        LocalTime(until.0.saturating_sub(LocalTime::default().after(less).0))
    }

    /// Whether the view has a longer office wait than its policy, which no belief needs any more.
    pub(super) fn may_shorten_the_wait(&self, now: LocalTime) -> bool {
        let Some(record) = &self.record else { return false };
        let wanted = record.policy.timing.office_wait;
        wanted < record.timing.office_wait && self.believed_for() <= now.after(hold(wanted))
    }

    /// Until when some application may believe in a leader, as far as this member knows.
    pub(super) fn believed_for(&self) -> LocalTime {
        self.belief.until.max(self.belief.from)
    }

    /// Rule 35: a leader that resigned to itself is believed on, up to the deadline that it told.
    fn goes_on_leading(&self, now: LocalTime) -> bool {
        let led = matches!(self.belief.told, Some(Standing::Leading(_)));
        led && !self.belief.ends && self.belief.until > now
    }

    /// Whether no application of another leader can believe any more. Without an arbiter nobody
    /// promises that.
    pub(super) fn may_believe(&self, now: LocalTime) -> bool {
        self.is_advisory() || self.belief.from <= now
    }

    /// Whether an application may still believe that this member leads.
    pub(super) fn is_believed(&self, now: LocalTime) -> bool {
        !self.is_advisory() && self.belief.until > now
    }

    /// Rule 36: from when on the applications of this member may believe that it leads.
    pub(super) fn believe_from(&mut self, from: LocalTime) {
        self.belief.from = from;
    }

    /// From now on nobody is told that this member leads, or again, if it is not to hand over after
    /// all.
    pub(super) fn end_belief(&mut self, ends: bool) {
        self.belief.ends = ends;
    }

    /// What applications believed was advisory, and says nothing of what is safe.
    pub(super) fn forget_belief(&mut self) {
        self.belief.told = None;
        self.belief.until = LocalTime::default();
    }

    /// Whether nobody is told any more.
    pub(super) fn is_ending_belief(&self) -> bool {
        self.belief.ends
    }

    /// Rule 37: whether applications keep a leader from handing over. It goes on when the last deadline
    /// that it told has passed.
    pub(super) fn waits_for_believers(&mut self, now: LocalTime, out: &mut Out) -> bool {
        let waits = self.is_believed(now) || !self.may_believe(now);
        let until = self.belief.until.max(self.belief.from);
        if let Some(leader) = self.leader().filter(|_| waits) {
            let heartbeat = leader.record.timing.heartbeat;
            out.arm(Timer::Heartbeat, heartbeat.min(now.until(until)));
        }
        waits
    }

    /// While this member hands over: no application was told a later deadline than this.
    pub(super) fn believed_until(&mut self, now: LocalTime, until: LocalTime, out: &mut Out) {
        if self.belief.ends {
            self.belief.until = self.belief.until.min(until);
            self.hand_over_in_time(now, out);
        }
    }
}
