//! What a member knows of a server, and the mean of those that it follows.
//!
//! Source: RFC 5905, sections 11.1 and 11.2.3.

use super::super::estimate::{Estimate, Stamps};
use super::super::exchange::saturate;
use super::super::intersection::Interval;
use super::filter::{Filter, Filtered};
use super::{Reply, System, UNSYNCHRONISED};
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
        Self { filter: Filter::default(), reach: u8::MAX, latest: None, is_asked: false }
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

    /// Whether it states a time, so that what it has to say counts in selection, also while it is not known
    /// well enough to be selected.
    pub(super) fn votes(&self) -> bool {
        let states =
            |reply: Reply| reply.system.stratum < UNSYNCHRONISED && reply.error_ns.is_some();
        self.is_reachable() && self.latest.is_some_and(states)
    }

    /// The server as it is known now.
    pub(super) fn candidate(&self, now: LocalTime, growth_ppb: u64) -> Option<Candidate> {
        let system = self.latest.filter(|_| self.votes())?.system;
        let filtered = self.filter.filtered(now)?;
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

/// The mean of offsets, weighted by one over the distance.
pub(super) fn weighted_mean(offsets: impl Iterator<Item = (i64, u64)> + Clone) -> i64 {
    let Some((first, _)) = offsets.clone().next() else { return 0 };
    let weight = |distance: u64| i128::from(WEIGHT / distance.max(1)).max(1);
    let (sum, weights) = offsets.fold((0_i128, 0_i128), |(sum, weights), (offset, distance)| {
        let apart = i128::from(offset) - i128::from(first);
        (sum.saturating_add(apart.saturating_mul(weight(distance))), weights + weight(distance))
    });
    saturate(i128::from(first).saturating_add(sum.div_euclid(weights.max(1))))
}

/// So that whole numbers suffice for weights.
const WEIGHT: u64 = 1_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_half_as_far_counts_twice() {
        assert_eq!(weighted_mean([(0, 2_000), (300, 1_000)].into_iter()), 200);
        assert_eq!(weighted_mean([(7, 0)].into_iter()), 7);
        assert_eq!(weighted_mean([(i64::MIN, 1), (i64::MAX, 1)].into_iter()), -1);
    }
}
