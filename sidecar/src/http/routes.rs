//! Every route of the API.

use axum::Router;
use axum::routing::{MethodRouter, get, post, put};

use super::{
    Api, Scope, candidacy, claim, clocks, elections, lock_view, locks, members, openapi, time,
    time_compare, time_history, time_peers, time_wait,
};

/// A path, the scope that it needs, and the handlers of its methods.
type Route = (&'static str, Scope, fn() -> MethodRouter<Api>);

/// Each of them.
#[rustfmt::skip] // One route, one line.
const ROUTES: [Route; 24] = [
    ("/v1/locks", Scope::Use, || get(lock_view::list_locks)),
    ("/v1/locks/{name}", Scope::Use, || get(lock_view::get_lock).post(locks::claim_lock)),
    ("/v1/locks/{name}/claims/{claim}", Scope::Use,
        || put(locks::put_claim).get(claim::get_claim).delete(claim::release_claim)),
    ("/v1/locks/{name}/claims/{claim}/renew", Scope::Use, || post(claim::renew_claim)),
    ("/v1/locks/{name}/claims/{claim}/check", Scope::Use, || get(claim::check_claim)),
    ("/v1/elections", Scope::Use, || get(elections::list_elections)),
    ("/v1/elections/{election}", Scope::Use, || get(elections::get_election)),
    ("/v1/elections/{election}/self", Scope::Use, || get(elections::is_leader)),
    ("/v1/elections/{election}/candidacy", Scope::Use,
        || put(candidacy::put_candidacy).delete(candidacy::delete_candidacy)),
    ("/v1/elections/{election}/resign", Scope::Use, || post(candidacy::resign)),
    ("/v1/elections/{election}/transfer", Scope::Admin, || post(candidacy::transfer)),
    ("/v1/time", Scope::Use, || get(time::get_time)),
    ("/v1/time/compare", Scope::Use, || get(time_compare::compare_times)),
    ("/v1/time/history", Scope::Use, || get(time_history::list_time_changes)),
    ("/v1/time/wait", Scope::Use, || get(time_wait::wait_for_time)),
    ("/v1/time/peers", Scope::Inspect, || get(time_peers::list_time_peers)),
    ("/v1/clocks/compare", Scope::Use, || post(clocks::compare)),
    ("/v1/clocks", Scope::Use, || get(clocks::list_clocks)),
    ("/v1/clocks/{name}", Scope::Use, || get(clocks::get_clock).delete(clocks::delete_clock)),
    ("/v1/clocks/{name}/tick", Scope::Use, || post(clocks::tick)),
    ("/v1/clocks/{name}/receive", Scope::Use, || post(clocks::receive)),
    ("/v1/members", Scope::Inspect, || get(members::list_members)),
    ("/v1/status", Scope::Inspect, || get(members::get_status)),
    ("/openapi.json", Scope::Inspect, || get(openapi::get_document)),
];

/// All of them.
pub(super) fn router() -> Router<Api> {
    ROUTES.iter().fold(Router::new(), |router, (path, _, handlers)| router.route(path, handlers()))
}

/// The scope that a path needs, by its template; none for one that is not in the list.
pub(super) fn listed(path: &str) -> Option<Scope> {
    ROUTES.iter().find(|(listed, ..)| *listed == path).map(|(_, scope, _)| *scope)
}

/// The scope that a path needs. One that is not in the list needs all.
pub(super) fn needed(path: &str) -> Scope {
    listed(path).unwrap_or(Scope::Admin)
}
