//! What the document states of many calls alike: the media type of problems, what goes along in headers, and what names
//! look like.

use utoipa::openapi::header::Header;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn, PathItem};
use utoipa::openapi::{
    ContentBuilder, Object, OpenApi, Ref, RefOr, Response, ResponseBuilder, Schema, Type,
};

use super::problem_type::ProblemType;

/// Adds all that to a document that has the routes.
pub(super) fn describe(document: &mut OpenApi) {
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        for parameter in operation.parameters.iter_mut().flatten() {
            if let RefOr::T(parameter) = parameter {
                bound(parameter);
            }
        }
        let id = operation.operation_id.clone().unwrap_or_default();
        let responses = &mut operation.responses.responses;
        for (status, response) in &mut *responses {
            let RefOr::T(response) = response else { continue };
            describe_problem(response);
            if ABOUT_A_CLAIM.contains(&(id.as_str(), status.as_str())) || shows(response, "Claim") {
                add(response, &CLAIM);
            }
            if shows(response, "Time") {
                add(response, &TIME);
            }
        }
        let any_other = Ref::from_response_name(PROBLEM);
        responses.insert("default".to_owned(), RefOr::Ref(any_other));
    }
    let components = document.components.get_or_insert_default();
    components.responses.insert(PROBLEM.to_owned(), RefOr::T(any_other()));
}

/// The operations of a path.
pub(super) fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, options, head, patch, trace, .. } = item;
    [get, put, post, delete, options, head, patch, trace].into_iter().flatten()
}

/// The problems that a description names.
pub(super) fn problems(description: &str) -> impl Iterator<Item = ProblemType> {
    let names = description.split('`').skip(1).step_by(2);
    names.filter_map(|name| ProblemType::ALL.into_iter().find(|kind| kind.row().name == name))
}

fn describe_problem(response: &mut Response) {
    if !shows(response, PROBLEM) {
        return;
    }
    let content = std::mem::take(&mut response.content);
    response.content =
        content.into_values().map(|content| (PROBLEM_MEDIA.to_owned(), content)).collect();
    if problems(&response.description).any(|kind| kind.row().retryable) {
        add(response, &[RETRY_AFTER]);
    }
}

fn any_other() -> Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(PROBLEM))).build();
    let description = "Any other problem, such as `unauthorized` (401), `forbidden` (403), \
        `request-timeout` (408), `body-too-large` (413) or `unsupported-media-type` (415).";
    let mut other = ResponseBuilder::new().description(description).content(PROBLEM_MEDIA, content);
    other = other.header(CHALLENGE.name, CHALLENGE.into());
    other.build()
}

/// Whether an answer has that schema.
fn shows(response: &Response, schema: &str) -> bool {
    let location = Ref::from_schema_name(schema).ref_location;
    response.content.values().any(|content| match content {
        RefOr::T(content) => {
            matches!(&content.schema, Some(RefOr::Ref(shown)) if shown.ref_location == location)
        }
        RefOr::Ref(_) => false,
    })
}

/// States how long the name in a path may be, and of what it is made.
fn bound(parameter: &mut Parameter) {
    let name = NAMES.iter().find(|name| name.parameter == parameter.name);
    let (Some(name), ParameterIn::Path) = (name, &parameter.parameter_in) else { return };
    if let Some(RefOr::T(Schema::Object(schema))) = &mut parameter.schema {
        schema.min_length = Some(1);
        schema.max_length = Some(name.max_length);
        schema.pattern = Some(name.pattern.to_owned());
    }
}

fn add(response: &mut Response, headers: &[Sent]) {
    for header in headers {
        response.headers.insert(header.name.to_owned(), RefOr::T((*header).into()));
    }
}

/// A header that goes along with an answer.
#[derive(Clone, Copy)]
struct Sent {
    name: &'static str,
    kind: Kind,
    description: &'static str,
}

#[derive(Clone, Copy)]
enum Kind {
    Number,
    Text,
}

impl From<Sent> for Header {
    fn from(Sent { kind, description, .. }: Sent) -> Self {
        let mut header = Self::new(Object::with_type(match kind {
            Kind::Number => Type::Integer,
            Kind::Text => Type::String,
        }));
        header.description = Some(description.to_owned());
        header
    }
}

const fn number(name: &'static str, description: &'static str) -> Sent {
    Sent { name, kind: Kind::Number, description }
}

const fn text(name: &'static str, description: &'static str) -> Sent {
    Sent { name, kind: Kind::Text, description }
}

/// What goes along with a claim. All but the first are there only while it is held.
const CLAIM: [Sent; 7] = [
    text("Location", "The path of the claim."),
    text("ETag", "Its token, in quotes."),
    number("Conclave-Fencing-Token", "Its token, below 2^53; none with arbiter `None`."),
    number("Conclave-Epoch", "The view that granted it, below 2^53."),
    number("Conclave-Safe-For-Ms", "For how long it is safe: for people."),
    text("Conclave-Safe-Until-Boottime-Ns", "As `safe_until_boottime_ns` of a claim."),
    text("Conclave-Safe-Until-Monotonic-Ns", "As `safe_until_monotonic_ns` of a claim."),
];

/// Answers about a claim that do not have it as JSON.
const ABOUT_A_CLAIM: [(&str, &str); 2] = [("checkClaim", "204"), ("claimLock", "200")];

const TIME: [Sent; 3] = [
    text("Conclave-Time-Ns", "As `time_ns`."),
    number("Conclave-Time-Error-Bound-Ns", "As `error_bound_ns`; not while `unknown`."),
    text("Conclave-Time-Status", "As `status`."),
];

const RETRY_AFTER: Sent =
    number("Retry-After", "When to try again, in seconds; where the problem is `retryable`.");

const CHALLENGE: Sent = text("WWW-Authenticate", "What a token is needed for (RFC 6750).");

/// What a name in a path looks like once it is decoded. `.` and `..` are none, since a URL cannot have them.
struct Name {
    parameter: &'static str,
    max_length: usize,
    pattern: &'static str,
}

const NAMES: [Name; 3] = [
    Name { parameter: "name", max_length: 253, pattern: r"^[^\u0000-\u001f\u007f-\u009f]+$" },
    Name { parameter: "claim", max_length: 128, pattern: r"^[A-Za-z0-9._~-]+$" },
    Name { parameter: "election", max_length: 63, pattern: r"^[a-z0-9-]+$" },
];

const PROBLEM: &str = "Problem";

/// How problems are sent (RFC 9457).
pub(super) const PROBLEM_MEDIA: &str = "application/problem+json";
