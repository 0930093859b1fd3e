//! Random faults, then fair weather: many seeds, in groups of several sizes and with several waits.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::policy::{ElectionAlgorithm, Timing};

use crate::storm::{Fault, Storm};

/// Waits so short that an outage of the register longer than `apiOutage` fits into a storm.
pub(crate) const BRIEF: Timing = Timing {
    leader_lease: Duration::from_millis(600),
    heartbeat: Duration::from_millis(120),
    member_lease: Duration::from_secs(3),
    api_outage: Duration::from_secs(5),
};

/// How many seeds; more when asked for.
#[expect(clippy::disallowed_methods, reason = "a test may be told how long to search")]
pub(crate) fn seeds(usual: u64) -> u64 {
    std::env::var("CONCLAVE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(usual)
}

/// The first seed.
#[expect(clippy::disallowed_methods, reason = "a test may be told where to search")]
pub(crate) fn first() -> u64 {
    std::env::var("CONCLAVE_FROM").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
}

/// For how long to search instead, in seconds of the wall clock.
#[expect(clippy::disallowed_methods, reason = "a test may be told how long to search")]
pub(crate) fn seconds() -> Option<Duration> {
    let seconds = std::env::var("CONCLAVE_SECONDS").ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

/// One seed that somebody wants to see, with all that is reported.
#[expect(clippy::disallowed_methods, reason = "a test may be told what to show")]
pub(crate) fn wanted() -> Option<u64> {
    std::env::var("CONCLAVE_SEED").ok().and_then(|seed| seed.parse().ok())
}

/// Whether the rules that traces are held against are all that is to find something.
#[expect(clippy::disallowed_methods, reason = "a test may be told what to look at")]
pub(crate) fn by_traces_alone() -> bool {
    std::env::var("CONCLAVE_LAWS").is_ok_and(|laws| laws == "traces")
}

/// Runs the seeds, and sees to it that something happened in them.
pub(crate) fn blow(storm: &Storm, usual: u64) {
    if let Some(seed) = wanted() {
        storm.run(seed, true);
        return;
    }
    let seeds = seeds(usual);
    let mut faults: BTreeMap<Fault, u64> = BTreeMap::new();
    let (mut grants, mut views, mut losses, mut elections, mut checked) = (0, 0, 0, 0, 0);
    for seed in 0..seeds {
        let world = storm.run(seed, false);
        checked += world.history.len();
        let seen = world.seen;
        seen.faults.iter().for_each(|(fault, count)| *faults.entry(*fault).or_default() += count);
        grants += seen.grants;
        views += seen.views;
        losses += seen.losses;
        elections += seen.elections;
    }
    println!("{seeds} seeds: {grants} grants, {losses} lost, {views} views, {elections} elections");
    println!("{checked} operations checked; {faults:?}");
    assert!(grants > 10 * seeds && losses > seeds && views > 10 * seeds, "too little happened");
    assert!(faults.values().all(|count| *count > seeds / 2), "not every fault: {faults:?}");
}

#[test]
fn five_members_with_the_usual_waits() {
    blow(&Storm::of(5, Timing::default()), 100);
}

#[test]
fn five_members_with_brief_waits_and_outages_longer_than_they_bear() {
    blow(&Storm::of(5, BRIEF), 100);
}

#[test]
fn three_members_whose_policy_is_edited_and_whose_record_is_lost() {
    blow(&Storm { edits: true, losses: true, ..Storm::of(3, BRIEF) }, 100);
}

#[test]
fn five_members_with_fast_waits_that_elect_on_a_ring() {
    let mut storm = Storm::of(5, Timing::FAST);
    storm.policy.election = ElectionAlgorithm::Ring;
    blow(&storm, 100);
}

#[test]
fn two_members() {
    blow(&Storm::of(2, BRIEF), 100);
}

#[test]
fn one_member() {
    blow(&Storm::of(1, BRIEF), 100);
}
