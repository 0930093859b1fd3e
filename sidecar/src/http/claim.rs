//! A claim by its name: asking after it, renewing it, giving it back.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use conclave_protocols::LocalTime;

use super::Api;
use super::answer::Json;
use super::claim_view::{ClaimView, StateName};
use super::fields::{Fields, QueryFields};
use super::paths::ClaimPath;
use super::problem::{Problem, ProblemBody};
use super::problem_type::ProblemType;
use super::watched::{self, Patience, Watched};
use crate::claims::{Claim, ClaimError, ClaimState};
use crate::os_clock::ApplicationTime;

/// Shows a claim.
///
/// With `wait` and `index` it answers when the claim differs from the one that had this index; with
/// `Accept: text/event-stream` it streams every change, the present state first.
#[utoipa::path(
    get,
    path = "/v1/locks/{name}/claims/{claim}",
    operation_id = "getClaim",
    tag = "locks",
    params(
        ("name" = String, Path, description = "The lock."),
        ("claim" = String, Path, description = "The claim."),
        ("wait" = Option<String>, Query, description = "How long to wait for a change."),
        ("index" = Option<u64>, Query, description = "The index that the caller has seen.")
    ),
    responses(
        (status = 200, description = "It waits or holds; or, with `Accept: text/event-stream`, its events, each with the claim as its data.",
            content((ClaimView = "application/json"), (String = "text/event-stream"))),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 404, description = "`not-found`, `other-member`", body = ProblemBody),
        (status = 410, description = "`lost`, `released`", body = ProblemBody),
        (status = 423, description = "`held`, `wait-timeout`: it was refused", body = ProblemBody),
        (status = 429, description = "`queue-full`", body = ProblemBody),
        (status = 503, description = "`no-quorum`, `grace-period`, `not-ready`, `terminating`", body = ProblemBody)
    )
)]
pub(super) async fn get_claim(
    State(api): State<Api>,
    path: ClaimPath,
    headers: HeaderMap,
    QueryFields(mut query): QueryFields,
) -> Result<Response, Problem> {
    let patience = Patience::of(&mut query)?;
    query.finish(&["wait", "index"])?;
    let mut claim = found(&api, api.group.find(path.lock, path.claim).await)?;
    if watched::wants_events(&headers) {
        return Ok(watched::events(&api, claim, api.long_call()?));
    }
    patience.wait(&api, &mut claim).await?;
    let claim = claim.borrow().clone();
    show(&api, &claim)
}

/// Renews a claim that has a `ttl`, and sets another one if given.
///
/// A claim that was lost stays lost: it is never silently acquired again.
#[utoipa::path(
    post,
    path = "/v1/locks/{name}/claims/{claim}/renew",
    operation_id = "renewClaim",
    tag = "locks",
    params(
        ("name" = String, Path, description = "The lock."),
        ("claim" = String, Path, description = "The claim."),
        ("ttl" = Option<String>, Query, description = "The new ttl; also in the body.")
    ),
    request_body(content = Option<super::locks::RenewBody>, content_type = "application/json"),
    responses(
        (status = 200, description = "It holds, until the deadline that it tells.", body = ClaimView),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 404, description = "`not-found`, `other-member`", body = ProblemBody),
        (status = 409, description = "`not-held`: it still waits", body = ProblemBody),
        (status = 410, description = "`lost`, `released`", body = ProblemBody),
        (status = 503, description = "`not-ready`, `terminating`", body = ProblemBody)
    )
)]
pub(super) async fn renew_claim(
    State(api): State<Api>,
    path: ClaimPath,
    mut fields: Fields,
) -> Result<Response, Problem> {
    let ttl = fields.positive_duration("ttl")?;
    fields.finish(&["ttl"])?;
    let claim = found(&api, api.group.renew(path.lock, path.claim, ttl).await)?;
    show(&api, &claim)
}

/// Says whether the claim holds now: answered from memory.
#[utoipa::path(
    get,
    path = "/v1/locks/{name}/claims/{claim}/check",
    operation_id = "checkClaim",
    tag = "locks",
    params(
        ("name" = String, Path, description = "The lock."),
        ("claim" = String, Path, description = "The claim.")
    ),
    responses(
        (status = 204, description = "It holds."),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 404, description = "`not-found`, `other-member`", body = ProblemBody),
        (status = 409, description = "`not-held`: it still waits", body = ProblemBody),
        (status = 410, description = "`lost`, `released`", body = ProblemBody),
        (status = 423, description = "`held`, `wait-timeout`: it was refused", body = ProblemBody),
        (status = 503, description = "`no-quorum`, `grace-period`, `not-ready`, `terminating`", body = ProblemBody)
    )
)]
pub(super) async fn check_claim(
    State(api): State<Api>,
    path: ClaimPath,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    query.finish(&[])?;
    let claim = found(&api, api.group.find(path.lock, path.claim).await)?;
    let claim = claim.borrow().clone();
    let now = api.group.os_clock().moment();
    if let Some(problem) = Problem::of_claim(&claim, now.boottime) {
        return Err(problem);
    }
    let view = ClaimView::at(&claim, now);
    match view.state() {
        StateName::Held => Ok(view.with_headers(&claim, StatusCode::NO_CONTENT)),
        StateName::Waiting | StateName::Released | StateName::Lost | StateName::Refused => {
            Err(ClaimError::Waiting.into())
        }
    }
}

/// Gives a claim back, or gives it up if it waits. Done again it does nothing.
#[utoipa::path(
    delete,
    path = "/v1/locks/{name}/claims/{claim}",
    operation_id = "releaseClaim",
    tag = "locks",
    params(
        ("name" = String, Path, description = "The lock."),
        ("claim" = String, Path, description = "The claim.")
    ),
    responses(
        (status = 204, description = "It neither holds nor waits any more."),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 404, description = "`not-found`, `other-member`", body = ProblemBody),
        (status = 410, description = "`lost`: it had been lost before", body = ProblemBody),
        (status = 503, description = "`not-ready`, `terminating`", body = ProblemBody)
    )
)]
pub(super) async fn release_claim(
    State(api): State<Api>,
    path: ClaimPath,
    fields: Fields,
) -> Result<Response, Problem> {
    fields.finish(&[])?;
    match api.group.release(path.lock, path.claim).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(ClaimError::Ended(claim)) if !was_lost(&claim.state) => {
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        Err(error) => Err(not_found(&api, error)),
    }
}

impl Watched for Claim {
    type View = ClaimView;

    fn index(&self) -> u64 {
        self.index
    }

    fn deadline(&self) -> Option<LocalTime> {
        match &self.state {
            ClaimState::Held(held) => Some(held.safe_until),
            ClaimState::Waiting { .. }
            | ClaimState::Released
            | ClaimState::Lost(_)
            | ClaimState::Refused(_) => None,
        }
    }

    fn view(&self, now: ApplicationTime) -> ClaimView {
        ClaimView::at(self, now)
    }

    fn events(before: Option<&ClaimView>, now: &ClaimView) -> Vec<&'static str> {
        match now.state() {
            StateName::Waiting => vec!["waiting"],
            StateName::Held => now.hold_events(before),
            StateName::Released => vec!["released"],
            StateName::Lost => vec!["lost"],
            StateName::Refused => vec!["refused"],
        }
    }

    fn is_final(view: &ClaimView) -> bool {
        match view.state() {
            StateName::Waiting | StateName::Held => false,
            StateName::Released | StateName::Lost | StateName::Refused => true,
        }
    }
}

fn show(api: &Api, claim: &Claim) -> Result<Response, Problem> {
    let now = api.group.os_clock().moment();
    if let Some(problem) = Problem::of_claim(claim, now.boottime) {
        return Err(problem);
    }
    let view = ClaimView::at(claim, now);
    Ok(view.with_headers(claim, Json(&view)))
}

fn found<T>(api: &Api, result: Result<T, ClaimError>) -> Result<T, Problem> {
    result.map_err(|error| not_found(api, error))
}

/// A member that is in no group knows no claims: it must not say that there is none. One that another member made may
/// be held there.
fn not_found(api: &Api, error: ClaimError) -> Problem {
    match (api.missing(), &error) {
        (Some(missing), ClaimError::NotFound) => Problem::new(ProblemType::NotReady, missing),
        (_, ClaimError::OfAnother(maker)) => {
            let status = api.group.status.borrow();
            let pod = status.members.iter().find(|member| !member.me && maker.is_run(member.run));
            Problem::other_member(&error, pod.map(|member| member.pod.clone()))
        }
        _ => error.into(),
    }
}

fn was_lost(state: &ClaimState) -> bool {
    match state {
        ClaimState::Lost(_) | ClaimState::Held(_) => true,
        ClaimState::Waiting { .. } | ClaimState::Released | ClaimState::Refused(_) => false,
    }
}
