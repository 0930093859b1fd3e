//! The latest ballots of an election, which the page draws.

use axum::Json;
use axum::extract::{Path, State};

use super::super::elections::Diagram;
use super::Page;
use super::actions::{Refused, no_such};
use crate::os_clock::OsClock;

/// A ballot, by the number that the stream of snapshots has for it.
pub(super) async fn one(
    State(page): State<Page>,
    Path((election, number)): Path<(String, u64)>,
) -> Result<Json<Diagram>, Refused> {
    let now = OsClock::default().now();
    let diagram = page.members.elections.diagram(&election, number, now);
    diagram.map(Json).ok_or_else(|| no_such("ballot"))
}
