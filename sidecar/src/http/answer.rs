//! An answer in JSON.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// What is sent as JSON, with a line's end after it: the prompt of a shell comes below it.
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        // Our views are plain data: they always have a JSON form.
        let mut text = Vec::with_capacity(USUAL);
        if serde_json::to_writer(&mut text, &self.0).is_err() {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        text.push(b'\n');
        let mut response = Response::new(Body::from(text));
        let headers = response.headers_mut();
        headers.reserve(HEADERS);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// Bytes for which there is room at first: most answers have fewer.
const USUAL: usize = 768;

/// Headers for which there is room at first: every answer has fewer.
const HEADERS: usize = 12;
