//! Logical clocks: the stamps of an application's events, and how two of them stand to each other.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use conclave_protocols::logical::{Order, ProcessId};
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::answer::Json;
use super::fields::{Fields, QueryFields};
use super::paths::ClockPath;
use super::problem::{Problem, ProblemBody};
use super::problem_type::ProblemType;
use super::stamps::{self, KINDS, StampView};
use crate::clocks::{ClockName, Event, Kind, Latest};

/// A logical clock of this pod after an event.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Clock)]
pub(super) struct ClockView {
    /// Its name.
    #[schema(example = "orders")]
    clock: String,
    /// Its kind: the one of its first event.
    #[schema(value_type = KindView)]
    kind: &'static str,
    /// Whose events it stamps: this pod, and a number that was drawn at the first event of this clock. Another clock
    /// has another, and so has this one after a restart of the sidecar.
    #[schema(example = "shop-0/5d3c90f20a41c7")]
    process: String,
    /// The stamp of the event, or of the latest one.
    stamp: StampView,
}

/// The logical clocks of this pod.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ClockList)]
pub(super) struct ClockList {
    /// Each of them, in the order of their names; 100 at most.
    clocks: Vec<ClockEntry>,
}

/// A logical clock of this pod.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ClockEntry)]
pub(super) struct ClockEntry {
    /// Its name.
    #[schema(example = "orders")]
    clock: String,
    /// Its kind.
    #[schema(value_type = KindView)]
    kind: &'static str,
    /// Whose events it stamps.
    #[schema(example = "shop-0/5d3c90f20a41c7")]
    process: String,
}

/// A kind of logical clocks.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = ClockKind)]
#[expect(dead_code, reason = "for the description of the API")]
enum KindView {
    /// One count for each process (Lamport 1978).
    Lamport,
    /// A count for each process that is known of (Fidge 1988, Mattern 1989).
    Vector,
    /// A Lamport clock near the group time (Kulkarni and others 2014).
    Hybrid,
}

/// What a client may say at an event of its own. It may be a query parameter too.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TickRequest)]
pub(super) struct TickBody {
    /// The kind of the clock. It must be stated at the first event.
    #[schema(value_type = Option<KindView>)]
    kind: Option<String>,
}

/// What a client says at the receipt of a message.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReceiveRequest)]
pub(super) struct ReceiveBody {
    /// The stamp that came with the message.
    stamp: StampView,
}

/// Two stamps of one kind.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CompareRequest)]
pub(super) struct CompareBody {
    /// The one.
    a: StampView,
    /// The other.
    b: StampView,
}

/// How two stamps stand to each other.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Comparison)]
pub(super) struct ComparisonView {
    /// The kind of both.
    #[schema(value_type = KindView)]
    kind: &'static str,
    /// How `a` stands to `b`.
    order: OrderView,
    /// Whether that is the order of the events: `before` means that `a` happened before `b`, by the course of one
    /// clock and the stamps that were received, between clocks of one pod too. True of `Vector` alone; else `before`
    /// shows only that `b` did not happen before `a`.
    exact: bool,
}

/// How one stamp stands to another.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = StampOrder)]
enum OrderView {
    /// It is less.
    Before,
    /// It is greater.
    After,
    /// It is the same.
    Equal,
    /// Neither: of `Vector` alone.
    Concurrent,
}

/// Steps a clock: an event of the application's own, or a sending.
///
/// The answer has the stamp of the event; a message that is sent carries it. The first event of a name begins its
/// clock, and states its kind.
#[utoipa::path(
    post,
    path = "/v1/clocks/{name}/tick",
    operation_id = "tickClock",
    tag = "clocks",
    params(
        ("name" = String, Path, description = "The clock: 1 to 253 bytes, `/` as `%2F`; not `.`, `..` or `compare`."),
        ("kind" = Option<KindView>, Query, description = "As in the body.")
    ),
    request_body(content = Option<TickBody>, content_type = "application/json"),
    responses(
        (status = 200, description = "The stamp of the event.", body = ClockView),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 409, description = "`kind-differs`, `clock-exhausted`", body = ProblemBody),
        (status = 429, description = "`too-many-clocks`", body = ProblemBody),
        (status = 503, description = "`time-unknown`: of a `Hybrid` clock.", body = ProblemBody)
    )
)]
pub(super) async fn tick(
    State(api): State<Api>,
    ClockPath(name): ClockPath,
    mut fields: Fields,
) -> Result<Response, Problem> {
    let kind = fields.text("kind", KINDS)?;
    let known = |kind: String| Kind::of_name(&kind).ok_or_else(|| Problem::invalid("kind", KINDS));
    let kind = kind.map(known).transpose()?;
    fields.finish(&["kind"])?;
    api.event(&name, &Event::Tick(kind))
}

/// Receives a stamp: the clock moves past it, and steps.
///
/// The answer has the stamp of the receipt, which is an event. A clock of a new name begins with it, of the stamp's
/// kind.
#[utoipa::path(
    post,
    path = "/v1/clocks/{name}/receive",
    operation_id = "receiveStamp",
    tag = "clocks",
    params(("name" = String, Path, description = "The clock.")),
    request_body(content = ReceiveBody, content_type = "application/json"),
    responses(
        (status = 200, description = "The stamp of the receipt.", body = ClockView),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 409, description = "`kind-differs`, `stamp-ahead`, `clock-exhausted`, `vector-full`",
            body = ProblemBody),
        (status = 429, description = "`too-many-clocks`", body = ProblemBody),
        (status = 503, description = "`time-unknown`: of a `Hybrid` clock.", body = ProblemBody)
    )
)]
pub(super) async fn receive(
    State(api): State<Api>,
    ClockPath(name): ClockPath,
    mut fields: Fields,
) -> Result<Response, Problem> {
    let stamp = stamps::read("stamp", fields.any("stamp"))?;
    fields.finish(&["stamp"])?;
    api.event(&name, &Event::Receive(stamp))
}

/// Lists the logical clocks of this pod.
#[utoipa::path(
    get,
    path = "/v1/clocks",
    operation_id = "listClocks",
    tag = "clocks",
    responses(
        (status = 200, description = "All that had an event.", body = ClockList),
        (status = 400, description = "`invalid`", body = ProblemBody)
    )
)]
pub(super) async fn list_clocks(
    State(api): State<Api>,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    query.finish(&[])?;
    let entry = |(name, kind, process): (&ClockName, Kind, &ProcessId)| ClockEntry {
        clock: name.as_str().to_owned(),
        kind: kind.name(),
        process: process.to_string(),
    };
    let clocks = api.clocks.lock().all().map(entry).collect();
    Ok(Json(ClockList { clocks }).into_response())
}

/// Forgets a clock, so that another can begin. Done again it does nothing.
///
/// Stamps that it gave stay good for comparison. A clock that begins under its name is another process.
#[utoipa::path(
    delete,
    path = "/v1/clocks/{name}",
    operation_id = "deleteClock",
    tag = "clocks",
    params(("name" = String, Path, description = "The clock.")),
    responses(
        (status = 204, description = "There is no such clock at this pod any more."),
        (status = 400, description = "`invalid`", body = ProblemBody)
    )
)]
pub(super) async fn delete_clock(
    State(api): State<Api>,
    ClockPath(name): ClockPath,
    fields: Fields,
) -> Result<StatusCode, Problem> {
    fields.finish(&[])?;
    let mut clocks = api.clocks.lock();
    if clocks.remove(&name) {
        for kind in Kind::ALL {
            api.metrics.logical.counted(kind, &clocks);
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Shows the stamp of the latest event of a clock. That is no event.
#[utoipa::path(
    get,
    path = "/v1/clocks/{name}",
    operation_id = "getClock",
    tag = "clocks",
    params(("name" = String, Path, description = "The clock.")),
    responses(
        (status = 200, description = "The latest stamp.", body = ClockView),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 404, description = "`not-found`: it had no event yet.", body = ProblemBody)
    )
)]
pub(super) async fn get_clock(
    State(api): State<Api>,
    ClockPath(name): ClockPath,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    query.finish(&[])?;
    let latest = api.clocks.lock().latest(&name).ok_or_else(|| {
        Problem::new(ProblemType::NotFound, "the clock has had no event in this process")
    })?;
    Ok(Json(ClockView::new(&name, &latest)).into_response())
}

/// Compares two stamps of one kind, whichever members they are of. No clock steps.
#[utoipa::path(
    post,
    path = "/v1/clocks/compare",
    operation_id = "compareStamps",
    tag = "clocks",
    request_body(content = CompareBody, content_type = "application/json"),
    responses(
        (status = 200, description = "How `a` stands to `b`.", body = ComparisonView),
        (status = 400, description = "`invalid`", body = ProblemBody)
    )
)]
pub(super) async fn compare(mut fields: Fields) -> Result<Response, Problem> {
    let a = stamps::read("a", fields.any("a"))?;
    let b = stamps::read("b", fields.any("b"))?;
    fields.finish(&["a", "b"])?;
    let kind = a.kind();
    let order = a.compare(&b).ok_or_else(|| {
        Problem::invalid("b", format!("a stamp of the kind {}, as `a` is", kind.name()))
    })?;
    let view = ComparisonView { kind: kind.name(), order: order.into(), exact: kind.is_exact() };
    Ok(Json(view).into_response())
}

impl Api {
    /// One step of a clock, and what is counted of it.
    fn event(&self, name: &ClockName, event: &Event) -> Result<Response, Problem> {
        let time = self.group.read_time();
        let mut clocks = self.clocks.lock();
        let stamped = clocks.event(name, event, &time).inspect_err(|error| match event {
            Event::Tick(_) => {}
            Event::Receive(_) => self.metrics.logical.refused(error),
        });
        let latest = stamped?;
        self.metrics.logical.stamped(latest.stamp.kind(), event, &clocks);
        drop(clocks);
        Ok(Json(ClockView::new(name, &latest)).into_response())
    }
}

impl ClockView {
    fn new(name: &ClockName, Latest { process, stamp }: &Latest) -> Self {
        Self {
            clock: name.as_str().to_owned(),
            kind: stamp.kind().name(),
            process: process.to_string(),
            stamp: stamp.into(),
        }
    }
}

impl From<Order> for OrderView {
    fn from(order: Order) -> Self {
        match order {
            Order::Before => Self::Before,
            Order::After => Self::After,
            Order::Equal => Self::Equal,
            Order::Concurrent => Self::Concurrent,
        }
    }
}
