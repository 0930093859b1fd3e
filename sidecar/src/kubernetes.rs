//! The group's resource, as the API server has it: what a sidecar needs before it can live in its
//! group, and what changes afterwards.

mod containers;
mod endpoints;

use std::error::Error;
use std::time::Duration;

use conclave_crds::{Conclave, object_name};
use conclave_protocols::policy::Policy;
use conclave_protocols::{Epoch, PodUid};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_objects};
use kube::{Api, Client};
use tokio::sync::watch;
use tracing::{debug, info, warn};

pub use self::containers::write_termination_message;
use crate::group::{Group, Standing};
use crate::register::Sight;

/// A group's resource, as far as a member needs it to begin.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The UID of the resource.
    pub uid: PodUid,
    /// What it says.
    pub policy: Policy,
    /// The epoch in its status.
    pub epoch: Epoch,
}

/// Where the resource of a group is.
#[derive(Clone)]
pub struct Place {
    client: Client,
    namespace: String,
    name: String,
}

/// Between two looks at what is missing.
const LOOK: Duration = Duration::from_millis(500);

/// Between two looks of a follower whether the resource is still there; the leader watches it. With
/// the resource its Lease is deleted, which all see at once.
const STILL_THERE: Duration = Duration::from_secs(30);

impl Place {
    /// The resource of that name.
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self { client, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn conclaves(&self) -> Api<Conclave> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Waits until the resource and its Lease are there and may be read. Says what is missing.
    pub async fn wait(&self, missing: &watch::Sender<String>) -> Resource {
        loop {
            match self.look().await {
                Ok(resource) => return resource,
                Err(what) => {
                    missing.send_if_modified(|missing| {
                        let changed = *missing != what;
                        if changed {
                            info!(missing = what, "waiting");
                            missing.clone_from(&what);
                        }
                        changed
                    });
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
    }

    /// The resource, or what is missing.
    async fn look(&self) -> Result<Resource, String> {
        let Self { namespace, name, .. } = self;
        let what = format!("Conclave {namespace}/{name}");
        let conclave = self.conclaves().get(name).await.map_err(|error| absent(&what, &error))?;
        let uid = conclave.metadata.uid.as_deref().and_then(|uid| uid.parse().ok());
        let uid = uid.ok_or_else(|| format!("{what} has no UID that can be read"))?;
        let policy = conclave_crds::policy(&conclave)
            .map_err(|error| format!("{what} cannot be used: {error}"))?;
        // The operator writes the status before it makes the Lease.
        let epoch = conclave.status.as_ref().and_then(|status| status.epoch);
        let epoch = epoch.ok_or_else(|| format!("{what} was not seen by the operator yet"))?;
        let lease = object_name(name);
        let what = format!("Lease {namespace}/{lease}");
        self.leases().get(&lease).await.map_err(|error| absent(&what, &error))?;
        let epoch = Epoch(u64::try_from(epoch).unwrap_or(0));
        Ok(Resource { uid, policy, epoch })
    }

    /// Follows the resource while this member leads: the view carries the policy to the others.
    /// Says nothing more once the resource is gone.
    pub async fn follow(
        self,
        uid: PodUid,
        group: Group,
        mut sight: watch::Receiver<Sight>,
        says: watch::Sender<Option<Policy>>,
    ) {
        let mut election = group.election();
        loop {
            tokio::select! {
                leads = election.wait_for(|election| election.standing == Standing::Leading) => {
                    if leads.is_err() {
                        return;
                    }
                }
                () = self.until_gone(uid, &mut sight) => return dissolve(&says),
            }
            let mut leading = group.election();
            tokio::select! {
                _ = leading.wait_for(|election| election.standing != Standing::Leading) => {}
                gone = self.watch(uid, &says) => {
                    if gone {
                        return dissolve(&says);
                    }
                }
            }
        }
    }

    /// Hands on every change of the resource. True once it is gone.
    async fn watch(&self, uid: PodUid, says: &watch::Sender<Option<Policy>>) -> bool {
        let field = format!("metadata.name={}", self.name);
        let config = watcher::Config::default().fields(&field);
        let mut events = watch_objects(self.conclaves(), config).default_backoff().boxed();
        let mut found = false;
        loop {
            match events.try_next().await {
                Ok(Some(Event::Init)) => found = false,
                Ok(Some(Event::InitDone)) if !found => return true,
                Ok(Some(Event::Apply(conclave) | Event::InitApply(conclave))) => {
                    found = true;
                    if !is(&conclave, uid) {
                        return true;
                    }
                    match conclave_crds::policy(&conclave) {
                        Ok(policy) => {
                            says.send_replace(Some(policy));
                        }
                        Err(error) => warn!(%error, "the resource cannot be used"),
                    }
                }
                Ok(Some(Event::Delete(conclave))) if is(&conclave, uid) => return true,
                Ok(Some(Event::Delete(_) | Event::InitDone)) => {}
                Ok(None) => return false,
                Err(error) => debug!(error = &error as &dyn Error, "watch the resource"),
            }
        }
    }

    /// Returns once the resource is surely gone: not found, or another one of the same name.
    async fn until_gone(&self, uid: PodUid, sight: &mut watch::Receiver<Sight>) {
        loop {
            if tokio::time::timeout(STILL_THERE, lease_is_gone(sight)).await.is_ok() {
                // With the resource in the foreground, its Lease goes first.
                tokio::time::sleep(LOOK).await;
            }
            match self.conclaves().get_opt(&self.name).await {
                Ok(Some(conclave)) if is(&conclave, uid) => {}
                Ok(_) => return,
                Err(error) => debug!(error = &error as &dyn Error, "look for the resource"),
            }
        }
    }
}

/// Returns when the Lease was deleted; never if nobody watches it any more.
async fn lease_is_gone(sight: &mut watch::Receiver<Sight>) {
    while sight.changed().await.is_ok() {
        if sight.borrow_and_update().gone {
            return;
        }
    }
    std::future::pending::<()>().await;
}

fn dissolve(says: &watch::Sender<Option<Policy>>) {
    says.send_replace(None);
}

fn is(conclave: &Conclave, uid: PodUid) -> bool {
    conclave.metadata.uid.as_deref().and_then(|text| text.parse().ok()) == Some(uid)
}

fn absent(what: &str, error: &kube::Error) -> String {
    let status = if let kube::Error::Api(status) = error { Some(status) } else { None };
    if status.is_some_and(|status| status.is_not_found()) {
        format!("{what} does not exist")
    } else if status.is_some_and(|status| status.is_forbidden()) {
        format!("no right to read {what}: the operator grants it to the pods that it sees")
    } else {
        format!("{what} cannot be read: {error}")
    }
}
