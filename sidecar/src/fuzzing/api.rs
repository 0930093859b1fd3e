//! The API in front of a group that answers whatever it is asked.

use std::collections::VecDeque;

use axum::Router;
use conclave_protocols::LockName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::claims::{Ask, AskError, Claim, ClaimError, ClaimId, ClaimState, Refusal};
use crate::group::{Asked, ElectionError, Request};
use crate::http::tests::double::{Double, claim, held, waiting};
use crate::http::{Limits, serve_one};
use crate::locks::Locks;

/// The API of a group whose answers go by the names of locks and claims.
#[derive(Clone, Debug)]
pub struct PlayedApi {
    router: Router,
    limits: Limits,
}

impl PlayedApi {
    /// Begins to play the group, on the runtime that this is called on.
    pub fn begin() -> Self {
        let double = Double::new();
        let (router, limits) = (double.router(), double.limits);
        tokio::spawn(play(double));
        Self { router, limits }
    }

    /// Its routes, within their guard.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Serves one connection to its end, as if it had come in over TCP.
    pub async fn serve<I>(&self, io: I)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        serve_one(io, self.router(), self.limits).await;
    }
}

async fn play(mut double: Double) {
    let mut notified = Senders::default();
    while let Some(request) = double.requests.recv().await {
        // The caller may have hung up.
        match request {
            Request::Ask(ask, reply) => drop(reply.send(notified.asked(ask))),
            Request::Find(lock, id, reply) => {
                drop(reply.send(found(lock, id).map(|claim| notified.tell(claim))));
            }
            Request::Renew(lock, id, _, reply) => drop(reply.send(found(lock, id))),
            Request::Release(lock, id, reply) => {
                drop(reply.send(found(lock, id).map(drop)));
            }
            Request::Locks(_, reply) => drop(reply.send(Ok(Locks::default()))),
            Request::Claims(reply) => drop(reply.send(Vec::new())),
            Request::Election(_, request) => request.refuse(ElectionError::NoElection),
            Request::Abandon(..) | Request::Drain => {}
        }
    }
}

/// The latest claims that somebody was notified of: they change as long as these are here.
#[derive(Default)]
struct Senders(VecDeque<watch::Sender<Claim>>);

impl Senders {
    fn asked(&mut self, ask: Ask) -> Result<Asked, AskError> {
        let state = match ask.lock.as_str().as_bytes().first() {
            Some(b'f') => return Err(AskError::Full { what: "claims", limit: 1 }),
            Some(b'n') => return Err(AskError::NotAllowed),
            Some(b'r') => ClaimState::Refused(Refusal::NoQuorum),
            Some(b'w') => waiting(),
            Some(_) | None => held(),
        };
        let asked = claim(state);
        let id = ask.claim.unwrap_or_else(|| asked.id.clone());
        let ttl = ask.ttl;
        let metadata = ask.metadata;
        Ok(Asked {
            created: true,
            claim: self.tell(Claim { id, ttl, metadata, lock: ask.lock, ..asked }),
        })
    }

    fn tell(&mut self, claim: Claim) -> watch::Receiver<Claim> {
        let (sender, receiver) = watch::channel(claim);
        self.0.push_front(sender);
        self.0.truncate(NOTIFIED);
        receiver
    }
}

fn found(lock: LockName, id: ClaimId) -> Result<Claim, ClaimError> {
    let state = match id.as_str().as_bytes().first() {
        Some(b'n') => return Err(ClaimError::NotFound),
        Some(b'e') => return Err(ClaimError::Ended(Box::new(claim(ClaimState::Released)))),
        Some(b'o') => return Err(ClaimError::Restarted),
        Some(b'w') => waiting(),
        Some(_) | None => held(),
    };
    Ok(Claim { id, lock, ..claim(state) })
}

const NOTIFIED: usize = 16;
