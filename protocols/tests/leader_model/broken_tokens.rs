//! What makes a token go back when it is left out.

use super::check::breaks;
use super::peers::Way;
use super::properties::TOKENS_RISE;
use super::scope::Scope;

/// Two members use up the tokens of an epoch.
const USED_UP: Scope = Scope { raises: 1, grants: 5, ..Scope::TWO };

/// The same where they permit each other to enter, and no table states what is used.
const PERMITTED: Scope = Scope { way: Way::Permission, ..USED_UP };

/// The same with a token that they pass.
const PASSED: Scope = Scope { way: Way::Token, ..PERMITTED };

#[test]
fn a_token_without_its_view_goes_back() {
    breaks(TOKENS_RISE, Scope::THREE, |rules| rules.token_names_view = false);
}

#[test]
fn an_epoch_that_ignores_the_ceiling_makes_a_token_go_back() {
    breaks(TOKENS_RISE, USED_UP, |rules| rules.epoch_above_ceiling = false);
}

#[test]
fn an_epoch_that_ignores_the_ceiling_makes_a_token_go_back_where_members_permit() {
    breaks(TOKENS_RISE, PERMITTED, |rules| rules.epoch_above_ceiling = false);
}

#[test]
fn an_epoch_that_ignores_the_ceiling_makes_a_token_go_back_where_it_is_passed() {
    breaks(TOKENS_RISE, PASSED, |rules| rules.epoch_above_ceiling = false);
}

#[test]
fn a_ceiling_sent_before_it_is_written_makes_a_token_go_back_where_members_permit() {
    breaks(TOKENS_RISE, PERMITTED, |rules| rules.ceiling_is_written_first = false);
}

#[test]
fn a_ceiling_sent_before_it_is_written_makes_a_token_go_back_where_it_is_passed() {
    breaks(TOKENS_RISE, PASSED, |rules| rules.ceiling_is_written_first = false);
}

#[test]
fn a_ceiling_used_before_it_is_written_makes_a_token_go_back() {
    breaks(TOKENS_RISE, USED_UP, |rules| rules.ceiling_is_written_first = false);
}

#[test]
fn a_forgotten_lock_without_a_floor_makes_a_token_go_back() {
    let scope = Scope { forgets: true, ..Scope::THREE };
    breaks(TOKENS_RISE, scope, |rules| rules.floor_is_kept = false);
}
