//! To stand in a named election, and to give the lead in any to another: `/v1/elections/{name}/candidacy`, `resign`
//! and `transfer`.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use conclave_protocols::member::{Candidacy, Profile};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::Api;
use super::answer::Json;
use super::elections::{self, ElectionView};
use super::fields::Fields;
use super::locks::METADATA_BYTES;
use super::problem::{Problem, ProblemBody};
use super::problem_type::ProblemType;
use super::trail;
use super::watched;
use crate::group::{Connection, Group, Keepalive, Stands};

/// What an application says about its candidacy. Every field may be left out; all but `metadata` may be query
/// parameters too.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CandidacyRequest)]
pub(super) struct CandidacyBody {
    /// The candidate of the highest priority is nominated, among equals the one of the highest rank. 0 if absent.
    #[schema(example = 10)]
    priority: Option<i32>,
    /// Where the application is reached, shown to all while it leads.
    #[schema(example = "10.1.2.3:8080")]
    address: Option<String>,
    /// Anything else that is shown to all while it leads; at most 2 KiB.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// `sidecar`: it stands and leads until it withdraws, or the sidecar ends. `connection`: for as long as this call's
    /// stream is open, which it is with `Accept: text/event-stream`. `client`: no longer than `ttl` after its latest
    /// call. If absent: `connection` with a stream, `client` with a `ttl`, `sidecar` otherwise.
    #[schema(example = "client")]
    keepalive: Option<String>,
    /// With `client`: how long.
    #[schema(example = "5s")]
    ttl: Option<String>,
}

/// The fields of [`CandidacyBody`].
const FIELDS: [&str; 5] = ["priority", "address", "metadata", "keepalive", "ttl"];

/// How a leader resigns. Every field may be left out, and may be a query parameter.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ResignRequest)]
pub(super) struct ResignBody {
    /// The candidate that is to lead next: its pod's name or UID.
    #[schema(example = "shop-1")]
    to: Option<String>,
    /// For how long the application is no candidate itself. 10s if absent.
    #[schema(example = "30s")]
    cooldown: Option<String>,
}

/// The candidate that is to lead. It may be a query parameter.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TransferRequest)]
pub(super) struct TransferBody {
    /// The candidate that is to lead next: its pod's name or UID.
    #[schema(example = "shop-1")]
    to: String,
}

/// Long enough that the next leader is found among the others.
const COOLDOWN: Duration = Duration::from_secs(10);

/// Stands in an election, or changes how.
///
/// The latest call decides. The sidecar renews the lead for as long as `keepalive` has it; with `Accept:
/// text/event-stream` the answer is a stream of every change.
#[utoipa::path(
    put,
    path = "/v1/elections/{election}/candidacy",
    operation_id = "putCandidacy",
    tag = "elections",
    params(
        ("election" = String, Path, description = "One that the resource lists, other than `default`."),
        ("priority" = Option<i32>, Query, description = "As in the body."),
        ("address" = Option<String>, Query, description = "As in the body."),
        ("keepalive" = Option<String>, Query, description = "As in the body."),
        ("ttl" = Option<String>, Query, description = "As in the body."),
        ("Last-Event-ID" = Option<String>, Header, description = "With a stream: the `id` of the event that the caller read last.")
    ),
    request_body(content = Option<CandidacyBody>, content_type = "application/json"),
    responses(
        (status = 200, description = "It stood before; or, with `Accept: text/event-stream`, the events of the election.",
            content((ElectionView = "application/json"), (String = "text/event-stream"))),
        (status = 201, description = "It stands from now on.", body = ElectionView),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 403, description = "`not-allowed`", body = ProblemBody),
        (status = 404, description = "`not-found`", body = ProblemBody),
        (status = 429, description = "`queue-full`", body = ProblemBody),
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
    let address = fields.line("address")?;
    let metadata = fields.object("metadata", METADATA_BYTES)?.map(Into::into);
    let streams = watched::wants_events(&headers);
    let keepalive = keepalive(&mut fields, streams)?;
    fields.finish(&FIELDS)?;
    named(&name)?;
    // Before anything changes: a caller that is turned away stands and leads as before.
    let permit = streams.then(|| api.long_call()).transpose()?;
    // Whenever this call ends from here on, a candidacy by its connection does.
    let candidate = match &keepalive {
        Keepalive::Connection(connection) => {
            Some(Candidate::new(&api.group, &name, connection.clone()))
        }
        Keepalive::Sidecar | Keepalive::Annotation | Keepalive::Client(_) => None,
    };
    let candidacy = Candidacy { priority, profile: Profile { address, metadata } };
    let stood = api.group.stand_as(&name, Stands { candidacy, keepalive }).await?;
    if let Some(permit) = permit {
        return Ok(trail::events(&api, stood.election, &headers, (candidate, permit)));
    }
    let status = if stood.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(elections::present(&api, &stood.election))).into_response())
}

fn keepalive(fields: &mut Fields, streams: bool) -> Result<Keepalive, Problem> {
    let expected = "`sidecar`, `client` with a `ttl`, or `connection` with the header \
                    `Accept: text/event-stream`";
    let keepalive = fields.text("keepalive", expected)?;
    let ttl = fields.positive_duration("ttl")?;
    match (keepalive.as_deref(), ttl) {
        (None | Some("client"), Some(ttl)) => Ok(Keepalive::Client(ttl)),
        (None | Some("connection"), None) if streams => {
            Ok(Keepalive::Connection(Connection::default()))
        }
        (None | Some("sidecar"), None) => Ok(Keepalive::Sidecar),
        (Some("sidecar" | "connection"), Some(_)) => {
            Err(Problem::invalid("ttl", "to go with `keepalive` `client` alone"))
        }
        (Some("client"), None) => {
            Err(Problem::invalid("ttl", "a duration such as 5s, with `keepalive` `client`"))
        }
        (Some(_), _) => Err(Problem::invalid("keepalive", expected)),
    }
}

/// An application that stands for as long as its connection lasts.
struct Candidate {
    group: Group,
    election: String,
    connection: Connection,
}

impl Candidate {
    fn new(group: &Group, election: &str, connection: Connection) -> Self {
        Self { group: group.clone(), election: election.to_owned(), connection }
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
    fields: Fields,
) -> Result<StatusCode, Problem> {
    fields.finish(&[])?;
    named(&name)?;
    api.group.withdraw(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives the lead up: the application has stopped. It stands again after the cooldown.
///
/// So it acknowledges a hand-over, too.
#[utoipa::path(
    post,
    path = "/v1/elections/{election}/resign",
    operation_id = "resign",
    tag = "elections",
    params(
        ("election" = String, Path, description = "`default` is the group's leadership; others are what the resource lists."),
        ("to" = Option<String>, Query, description = "As in the body."),
        ("cooldown" = Option<String>, Query, description = "As in the body.")
    ),
    request_body(content = Option<ResignBody>, content_type = "application/json"),
    responses(
        (status = 202, description = "It leads no longer; the next leader is being elected."),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 403, description = "`not-allowed`", body = ProblemBody),
        (status = 404, description = "`not-found`: no such election, or no such candidate", body = ProblemBody),
        (status = 409, description = "`not-leader`", body = ProblemBody),
        (status = 503, description = "`terminating`", body = ProblemBody)
    )
)]
pub(super) async fn resign(
    State(api): State<Api>,
    Path(name): Path<String>,
    mut fields: Fields,
) -> Result<StatusCode, Problem> {
    let to = fields.line("to")?;
    let cooldown = fields.duration("cooldown")?.unwrap_or(COOLDOWN);
    fields.finish(&["to", "cooldown"])?;
    api.group.resign(&name, to, cooldown).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Asks the leader, whichever member that is, to give the lead to a candidate.
///
/// The leader goes on until its application has stopped, or its deadline; if it does not answer, it leads on.
#[utoipa::path(
    post,
    path = "/v1/elections/{election}/transfer",
    operation_id = "transfer",
    tag = "elections",
    params(
        ("election" = String, Path, description = "`default` is the group's leadership; others are what the resource lists."),
        ("to" = Option<String>, Query, description = "As in the body.")
    ),
    request_body(content = Option<TransferBody>, content_type = "application/json"),
    responses(
        (status = 202, description = "The leader is asked."),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 403, description = "`not-allowed`", body = ProblemBody),
        (status = 404, description = "`not-found`: no such election, or no such candidate", body = ProblemBody),
        (status = 503, description = "`not-ready`, `terminating`", body = ProblemBody)
    )
)]
pub(super) async fn transfer(
    State(api): State<Api>,
    Path(name): Path<String>,
    mut fields: Fields,
) -> Result<StatusCode, Problem> {
    let to = fields.line("to")?;
    fields.finish(&["to"])?;
    let to = to.ok_or_else(|| Problem::invalid("to", "the name or the UID of a pod"))?;
    api.group.transfer(&name, to).await?;
    Ok(StatusCode::ACCEPTED)
}

/// The members of the group are the candidates of the other one.
fn named(name: &str) -> Result<(), Problem> {
    if name == elections::NAME {
        let detail = "every member stands in `default`, which nominates the leader of the group";
        return Err(Problem::new(ProblemType::NotAllowed, detail));
    }
    Ok(())
}
