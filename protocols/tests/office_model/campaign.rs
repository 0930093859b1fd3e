//! Larger searches, for a machine with time and memory to spare.

use super::check::holds;
use super::properties as p;
use super::scope::Scope;
use super::state::Members;

const FIRST: Members = Members::of(&[0]);
const SECOND: Members = Members::of(&[1]);
const FOLLOWERS: Members = Members::of(&[1, 2]);

/// Three views of three members, two candidates, leases of two ticks.
const RIVALS: Scope =
    Scope { candidates: FOLLOWERS, lease: 2, grants: 2, views: 3, ..Scope::THREE };

#[test]
#[ignore = "campaign: 2 million states, 9 s on two busy cores"]
fn two_candidates_a_hand_over_and_a_crash() {
    let scope = Scope {
        heirs: SECOND,
        mortal: Members::of(&[0, 1]),
        crashes: 1,
        renewals: false,
        ..RIVALS
    };
    holds(scope, &[p::HANDED_OVER, p::GRANTED_LATER, p::GRANTED_AFTER_QUIET]);
}

#[test]
#[ignore = "campaign: 2 million states, 9 s on two busy cores"]
fn two_candidates_with_older_writes_and_long_leases() {
    let scope = Scope { unknown: true, restarts_candidacy: true, ..RIVALS };
    holds(scope, &[p::OLDER_WRITE, p::SEALED_REFUSED, p::GRANTED_AFTER_QUIET]);
}

#[test]
#[ignore = "campaign: 2 million states, 11 s on two busy cores"]
fn promises_of_two_ticks_and_leases_of_three() {
    let scope = Scope { promise: 2, lease: 3, ..RIVALS };
    holds(scope, &[p::CARRIED_RENEWED, p::QUIET_SKIPPED, p::GRANTED_LATER]);
}

#[test]
#[ignore = "campaign: 4 million states, 22 s on two busy cores"]
fn the_leader_itself_shrinks_a_view_of_four() {
    let scope = Scope {
        founders: Members::of(&[0, 1, 2, 3]),
        candidates: Members::of(&[2]),
        heirs: FIRST,
        expelled: SECOND,
        askers: Members::of(&[0, 2]),
        ..RIVALS
    };
    holds(scope, &[p::HANDED_OVER, p::GRANTED_LATER, p::GRANTED_AFTER_QUIET]);
}

#[test]
#[ignore = "campaign: 4 million states, 47 s on two busy cores"]
fn locks_hand_over_and_a_register_that_must_confirm() {
    let scope = Scope {
        confirmation: 1,
        candidates: Members::of(&[2]),
        heirs: SECOND,
        askers: FOLLOWERS,
        renewals: false,
        views: 2,
        ..RIVALS
    };
    holds(scope, &[p::HANDED_OVER, p::CLOSED, p::GRANTED_AFTER_QUIET]);
}

#[test]
#[ignore = "campaign: 5 million states, 43 s on two busy cores"]
fn two_locks_of_two_members_on_one_lease_each() {
    let scope = Scope { locks: 2, queues: true, views: 2, ..RIVALS };
    holds(scope, &[p::CARRIED_RENEWED, p::QUEUED_REFRESHED]);
}
