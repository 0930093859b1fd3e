//! The names in a path. Each is one segment: a `/` in a lock's name is written `%2F`.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use conclave_protocols::LockName;

use super::Api;
use super::problem::Problem;
use crate::claims::ClaimId;

/// The lock that a path names.
#[derive(Clone, Debug)]
pub(super) struct LockPath(pub(super) LockName);

/// The claim that a path names.
#[derive(Clone, Debug)]
pub(super) struct ClaimPath {
    /// Its lock.
    pub(super) lock: LockName,
    /// Its name.
    pub(super) claim: ClaimId,
}

impl FromRequestParts<Api> for LockPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, api).await;
        let Path(name) = path.map_err(|error| Problem::invalid("name", error.body_text()))?;
        lock(name).map(Self)
    }
}

impl FromRequestParts<Api> for ClaimPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, api).await;
        let Path((name, claim)) =
            path.map_err(|error| Problem::invalid("path", error.body_text()))?;
        let claim = ClaimId::try_from(claim)
            .map_err(|_| Problem::invalid("claim", "1 to 128 of A-Z a-z 0-9 . _ ~ -"))?;
        Ok(Self { lock: lock(name)?, claim })
    }
}

fn lock(name: String) -> Result<LockName, Problem> {
    LockName::try_from(name).map_err(|error| {
        let expected = format!("1 to 253 bytes without control characters ({error})");
        Problem::invalid("name", expected)
    })
}
