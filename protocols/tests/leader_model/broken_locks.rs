//! What gives two holders of one lock when it is left out.

use super::check::breaks;
use super::properties::ONE_HOLDER;
use super::rules::{OlderLeases, OwnHolds, Rules};
use super::scope::Scope;
use super::state::{Members, Timing};

const FOLLOWERS: Members = Members::of(&[1, 2]);
const SECOND: Members = Members::of(&[1]);
const THIRD: Members = Members::of(&[2]);
const FOURTH: Members = Members::of(&[3]);

/// Leases of two ticks, which outlive the promises of one tick.
const LONGER: Scope = Scope { lease: 2, ..Scope::THREE };

/// Two of four seal; the others may hold something.
const UNHEARD: Scope = Scope { lease: 2, ..Scope::FOUR };

/// A leader is deposed that a member has not forgotten, whose lease is the longest.
const DEPOSED: Scope = Scope { askers: Members::of(&[2, 3]), lease: 3, grants: 2, ..Scope::FOUR };

/// A leader resigns in favour of node 1; nodes 0 and 2 ask for the lock.
const RESIGNING: Scope =
    Scope { askers: Members::of(&[0, 2]), candidates: THIRD, successors: SECOND, ..LONGER };

#[test]
fn no_grace_period_gives_two_holders() {
    breaks(ONE_HOLDER, UNHEARD, |rules| rules.grace_period = false);
}

#[test]
fn a_hand_over_without_the_table_gives_two_holders() {
    let scope = Scope { successors: SECOND, ..Scope::THREE };
    breaks(ONE_HOLDER, scope, |rules| rules.table_comes_with_the_seal = false);
}

#[test]
fn a_grant_without_a_look_at_the_leader_lease_gives_two_holders() {
    breaks(ONE_HOLDER, DEPOSED, |rules| rules.grant_checks_leader_lease = false);
}

#[test]
fn a_renewal_without_a_look_at_the_leader_lease_gives_two_holders() {
    breaks(ONE_HOLDER, UNHEARD, |rules| rules.renewal_checks_leader_lease = false);
}

#[test]
fn a_lock_counted_from_the_reply_gives_two_holders() {
    let scope = Scope { admissions_travel: true, ..LONGER };
    breaks(ONE_HOLDER, scope, |rules| rules.lock_counts_from_send = false);
}

#[test]
fn reports_that_are_ignored_give_two_holders() {
    breaks(ONE_HOLDER, LONGER, |rules| rules.reports_count = false);
}

#[test]
fn a_grant_taken_after_the_seal_gives_two_holders() {
    breaks(ONE_HOLDER, LONGER, |rules| rules.seal_ends_grants = false);
}

#[test]
fn a_grace_period_cut_short_by_the_next_view_gives_two_holders() {
    let scope = Scope {
        candidates: FOLLOWERS,
        askers: Members::of(&[1, 3]),
        grants: 2,
        views: 3,
        renewals: false,
        ..UNHEARD
    };
    breaks(ONE_HOLDER, scope, |rules| rules.unsettled_base_waits = false);
}

#[test]
fn a_view_settled_while_an_outsider_holds_gives_two_holders() {
    let scope = Scope {
        joiners: FOURTH,
        admitted: FOURTH,
        expelled: THIRD,
        candidates: Members::of(&[1, 3]),
        askers: Members::of(&[2, 3]),
        grants: 2,
        views: 3,
        ..LONGER
    };
    breaks(ONE_HOLDER, scope, |rules| rules.outsider_unsettles = false);
}

#[test]
fn a_view_settled_while_its_leader_holds_from_before_gives_two_holders() {
    let scope = Scope { candidates: FOLLOWERS, grants: 2, views: 3, ..LONGER };
    breaks(ONE_HOLDER, scope, |rules| rules.leaders_older_leases = OlderLeases::Ignored);
}

#[test]
fn older_leases_of_the_leader_cut_down_to_its_leader_lease_give_two_holders() {
    let scope = Scope { candidates: FOLLOWERS, grants: 2, views: 3, lease: 3, ..LONGER };
    let only = |rules: &mut Rules| {
        rules.leaders_older_leases = OlderLeases::UnsettleUntilTheLeaderLease;
    };
    breaks(ONE_HOLDER, scope, only);
}

#[test]
fn a_leaders_own_lease_that_outlives_its_leader_lease_gives_two_holders() {
    let scope = Scope { askers: Members::of(&[0, 1]), ..LONGER };
    breaks(ONE_HOLDER, scope, |rules| rules.own_holds = OwnHolds::LikeAnybodys);
}

#[test]
fn a_full_lease_for_the_leader_that_resigns_gives_two_holders() {
    let scope = Scope { mortal: SECOND, crashes: 1, ..RESIGNING };
    breaks(ONE_HOLDER, scope, |rules| rules.own_holds = OwnHolds::FullLeaseAfterResigning);
}

#[test]
fn sealing_early_on_hearsay_of_a_resignation_gives_two_holders() {
    breaks(ONE_HOLDER, RESIGNING, |rules| rules.hearsay_does_not_seal = false);
}

#[test]
fn a_last_leaver_that_calls_its_view_settled_gives_two_holders() {
    let scope = Scope { leaves: true, views: 3, ..LONGER };
    breaks(ONE_HOLDER, scope, |rules| rules.leaver_reports_if_locks_are_held = false);
}

#[test]
fn a_closed_view_taken_for_a_settled_one_gives_two_holders() {
    let scope = Scope { leaves: true, ..LONGER };
    breaks(ONE_HOLDER, scope, |rules| rules.leavers_message_counts = false);
}

#[test]
fn a_renewal_of_a_hold_that_nobody_reported_gives_two_holders() {
    let scope = Scope { admitted: FOURTH, askers: Members::of(&[2, 3]), ..UNHEARD };
    breaks(ONE_HOLDER, scope, |rules| rules.renewal_needs_an_entry = false);
}

#[test]
fn a_reported_lock_exempt_from_the_grace_period_gives_two_holders() {
    let scope = Scope { askers: Members::of(&[1, 3]), ..UNHEARD };
    breaks(ONE_HOLDER, scope, |rules| rules.reported_locks_wait_too = false);
}

#[test]
fn a_release_without_its_token_gives_two_holders() {
    let scope = Scope { releases: true, ..Scope::THREE };
    breaks(ONE_HOLDER, scope, |rules| rules.release_names_token = false);
}

#[test]
fn an_acknowledgement_for_more_than_was_listed_gives_two_holders() {
    let scope = Scope { locks: 2, ..LONGER };
    breaks(ONE_HOLDER, scope, |rules| rules.acknowledges_what_was_listed = false);
}

#[test]
fn a_grant_of_an_earlier_lease_gives_two_holders() {
    breaks(ONE_HOLDER, LONGER, |rules| rules.asks_anew = false);
}

#[test]
fn an_entry_that_no_promise_extends_while_its_grant_is_under_way_gives_two_holders() {
    breaks(ONE_HOLDER, LONGER, |rules| rules.under_way_is_extended = false);
}

#[test]
#[ignore = "campaign: 19 s of two cores for itself; `cargo xtask check` runs it"]
fn a_second_reading_of_the_clock_gives_two_holders() {
    breaks(ONE_HOLDER, DEPOSED, |rules| rules.one_reading = false);
}

#[test]
fn a_request_merged_with_the_old_grant_gives_two_holders() {
    let scope = Scope { releases: true, ..LONGER };
    breaks(ONE_HOLDER, scope, |rules| rules.new_request_gets_new_token = false);
}

#[test]
fn a_grant_that_does_not_name_its_request_gives_two_holders() {
    let scope = Scope { overtakes: true, drops: true, lease: 2, grants: 2, ..Scope::THREE };
    breaks(ONE_HOLDER, scope, |rules| rules.grant_names_request = false);
}

#[test]
fn a_member_lease_of_ones_own_configuration_gives_two_holders() {
    let scope = Scope { differ: SECOND, policy: Timing::new(1, 1, 0), grants: 2, ..UNHEARD };
    breaks(ONE_HOLDER, scope, |rules| rules.waits_of_the_record = false);
}

#[test]
fn a_shorter_member_lease_at_once_gives_two_holders() {
    let everybody = Members::of(&[0, 1, 2]);
    let scope = Scope {
        differ: everybody,
        policy: Timing::new(1, 1, 0),
        candidates: Members::of(&[0]),
        successors: SECOND,
        askers: Members::of(&[0, 2]),
        lease: 2,
        grants: 2,
        views: 3,
        ..Scope::THREE
    };
    breaks(ONE_HOLDER, scope, |rules| rules.longer_member_lease_stays = false);
}

#[test]
fn no_member_lease_after_a_lost_record_gives_two_holders() {
    let scope = Scope {
        joiners: FOURTH,
        candidates: FOURTH,
        askers: Members::of(&[1, 3]),
        confirmation: 1,
        losses: 1,
        lease: 2,
        grants: 2,
        ..Scope::TWO
    };
    breaks(ONE_HOLDER, scope, |rules| rules.lost_record_begins_a_grace_period = false);
}
