//! What goes wrong, as RFC 9457 has it, and the one table from errors to problems.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::answer::Json;
use super::claim_view::HolderView;
use super::described::PROBLEM_MEDIA;
use super::problem_type::ProblemType;
use super::stamps::KINDS;
use crate::claims::{AskError, Claim, ClaimError, ClaimState, Holder, LostReason, Refusal};
use crate::clocks::ClockError;
use crate::group::ElectionError;
use conclave_protocols::LocalTime;

/// A problem, as an answer.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    kind: ProblemType,
    body: Box<ProblemBody>,
    /// When to try again, in seconds.
    retry_after: Option<u16>,
}

/// The body of a problem: RFC 9457, with the facts that its type has.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct ProblemBody {
    /// A URI from the list in `docs/http-api.md`; programs branch on it.
    #[serde(rename = "type")]
    #[schema(example = "https://conclave.dev/problems/held")]
    kind: String,
    /// What the type means.
    title: &'static str,
    /// The status code.
    status: u16,
    /// What happened here.
    detail: String,
    /// Whether the same request may succeed later.
    retryable: bool,
    /// The field or parameter that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// What it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<String>,
    /// Why a claim was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<String>,
    /// The claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<String>,
    /// The pod whose sidecar made the claim, if it is in the group now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
    /// The holder of the lock, as far as is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    holders: Option<Vec<HolderView>>,
    /// How long the claim waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_ms: Option<u64>,
}

impl Problem {
    /// A problem of this type with these words.
    pub(super) fn new(kind: ProblemType, detail: impl Into<String>) -> Self {
        let row = kind.row();
        let body = ProblemBody {
            kind: kind.uri(),
            title: row.title,
            status: row.status.as_u16(),
            detail: detail.into(),
            retryable: row.retryable,
            ..ProblemBody::default()
        };
        Self { kind, body: Box::new(body), retry_after: row.retry_after }
    }

    /// A field or parameter that is not what it should be.
    pub(super) fn invalid(field: &str, expected: impl Into<String>) -> Self {
        let expected = expected.into();
        let detail = format!("`{}` is wrong: expected {expected}", shortened(field));
        let mut problem = Self::new(ProblemType::Invalid, detail);
        problem.body.field = Some(shortened(field));
        problem.body.expected = Some(expected);
        problem
    }

    /// What an ended claim answers to a caller that asks after it; nothing if it waits or holds.
    ///
    /// A hold whose time is over is lost, whether or not the group task has reported it yet.
    pub(super) fn of_claim(claim: &Claim, now: LocalTime) -> Option<Self> {
        match &claim.state {
            ClaimState::Waiting { .. } => None,
            ClaimState::Held(held) if now < held.safe_until => None,
            ClaimState::Held(held) => Some(Self::lost(claim, held.ends_by)),
            ClaimState::Released => {
                Some(Self::new(ProblemType::Released, "released before").about(claim))
            }
            ClaimState::Lost(reason) => Some(Self::lost(claim, *reason)),
            ClaimState::Refused(refusal) => Some(Self::refused(claim, refusal, now)),
        }
    }

    /// Another member made the claim that is asked after: the one of that pod, if it is in the view.
    pub(super) fn other_member(error: &ClaimError, pod: Option<String>) -> Self {
        let mut detail = error.to_string();
        if let Some(pod) = &pod {
            detail = format!("{detail}, at the sidecar of {pod}");
        }
        let mut problem = Self::new(ProblemType::OtherMember, detail);
        problem.body.pod = pod;
        problem
    }

    fn lost(claim: &Claim, reason: LostReason) -> Self {
        let mut problem = Self::new(ProblemType::Lost, lost_detail(reason)).about(claim);
        problem.body.reason = Some(reason.name());
        problem
    }

    fn refused(claim: &Claim, refusal: &Refusal, now: LocalTime) -> Self {
        let (kind, holder) = match refusal {
            Refusal::Held { holder } => (ProblemType::Held, holder.as_ref()),
            Refusal::WaitTimeout { holder } => (ProblemType::WaitTimeout, holder.as_ref()),
            Refusal::NoQuorum => (ProblemType::NoQuorum, None),
            Refusal::GracePeriod { .. } => (ProblemType::GracePeriod, None),
            Refusal::Terminated => (ProblemType::Terminating, None),
        };
        // As it was when the claim was refused, and not as it was when the waiting began.
        let then = claim.settled.unwrap_or(claim.asked);
        let detail = match holder {
            Some(holder) => held_by(claim, holder, then),
            None => format!("`{}` was not granted", claim.lock),
        };
        let mut problem = Self::new(kind, detail).about(claim);
        if kind.row().status == StatusCode::LOCKED {
            problem.body.holders =
                Some(holder.into_iter().map(|h| HolderView::at(h, then)).collect());
        }
        if let Refusal::GracePeriod { until } = refusal {
            problem.retry_after = Some(seconds_until(now, *until));
        }
        problem
    }

    fn about(mut self, claim: &Claim) -> Self {
        let waited = claim.settled.unwrap_or(claim.asked) - claim.asked;
        self.body.lock = Some(claim.lock.to_string());
        self.body.claim = Some(claim.id.to_string());
        self.body.waited_ms = Some(super::claim_view::millis(waited));
        self
    }
}

impl From<AskError> for Problem {
    fn from(error: AskError) -> Self {
        let kind = match &error {
            AskError::NotAllowed => ProblemType::NotAllowed,
            AskError::Differs => ProblemType::ClaimDiffers,
            AskError::Ended(claim) => return ended(claim),
            AskError::Drawn => return Self::invalid("claim", error.to_string()),
            AskError::Full { .. } => ProblemType::QueueFull,
            AskError::NotReady(_) => ProblemType::NotReady,
            AskError::Closed => ProblemType::Terminating,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<ElectionError> for Problem {
    fn from(error: ElectionError) -> Self {
        let kind = match &error {
            ElectionError::NoElection | ElectionError::NoCandidate(_) => ProblemType::NotFound,
            ElectionError::NotLeader => ProblemType::NotLeader,
            ElectionError::NotReady(_) => ProblemType::NotReady,
            ElectionError::Closed => ProblemType::Terminating,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<ClockError> for Problem {
    fn from(error: ClockError) -> Self {
        let kind = match &error {
            ClockError::NoKind => return Self::invalid("kind", format!("{KINDS} ({error})")),
            ClockError::Untrue(_) => {
                return Self::invalid("stamp", format!("a stamp of this clock ({error})"));
            }
            ClockError::Ahead(ahead) => {
                let mut problem = Self::new(ProblemType::StampAhead, error.to_string());
                // Unless its clock runs on meanwhile, the stamp is no longer ahead then.
                let seconds = ahead.units.div_ceil(1 << 16);
                problem.retry_after = Some(u16::try_from(seconds).unwrap_or(u16::MAX));
                return problem;
            }
            ClockError::VectorFull(limits) => {
                let mut problem = Self::new(ProblemType::VectorFull, error.to_string());
                problem.body.field = Some("stamp.entries".to_owned());
                problem.body.expected = Some(limits.to_string());
                return problem;
            }
            ClockError::KindDiffers { .. } => ProblemType::KindDiffers,
            ClockError::TooMany => ProblemType::TooManyClocks,
            ClockError::TimeUnknown(_) => ProblemType::TimeUnknown,
            ClockError::Exhausted(_) => ProblemType::ClockExhausted,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<ClaimError> for Problem {
    fn from(error: ClaimError) -> Self {
        let kind = match &error {
            ClaimError::NotFound => ProblemType::NotFound,
            ClaimError::Ended(claim) => return ended(claim),
            ClaimError::Restarted => {
                let mut problem = Self::new(ProblemType::Lost, error.to_string());
                problem.body.reason = Some(LostReason::Restarted.name());
                return problem;
            }
            ClaimError::OfAnother(_) => ProblemType::OtherMember,
            ClaimError::Waiting => ProblemType::NotHeld,
            ClaimError::Closed => ProblemType::Terminating,
        };
        Self::new(kind, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let row = self.kind.row();
        let mut response = (row.status, Json(&*self.body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_MEDIA));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The type of a refusal, as it is written in answers.
pub(super) fn refusal_name(refusal: &Refusal) -> &'static str {
    let kind = match refusal {
        Refusal::Held { .. } => ProblemType::Held,
        Refusal::WaitTimeout { .. } => ProblemType::WaitTimeout,
        Refusal::NoQuorum => ProblemType::NoQuorum,
        Refusal::GracePeriod { .. } => ProblemType::GracePeriod,
        Refusal::Terminated => ProblemType::Terminating,
    };
    kind.row().name
}

fn ended(claim: &Claim) -> Problem {
    match &claim.state {
        ClaimState::Refused(refusal) => {
            let detail = format!("it was refused before: {}", refusal_name(refusal));
            Problem::new(ProblemType::ClaimReused, detail).about(claim)
        }
        ClaimState::Lost(reason) => Problem::lost(claim, *reason),
        ClaimState::Released => Problem::new(ProblemType::Released, "released before").about(claim),
        // The group task says that it has ended: its time is over.
        ClaimState::Held(held) => Problem::lost(claim, held.ends_by),
        ClaimState::Waiting { .. } => Problem::lost(claim, LostReason::LeaseExpired),
    }
}

fn lost_detail(reason: LostReason) -> &'static str {
    match reason {
        LostReason::LeaseExpired => "it was not renewed in time: this member was cut off or paused",
        LostReason::TtlExpired => "the application did not renew it within its ttl",
        LostReason::MaxHold => "it was held for as long as it may be",
        LostReason::ViewChange => "the group re-formed without it",
        LostReason::Terminated => "the sidecar is shutting down, or the group was dissolved",
        LostReason::Restarted => "it belonged to an earlier process of this sidecar",
    }
}

fn held_by(claim: &Claim, holder: &Holder, now: LocalTime) -> String {
    let Holder { pod, owner, held: _, notified: _, token: _, metadata: _ } = holder;
    let held = holder.held_at(now).as_secs_f64();
    format!("`{}` is held by {owner} in {pod} since {held:.1} s", claim.lock)
}

/// Whole seconds, at least one: by then it is over.
fn seconds_until(now: LocalTime, later: LocalTime) -> u16 {
    let millis = now.until(later).as_millis();
    u16::try_from(millis.div_ceil(1_000)).unwrap_or(u16::MAX).max(1)
}

/// As much of a text from outside as an answer repeats.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}
