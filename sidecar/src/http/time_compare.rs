//! How two stamps of the group time stand to each other, or one to now.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::answer::Json;
use super::fields::{Fields, NANOSECONDS, QueryFields};
use super::problem::{Problem, ProblemBody};
use super::problem_type::ProblemType;
use super::time::{AssumptionsView, known_within, text, wants_text};

/// How two stamps of the group time stand to each other.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = TimeComparison)]
pub(super) struct TimeComparisonView {
    /// How `a` stands to `b`.
    order: TimeOrder,
    /// When `a` was.
    a: IntervalView,
    /// When `b` was; without `b_ns`, when it was now.
    b: IntervalView,
    /// What the bound of now rests on; absent with `b_ns`. Other stamps rest on what was assumed where they were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    assumptions: Option<AssumptionsView>,
}

/// What is known of a moment of the group time.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = TimeInterval)]
struct IntervalView {
    /// It is not before this.
    #[schema(value_type = String, example = "1795196160332004127")]
    earliest_ns: Nanos,
    /// It is not after this.
    #[schema(value_type = String, example = "1795196160332604127")]
    latest_ns: Nanos,
}

/// How one moment stands to another.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum TimeOrder {
    /// Surely before it: the whole of the one interval is before the other.
    Before,
    /// Surely after it.
    After,
    /// The intervals have a moment in common, so the order is not known.
    Concurrent,
}

/// A moment, as text since it does not fit a JSON number.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Nanos(i64);

/// Compares two stamps of the group time, whichever members read them; or one with now.
///
/// A stamp is a `time_ns` with its `error_bound_ns`, as the reading had it. Without `b_ns`, `before` says that `a` has
/// surely passed, and `after` that it surely has not. With `Accept: text/plain` the answer is one line of `name=value`
/// pairs.
#[utoipa::path(
    get,
    path = "/v1/time/compare",
    operation_id = "compareTimes",
    tag = "time",
    params(
        ("a_ns" = String, Query, description = "The one stamp: nanoseconds of group time since 1970.",
            example = "1795196160332304127"),
        ("a_error_ns" = u64, Query, description = "How far group time was from that at most.", example = 300_000),
        ("b_ns" = Option<String>, Query, description = "The other; now if absent.", example = "1795196161000000000"),
        ("b_error_ns" = Option<u64>, Query, description = "Its bound; required with `b_ns`, and only then.",
            example = 250_000)
    ),
    responses(
        (status = 200, description = "How `a` stands to `b`.",
            content((TimeComparisonView = "application/json"), (String = "text/plain"))),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 503, description = "`time-unknown`: without `b_ns`.", body = ProblemBody)
    )
)]
pub(super) async fn compare_times(
    State(api): State<Api>,
    headers: HeaderMap,
    QueryFields(mut query): QueryFields,
) -> Result<Response, Problem> {
    let a = stamp(&mut query, "a_ns", "a_error_ns")?;
    let a = a.ok_or_else(|| Problem::invalid("a_ns", NANOSECONDS))?;
    let b = stamp(&mut query, "b_ns", "b_error_ns")?;
    query.finish(&["a_ns", "a_error_ns", "b_ns", "b_error_ns"])?;
    let assumptions = b.is_none().then(|| (&api.group.status.borrow().clock).into());
    let b = b.map_or_else(|| now(&api), Ok)?;
    let view = TimeComparisonView { order: a.order(b), a, b, assumptions };
    if wants_text(&headers) {
        return Ok(text(view.line()).into_response());
    }
    Ok(Json(view).into_response())
}

/// A stamp that a query has, with the bound that belongs to it.
fn stamp(query: &mut Fields, name: &str, bound: &str) -> Result<Option<IntervalView>, Problem> {
    let (ns, error_ns) = (query.nanoseconds(name)?, query.number(bound)?);
    match (ns, error_ns) {
        (Some(ns), Some(error_ns)) => Ok(Some(IntervalView::around(ns, error_ns))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(Problem::invalid(bound, format!("the error bound of `{name}`"))),
        (None, Some(_)) => Err(Problem::invalid(name, NANOSECONDS)),
    }
}

/// What is known of the present moment.
fn now(api: &Api) -> Result<IntervalView, Problem> {
    let reading = api.group.read_time().reading;
    let around = |error_ns| IntervalView::around(reading.now_ns, error_ns);
    let detail = "the group clock is not known, or its bound may not hold";
    let unknown = || Problem::new(ProblemType::TimeUnknown, detail);
    let sure = reading.error_ns.filter(|_| known_within(&reading, None));
    sure.map(around).ok_or_else(unknown)
}

impl IntervalView {
    /// At the ends of what 64 bits hold, an interval is cut off. No order depends on what is cut off.
    fn around(ns: i64, error_ns: u64) -> Self {
        let (earliest, latest) =
            (ns.saturating_sub_unsigned(error_ns), ns.saturating_add_unsigned(error_ns));
        Self { earliest_ns: Nanos(earliest), latest_ns: Nanos(latest) }
    }

    fn order(self, other: Self) -> TimeOrder {
        if self.latest_ns < other.earliest_ns {
            TimeOrder::Before
        } else if self.earliest_ns > other.latest_ns {
            TimeOrder::After
        } else {
            TimeOrder::Concurrent
        }
    }
}

impl TimeComparisonView {
    /// For shells.
    fn line(&self) -> String {
        let order = match self.order {
            TimeOrder::Before => "before",
            TimeOrder::After => "after",
            TimeOrder::Concurrent => "concurrent",
        };
        let interval = |name: &str, IntervalView { earliest_ns, latest_ns }| {
            format!("{name}_earliest_ns={} {name}_latest_ns={}", earliest_ns.0, latest_ns.0)
        };
        format!("order={order} {} {}\n", interval("a", self.a), interval("b", self.b))
    }
}

impl Serialize for Nanos {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}
