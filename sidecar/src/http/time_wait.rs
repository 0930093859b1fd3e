//! Waiting until a moment of the group time has surely passed: the commit wait of Spanner (Corbett and others,
//! "Spanner: Google's Globally-Distributed Database", OSDI 2012, section 4.1.2).

use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use conclave_protocols::clock::{Reading, State as ClockState};

use super::Api;
use super::fields::{Fields, QueryFields};
use super::locks::{WAIT, wait};
use super::problem::{Problem, ProblemBody};
use super::problem_type::ProblemType;
use super::time::{TimeView, answer, known_within};
use crate::claims::Wait;
use crate::group::TimeNow;

/// Waits until group time is surely after a moment.
///
/// Answers with the time as soon as `earliest_ns` is after `until_ns`; without `until_ns`, as soon as the clock is
/// `synchronized`. Hanging up ends the wait. With `Accept: text/plain` the answer is one line of `name=value` pairs.
#[utoipa::path(
    get,
    path = "/v1/time/wait",
    operation_id = "waitForTime",
    tag = "time",
    params(
        ("until_ns" = Option<String>, Query,
            description = "The moment: nanoseconds of group time since 1970.", example = "1795196160332604127"),
        ("timeout" = String, Query, description = "How long to wait: a duration, or `forever`.", example = "5s"),
        ("max_error" = Option<String>, Query,
            description = "Waits besides until the error bound is no larger, such as `10ms`.")
    ),
    responses(
        (status = 200, description = "The time and its bound.",
            content((TimeView = "application/json"), (String = "text/plain"))),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 423, description = "`wait-timeout`: the moment had not surely passed.", body = ProblemBody),
        (status = 429, description = "`queue-full`", body = ProblemBody),
        (status = 503, description = "`time-unknown`: not known at all, or not closely enough; `terminating`",
            body = ProblemBody)
    )
)]
pub(super) async fn wait_for_time(
    State(api): State<Api>,
    headers: HeaderMap,
    QueryFields(mut query): QueryFields,
) -> Result<Response, Problem> {
    let goal = Goal::of(&mut query)?;
    let timeout = wait(&mut query, "timeout")?.ok_or_else(|| Problem::invalid("timeout", WAIT))?;
    query.finish(&["until_ns", "timeout", "max_error"])?;
    let began = Instant::now();
    let time = reach(&api, goal, timeout).await?;
    api.metrics.clock.waited(began.elapsed());
    Ok(answer(&api, &headers, StatusCode::OK, &time))
}

/// What a caller waits for.
#[derive(Clone, Copy, Debug)]
struct Goal {
    /// A moment that is to be in the past; else the clock is to be synchronized.
    until_ns: Option<i64>,
    max_error: Option<Duration>,
}

/// What is missing until a goal is reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Left {
    /// So long, if the clock goes on as it is.
    Time(Duration),
    /// A better clock.
    Comparison,
}

impl Goal {
    fn of(query: &mut Fields) -> Result<Self, Problem> {
        let until_ns = query.nanoseconds("until_ns")?;
        Ok(Self { until_ns, max_error: query.duration("max_error")? })
    }

    /// The earliest time may rise a little slower than the raw clock: the bound grows, and the clock is slewed. So a wait
    /// may be over a little early, and is followed by one for the rest.
    fn left(self, reading: &Reading) -> Option<Left> {
        let (true, Some(earliest)) = (known_within(reading, self.max_error), reading.earliest_ns())
        else {
            return Some(Left::Comparison);
        };
        match self.until_ns {
            Some(until) if earliest > until => None,
            Some(until) => {
                let left = earliest.abs_diff(until).saturating_add(1);
                Some(Left::Time(Duration::from_nanos(left)))
            }
            None if reading.state == ClockState::Synchronised => None,
            None => Some(Left::Comparison),
        }
    }
}

/// How soon it is looked whether a clock that is held has passed what was shown before.
const AGAIN: Duration = Duration::from_millis(50);

/// The first reading that reaches the goal.
async fn reach(api: &Api, goal: Goal, timeout: Wait) -> Result<TimeNow, Problem> {
    let limit = match timeout {
        Wait::For(limit) => limit,
        Wait::Forever => Duration::MAX,
    };
    match look(api, goal) {
        Ok(found) => return Ok(found),
        Err(left) if limit.is_zero() => return Err(missed(left)),
        Err(_) => {}
    }
    let _permit = api.long_call()?;
    match tokio::time::timeout(limit, watch(api, goal)).await {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(Problem::new(ProblemType::Terminating, "the group has ended")),
        // It may have come at the last moment.
        Err(_) => look(api, goal).map_err(missed),
    }
}

/// What a caller gets whose time is over.
fn missed(left: Left) -> Problem {
    match left {
        Left::Time(left) => {
            let detail = format!("the moment has surely passed in {left:?}, and not before");
            Problem::new(ProblemType::WaitTimeout, detail)
        }
        Left::Comparison => {
            let detail = "the group clock was not compared, or not closely enough";
            Problem::new(ProblemType::TimeUnknown, detail)
        }
    }
}

/// Waits for the goal; nothing if the group ends before.
async fn watch(api: &Api, goal: Goal) -> Option<TimeNow> {
    let mut map = api.group.group_time();
    loop {
        map.mark_unchanged();
        // No map says that a disruption ends.
        let until = map.borrow().disrupted_until;
        let disrupted = until.saturating_sub(api.group.os_clock().raw().0);
        let left = match look(api, goal) {
            Ok(found) => return Some(found),
            Err(left) => left,
        };
        // Nor that this clock has passed what was shown before.
        let TimeNow { raw, reading, .. } = api.group.read_time();
        let is_held = reading.error_ns.is_none() && map.borrow().error_ns(raw.0).is_some();
        tokio::select! {
            change = map.changed() => change.ok()?,
            () = passes(left) => {}
            () = tokio::time::sleep(Duration::from_nanos(disrupted)), if disrupted > 0 => {}
            () = tokio::time::sleep(AGAIN), if is_held => {}
        }
    }
}

/// Reads the clock.
fn look(api: &Api, goal: Goal) -> Result<TimeNow, Left> {
    let time = api.group.read_time();
    goal.left(&time.reading).map_or(Ok(time), Err)
}

/// Returns when that may have passed.
async fn passes(left: Left) {
    match left {
        Left::Time(left) => tokio::time::sleep(left).await,
        Left::Comparison => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(now_ns: i64, error_ns: Option<u64>, state: ClockState) -> Reading {
        Reading { now_ns, error_ns, by_messages: None, state, age_ns: None, slewing_ns: 0 }
    }

    fn time(ns: u64) -> Left {
        Left::Time(Duration::from_nanos(ns))
    }

    #[test]
    fn a_moment_has_passed_once_the_earliest_time_is_after_it() {
        let goal = |until_ns| Goal { until_ns: Some(until_ns), max_error: None };
        let now = reading(1_000, Some(100), ClockState::Holdover);
        assert_eq!(goal(899).left(&now), None);
        assert_eq!(goal(900).left(&now), Some(time(1)));
        assert_eq!(goal(1_000).left(&now), Some(time(101)));
        let never = reading(i64::MIN, Some(u64::MAX), ClockState::Holdover);
        assert_eq!(goal(i64::MIN).left(&never), Some(time(1)));
        assert_eq!(goal(i64::MAX).left(&never), Some(time(u64::MAX)));
        let unknown = reading(1_000, None, ClockState::Unsynchronised);
        assert_eq!(goal(1).left(&unknown), Some(Left::Comparison));
    }

    #[test]
    fn a_bound_that_is_too_large_waits_for_a_comparison() {
        let limit = Some(Duration::from_nanos(100));
        for until_ns in [None, Some(1)] {
            let goal = Goal { until_ns, max_error: limit };
            let far = reading(1_000, Some(101), ClockState::Synchronised);
            let close = reading(1_000, Some(100), ClockState::Synchronised);
            assert_eq!((goal.left(&far), goal.left(&close)), (Some(Left::Comparison), None));
        }
    }

    #[test]
    fn without_a_moment_the_clock_is_to_be_synchronized() {
        let goal = Goal { until_ns: None, max_error: None };
        let by_state = |state| goal.left(&reading(1_000, Some(100), state));
        assert_eq!(by_state(ClockState::Holdover), Some(Left::Comparison));
        assert_eq!(by_state(ClockState::Synchronised), None);
    }

    #[test]
    fn a_bound_that_may_not_hold_waits_for_a_comparison() {
        for until_ns in [None, Some(1)] {
            let goal = Goal { until_ns, max_error: None };
            let by_state = |state| goal.left(&reading(1_000, Some(100), state));
            assert_eq!(by_state(ClockState::Disrupted), Some(Left::Comparison));
        }
    }
}
