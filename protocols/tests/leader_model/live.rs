//! Searches in which, from every state, the leader lease must come back once nothing fails any more.

use super::check::holds;
use super::properties as p;
use super::scope::Scope;
use super::state::Members;

const BOTH: Members = Members::of(&[0, 1]);
const FOLLOWERS: Members = Members::of(&[1, 2]);
const ALL_THREE: Members = Members::of(&[0, 1, 2]);
const SECOND: Members = Members::of(&[1]);

/// Three members, of which any one may crash, and from every state a leader lease.
pub(super) const THREE: Scope = Scope {
    candidates: FOLLOWERS,
    successors: SECOND,
    askers: SECOND,
    mortal: ALL_THREE,
    crashes: 1,
    steps_down: true,
    recovers: true,
    grants: 1,
    ..Scope::THREE
};

/// Three members and a register that must confirm, of which all may crash but one.
pub(super) const FEW: Scope = Scope {
    crashes: 2,
    candidates: SECOND,
    confirmation: 1,
    askers: Members::NONE,
    grants: 0,
    ..THREE
};

#[test]
fn a_leader_comes_back_when_one_of_three_crashes() {
    holds(THREE, &[p::STEPPED_DOWN, p::HANDED_OVER, p::LEADER_IN_A_LATER_VIEW]);
}

/// Two members with every fault.
pub(super) const TWO: Scope = Scope {
    founders: BOTH,
    candidates: BOTH,
    successors: SECOND,
    askers: BOTH,
    mortal: BOTH,
    confirmation: 1,
    ..THREE
};

#[test]
fn a_leader_comes_back_when_one_of_two_crashes() {
    holds(TWO, &[p::STEPPED_DOWN, p::HANDED_OVER, p::GRANTED_LATER]);
}

#[test]
fn a_leader_comes_back_when_only_one_member_reaches_the_register() {
    let scope = Scope { cut_off: BOTH, crashes: 0, lease: 2, unknown: true, ..THREE };
    holds(scope, &[p::STEPPED_DOWN, p::LEADER_IN_A_LATER_VIEW]);
}

#[test]
fn a_leader_comes_back_when_two_of_three_crash() {
    holds(FEW, &[p::STEPPED_DOWN, p::CLOSED]);
}
