//! A claim, as answers show it.

use std::time::Duration;

use axum::http::header::{ETAG, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use conclave_protocols::member::message::Metadata;
use conclave_protocols::policy::{Arbiter, LockAlgorithm};
use conclave_protocols::{FencingToken, LocalTime, LockName};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::problem::refusal_name;
use super::safety::Safety;
use crate::claims::{Claim, ClaimState, Held, Holder, LostReason};
use crate::os_clock::ApplicationTime;

/// A claim.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Claim)]
pub(super) struct ClaimView {
    /// The name of the lock.
    #[schema(value_type = String)]
    lock: LockName,
    /// The name of the claim.
    claim: String,
    /// Where it stands.
    state: StateName,
    /// The fencing token, below 2^53; only while held, and none with arbiter `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
    /// The view that granted it, below 2^53; only while held.
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    /// What the grant is worth.
    guarantee: Guarantee,
    /// What makes it safe.
    #[schema(value_type = String, example = "Quorum")]
    arbiter: Arbiter,
    /// How the lock is granted.
    #[schema(value_type = String, example = "Central")]
    algorithm: LockAlgorithm,
    /// How long the hold is safe; only while held.
    #[serde(flatten)]
    safety: Safety,
    /// For how long it has been held; only while held.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_ms: Option<u64>,
    /// Renewals stay away; only while held.
    #[serde(skip_serializing_if = "Option::is_none")]
    jeopardy: Option<bool>,
    /// Another wants the lock; only while held.
    #[serde(skip_serializing_if = "Option::is_none")]
    contended: Option<bool>,
    /// Why it was lost or refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The holder of the lock, as far as is known; only while waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    holders: Option<Vec<HolderView>>,
    /// How long it has waited, or waited in all.
    waited_ms: u64,
    /// What the application must renew within, if it must.
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    /// The longest that it may hold, however often it is renewed: `max_hold`, and never more than the policy's
    /// `maxHold`.
    #[schema(example = 600_000)]
    max_hold_ms: u64,
    /// What is left of that; only while held. Then it is lost, with `max-hold`. A renewal does not change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_hold_left_ms: Option<u64>,
    /// Rises with every change.
    index: u64,
    /// The `owner` that the caller stated, or the name of its pod.
    owner: String,
    /// The metadata that the client gave with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// What this entry cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Cost>,
}

/// Where a claim stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = ClaimState)]
pub(super) enum StateName {
    /// It waits.
    Waiting,
    /// It holds.
    Held,
    /// It was given back or given up.
    Released,
    /// It held, and no longer does.
    Lost,
    /// It was not granted.
    Refused,
}

/// What an outcome is worth.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Guarantee {
    /// Exclusive within the stated timing bound, and the token never goes back.
    Safe,
    /// As in the textbook: correct without partitions and crashes.
    Advisory,
}

/// A holder of a lock.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Holder)]
pub(super) struct HolderView {
    /// The `owner` that the caller stated, or the name of its pod.
    owner: String,
    /// In which pod.
    pod: String,
    /// Its token.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
    /// For how long it has held the lock.
    held_ms: u64,
    /// The metadata that its client gave with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
}

/// What an entry cost, as the textbook counts it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub(super) struct Cost {
    /// Messages sent and received for this entry so far.
    messages: u64,
}

impl ClaimView {
    /// The claim at `now`, which is read after the last wait: a hold whose time is over is lost.
    pub(super) fn at(claim: &Claim, now: ApplicationTime) -> Self {
        let mut view = Self {
            lock: claim.lock.clone(),
            claim: claim.id.to_string(),
            state: StateName::Waiting,
            token: None,
            epoch: None,
            guarantee: claim.arbiter.into(),
            arbiter: claim.arbiter,
            algorithm: claim.algorithm,
            safety: Safety::default(),
            held_ms: None,
            jeopardy: None,
            contended: None,
            reason: None,
            holders: None,
            waited_ms: millis(claim.settled.unwrap_or(now.boottime) - claim.asked),
            ttl_ms: claim.ttl.map(millis),
            max_hold_ms: millis(claim.max_hold),
            max_hold_left_ms: None,
            index: claim.index,
            owner: claim.owner.clone(),
            metadata: raw(claim.metadata.as_ref()),
            cost: None,
        };
        view.show(claim, now);
        view
    }

    /// Where it stands.
    pub(super) fn state(&self) -> StateName {
        self.state
    }

    /// What happened to the hold since it was last shown.
    pub(super) fn hold_events(&self, before: Option<&Self>) -> Vec<&'static str> {
        let jeopardy = self.jeopardy == Some(true);
        let contended = self.contended == Some(true);
        let Some(before) = before.filter(|before| before.state == StateName::Held) else {
            return vec![if jeopardy { "jeopardy" } else { "held" }];
        };
        let mut events = Vec::new();
        if contended && before.contended != Some(true) {
            events.push("contended");
        }
        if jeopardy && before.jeopardy != Some(true) {
            events.push("jeopardy");
        } else if events.is_empty() {
            events.push(if jeopardy { "jeopardy" } else { "safe" });
        }
        events
    }

    /// The path of the claim.
    pub(super) fn path(claim: &Claim) -> String {
        let lock = percent_encode(claim.lock.as_str());
        format!("/v1/locks/{lock}/claims/{}", claim.id)
    }

    /// An answer that says in its headers what they say about a claim.
    pub(super) fn with_headers(&self, claim: &Claim, answer: impl IntoResponse) -> Response {
        let mut response = answer.into_response();
        self.write_to(claim, response.headers_mut());
        response
    }

    fn write_to(&self, claim: &Claim, headers: &mut HeaderMap) {
        if let Ok(path) = HeaderValue::from_str(&Self::path(claim)) {
            headers.insert(LOCATION, path);
        }
        if let Some(token) = self.token {
            headers.insert(FENCING_TOKEN, HeaderValue::from(token));
            if let Ok(tag) = HeaderValue::from_str(&format!("\"{token}\"")) {
                headers.insert(ETAG, tag);
            }
        }
        if let Some(epoch) = self.epoch {
            headers.insert(EPOCH, HeaderValue::from(epoch));
        }
        self.safety.write_to(headers);
    }

    fn show(&mut self, claim: &Claim, now: ApplicationTime) {
        match &claim.state {
            ClaimState::Waiting { holder, heard: _ } => {
                let holders = holder.iter().map(|holder| HolderView::at(holder, now.boottime));
                self.holders = Some(holders.collect());
            }
            ClaimState::Held(held) if now.boottime < held.safe_until => {
                self.show_hold(held, now);
                let most = held.since.after(claim.max_hold);
                self.max_hold_left_ms = Some(millis(now.boottime.until(most)));
            }
            ClaimState::Held(held) => self.show_lost(held.ends_by),
            ClaimState::Released => self.state = StateName::Released,
            ClaimState::Lost(reason) => self.show_lost(*reason),
            ClaimState::Refused(refusal) => {
                self.state = StateName::Refused;
                self.reason = Some(refusal_name(refusal));
            }
        }
    }

    fn show_hold(&mut self, held: &Held, now: ApplicationTime) {
        self.state = StateName::Held;
        self.token = held.token.map(FencingToken::get);
        self.epoch = Some(held.epoch.0);
        self.safety = Safety::until(held.safe_until, now);
        self.held_ms = Some(millis(now.boottime - held.since));
        self.jeopardy = Some(held.jeopardy);
        self.contended = Some(held.contended);
        self.cost = Some(Cost { messages: held.messages });
    }

    fn show_lost(&mut self, reason: LostReason) {
        self.state = StateName::Lost;
        self.reason = Some(reason.name());
    }
}

impl From<Arbiter> for Guarantee {
    fn from(arbiter: Arbiter) -> Self {
        match arbiter {
            Arbiter::Quorum => Self::Safe,
            Arbiter::None => Self::Advisory,
        }
    }
}

impl HolderView {
    /// The holder at `now`.
    pub(super) fn at(holder: &Holder, now: LocalTime) -> Self {
        Self {
            owner: holder.owner.clone(),
            pod: holder.pod.clone(),
            token: holder.token.map(FencingToken::get),
            held_ms: millis(holder.held_at(now)),
            metadata: raw(holder.metadata.as_ref()),
        }
    }
}

/// Whole milliseconds, rounded down: a promise is never made longer.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// JSON that came as text from a client or a peer; what is no JSON is left out.
pub(super) fn raw(metadata: Option<&Metadata>) -> Option<Value> {
    serde_json::from_str(metadata?.as_str()).ok()
}

/// A lock's name as one path segment.
fn percent_encode(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().fold(String::with_capacity(name.len()), |mut path, byte| {
        if plain(byte) {
            path.push(char::from(byte));
        } else {
            path.extend(['%', hex(byte >> 4), hex(byte & 15)]);
        }
        path
    })
}

fn hex(digit: u8) -> char {
    char::from(b"0123456789ABCDEF"[usize::from(digit)])
}

/// Carries the fencing token of a hold.
pub(super) const FENCING_TOKEN: HeaderName = HeaderName::from_static("conclave-fencing-token");
/// Carries the epoch of a hold.
pub(super) const EPOCH: HeaderName = HeaderName::from_static("conclave-epoch");
