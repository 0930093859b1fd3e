//! Pods whose label names a `Conclave` that is not there: the name is misspelt, or the `Conclave` was deleted. Nothing is
//! reconciled for them, so nothing else reports them. Each gets one Event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conclave_crds::{Conclave, GROUP_LABEL};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::ListParams;
use kube::runtime::events::{Event, EventType};
use kube::{Api, Client, Resource, ResourceExt};
use tracing::warn;

use crate::events::Events;
use crate::observe::is_alive;

/// What reports such pods.
pub struct Strays {
    client: Client,
    events: Events,
    known: Mutex<BTreeMap<Name, Known>>,
}

/// Namespace and name of a `Conclave`.
type Name = (String, String);

/// What is known of a name that no `Conclave` has.
#[derive(Default)]
struct Known {
    /// The UIDs of the pods that have their Event.
    notified: BTreeSet<String>,
    /// Somebody looks, or will.
    is_due: bool,
    /// It was named since, so there may be more to see.
    is_named: bool,
}

impl Strays {
    /// Reports in the name of this replica.
    pub fn new(client: Client, replica: &str) -> Self {
        let events = Events::new(client.clone(), replica);
        Self { client, events, known: Mutex::default() }
    }

    /// Something named this `Conclave`, which is not there. Looks once for all that do so within a while: pod and
    /// `Conclave` may come in either order.
    pub(crate) async fn notice(&self, namespace: &str, group: &str) {
        let name = (namespace.to_owned(), group.to_owned());
        {
            let mut all = self.known();
            let known = all.entry(name.clone()).or_default();
            known.is_named = true;
            if std::mem::replace(&mut known.is_due, true) {
                return;
            }
        }
        while self.is_named(&name) {
            tokio::time::sleep(PATIENCE).await;
            self.known().entry(name.clone()).or_default().is_named = false;
            if let Err(error) = self.look(namespace, group).await {
                warn!(%error, namespace, group, "pods of a Conclave that is not there are not reported");
            }
        }
    }

    /// Whether it was named since the last look; if not, nobody looks any more.
    fn is_named(&self, name: &Name) -> bool {
        let mut all = self.known();
        let Some(known) = all.get_mut(name) else { return false };
        known.is_due = known.is_named;
        if !known.is_due && known.notified.is_empty() {
            all.remove(name);
            return false;
        }
        known.is_due
    }

    /// Reports each living pod that names this `Conclave`, if that is not there.
    ///
    /// # Errors
    ///
    /// The API server did not answer as it should: some pods may not have been reported, and are the next time.
    pub async fn look(&self, namespace: &str, group: &str) -> kube::Result<()> {
        let name = (namespace.to_owned(), group.to_owned());
        let conclaves: Api<Conclave> = Api::namespaced(self.client.clone(), namespace);
        // A label may be empty, and a name may not.
        if !group.is_empty() && conclaves.get_metadata_opt(group).await?.is_some() {
            self.forget(namespace, group);
            return Ok(());
        }
        let living = self.living(namespace, group).await?;
        self.keep(&name, &living.keys().cloned().collect());
        let mut events = 0;
        let mut others = 0;
        for (uid, pod) in living {
            let is_known =
                self.known().get(&name).is_some_and(|known| known.notified.contains(&uid));
            if is_known {
                continue;
            }
            if events < EVENTS {
                events += 1;
                let named = pod.name.as_deref().unwrap_or_default();
                warn!(namespace, group, pod = named, "no Conclave has the name in its label");
                self.events.publish(&event(namespace, group), &pod).await?;
            } else {
                others += 1;
            }
            self.known().entry(name.clone()).or_default().notified.insert(uid);
        }
        if others > 0 {
            warn!(namespace, group, others, "no Conclave has the name in the label of more pods");
        }
        Ok(())
    }

    /// The living pods whose label names a group, by UID.
    async fn living(
        &self,
        namespace: &str,
        group: &str,
    ) -> kube::Result<BTreeMap<String, ObjectReference>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let labelled = ListParams::default().labels(&format!("{GROUP_LABEL}={group}")).limit(PAGE);
        let mut living = BTreeMap::new();
        let mut next = Some(labelled.clone());
        while let Some(page) = next {
            let page = pods.list(&page).await?;
            let alive = page.iter().filter(|pod| is_alive(pod));
            living.extend(alive.map(|pod| (pod.uid().unwrap_or_default(), pod.object_ref(&()))));
            let token = page.metadata.continue_.as_deref().filter(|token| !token.is_empty());
            next = token.map(|token| labelled.clone().continue_token(token));
        }
        Ok(living)
    }

    /// There is such a `Conclave`: should it go, its pods are reported anew.
    pub(crate) fn forget(&self, namespace: &str, group: &str) {
        self.keep(&(namespace.to_owned(), group.to_owned()), &BTreeSet::new());
    }

    /// Forgets all pods but these.
    fn keep(&self, name: &Name, living: &BTreeSet<String>) {
        let mut all = self.known();
        let Some(known) = all.get_mut(name) else { return };
        known.notified.retain(|uid| living.contains(uid));
        if known.notified.is_empty() && !known.is_due {
            all.remove(name);
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Name, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn event(namespace: &str, group: &str) -> Event {
    Event {
        type_: EventType::Warning,
        reason: "NoSuchConclave".to_owned(),
        action: "Join".to_owned(),
        note: Some(format!(
            "there is no Conclave `{group}` in the namespace `{namespace}`, which the label `{GROUP_LABEL}` names: \
             until there is one, this pod is in no group"
        )),
        secondary: None,
    }
}

/// Events of one look: a name that thousands of pods have wrongly is one mistake.
const EVENTS: usize = 20;

/// Pods that are read at a time.
const PAGE: u32 = 500;

/// How long a `Conclave` may come after a pod of its.
const PATIENCE: Duration = Duration::from_secs(5);
