//! Searches that end without finding anything bad.

use super::check::holds;
use super::properties as p;
use super::scope::Scope;
use super::state::Members;

#[test]
fn three_members_and_one_candidate() {
    holds("three", Scope::THREE, &[p::OFFICE_IN_A_LATER_VIEW, p::QUIET_SKIPPED, p::GRANTED_LATER]);
}
#[test]
fn four_members() {
    holds("four", Scope { founders: Members::of(&[0, 1, 2, 3]), ..Scope::THREE}, &[p::OFFICE_IN_A_LATER_VIEW, p::QUIET_SKIPPED, p::GRANTED_LATER, p::GRANTED_AFTER_QUIET]);
}
#[test]
fn three_all_ask_lock2() {
    holds("three ask, lock 2", Scope { askers: Members::of(&[0,1,2]), lease: 2, grants: 2, candidates: Members::of(&[1,2]), ..Scope::THREE}, &[p::OFFICE_IN_A_LATER_VIEW, p::QUIET_SKIPPED, p::GRANTED_LATER]);
}
#[test]
fn three_own_holds_three_views() {
    holds("own holds", Scope { askers: Members::of(&[1,2]), lease: 2, grants: 2, views: 3, candidates: Members::of(&[1,2]), renewals: false, ..Scope::THREE}, &[p::OFFICE_IN_A_LATER_VIEW, p::QUIET_SKIPPED, p::GRANTED_LATER]);
}
