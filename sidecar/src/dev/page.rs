//! The page of `conclave dev`: who leads, who holds, what was sent, how a leader was elected and a lock
//! was got; and buttons to disturb it.
//!
//! The page is three kinds of files without a framework. A stream of snapshots feeds it, so that it
//! keeps no state of its own but what the visitor chose.

mod actions;
mod ballots;
mod entries;
mod events;
mod failover;
mod files;
mod guard;
mod observer;
mod snapshot;
mod stalls;

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, post};

use self::observer::Observer;
use super::PAGE;
use super::member::Members;

/// What the handlers share.
#[derive(Clone)]
struct Page {
    members: Arc<Members>,
    observer: Arc<Observer>,
}

/// The page and what it asks for.
pub(super) fn router(members: Arc<Members>) -> Router {
    let port = members.settings().base_port + PAGE;
    let observer = Arc::new(Observer::start(&members));
    files::routes()
        .route("/events", get(events::stream))
        .route("/locks/{lock}/entry", get(entries::last))
        .route("/elections/{election}/ballots/{number}", get(ballots::one))
        .route("/members/{number}/{action}", post(actions::on_member))
        .route("/members/{number}/locks/{lock}", post(actions::ask))
        .route("/members/{number}/locks/{lock}/{claim}", delete(actions::release))
        .route("/register/{action}", post(actions::on_register))
        .layer(axum::middleware::from_fn_with_state(port, guard::guard))
        .with_state(Page { members, observer })
}
