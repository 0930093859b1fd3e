//! Standing in a named election: `PUT` and `DELETE /v1/elections/{name}/candidacy`.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::elections::{self, ElectionView};
use super::fields::{Fields, QueryFields};
use super::problem::{Problem, ProblemBody};
use super::problem_type::ProblemType;
use super::watched;
use crate::claims::AskError;
use crate::group::{Connection, Group};

/// What an application says about its candidacy. It may be a query parameter too.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CandidacyRequest)]
pub(super) struct CandidacyBody {
    /// The candidate of the highest priority is nominated, among equals the one of the highest rank. 0 if absent.
    #[schema(example = 10)]
    priority: Option<i32>,
}

/// Stands in an election, or changes the priority.
///
/// The sidecar renews the lead for as long as it runs; with `Accept: text/event-stream`, for as long as the connection
/// lasts, by which it streams every change. The latest call decides. Another candidate of a higher priority takes nothing away
/// from a leader.
#[utoipa::path(
    put,
    path = "/v1/elections/{election}/candidacy",
    operation_id = "putCandidacy",
    tag = "elections",
    params(
        ("election" = String, Path, description = "One that the resource lists, other than `default`."),
        ("priority" = Option<i32>, Query, description = "As in the body.")
    ),
    request_body(content = Option<CandidacyBody>, content_type = "application/json"),
    responses(
        (status = 200, description = "It stood before.", body = ElectionView),
        (status = 201, description = "It stands from now on.", body = ElectionView),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 403, description = "`not-allowed`", body = ProblemBody),
        (status = 404, description = "`not-found`", body = ProblemBody),
        (status = 503, description = "`not-ready`, `terminating`", body = ProblemBody)
    )
)]
pub(super) async fn put_candidacy(
    State(api): State<Api>,
    Path(name): Path<String>,
    headers: HeaderMap,
    mut fields: Fields,
) -> Result<Response, Problem> {
    let priority = fields.integer("priority")?.unwrap_or_default();
    fields.finish(&["priority"])?;
    named(&name)?;
    if watched::wants_events(&headers) {
        // Whenever this call ends from here on, the candidacy does.
        let candidate = Candidate::new(&api.group, name);
        let connection = Some(candidate.connection.clone());
        let stood = api.group.stand_by(&candidate.election, priority, connection).await?;
        return watched::events(&api, stood.election, candidate);
    }
    let stood = api.group.stand(&name, priority).await?;
    let status = if stood.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(elections::present(&api, &stood.election))).into_response())
}

/// An application that stands for as long as its connection lasts.
struct Candidate {
    group: Group,
    election: String,
    connection: Connection,
}

impl Candidate {
    fn new(group: &Group, election: String) -> Self {
        Self { group: group.clone(), election, connection: Connection::default() }
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.group.hung_up(std::mem::take(&mut self.election), self.connection.clone());
    }
}

/// Stands no longer, and gives the lead up. Done again it does nothing.
#[utoipa::path(
    delete,
    path = "/v1/elections/{election}/candidacy",
    operation_id = "deleteCandidacy",
    tag = "elections",
    params(
        ("election" = String, Path, description = "One that the resource lists, other than `default`.")
    ),
    responses(
        (status = 204, description = "It does not stand, and does not lead."),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 403, description = "`not-allowed`", body = ProblemBody),
        (status = 404, description = "`not-found`", body = ProblemBody)
    )
)]
pub(super) async fn delete_candidacy(
    State(api): State<Api>,
    Path(name): Path<String>,
    QueryFields(query): QueryFields,
) -> Result<StatusCode, Problem> {
    query.finish(&[])?;
    named(&name)?;
    if api.group.withdraw(&name).await {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(AskError::NoElection.into())
    }
}

/// The members of the group are the candidates of the other one.
fn named(name: &str) -> Result<(), Problem> {
    if name == elections::NAME {
        let detail = "every member stands in `default`, which nominates the leader of the group";
        return Err(Problem::new(ProblemType::NotAllowed, detail));
    }
    Ok(())
}
