//! Asking for a lock: `POST /v1/locks/{name}` and `PUT /v1/locks/{name}/claims/{claim}`.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tracing::{Instrument, debug_span};
use utoipa::ToSchema;

use super::answer::Json;
use super::claim_view::ClaimView;
use super::fields::{self, Fields};
use super::hold::{self, Caller, OnHangUp};
use super::paths::{ClaimPath, LockPath};
use super::problem::{Problem, ProblemBody};
use super::problem_type::ProblemType;
use super::{Api, watched};
use crate::claims::{Ask, Claim, ClaimId, ClaimState, Wait};
use crate::telemetry::PATH;
use conclave_protocols::LockName;

/// What a client may say about a claim. Every field may be left out; all but `metadata` may be query
/// parameters too.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ClaimRequest)]
pub(super) struct AskBody {
    /// How long to wait for the lock: a duration, or `forever`. Without it the call tries once.
    #[schema(example = "30s")]
    wait: Option<String>,
    /// The application renews within this time. Without it the sidecar renews.
    #[schema(example = "15s")]
    ttl: Option<String>,
    /// The longest that the claim may hold, however often it is renewed. If absent, and never more than, the
    /// `maxHold` of the policy, which is 10 minutes unless the resource states another.
    #[schema(example = "10m")]
    max_hold: Option<String>,
    /// The name of the caller, for people to read; the pod's name if absent. At most 253 bytes.
    #[schema(example = "worker-3")]
    owner: Option<String>,
    /// Shown to those who are kept waiting: at most 2 KiB.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// What a client may say when it renews a claim.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RenewRequest)]
pub(super) struct RenewBody {
    /// Another ttl; the present one if absent.
    #[schema(example = "15s")]
    ttl: Option<String>,
}

/// Claims a lock.
///
/// Answers when the lock is granted or refused. Hanging up gives the claim up. With
/// `Accept: text/event-stream` the answer is a stream of events, and the claim is released when the
/// stream ends, whichever side ends it.
#[utoipa::path(
    post,
    path = "/v1/locks/{name}",
    operation_id = "claimLock",
    tag = "locks",
    params(
        ("name" = String, Path, description = "The lock: 1 to 253 bytes, `/` as `%2F`; not `.` or `..`."),
        ("wait" = Option<String>, Query, description = "As in the body."),
        ("ttl" = Option<String>, Query, description = "As in the body."),
        ("max_hold" = Option<String>, Query, description = "As in the body."),
        ("owner" = Option<String>, Query, description = "As in the body."),
        ("Prefer" = Option<String>, Header, description = "`respond-async`: answer 202 at once.")
    ),
    request_body(content = Option<AskBody>, content_type = "application/json"),
    responses(
        (status = 200, description = "With `Accept: text/event-stream`: the events of the claim, each with the claim as its data.",
            body = String, content_type = "text/event-stream"),
        (status = 201, description = "Granted.", body = ClaimView),
        (status = 202, description = "It waits (with `Prefer: respond-async`).", body = ClaimView),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 403, description = "`not-allowed`", body = ProblemBody),
        (status = 423, description = "`held`, `wait-timeout`", body = ProblemBody),
        (status = 429, description = "`queue-full`", body = ProblemBody),
        (status = 503, description = "`no-quorum`, `grace-period`, `not-ready`, `terminating`", body = ProblemBody)
    )
)]
pub(super) async fn claim_lock(
    State(api): State<Api>,
    LockPath(lock): LockPath,
    headers: HeaderMap,
    fields: Fields,
) -> Result<Response, Problem> {
    let ask = ask_of(fields, lock, None)?;
    claim(&api, ask, &headers).await
}

/// Claims a lock under a name that the client chooses.
///
/// Done again it returns the state that the claim has, and does not wait. Names of ended claims are
/// not used again.
#[utoipa::path(
    put,
    path = "/v1/locks/{name}/claims/{claim}",
    operation_id = "putClaim",
    tag = "locks",
    params(
        ("name" = String, Path, description = "The lock: 1 to 253 bytes, `/` as `%2F`; not `.` or `..`."),
        ("claim" = String, Path, description = "The claim: 1 to 128 of `A-Za-z0-9._~-`; not `.` or `..`."),
        ("wait" = Option<String>, Query, description = "As in the body."),
        ("ttl" = Option<String>, Query, description = "As in the body."),
        ("max_hold" = Option<String>, Query, description = "As in the body."),
        ("owner" = Option<String>, Query, description = "As in the body."),
        ("Prefer" = Option<String>, Header, description = "`respond-async`: answer 202 at once.")
    ),
    request_body(content = Option<AskBody>, content_type = "application/json"),
    responses(
        (status = 200, description = "This claim holds already; or, with `Accept: text/event-stream`, its events.",
            content((ClaimView = "application/json"), (String = "text/event-stream"))),
        (status = 201, description = "Granted.", body = ClaimView),
        (status = 202, description = "It waits.", body = ClaimView),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 403, description = "`not-allowed`", body = ProblemBody),
        (status = 409, description = "`claim-reused`", body = ProblemBody),
        (status = 410, description = "`lost`, `released`", body = ProblemBody),
        (status = 412, description = "`claim-differs`", body = ProblemBody),
        (status = 423, description = "`held`, `wait-timeout`", body = ProblemBody),
        (status = 429, description = "`queue-full`", body = ProblemBody),
        (status = 503, description = "`no-quorum`, `grace-period`, `not-ready`, `terminating`", body = ProblemBody)
    )
)]
pub(super) async fn put_claim(
    State(api): State<Api>,
    path: ClaimPath,
    headers: HeaderMap,
    fields: Fields,
) -> Result<Response, Problem> {
    let ask = ask_of(fields, path.lock, Some(path.claim))?;
    claim(&api, ask, &headers).await
}

async fn claim(api: &Api, ask: Ask, headers: &HeaderMap) -> Result<Response, Problem> {
    if let Some(missing) = api.missing() {
        return Err(Problem::new(ProblemType::NotReady, missing));
    }
    let tries = ask.wait == Wait::For(std::time::Duration::ZERO);
    let span = debug_span!(target: PATH, "ask", lock = ask.lock.as_str());
    let streams = watched::wants_events(headers);
    let may_wait = streams || !responds_async(headers);
    let is_found_again = ask.claim.is_some() && !streams;
    // Before anything is asked for: of a caller that is turned away no claim is made.
    let permit = match may_wait.then(|| api.long_call()).transpose() {
        Ok(permit) => permit,
        // It repeats one that there is, and waits for nothing.
        Err(_) if is_found_again && is_there(api, &ask).await => None,
        Err(full) => return Err(full),
    };
    let on_hang_up = if is_found_again { OnHangUp::Abandon } else { OnHangUp::Release };
    let asking = hold::ask(api.clone(), ask, on_hang_up);
    let (mut asked, caller) = asking.instrument(span).await?;
    // A stream that waits begins at once; one that only tries can still say no by its status.
    let waits = if streams { tries } else { asked.created && may_wait };
    if waits {
        let span = debug_span!(target: PATH, "wait");
        settle(&mut asked.claim).instrument(span).await?;
    }
    if streams {
        return stream(api, &asked.claim, (caller, permit));
    }
    answer(api, &asked.claim, caller, asked.created)
}

/// Whether there is, or was, the claim that a client named.
async fn is_there(api: &Api, ask: &Ask) -> bool {
    let Some(id) = &ask.claim else { return false };
    api.group.find(ask.lock.clone(), id.clone()).await.is_ok()
}

/// Waits until the claim does not wait any more. How long is the group's business.
async fn settle(claim: &mut watch::Receiver<Claim>) -> Result<(), Problem> {
    if is_settled(&claim.borrow().state) {
        return Ok(());
    }
    let settled = claim.wait_for(|claim| is_settled(&claim.state)).await;
    settled.map(drop).map_err(|_| Problem::new(ProblemType::Terminating, "the group has ended"))?;
    // Lets the connection look once more whether the caller is still there, before the answer is
    // taken for delivered.
    tokio::task::yield_now().await;
    Ok(())
}

fn answer(
    api: &Api,
    claim: &watch::Receiver<Claim>,
    caller: Caller,
    created: bool,
) -> Result<Response, Problem> {
    let claim = claim.borrow();
    let now = api.group.os_clock().moment();
    if let Some(problem) = Problem::of_claim(&claim, now.boottime) {
        return Err(problem);
    }
    let status = match (is_settled(&claim.state), created) {
        (false, _) => StatusCode::ACCEPTED,
        (true, true) => StatusCode::CREATED,
        (true, false) => StatusCode::OK,
    };
    let view = ClaimView::at(&claim, now);
    Ok(caller.deliver(view.with_headers(&claim, (status, Json(&view)))))
}

fn stream<C: Send + 'static>(
    api: &Api,
    claim: &watch::Receiver<Claim>,
    caller: C,
) -> Result<Response, Problem> {
    let first = claim.borrow().clone();
    let now = api.group.os_clock().moment();
    if let Some(problem) = Problem::of_claim(&first, now.boottime) {
        return Err(problem);
    }
    let events = watched::events(api, claim.clone(), caller);
    Ok(ClaimView::at(&first, now).with_headers(&first, events))
}

fn ask_of(mut fields: Fields, lock: LockName, claim: Option<ClaimId>) -> Result<Ask, Problem> {
    let ask = Ask {
        lock,
        claim,
        wait: wait(&mut fields, "wait")?.unwrap_or(Wait::For(std::time::Duration::ZERO)),
        ttl: fields.positive_duration("ttl")?,
        max_hold: fields.positive_duration("max_hold")?,
        owner: fields.line("owner")?,
        metadata: fields.object("metadata", METADATA_BYTES)?.map(Into::into),
    };
    fields.finish(&FIELDS)?;
    Ok(ask)
}

/// How long a caller is willing to wait.
pub(super) fn wait(fields: &mut Fields, name: &str) -> Result<Option<Wait>, Problem> {
    match fields.text(name, WAIT)?.as_deref() {
        None => Ok(None),
        Some("forever") => Ok(Some(Wait::Forever)),
        Some(text) => {
            let duration = fields::duration(text).map(|duration| Some(Wait::For(duration)));
            duration.ok_or_else(|| Problem::invalid(name, WAIT))
        }
    }
}

/// RFC 7240, section 4.1.
fn responds_async(headers: &HeaderMap) -> bool {
    let preferences = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    preferences
        .flat_map(|value| value.split(','))
        .any(|preference| preference.trim().eq_ignore_ascii_case("respond-async"))
}

fn is_settled(state: &ClaimState) -> bool {
    match state {
        ClaimState::Waiting { .. } => false,
        ClaimState::Held(_)
        | ClaimState::Released
        | ClaimState::Lost(_)
        | ClaimState::Refused(_) => true,
    }
}

/// What such a time looks like.
pub(super) const WAIT: &str = "a duration such as 30s, 500ms or 1m30s, or forever";

/// The fields of [`AskBody`].
pub(super) const FIELDS: [&str; 5] = ["wait", "ttl", "max_hold", "owner", "metadata"];

/// The most bytes of JSON that go along with a claim or a candidacy.
pub(super) const METADATA_BYTES: usize = 2 * 1024;
