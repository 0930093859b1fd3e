//! The API on localhost, for applications.
//!
//! It turns text into types and awaits answers of the group task, or steps a logical clock, which asks nobody. It
//! decides nothing.

mod answer;
mod around;
mod candidacy;
mod claim;
mod claim_view;
mod clocks;
mod described;
mod elections;
mod fields;
mod guard;
mod hold;
mod leader_elector;
mod listeners;
mod lock_view;
mod locks;
mod members;
mod object;
mod openapi;
mod paths;
mod problem;
mod problem_type;
mod query;
mod routes;
mod safety;
mod scope;
mod server;
mod stamps;
mod time;
mod time_compare;
mod time_history;
mod time_peers;
mod time_wait;
mod tokens;
mod trail;
mod unread;
mod watched;

pub(crate) use guard::{is_from_page, names_an_address};
pub use leader_elector::LeaderElector;
pub use listeners::{ListenError, Listeners, listen};
pub use openapi::document;
pub use problem_type::{ProblemType, Row};
pub use scope::Scope;
#[cfg(feature = "fuzzing")]
pub(crate) use server::serve_one;
pub use server::{Limits, Via, serve_router};
pub use tokens::{TokenFile, TokenFileError};

use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use axum::http::Uri;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tower::layer::layer_fn;

use crate::clocks::SharedClocks;
use crate::group::Group;
use crate::metrics::Metrics;
use around::Around;
use problem::Problem;
use time_history::TimeHistory;
use trail::Trails;

/// What every handler has. Each layer of a call clones it, and takes one count.
#[derive(Clone)]
pub struct Api(Arc<Parts>);

/// What an API consists of.
pub struct Parts {
    group: Group,
    metrics: Metrics,
    limits: Limits,
    long_calls: Arc<Semaphore>,
    /// One list of locks is made at a time.
    lists: tokio::sync::Mutex<()>,
    trails: Trails,
    clocks: SharedClocks,
    /// How the group clock stood; kept while the API is served.
    history: watch::Sender<TimeHistory>,
    tokens: Option<TokenFile>,
}

impl Deref for Api {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Api {
    /// The API of one group: for everybody who reaches it, or for those alone who have a token, if there is
    /// a file of them.
    pub(crate) fn new(
        group: Group,
        clocks: SharedClocks,
        metrics: Metrics,
        limits: Limits,
        tokens: Option<TokenFile>,
    ) -> Self {
        let long_calls = Arc::new(Semaphore::new(limits.long_calls));
        let trails = Trails::default();
        let history = watch::Sender::new(TimeHistory::new(*group.life.borrow()));
        Self(Arc::new(Parts {
            group,
            metrics,
            limits,
            long_calls,
            lists: tokio::sync::Mutex::default(),
            trails,
            clocks,
            history,
            tokens,
        }))
    }

    /// What is missing before locks can be asked for.
    fn missing(&self) -> Option<String> {
        self.group.status.borrow().missing.clone()
    }

    /// Leave to wait or to stream.
    fn long_call(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let permit = Arc::clone(&self.long_calls).try_acquire_owned();
        permit.map_err(|_| {
            let detail = format!("at most {} calls wait or stream", self.limits.long_calls);
            Problem::new(ProblemType::QueueFull, detail)
        })
    }
}

/// Serves the API until `shutdown`, to whom the listeners take calls from.
pub(crate) async fn serve(
    listeners: Listeners,
    group: Group,
    clocks: SharedClocks,
    metrics: Metrics,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let tokens = listeners.tokens().cloned();
    let api = Api::new(group, clocks, metrics, limits, tokens);
    let served = serve_router(listeners, router(api.clone()), limits, shutdown);
    tokio::select! {
        () = served => {}
        never = time_history::follow(api) => match never {},
    }
}

/// The routes, within their guard.
pub fn router(api: Api) -> Router {
    guarded(routes::router().fallback(not_found), &api).with_state(api)
}

/// What stands around all routes, of every port that applications call.
fn guarded<S: Clone + Send + Sync + 'static>(router: Router<S>, api: &Api) -> Router<S> {
    let api = api.clone();
    router
        .method_not_allowed_fallback(method_not_allowed)
        .layer(layer_fn(move |route| Around { api: api.clone(), route }))
}

async fn not_found(uri: Uri) -> Problem {
    let hint = paths::escaped(uri.path()).map_or_else(String::new, |path| {
        let path = problem::shortened(&path);
        format!(": a `/` in the name of a lock is written `%2F`, as in {path}")
    });
    let detail = format!("there is no such path{hint}; GET /openapi.json lists them");
    Problem::new(ProblemType::NotFound, detail)
}

async fn method_not_allowed() -> Problem {
    Problem::new(ProblemType::MethodNotAllowed, "see the header `Allow`")
}

#[cfg(any(test, feature = "fuzzing"))]
#[cfg_attr(
    not(test),
    expect(
        dead_code,
        reason = "fuzzing needs the group that is played, not all that tests do with it"
    )
)]
pub(crate) mod tests;
