//! Larger searches. Those that are ignored are for a machine with time and memory to spare.

use super::check::holds;
use super::properties as p;
use super::scope::Scope;
use super::state::{Members, Timing};
use super::{journeys, live};

const FIRST: Members = Members::of(&[0]);
const SECOND: Members = Members::of(&[1]);
const THIRD: Members = Members::of(&[2]);
const FOURTH: Members = Members::of(&[3]);
const FOLLOWERS: Members = Members::of(&[1, 2]);
const ALL_THREE: Members = Members::of(&[0, 1, 2]);

/// Three views of three members, two candidates, leases of two ticks.
const RIVALS: Scope =
    Scope { candidates: FOLLOWERS, lease: 2, grants: 2, views: 3, ..Scope::THREE };

#[test]
fn two_candidates_a_hand_over_and_a_crash() {
    let scope = Scope {
        successors: SECOND,
        mortal: Members::of(&[0, 1]),
        crashes: 1,
        renewals: false,
        ..RIVALS
    };
    holds(scope, &[p::HANDED_OVER, p::GRANTED_LATER, p::GRANTED_AFTER_GRACE]);
}

#[test]
#[ignore = "campaign: 15 s of two cores for itself; `cargo xtask check` runs it"]
fn two_candidates_with_older_writes_and_long_leases() {
    let scope = Scope { unknown: true, restarts_candidacy: true, ..RIVALS };
    holds(scope, &[p::OLDER_WRITE, p::SEALED_REFUSED, p::GRANTED_AFTER_GRACE]);
}

#[test]
#[ignore = "campaign: 21 s of two cores for itself; `cargo xtask check` runs it"]
fn promises_of_two_ticks_and_leases_of_three() {
    let scope = Scope { promise: 2, lease: 3, ..RIVALS };
    holds(scope, &[p::CARRIED_RENEWED, p::GRACE_SKIPPED, p::GRANTED_LATER]);
}

#[test]
#[ignore = "campaign: 31 s of two cores for itself; `cargo xtask check` runs it"]
fn the_leader_itself_shrinks_a_view_of_four() {
    let scope = Scope {
        founders: Members::of(&[0, 1, 2, 3]),
        candidates: Members::of(&[2]),
        successors: FIRST,
        expelled: SECOND,
        askers: Members::of(&[0, 2]),
        ..RIVALS
    };
    holds(scope, &[p::HANDED_OVER, p::GRANTED_LATER, p::GRANTED_AFTER_GRACE]);
}

#[test]
fn locks_hand_over_and_a_register_that_must_confirm() {
    let scope = Scope {
        confirmation: 1,
        candidates: Members::of(&[2]),
        successors: SECOND,
        askers: FOLLOWERS,
        renewals: false,
        views: 2,
        ..RIVALS
    };
    holds(scope, &[p::HANDED_OVER, p::CLOSED, p::GRANTED_AFTER_GRACE]);
}

#[test]
fn two_locks_of_two_members_on_one_lease_each() {
    let scope = Scope { locks: 2, views: 2, ..RIVALS };
    holds(scope, &[p::CARRIED_RENEWED, p::UNDER_WAY_EXTENDED]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn two_candidates_leases_of_three_ticks_a_crash_and_three_views() {
    let scope = Scope {
        mortal: ALL_THREE,
        steps_down: true,
        successors: SECOND,
        lease: 3,
        crashes: 1,
        ..RIVALS
    };
    holds(scope, &[p::CARRIED_RENEWED, p::HANDED_OVER, p::STEPPED_DOWN]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn three_locks_on_one_lease_for_each_member() {
    let scope = Scope { locks: 3, grants: 3, askers: FOLLOWERS, views: 2, ..RIVALS };
    holds(scope, &[p::CARRIED_RENEWED, p::GRANTED_LATER]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn every_member_is_replaced_with_every_fault() {
    let scope = Scope {
        candidates: Members::of(&[1, 2, 3]),
        mortal: ALL_THREE,
        crashes: 1,
        unknown: true,
        ..journeys::REPLACED
    };
    holds(scope, &[p::REPLACED, p::HANDED_OVER, p::GRANTED_AFTER_OUTSIDER]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn a_lone_member_is_replaced_three_times_with_every_fault() {
    let scope = Scope {
        joiners: Members::of(&[1, 2, 3]),
        succession: &[(SECOND, FIRST), (THIRD, SECOND), (FOURTH, THIRD)],
        successors: Members::of(&[1, 2, 3]),
        askers: Members::of(&[0, 3]),
        releases: true,
        unknown: true,
        lease: 3,
        grants: 3,
        views: 4,
        ..journeys::RELAYED
    };
    holds(scope, &[p::REPLACED, p::HANDED_OVER, p::READ_BACK_APPLIED]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn a_group_that_died_as_a_whole_is_followed_by_rivals() {
    let newcomers = Members::of(&[2, 3]);
    let scope = Scope {
        joiners: newcomers,
        admitted: newcomers,
        candidates: newcomers,
        views: 3,
        ..journeys::RESTARTED
    };
    holds(scope, &[p::DEAD_SUCCEEDED, p::CLOSED, p::GRANTED_AFTER_GRACE]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn a_leader_of_three_clears_the_closing_mark() {
    let scope = Scope {
        founders: ALL_THREE,
        candidates: Members::of(&[1, 3]),
        askers: Members::of(&[1, 3]),
        grants: 2,
        ..journeys::MARKED
    };
    holds(scope, &[p::MARK_CLEARED, p::HANDED_OVER, p::CLOSED, p::READ_BACK_REFUSED]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn a_record_is_lost_twice_between_two_candidates() {
    let scope = Scope {
        founders: ALL_THREE,
        candidates: FOLLOWERS,
        mortal: FIRST,
        crashes: 1,
        grants: 2,
        unknown: true,
        ..journeys::LOST
    };
    holds(scope, &[p::CLOSED, p::GRANTED_AFTER_GRACE, p::READ_BACK_REFUSED]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn shorter_waits_of_one_member_of_three() {
    let scope = Scope {
        founders: ALL_THREE,
        candidates: Members::of(&[1, 3]),
        askers: FOLLOWERS,
        grants: 2,
        ..journeys::SHORTER
    };
    holds(scope, &[p::CLOSED, p::CARRIED_RENEWED]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn a_shorter_member_lease_comes_to_three_members() {
    let scope = Scope { founders: ALL_THREE, candidates: FOLLOWERS, ..journeys::SHORTENED };
    holds(scope, &[p::SHORTENED, p::HANDED_OVER, p::CARRIED_RENEWED]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn longer_waits_come_to_three_members() {
    let scope = Scope {
        founders: ALL_THREE,
        successors: FOLLOWERS,
        askers: SECOND,
        grants: 1,
        ..journeys::LENGTHENED
    };
    holds(scope, &[p::CLOSED, p::HANDED_OVER]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn all_messages_overtake_each_other_in_three_views() {
    let scope =
        Scope { views: 3, candidates: FOLLOWERS, successors: SECOND, ..journeys::OVERTAKEN };
    holds(scope, &[p::LATE_GRANT, p::GRANTED_LATER, p::CARRIED_RENEWED]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn heartbeats_overtake_each_other_in_three_views() {
    let scope = Scope { views: 3, confirmation: 1, unknown: true, ..journeys::OVERTAKEN_BEATS };
    holds(scope, &[p::OVERTAKEN, p::LEADER_IN_A_LATER_VIEW]);
}

/// Nearly all that the model has, with as much of it as a size states.
fn everything(crashes: u8, views: u8, grants: u8) {
    let scope = Scope {
        joiners: Members::of(&[3]),
        admitted: Members::of(&[3]),
        candidates: Members::of(&[1, 2, 3]),
        successors: Members::of(&[0, 1]),
        askers: Members::of(&[0, 1, 3]),
        mortal: ALL_THREE,
        crashes,
        locks: 2,
        promise: 2,
        lease: 3,
        confirmation: 1,
        differ: Members::of(&[3]),
        policy: Timing::new(1, 2, 2),
        views,
        grants,
        raises: 1,
        releases: true,
        drops: true,
        beats_travel: true,
        overtakes: true,
        duplicates: true,
        steps_down: true,
        unknown: true,
        restarts_candidacy: true,
        losses: 1,
        leaves: true,
        ..Scope::THREE
    };
    holds(scope, &[]);
}

#[test]
#[ignore = "campaign: does not end within the memory"]
fn everything_at_once_with_two_views() {
    everything(1, 2, 2);
}

#[test]
#[ignore = "campaign: does not end within the memory"]
fn everything_at_once_with_three_views() {
    everything(2, 3, 3);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn a_leader_comes_back_to_two_members_after_every_fault() {
    let scope = Scope {
        lease: 2,
        successors: Members::of(&[0, 1]),
        releases: true,
        drops: true,
        unknown: true,
        restarts_candidacy: true,
        ..live::TWO
    };
    holds(scope, &[p::OLDER_WRITE, p::STEPPED_DOWN, p::GRANTED_LATER]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn a_leader_comes_back_to_three_members_after_every_fault() {
    let scope =
        Scope { confirmation: 1, lease: 2, crashes: 2, unknown: true, losses: 1, ..live::THREE };
    holds(scope, &[p::STEPPED_DOWN, p::CLOSED, p::HANDED_OVER]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn a_leader_comes_back_to_four_members() {
    let scope = Scope { founders: Members::of(&[0, 1, 2, 3]), ..live::THREE };
    holds(scope, &[p::STEPPED_DOWN, p::HANDED_OVER]);
}
