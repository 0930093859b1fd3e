//! Searches with locks whose state sits in the members that find nothing bad.

use super::check::{holds, holds_without};
use super::peers::Way;
use super::properties as p;
use super::scope::Scope;
use super::state::Members;

const BOTH: Members = Members::of(&[0, 1]);
const FIRST: Members = Members::of(&[0]);
const SECOND: Members = Members::of(&[1]);
const THIRD: Members = Members::of(&[2]);
const FOLLOWERS: Members = Members::of(&[1, 2]);

/// Two members that permit each other to enter.
const PERMISSION: Scope = Scope {
    way: Way::Permission,
    candidates: SECOND,
    askers: BOTH,
    lease: 2,
    grants: 2,
    ..Scope::TWO
};

/// Two members with a token.
const TOKEN: Scope = Scope { way: Way::Token, ..PERMISSION };

/// Whatever ends a view and a hold.
const fn busy(scope: Scope) -> Scope {
    Scope { successors: SECOND, steps_down: true, releases: true, drops: true, ..scope }
}

/// The same with both members as candidates and successors, and a crash.
const fn busier(scope: Scope) -> Scope {
    let scope = Scope { candidates: BOTH, successors: BOTH, mortal: BOTH, crashes: 1, ..scope };
    busy(Scope { successors: BOTH, ..scope })
}

/// Three members.
const fn three(scope: Scope) -> Scope {
    Scope { founders: Members::of(&[0, 1, 2]), askers: FOLLOWERS, ..scope }
}

/// The leader lost its leader lease and begins the next view; of the other member nobody hears, until it
/// is taken in again.
const fn unheard(scope: Scope) -> Scope {
    Scope { candidates: FIRST, steps_down: true, admitted: SECOND, views: 3, ..scope }
}

/// The leader lets a member go that may hold something, and takes in another.
const fn outsider(scope: Scope) -> Scope {
    Scope {
        candidates: Members::NONE,
        successors: FIRST,
        expelled: SECOND,
        joiners: THIRD,
        admitted: THIRD,
        askers: FOLLOWERS,
        ..scope
    }
}

/// They use up the fencing tokens of an epoch, and the leader raises the ceiling.
const fn used_up(scope: Scope) -> Scope {
    Scope { raises: 1, grants: 4, lease: 1, releases: true, unknown: true, ..scope }
}

/// Heartbeats, acknowledgements and promises are each on their way.
const fn travelling(scope: Scope) -> Scope {
    Scope { admissions_travel: true, successors: SECOND, lease: 1, ..scope }
}

const BUSY: &[&str] = &[
    p::ENTERED_LATER,
    p::ENTERED_AFTER_ANOTHER,
    p::LEFT_BY_ITSELF,
    p::FROZEN,
    p::IN_HASTE,
    p::SILENT_COUNTED,
    p::REOPENED,
];

#[test]
fn two_members_permit_each_other_in_two_views() {
    holds(busy(PERMISSION), BUSY);
}

#[test]
fn two_members_pass_a_token_in_two_views() {
    holds(busy(TOKEN), BUSY);
}

const RAISED: &[&str] = &[p::CEILING_RAISED, p::ENTERED_ABOVE_EPOCH, p::ENTERED_LATER];

#[test]
fn members_that_permit_each_other_use_up_an_epoch_of_tokens() {
    holds(used_up(PERMISSION), RAISED);
}

#[test]
fn members_that_pass_a_token_use_up_an_epoch_of_fencing_tokens() {
    holds(used_up(TOKEN), RAISED);
}

#[test]
fn three_members_permit_each_other_and_all_seal() {
    let scope = Scope { releases: true, ..three(PERMISSION) };
    holds(scope, &[p::ENTERED_LATER, p::ENTERED_AFTER_ANOTHER, p::GRACE_SKIPPED]);
}

#[test]
fn three_members_pass_a_token_and_all_seal() {
    let scope = Scope { releases: true, ..three(TOKEN) };
    holds(scope, &[p::ENTERED_LATER, p::ENTERED_AFTER_ANOTHER, p::GRACE_SKIPPED]);
}

#[test]
fn somebody_unheard_enters_by_permission_on_an_old_lease() {
    holds(unheard(PERMISSION), &[p::ENTERED_ON_OLD_LEASE, p::ENTERED_LATER]);
}

#[test]
fn somebody_unheard_enters_by_token_on_an_old_lease() {
    holds(unheard(TOKEN), &[p::ENTERED_ON_OLD_LEASE, p::ENTERED_LATER]);
}

#[test]
fn old_leases_run_out_while_acknowledgements_travel() {
    let scope = Scope { admissions_travel: true, views: 2, ..unheard(TOKEN) };
    holds(scope, &[p::ENTERED_ON_OLD_LEASE, p::ENTERED_LATER]);
}

#[test]
fn an_outsiders_hold_keeps_permitted_members_out() {
    holds(outsider(PERMISSION), &[p::OUTSIDER_KEPT_OUT, p::FROZEN, p::ENTERED_LATER]);
}

#[test]
fn an_outsiders_hold_keeps_the_token_out() {
    let scope = Scope { views: 3, ..outsider(TOKEN) };
    holds(scope, &[p::OUTSIDER_KEPT_OUT, p::FROZEN, p::ENTERED_LATER]);
}

#[test]
fn a_member_that_died_is_waited_for_before_a_hand_over() {
    let scope =
        Scope { candidates: Members::NONE, successors: FIRST, mortal: SECOND, crashes: 1, ..TOKEN };
    holds(scope, &[p::SILENT_COUNTED, p::IN_HASTE, p::ENTERED_LATER]);
}

#[test]
fn two_of_three_members_with_a_token_die_with_evidence() {
    let scope = Scope {
        candidates: FOLLOWERS,
        mortal: Members::of(&[0, 1, 2]),
        crashes: 2,
        evidence: true,
        ..three(TOKEN)
    };
    holds(scope, &[p::EVIDENCE, p::GRACE_SKIPPED, p::ENTERED_LATER]);
}

#[test]
fn a_record_that_is_closed_is_waited_out_by_a_joiner() {
    let scope = Scope {
        joiners: THIRD,
        candidates: THIRD,
        askers: FOLLOWERS,
        confirmation: 1,
        ..PERMISSION
    };
    holds(scope, &[p::CLOSED, p::ENTERED_LATER]);
}

#[test]
fn a_freeze_holds_while_heartbeats_travel_to_permitted_members() {
    holds(travelling(PERMISSION), &[p::FROZEN, p::ENTERED_LATER]);
}

#[test]
fn a_freeze_holds_while_heartbeats_travel_to_members_with_a_token() {
    holds(travelling(TOKEN), &[p::FROZEN, p::ENTERED_LATER]);
}

#[test]
fn the_last_leaver_freezes_its_view() {
    let scope = Scope { leaves: true, releases: true, ..TOKEN };
    holds(scope, &[p::ENTERED_LATER, p::LEFT, p::GRACE_SKIPPED]);
}

#[test]
fn nothing_is_found_when_permissions_are_heard_while_admission_is_closed() {
    let scope = Scope { successors: SECOND, lease: 1, ..three(PERMISSION) };
    holds_without(scope, LARGE, |rules| rules.peers.hears_before_admission = false);
}

#[test]
fn nothing_is_found_when_a_token_is_heard_of_while_admission_is_closed() {
    let scope = Scope { successors: SECOND, lease: 1, ..three(TOKEN) };
    holds_without(scope, LARGE, |rules| rules.peers.hears_before_admission = false);
}

#[test]
fn nothing_is_found_when_a_lease_outlasts_its_view() {
    holds_without(busy(TOKEN), BUSY, |rules| rules.peers.lease_is_of_its_view = false);
}

const LARGE: &[&str] = &[p::ENTERED_LATER, p::FROZEN, p::IN_HASTE];

#[test]
#[ignore = "campaign: 580,000 states, 21 s on two busy cores"]
fn two_members_permit_each_other_with_every_fault() {
    holds(busier(PERMISSION), BUSY);
}

#[test]
#[ignore = "campaign: 500,000 states, 8 s on two busy cores"]
fn two_members_pass_a_token_with_every_fault() {
    holds(busier(TOKEN), BUSY);
}

#[test]
#[ignore = "campaign: 2 million states, 31 s on two busy cores"]
fn three_members_permit_each_other_and_hand_over() {
    holds(Scope { successors: SECOND, ..three(PERMISSION) }, LARGE);
}

#[test]
#[ignore = "campaign: 1 million states, 47 s on two busy cores"]
fn three_members_pass_a_token_and_hand_over() {
    holds(Scope { successors: SECOND, ..three(TOKEN) }, LARGE);
}

#[test]
fn two_members_pass_a_token_with_leases_of_three_ticks() {
    holds(Scope { promise: 2, lease: 3, ..busy(TOKEN) }, LARGE);
}

#[test]
#[ignore = "campaign: 1 million states, 16 s on two busy cores"]
fn two_members_pass_a_token_through_three_views() {
    holds(Scope { views: 3, grants: 3, ..busy(TOKEN) }, LARGE);
}

#[test]
#[ignore = "campaign: 850,000 states, 41 s on two busy cores"]
fn heartbeats_travel_with_leases_of_two_ticks() {
    holds(Scope { lease: 2, ..travelling(TOKEN) }, &[p::FROZEN, p::ENTERED_LATER]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn three_members_permit_each_other_with_every_fault() {
    holds(three(busier(PERMISSION)), LARGE);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn three_members_pass_a_token_with_every_fault() {
    holds(three(busier(TOKEN)), LARGE);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn three_members_pass_a_token_through_three_views() {
    let scope = Scope { views: 3, grants: 3, successors: BOTH, ..three(TOKEN) };
    holds(scope, LARGE);
}

#[test]
#[ignore = "campaign: 930,000 states, 78 s on two busy cores"]
fn an_outsiders_hold_keeps_permitted_members_out_through_three_views() {
    let scope = Scope { views: 3, candidates: FIRST, steps_down: true, ..outsider(PERMISSION) };
    holds(scope, &[p::OUTSIDER_KEPT_OUT, p::FROZEN, p::ENTERED_LATER]);
}

#[test]
#[ignore = "campaign: too long for every run; `cargo xtask check` runs it"]
fn heartbeats_travel_between_three_members() {
    holds(three(travelling(TOKEN)), &[p::FROZEN, p::ENTERED_LATER]);
}
