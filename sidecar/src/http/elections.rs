//! Elections: who leads, and whether it is this member.

use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
pub(super) use conclave_protocols::elections::DEFAULT as NAME;
use conclave_protocols::policy::{Arbiter, ElectionAlgorithm};
use conclave_protocols::{FencingToken, LocalTime};
use serde::Serialize;
use tokio::sync::watch;
use utoipa::ToSchema;

use super::Api;
use super::answer::Json;
use super::claim_view::{Guarantee, millis, raw};
use super::fields::{Fields, QueryFields};
use super::problem::{Problem, ProblemBody};
use super::safety::Safety;
use super::trail;
use super::watched::{self, Patience, Watched};
use crate::group::{
    CandidacyState, Election, ElectionCost, ElectionError, ElectionLease, LastElection, Leader,
    Leadership,
};
use crate::os_clock::ApplicationTime;

/// An election, as this member sees it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Election)]
pub(super) struct ElectionView {
    /// Its name.
    #[schema(example = "default")]
    election: String,
    /// How it is held.
    #[schema(value_type = String, example = "Bully")]
    algorithm: ElectionAlgorithm,
    /// What makes its outcome safe.
    #[schema(value_type = String, example = "Quorum")]
    arbiter: Arbiter,
    /// What its outcome is worth.
    guarantee: Guarantee,
    /// The number of the view, below 2^53.
    epoch: u64,
    /// Rises when leader, leadership or view changes.
    index: u64,
    /// Whether this member leads now.
    is_leader: bool,
    /// How this member stands.
    state: LeadershipName,
    /// How long this member surely leads; only while it does.
    #[serde(flatten)]
    safety: Safety,
    /// The fencing token of this lead; only while this member leads in an election other than `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
    /// The leader; null if none is known.
    leader: Option<LeaderView>,
    /// Whether this pod's application stands; only where it was put forward, in an election other than `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    candidacy: Option<CandidacyName>,
    /// The Lease that its leader must have besides; only where the resource names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseView>,
    /// How many may be elected.
    candidates: u32,
    /// Changes of leader that this sidecar has seen.
    transitions: u64,
    /// The last election in which this member took part.
    last_election: Option<LastElectionView>,
    /// What the next election is to cost; null until this member has been in a view.
    expected_messages: Option<ExpectedView>,
    /// After `Last-Event-ID`: this event was missed, and is over.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    past: bool,
    /// After `Last-Event-ID`: there may have been events before this one that are not known any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    missed: bool,
}

/// How a member stands in an election.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Leadership)]
enum LeadershipName {
    /// It leads.
    Leading,
    /// Another leads.
    Following,
    /// One is being elected.
    Electing,
    /// It gives the lead to another; in an election other than `default` its application leads until it has stopped,
    /// and no longer than its deadline.
    HandingOver,
    /// It has lost touch with its group, or its leader lease has run out.
    Isolated,
}

/// Whether an application that was put forward stands, and if not, why.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = CandidacyState)]
enum CandidacyName {
    /// It stands.
    Stands,
    /// It resigned, and its cooldown lasts.
    Resting,
    /// It does not answer well when its health is asked.
    Unhealthy,
    /// A container of it does not run.
    Stopped,
    /// Its pod is about to end.
    Terminating,
}

/// The leader of an election.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[schema(as = Leader)]
struct LeaderView {
    /// The pod's name.
    pod: String,
    /// The pod's UID.
    uid: String,
    /// The pod's address.
    ip: String,
    /// Where its application is reached, as that states it; only in an election other than `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// What else it states.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<serde_json::Value>,
    /// For how long, as this member knows.
    since_ms: u64,
}

/// The Lease of an election, as this member sees it. It may lag.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[schema(as = ElectionLease)]
struct LeaseView {
    /// Its name.
    #[schema(example = "reports")]
    name: String,
    /// Its `holderIdentity`; null if nobody has it, or this member does not know.
    holder: Option<String>,
}

/// What an election cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[schema(as = LastElection)]
struct LastElectionView {
    /// Messages that this member sent in it until it knew the outcome, as the textbook counts them.
    messages: u64,
    /// How long it took here.
    duration_ms: u64,
}

/// Messages of the next election by the formula of the textbook, of all members together, among those that may be elected
/// now: of the group's leader after the present one has died, at worst with what is sent to that one, or of another election
/// among all candidates but its leader.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ToSchema)]
#[schema(as = ElectionCost)]
struct ExpectedView {
    /// At best.
    best: u32,
    /// At worst.
    worst: u32,
}

/// The elections of a group.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Elections)]
pub(super) struct ElectionList {
    /// All of them.
    elections: Vec<ElectionView>,
}

/// The election that a path names.
pub(super) struct ElectionPath(watch::Receiver<Election>);

/// Lists the elections.
#[utoipa::path(
    get,
    path = "/v1/elections",
    operation_id = "listElections",
    tag = "elections",
    responses(
        (status = 200, description = "All of them.", body = ElectionList),
        (status = 400, description = "`invalid`", body = ProblemBody)
    )
)]
pub(super) async fn list_elections(
    State(api): State<Api>,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    nothing_to_wait_for(query)?;
    let named = api.group.named_elections();
    let named = named.borrow();
    let all = std::iter::once(&api.group.election).chain(named.values());
    let elections = all.map(|election| present(&api, election)).collect();
    Ok(Json(ElectionList { elections }).into_response())
}

/// Shows an election: its leader, and how this member stands.
///
/// With `wait` and `index` it answers when the state differs from the one that had this index; with
/// `Accept: text/event-stream` it streams every change, the present state first.
#[utoipa::path(
    get,
    path = "/v1/elections/{election}",
    operation_id = "getElection",
    tag = "elections",
    params(
        ("election" = String, Path, description = "`default` is the group's leadership; others are what the resource lists."),
        ("wait" = Option<String>, Query, description = "How long to wait for a change."),
        ("index" = Option<u64>, Query, description = "The index that the caller has seen."),
        ("Last-Event-ID" = Option<String>, Header, description = "With a stream: the `id` of the event that the caller read last.")
    ),
    responses(
        (status = 200, description = "Also while nobody leads; with `Accept: text/event-stream` its events, each with the election as its data.",
            content((ElectionView = "application/json"), (String = "text/event-stream"))),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 404, description = "`not-found`", body = ProblemBody),
        (status = 429, description = "`queue-full`", body = ProblemBody)
    )
)]
pub(super) async fn get_election(
    State(api): State<Api>,
    ElectionPath(mut election): ElectionPath,
    headers: HeaderMap,
    QueryFields(mut query): QueryFields,
) -> Result<Response, Problem> {
    let patience = Patience::of(&mut query)?;
    query.finish(&["wait", "index"])?;
    if watched::wants_events(&headers) {
        let permit = api.long_call()?;
        return Ok(trail::events(&api, election, &headers, ((), permit)));
    }
    patience.wait(&api, &mut election).await?;
    Ok(Json(present(&api, &election)).into_response())
}

/// Says by its status whether this member leads: for probes and for `curl -f`.
#[utoipa::path(
    get,
    path = "/v1/elections/{election}/self",
    operation_id = "isLeader",
    tag = "elections",
    params(("election" = String, Path, description = "`default` is the group's leadership; others are what the resource lists.")),
    responses(
        (status = 200, description = "It leads.", body = ElectionView),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 404, description = "`not-found`", body = ProblemBody),
        (status = 503, description = "It does not lead.", body = ElectionView)
    )
)]
pub(super) async fn is_leader(
    State(api): State<Api>,
    ElectionPath(election): ElectionPath,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    nothing_to_wait_for(query)?;
    let view = present(&api, &election);
    let status = if view.is_leader { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok((status, Json(view)).into_response())
}

/// A call that answers at once and takes no parameters.
fn nothing_to_wait_for(query: Fields) -> Result<(), Problem> {
    query.without(
        &["wait", "index"],
        "to be asked of `GET /v1/elections/{election}`, which waits for a change of that one",
    )?;
    query.finish(&[])
}

impl FromRequestParts<Api> for ElectionPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, api).await;
        let Path(name) = path.map_err(|error| Problem::invalid("election", error.body_text()))?;
        find(api, &name).map(Self).ok_or_else(|| ElectionError::NoElection.into())
    }
}

impl Watched for Election {
    type View = ElectionView;

    fn index(&self) -> u64 {
        self.index
    }

    fn deadline(&self) -> Option<LocalTime> {
        Self::deadline(self)
    }

    fn view(&self, now: ApplicationTime) -> ElectionView {
        let leads = self.leads_at(now.boottime);
        let expired = self.has_expired(now.boottime);
        let leader = self.leader_at(now.boottime);
        ElectionView {
            election: self.name.clone(),
            algorithm: self.algorithm,
            arbiter: self.arbiter,
            guarantee: self.arbiter.into(),
            epoch: self.epoch.0,
            index: self.index,
            is_leader: leads,
            state: if expired { LeadershipName::Isolated } else { self.leadership.into() },
            safety: self
                .safe_until
                .filter(|_| leads)
                .map_or_else(Safety::default, |until| Safety::until(until, now)),
            token: self.token.filter(|_| leads).map(FencingToken::get),
            leader: leader.map(|leader| LeaderView::at(leader, now.boottime)),
            candidacy: CandidacyName::of(self.candidacy),
            lease: self.lease.clone().map(Into::into),
            candidates: self.candidates,
            transitions: self.transitions,
            last_election: self.last.map(Into::into),
            expected_messages: self.expected.map(Into::into),
            past: false,
            missed: false,
        }
    }

    fn led_until(&self, now: LocalTime) -> Option<LocalTime> {
        // The lead in a named election ends when its application is notified, or at its deadline: nobody waits.
        self.safe_until.filter(|_| self.name == NAME && self.leads_at(now))
    }

    fn events(before: Option<&ElectionView>, now: &ElectionView) -> Vec<&'static str> {
        let led = before.is_some_and(|before| before.is_leader);
        if let Some(before) = before.filter(|before| before.stands_as(now)) {
            return vec![match (before.epoch == now.epoch, before.index == now.index) {
                (false, _) => "epoch",
                (true, true) => "safe",
                (true, false) => "changed",
            }];
        }
        let mut events = Vec::new();
        // With another token it leads anew.
        if led && (!now.is_leader || before.is_some_and(|before| before.token != now.token)) {
            events.push("lost");
        }
        if now.terminates() && before.is_none_or(|before| !before.terminates()) {
            events.push("terminating");
            if now.state != LeadershipName::HandingOver {
                return events;
            }
        }
        events.push(match (now.is_leader, now.state, &now.leader) {
            (true, LeadershipName::HandingOver, _) => "handing-over",
            (true, ..) => "elected",
            (false, LeadershipName::HandingOver, _) => "handing-over",
            (false, _, Some(_)) => "leader",
            (false, _, None) => "no-leader",
        });
        events
    }

    fn is_final(_: &ElectionView) -> bool {
        false
    }
}

impl ElectionView {
    /// The same as something that is over: nobody may take it for the present, whatever its deadline was.
    pub(super) fn past(self) -> Self {
        Self { is_leader: false, safety: Safety::default(), past: true, ..self }
    }

    /// The same after events that are not known any more.
    pub(super) fn after_others(self) -> Self {
        Self { missed: true, ..self }
    }

    /// The pod that leads, and for how many milliseconds it has led: the pod `me` of this member only while it surely
    /// leads, and another while this member follows it. A nominee hears of its own lead before it has it.
    pub(super) fn led_by(&self, me: &str) -> Option<(&str, u64)> {
        let leader = self.leader.as_ref()?;
        let follows = self.state == LeadershipName::Following;
        let leads = self.is_leader && self.state == LeadershipName::Leading;
        let known = if leader.pod == me { leads } else { follows };
        known.then_some((leader.pod.as_str(), leader.since_ms))
    }

    /// Whether this member leads in a pod that is about to end.
    fn terminates(&self) -> bool {
        self.is_leader && self.candidacy == Some(CandidacyName::Terminating)
    }

    /// Whether the same member leads, and this one stands as it did.
    fn stands_as(&self, other: &Self) -> bool {
        let leader = |view: &Self| view.leader.as_ref().map(|leader| leader.uid.clone());
        let of =
            |view: &Self| (view.is_leader, view.state, view.terminates(), view.token, leader(view));
        of(self) == of(other)
    }
}

impl LeaderView {
    fn at(leader: &Leader, now: LocalTime) -> Self {
        Self {
            pod: leader.pod.clone(),
            uid: leader.uid.clone(),
            ip: leader.ip.clone(),
            address: leader.profile.address.clone(),
            metadata: raw(leader.profile.metadata.as_ref()),
            since_ms: millis(now - leader.since),
        }
    }
}

impl CandidacyName {
    fn of(state: CandidacyState) -> Option<Self> {
        match state {
            CandidacyState::None => None,
            CandidacyState::Stands => Some(Self::Stands),
            CandidacyState::Resting => Some(Self::Resting),
            CandidacyState::Unhealthy => Some(Self::Unhealthy),
            CandidacyState::Stopped => Some(Self::Stopped),
            CandidacyState::Terminating => Some(Self::Terminating),
        }
    }
}

impl From<ElectionLease> for LeaseView {
    fn from(ElectionLease { name, holder }: ElectionLease) -> Self {
        Self { name, holder }
    }
}

impl From<LastElection> for LastElectionView {
    fn from(last: LastElection) -> Self {
        Self { messages: last.messages, duration_ms: millis(last.duration) }
    }
}

impl From<ElectionCost> for ExpectedView {
    fn from(ElectionCost { best, worst }: ElectionCost) -> Self {
        Self { best, worst }
    }
}

impl From<Leadership> for LeadershipName {
    fn from(leadership: Leadership) -> Self {
        match leadership {
            Leadership::Leading => Self::Leading,
            Leadership::Following => Self::Following,
            Leadership::Electing => Self::Electing,
            Leadership::HandingOver => Self::HandingOver,
            Leadership::Isolated => Self::Isolated,
        }
    }
}

/// The election of that name, if there is one.
pub(super) fn find(api: &Api, name: &str) -> Option<watch::Receiver<Election>> {
    if name == NAME {
        return Some(api.group.election());
    }
    api.group.named_elections().borrow().get(name).cloned()
}

/// How an election stands now.
pub(super) fn present(api: &Api, election: &watch::Receiver<Election>) -> ElectionView {
    let now = api.group.os_clock().moment();
    let election = election.borrow();
    // Before the task that changes it can go on: it must know what was answered.
    api.group.believers.answered(election.led_until(now.boottime));
    election.view(now)
}
