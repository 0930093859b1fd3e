//! What gives two holders, or a token that goes back, where the state of a lock sits in the members.

use super::check::breaks;
use super::peers::Way;
use super::properties::{ONE_HOLDER, TOKENS_RISE};
use super::rules::{Freeze, OwnHolds};
use super::scope::Scope;
use super::state::Members;

const BOTH: Members = Members::of(&[0, 1]);
const FIRST: Members = Members::of(&[0]);
const SECOND: Members = Members::of(&[1]);
const THIRD: Members = Members::of(&[2]);

/// Two members and a token; node 1 takes the leader lease when promises have run out.
const TOKEN: Scope =
    Scope { way: Way::Token, candidates: SECOND, askers: BOTH, lease: 2, grants: 2, ..Scope::TWO };

/// The same by permission.
const PERMISSION: Scope = Scope { way: Way::Permission, ..TOKEN };

/// A leader that lost its leader lease begins a new view; nobody hears of node 1, which may hold something.
const UNHEARD: Scope = Scope { candidates: FIRST, steps_down: true, ..TOKEN };

/// The leader hands over to node 1.
const RESIGNING: Scope = Scope { candidates: Members::NONE, successors: SECOND, ..TOKEN };

/// The leader itself changes the view.
const CHANGING: Scope = Scope { candidates: Members::NONE, successors: FIRST, ..TOKEN };

#[test]
fn no_admission_gives_two_holders() {
    breaks(ONE_HOLDER, UNHEARD, |rules| rules.peers.admission = false);
}

#[test]
fn no_grace_period_gives_two_holders_of_a_token() {
    breaks(ONE_HOLDER, UNHEARD, |rules| rules.grace_period = false);
}

#[test]
fn no_grace_period_gives_two_holders_by_permission() {
    let scope = Scope { way: Way::Permission, ..UNHEARD };
    breaks(ONE_HOLDER, scope, |rules| rules.grace_period = false);
}

#[test]
fn an_entry_without_a_lease_gives_two_holders() {
    breaks(ONE_HOLDER, UNHEARD, |rules| rules.peers.entry_needs_the_lease = false);
}

#[test]
fn an_entry_without_a_lease_by_permission_gives_two_holders() {
    let scope = Scope { way: Way::Permission, ..UNHEARD };
    breaks(ONE_HOLDER, scope, |rules| rules.peers.entry_needs_the_lease = false);
}

#[test]
fn a_lease_counted_from_the_receipt_gives_two_holders() {
    let scope = Scope { admissions_travel: true, ..UNHEARD };
    breaks(ONE_HOLDER, scope, |rules| rules.peers.lease_counts_from_stamp = false);
}

#[test]
fn an_entry_after_the_seal_gives_two_holders() {
    let scope = Scope { founders: Members::of(&[0, 1, 2]), askers: Members::of(&[1, 2]), ..TOKEN };
    breaks(ONE_HOLDER, scope, |rules| rules.seal_ends_grants = false);
}

#[test]
fn a_permission_without_the_highest_token_makes_a_token_go_back() {
    let scope = Scope { releases: true, ..PERMISSION };
    breaks(TOKENS_RISE, scope, |rules| rules.peers.highest_travels = false);
}

#[test]
fn a_passed_token_without_the_highest_makes_a_token_go_back() {
    let scope = Scope { releases: true, ..TOKEN };
    breaks(TOKENS_RISE, scope, |rules| rules.peers.highest_travels = false);
}

#[test]
fn a_hand_over_without_a_freeze_gives_two_holders() {
    breaks(ONE_HOLDER, RESIGNING, |rules| rules.peers.freeze = Freeze::No);
}

#[test]
fn a_hand_over_in_haste_without_a_member_lease_gives_two_holders() {
    breaks(ONE_HOLDER, RESIGNING, |rules| rules.peers.haste_costs_a_member_lease = false);
}

#[test]
fn a_freeze_that_does_not_wait_for_all_gives_two_holders() {
    let scope = Scope {
        founders: Members::of(&[0, 1, 2]),
        askers: Members::of(&[0, 2]),
        lease: 1,
        ..CHANGING
    };
    breaks(ONE_HOLDER, scope, |rules| rules.peers.freeze = Freeze::UntilMostAnswered);
}

#[test]
fn a_freeze_answered_by_an_older_promise_gives_two_holders() {
    breaks(ONE_HOLDER, CHANGING, |rules| rules.peers.answers_name_the_freeze = false);
}

#[test]
fn a_silent_member_taken_for_empty_too_early_gives_two_holders() {
    breaks(ONE_HOLDER, CHANGING, |rules| rules.peers.silence_lasts_a_lease = false);
}

#[test]
fn an_outsider_that_members_ignore_gives_two_holders() {
    let scope = Scope { expelled: SECOND, ..CHANGING };
    breaks(ONE_HOLDER, scope, |rules| rules.peers.outsider_keeps_closed = false);
}

#[test]
fn a_permission_of_the_old_view_gives_two_holders() {
    let scope = Scope { way: Way::Permission, ..CHANGING };
    breaks(ONE_HOLDER, scope, |rules| rules.peers.messages_name_their_view = false);
}

#[test]
fn a_token_of_the_old_view_gives_two_holders() {
    breaks(ONE_HOLDER, CHANGING, |rules| rules.peers.messages_name_their_view = false);
}

#[test]
fn an_announcement_that_changes_gives_two_holders() {
    let scope = Scope { grants: 3, ..RESIGNING };
    breaks(ONE_HOLDER, scope, |rules| rules.peers.announcement_stays = false);
}

#[test]
fn an_old_hold_learnt_from_a_promise_gives_two_holders() {
    let scope = Scope { admitted: SECOND, ..UNHEARD };
    breaks(ONE_HOLDER, scope, |rules| rules.peers.learns_only_what_is_new = false);
}

#[test]
fn an_overtaken_heartbeat_that_opens_admission_gives_two_holders() {
    let scope = Scope { admissions_travel: true, overtakes: true, lease: 1, ..CHANGING };
    breaks(ONE_HOLDER, scope, |rules| rules.peers.latest_heartbeat_counts = false);
}

#[test]
fn an_answer_to_a_freeze_that_was_given_up_gives_two_holders() {
    let scope = Scope { drops: true, ..CHANGING };
    breaks(ONE_HOLDER, scope, |rules| rules.peers.freezes_are_distinguished = false);
}

#[test]
fn a_carried_holder_that_is_not_in_section_gives_two_holders() {
    let scope = Scope { way: Way::Permission, ..CHANGING };
    breaks(ONE_HOLDER, scope, |rules| rules.peers.carried_holder_is_in_section = false);
}

#[test]
fn a_token_that_does_not_begin_with_its_holder_gives_two_holders() {
    breaks(ONE_HOLDER, CHANGING, |rules| rules.peers.carried_holder_is_in_section = false);
}

#[test]
fn an_acknowledgement_without_a_leader_lease_gives_two_holders() {
    let scope = Scope {
        joiners: THIRD,
        candidates: THIRD,
        askers: Members::of(&[1, 2]),
        confirmation: 1,
        admissions_travel: true,
        ..TOKEN
    };
    breaks(ONE_HOLDER, scope, |rules| rules.renewal_checks_leader_lease = false);
}

#[test]
fn a_leaders_own_lease_that_outlives_its_leader_lease_gives_two_holders() {
    breaks(ONE_HOLDER, TOKEN, |rules| rules.own_holds = OwnHolds::LikeAnybodys);
}
