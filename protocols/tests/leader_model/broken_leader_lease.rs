//! What gives two leader leases when it is left out.

use super::check::breaks;
use super::properties::ONE_LEADER;
use super::rules::{Activation, Need};
use super::scope::Scope;
use super::state::{Members, Timing};

const FOLLOWERS: Members = Members::of(&[1, 2]);
const JOINER: Members = Members::of(&[3]);

/// Two followers compete for the leader lease, and nobody asks for a lock.
const RIVALS: Scope =
    Scope { candidates: FOLLOWERS, askers: Members::NONE, grants: 0, ..Scope::THREE };

/// The waits of a configuration that differs from the record in force.
const SHORT: Timing = Timing::new(1, 1, 1);

/// One joiner, which has no promise to wait for, wants the leader lease.
const NEWCOMER: Scope = Scope { joiners: JOINER, candidates: JOINER, ..RIVALS };

#[test]
fn a_seal_counted_while_its_promise_runs_gives_two_leaders() {
    breaks(ONE_LEADER, RIVALS, |rules| rules.seal_waits_for_the_promise = false);
}

#[test]
fn one_seal_fewer_gives_two_leaders() {
    breaks(ONE_LEADER, RIVALS, |rules| rules.need = Need::OneFewer);
}

#[test]
fn seals_counted_in_the_new_membership_give_two_leaders() {
    breaks(ONE_LEADER, NEWCOMER, |rules| rules.need = Need::OfTheNewMembership);
}

#[test]
fn a_member_that_promises_after_its_seal_gives_two_leaders() {
    breaks(ONE_LEADER, RIVALS, |rules| rules.seal_ends_promises = false);
}

#[test]
fn a_leader_lease_counted_from_the_reply_gives_two_leaders() {
    let scope = Scope { beats_travel: true, ..RIVALS };
    breaks(ONE_LEADER, scope, |rules| rules.leader_lease_counts_from_send = false);
}

#[test]
fn a_write_that_does_not_compare_gives_two_leaders() {
    breaks(ONE_LEADER, RIVALS, |rules| rules.write_compares = false);
}

#[test]
fn an_unknown_outcome_taken_for_success_gives_two_leaders() {
    let scope = Scope { unknown: true, ..RIVALS };
    breaks(ONE_LEADER, scope, |rules| rules.unknown_is_read_back = false);
}

#[test]
fn a_restart_with_the_same_identity_gives_two_leaders() {
    let scope = Scope { mortal: FOLLOWERS, crashes: 1, ..RIVALS };
    breaks(ONE_LEADER, scope, |rules| rules.restart_is_a_new_member = false);
}

#[test]
fn a_leader_lease_kept_after_its_hand_over_gives_two_leaders() {
    let scope = Scope { successors: FOLLOWERS, ..RIVALS };
    breaks(ONE_LEADER, scope, |rules| rules.resigning_ends_the_leader_lease = false);
}

#[test]
fn a_death_counted_before_its_promise_ran_out_gives_two_leaders() {
    let scope = Scope { evidence: true, mortal: FOLLOWERS, crashes: 1, ..RIVALS };
    breaks(ONE_LEADER, scope, |rules| rules.evidence_waits = false);
}

#[test]
fn a_death_that_did_not_happen_gives_two_leaders() {
    let scope = Scope { evidence: true, ..RIVALS };
    breaks(ONE_LEADER, scope, |rules| rules.evidence_is_true = false);
}

#[test]
fn promises_without_the_registers_confirmation_give_two_leaders() {
    let scope = Scope { confirmation: 1, ..NEWCOMER };
    breaks(ONE_LEADER, scope, |rules| rules.promise_needs_confirmation = false);
}

#[test]
fn waiting_out_the_confirmation_without_a_closing_mark_gives_two_leaders() {
    let scope = Scope { confirmation: 1, ..NEWCOMER };
    breaks(ONE_LEADER, scope, |rules| rules.closing_is_marked = false);
}

#[test]
fn a_lost_record_taken_for_an_empty_one_gives_two_leaders() {
    let scope = Scope { confirmation: 1, losses: 1, ..NEWCOMER };
    breaks(ONE_LEADER, scope, |rules| rules.lost_record_waits = false);
}

#[test]
fn a_last_leaver_that_resigns_after_its_write_gives_two_leaders() {
    let scope = Scope { leaves: true, views: 3, ..RIVALS };
    breaks(ONE_LEADER, scope, |rules| rules.leaver_resigns_first = false);
}

#[test]
fn a_leader_lease_taken_although_its_view_was_sealed_gives_two_leaders() {
    let scope =
        Scope { candidates: FOLLOWERS, expelled: Members::of(&[1]), views: 3, ..Scope::FOUR };
    let scope = Scope { askers: Members::NONE, grants: 0, ..scope };
    breaks(ONE_LEADER, scope, |rules| rules.sealed_view_has_no_leader = false);
}

#[test]
fn a_claim_that_hides_the_view_in_force_gives_two_leaders() {
    let scope = Scope { views: 3, ..RIVALS };
    breaks(ONE_LEADER, scope, |rules| rules.activation = Activation::ClaimReplacesTheBase);
}

#[test]
fn a_leader_lease_taken_before_the_old_one_is_over_gives_two_leaders() {
    breaks(ONE_LEADER, RIVALS, |rules| rules.activation = Activation::AtOnce);
}

#[test]
fn a_closing_mark_that_is_taken_back_gives_two_leaders() {
    let scope = Scope { confirmation: 1, ..NEWCOMER };
    breaks(ONE_LEADER, scope, |rules| rules.mark_stays = false);
}

#[test]
fn waits_of_ones_own_configuration_give_two_leaders() {
    let scope = Scope { confirmation: 2, differ: JOINER, policy: SHORT, ..NEWCOMER };
    breaks(ONE_LEADER, scope, |rules| rules.waits_of_the_record = false);
}

#[test]
fn a_promise_wait_of_ones_own_configuration_gives_two_leaders() {
    let scope = Scope { promise: 2, differ: Members::of(&[1, 2]), policy: SHORT, ..RIVALS };
    breaks(ONE_LEADER, scope, |rules| rules.waits_of_the_record = false);
}

/// A record is lost while its leader lives, and nobody asks for a lock.
const LOST: Scope = Scope {
    candidates: Members::of(&[1]),
    askers: Members::NONE,
    grants: 0,
    confirmation: 1,
    losses: 1,
    views: 3,
    ..Scope::TWO
};

#[test]
fn a_lost_record_replaced_without_a_leader_lease_gives_two_leaders() {
    breaks(ONE_LEADER, LOST, |rules| rules.replaces_while_leading = false);
}

#[test]
fn a_lost_record_replaced_whatever_came_meanwhile_gives_two_leaders() {
    breaks(ONE_LEADER, LOST, |rules| rules.write_compares = false);
}

#[test]
fn a_write_that_another_mark_refused_and_is_made_anew_gives_two_leaders() {
    let scope = Scope { losses: 2, views: 4, ..LOST };
    breaks(ONE_LEADER, scope, |rules| rules.refused_is_forgotten = false);
}

#[test]
fn a_wait_counted_from_the_read_of_another_mark_gives_two_leaders() {
    let scope = Scope { losses: 2, views: 4, ..LOST };
    breaks(ONE_LEADER, scope, |rules| rules.first_read_names_the_mark = false);
}

#[test]
fn a_lost_record_waited_out_for_a_tick_less_gives_two_leaders() {
    breaks(ONE_LEADER, LOST, |rules| rules.waits_are_whole = false);
}
