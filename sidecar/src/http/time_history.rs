//! How the group clock of this member stood: the last changes that matter.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use conclave_protocols::LocalTime;
use serde::Serialize;
use tokio::time::MissedTickBehavior;
use utoipa::ToSchema;

use super::Api;
use super::answer::Json;
use super::fields::QueryFields;
use super::problem::{Problem, ProblemBody};
use super::time::{AssumptionsView, ClockState};
use crate::group::{Status, TimeNow};

/// How the group clock of this member stood.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = TimeHistory)]
pub(super) struct TimeHistoryView {
    /// What each bound rests on: as it is assumed now.
    assumptions: AssumptionsView,
    /// The last changes, the newest last; 256 at most.
    changes: Vec<TimeChange>,
}

/// How the group clock stood when it was seen to have changed. It is looked at once a second.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub(super) struct TimeChange {
    /// The raw clock at the reading, as text since it does not fit a JSON number.
    #[schema(example = "743119673557")]
    raw_ns: String,
    /// The time, as text too. While `unknown`, this machine's wall clock.
    #[schema(example = "1795196160332304127")]
    time_ns: String,
    /// How far group time was from that at most; null while `unknown`.
    error_bound_ns: Option<u64>,
    /// How the clock stood.
    status: ClockState,
    /// What was still to be slewed; positive if the clock was behind.
    slewing_ns: i64,
    /// The number of the view, below 2^53.
    epoch: u64,
    /// The pod that kept the time: the leader; null if nobody was known to lead.
    master: Option<String>,
}

/// The changes of one life of the member.
#[derive(Debug)]
pub(super) struct TimeHistory {
    /// When that life began.
    life: LocalTime,
    changes: VecDeque<TimeChange>,
}

/// Lists the last changes of the group clock of this member.
///
/// One is kept if `status`, `epoch` or `master` changed, if the error bound halved or doubled, or if what is to be slewed
/// changed by more than a tenth of the bound.
#[utoipa::path(
    get,
    path = "/v1/time/history",
    operation_id = "listTimeChanges",
    tag = "time",
    params(
        ("limit" = Option<u64>, Query, description = "So many of the newest at most: 1 to 256, and 256 if absent.")
    ),
    responses(
        (status = 200, description = "Since the sidecar entered the group, as far back as it remembers.",
            body = TimeHistoryView),
        (status = 400, description = "`invalid`", body = ProblemBody)
    )
)]
pub(super) async fn list_time_changes(
    State(api): State<Api>,
    QueryFields(mut query): QueryFields,
) -> Result<Response, Problem> {
    let limit = query.number("limit")?.map_or(Ok(MOST), usize::try_from);
    query.finish(&["limit"])?;
    let limit = limit.ok().filter(|limit| (1..=MOST).contains(limit));
    let limit = limit.ok_or_else(|| Problem::invalid("limit", format!("1 to {MOST}")))?;
    let life = *api.group.life.borrow();
    let changes = api.history.borrow().newest(life, limit);
    let assumptions = (&api.group.status.borrow().clock).into();
    Ok(Json(TimeHistoryView { assumptions, changes }).into_response())
}

/// Keeps the history as long as the API is served.
pub(super) async fn follow(api: Api) -> Infallible {
    let mut seconds = tokio::time::interval(SECOND);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        api.note_time();
    }
}

impl Api {
    /// Looks at the clock.
    pub(super) fn note_time(&self) {
        let time = self.group.read_time();
        let change = TimeChange::of(&time, &self.group.status.borrow());
        self.history.send_if_modified(|history| history.note(time.life, change));
    }
}

impl TimeHistory {
    pub(super) fn new(life: LocalTime) -> Self {
        Self { life, changes: VecDeque::new() }
    }

    /// The newest changes of the present life.
    fn newest(&self, life: LocalTime, limit: usize) -> Vec<TimeChange> {
        let older = if self.life == life { self.changes.len().saturating_sub(limit) } else { MOST };
        self.changes.iter().skip(older).cloned().collect()
    }

    /// Keeps a change if it matters; says whether it does. The time of an earlier life, which may have been of another
    /// group, is no longer shown.
    fn note(&mut self, life: LocalTime, change: TimeChange) -> bool {
        if self.life != life {
            *self = Self::new(life);
        }
        if self.changes.back().is_some_and(|last| !change.matters_after(last)) {
            return false;
        }
        if self.changes.len() == MOST {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
        true
    }
}

impl TimeChange {
    fn of(time: &TimeNow, status: &Status) -> Self {
        let TimeNow { raw, reading, .. } = time;
        Self {
            raw_ns: raw.0.to_string(),
            time_ns: reading.now_ns.to_string(),
            error_bound_ns: reading.error_ns,
            status: reading.state.into(),
            slewing_ns: reading.slewing_ns,
            epoch: status.epoch.0,
            master: status.members.iter().find(|member| member.leader).map(|one| one.pod.clone()),
        }
    }

    fn matters_after(&self, last: &Self) -> bool {
        let is_same =
            (self.status, self.epoch, &self.master) == (last.status, last.epoch, &last.master);
        match (self.error_bound_ns, last.error_bound_ns) {
            (Some(bound), Some(before)) if is_same => {
                let corrected = self.slewing_ns.abs_diff(last.slewing_ns);
                let (less, more) = (bound.min(before), bound.max(before));
                more >= less.saturating_mul(2) || corrected > bound / 10
            }
            (bound, before) => !is_same || bound.is_some() != before.is_some(),
        }
    }
}

/// So many changes are remembered.
const MOST: usize = 256;

/// How often the clock is looked at.
const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn change(bound: Option<u64>, slewing_ns: i64) -> TimeChange {
        let status = if bound.is_some() { ClockState::Synchronized } else { ClockState::Unknown };
        TimeChange {
            raw_ns: "1".to_owned(),
            time_ns: "1".to_owned(),
            error_bound_ns: bound,
            status,
            slewing_ns,
            epoch: 12,
            master: Some("shop-1".to_owned()),
        }
    }

    #[test]
    fn what_a_clock_does_all_the_time_is_no_change() {
        let last = change(Some(1_000), 50);
        let matters = |change: TimeChange| change.matters_after(&last);
        assert!(!matters(TimeChange { raw_ns: "2".into(), time_ns: "2".into(), ..last.clone() }));
        assert!(!matters(change(Some(1_999), 50)) && matters(change(Some(2_000), 50)));
        assert!(!matters(change(Some(501), 50)) && matters(change(Some(500), 50)));
        assert!(!matters(change(Some(1_000), -50)) && matters(change(Some(1_000), -51)));
        assert!(!matters(change(Some(1_000), 150)) && matters(change(Some(1_000), 151)));
        assert!(matters(TimeChange { status: ClockState::Holdover, ..last.clone() }));
        assert!(matters(TimeChange { epoch: 13, ..last.clone() }));
        assert!(matters(TimeChange { master: None, ..last.clone() }));
        assert!(matters(change(None, 50)));
        assert!(!change(None, 1_000_000).matters_after(&change(None, 0)));
    }

    #[test]
    fn the_oldest_is_forgotten_first_and_all_of_another_life() {
        let mut history = TimeHistory::new(LocalTime(1));
        for epoch in 0..300 {
            let next = TimeChange { epoch, ..change(Some(1), 0) };
            assert!(history.note(LocalTime(1), next.clone()));
            assert!(!history.note(LocalTime(1), next));
        }
        let epochs: Vec<u64> = history.changes.iter().map(|change| change.epoch).collect();
        assert_eq!(epochs, (44..300).collect::<Vec<u64>>());
        assert!(history.note(LocalTime(2), change(None, 0)));
        assert_eq!(history.changes.len(), 1);
    }
}
