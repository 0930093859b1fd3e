//! The group, as the rest of the sidecar sees it: a handle to the one task that owns it.

mod believers;
mod book;
mod candidacies;
mod costs;
mod elections;
mod node;
mod publish;
mod reading;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod slot;
#[cfg(test)]
mod swarm;
pub(crate) mod task;
mod timers;

use conclave_protocols::clock::ClockMap;
use conclave_protocols::policy::{Arbiter, ClockPolicy, Evidence};
use conclave_protocols::{Epoch, LocalTime, LockName};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use self::believers::{Believer, Believers};
pub use self::elections::{
    CandidacyState, Election, ElectionCost, ElectionError, ElectionLease, LastElection, Leader,
    Leadership, NamedElections, Stood,
};
pub(crate) use self::elections::{Connection, ElectionRequest, Keepalive, Stands};
pub(crate) use self::reading::{LatestTime, TimeNow};
pub(crate) use self::timers::sleep_until;
use crate::claims::{Ask, AskError, Claim, ClaimError, ClaimId};
use crate::locks::{Locks, LocksError, Which};
use crate::os_clock::OsClock;
use crate::probes::Probed;

/// A handle to a group. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Group {
    pub(crate) requests: mpsc::Sender<Request>,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) election: watch::Receiver<Election>,
    pub(crate) named: watch::Receiver<NamedElections>,
    pub(crate) time: watch::Receiver<ClockMap>,
    pub(crate) probed: watch::Receiver<Probed>,
    /// When the present life of the member began, by the raw clock; before the first, the process.
    pub(crate) life: watch::Receiver<LocalTime>,
    pub(crate) clock: OsClock,
    pub(crate) latest: LatestTime,
    pub(crate) believers: Believers,
}

/// A claim that was accepted: how it stands now, and whenever it changes.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Whether this request made it; else it repeats one that stands.
    pub created: bool,
    /// Its state. The channel closes when the group task ends.
    pub claim: watch::Receiver<Claim>,
}

/// What is answered to a caller that asks for a claim.
pub(crate) type Answer = oneshot::Receiver<Result<Asked, AskError>>;

/// What is asked of the group task.
#[derive(Debug)]
pub(crate) enum Request {
    Ask(Ask, oneshot::Sender<Result<Asked, AskError>>),
    Find(LockName, ClaimId, oneshot::Sender<Result<watch::Receiver<Claim>, ClaimError>>),
    Renew(LockName, ClaimId, Option<Duration>, oneshot::Sender<Result<Claim, ClaimError>>),
    Release(LockName, ClaimId, oneshot::Sender<Result<(), ClaimError>>),
    /// About an election.
    Election(String, ElectionRequest),
    /// Show locks.
    Locks(Which, oneshot::Sender<Result<Locks, LocksError>>),
    /// Show the claims that wait or hold.
    Claims(oneshot::Sender<Vec<watch::Receiver<Claim>>>),
    /// The caller that waited for this claim hung up: give it up if it still waits.
    Abandon(LockName, ClaimId),
    /// Hand the leadership over, and do not take it again: the pod is about to end.
    Drain,
}

impl Group {
    /// Makes a claim, or finds the one that the client named.
    pub async fn ask(&self, ask: Ask) -> Result<Asked, AskError> {
        self.begin_to_ask(ask).await?.await.unwrap_or(Err(AskError::Closed))
    }

    /// The same, but for the answer. The group gives up a claim that nobody would hear of.
    pub(crate) async fn begin_to_ask(&self, ask: Ask) -> Result<Answer, AskError> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(Request::Ask(ask, reply)).await.map_err(|_| AskError::Closed)?;
        Ok(answer)
    }

    /// Finds a claim, ended ones too as long as they are remembered.
    pub async fn find(
        &self,
        lock: LockName,
        claim: ClaimId,
    ) -> Result<watch::Receiver<Claim>, ClaimError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Find(lock, claim, reply);
        self.requests.send(request).await.map_err(|_| ClaimError::Closed)?;
        answer.await.unwrap_or(Err(ClaimError::Closed))
    }

    /// Renews a claim that has a `ttl`; sets another one if given.
    pub async fn renew(
        &self,
        lock: LockName,
        claim: ClaimId,
        ttl: Option<Duration>,
    ) -> Result<Claim, ClaimError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Renew(lock, claim, ttl, reply);
        self.requests.send(request).await.map_err(|_| ClaimError::Closed)?;
        answer.await.unwrap_or(Err(ClaimError::Closed))
    }

    /// Gives a claim back, or gives it up. Done again it does nothing; a claim that was lost or
    /// refused before says so.
    pub async fn release(&self, lock: LockName, claim: ClaimId) -> Result<(), ClaimError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Release(lock, claim, reply);
        self.requests.send(request).await.map_err(|_| ClaimError::Closed)?;
        answer.await.unwrap_or(Err(ClaimError::Closed))
    }

    /// How locks stand, as this member knows it.
    pub async fn locks(&self, which: Which) -> Result<Locks, LocksError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Locks(which, reply);
        self.requests.send(request).await.map_err(|_| LocksError::Closed)?;
        answer.await.unwrap_or(Err(LocksError::Closed))
    }

    /// The claims that wait or hold now; none once the group has ended.
    pub(crate) async fn claims(&self) -> Vec<watch::Receiver<Claim>> {
        let (reply, answer) = oneshot::channel();
        // A closed group has no claims, and gives no answer.
        let _ = self.requests.send(Request::Claims(reply)).await;
        answer.await.unwrap_or_default()
    }

    /// Gives up a claim that still waits, because nobody listens any more. Does not wait.
    pub fn abandon(&self, lock: LockName, claim: ClaimId) {
        let requests = self.requests.clone();
        tokio::spawn(async move {
            // A closed group has no waiting claims.
            let _ = requests.send(Request::Abandon(lock, claim)).await;
        });
    }

    /// Tells the group that the pod is about to end: another should lead.
    pub async fn drain(&self) {
        // A closed group leads nothing.
        let _ = self.requests.send(Request::Drain).await;
    }

    /// Who is in the group, and how this member stands.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// The group clock: what to read the raw clock ([`OsClock::raw`]) with.
    pub fn group_time(&self) -> watch::Receiver<ClockMap> {
        self.time.clone()
    }

    /// What came of clock probes, peer by peer.
    pub(crate) fn probed(&self) -> watch::Receiver<Probed> {
        self.probed.clone()
    }

    /// The clock by which deadlines of claims and of the leadership are read.
    pub fn os_clock(&self) -> OsClock {
        self.clock
    }
}

/// Who is in the group, and how this member stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Status {
    /// The group's name.
    pub group: String,
    /// This pod's name.
    pub pod: String,
    /// What is missing before calls can be answered; nothing when the member is in a view.
    pub missing: Option<String>,
    /// The view's number; zero before the first.
    pub epoch: Epoch,
    /// What makes outcomes safe.
    pub arbiter: Arbiter,
    /// What proves that a member is dead.
    pub evidence: Evidence,
    /// The generation of the policy in force.
    pub policy_generation: i64,
    /// How the group clock is kept.
    pub clock: ClockPolicy,
    /// The version that the members of the view speak.
    pub speaks: u16,
    /// Whether locks are granted in the group; nothing if that is not known.
    pub grants: Option<bool>,
    /// Until when nothing is newly granted, by this member's clock: somebody of an earlier view may
    /// hold. Nothing if there is no such wait, or this member does not know of it.
    pub grace_until: Option<LocalTime>,
    /// The members of the view, the highest rank last.
    pub members: Vec<MemberStatus>,
    /// Members that may be lost at once without losing the group.
    pub tolerates: u32,
    /// How long an outage of the API server is surely survived; nothing if any is, because nobody asks
    /// it.
    pub outage_survived: Option<Duration>,
    /// When the register last confirmed the view, by this member's clock.
    pub confirmed: Option<LocalTime>,
    /// The pod is about to end.
    pub draining: bool,
    /// View changes seen by this process.
    pub view_changes: u64,
    /// Rises with every change.
    pub index: u64,
}

impl Status {
    /// Until when nothing is newly granted, if that lies ahead.
    pub fn grace_after(&self, now: LocalTime) -> Option<LocalTime> {
        self.grace_until.filter(|until| *until > now)
    }
}

/// One member of the view.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MemberStatus {
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// The process' own number.
    pub run: u64,
    /// Addresses of its peer port, `ip:port`.
    pub addresses: Vec<String>,
    /// Its rank.
    pub rank: u32,
    /// Whether it leads the view, if anybody does.
    pub leader: bool,
    /// Whether it is this member.
    pub me: bool,
    /// Whether a session to it is open; `true` for this member.
    pub connected: bool,
    /// Whether this member watches it and guesses that it has crashed.
    pub suspected: bool,
}
