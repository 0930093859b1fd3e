//! The gate before the locks, as the members other than the leader see it.
//!
//! While a view begins its leader grants nothing (rule 23), and keeps what arrives. Its heartbeats tell
//! whether the gate is open, and the ceiling of tokens.

use std::time::Duration;

use super::message::Gate;
use super::{Event, Member, Out, Role};
use crate::ids::{Epoch, Incarnation};
use crate::time::LocalTime;

/// What a member knows of the gate.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Gates {
    /// The latest word of a leader, and in which view.
    heard: Option<(Epoch, bool)>,
    /// What was last told.
    told: Option<bool>,
    /// The end of the quiet time that was last told.
    told_quiet: Option<LocalTime>,
}

impl Member {
    /// A heartbeat of the view of this member, which follows its leader, tells of the gate.
    pub(super) fn hear_gate(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        epoch: Epoch,
        gate: Gate,
        out: &mut Out,
    ) {
        if self.is_in(epoch, from) {
            self.gates.heard = Some((epoch, gate.open));
            self.with_locks(now, out, |locks, effects| locks.hear_gate(now, gate, effects));
        }
    }

    /// Whether locks are granted in the group at the moment. Nothing if this member cannot know:
    /// nobody leads it.
    pub(super) fn grants(&self, now: LocalTime) -> Option<bool> {
        match &self.role {
            Role::Leader(leader) => Some(leader.grants(now)),
            Role::Follower if self.follows(now) => {
                let (epoch, open) = self.gates.heard?;
                (epoch == self.pledge.epoch).then_some(open)
            }
            Role::Follower
            | Role::Joiner { .. }
            | Role::Candidate(_)
            | Role::Resigned(_)
            | Role::Gone => None,
        }
    }

    /// Until when nothing is newly granted (rule 20), if this member knows: it leads, or its leader says
    /// so.
    fn quiet(&self, now: LocalTime) -> Option<LocalTime> {
        let until = match &self.role {
            Role::Leader(leader) if leader.office_until() > now => {
                Some(now.after(leader.rest_of_quiet(now)))
            }
            Role::Follower if self.grants(now) == Some(false) => self.quiet_of_leader(),
            Role::Leader(_)
            | Role::Follower
            | Role::Joiner { .. }
            | Role::Candidate(_)
            | Role::Resigned(_)
            | Role::Gone => None,
        };
        until.filter(|until| *until > now)
    }

    /// Tells whether locks are granted, and until when they are not, if that has changed.
    pub(super) fn tell_gate(&mut self, now: LocalTime, out: &mut Out) {
        let grants = self.grants(now);
        if self.gates.told != grants {
            self.gates.told = grants;
            out.tell(Event::Grants(grants));
        }
        let quiet = self.quiet(now);
        let same = match (self.gates.told_quiet, quiet) {
            (Some(told), Some(until)) => (told - until).max(until - told) < SAME_END,
            (told, until) => told == until,
        };
        if !same {
            self.gates.told_quiet = quiet;
            out.tell(Event::Quiet(quiet));
        }
    }
}

/// A leader tells a rest anew with each heartbeat. What differs by less is the same moment.
const SAME_END: Duration = Duration::from_millis(100);
