//! What leaves a group without a leader lease for ever when it is left out.

use super::check::breaks;
use super::live::{FEW, THREE};
use super::properties::LEADER_COMES_BACK;
use super::scope::Scope;
use super::state::Members;

#[test]
fn a_nominee_that_does_not_withdraw_leaves_no_leader() {
    let scope = Scope { cut_off: Members::of(&[0, 1]), crashes: 0, ..THREE };
    breaks(LEADER_COMES_BACK, scope, |rules| rules.nominee_withdraws = false);
}

#[test]
fn a_lapsed_leader_that_does_not_step_down_leaves_no_leader() {
    breaks(LEADER_COMES_BACK, THREE, |rules| rules.lapsed_leader_steps_down = false);
}

#[test]
fn no_way_around_missing_seals_leaves_no_leader() {
    breaks(LEADER_COMES_BACK, FEW, |rules| rules.closing_ends_the_wait = false);
}
