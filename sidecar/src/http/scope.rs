//! What a caller may do, by the route that it takes.

use utoipa::openapi::OpenApi;
use utoipa::openapi::path::PathItem;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};

/// What a token is good for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Scope {
    /// Locks, elections and the time: what an application works with.
    Use,
    /// The members, the status and the description of the API.
    Inspect,
    /// Everything.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Use, Self::Inspect, Self::Admin];

    /// Its name in a file of tokens.
    pub fn name(self) -> &'static str {
        match self {
            Self::Use => "use",
            Self::Inspect => "inspect",
            Self::Admin => "admin",
        }
    }

    /// The scope that a route needs, by the route's template. One that is not listed needs all.
    pub fn of_route(route: &str) -> Self {
        listed(route).unwrap_or(Self::Admin)
    }

    /// Whether it admits where `needed` is asked for. `use` and `inspect` have nothing in common.
    pub fn covers(self, needed: Self) -> bool {
        self == needed || self == Self::Admin
    }
}

/// The scope that the list gives a route.
pub(super) fn listed(route: &str) -> Option<Scope> {
    ROUTES.iter().find(|(listed, _)| *listed == route).map(|(_, scope)| *scope)
}

/// Says in the document what each route needs, where there is a file of tokens.
pub(super) fn describe(document: &mut OpenApi) {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token of the sidecar's file, if it has one. `admin` covers all."))
        .build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(SCHEME, SecurityScheme::Http(bearer));
    for (route, item) in &mut document.paths.paths {
        let scope = Scope::of_route(route).name();
        let PathItem { get, put, post, delete, options, head, patch, trace, .. } = item;
        let operations = [get, put, post, delete, options, head, patch, trace];
        for operation in operations.into_iter().flatten() {
            let needed = SecurityRequirement::new(SCHEME, [scope]);
            operation.security = Some(vec![SecurityRequirement::default(), needed]);
        }
    }
}

/// Every route, with what it needs.
#[rustfmt::skip] // One route, one line.
pub(super) const ROUTES: [(&str, Scope); 14] = [
    ("/v1/locks/{name}", Scope::Use),
    ("/v1/locks/{name}/claims/{claim}", Scope::Use),
    ("/v1/locks/{name}/claims/{claim}/renew", Scope::Use),
    ("/v1/locks/{name}/claims/{claim}/check", Scope::Use),
    ("/v1/elections", Scope::Use),
    ("/v1/elections/{election}", Scope::Use),
    ("/v1/elections/{election}/self", Scope::Use),
    ("/v1/elections/{election}/candidacy", Scope::Use),
    ("/v1/elections/{election}/resign", Scope::Use),
    ("/v1/elections/{election}/transfer", Scope::Admin),
    ("/v1/time", Scope::Use),
    ("/v1/members", Scope::Inspect),
    ("/v1/status", Scope::Inspect),
    ("/openapi.json", Scope::Inspect),
];

const SCHEME: &str = "token";
