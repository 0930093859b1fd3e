//! The page of `conclave dev`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;

use super::member::Members;

/// The page and what it asks for.
pub(super) fn router(members: Arc<Members>) -> Router {
    Router::new().route("/", get(page)).with_state(members)
}

async fn page(State(members): State<Arc<Members>>) -> String {
    format!("{} members for {} ms", members.count(), members.journal.age_ms())
}
