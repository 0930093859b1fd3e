//! Searches with leaders that list what nobody else could report, which find nothing bad.

use super::check::holds;
use super::properties as p;
use super::scope::Scope;
use super::state::Members;

const BOTH: Members = Members::of(&[0, 1]);
const FOLLOWERS: Members = Members::of(&[1, 2]);
const ALL_THREE: Members = Members::of(&[0, 1, 2]);

/// Leases outlive promises, and seals report the leader's.
const LISTED: Scope = Scope { lists: true, lease: 2, grants: 2, ..Scope::THREE };

#[test]
fn a_listed_hold_of_the_leader_is_as_long_as_others() {
    let scope = Scope { askers: ALL_THREE, candidates: FOLLOWERS, ..LISTED };
    holds(scope, &[p::BEYOND_THE_LEASE, p::GRACE_SKIPPED, p::GRANTED_LATER]);
}

#[test]
fn a_listed_hold_with_leases_of_three_ticks() {
    let scope = Scope { askers: BOTH, promise: 2, lease: 3, ..LISTED };
    holds(scope, &[p::BEYOND_THE_LEASE, p::GRACE_SKIPPED, p::GRANTED_LATER]);
}

#[test]
#[ignore = "campaign: a million states, 35 s on two busy cores"]
fn two_members_that_list_with_every_fault() {
    let scope = Scope {
        lists: true,
        candidates: BOTH,
        successors: BOTH,
        mortal: BOTH,
        crashes: 1,
        releases: true,
        drops: true,
        steps_down: true,
        lease: 2,
        grants: 2,
        ..Scope::TWO
    };
    holds(scope, &[p::BEYOND_THE_LEASE, p::HANDED_OVER, p::STEPPED_DOWN, p::GRANTED_LATER]);
}

#[test]
fn the_second_leaders_older_lease_is_listed() {
    let scope = Scope { candidates: FOLLOWERS, askers: FOLLOWERS, views: 3, ..LISTED };
    holds(scope, &[p::BEYOND_THE_LEASE, p::GRACE_SKIPPED, p::GRANTED_LATER]);
}
