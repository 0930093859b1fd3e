//! Locks, as this member knows them: `GET /v1/locks` and `GET /v1/locks/{name}`.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use conclave_protocols::LockName;
use conclave_protocols::member::message::Metadata;
use conclave_protocols::policy::{Arbiter, LockAlgorithm};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::Api;
use super::answer::Json;
use super::claim_view::{Guarantee, HolderView, millis, raw};
use super::fields::QueryFields;
use super::paths::LockPath;
use super::problem::{Problem, ProblemBody};
use super::problem_type::ProblemType;
use crate::claims::{Claim, ClaimState, Holder};
use crate::locks::{Elsewhere, Lock, LocksError, WaitingPod, Which};
use crate::os_clock::ApplicationTime;

/// A lock, as this member knows it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Lock)]
pub(super) struct LockView {
    /// The name of the lock.
    lock: String,
    /// How it is granted.
    #[schema(value_type = String, example = "Central")]
    algorithm: LockAlgorithm,
    /// The pod that grants it in the present view, where one alone does: with `Central` that of the leader, with
    /// `Superpeers` that to which its name falls.
    #[serde(skip_serializing_if = "Option::is_none")]
    coordinator: Option<String>,
    /// The messages of an entry of this pod and its exit by the formula of the algorithm's source, in the present view and if
    /// nobody else wants in. Absent where that depends on where a token is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 3)]
    expected_messages: Option<u64>,
    /// What makes it safe.
    #[schema(value_type = String, example = "Quorum")]
    arbiter: Arbiter,
    /// What a grant is worth.
    guarantee: Guarantee,
    /// The longest that a claim may hold it: the `maxHold` of its policy.
    #[schema(example = 600_000)]
    max_hold_ms: u64,
    /// Whether this member leads the group and knows of the holds and the waits of all members: at once of what it grants
    /// itself, of the rest with their heartbeats. Else it knows of its own pod, and what was reported to claims that wait.
    complete: bool,
    /// The holder, as far as this member knows: one at most. Empty if that is nobody, or not known here.
    holders: Vec<LockHolderView>,
    /// The claims that wait for it, as far as this member knows: the claims of this pod in their order, then other pods. A list has the
    /// first ten of them, and one lock the first hundred claims.
    waiters: Vec<WaiterView>,
    /// How many wait for it, as far as this member knows.
    waiting: usize,
}

/// The holder of a lock, and how this member knows it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = LockHolder)]
struct LockHolderView {
    #[serde(flatten)]
    holder: HolderView,
    /// The claim; only if it is one of this pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<String>,
    /// How long ago that was reported to a claim of this pod that waits: it may be another by now. Only where this
    /// member knows it from such a report.
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_ms: Option<u64>,
}

/// A claim that waits for a lock.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Waiter)]
struct WaiterView {
    /// In which pod.
    pod: String,
    /// The `owner` that the caller stated. Of another pod it is the first in line there; absent if this member does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// The claim; only if it is one of this pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<String>,
    /// For how long it has waited; only if it is one of this pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_ms: Option<u64>,
    /// The metadata that its client gave with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
}

/// Locks that are held or waited for.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Locks)]
pub(super) struct LocksView {
    /// In the order of their names.
    locks: Vec<LockView>,
    /// As that of each lock: whether these are the locks of all members.
    complete: bool,
    /// If there are more: what `after` is to be in the next call.
    next: Option<String>,
}

/// Lists the locks that somebody holds or waits for, as far as this member knows.
#[utoipa::path(
    get,
    path = "/v1/locks",
    operation_id = "listLocks",
    tag = "locks",
    params(
        ("prefix" = Option<String>, Query, description = "Only locks whose names begin so."),
        ("after" = Option<String>, Query, description = "Only locks whose names come after that one."),
        ("limit" = Option<u64>, Query, description = "So many at most: 1 to 1000, and 100 if absent.")
    ),
    responses(
        (status = 200, description = "Those that this member knows of.", body = LocksView),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 503, description = "`not-ready`, `terminating`", body = ProblemBody)
    )
)]
pub(super) async fn list_locks(
    State(api): State<Api>,
    QueryFields(mut query): QueryFields,
) -> Result<Response, Problem> {
    let prefix = query.text("prefix", "text")?.unwrap_or_default();
    let after = query.text("after", "text")?.unwrap_or_default();
    let limit = query.number("limit")?.unwrap_or(100);
    query.finish(&["prefix", "after", "limit"])?;
    let limit = usize::try_from(limit).ok().filter(|limit| (1..=MOST).contains(limit));
    let limit = limit.ok_or_else(|| Problem::invalid("limit", format!("1 to {MOST}")))?;
    let known = {
        // The group looks at all names for each page.
        let _turn = api.lists.lock().await;
        api.group.locks(Which::Used { prefix, after, limit }).await?
    };
    let next = known.next.as_ref().map(LockName::to_string);
    let shown = |lock| LockView::of(&api, lock, known.complete, Detail::Listed);
    let locks = known.locks.iter().map(shown).collect();
    Ok(Json(LocksView { locks, complete: known.complete, next }).into_response())
}

/// Shows a lock: its holder and the claims that wait for it, as far as this member knows.
#[utoipa::path(
    get,
    path = "/v1/locks/{name}",
    operation_id = "getLock",
    tag = "locks",
    params(
        ("name" = String, Path, description = "The lock: 1 to 253 bytes, `/` as `%2F`; not `.` or `..`.")
    ),
    responses(
        (status = 200, description = "Also if nobody holds it.", body = LockView),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 403, description = "`not-allowed`", body = ProblemBody),
        (status = 503, description = "`not-ready`, `terminating`", body = ProblemBody)
    )
)]
pub(super) async fn get_lock(
    State(api): State<Api>,
    LockPath(name): LockPath,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    query.finish(&[])?;
    let known = api.group.locks(Which::One(name)).await?;
    let lock = known.locks.first().ok_or(LocksError::NotAllowed)?;
    Ok(Json(LockView::of(&api, lock, known.complete, Detail::Whole)).into_response())
}

impl LockView {
    fn of(api: &Api, lock: &Lock, complete: bool, detail: Detail) -> Self {
        let now = api.group.os_clock().moment();
        let pod = api.group.status.borrow().pod.clone();
        let own = lock.holding.as_ref();
        let own = own.and_then(|claim| LockHolderView::of_claim(claim, &pod, now, detail));
        let elsewhere = lock.elsewhere.as_ref();
        let elsewhere = elsewhere.map(|other| LockHolderView::of_other(other, now, detail));
        let claims =
            lock.waiting.iter().map(|claim| WaiterView::of_claim(claim, &pod, now, detail));
        let pods = lock.pods.iter().map(|pod| WaiterView::of_pod(pod, detail));
        let most = if detail == Detail::Listed { LISTED_WAITERS } else { usize::MAX };
        Self {
            lock: lock.name.to_string(),
            algorithm: lock.algorithm,
            coordinator: lock.coordinator.clone(),
            expected_messages: lock.expected_messages,
            arbiter: lock.arbiter,
            guarantee: lock.arbiter.into(),
            max_hold_ms: millis(lock.max_hold),
            complete,
            holders: own.or(elsewhere).into_iter().collect(),
            waiters: claims.chain(pods).take(most).collect(),
            waiting: lock.waiting.len() + lock.unshown + lock.pods.len(),
        }
    }
}

impl LockHolderView {
    /// A claim of this pod, unless its time is over.
    fn of_claim(claim: &Claim, pod: &str, now: ApplicationTime, detail: Detail) -> Option<Self> {
        let ClaimState::Held(held) = &claim.state else { return None };
        let holder = Holder {
            pod: pod.to_owned(),
            owner: claim.owner.clone(),
            token: held.token,
            held: now.boottime - held.since,
            notified: now.boottime,
            metadata: detail.of(claim.metadata.as_ref()).cloned(),
        };
        let holder = HolderView::at(&holder, now.boottime);
        let claim = Some(claim.id.to_string());
        (now.boottime < held.safe_until).then_some(Self { holder, claim, reported_ms: None })
    }

    fn of_other(other: &Elsewhere, now: ApplicationTime, detail: Detail) -> Self {
        let holder = &other.holder;
        let reported_ms = other.is_report.then(|| millis(now.boottime - holder.notified));
        let holder =
            Holder { metadata: detail.of(holder.metadata.as_ref()).cloned(), ..holder.clone() };
        Self { holder: HolderView::at(&holder, now.boottime), claim: None, reported_ms }
    }
}

impl WaiterView {
    fn of_claim(claim: &Claim, pod: &str, now: ApplicationTime, detail: Detail) -> Self {
        Self {
            pod: pod.to_owned(),
            owner: Some(claim.owner.clone()),
            claim: Some(claim.id.to_string()),
            waited_ms: Some(millis(now.boottime - claim.asked)),
            metadata: raw(detail.of(claim.metadata.as_ref())),
        }
    }

    fn of_pod(WaitingPod { pod, owner, metadata }: &WaitingPod, detail: Detail) -> Self {
        Self {
            pod: pod.clone(),
            owner: owner.clone(),
            claim: None,
            waited_ms: None,
            metadata: raw(detail.of(metadata.as_ref())),
        }
    }
}

impl From<LocksError> for Problem {
    fn from(error: LocksError) -> Self {
        let kind = match &error {
            LocksError::NotAllowed => ProblemType::NotAllowed,
            LocksError::NotReady(_) => ProblemType::NotReady,
            LocksError::Closed => ProblemType::Terminating,
        };
        Self::new(kind, error.to_string())
    }
}

/// How much is shown of a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Detail {
    /// What is known.
    Whole,
    /// The first that wait, and no metadata: an answer may have many locks.
    Listed,
}

impl Detail {
    fn of(self, metadata: Option<&Metadata>) -> Option<&Metadata> {
        metadata.filter(|_| self == Self::Whole)
    }
}

/// Locks in one answer.
const MOST: usize = 1_000;

/// Those that wait for a lock of a list.
const LISTED_WAITERS: usize = 10;
