//! The caller that asked for a claim: as long as it listens, the claim is wanted.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::watch;

use super::Api;
use crate::claims::{Ask, AskError, Claim, ClaimState};
use crate::group::{Answer, Asked};

/// Gives a claim up when it is dropped: its caller hung up.
///
/// It travels with the request: through the wait for the grant, and the body of the answer until the connection
/// has taken it, or the stream of events as long as it lasts.
pub(super) struct Caller {
    api: Api,
    claim: Option<watch::Receiver<Claim>>,
    on_hang_up: OnHangUp,
}

/// What becomes of a claim whose caller hung up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum OnHangUp {
    /// Nobody knows its name, or a stream of its events was to be what it lasts by: it is given back even if it
    /// holds.
    Release,
    /// The client named it, and finds it again by asking again: only a wait ends.
    Abandon,
}

impl Caller {
    /// The caller knows what it needs to know: from now on the claim lives without it.
    pub(super) fn leave(&mut self) {
        self.claim = None;
    }

    /// Hands the claim over once the connection has taken the answer's body.
    pub(super) fn deliver(self, response: Response) -> Response {
        response.map(|body| Body::new(Delivery { body, caller: self }))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let Some(claim) = self.claim.take() else { return };
        let claim = claim.borrow().clone();
        if !is_open(&claim.state) {
            return;
        }
        match self.on_hang_up {
            OnHangUp::Abandon => self.api.group.abandon(claim.lock, claim.id),
            // Not only given up while it waits: it may be granted at this very moment.
            OnHangUp::Release => {
                let api = self.api.clone();
                tokio::spawn(async move { api.group.release(claim.lock, claim.id).await });
            }
        }
    }
}

/// Asks for a claim. Whether its caller hangs up before or after the group has answered, it is given up.
pub(super) async fn ask(
    api: Api,
    ask: Ask,
    on_hang_up: OnHangUp,
) -> Result<(Asked, Caller), AskError> {
    let answer = api.group.begin_to_ask(ask).await?;
    let mut asking = Asking { api, answer, on_hang_up };
    let asked = (&mut asking.answer).await.unwrap_or(Err(AskError::Closed))?;
    let caller = asking.caller_of(&asked);
    Ok((asked, caller))
}

/// A call that waits for the group's answer.
struct Asking {
    api: Api,
    answer: Answer,
    on_hang_up: OnHangUp,
}

impl Asking {
    /// A caller that repeats a claim does not own the wait of the one that made it.
    fn caller_of(&self, asked: &Asked) -> Caller {
        let claim = asked.created.then(|| asked.claim.clone());
        Caller { api: self.api.clone(), claim, on_hang_up: self.on_hang_up }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        // The group gives up what it cannot answer any more. What it has answered already ends here.
        self.answer.close();
        if let Ok(Ok(asked)) = self.answer.try_recv() {
            drop(self.caller_of(&asked));
        }
    }
}

/// Whether there is something to give up or to give back.
fn is_open(state: &ClaimState) -> bool {
    match state {
        ClaimState::Waiting { .. } | ClaimState::Held(_) => true,
        ClaimState::Released | ClaimState::Lost(_) | ClaimState::Refused(_) => false,
    }
}

/// The body of an answer that reports a claim.
struct Delivery {
    body: Body,
    caller: Caller,
}

impl HttpBody for Delivery {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_ready() {
            self.caller.leave();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
