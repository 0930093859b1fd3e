//! The group clock: what time it is, and how wrong that may be.

use std::time::Duration;

use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use conclave_protocols::clock::{self, MessageReading, Params, Reading};
use conclave_protocols::policy::{Averaging, ClockAlgorithm, ClockPolicy};
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::answer::Json;
use super::fields::QueryFields;
use super::problem::{Problem, ProblemBody};
use crate::group::{Status, TimeNow};
use crate::os_clock::Host;

/// The group time, read between the caller's request and its answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Time)]
pub(super) struct TimeView {
    /// How the clock stands.
    status: ClockState,
    /// Nanoseconds since 1970, as text since it does not fit a JSON number. While `unknown`, this
    /// machine's wall clock, or group time as it was known before.
    #[schema(example = "1795196160332304127")]
    time_ns: String,
    /// Group time is not before this; null while `unknown`.
    earliest_ns: Option<String>,
    /// Group time is not after this; null while `unknown`.
    latest_ns: Option<String>,
    /// How far group time is from `time_ns` at most; null while `unknown`.
    error_bound_ns: Option<u64>,
    /// What the algorithm's own messages say, without clock probes. It is for comparison. Null before there were any in
    /// this view, and at a leader that asks nobody: that of `Cristian` and `NTP`.
    by_messages: Option<ByMessagesView>,
    /// Whose time it is: the group's own, which is not UTC.
    reference: Reference,
    /// The group.
    group: String,
    /// How the clocks are kept together.
    #[schema(value_type = String, example = "Berkeley")]
    algorithm: ClockAlgorithm,
    /// How the leader averages; null where it does not.
    #[schema(value_type = Option<String>, example = "LargestSet")]
    averaging: Option<Averaging>,
    /// How often clocks are to be compared by the textbook, π/(2ρ): then two that drift apart differ by the policy's
    /// precision at most.
    resync_interval_ns: u64,
    /// How often they are compared: at least once a second, since the bound grows faster than the difference.
    interval_ns: u64,
    /// The number of the view, below 2^53.
    epoch: u64,
    /// The pod that keeps the time: the leader; null if nobody is known to lead.
    master: Option<String>,
    /// This pod.
    #[serde(rename = "self")]
    own: String,
    /// Members of the view.
    members: usize,
    /// How long ago the clock was compared; null while `unknown`.
    sync_age_ns: Option<u64>,
    /// What is still to be slewed; positive if the clock is behind.
    slewing_ns: i64,
    /// The raw clock at the reading.
    raw_ns: String,
    /// Which clock that is.
    clock_id: ClockId,
    /// What the bound rests on.
    assumptions: AssumptionsView,
    /// The wall clock of this machine, which the group time is kept apart from.
    host: HostView,
    /// What follows for UTC.
    utc: UtcView,
}

/// What the algorithm's own messages say at the reading.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = TimeByMessages)]
#[expect(clippy::struct_field_names, reason = "they are the names of the API")]
struct ByMessagesView {
    /// Group time by them: the server's clock (`Cristian`), the mean of the servers that are followed (`NTP`), or the
    /// average of the round (`Berkeley`), which group time moves towards.
    #[schema(example = "1795196160332301903")]
    time_ns: String,
    /// How far group time is from that at most.
    error_bound_ns: u64,
    /// How far it is wrong at most by the formula of the algorithm's source, which leaves out what the leader's own
    /// clock may be wrong by, and how fast group time may run.
    textbook_error_ns: u64,
    /// By how much they had the algorithm's clock corrected, as text since it may not fit a JSON number; positive if it
    /// was behind.
    #[schema(example = "-3120")]
    correction_ns: String,
    /// How long ago they compared clocks.
    age_ns: u64,
}

/// What is assumed of raw clocks.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = TimeAssumptions)]
pub(super) struct AssumptionsView {
    /// How far the rate of each is from that of true time, at most: `maxDriftPpm` of the policy in force.
    max_drift_ppm: u32,
    /// How far the rate of one, as another sees it, is from some constant within two minutes, at most: `maxWanderPpb`
    /// of the policy in force, on which what clock probes found rests besides.
    wander_ppb: u32,
}

/// The wall clock of this machine, against the group time.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = HostClock)]
struct HostView {
    /// The wall clock less `time_ns`, as text since it may not fit a JSON number; null while `unknown`.
    #[schema(example = "-41250")]
    offset_ns: Option<String>,
    /// How far that is from the wall clock less group time at most: the group's bound, and what the readings lie
    /// apart; null while `unknown`.
    error_ns: Option<u64>,
    /// Whether a daemon of this machine says that its wall clock is synchronized; null if the kernel does not say.
    synchronized: Option<bool>,
    /// How far that daemon lets the wall clock be wrong at most; null if the kernel does not say.
    max_error_ns: Option<u64>,
    /// How far it guesses that the wall clock is wrong; null if the kernel does not say.
    estimated_error_ns: Option<u64>,
}

/// What follows for UTC, if the daemon of this machine is right.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Utc)]
struct UtcView {
    /// How far `time_ns` is from UTC at most: the size of `host.offset_ns`, `host.error_ns` and `host.max_error_ns`,
    /// added, as text. Null while `unknown`, and unless `host.synchronized`.
    #[schema(example = "1841250")]
    bound_ns: Option<String>,
}

/// How a clock stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ClockState {
    /// It was compared recently.
    Synchronized,
    /// Several comparisons were missed: the bound still holds, and grows.
    Holdover,
    /// What was heard of a clock lately contradicts what is assumed of all, or what was heard before: the bound may
    /// not hold.
    Disrupted,
    /// It was never compared, another group time may have begun without this member, or this API or the pod's clock page has
    /// shown a time that is more than 100 ms later.
    Unknown,
}

/// Whose time it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum Reference {
    /// The group's own.
    Group,
}

/// A clock of the operating system.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ClockId {
    /// `CLOCK_MONOTONIC_RAW`.
    MonotonicRaw,
}

/// Tells the group time, with its error bound.
///
/// With `Accept: text/plain` the answer is one line of `name=value` pairs.
#[utoipa::path(
    get,
    path = "/v1/time",
    operation_id = "getTime",
    tag = "time",
    params((
        "max_error" = Option<String>, Query,
        description = "503 if the error bound is larger, such as `10ms`."
    )),
    responses(
        (status = 200, description = "The time and its bound.",
            content((TimeView = "application/json"), (String = "text/plain"))),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 503, description = "Not known at all, or not closely enough.",
            content((TimeView = "application/json"), (String = "text/plain")))
    )
)]
pub(super) async fn get_time(
    State(api): State<Api>,
    headers: HeaderMap,
    QueryFields(mut query): QueryFields,
) -> Result<Response, Problem> {
    let max_error = query.duration("max_error")?;
    query.finish(&["max_error"])?;
    let time = api.group.read_time();
    let known = known_within(&time.reading, max_error);
    let status = if known { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(answer(&api, &headers, status, &time))
}

/// The time as an answer, in the form that the caller wants.
pub(super) fn answer(
    api: &Api,
    headers: &HeaderMap,
    status: StatusCode,
    time: &TimeNow,
) -> Response {
    let host = api.group.os_clock().host_at(time.raw.0);
    let view = TimeView::of(time, host, &api.group.status.borrow());
    let facts = view.headers();
    if wants_text(headers) {
        return (status, facts, text(view.line())).into_response();
    }
    (status, facts, Json(view)).into_response()
}

/// A line for shells.
pub(super) fn text(line: String) -> impl IntoResponse {
    let media = HeaderValue::from_static("text/plain; charset=utf-8");
    ([(CONTENT_TYPE, media)], line)
}

impl TimeView {
    fn of(time: &TimeNow, host: Host, status: &Status) -> Self {
        let TimeNow { raw, reading, .. } = time;
        let policy = &status.clock;
        let params = Params::from(policy);
        Self {
            status: reading.state.into(),
            time_ns: reading.now_ns.to_string(),
            earliest_ns: reading.earliest_ns().map(|ns| ns.to_string()),
            latest_ns: reading.latest_ns().map(|ns| ns.to_string()),
            error_bound_ns: reading.error_ns,
            by_messages: reading.by_messages.map(ByMessagesView::from),
            reference: Reference::Group,
            group: status.group.clone(),
            algorithm: policy.algorithm,
            averaging: policy.algorithm.averages().then_some(policy.averaging),
            resync_interval_ns: nanos(params.resync_interval()),
            interval_ns: nanos(params.interval()),
            epoch: status.epoch.0,
            master: status.members.iter().find(|member| member.leader).map(|one| one.pod.clone()),
            own: status.pod.clone(),
            members: status.members.len(),
            sync_age_ns: reading.age_ns,
            slewing_ns: reading.slewing_ns,
            raw_ns: raw.0.to_string(),
            clock_id: ClockId::MonotonicRaw,
            assumptions: policy.into(),
            host: HostView::of(host, reading),
            utc: UtcView { bound_ns: host.utc_bound_ns(reading).map(|ns| ns.to_string()) },
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(STATUS, HeaderValue::from_static(self.status.name()));
        if let Ok(time) = HeaderValue::from_str(&self.time_ns) {
            headers.insert(TIME_NS, time);
        }
        if let Some(bound) = self.error_bound_ns {
            headers.insert(ERROR_BOUND_NS, HeaderValue::from(bound));
        }
        headers
    }

    /// For shells.
    fn line(&self) -> String {
        let bounds = match (&self.earliest_ns, &self.latest_ns, self.error_bound_ns) {
            (Some(earliest), Some(latest), Some(bound)) => {
                format!(" earliest_ns={earliest} latest_ns={latest} error_bound_ns={bound}")
            }
            (None, ..) | (_, None, _) | (.., None) => String::new(),
        };
        format!("status={} time_ns={}{bounds}\n", self.status.name(), self.time_ns)
    }
}

impl From<&ClockPolicy> for AssumptionsView {
    fn from(policy: &ClockPolicy) -> Self {
        Self { max_drift_ppm: policy.max_drift_ppm, wander_ppb: policy.max_wander_ppb }
    }
}

impl From<MessageReading> for ByMessagesView {
    fn from(reading: MessageReading) -> Self {
        Self {
            time_ns: reading.now_ns.to_string(),
            error_bound_ns: reading.error_ns,
            textbook_error_ns: reading.textbook_ns,
            correction_ns: reading.correction_ns.to_string(),
            age_ns: reading.age_ns,
        }
    }
}

impl HostView {
    fn of(host: Host, reading: &Reading) -> Self {
        Self {
            offset_ns: host.offset_ns(reading).map(|ns| ns.to_string()),
            error_ns: host.error_ns(reading),
            synchronized: host.synchronization.map(|one| one.synchronized),
            max_error_ns: host.synchronization.map(|one| one.max_error_ns),
            estimated_error_ns: host.synchronization.map(|one| one.estimated_error_ns),
        }
    }
}

impl ClockState {
    fn name(self) -> &'static str {
        match self {
            Self::Synchronized => "synchronized",
            Self::Holdover => "holdover",
            Self::Disrupted => "disrupted",
            Self::Unknown => "unknown",
        }
    }
}

impl From<clock::State> for ClockState {
    fn from(state: clock::State) -> Self {
        match state {
            clock::State::Synchronised => Self::Synchronized,
            clock::State::Holdover => Self::Holdover,
            clock::State::Disrupted => Self::Disrupted,
            clock::State::Unsynchronised => Self::Unknown,
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether the error bound is known and holds, and is no larger.
pub(super) fn known_within(reading: &Reading, max_error: Option<Duration>) -> bool {
    let limit = max_error.unwrap_or(Duration::MAX);
    let holds = reading.state != clock::State::Disrupted;
    reading.error_ns.is_some_and(|error| holds && Duration::from_nanos(error) <= limit)
}

/// Whether a caller wants a line for shells.
pub(super) fn wants_text(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|range| range.trim().starts_with("text/plain"))
}

const STATUS: HeaderName = HeaderName::from_static("conclave-time-status");
const TIME_NS: HeaderName = HeaderName::from_static("conclave-time-ns");
const ERROR_BOUND_NS: HeaderName = HeaderName::from_static("conclave-time-error-bound-ns");
