//! Who holds what, and who waits.

use conclave_protocols::{FencingToken, LocalTime};
use serde::Serialize;

use super::super::observer::Shared;
use super::millis;
use crate::claims::{Claim, ClaimState};

/// A claim of a member on a lock.
#[derive(Debug, Serialize)]
pub(super) struct ClaimView {
    lock: String,
    member: u16,
    claim: String,
    owner: String,
    state: &'static str,
    /// The fencing token of a hold.
    token: Option<u64>,
    /// How long it has been in this state.
    for_ms: u64,
    /// Why it was lost.
    reason: Option<&'static str>,
}

/// The claims of a member.
pub(super) fn claims(seen: &Shared, number: u16, now: LocalTime) -> Vec<ClaimView> {
    let claims = seen.claims(number).into_iter();
    claims.filter_map(|claim| view(&claim, number, now)).collect()
}

fn view(claim: &Claim, member: u16, now: LocalTime) -> Option<ClaimView> {
    let (state, token, since, reason) = match &claim.state {
        ClaimState::Waiting { .. } => ("waiting", None, claim.asked, None),
        // A member that is paused does not notice that its hold is over.
        ClaimState::Held(held) if held.safe_until <= now => {
            ("expired", held.token, held.safe_until, None)
        }
        ClaimState::Held(held) => ("held", held.token, held.since, None),
        ClaimState::Lost(reason) => ("lost", None, claim.ended?, Some(reason.name())),
        ClaimState::Released | ClaimState::Refused(_) => return None,
    };
    Some(ClaimView {
        lock: claim.lock.to_string(),
        member,
        claim: claim.id.to_string(),
        owner: claim.owner.clone(),
        state,
        token: token.map(FencingToken::get),
        for_ms: millis(since.until(now)),
        reason,
    })
}
