//! Who leads, as Kubernetes sees it: the leader of each published election writes itself to a slice, to which a
//! Service may lead. The operator makes the slices, and leaves the endpoints in them alone.
//!
//! A write is one patch with the version that was read, and a slice names the token of the lead that was written to it
//! last. So a former leader's late write either comes before the next one's, which replaces it, or is refused and
//! looked at anew, and then the larger token is there. Nothing else goes by a slice: it lags, and says nothing about
//! who believes to lead.

use std::collections::BTreeSet;
use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

use conclave_crds::{DEFAULT_ELECTION, TOKEN_ANNOTATION, slice_name};
use conclave_kubernetes::within;
use conclave_protocols::policy::Arbiter;
use conclave_protocols::{FencingToken, LocalTime, PodUid};
use futures::FutureExt;
use futures::future::{join, join_all};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::Place;
use crate::group::{Election, Group, NamedElections, sleep_until};

/// This pod, as an endpoint.
#[derive(Clone, Debug)]
pub struct PodEndpoint {
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    pub uid: PodUid,
    /// The pod's addresses.
    pub ips: Vec<IpAddr>,
}

/// Writes this pod's leads to slices.
pub struct Leaders {
    place: Place,
    /// The UID of the group's resource, which owns the slices.
    owner: PodUid,
    me: PodEndpoint,
    group: Group,
    end: CancellationToken,
}

/// The slice of one election.
struct Slice<'a> {
    api: Api<EndpointSlice>,
    name: String,
    leaders: &'a Leaders,
}

/// What is to become of this pod in a slice.
#[derive(Clone, Copy)]
enum Wanted {
    /// It stands there with this token, unless there is a larger one.
    On(u64),
    /// It does not stand there with a token up to this one.
    Off(u64),
}

/// Why a slice was not written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("the API server did not answer in time")]
    Timeout,
    #[error("the API server could not be asked, or refused")]
    Kube(#[from] kube::Error),
    #[error("the slice belongs to another Conclave, and waits for its garbage collection")]
    Foreign,
    #[error("the pod has no address of the family {0}")]
    Family(String),
}

/// How long one call may take.
const CALL: Duration = Duration::from_secs(5);

/// The pause after the first call that failed; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Between two looks of a leader at its slice, which somebody may have deleted.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// For how long a pod that ends tries to take itself off a slice.
const PATIENCE: Duration = Duration::from_secs(30);

impl Leaders {
    /// What writes until `end`, and then takes this pod off the slices of what it leads.
    pub fn new(
        place: Place,
        owner: PodUid,
        me: PodEndpoint,
        group: Group,
        end: CancellationToken,
    ) -> Self {
        Self { place, owner, me, group, end }
    }

    /// Follows the elections that are published.
    pub async fn run(self, mut published: watch::Receiver<BTreeSet<String>>) {
        loop {
            let names = published.borrow_and_update().clone();
            let all = join_all(names.iter().map(|name| self.follow(name).boxed()));
            tokio::select! {
                _ = join(all, self.end.cancelled()) => return,
                // What is begun is begun anew: each looks first at what there is.
                Ok(()) = published.changed() => {}
            }
        }
    }

    /// Follows one election until the end.
    async fn follow(&self, name: &str) {
        let slice = self.slice(name);
        let mut is_clean = false;
        while let Some(mut election) = self.election(name).await {
            if !is_clean && lead(&election.borrow(), self.now()).is_none() {
                // An earlier process of this pod may have led, and stated no end.
                self.unless_leading(&mut election, slice.take_off(u64::MAX)).await;
                is_clean = true;
            }
            while let Some(token) = self.wait(&mut election, |lead| lead).await {
                tokio::select! {
                    () = slice.keep(token) => {}
                    _ = self.wait(&mut election, is_over(name, token)) => {}
                }
                self.unless_leading(&mut election, slice.take_off(token)).await;
            }
        }
    }

    /// The election of that name, once there is one; nothing at the end.
    async fn election(&self, name: &str) -> Option<watch::Receiver<Election>> {
        if name == DEFAULT_ELECTION {
            let election = self.group.election();
            return (goes_on(&election) && !self.end.is_cancelled()).then_some(election);
        }
        let mut named = self.group.named_elections();
        let is_there = |named: &NamedElections| named.get(name).is_some_and(goes_on);
        tokio::select! {
            found = named.wait_for(is_there) => found.ok()?.get(name).cloned(),
            () = self.end.cancelled() => None,
        }
    }

    /// Waits for what is wanted of this pod's lead in an election; nothing once there is no such election, or at the
    /// end.
    async fn wait<T>(
        &self,
        election: &mut watch::Receiver<Election>,
        wanted: impl Fn(Option<u64>) -> Option<T>,
    ) -> Option<T> {
        loop {
            if !goes_on(election) || self.end.is_cancelled() {
                return None;
            }
            let (lead, until) = {
                let (election, now) = (election.borrow_and_update(), self.now());
                (lead(&election, now), election.safe_until.filter(|_| election.leads_at(now)))
            };
            if let Some(found) = wanted(lead) {
                return Some(found);
            }
            tokio::select! {
                _ = election.changed() => {}
                () = sleep_until(self.group.os_clock(), until) => {}
                () = self.end.cancelled() => {}
            }
        }
    }

    /// Does something that a lead of this pod makes needless.
    async fn unless_leading(
        &self,
        election: &mut watch::Receiver<Election>,
        something: impl Future<Output = ()>,
    ) {
        tokio::select! {
            () = something => {}
            Some(_) = self.wait(election, |lead| lead) => {}
        }
    }

    fn now(&self) -> LocalTime {
        self.group.os_clock().now()
    }

    fn slice(&self, election: &str) -> Slice<'_> {
        let Place { client, namespace, name } = &self.place;
        let api = Api::namespaced(client.clone(), namespace);
        Slice { api, name: slice_name(name, election), leaders: self }
    }
}

/// What orders the leads of an election, if this pod leads: the token; for `default` the epoch. Without an arbiter there
/// is nothing that does, and perhaps several leaders.
fn lead(election: &Election, now: LocalTime) -> Option<u64> {
    if !election.leads_at(now) || election.arbiter != Arbiter::Quorum {
        return None;
    }
    if election.name == DEFAULT_ELECTION {
        return Some(election.epoch.0);
    }
    election.token.map(FencingToken::get)
}

/// Whether a lead is over. That of the group goes on from view to view.
fn is_over(election: &str, lead: u64) -> impl Fn(Option<u64>) -> Option<()> {
    let is_default = election == DEFAULT_ELECTION;
    move |now| (!now.is_some_and(|now| now == lead || is_default)).then_some(())
}

fn goes_on(election: &watch::Receiver<Election>) -> bool {
    election.has_changed().is_ok()
}

impl Slice<'_> {
    /// Writes this pod to the slice, and sees to it that it stays there.
    async fn keep(&self, token: u64) {
        loop {
            self.persist(Wanted::On(token)).await;
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Takes this pod off the slice, if it is there by a lead up to this one. The next leader does not need it.
    async fn take_off(&self, token: u64) {
        let end = &self.leaders.end;
        let taken_off = async {
            self.persist(Wanted::Off(token)).await;
            // A call that was given up may have been carried out since.
            if end.run_until_cancelled(sleep(CALL)).await.is_some() {
                self.persist(Wanted::Off(token)).await;
            }
        };
        let too_late = async {
            end.cancelled().await;
            sleep(PATIENCE).await;
        };
        tokio::select! {
            () = taken_off => {}
            () = too_late => {
                warn!(slice = self.name, "this pod does not lead, and may still be in the slice");
            }
        }
    }

    /// Brings the slice to what is wanted, until that succeeds.
    async fn persist(&self, wanted: Wanted) {
        let mut pause = FIRST_PAUSE;
        loop {
            let call = async {
                match wanted {
                    Wanted::On(token) => self.write(token).await,
                    Wanted::Off(token) => self.remove(token).await,
                }
            };
            let done = within(CALL, call).await.unwrap_or(Err(WriteError::Timeout));
            let Err(error) = done else { return };
            self.report(&error, pause);
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// One that goes on for long is for people.
    fn report(&self, error: &WriteError, pause: Duration) {
        let error = error as &dyn Error;
        if pause < LONGEST_PAUSE {
            debug!(error, slice = self.name, "write a slice");
        } else {
            warn!(error, slice = self.name, "the leader is not written to the slice");
        }
    }

    async fn write(&self, token: u64) -> Result<(), WriteError> {
        let slice = self.read().await?;
        let written = token_of(&slice);
        let is_there = matches!(&slice.endpoints[..], [only] if self.is_me(only));
        if written > Some(token) || written == Some(token) && is_there {
            return Ok(());
        }
        let PodEndpoint { name, uid, ips } = &self.leaders.me;
        let fits = |ip: &&IpAddr| slice.address_type == if ip.is_ipv4() { "IPv4" } else { "IPv6" };
        let address = ips.iter().find(fits);
        let address = address.ok_or_else(|| WriteError::Family(slice.address_type.clone()))?;
        let (kind, namespace) = ("Pod", &self.leaders.place.namespace);
        let endpoint = json!({
            "addresses": [address],
            "conditions": { "ready": true },
            "targetRef": { "kind": kind, "namespace": namespace, "name": name, "uid": uid.to_string() },
        });
        let annotations = json!({ TOKEN_ANNOTATION: token.to_string() });
        let body = json!({
            "metadata": { "resourceVersion": slice.resource_version(), "annotations": annotations },
            "endpoints": [endpoint],
        });
        self.patch(&body).await?;
        info!(slice = self.name, token, "this pod leads, and is in the slice");
        Ok(())
    }

    async fn remove(&self, token: u64) -> Result<(), WriteError> {
        let slice = match self.read().await {
            Err(WriteError::Kube(kube::Error::Api(status))) if status.is_not_found() => {
                return Ok(());
            }
            read => read?,
        };
        let is_there = slice.endpoints.iter().any(|endpoint| self.is_me(endpoint));
        if !is_there || token_of(&slice) > Some(token) {
            return Ok(());
        }
        let metadata = json!({ "resourceVersion": slice.resource_version() });
        self.patch(&json!({ "metadata": metadata, "endpoints": [] })).await?;
        info!(slice = self.name, "this pod does not lead, and is off the slice");
        Ok(())
    }

    async fn read(&self) -> Result<EndpointSlice, WriteError> {
        let slice = self.api.get(&self.name).await?;
        let owned = |uid: &str| uid.parse() == Ok(self.leaders.owner);
        if !slice.owner_references().iter().any(|owner| owned(&owner.uid)) {
            return Err(WriteError::Foreign);
        }
        Ok(slice)
    }

    async fn patch(&self, body: &serde_json::Value) -> Result<(), WriteError> {
        self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(body)).await?;
        Ok(())
    }

    fn is_me(&self, endpoint: &Endpoint) -> bool {
        let uid = endpoint.target_ref.as_ref().and_then(|target| target.uid.as_deref());
        uid.and_then(|uid| uid.parse().ok()) == Some(self.leaders.me.uid)
    }
}

fn token_of(slice: &EndpointSlice) -> Option<u64> {
    slice.annotations().get(TOKEN_ANNOTATION)?.parse().ok()
}

#[cfg(test)]
mod tests;
