//! Searches that must find something bad.
use super::check::breaks;
use super::properties::{ONE_HOLDER, ONE_OFFICE, TOKENS_RISE};
use super::rules::{Activation, Need, OwnHolds, Rules};
use super::scope::Scope;
use super::state::Members;

const fn m(list: &[usize]) -> Members {
    Members::of(list)
}
const ALL: Rules = Rules::ALL;

const FOUR: Scope = Scope { founders: m(&[0, 1, 2, 3]), ..Scope::THREE };
const RIVALS: Scope = Scope { candidates: m(&[1, 2]), askers: m(&[]), ..Scope::THREE };
const OWN: Scope = Scope {
    askers: m(&[1, 2]),
    lease: 2,
    grants: 2,
    views: 3,
    candidates: m(&[1, 2]),
    ..Scope::THREE
};

#[test]
fn older_own_as_written() {
    breaks(ONE_HOLDER, Rules { leaders_older_holds_unsettle: false, ..ALL }, OWN);
}
#[test]
fn b01_seal_early() {
    breaks(ONE_OFFICE, Rules { seal_waits_for_the_promise: false, ..ALL }, RIVALS);
}
#[test]
fn b02_fewer() {
    breaks(ONE_OFFICE, Rules { need: Need::OneFewer, ..ALL }, RIVALS);
}
#[test]
fn b03_promises() {
    breaks(ONE_OFFICE, Rules { seal_ends_promises: false, ..ALL }, RIVALS);
}
#[test]
fn b04_quiet() {
    breaks(ONE_HOLDER, Rules { quiet_time: false, ..ALL }, Scope { lease: 2, ..FOUR });
}
#[test]
fn b05_office() {
    breaks(ONE_HOLDER, Rules { grant_checks_office: false, ..ALL }, Scope { lease: 1, ..FOUR });
}
#[test]
fn b05r_office_renew() {
    breaks(ONE_HOLDER, Rules { renewal_checks_office: false, ..ALL }, Scope { lease: 2, ..FOUR });
}
#[test]
fn b06_reply() {
    breaks(ONE_HOLDER, Rules { lock_counts_from_send: false, ..ALL }, Scope::THREE);
}
#[test]
fn c5_office_reply() {
    breaks(
        ONE_OFFICE,
        Rules { office_counts_from_send: false, ..ALL },
        Scope { beats_travel: true, ..RIVALS },
    );
}
#[test]
fn b07_nocompare() {
    breaks(ONE_OFFICE, Rules { write_compares: false, ..ALL }, RIVALS);
}
#[test]
fn b08_unknown() {
    breaks(
        ONE_OFFICE,
        Rules { unknown_is_read_back: false, ..ALL },
        Scope { unknown: true, ..RIVALS },
    );
}
#[test]
fn b09_reports() {
    breaks(ONE_HOLDER, Rules { reports_count: false, ..ALL }, Scope { lease: 2, ..Scope::THREE });
}
#[test]
fn b10_restart() {
    breaks(
        ONE_OFFICE,
        Rules { restart_is_a_new_member: false, ..ALL },
        Scope { mortal: m(&[2]), crashes: 1, ..RIVALS },
    );
}
#[test]
fn b12_keeps() {
    breaks(
        ONE_OFFICE,
        Rules { resigning_ends_the_office: false, ..ALL },
        Scope { heirs: m(&[1]), ..RIVALS },
    );
}
#[test]
fn d12_notable() {
    breaks(
        ONE_HOLDER,
        Rules { table_comes_with_the_seal: false, ..ALL },
        Scope { heirs: m(&[1]), ..Scope::THREE },
    );
}
#[test]
fn b13_token() {
    breaks(TOKENS_RISE, Rules { token_names_view: false, ..ALL }, Scope::THREE);
}
#[test]
fn b14_new_membership() {
    breaks(
        ONE_OFFICE,
        Rules { need: Need::OfTheNewMembership, ..ALL },
        Scope { joiners: m(&[3]), candidates: m(&[3]), ..RIVALS },
    );
}
#[test]
fn b15_old_grants() {
    breaks(
        ONE_HOLDER,
        Rules { seal_ends_grants: false, ..ALL },
        Scope { lease: 2, ..Scope::THREE },
    );
}
#[test]
fn b16_unsettled() {
    breaks(
        ONE_HOLDER,
        Rules { unsettled_base_waits: false, ..ALL },
        Scope { lease: 2, views: 3, askers: m(&[1, 3]), candidates: m(&[1, 2]), ..FOUR },
    );
}
#[test]
fn b17_outsider() {
    breaks(
        ONE_HOLDER,
        Rules { outsider_unsettles: false, ..ALL },
        Scope {
            lease: 2,
            views: 3,
            askers: m(&[2, 3]),
            expelled: m(&[2]),
            candidates: m(&[1, 3]),
            joiners: m(&[3]),
            admitted: m(&[3]),
            ..Scope::THREE
        },
    );
}
#[test]
fn b18_evidence() {
    breaks(
        ONE_OFFICE,
        Rules { evidence_waits: false, ..ALL },
        Scope { evidence: true, mortal: m(&[1, 2]), crashes: 1, ..RIVALS },
    );
}
#[test]
fn b19_false_evidence() {
    breaks(
        ONE_OFFICE,
        Rules { evidence_is_true: false, ..ALL },
        Scope { evidence: true, ..RIVALS },
    );
}
#[test]
fn b20_own() {
    breaks(
        ONE_HOLDER,
        Rules { own_holds: OwnHolds::LikeAnybodys, ..ALL },
        Scope { askers: m(&[0, 1]), lease: 2, ..Scope::THREE },
    );
}
#[test]
fn r2_own_full() {
    breaks(
        ONE_HOLDER,
        Rules { own_holds: OwnHolds::FullLeaseAfterResigning, ..ALL },
        Scope {
            askers: m(&[0, 2]),
            candidates: m(&[2]),
            heirs: m(&[1]),
            lease: 2,
            mortal: m(&[1]),
            crashes: 1,
            ..Scope::THREE
        },
    );
}
#[test]
fn r2_hearsay() {
    breaks(
        ONE_HOLDER,
        Rules { hearsay_does_not_seal: false, ..ALL },
        Scope { askers: m(&[0, 2]), candidates: m(&[2]), heirs: m(&[1]), lease: 2, ..Scope::THREE },
    );
}
#[test]
fn b21_confirm() {
    breaks(
        ONE_OFFICE,
        Rules { promise_needs_confirmation: false, ..ALL },
        Scope { confirmation: 1, joiners: m(&[3]), candidates: m(&[3]), ..RIVALS },
    );
}
#[test]
fn b22_closing() {
    breaks(
        ONE_OFFICE,
        Rules { closing_is_marked: false, ..ALL },
        Scope { confirmation: 1, joiners: m(&[3]), candidates: m(&[3]), ..RIVALS },
    );
}
#[test]
fn d28_unreported() {
    breaks(ONE_HOLDER, Rules { renewal_needs_an_entry: false, ..ALL }, Scope { lease: 2, admitted: m(&[3]), askers: m(&[2, 3]), ..FOUR });
}
#[test]
fn b24_sealed() {
    breaks(
        ONE_OFFICE,
        Rules { sealed_view_has_no_office: false, ..ALL },
        Scope { views: 3, expelled: m(&[1]), founders: m(&[0, 1, 2, 3]), ..RIVALS },
    );
}
#[test]
fn d26_final() {
    breaks(
        ONE_HOLDER,
        Rules { expiry_is_final: false, ..ALL },
        Scope { lease: 3, releases: true, heirs: m(&[1]), ..Scope::THREE },
    );
}
#[test]
fn b27_exempt() {
    breaks(
        ONE_HOLDER,
        Rules { reported_locks_wait_too: false, ..ALL },
        Scope { lease: 2, askers: m(&[1, 3]), ..FOUR },
    );
}
#[test]
fn x1_claim() {
    breaks(
        ONE_OFFICE,
        Rules { activation: Activation::ClaimReplacesTheBase, ..ALL },
        Scope { views: 3, ..RIVALS },
    );
}
#[test]
fn x2_at_once() {
    breaks(ONE_OFFICE, Rules { activation: Activation::AtOnce, ..ALL }, RIVALS);
}
#[test]
fn t1_ceiling_epoch() {
    breaks(
        TOKENS_RISE,
        Rules { epoch_above_ceiling: false, ..ALL },
        Scope { raises: 1, grants: 5, ..Scope::TWO },
    );
}
#[test]
fn t2_ceiling_early() {
    breaks(
        TOKENS_RISE,
        Rules { ceiling_is_written_first: false, ..ALL },
        Scope { raises: 1, grants: 5, candidates: m(&[1]), ..Scope::TWO },
    );
}
#[test]
fn t3_floor() {
    breaks(
        TOKENS_RISE,
        Rules { floor_is_kept: false, ..ALL },
        Scope { forgets: true, ..Scope::THREE },
    );
}
#[test]
fn t4_release() {
    breaks(
        ONE_HOLDER,
        Rules { release_names_token: false, ..ALL },
        Scope { releases: true, ..Scope::THREE },
    );
}
#[test]
fn r3_ack_unlisted() {
    breaks(
        ONE_HOLDER,
        Rules { acknowledges_what_was_listed: false, ..ALL },
        Scope { locks: 2, lease: 2, ..Scope::THREE },
    );
}
#[test]
fn r3_queue() {
    breaks(
        ONE_HOLDER,
        Rules { queued_counts_from_seen_answer: false, ..ALL },
        Scope { queues: true, lease: 2, ..Scope::THREE },
    );
}
