use super::check::holds;
use super::properties as p;
use super::scope::Scope;
use super::state::Members;
const fn m(list: &[u8]) -> Members { Members::of(list) }
#[test]
#[ignore]
fn c01() {
    holds(Scope { candidates: m(&[1,2]), heirs: m(&[0,1]), askers: m(&[1,2]), mortal: m(&[0,1]), crashes: 1, releases: true, unknown: true, grants: 2, lease: 2, views: 3, ..Scope::THREE }, &[p::HANDED_OVER]);
}
#[test]
#[ignore]
fn c02() {
    holds(Scope { candidates: m(&[1,2]), askers: m(&[0,1,2]), unknown: true, restarts_candidacy: true, grants: 2, lease: 3, views: 3, ..Scope::THREE }, &[p::OLDER_WRITE]);
}
#[test]
#[ignore]
fn c03() {
    holds(Scope { promise: 2, lease: 3, candidates: m(&[1,2]), askers: m(&[1,2]), grants: 2, views: 3, ..Scope::THREE }, &[p::GRANTED_LATER]);
}
#[test]
#[ignore]
fn c04() {
    holds(Scope { founders: m(&[0,1,2,3]), promise: 1, lease: 2, candidates: m(&[2]), heirs: m(&[0]), expelled: m(&[1]), askers: m(&[0,2]), grants: 2, views: 3, ..Scope::THREE }, &[p::HANDED_OVER]);
}
#[test]
#[ignore]
fn c05() {
    holds(Scope { confirmation: 2, candidates: m(&[1,2]), heirs: m(&[1]), askers: m(&[1,2]), lease: 2, grants: 2, views: 3, ..Scope::THREE }, &[p::HANDED_OVER, p::CLOSED]);
}
