//! What a caller may do.

use conclave_protocols::by_variant;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};

use super::described::operations;
use super::routes;

/// What a token is good for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Scope {
    /// Locks, elections, the time and logical clocks: what an application works with.
    Use,
    /// The members, the status and the description of the API.
    Inspect,
    /// Everything.
    Admin,
}

impl Scope {
    by_variant! {
        /// Its name in a file of tokens.
        pub fn name -> &'static str {
            Use => "use",
            Inspect => "inspect",
            Admin => "admin",
        }
    }

    /// Whether it admits where `needed` is asked for. `use` and `inspect` have nothing in common.
    pub fn covers(self, needed: Self) -> bool {
        self == needed || self == Self::Admin
    }
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
        let scope = routes::needed(route).name();
        for operation in operations(item) {
            let needed = SecurityRequirement::new(SCHEME, [scope]);
            operation.security = Some(vec![SecurityRequirement::default(), needed]);
        }
    }
}

const SCHEME: &str = "token";
