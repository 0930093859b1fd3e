//! What a request says: its body and its query, read once, checked field by field.

use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use conclave_crds::Period;
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use serde_json::{Map, Value};

use super::object::{self, ObjectError};
use super::problem::Problem;
use super::problem_type::ProblemType;
use super::{Api, Limits, query};

/// The fields of a request, by name. A field is taken once; one that nobody takes is unknown.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    values: Map<String, Value>,
}

/// The fields of a query alone, for requests without a body.
#[derive(Clone, Debug, Default)]
pub(super) struct QueryFields(pub(super) Fields);

impl Fields {
    /// A text.
    pub(super) fn text(&mut self, name: &str, expected: &str) -> Result<Option<String>, Problem> {
        match self.values.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Problem::invalid(name, expected)),
        }
    }

    /// A text of one line, such as a name.
    pub(super) fn line(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let expected = "1 to 253 bytes of text without control characters";
        let text = self.text(name, expected)?;
        let fits =
            |text: &String| (1..=253).contains(&text.len()) && !text.chars().any(char::is_control);
        match text {
            Some(text) if !fits(&text) => Err(Problem::invalid(name, expected)),
            text => Ok(text),
        }
    }

    /// A length of time.
    pub(super) fn duration(&mut self, name: &str) -> Result<Option<Duration>, Problem> {
        let text = self.text(name, DURATION)?;
        text.map(|text| duration(&text).ok_or_else(|| Problem::invalid(name, DURATION))).transpose()
    }

    /// A length of time that is not zero.
    pub(super) fn positive_duration(&mut self, name: &str) -> Result<Option<Duration>, Problem> {
        match self.duration(name)? {
            Some(Duration::ZERO) => Err(Problem::invalid(name, format!("{DURATION}, not zero"))),
            duration => Ok(duration),
        }
    }

    /// A whole number.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<u64>, Problem> {
        let number = match self.values.remove(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text.parse().ok(),
            Some(value) => value.as_u64(),
        };
        number.map(Some).ok_or_else(|| Problem::invalid(name, "a whole number"))
    }

    /// A whole number that may be below zero.
    pub(super) fn integer(&mut self, name: &str) -> Result<Option<i32>, Problem> {
        let number = match self.values.remove(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text.parse().ok(),
            Some(value) => value.as_i64().and_then(|number| i32::try_from(number).ok()),
        };
        let expected = "a whole number from -2147483648 to 2147483647";
        number.map(Some).ok_or_else(|| Problem::invalid(name, expected))
    }

    /// A moment or a length of time in nanoseconds, of a query: as text, since it does not fit a JSON number.
    pub(super) fn nanoseconds(&mut self, name: &str) -> Result<Option<i64>, Problem> {
        let text = self.text(name, NANOSECONDS)?;
        let number = |text: String| text.parse().map_err(|_| Problem::invalid(name, NANOSECONDS));
        text.map(number).transpose()
    }

    /// A JSON object of at most `limit` bytes, as text.
    pub(super) fn object(&mut self, name: &str, limit: usize) -> Result<Option<String>, Problem> {
        match self.values.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(object)) => {
                let text = Value::Object(object).to_string();
                let fits = text.len() <= limit;
                fits.then_some(Some(text)).ok_or_else(|| wrong_object(name, limit))
            }
            Some(_) => Err(wrong_object(name, limit)),
        }
    }

    /// Any value, for a caller that looks at it.
    pub(super) fn any(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name)
    }

    /// Refuses these, which are for another call.
    pub(super) fn without(&self, names: &[&str], expected: &str) -> Result<(), Problem> {
        match names.iter().find(|name| self.values.contains_key(**name)) {
            Some(name) => Err(Problem::invalid(name, expected)),
            None => Ok(()),
        }
    }

    /// Refuses what nobody took.
    pub(super) fn finish(self, known: &[&str]) -> Result<(), Problem> {
        match self.values.keys().next() {
            None => Ok(()),
            Some(name) if known.is_empty() => Err(Problem::invalid(name, "no parameters here")),
            Some(name) => {
                Err(Problem::invalid(name, format!("one of the names {}", known.join(", "))))
            }
        }
    }

    fn from_query(parts: &Parts) -> Result<Self, Problem> {
        let mut fields = Self::default();
        for (name, value) in query::parameters(parts.uri.query().unwrap_or_default())? {
            fields.add(name, Value::String(value))?;
        }
        Ok(fields)
    }

    fn add(&mut self, name: String, value: Value) -> Result<(), Problem> {
        if self.values.contains_key(&name) {
            return Err(Problem::invalid(&name, ONCE));
        }
        self.values.insert(name, value);
        Ok(())
    }
}

impl FromRequest<Api> for Fields {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let mut fields = Self::from_query(&parts)?;
        if body.is_end_stream() {
            return Ok(fields);
        }
        let body = read(body, &api.limits).await?;
        if body.is_empty() {
            return Ok(fields);
        }
        check_type(&parts.headers)?;
        for (name, value) in object::read(&body)? {
            fields.add(name, value)?;
        }
        Ok(fields)
    }
}

/// A body must say that it is JSON, which no form can say. Where there is none, the type is that of nothing.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let is_json = |value: &HeaderValue| {
        let media = value.to_str().ok().and_then(|value| value.split(';').next());
        media.is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
    };
    if headers.contains_key(CONTENT_TYPE) && headers.get_all(CONTENT_TYPE).iter().all(is_json) {
        return Ok(());
    }
    let detail = "a body needs the header `Content-Type: application/json`";
    Err(Problem::new(ProblemType::UnsupportedMediaType, detail))
}

impl From<ObjectError> for Problem {
    fn from(error: ObjectError) -> Self {
        match error {
            ObjectError::Twice(name) => Self::invalid(&name, ONCE),
            ObjectError::Other(error) => Self::invalid("body", format!("a JSON object ({error})")),
        }
    }
}

impl FromRequestParts<Api> for QueryFields {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        Fields::from_query(parts).map(Self)
    }
}

/// Reads a length of time; a bare zero needs no unit.
pub(super) fn duration(text: &str) -> Option<Duration> {
    if text == "0" { Some(Duration::ZERO) } else { Period::new(text).duration().ok() }
}

async fn read(body: axum::body::Body, limits: &Limits) -> Result<Bytes, Problem> {
    let whole = Limited::new(body, limits.body_bytes).collect();
    match tokio::time::timeout(limits.body_time, whole).await {
        Err(_) => {
            let detail = format!("a body must be there within {:?}", limits.body_time);
            Err(Problem::new(ProblemType::RequestTimeout, detail))
        }
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(too_large(limits.body_bytes))
        }
        Ok(Err(_)) => Err(Problem::invalid("body", "a body that arrives whole")),
        Ok(Ok(body)) => Ok(body.to_bytes()),
    }
}

/// A body is larger than allowed.
pub(super) fn too_large(limit: usize) -> Problem {
    Problem::new(ProblemType::BodyTooLarge, format!("a body has at most {limit} bytes"))
}

fn wrong_object(name: &str, limit: usize) -> Problem {
    Problem::invalid(name, format!("a JSON object of at most {limit} bytes"))
}

/// How often a name stands in a request.
const ONCE: &str = "to be given once, in the body or in the query";

/// What a length of time looks like.
pub(super) const DURATION: &str = "a duration such as 30s, 500ms or 1m30s";

/// What a moment looks like.
pub(super) const NANOSECONDS: &str =
    "a whole number of nanoseconds from -9223372036854775808 to 9223372036854775807";
