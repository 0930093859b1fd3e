//! Which of several replicas acts.
//!
//! The rule is that of Kubernetes' own `client-go/tools/leaderelection`: a Lease names the replica
//! whose turn it is. Times written by another process are never compared with the own clock; what
//! counts is how long this process has seen the Lease unchanged. A write carries the resource
//! version that was read, so that of two replicas one wins.
//!
//! It does not keep two replicas from acting at the same time under all circumstances (client-go
//! says the same of itself), and nothing depends on that: what must not be written twice carries a
//! resource version itself, see [`apply`](crate::apply).

use std::time::Duration;

use conclave_kubernetes::within;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::ResourceExt;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info, warn};

use crate::FIELD_MANAGER;
use crate::config::Terms;
use crate::telemetry::chain;

/// A replica that wants to act.
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    identity: String,
    terms: Terms,
    sighting: Option<Sighting>,
}

/// The turn of this replica.
pub struct Turn {
    candidate: Candidate,
    lease: Lease,
    /// When the last renewal that succeeded was sent.
    renewed: Instant,
}

/// Why a turn has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TurnEnded {
    /// Another replica has the Lease.
    #[error("another replica has taken over")]
    Taken,
    /// The API server has not confirmed the turn for too long. The others may soon take over.
    #[error("the turn could not be renewed in time")]
    NotRenewed,
}

/// A version of the Lease, and since when it is known.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Sighting {
    version: Option<String>,
    since: Instant,
}

/// What a candidate does about what it read.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Create(Lease),
    Take(Lease),
    Wait,
}

impl Candidate {
    /// A candidate with this identity, which no other process may have.
    pub fn new(api: Api<Lease>, name: &str, identity: String, terms: Terms) -> Self {
        Self { api, name: name.to_owned(), identity, terms, sighting: None }
    }

    /// Waits for its turn. `answered` is called when the API server has answered once.
    pub async fn acquire(mut self, answered: impl Fn()) -> Turn {
        loop {
            match within(self.terms.deadline, self.attempt(&answered)).await {
                Ok(Ok(Some((lease, renewed)))) => {
                    info!(lease = self.name, identity = self.identity, "this replica acts");
                    return Turn { candidate: self, lease, renewed };
                }
                Ok(Ok(None)) => {}
                Ok(Err(error)) => warn!(error = chain(&error), "the turn could not be asked for"),
                Err(_) => warn!("the API server has not answered"),
            }
            sleep(self.terms.retry).await;
        }
    }

    /// Reads the Lease and takes it, if it may.
    async fn attempt(&mut self, answered: impl Fn()) -> kube::Result<Option<(Lease, Instant)>> {
        let lease = self.api.get_opt(&self.name).await?;
        answered();
        let now = Instant::now();
        let written = match self.decide(lease.as_ref(), now, Timestamp::now()) {
            Step::Create(lease) => self.api.create(&params(), &lease).await,
            Step::Take(lease) => self.api.replace(&self.name, &params(), &lease).await,
            Step::Wait => return Ok(None),
        };
        match written {
            Ok(lease) => Ok(Some((lease, now))),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                debug!("another replica was first");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A Lease that nobody has, or that has not changed for as long as its holder may be silent, is
    /// taken.
    fn decide(&mut self, lease: Option<&Lease>, now: Instant, wall: Timestamp) -> Step {
        let Some(lease) = lease else {
            return Step::Create(self.written(None, wall));
        };
        let version = lease.resource_version();
        if self.sighting.as_ref().is_none_or(|sighting| sighting.version != version) {
            self.sighting = Some(Sighting { version, since: now });
        }
        let since = self.sighting.as_ref().map_or(now, |sighting| sighting.since);
        if holder(lease).is_none() || now >= since + self.patience(lease) {
            Step::Take(self.written(Some(lease), wall))
        } else {
            Step::Wait
        }
    }

    /// How long the holder may be silent: as long as it stated, or as this replica would state.
    fn patience(&self, lease: &Lease) -> Duration {
        let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0);
        self.terms.duration.max(Duration::from_secs(seconds))
    }

    /// The Lease with this replica in it.
    fn written(&self, before: Option<&Lease>, wall: Timestamp) -> Lease {
        let metadata = before.map_or_else(
            || ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            |lease| lease.metadata.clone(),
        );
        let old = before.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let is_mine = old.holder_identity.as_deref() == Some(&self.identity);
        let seconds = i32::try_from(self.terms.duration.as_secs()).unwrap_or(i32::MAX);
        let transitions = old.lease_transitions.unwrap_or(0);
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(seconds.max(1)),
            acquire_time: old.acquire_time.filter(|_| is_mine).or(Some(MicroTime(wall))),
            renew_time: Some(MicroTime(wall)),
            lease_transitions: Some(if is_mine { transitions } else { transitions + 1 }),
            ..old
        };
        Lease { metadata, spec: Some(spec) }
    }
}

impl Turn {
    /// Renews until that is no longer possible. A caller that gets an answer must stop acting.
    pub async fn keep(&mut self) -> TurnEnded {
        loop {
            let Terms { deadline, retry, .. } = self.candidate.terms;
            let until = self.renewed + deadline;
            sleep_until(until.min(Instant::now() + retry)).await;
            match conclave_kubernetes::until(until, self.renew()).await {
                Ok(Ok(Renewal::Done)) => {}
                Ok(Ok(Renewal::Taken)) => return TurnEnded::Taken,
                Ok(Err(error)) => {
                    let remaining = until.saturating_duration_since(Instant::now());
                    warn!(error = chain(&error), ?remaining, "the turn could not be renewed");
                }
                Err(_) => return TurnEnded::NotRenewed,
            }
        }
    }

    /// Lets another replica act at once.
    pub async fn release(self) {
        let Candidate { api, name, identity, terms, .. } = self.candidate;
        let freed = async {
            let mut lease = api.get(&name).await?;
            if holder(&lease) != Some(&identity) {
                return Ok(());
            }
            if let Some(spec) = &mut lease.spec {
                spec.holder_identity = None;
                spec.lease_duration_seconds = Some(1);
            }
            api.replace(&name, &params(), &lease).await.map(drop)
        };
        match within(terms.retry, freed).await {
            Ok(Ok(())) => info!(lease = name, "the turn was given up"),
            Ok(Err(error)) => warn!(error = chain(&error), "the turn could not be given up"),
            Err(_) => warn!("the turn could not be given up: the API server has not answered"),
        }
    }

    /// A conflict may be the own write, answered too late: whose the Lease is decides.
    async fn renew(&mut self) -> kube::Result<Renewal> {
        let Candidate { api, name, identity, .. } = &self.candidate;
        let sent = Instant::now();
        let lease = self.candidate.written(Some(&self.lease), Timestamp::now());
        match api.replace(name, &params(), &lease).await {
            Ok(lease) => {
                self.lease = lease;
                self.renewed = sent;
                Ok(Renewal::Done)
            }
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                let found = api.get(name).await?;
                if holder(&found) != Some(identity) {
                    return Ok(Renewal::Taken);
                }
                self.lease = found;
                Ok(Renewal::Done)
            }
            Err(error) => Err(error),
        }
    }
}

/// What came of a renewal.
enum Renewal {
    Done,
    Taken,
}

/// Who has the Lease. An empty name is nobody.
fn holder(lease: &Lease) -> Option<&str> {
    let spec = lease.spec.as_ref()?;
    spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

fn params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

#[cfg(test)]
mod tests;
