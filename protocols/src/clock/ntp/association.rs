//! What a member knows of a server.
//!
//! Source: RFC 5905, section 11.1.

use super::super::discipline::VirtualClock;
use super::super::estimate::{Estimate, Stamps};
use super::super::intersection::Interval;
use super::super::round::{Source, Verdict};
use super::filter::{Filter, Filtered};
use super::{Reply, System, UNSYNCHRONISED};
use crate::ids::MemberId;
use crate::time::LocalTime;

/// What a member knows of a server.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Association {
    filter: Filter,
    /// A bit for each of the last eight polls: whether it was answered. All are set before the first.
    reach: u8,
    /// The server's latest reply.
    latest: Option<Reply>,
    /// Whether the poll that is going on has yet to be answered.
    is_asked: bool,
    /// Whether the latest reply and this member's bound cannot both be right.
    contradicts: bool,
}

/// A server that may be selected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) system: System,
    pub(super) filtered: Filtered,
    /// Group time now, by this server.
    pub(super) estimate: Estimate,
}

impl Default for Association {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            reach: u8::MAX,
            latest: None,
            is_asked: false,
            contradicts: false,
        }
    }
}

impl Association {
    /// It is polled. Returns the stamp of its latest reply.
    pub(super) fn ask(&mut self) -> Option<LocalTime> {
        self.reach <<= 1;
        self.is_asked = true;
        self.latest.map(|reply| reply.stamp)
    }

    /// It has replied; what comes twice is ignored.
    pub(super) fn on_reply(&mut self, reply: Reply, stamps: Stamps, estimate: Option<Estimate>) {
        if !std::mem::take(&mut self.is_asked) {
            return;
        }
        self.reach |= 1;
        self.latest = Some(reply);
        if let Some(estimate) = estimate {
            self.filter.add(stamps, estimate);
        }
    }

    /// Compares the latest reply with this member's clock. If the bounds of both cannot be right, a raw clock was
    /// stopped, and what was known of the server before says nothing any more. Returns whether that is news.
    pub(super) fn begins_to_contradict(&mut self, clock: &VirtualClock) -> bool {
        let Some(latest) = self.filter.latest().filter(|_| self.has_replied()) else {
            return false;
        };
        let contradicts = Source::of_server(clock, latest, Verdict::Vague).contradicts;
        let is_news = contradicts && !self.contradicts;
        self.contradicts = contradicts;
        if is_news {
            self.filter.forget_all_but_the_latest();
        }
        is_news
    }

    /// When the oldest of the exchanges that count began.
    pub(super) fn oldest(&self) -> Option<LocalTime> {
        self.filter.oldest()
    }

    pub(super) fn is_asked(&self) -> bool {
        self.is_asked
    }

    pub(super) fn has_replied(&self) -> bool {
        !self.is_asked
    }

    pub(super) fn is_reachable(&self) -> bool {
        self.reach != 0
    }

    /// The stratum of a member that follows it, which is of `present` until it is heard.
    pub(super) fn stratum_of_follower(&self, present: u8) -> u8 {
        match self.latest {
            None if self.is_reachable() => present,
            Some(reply) if self.votes() => reply.system.stratum.saturating_add(1),
            None | Some(_) => UNSYNCHRONISED,
        }
    }

    /// Whether it has a time, so that what it has to say counts in selection, also while it is not known
    /// well enough to be selected.
    pub(super) fn votes(&self) -> bool {
        self.is_reachable() && self.latest.is_some_and(|reply| reply.error_ns.is_some())
    }

    /// The server as it is known now, to a member that asked it.
    pub(super) fn candidate(
        &self,
        asker: MemberId,
        now: LocalTime,
        growth_ppb: u64,
    ) -> Option<Candidate> {
        let mut system = self.latest.filter(|_| self.votes())?.system;
        if system.reference == Some(asker) {
            // A loop: it has a vote, and moves nobody.
            system.stratum = UNSYNCHRONISED;
        }
        let filtered = self.filter.filtered(now, growth_ppb)?;
        let estimate = self.filter.estimate(now, growth_ppb)?;
        Some(Candidate { system, filtered, estimate })
    }
}

impl Candidate {
    /// The server's dispersion, and what this member adds.
    pub(super) fn dispersion_ns(&self) -> u64 {
        let of_server = self.system.root_dispersion_ns;
        of_server
            .saturating_add(self.filtered.dispersion_ns)
            .saturating_add(self.filtered.jitter_ns)
    }

    /// λ.
    pub(super) fn root_distance_ns(&self) -> u64 {
        let delay = self.system.root_delay_ns.saturating_add(self.filtered.delay_ns);
        (delay / 2).saturating_add(self.dispersion_ns())
    }

    pub(super) fn interval(&self) -> Interval {
        Interval::around(self.estimate.ns, self.estimate.error_ns)
    }
}
