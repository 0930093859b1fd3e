//! How a leader without a time gets one.
//!
//! The sources of the algorithms have a leader that knows the time. A member that was
//! just started may lead a group that has a time, and then has to take that; or one that has none yet, and
//! then its own wall clock is the group's first time, or part of it. It asks every member for that, and waits for all of
//! them before it gives the group a time of its own: one that is silent may have a group time. Once its clock
//! is set, it can only be slewed; so it asks several times if the replies leave too much unknown.
//!
//! A reply does not show whether its sender has group time or had it before it missed a view. So the leader asks for what
//! members had only when all have replied that they have none ([`Wants::AnyTime`]).

use std::collections::{BTreeMap, BTreeSet};

use super::discipline::VirtualClock;
use super::estimate::Estimate;
use super::intersection::{Interval, covered};
use super::params::Params;
use super::rates::as_nanos;
use super::round::liars;
use super::wants::Wants;
use crate::ids::MemberId;
use crate::time::LocalTime;
use crate::view::View;

/// What the members replied to a leader without a time.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Beginning {
    /// How often it has asked since a member replied that had not before.
    rounds: u32,
    /// Whether it asks for any time, since it may begin one.
    may_begin: bool,
    /// Who has replied to the latest question.
    replied: BTreeSet<MemberId>,
    /// The group time that each has, as it is known best; nothing of one without.
    replies: BTreeMap<MemberId, Option<Estimate>>,
}

/// What follows from the replies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Start {
    /// Somebody who may have a time has not replied, or more is to be known soon.
    Unclear,
    /// Nobody has a time.
    First,
    /// This is group time.
    Known(Estimate),
}

impl Start {
    /// Sets the leader's clock, if that is clear. Returns whether it is.
    pub(super) fn set(self, now: LocalTime, clock: &mut VirtualClock) -> bool {
        let shown_ns = clock.map().now_ns(now.0);
        let (delta_ns, error_ns) = match self {
            Self::Unclear => return false,
            Self::First => (0, None),
            Self::Known(estimate) => {
                (estimate.ns.saturating_sub(shown_ns), Some(estimate.error_ns))
            }
        };
        clock.begin(now, delta_ns, now, error_ns);
        true
    }
}

impl Beginning {
    /// The leader asks everybody. Returns for what: as soon as it may begin a time, all are to reply anew.
    pub(super) fn ask(&mut self, now: LocalTime, view: View, clock: &VirtualClock) -> Wants {
        let may_have = !self.is_complete(view) || self.replies.values().any(Option::is_some);
        if !self.may_begin && clock.may_begin(now, may_have) {
            *self = Self { may_begin: true, ..Self::default() };
        }
        self.rounds = self.rounds.saturating_add(1);
        self.replied.clear();
        if self.may_begin { Wants::AnyTime } else { Wants::GroupTime }
    }

    /// A reply.
    pub(super) fn add(&mut self, from: MemberId, estimate: Option<Estimate>, growth_ppb: u64) {
        self.replied.insert(from);
        if !self.replies.contains_key(&from) {
            self.rounds = 0;
        }
        let known = self.replies.entry(from).or_insert(None);
        *known = match (*known, estimate) {
            (Some(old), Some(new)) => {
                let old = old.aged(new.raw.max(old.raw), growth_ppb);
                Some(if new.error_ns <= old.error_ns { new } else { old })
            }
            (old, new) => new.or(old),
        };
    }

    /// Whether all have replied to the latest question.
    pub(super) fn is_round_over(&self, view: View) -> bool {
        self.replied.len() + 1 >= view.size as usize
    }

    /// Whether all have replied to one of the questions.
    fn is_complete(&self, view: View) -> bool {
        self.replies.len() + 1 >= view.size as usize
    }

    /// What the replies come to. Where fewer than a third of the view lie, group time is between the ends
    /// of what enough of the replies allow. As long as somebody is silent, more have to state a time than may
    /// lie. When all have replied and no more do, the others have none: it is the best that there is.
    pub(super) fn end(
        &self,
        now: LocalTime,
        view: View,
        params: &Params,
        clock: &VirtualClock,
    ) -> Start {
        let growth_ppb = clock.rates(now).follower_growth();
        let aged = self.replies.iter().filter_map(|(id, one)| {
            let at = (*one)?.aged(now, growth_ppb);
            Some((*id, Interval::around(at.ns, at.error_ns)))
        });
        let intervals: Vec<_> = aged.collect();
        let is_complete = self.is_complete(view);
        let liars = liars(view);
        let is_credible = is_complete || intervals.len() > liars;
        let enough = intervals.len().saturating_sub(liars).max(1);
        let found = (1..=enough).rev().find_map(|count| covered(&intervals, count));
        let is_good = |one: &Interval| one.half_width() <= as_nanos(params.precision);
        match found {
            Some(_) if !is_credible => Start::Unclear,
            Some(found) if self.rounds >= ROUNDS || (is_complete && is_good(&found)) => {
                let (ns, error_ns) = (found.middle(), found.half_width());
                Start::Known(Estimate { raw: now, ns, error_ns })
            }
            None if is_complete && self.may_begin => Start::First,
            Some(_) | None => Start::Unclear,
        }
    }
}

/// So often it asks for a better time than it was given.
const ROUNDS: u32 = 8;
