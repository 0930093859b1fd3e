//! What gives two holders of one lock when it is left out, where leaders list what they hold.

use super::check::breaks;
use super::properties::ONE_HOLDER;
use super::rules::Hearing;
use super::scope::Scope;
use super::state::Members;

const FOLLOWERS: Members = Members::of(&[1, 2]);

/// The leader and its successor ask; leases outlive promises.
const LISTED: Scope =
    Scope { lists: true, askers: Members::of(&[0, 1]), lease: 2, grants: 2, ..Scope::THREE };

/// Three views: what the first or the second leader held.
const TWICE: Scope = Scope { candidates: FOLLOWERS, views: 3, ..LISTED };

#[test]
fn a_long_hold_that_nobody_heard_of_gives_two_holders() {
    breaks(ONE_HOLDER, LISTED, |rules| rules.lists.hearing = Hearing::Needless);
}

#[test]
fn any_promise_taken_for_hearing_gives_two_holders() {
    breaks(ONE_HOLDER, LISTED, |rules| rules.lists.hearing = Hearing::AnyPromise);
}

#[test]
fn seals_that_do_not_tell_the_leaders_holds_give_two_holders() {
    breaks(ONE_HOLDER, LISTED, |rules| rules.lists.seals_tell_own = false);
}

#[test]
fn no_grace_period_though_a_member_did_not_seal_gives_two_holders() {
    let scope = Scope { lists: true, lease: 2, grants: 2, ..Scope::FOUR };
    breaks(ONE_HOLDER, scope, |rules| rules.lists.everybody_seals = false);
}

#[test]
fn a_view_that_nobody_entered_taken_for_settled_gives_two_holders() {
    let scope = Scope { askers: FOLLOWERS, ..TWICE };
    breaks(ONE_HOLDER, scope, |rules| rules.lists.somebody_entered = false);
}

#[test]
fn outsiders_that_are_not_listed_give_two_holders() {
    let scope = Scope { askers: Members::of(&[0, 2]), lease: 3, ..TWICE };
    breaks(ONE_HOLDER, scope, |rules| rules.lists.seals_tell_outsiders = false);
}

#[test]
fn a_rest_that_is_not_sent_gives_two_holders() {
    let scope = Scope {
        founders: Members::of(&[0, 1, 2, 3]),
        askers: Members::of(&[2, 3]),
        lease: 3,
        renewals: false,
        ..TWICE
    };
    breaks(ONE_HOLDER, scope, |rules| rules.lists.rest_is_notified = false);
}
