//! What the servers that a member follows come to: the mean of their offsets, and where group time is.
//!
//! Source: RFC 5905, section 11.2.3.

use std::collections::BTreeMap;

use super::super::by_messages::ByMessages;
use super::super::discipline::VirtualClock;
use super::super::estimate::{Estimate, raw_ns};
use super::super::exchange::saturate;
use super::super::intersection::covered;
use super::System;
use super::association::Candidate;
use super::filter::PHI_PPB;
use crate::ids::MemberId;
use crate::time::LocalTime;

/// What a member adjusts to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Combination {
    /// What is known of group time.
    pub(super) known: Estimate,
    /// Where the clock is to be.
    pub(super) target_ns: i64,
    /// When the latest of the exchanges ended that the target is made of.
    pub(super) at: LocalTime,
    /// The server with the least distance of those that are followed.
    reference: MemberId,
    peer: Candidate,
}

/// Combines the survivors of the lowest stratum.
pub(super) fn combine(
    now: LocalTime,
    lowest: u8,
    candidates: &BTreeMap<MemberId, Candidate>,
    survivors: &[MemberId],
) -> Option<Combination> {
    let is_lowest = |one: &Candidate| one.system.stratum == lowest;
    let followed = candidates.iter().filter(|(id, one)| is_lowest(one) && survivors.contains(id));
    let (reference, peer) = followed.clone().min_by_key(|(_, one)| one.root_distance_ns())?;
    // Group time is the leader's clock. Of several others one may lie.
    let known = candidates.values().filter(|one| lowest > 1 || is_lowest(one));
    let known: Vec<_> = known.map(|one| ((), one.interval())).collect();
    let bounds = covered(&known, known.len().saturating_sub(1).max(1))?;
    // One that states a wide bound and a small distance must not pull the mean out of what the others leave.
    let distance = |one: &Candidate| one.root_distance_ns().max(one.estimate.error_ns);
    let at = followed.clone().map(|(_, one)| one.filtered.at).max().unwrap_or(now);
    let weighted = followed.map(|(_, one)| (one.filtered.offset_ns, distance(one)));
    let mean_ns = raw_ns(now).saturating_add(weighted_mean(weighted));
    Some(Combination {
        known: Estimate { raw: now, ns: bounds.middle(), error_ns: bounds.half_width() },
        target_ns: mean_ns.clamp(bounds.low, bounds.high.max(bounds.low)),
        at,
        reference: *reference,
        peer: *peer,
    })
}

impl Combination {
    /// Whether a clock is to be adjusted to it that was adjusted to an exchange before: to a newer one, or to the same if
    /// more is known of group time since, by another exchange.
    pub(super) fn is_due(&self, now: LocalTime, used: LocalTime, clock: &VirtualClock) -> bool {
        let knows_more =
            self.known.error_ns.saturating_add(ROUNDED_NS) < clock.map().known.bound.at(now.0);
        self.at > used || self.at == used && knows_more
    }

    /// What the servers say, to a member whose clock shows `shown_ns` and that stands so when it adjusts to them. What is
    /// known of group time grows vaguer by so many parts per billion.
    pub(super) fn by_messages(&self, shown_ns: i64, growth_ppb: u64, system: System) -> ByMessages {
        let Estimate { raw, ns, error_ns } = self.known;
        ByMessages {
            raw: raw.0,
            ns: self.target_ns,
            correction_ns: self.target_ns.saturating_sub(shown_ns),
            error_ns: error_ns.saturating_add(ns.abs_diff(self.target_ns)),
            growth_ppb,
            textbook_ns: system.root_distance_ns(),
            textbook_growth_ppb: PHI_PPB,
        }
    }

    /// How a member stands that adjusts to it. Its clock shows something else, if it can only be slewed.
    pub(super) fn system(&self, shown_ns: Option<i64>) -> System {
        let apart_ns = shown_ns.map_or(0, |shown_ns| self.target_ns.abs_diff(shown_ns));
        let (of_server, filtered) = (self.peer.system, self.peer.filtered);
        System {
            stratum: of_server.stratum.saturating_add(1),
            reference: Some(self.reference),
            root_delay_ns: of_server.root_delay_ns.saturating_add(filtered.delay_ns),
            root_dispersion_ns: self.peer.dispersion_ns().saturating_add(apart_ns),
        }
    }
}

/// The mean of offsets, weighted by one over the distance.
fn weighted_mean(offsets: impl Iterator<Item = (i64, u64)> + Clone) -> i64 {
    let Some((first, _)) = offsets.clone().next() else { return 0 };
    let weight = |distance: u64| i128::from(WEIGHT / distance.max(1)).max(1);
    let (sum, weights) = offsets.fold((0_i128, 0_i128), |(sum, weights), (offset, distance)| {
        let apart = i128::from(offset) - i128::from(first);
        (sum.saturating_add(apart.saturating_mul(weight(distance))), weights + weight(distance))
    });
    saturate(i128::from(first).saturating_add(sum.div_euclid(weights.max(1))))
}

/// By so much a bound differs at a later reading, as it is carried there.
const ROUNDED_NS: u64 = 8;
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
