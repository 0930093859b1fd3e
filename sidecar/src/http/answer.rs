//! An answer in JSON.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// What is sent as JSON, with a line's end after it: the prompt of a shell comes below it.
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        // Our views are plain data: they always have a JSON form.
        let Ok(mut text) = serde_json::to_vec(&self.0) else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        text.push(b'\n');
        ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response()
    }
}
