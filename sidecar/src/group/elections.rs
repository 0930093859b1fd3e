//! Elections, as the rest of the sidecar sees them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use conclave_protocols::member::{Candidacy, Profile};
use conclave_protocols::policy::{Arbiter, ElectionAlgorithm, Policy};
use conclave_protocols::{Epoch, FencingToken, LocalTime};
use tokio::sync::{oneshot, watch};

use super::{Group, Request};
use crate::os_clock::OsClock;

/// Named elections, by name. The channel of one closes when it is gone, or this member's life in the group is over.
pub type NamedElections = BTreeMap<String, watch::Receiver<Election>>;

/// The connection of an application: it is one, whatever becomes of its number elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection(Arc<()>);

impl Connection {
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// How an application stands in an election.
#[derive(Clone, Debug)]
pub(crate) struct Stands {
    pub(crate) candidacy: Candidacy,
    pub(crate) keepalive: Keepalive,
}

impl Stands {
    /// Whether the application states no more than that it is alive.
    pub(crate) fn is_repeated_by(&self, again: &Self) -> bool {
        let both = (&self.keepalive, &again.keepalive);
        matches!(both, (Keepalive::Client(_), Keepalive::Client(_)))
            && self.candidacy == again.candidacy
    }
}

/// How long it stands, and leads.
#[derive(Clone, Debug)]
pub(crate) enum Keepalive {
    /// Until it withdraws, or the sidecar ends, or a process of it.
    Sidecar,
    /// While the containers of the pod run: its annotation says so.
    Annotation,
    /// For as long as that lasts.
    Connection(Connection),
    /// For so long after the application stated it last.
    Client(Duration),
}

/// A candidacy, and how its election stands.
#[derive(Clone, Debug)]
pub struct Stood {
    /// Whether this request made it.
    pub created: bool,
    /// The election. The channel closes when the group task ends.
    pub election: watch::Receiver<Election>,
}

/// What is asked of the group task about an election.
#[derive(Debug)]
pub(crate) enum ElectionRequest {
    /// The application stands in it.
    Stand(Stands, oneshot::Sender<Result<Stood, ElectionError>>),
    /// That connection is over: the application stands no longer, if it stood by that.
    HungUp(Connection),
    /// The application stands in it no longer.
    Withdraw(oneshot::Sender<Result<(), ElectionError>>),
    /// The application has stopped leading, and stands again after that time. If it names a pod, that is to lead next.
    Resign(Option<String>, Duration, oneshot::Sender<Result<(), ElectionError>>),
    /// The leader is to give the lead to that pod.
    Transfer(String, oneshot::Sender<Result<(), ElectionError>>),
}

impl ElectionRequest {
    /// Nothing is done, for this reason.
    pub(crate) fn refuse(self, why: ElectionError) {
        match self {
            // The caller may have hung up.
            Self::Stand(_, reply) => drop(reply.send(Err(why))),
            Self::Withdraw(reply) | Self::Resign(_, _, reply) | Self::Transfer(_, reply) => {
                drop(reply.send(Err(why)));
            }
            Self::HungUp(_) => {}
        }
    }
}

/// Why something about an election was not done.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ElectionError {
    /// The group has none of this name.
    #[error("the group has no election of this name")]
    NoElection,
    /// It takes a leader to resign.
    #[error("this member does not lead in this election")]
    NotLeader,
    /// Another pod is to lead next which does not stand.
    #[error("no other pod of the name or UID `{0}` stands in this election")]
    NoCandidate(String),
    /// This member belongs to no group yet.
    #[error("{0}")]
    NotReady(String),
    /// The sidecar is going.
    #[error("the sidecar is shutting down")]
    Closed,
}

impl Group {
    /// The election named `default`, which is the group's leadership.
    pub fn election(&self) -> watch::Receiver<Election> {
        self.election.clone()
    }

    /// The elections that the group's resource lists besides `default`, by name.
    pub fn named_elections(&self) -> watch::Receiver<NamedElections> {
        self.named.clone()
    }

    /// The application stands in a named election; the higher its priority, the sooner it is nominated.
    pub async fn stand(&self, election: &str, priority: i32) -> Result<Stood, ElectionError> {
        let candidacy = Candidacy { priority, ..Candidacy::default() };
        self.stand_as(election, Stands { candidacy, keepalive: Keepalive::Sidecar }).await
    }

    /// The application stands in a named election.
    pub(crate) async fn stand_as(
        &self,
        election: &str,
        stands: Stands,
    ) -> Result<Stood, ElectionError> {
        self.about(election, |reply| ElectionRequest::Stand(stands, reply)).await
    }

    /// A connection is over by which an application may stand.
    pub(crate) fn hung_up(&self, election: String, connection: Connection) {
        let requests = self.requests.clone();
        tokio::spawn(async move {
            let request = Request::Election(election, ElectionRequest::HungUp(connection));
            // In a closed group nobody stands.
            let _ = requests.send(request).await;
        });
    }

    /// The application stands in it no longer, and does not lead.
    pub async fn withdraw(&self, election: &str) -> Result<(), ElectionError> {
        self.about(election, ElectionRequest::Withdraw).await
    }

    /// The application has stopped leading, and stands again after the cooldown. `to`: the pod that is to lead next, by
    /// its name or UID.
    pub async fn resign(
        &self,
        election: &str,
        to: Option<String>,
        cooldown: Duration,
    ) -> Result<(), ElectionError> {
        self.about(election, |reply| ElectionRequest::Resign(to, cooldown, reply)).await
    }

    /// The leader is to give the lead to that pod, by its name or UID.
    pub async fn transfer(&self, election: &str, to: String) -> Result<(), ElectionError> {
        self.about(election, |reply| ElectionRequest::Transfer(to, reply)).await
    }

    async fn about<T>(
        &self,
        election: &str,
        request: impl FnOnce(oneshot::Sender<Result<T, ElectionError>>) -> ElectionRequest,
    ) -> Result<T, ElectionError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Election(election.to_owned(), request(reply));
        self.requests.send(request).await.map_err(|_| ElectionError::Closed)?;
        answer.await.unwrap_or(Err(ElectionError::Closed))
    }
}

/// How this member stands in an election.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Leadership {
    /// It leads.
    Leading,
    /// Another leads.
    Following,
    /// Nobody is known to lead, and one is being elected.
    Electing,
    /// It led, and gives the leader lease to another.
    HandingOver,
    /// It is in no view, or has lost touch with its leader.
    Isolated,
}

/// Whether the application of a pod stands in an election, and if it was put forward and does not, why.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CandidacyState {
    /// It was not put forward.
    #[default]
    None,
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

/// An election, as this member sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Election {
    /// Its name.
    pub name: String,
    /// How it is held.
    pub algorithm: ElectionAlgorithm,
    /// What makes it safe.
    pub arbiter: Arbiter,
    /// The view's number.
    pub epoch: Epoch,
    /// How this member stands. While `Leading`, it leads only as long as `safe_until` lies ahead; so it does in a named
    /// election while `HandingOver`, until its application has stopped.
    pub leadership: Leadership,
    /// Until when this member surely leads, by its own clock; moves on with every heartbeat.
    pub safe_until: Option<LocalTime>,
    /// The fencing token of the lead, if it is this member's. That of `default` has none: its epoch rises.
    pub token: Option<FencingToken>,
    /// Who leads, while this member knows of somebody's unexpired leader lease.
    pub leader: Option<Leader>,
    /// Whether the application of this pod stands, in a named election.
    pub candidacy: CandidacyState,
    /// The Lease that its leader must have besides, if it must.
    pub lease: Option<ElectionLease>,
    /// How many may be elected.
    pub candidates: u32,
    /// Changes of leader seen by this process.
    pub transitions: u64,
    /// The last election in which this member took part.
    pub last: Option<LastElection>,
    /// What the next is to cost.
    pub expected: Option<ElectionCost>,
    /// Rises when leader, leadership or view changes.
    pub index: u64,
}

impl Election {
    /// One of which nothing is known yet.
    pub(crate) fn new(name: &str, policy: &Policy) -> Self {
        Self {
            name: name.to_owned(),
            algorithm: policy.election,
            arbiter: policy.arbiter,
            epoch: Epoch::default(),
            leadership: Leadership::Isolated,
            safe_until: None,
            token: None,
            leader: None,
            candidacy: CandidacyState::default(),
            lease: None,
            candidates: 0,
            transitions: 0,
            last: None,
            expected: None,
            index: first_index(),
        }
    }

    /// Somebody leads, or nobody is known to. Whether that is news.
    pub(crate) fn set_leader(&mut self, leader: Option<Leader>) -> bool {
        let of =
            |leader: &Option<Leader>| leader.clone().map(|leader| (leader.uid, leader.profile));
        let (before, now) = (of(&self.leader), of(&leader));
        let uid = |of: &Option<(String, Profile)>| of.as_ref().map(|(uid, _)| uid.clone());
        if uid(&before) != uid(&now) {
            self.transitions += u64::from(leader.is_some());
            self.leader = leader;
        } else if let (Some(known), Some(leader)) = (&mut self.leader, leader) {
            known.profile = leader.profile;
        }
        before != now
    }

    /// Whether this member surely leads at `now`.
    pub fn leads_at(&self, now: LocalTime) -> bool {
        self.deadline().is_some_and(|until| now < until)
    }

    /// Until when this member leads, if it does.
    pub fn deadline(&self) -> Option<LocalTime> {
        match self.leadership {
            Leadership::Leading | Leadership::HandingOver => self.safe_until,
            Leadership::Following | Leadership::Electing | Leadership::Isolated => None,
        }
    }

    /// Who leads at `now`. Nobody is known to once this member's own leader lease has run out.
    pub fn leader_at(&self, now: LocalTime) -> Option<&Leader> {
        self.leader.as_ref().filter(|_| !self.has_expired(now))
    }

    /// Whether this member led, and its deadline is over.
    pub fn has_expired(&self, now: LocalTime) -> bool {
        let leads = self.leadership == Leadership::Leading || self.deadline().is_some();
        leads && !self.leads_at(now)
    }
}

/// Larger than whatever an election of the same name had before in this pod, so that a client that knows an index of then
/// does not take it for one of now.
fn first_index() -> u64 {
    // None changes a thousand times a second.
    OsClock::default().now().0 / 1_000_000
}

/// Who leads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Leader {
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// The pod's address.
    pub ip: String,
    /// What its application states of itself.
    pub profile: Profile,
    /// Since when, by this member's clock.
    pub since: LocalTime,
}

/// The Lease of an election, as this member sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ElectionLease {
    /// Its name.
    pub name: String,
    /// Its `holderIdentity`; nothing if nobody has it, or that is not known.
    pub holder: Option<String>,
}

/// What an election costs all members together, by the formula of its source, in messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ElectionCost {
    /// At best.
    pub best: u32,
    /// At worst.
    pub worst: u32,
}

impl ElectionCost {
    pub(super) fn new(best: u64, worst: u64) -> Self {
        let small = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Self { best: small(best), worst: small(worst) }
    }
}

/// What an election cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LastElection {
    /// The messages that this member sent in it, as the textbook counts them.
    pub messages: u64,
    /// How long it took here.
    pub duration: Duration,
}
