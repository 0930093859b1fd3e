//! Searches that must find something bad.
use super::check::breaks;
use super::properties::*;
use super::rules::*;
use super::scope::Scope;
use super::state::Members;

#[test]
fn older_own_as_written() {
    breaks(ONE_HOLDER, Rules { leaders_older_holds_unsettle: false, ..Rules::ALL }, Scope { askers: Members::of(&[1,2]), lease: 2, grants: 2, views: 3, candidates: Members::of(&[1,2]), ..Scope::THREE});
}
