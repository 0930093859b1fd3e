//! Admission, as the members other than the leader see it.
//!
//! While a view begins its leader grants nothing (rule 23), and keeps what arrives. Its heartbeats state
//! whether admission is open, and the ceiling of tokens.

use std::time::Duration;

use super::message::Admission;
use super::{Event, Member, Nominator, Out, Role, Service};
use crate::ids::{Epoch, Incarnation};
use crate::time::LocalTime;

/// What a member knows of admission.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Admissions {
    /// The latest message of a leader, and in which view.
    heard: Option<(Epoch, bool)>,
    /// What the process was last notified of.
    notified: Option<bool>,
    /// The end of the grace period that the process was last notified of.
    notified_grace: Option<LocalTime>,
    /// Whether the process was last notified that the group is full.
    notified_full: bool,
}

impl<S: Service, N: Nominator> Member<S, N> {
    /// A heartbeat of the view of this member, which follows its leader, reports on admission.
    pub(super) fn hear_admission(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        epoch: Epoch,
        admission: Admission,
        out: &mut Out<S, N>,
    ) {
        if self.is_in(epoch, from) {
            self.admissions.heard = Some((epoch, admission.open));
            self.admit(now, admission, out);
        }
    }

    /// Whether anything is granted in the group at the moment. Nothing if this member cannot know:
    /// nobody leads it.
    pub(super) fn grants(&self, now: LocalTime) -> Option<bool> {
        match &self.role {
            Role::Leader(leader) => Some(leader.grants(now)),
            Role::Follower if self.follows(now) => {
                let (epoch, open) = self.admissions.heard?;
                (epoch == self.promises.epoch()).then_some(open)
            }
            Role::Follower
            | Role::Joiner { .. }
            | Role::Candidate(_)
            | Role::Resigned(_)
            | Role::Gone => None,
        }
    }

    /// Until when nothing is newly granted (rule 20), if this member knows: it leads, or its leader states
    /// it.
    fn grace(&self, now: LocalTime) -> Option<LocalTime> {
        let until = match &self.role {
            Role::Leader(leader) if leader.leader_lease_until() > now => {
                Some(now.after(leader.rest_of_grace(now)))
            }
            Role::Follower if self.grants(now) == Some(false) => self.grace_of_leader(),
            Role::Leader(_)
            | Role::Follower
            | Role::Joiner { .. }
            | Role::Candidate(_)
            | Role::Resigned(_)
            | Role::Gone => None,
        };
        until.filter(|until| *until > now)
    }

    /// Notifies the process of whether anything is granted, and until when nothing is, if that has changed.
    pub(super) fn tell_admission(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let grants = self.grants(now);
        if self.admissions.notified != grants {
            self.admissions.notified = grants;
            out.tell(Event::Grants(grants));
        }
        let full = self.holds.are_full();
        if std::mem::replace(&mut self.admissions.notified_full, full) != full {
            out.tell(Event::Full(full));
        }
        let grace = self.grace(now);
        let same = match (self.admissions.notified_grace, grace) {
            (Some(notified), Some(until)) => (notified - until).max(until - notified) < SAME_END,
            (notified, until) => notified == until,
        };
        if !same {
            self.admissions.notified_grace = grace;
            out.tell(Event::Grace(grace));
        }
    }
}

/// A leader sends a rest anew with each heartbeat. What differs by less is the same moment.
const SAME_END: Duration = Duration::from_millis(100);
