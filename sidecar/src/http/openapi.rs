//! The OpenAPI document, which is made from the routes themselves.

use axum::Json;
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Api, candidacy, claim, elections, locks, members, scope, time};

/// What the document says besides the routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Conclave",
        description = "Coordination among the pods of a group, on localhost. \
            Tokens, epochs and indices are integers below 2^53. \
            Besides what each call lists, any may answer `unauthorized` (401), `forbidden` (403), \
            `request-timeout` (408), \
            `body-too-large` (413) or `unsupported-media-type` (415).",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    servers((url = "http://localhost:7070", description = "Both loopback addresses.")),
    tags(
        (name = "locks", description = "Claims on locks."),
        (name = "elections", description = "Who leads."),
        (name = "time", description = "The group clock."),
        (name = "group", description = "The group and this member.")
    )
)]
struct ApiDoc;

/// The routes, with what the document says about each.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(ApiDoc::openapi())
        .routes(routes!(locks::claim_lock))
        .routes(routes!(locks::put_claim, claim::get_claim, claim::release_claim))
        .routes(routes!(claim::renew_claim))
        .routes(routes!(claim::check_claim))
        .routes(routes!(elections::list_elections))
        .routes(routes!(elections::get_election))
        .routes(routes!(elections::is_leader))
        .routes(routes!(candidacy::put_candidacy, candidacy::delete_candidacy))
        .routes(routes!(candidacy::resign))
        .routes(routes!(candidacy::transfer))
        .routes(routes!(members::list_members))
        .routes(routes!(members::get_status))
        .routes(routes!(time::get_time))
        .routes(routes!(get_document))
}

/// The document.
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = routes().into_openapi();
    scope::describe(&mut document);
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
async fn get_document() -> Response {
    Json(document()).into_response()
}
