//! What goes wrong with a request for a certificate, as RFC 9457 has it.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// A problem, as an answer.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{detail}")]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    pub(crate) detail: String,
}

/// The types of problems.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// The request is not understood.
    Invalid,
    /// The token proves nothing.
    Unauthenticated,
    /// The pod is not what it would have to be.
    Forbidden,
    /// There is no such group.
    NoGroup,
    /// It may work later.
    Unavailable,
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }
}

impl Kind {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NoGroup => StatusCode::NOT_FOUND,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Invalid => ("invalid", "The request is not understood"),
            Self::Unauthenticated => ("unauthenticated", "The token proves nothing"),
            Self::Forbidden => ("forbidden", "The pod may not have this certificate"),
            Self::NoGroup => ("no-group", "There is no such group"),
            Self::Unavailable => ("unavailable", "Certificates cannot be issued now"),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (name, title) = self.kind.texts();
        let body = json!({
            "type": format!("https://conclave.dev/problems/{name}"),
            "title": title,
            "status": self.kind.status().as_u16(),
            "detail": self.detail,
        });
        let mut response = (self.kind.status(), body.to_string()).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }
}
