//! The last entry into a lock, which the page draws.

use axum::Json;
use axum::extract::{Path, State};

use super::super::chronicle::Entry;
use super::Page;
use super::actions::{Refused, lock_name, no_such};
use crate::os_clock::OsClock;

/// The last entry that has ended; while there is none, the one that goes on.
pub(super) async fn last(
    State(page): State<Page>,
    Path(lock): Path<String>,
) -> Result<Json<Entry>, Refused> {
    let lock = lock_name(lock)?;
    let entry = page.members.chronicle.entry(&lock, OsClock::default().now());
    entry.map(Json).ok_or_else(|| no_such("entry"))
}
