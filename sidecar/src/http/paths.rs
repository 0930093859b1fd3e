//! The names in a path. Each is one segment: a `/` in a lock's name is written `%2F`.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use conclave_protocols::LockName;

use super::Api;
use super::problem::Problem;
use crate::claims::ClaimId;
use crate::clocks::ClockName;

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

/// The logical clock that a path names.
#[derive(Clone, Debug)]
pub(super) struct ClockPath(pub(super) ClockName);

impl FromRequestParts<Api> for LockPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, api).await;
        let Path(name) = path.map_err(|error| Problem::invalid("name", error.body_text()))?;
        lock(name).map(Self)
    }
}

impl FromRequestParts<Api> for ClockPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, api).await;
        let Path(name) = path.map_err(|error| Problem::invalid("name", error.body_text()))?;
        let name = ClockName::new(name);
        name.map(Self).ok_or_else(|| Problem::invalid("name", ClockName::EXPECTED))
    }
}

impl FromRequestParts<Api> for ClaimPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, api).await;
        let Path((name, claim)) =
            path.map_err(|error| Problem::invalid("path", error.body_text()))?;
        let claim = ClaimId::try_from(claim).map_err(|_| Problem::invalid("claim", CLAIM))?;
        Ok(Self { lock: lock(name)?, claim })
    }
}

fn lock(name: String) -> Result<LockName, Problem> {
    // Clients take such a segment out of a path, also one that is written `%2E%2E`.
    if [".", ".."].contains(&name.as_str()) {
        return Err(Problem::invalid(
            "name",
            "another name than `.` and `..`, which a URL cannot have",
        ));
    }
    LockName::try_from(name).map_err(|error| {
        let expected = format!("1 to 253 bytes without control characters ({error})");
        Problem::invalid("name", expected)
    })
}

/// What a path may have meant that is none, if the name of its lock has a `/`.
pub(super) fn escaped(path: &str) -> Option<String> {
    let segments: Vec<&str> = path.strip_prefix("/v1/locks/")?.split('/').collect();
    let after_name = match segments.as_slice() {
        [_, .., "claims", _, "renew" | "check"] => 3,
        [_, .., "claims", _] => 2,
        _ => 0,
    };
    let (name, rest) = segments.split_at(segments.len() - after_name);
    let is_split = name.len() > 1 && name.iter().all(|part| !part.is_empty());
    is_split.then(|| {
        let name = name.join("%2F");
        let whole: Vec<&str> = [name.as_str()].into_iter().chain(rest.iter().copied()).collect();
        format!("/v1/locks/{}", whole.join("/"))
    })
}

/// What a claim's name looks like.
const CLAIM: &str = "1 to 128 of A-Z a-z 0-9 . _ ~ -, and another name than `.` and `..`";
