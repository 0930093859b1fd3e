//! The group: who is in it, and how this member stands.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use conclave_protocols::LocalTime;
use conclave_protocols::policy::Arbiter;
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::answer::Json;
use super::claim_view::{Guarantee, millis};
use super::fields::QueryFields;
use super::problem::{Problem, ProblemBody};
use super::watched::{Patience, Watched};
use crate::group::{MemberStatus, Status};
use crate::os_clock::ApplicationTime;

/// The members of the view.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Members)]
pub(super) struct MembersView {
    /// The number of the view, below 2^53; 0 before the first.
    epoch: u64,
    /// Rises with every change.
    index: u64,
    /// The highest rank last.
    members: Vec<MemberView>,
}

/// One member.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Member)]
struct MemberView {
    /// The pod's name.
    pod: String,
    /// The pod's UID.
    uid: String,
    /// The process' own number, below 2^53: a restarted sidecar is another member.
    run: u64,
    /// Addresses of its peer port.
    addresses: Vec<String>,
    /// Its rank; textbook process ids are ranks.
    rank: u32,
    /// Whether it leads, as far as the member that answers knows.
    leader: bool,
    /// Whether it is the member that answers.
    me: bool,
    /// Whether a session to it is open.
    connected: bool,
    /// Whether the member that answers guesses that this one has crashed. The leader watches all others, and
    /// each of them the leader. It may be wrong.
    suspected: bool,
}

/// How a member stands.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Status)]
pub(super) struct StatusView {
    /// The group's name.
    group: String,
    /// This pod's name.
    pod: String,
    /// Whether this member is in a view whose leader it knows: without one no lock is granted.
    ready: bool,
    /// What is missing; null when nothing is.
    missing: Option<String>,
    /// The number of the view, below 2^53; 0 before the first.
    epoch: u64,
    /// Rises with every change.
    index: u64,
    /// What makes outcomes safe.
    #[schema(value_type = String, example = "Quorum")]
    arbiter: Arbiter,
    /// What outcomes are worth.
    guarantee: Guarantee,
    /// The generation of the policy in force.
    policy_generation: i64,
    /// The version of the protocol that the members of the view speak: the highest that all do.
    protocol_version: u16,
    /// Whether locks are granted in the group at the moment: not while a view begins. Null if this
    /// member cannot know: nobody leads.
    grants: Option<bool>,
    /// For how much longer nothing is newly granted, because somebody of an earlier view may hold; null if
    /// this member knows of no such wait.
    grace_ms: Option<u64>,
    /// Members of the view.
    members: usize,
    /// Members that may be lost at once without losing the group.
    tolerates: u32,
    /// How long an outage of the API server is surely survived; null if any is, without an arbiter.
    outage_survived_ms: Option<u64>,
    /// Since when the API server has not confirmed the view; null if it never did.
    confirmed_ms: Option<u64>,
    /// The leader, as far as this member knows.
    leader: Option<String>,
    /// The pod is about to end.
    draining: bool,
    /// View changes that this sidecar has seen.
    view_changes: u64,
}

/// Lists the members of the view. With `wait` and `index` it waits for a change.
#[utoipa::path(
    get,
    path = "/v1/members",
    operation_id = "listMembers",
    tag = "group",
    params(
        ("wait" = Option<String>, Query, description = "How long to wait for a change."),
        ("index" = Option<u64>, Query, description = "The index that the caller has seen.")
    ),
    responses(
        (status = 200, description = "Empty before the first view.", body = MembersView),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 429, description = "`queue-full`", body = ProblemBody)
    )
)]
pub(super) async fn list_members(
    State(api): State<Api>,
    query: QueryFields,
) -> Result<Response, Problem> {
    wait(&api, query).await?;
    let now = api.group.os_clock().now();
    let leader = api.group.election.borrow().leader_at(now).map(|leader| leader.uid.clone());
    let view = MembersView::of(&api.group.status.borrow(), leader.as_deref());
    Ok(Json(view).into_response())
}

/// Shows how this member stands; always answers. With `wait` and `index` it waits for a change.
#[utoipa::path(
    get,
    path = "/v1/status",
    operation_id = "getStatus",
    tag = "group",
    params(
        ("wait" = Option<String>, Query, description = "How long to wait for a change."),
        ("index" = Option<u64>, Query, description = "The index that the caller has seen.")
    ),
    responses(
        (status = 200, description = "Also while the group is not ready.", body = StatusView),
        (status = 400, description = "`invalid`", body = ProblemBody),
        (status = 429, description = "`queue-full`", body = ProblemBody)
    )
)]
pub(super) async fn get_status(
    State(api): State<Api>,
    query: QueryFields,
) -> Result<Response, Problem> {
    wait(&api, query).await?;
    let now = api.group.os_clock().now();
    let leader = api.group.election.borrow().leader_at(now).map(|leader| leader.pod.clone());
    Ok(Json(StatusView::of(&api.group.status.borrow(), leader, now)).into_response())
}

async fn wait(api: &Api, QueryFields(mut query): QueryFields) -> Result<(), Problem> {
    let patience = Patience::of(&mut query)?;
    query.finish(&["wait", "index"])?;
    patience.wait(api, &mut api.group.status()).await
}

impl Watched for Status {
    type View = u64;

    fn index(&self) -> u64 {
        self.index
    }

    fn deadline(&self) -> Option<LocalTime> {
        None
    }

    fn view(&self, _: ApplicationTime) -> u64 {
        self.index
    }

    fn events(_: Option<&u64>, _: &u64) -> Vec<&'static str> {
        vec!["status"]
    }

    fn is_final(_: &u64) -> bool {
        false
    }
}

impl StatusView {
    /// The leader is the one that the election states, here as everywhere.
    fn of(status: &Status, leader: Option<String>, now: LocalTime) -> Self {
        // A leader grants before its applications may believe that it leads.
        let leads = leader.is_some() || status.grants == Some(true);
        let leaderless = (!leads).then(|| "nobody is known to lead the group".to_owned());
        let missing = status.missing.clone().or(leaderless);
        Self {
            group: status.group.clone(),
            pod: status.pod.clone(),
            ready: missing.is_none(),
            missing,
            epoch: status.epoch.0,
            index: status.index,
            arbiter: status.arbiter,
            guarantee: status.arbiter.into(),
            policy_generation: status.policy_generation,
            protocol_version: status.speaks,
            grants: status.grants,
            grace_ms: status.grace_after(now).map(|until| millis(now.until(until))),
            members: status.members.len(),
            tolerates: status.tolerates,
            outage_survived_ms: status.outage_survived.map(millis),
            confirmed_ms: status.confirmed.map(|confirmed| millis(now - confirmed)),
            leader,
            draining: status.draining,
            view_changes: status.view_changes,
        }
    }
}

impl MembersView {
    fn of(status: &Status, leader: Option<&str>) -> Self {
        let member = |member| MemberView::of(member, leader);
        Self {
            epoch: status.epoch.0,
            index: status.index,
            members: status.members.iter().map(member).collect(),
        }
    }
}

impl MemberView {
    fn of(member: &MemberStatus, leader: Option<&str>) -> Self {
        Self {
            pod: member.pod.clone(),
            uid: member.uid.clone(),
            run: member.run,
            addresses: member.addresses.clone(),
            rank: member.rank,
            leader: leader == Some(member.uid.as_str()),
            me: member.me,
            connected: member.connected,
            suspected: member.suspected,
        }
    }
}
