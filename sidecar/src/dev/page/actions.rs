//! What a visitor of the page can do to the group.

use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use conclave_protocols::LockName;

use super::Page;
use crate::claims::{Ask, ClaimId, Wait};
use crate::group::Group;

/// Why nothing was done, in words for the visitor.
pub(super) struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

type Done = Result<StatusCode, Refused>;

/// Does something to a member.
pub(super) async fn on_member(
    State(Page { members, observer }): State<Page>,
    Path((number, action)): Path<(u16, String)>,
) -> Done {
    let Some(outside) = members.outside(number) else { return Err(no_such("member")) };
    let failover = &observer.seen().failover;
    let group = members.group(number);
    let leads = group.is_some_and(|g| g.election().borrow().leads_at(g.os_clock().now()));
    let disturbs = |cause| {
        if leads {
            failover.begin(Instant::now(), number, cause);
        }
    };
    let goes_on = || {
        if leads {
            failover.came_to_nothing(number);
        }
    };
    match (action.as_str(), outside.alive) {
        ("kill", true) => {
            disturbs("killed");
            members.kill(number);
        }
        ("leave", true) => {
            disturbs("left");
            members.leave(number);
        }
        ("pause", true) => {
            disturbs("paused");
            members.pause(number, true);
        }
        ("resume", true) => {
            goes_on();
            members.pause(number, false);
        }
        ("cut", _) => {
            disturbs("cut off");
            members.cut(number, true);
        }
        ("join", _) => {
            goes_on();
            members.cut(number, false);
        }
        ("split", _) => {
            disturbs("split off");
            members.split(number, true);
        }
        ("unite", _) => {
            goes_on();
            members.split(number, false);
        }
        ("revive", _) => {
            let revived = members.revive(number).await;
            revived.map_err(|error| conflict(format!("it does not start: {error:#}")))?;
        }
        ("kill" | "leave" | "pause" | "resume", false) => {
            return Err(conflict("this member does not live"));
        }
        _ => return Err(no_such("action")),
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Cuts everybody off from the register, or joins it again.
pub(super) async fn on_register(State(page): State<Page>, Path(action): Path<String>) -> Done {
    match action.as_str() {
        "cut" => page.members.cut_register(true),
        "join" => page.members.cut_register(false),
        _ => return Err(no_such("action")),
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Asks for a lock on behalf of a member, for as long as it takes.
pub(super) async fn ask(
    State(page): State<Page>,
    Path((number, lock)): Path<(u16, String)>,
) -> Done {
    let lock = lock_name(lock)?;
    let group = answering(&page, number)?;
    let ask = Ask {
        lock,
        claim: None,
        wait: Wait::Forever,
        ttl: None,
        max_hold: None,
        owner: Some("the page".to_owned()),
        metadata: None,
    };
    in_time(group.ask(ask)).await?.map_err(|error| conflict(error.to_string()))?;
    Ok(StatusCode::ACCEPTED)
}

/// Gives a claim of a member back, or gives it up.
pub(super) async fn release(
    State(page): State<Page>,
    Path((number, lock, claim)): Path<(u16, String, String)>,
) -> Done {
    let lock = lock_name(lock)?;
    let claim = ClaimId::try_from(claim).map_err(|error| bad(error.to_string()))?;
    let group = answering(&page, number)?;
    let released = in_time(group.release(lock, claim)).await?;
    released.map_err(|error| conflict(error.to_string()))?;
    Ok(StatusCode::NO_CONTENT)
}

/// The group of a member that can answer. A paused one would take the request when it goes on, long
/// after the page reported that nothing came of it.
fn answering(page: &Page, number: u16) -> Result<Group, Refused> {
    match page.members.outside(number) {
        None => return Err(no_such("member")),
        Some(outside) if outside.paused => return Err(conflict("this member is paused")),
        Some(_) => {}
    }
    page.members.group(number).ok_or_else(|| conflict("this member does not live"))
}

async fn in_time<T>(answer: impl Future<Output = T>) -> Result<T, Refused> {
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    answer
        .map_err(|_| Refused(StatusCode::GATEWAY_TIMEOUT, "the member does not answer".to_owned()))
}

pub(super) fn lock_name(name: String) -> Result<LockName, Refused> {
    LockName::try_from(name).map_err(|error| bad(error.to_string()))
}

fn bad(why: String) -> Refused {
    Refused(StatusCode::BAD_REQUEST, why)
}

fn conflict(why: impl Into<String>) -> Refused {
    Refused(StatusCode::CONFLICT, why.into())
}

pub(super) fn no_such(what: &str) -> Refused {
    Refused(StatusCode::NOT_FOUND, format!("there is no such {what}"))
}

/// How long a member may take to answer: it may be paused meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);
