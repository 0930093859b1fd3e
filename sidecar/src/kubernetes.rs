//! The group's resource, as the API server has it: what a sidecar needs before it can live in its
//! group, and what changes afterwards.

mod containers;
mod endpoints;
mod leaders;
mod missing;
mod own_pod;

use std::collections::BTreeSet;
use std::error::Error;
use std::time::Duration;

use conclave_crds::{AuthorityStatus, Conclave, ConclaveStatus, object_name};
use conclave_kubernetes::within;
use conclave_protocols::detection::Stated;
use conclave_protocols::member::StatusEpoch;
use conclave_protocols::policy::Policy;
use conclave_protocols::{Epoch, PodUid};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_objects};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{debug, warn};

pub use self::containers::write_termination_message;
pub use self::leaders::{Leaders, PodEndpoint};
use self::missing::Missing;
pub use self::own_pod::OwnPod;
use crate::register::Sight;

/// A group's resource, as far as a member needs it to begin.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The UID of the resource.
    pub uid: PodUid,
    /// What it says.
    pub policy: Policy,
    /// How members guess which of them have crashed.
    pub detection: Stated,
    /// What its status says was used.
    pub status: StatusEpoch,
    /// Where certificates come from; nothing before the operator has announced it.
    pub authority: Option<AuthorityStatus>,
    /// The elections whose leader writes itself to a slice.
    pub published: BTreeSet<String>,
}

/// What a resource states, for those that want to know at once.
#[derive(Debug)]
pub struct Statements {
    /// Its policies; nothing once it is gone.
    pub policy: watch::Sender<Option<Policy>>,
    /// What its status says was used.
    pub status: watch::Sender<StatusEpoch>,
    /// How members guess which of them have crashed.
    pub detection: watch::Sender<Stated>,
    /// Where certificates come from.
    pub authority: watch::Sender<Option<AuthorityStatus>>,
    /// The elections whose leader writes itself to a slice.
    pub published: watch::Sender<BTreeSet<String>>,
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

/// How long the API server may take to answer; kube itself would wait for ever.
const CALL: Duration = Duration::from_secs(30);

/// Between two looks whether the resource is still there, should the watch miss it.
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

    /// Waits until the resource and its Lease are there and may be read. Says what is missing. `was_deleted`: there was
    /// one before.
    pub async fn wait(&self, missing: &watch::Sender<String>, was_deleted: bool) -> Resource {
        let mut missing = Missing::new(missing, was_deleted);
        loop {
            let looked = within(CALL, self.look(was_deleted)).await;
            match looked.unwrap_or_else(|_| Err("the API server does not answer".to_owned())) {
                Ok(resource) => return resource,
                Err(what) => {
                    missing.lacks(&what);
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
    }

    /// The resource, or what is missing.
    async fn look(&self, was_deleted: bool) -> Result<Resource, String> {
        let Self { namespace, name, .. } = self;
        let what = format!("Conclave {namespace}/{name}");
        let absent = |error: kube::Error| missing::unread(namespace, name, &error, was_deleted);
        let conclave = self.conclaves().get(name).await.map_err(absent)?;
        let uid = conclave.metadata.uid.as_deref().and_then(|uid| uid.parse().ok());
        let uid = uid.ok_or_else(|| format!("{what} has no UID that can be read"))?;
        let policy = conclave_crds::policy(&conclave)
            .map_err(|error| format!("{what} cannot be used: {error}"))?;
        let detection = conclave_crds::detection(&conclave.spec)
            .map_err(|error| format!("{what} cannot be used: {error}"))?;
        // The operator writes the status before it makes the Lease.
        let status = conclave.status.as_ref().and_then(used);
        let status = status.ok_or_else(|| format!("{what} was not seen by the operator yet"))?;
        let lease = object_name(name);
        let what = format!("Lease {namespace}/{lease}");
        let absent = |error: kube::Error| missing::unread_lease(&what, &error);
        self.leases().get(&lease).await.map_err(absent)?;
        let published = names(&conclave);
        let authority = conclave.status.and_then(|status| status.authority);
        Ok(Resource { uid, policy, detection, status, authority, published })
    }

    /// Follows the resource. States nothing more once it is gone.
    pub async fn follow(
        self,
        uid: PodUid,
        mut sight: watch::Receiver<Sight>,
        statements: Statements,
    ) {
        let watched = async { while !self.watch(uid, &statements).await {} };
        tokio::select! {
            () = watched => {}
            // A watch may break, and may lag.
            () = self.until_gone(uid, &mut sight) => {}
        }
        statements.policy.send_replace(None);
    }

    /// Hands on every change of the resource. True once it is gone.
    async fn watch(&self, uid: PodUid, statements: &Statements) -> bool {
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
                    statements.tell(conclave);
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
            if timeout(STILL_THERE, lease_is_gone(sight)).await.is_ok() {
                // Somebody who deletes both may delete the Lease first.
                tokio::time::sleep(LOOK).await;
            }
            match within(CALL, self.conclaves().get_opt(&self.name)).await {
                Ok(Ok(Some(conclave))) if is(&conclave, uid) => {}
                Ok(Ok(_)) => return,
                Ok(Err(error)) => debug!(error = &error as &dyn Error, "look for the resource"),
                Err(_) => debug!("look for the resource: the API server does not answer"),
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

impl Statements {
    /// Hands on what is new. An authority that is no longer announced stays the last one.
    fn tell(&self, conclave: Conclave) {
        let detection = conclave_crds::detection(&conclave.spec);
        match conclave_crds::policy(&conclave).and_then(|policy| Ok((policy, detection?))) {
            Ok((policy, detection)) => {
                self.detection.send_if_modified(|last| set(last, detection));
                self.policy.send_if_modified(|last| set(last, Some(policy)));
                self.published.send_if_modified(|last| set(last, names(&conclave)));
            }
            Err(error) => warn!(%error, "the resource cannot be used"),
        }
        if let Some(used) = conclave.status.as_ref().and_then(used) {
            self.status.send_if_modified(|last| set(last, used));
        }
        if let Some(sent) = conclave.status.and_then(|status| status.authority) {
            self.authority.send_if_modified(|last| set(last, Some(sent)));
        }
    }
}

/// The names of the elections that are published.
fn names(conclave: &Conclave) -> BTreeSet<String> {
    conclave_crds::published(&conclave.spec).map(|election| election.name.clone()).collect()
}

fn set<T: PartialEq>(last: &mut T, now: T) -> bool {
    let is_new = *last != now;
    *last = now;
    is_new
}

fn is(conclave: &Conclave, uid: PodUid) -> bool {
    conclave.metadata.uid.as_deref().and_then(|text| text.parse().ok()) == Some(uid)
}

/// What was used, as the operator knows it; nothing before it saw the resource.
fn used(status: &ConclaveStatus) -> Option<StatusEpoch> {
    let number = |number: i64| Epoch(u64::try_from(number).unwrap_or(0));
    let ceiling = status.ceiling.map(number).unwrap_or_default();
    Some(StatusEpoch { epoch: number(status.epoch?), ceiling })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::http::{Request, Response, StatusCode};
    use conclave_crds::ElectionSpec;
    use conclave_protocols::detection::Threshold;
    use kube::client::Body;

    use super::*;

    #[test]
    fn what_is_new_in_the_resource_is_reported_and_an_authority_is_not_forgotten() {
        let (policy, mut policies) = watch::channel(None);
        let (status, mut used) = watch::channel(StatusEpoch::default());
        let (authority, mut authorities) = watch::channel(None);
        let (published, mut elections) = watch::channel(BTreeSet::new());
        let (detection, mut detections) = watch::channel(Stated::default());
        let statements = Statements { policy, status, detection, authority, published };
        let conclave = |status: serde_json::Value| -> Conclave {
            let conclave = serde_json::json!({
                "apiVersion": "conclave.dev/v1alpha1",
                "kind": "Conclave",
                "metadata": {"name": "orders"},
                "spec": {},
                "status": status,
            });
            serde_json::from_value(conclave).expect("a resource")
        };
        let at = |address: &str| {
            conclave(serde_json::json!({"authority": {"address": address, "bundle": "PEM"}}))
        };
        statements.tell(at("10.0.0.1:443"));
        assert!(policies.has_changed().expect("it goes on"));
        assert!(policies.borrow_and_update().is_some());
        let sent = authorities.borrow_and_update().clone().expect("an authority");
        assert_eq!((sent.address.as_str(), sent.bundle.as_str()), ("10.0.0.1:443", "PEM"));

        statements.tell(at("10.0.0.1:443"));
        statements.tell(conclave(serde_json::json!({"epoch": 7})));
        assert!(!policies.has_changed().expect("it goes on"), "nothing is new");
        assert_eq!(
            *used.borrow_and_update(),
            StatusEpoch { epoch: Epoch(7), ..StatusEpoch::default() }
        );
        assert!(!authorities.has_changed().expect("it goes on"));

        statements.tell(at("10.0.0.2:443"));
        assert!(authorities.has_changed().expect("it goes on"));

        assert!(!elections.has_changed().expect("it goes on"), "`default` stands in the record");
        let mut published = at("10.0.0.2:443");
        published
            .spec
            .elections
            .push(ElectionSpec { name: "reports".to_owned(), ..ElectionSpec::default() });
        assert!(!detections.has_changed().expect("it goes on"));
        published.spec.failure_detection.phi = Some(8);
        statements.tell(published);
        assert_eq!(*elections.borrow_and_update(), BTreeSet::from(["reports".to_owned()]));
        assert_eq!(detections.borrow_and_update().threshold, Threshold::new(8));
    }

    #[test]
    fn what_was_used_is_read_from_the_status() {
        let read =
            |status: serde_json::Value| used(&serde_json::from_value(status).expect("a status"));
        let (epoch, ceiling) = (Epoch(7), Epoch(12));
        let status = serde_json::json!({"epoch": 7, "ceiling": 12});
        assert_eq!(read(status), Some(StatusEpoch { epoch, ceiling }));
        assert_eq!(read(serde_json::json!({"ceiling": 12})), None, "not seen by the operator yet");
        let status = StatusEpoch { epoch, ceiling: Epoch::default() };
        assert_eq!(read(serde_json::json!({"epoch": 7})), Some(status));
    }

    /// A resource at an API server whose first call hangs, and which knows nothing.
    fn hung_once() -> Place {
        let calls = AtomicUsize::new(0);
        let service = tower::service_fn(move |_: Request<Body>| {
            let is_first = calls.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                if is_first {
                    std::future::pending::<()>().await;
                }
                let answer = Response::builder().status(StatusCode::NOT_FOUND);
                answer.body(Body::from(br#"{"code": 404, "reason": "NotFound"}"#.to_vec()))
            }
        });
        Place::new(Client::new(service, "shop"), "shop", "orders")
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_is_given_up() {
        let (missing, mut lacks) = watch::channel(String::new());
        let place = hung_once();
        let seen = async {
            lacks.changed().await.expect("it goes on");
            assert_eq!(*lacks.borrow_and_update(), "the API server does not answer");
            let exists = lacks.wait_for(|what| what.ends_with("does not exist")).await;
            assert!(exists.is_ok());
        };
        let waited = tokio::select! {
            _ = place.wait(&missing, false) => None,
            seen = timeout(CALL * 10, seen) => Some(seen),
        };
        assert_eq!(waited, Some(Ok(())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_hides_no_end_of_the_resource() {
        let (_sighted, mut sight) = watch::channel(Sight::default());
        let place = hung_once();
        let gone = place.until_gone(PodUid(1), &mut sight);
        assert_eq!(timeout(CALL * 10, gone).await, Ok(()));
    }
}
