//! Searches that end without finding anything bad.

use super::check::holds;
use super::properties as p;
use super::scope::Scope;
use super::state::Members;

const fn m(list: &[usize]) -> Members {
    Members::of(list)
}

#[test]
fn h01_three() {
    holds("three", Scope::THREE, &[p::OFFICE_IN_A_LATER_VIEW, p::QUIET_SKIPPED, p::GRANTED_LATER]);
}
#[test]
fn h02_four() {
    holds(
        "four",
        Scope { founders: m(&[0, 1, 2, 3]), lease: 2, ..Scope::THREE },
        &[
            p::OFFICE_IN_A_LATER_VIEW,
            p::QUIET_SKIPPED,
            p::GRANTED_LATER,
            p::GRANTED_AFTER_QUIET,
            p::CARRIED_RENEWED,
        ],
    );
}
#[test]
fn h03_crash() {
    holds(
        "three, crash of any one",
        Scope {
            askers: m(&[0, 1, 2]),
            lease: 2,
            grants: 2,
            mortal: m(&[0, 1, 2]),
            crashes: 1,
            candidates: m(&[1]),
            ..Scope::THREE
        },
        &[p::OFFICE_IN_A_LATER_VIEW, p::QUIET_SKIPPED, p::GRANTED_LATER],
    );
}
#[test]
fn h04_release_drop_handover() {
    holds(
        "three, release, drops, hand-over",
        Scope {
            askers: m(&[0, 1]),
            lease: 2,
            grants: 2,
            releases: true,
            drops: true,
            heirs: m(&[1]),
            ..Scope::THREE
        },
        &[p::OFFICE_IN_A_LATER_VIEW, p::QUIET_SKIPPED, p::GRANTED_LATER, p::HANDED_OVER],
    );
}
#[test]
fn h05_two_all() {
    holds(
        "two, all faults",
        Scope {
            candidates: m(&[0, 1]),
            heirs: m(&[0, 1]),
            mortal: m(&[0, 1]),
            crashes: 1,
            releases: true,
            drops: true,
            unknown: true,
            restarts_candidacy: true,
            grants: 2,
            lease: 1,
            ..Scope::TWO
        },
        &[
            p::OFFICE_IN_A_LATER_VIEW,
            p::GRANTED_LATER,
            p::HANDED_OVER,
            p::READ_BACK_APPLIED,
            p::OLDER_WRITE,
        ],
    );
}
#[test]
fn h06_one_all() {
    holds(
        "one, all faults, handover to a joiner",
        Scope {
            founders: m(&[0]),
            joiners: m(&[1]),
            candidates: m(&[0, 1]),
            heirs: m(&[0, 1]),
            admitted: m(&[1]),
            askers: m(&[0, 1]),
            mortal: m(&[0, 1]),
            crashes: 1,
            releases: true,
            drops: true,
            unknown: true,
            restarts_candidacy: true,
            grants: 2,
            lease: 2,
            views: 3,
            ..Scope::TWO
        },
        &[
            p::OFFICE_IN_A_LATER_VIEW,
            p::GRANTED_LATER,
            p::HANDED_OVER,
            p::READ_BACK_APPLIED,
            p::OLDER_WRITE,
        ],
    );
}
#[test]
fn h07_expelled() {
    holds(
        "three views, a holder expelled",
        Scope {
            askers: m(&[1, 2]),
            expelled: m(&[2]),
            lease: 2,
            grants: 2,
            views: 3,
            candidates: m(&[1]),
            heirs: m(&[1]),
            ..Scope::THREE
        },
        &[p::OFFICE_IN_A_LATER_VIEW, p::QUIET_SKIPPED, p::HANDED_OVER, p::GRANTED_AFTER_OUTSIDER],
    );
}
#[test]
fn h08_closing() {
    holds(
        "closing",
        Scope {
            founders: m(&[0, 1]),
            joiners: m(&[2]),
            admitted: m(&[]),
            candidates: m(&[2]),
            mortal: m(&[1]),
            crashes: 1,
            askers: m(&[0, 2]),
            lease: 2,
            grants: 2,
            confirmation: 1,
            views: 3,
            unknown: true,
            ..Scope::THREE
        },
        &[p::OFFICE_IN_A_LATER_VIEW, p::CLOSED, p::GRANTED_AFTER_QUIET],
    );
}
#[test]
fn h09_confirmation_carries() {
    holds(
        "confirmation carries over",
        Scope {
            candidates: m(&[1, 2]),
            askers: m(&[]),
            confirmation: 3,
            views: 3,
            grants: 0,
            ..Scope::THREE
        },
        &[p::OFFICE_IN_A_LATER_VIEW, p::CLOSED, p::OLDER_CONFIRMATION],
    );
}
#[test]
fn h10_tokens() {
    holds(
        "tokens",
        Scope {
            askers: m(&[0, 1]),
            candidates: m(&[1]),
            grants: 5,
            raises: 2,
            releases: true,
            forgets: true,
            heirs: m(&[1]),
            unknown: true,
            ..Scope::TWO
        },
        &[
            p::OFFICE_IN_A_LATER_VIEW,
            p::CEILING_RAISED,
            p::GRANTED_ABOVE_EPOCH,
            p::GRANTED_ABOVE_FLOOR,
        ],
    );
}
#[test]
fn h11_leases() {
    holds(
        "one lease per member",
        Scope {
            locks: 2,
            askers: m(&[1, 2]),
            candidates: m(&[1]),
            grants: 2,
            queues: true,
            drops: true,
            lease: 2,
            releases: true,
            ..Scope::THREE
        },
        &[p::OFFICE_IN_A_LATER_VIEW, p::CARRIED_RENEWED, p::QUEUED_REFRESHED],
    );
}
#[test]
fn h12_evidence() {
    holds(
        "evidence",
        Scope {
            askers: m(&[0, 1, 2]),
            candidates: m(&[1, 2]),
            grants: 2,
            evidence: true,
            mortal: m(&[0, 1, 2]),
            crashes: 2,
            lease: 2,
            ..Scope::THREE
        },
        &[p::OFFICE_IN_A_LATER_VIEW, p::EVIDENCE],
    );
}
#[test]
fn h13_beats() {
    holds(
        "beats travel",
        Scope {
            candidates: m(&[1, 2]),
            askers: m(&[]),
            grants: 0,
            promise: 2,
            beats_travel: true,
            drops: true,
            ..Scope::THREE
        },
        &[p::OFFICE_IN_A_LATER_VIEW],
    );
}
#[test]
fn h14_two_candidates() {
    holds(
        "two candidates",
        Scope {
            candidates: m(&[1, 2]),
            unknown: true,
            restarts_candidacy: true,
            grants: 2,
            views: 3,
            ..Scope::THREE
        },
        &[
            p::OFFICE_IN_A_LATER_VIEW,
            p::READ_BACK_APPLIED,
            p::READ_BACK_REFUSED,
            p::OLDER_WRITE,
            p::SEALED_REFUSED,
        ],
    );
}
#[test]
fn h15_self_change() {
    holds(
        "self change, joiner replaces",
        Scope {
            joiners: m(&[3]),
            admitted: m(&[3]),
            expelled: m(&[1]),
            candidates: m(&[3]),
            heirs: m(&[0]),
            views: 3,
            grants: 2,
            lease: 2,
            askers: m(&[0, 1, 3]),
            ..Scope::THREE
        },
        &[p::OFFICE_IN_A_LATER_VIEW, p::HANDED_OVER],
    );
}

#[test]
fn h16_heir_takes_old_grant() {
    holds("heir takes old grant", Scope { candidates: m(&[2]), heirs: m(&[1]), views: 3, grants: 2, lease: 2, askers: m(&[1,2]), renewals: false, ..Scope::THREE}, &[p::OFFICE_IN_A_LATER_VIEW, p::HANDED_OVER]);
}
