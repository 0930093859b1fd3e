//! What a group goes through in its life: everybody is replaced, everybody dies, waits change, the
//! record is marked or lost, messages overtake each other.

use super::check::holds;
use super::properties as p;
use super::scope::Scope;
use super::state::{Members, Timing};

const BOTH: Members = Members::of(&[0, 1]);
const FOLLOWERS: Members = Members::of(&[1, 2]);
const ALL_THREE: Members = Members::of(&[0, 1, 2]);
const FIRST: Members = Members::of(&[0]);
const SECOND: Members = Members::of(&[1]);
const THIRD: Members = Members::of(&[2]);
const FOURTH: Members = Members::of(&[3]);
const NEWCOMERS: Members = Members::of(&[2, 3]);

/// Nodes 0 and 1 are replaced by 2 and 3, one in each view.
pub(super) const REPLACED: Scope = Scope {
    founders: BOTH,
    joiners: NEWCOMERS,
    succession: &[(THIRD, FIRST), (FOURTH, SECOND)],
    candidates: Members::NONE,
    successors: Members::of(&[1, 2]),
    askers: Members::of(&[1, 3]),
    lease: 2,
    grants: 2,
    views: 3,
    ..Scope::THREE
};

#[test]
fn every_member_is_replaced_one_view_at_a_time() {
    let scope = Scope { lease: 1, ..REPLACED };
    holds(scope, &[p::REPLACED, p::HANDED_OVER, p::GRANTED_AFTER_OUTSIDER]);
}

#[test]
#[ignore = "campaign: 4 million states, 43 s on two busy cores; `cargo xtask check` runs it"]
fn every_member_is_replaced_one_view_at_a_time_with_longer_leases() {
    holds(REPLACED, &[p::REPLACED, p::HANDED_OVER, p::GRANTED_AFTER_OUTSIDER]);
}

/// Node 0 is replaced by 1, and that by 2.
pub(super) const RELAYED: Scope = Scope {
    founders: FIRST,
    joiners: FOLLOWERS,
    succession: &[(SECOND, FIRST), (THIRD, SECOND)],
    candidates: Members::NONE,
    successors: FOLLOWERS,
    askers: Members::of(&[0, 2]),
    lease: 2,
    grants: 2,
    views: 3,
    ..Scope::THREE
};

#[test]
fn a_lone_member_is_replaced_twice() {
    holds(RELAYED, &[p::REPLACED, p::HANDED_OVER, p::GRANTED_AFTER_OUTSIDER]);
}

/// Everybody dies, and new processes find a record that nobody of lives.
pub(super) const RESTARTED: Scope = Scope {
    founders: BOTH,
    joiners: THIRD,
    candidates: THIRD,
    askers: FOLLOWERS,
    mortal: BOTH,
    crashes: 2,
    confirmation: 1,
    lease: 2,
    grants: 2,
    ..Scope::THREE
};

#[test]
fn a_group_that_died_as_a_whole_is_waited_out() {
    holds(RESTARTED, &[p::DEAD_SUCCEEDED, p::CLOSED, p::GRANTED_AFTER_GRACE]);
}

/// A joiner marks the record of a leader that lives.
pub(super) const MARKED: Scope = Scope {
    founders: BOTH,
    joiners: FOURTH,
    candidates: FOURTH,
    successors: FIRST,
    askers: Members::NONE,
    confirmation: 1,
    grants: 0,
    views: 3,
    ..Scope::THREE
};

#[test]
fn a_leader_that_lives_clears_the_closing_mark() {
    holds(MARKED, &[p::MARK_CLEARED, p::HANDED_OVER, p::CLOSED, p::READ_BACK_REFUSED]);
}

/// The record is lost, and lost again, while its leader lease lives.
pub(super) const LOST: Scope = Scope {
    candidates: SECOND,
    askers: SECOND,
    confirmation: 1,
    losses: 2,
    lease: 2,
    grants: 1,
    views: 3,
    ..Scope::TWO
};

#[test]
fn a_record_is_lost_twice_while_its_leader_lease_lives() {
    let reaches =
        &[p::CLOSED, p::GRANTED_AFTER_GRACE, p::READ_BACK_REFUSED, p::LOSS_REPLACED, p::FIRST_READ];
    holds(LOST, reaches);
}

/// Nodes whose configuration has shorter waits than the view in force.
pub(super) const SHORTER: Scope = Scope {
    joiners: FOURTH,
    candidates: FOURTH,
    differ: Members::of(&[1, 3]),
    policy: Timing::new(1, 1, 1),
    askers: Members::of(&[1, 3]),
    promise: 2,
    lease: 3,
    confirmation: 2,
    grants: 2,
    ..Scope::TWO
};

#[test]
fn a_member_that_has_shorter_waits_waits_as_the_record_says() {
    holds(SHORTER, &[p::CLOSED, p::GRANTED_AFTER_GRACE]);
}

/// A policy with a shorter L comes into force by degrees.
pub(super) const SHORTENED: Scope = Scope {
    differ: ALL_THREE,
    policy: Timing::new(1, 1, 0),
    candidates: SECOND,
    successors: BOTH,
    lease: 2,
    grants: 2,
    views: 4,
    ..Scope::TWO
};

#[test]
fn a_shorter_member_lease_comes_when_the_longer_leases_have_run_out() {
    let scope = Scope { successors: FIRST, views: 3, ..SHORTENED };
    holds(scope, &[p::SHORTENED, p::HANDED_OVER, p::CARRIED_RENEWED]);
}

/// A policy with longer waits comes into force with the next view.
pub(super) const LENGTHENED: Scope = Scope {
    policy: Timing::new(2, 3, 2),
    confirmation: 1,
    successors: FIRST,
    askers: Members::NONE,
    grants: 0,
    views: 3,
    ..SHORTENED
};

#[test]
fn longer_waits_come_with_the_next_view() {
    holds(LENGTHENED, &[p::CLOSED, p::HANDED_OVER]);
}

/// Messages that overtake each other and arrive twice.
pub(super) const OVERTAKEN: Scope = Scope {
    askers: FOLLOWERS,
    overtakes: true,
    duplicates: true,
    drops: true,
    releases: true,
    lease: 2,
    grants: 2,
    ..Scope::THREE
};

/// The same for heartbeats and promises alone.
pub(super) const OVERTAKEN_BEATS: Scope = Scope {
    candidates: FOLLOWERS,
    askers: Members::NONE,
    grants: 0,
    promise: 2,
    beats_travel: true,
    drops: false,
    ..OVERTAKEN
};

#[test]
fn heartbeats_and_promises_overtake_each_other() {
    holds(OVERTAKEN_BEATS, &[p::OVERTAKEN, p::LEADER_IN_A_LATER_VIEW]);
}

#[test]
fn grants_and_releases_overtake_each_other() {
    holds(OVERTAKEN, &[p::LATE_GRANT, p::GRANTED_LATER, p::CARRIED_RENEWED]);
}

#[test]
fn a_lapsed_leader_gives_up_and_seals() {
    let scope = Scope { steps_down: true, successors: SECOND, lease: 2, grants: 2, ..Scope::THREE };
    holds(scope, &[p::STEPPED_DOWN, p::HANDED_OVER, p::GRANTED_LATER]);
}

#[test]
fn two_candidates_with_leases_of_three_ticks_and_a_crash() {
    let scope = Scope {
        candidates: FOLLOWERS,
        mortal: ALL_THREE,
        crashes: 1,
        lease: 3,
        grants: 2,
        ..Scope::THREE
    };
    holds(scope, &[p::CARRIED_RENEWED, p::GRACE_SKIPPED, p::GRANTED_LATER]);
}
