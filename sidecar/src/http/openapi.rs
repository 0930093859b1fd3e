//! The OpenAPI document, which is made from what stands above each handler.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;

use super::{
    candidacy, claim, clocks, described, elections, lock_view, locks, members, scope, stamps, time,
    time_compare, time_history, time_peers, time_wait,
};

/// What the document says besides the routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Conclave",
        description = "Coordination among the pods of a group, on localhost. \
            Tokens, epochs and indices are integers below 2^53. \
            A duration is text such as `30s`, `500ms` or `1m30s`. \
            A body is JSON, and may be absent wherever it is not required.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    paths(
        lock_view::list_locks,
        lock_view::get_lock,
        locks::claim_lock,
        locks::put_claim,
        claim::get_claim,
        claim::release_claim,
        claim::renew_claim,
        claim::check_claim,
        elections::list_elections,
        elections::get_election,
        elections::is_leader,
        candidacy::put_candidacy,
        candidacy::delete_candidacy,
        candidacy::resign,
        candidacy::transfer,
        members::list_members,
        members::get_status,
        time::get_time,
        time_wait::wait_for_time,
        time_compare::compare_times,
        time_history::list_time_changes,
        time_peers::list_time_peers,
        clocks::tick,
        clocks::receive,
        clocks::list_clocks,
        clocks::get_clock,
        clocks::delete_clock,
        clocks::compare,
        get_document,
    ),
    servers((url = "http://localhost:7070", description = "Both loopback addresses.")),
    tags(
        (name = "locks", description = "Claims on locks."),
        (name = "elections", description = "The leader of the group and of each named election."),
        (name = "time", description = "The group clock."),
        (name = "clocks", description = "Logical clocks of the application."),
        (name = "group", description = "The group and this member.")
    )
)]
struct ApiDoc;

/// The document as it is served. A sidecar does not make it anew: that took 0.8 MiB of its memory.
pub(super) const DOCUMENT: &str = include_str!("../../openapi.json");

/// Makes the document; a test compares the one that is served with it.
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = ApiDoc::openapi();
    scope::describe(&mut document);
    described::describe(&mut document);
    stamps::describe(&mut document);
    document
}

/// Shows this document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "getOpenApi",
    tag = "group",
    responses((status = 200, description = "OpenAPI 3.1", content_type = "application/json"))
)]
pub(super) async fn get_document() -> Response {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT).into_response()
}
