//! Watches, and reconciles what moved.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use conclave_crds::{AuthorityStatus, Conclave, ELECTION_LABEL, GROUP_LABEL, lease_names};
use futures::future::join_all;
use futures::{Stream, StreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{Action, Config, Error};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::utils::Backoff;
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::apply::Hands;
use crate::metrics::{Metrics, Outcome};
use crate::notices::{self, Notice};
use crate::observe::{Before, Observed, observe};
use crate::plan::{Change, plan};
use crate::status::{status, without_sidecar};
use crate::strays::Strays;
use crate::telemetry::chain;

/// What a reconciliation needs beside its group.
pub struct Context {
    client: Client,
    hands: Hands,
    metrics: Metrics,
    authority: watch::Receiver<Option<AuthorityStatus>>,
    seen: Seen,
    strays: Strays,
}

impl Context {
    /// A context for this replica, which announces this authority to groups.
    pub fn new(
        client: Client,
        metrics: Metrics,
        replica: &str,
        authority: watch::Receiver<Option<AuthorityStatus>>,
    ) -> Arc<Self> {
        let hands = Hands::new(client.clone(), replica);
        let strays = Strays::new(client.clone(), replica);
        Arc::new(Self { client, hands, metrics, authority, seen: Seen::default(), strays })
    }

    /// Brings one group to where it should be. A resource that is gone needs nothing.
    pub async fn bring_about(&self, namespace: &str, group: &str) -> kube::Result<()> {
        let before = self.seen.before(namespace, group);
        let authority = self.authority.borrow().clone();
        let Some(observed) = observe(&self.client, namespace, group, before, authority).await?
        else {
            return Ok(());
        };
        self.metrics.uninjected(namespace, group, without_sidecar(&observed.pods).count());
        self.metrics.keeps(namespace, group);
        self.strays.forget(namespace, group);
        self.metrics.stands(namespace, group, &status(&observed).conditions);
        let mut conclave = observed.conclave.clone();
        for change in plan(&observed) {
            self.hands.apply(&mut conclave, &change).await?;
            if let Change::Announce(Notice::RegisterLost { .. }) = change {
                self.metrics.register_lost(namespace, group);
            }
        }
        self.seen.remember(namespace, group, &observed);
        Ok(())
    }

    /// What reports pods whose group is not there.
    pub fn strays(&self) -> &Strays {
        &self.strays
    }

    /// A group is gone.
    fn forget(&self, namespace: &str, group: &str) {
        self.metrics.forget(namespace, group);
        self.seen.forget(namespace, group);
    }
}

/// What there was of each group when it was last reconciled.
#[derive(Default)]
struct Seen(Mutex<BTreeMap<(String, String), Before>>);

impl Seen {
    fn before(&self, namespace: &str, group: &str) -> Before {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(&(namespace.to_owned(), group.to_owned())).cloned().unwrap_or_default()
    }

    /// Members stay as they were last known.
    fn remember(&self, namespace: &str, group: &str, observed: &Observed) {
        let members = notices::present(observed).or_else(|| observed.before.members.clone());
        let relabelled = observed.relabelled.iter().map(|pod| pod.uid.clone()).collect();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert((namespace.to_owned(), group.to_owned()), Before { members, relabelled });
    }

    fn forget(&self, namespace: &str, group: &str) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.remove(&(namespace.to_owned(), group.to_owned()));
    }
}

/// Reconciles the groups of these namespaces, or of all if none is named, until it is cancelled;
/// then it finishes what is under way.
pub async fn run(context: Arc<Context>, namespaces: &[String], stop: &CancellationToken) {
    let scopes: Vec<Option<&str>> = match namespaces {
        [] => vec![None],
        namespaces => namespaces.iter().map(|namespace| Some(namespace.as_str())).collect(),
    };
    let controllers =
        scopes.into_iter().map(|scope| run_in(Arc::clone(&context), scope, stop.clone()));
    join_all(controllers).await;
}

async fn run_in(context: Arc<Context>, scope: Option<&str>, stop: CancellationToken) {
    let client = &context.client;
    // Of what belongs to a group only the metadata is kept: all that is to be seen is a change.
    let all = || watcher::Config::default().timeout(WATCH);
    let labelled = || all().labels(GROUP_LABEL);
    let published = || all().labels(ELECTION_LABEL);
    Controller::new(api::<Conclave>(client, scope), all())
        .owns(api::<PartialObjectMeta<Service>>(client, scope), labelled())
        .owns(api::<PartialObjectMeta<EndpointSlice>>(client, scope), published())
        // It has no owner.
        .watches(api::<PartialObjectMeta<Lease>>(client, scope), labelled(), |lease| {
            group_of(&lease)
        })
        .owns(api::<PartialObjectMeta<Role>>(client, scope), labelled())
        .owns(api::<PartialObjectMeta<RoleBinding>>(client, scope), labelled())
        .watches(api::<PartialObjectMeta<Pod>>(client, scope), labelled(), |pod| group_of(&pod))
        .reconcile_all_on(changes(context.authority.clone()))
        .trigger_backoff(Pause)
        .with_config(Config::default().concurrency(WORKERS).debounce(DEBOUNCE))
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(reconcile, retry, Arc::clone(&context))
        .for_each(|result| {
            report(&context, result);
            std::future::ready(())
        })
        .await;
}

/// Whenever groups must be notified of another authority.
fn changes(
    authority: watch::Receiver<Option<AuthorityStatus>>,
) -> impl Stream<Item = ()> + Send + 'static {
    stream::unfold(authority, async |mut authority| {
        authority.changed().await.ok()?;
        Some(((), authority))
    })
}

/// Everything of a kind, in one namespace or in all.
fn api<K>(client: &Client, scope: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match scope {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// The group that an object says it belongs to.
fn group_of(object: &impl ResourceExt) -> Option<ObjectRef<Conclave>> {
    let group = object.labels().get(GROUP_LABEL)?;
    Some(ObjectRef::new(group).within(&object.namespace()?))
}

async fn reconcile(conclave: Arc<Conclave>, context: Arc<Context>) -> kube::Result<Action> {
    let begun = Instant::now();
    let _under_way = context.metrics.reconciling();
    let namespace = conclave.namespace().unwrap_or_default();
    let result = context.bring_about(&namespace, &conclave.name_any()).await;
    let outcome = match &result {
        Ok(()) => Outcome::Success,
        Err(error) if is_conflict(error) => Outcome::Requeue,
        Err(_) => Outcome::Error,
    };
    context.metrics.reconciled(outcome, begun.elapsed());
    let shares = lease_names(&conclave.spec).next().is_some();
    result.map(|()| Action::requeue(if shares { LOOK_FOR_LEASES } else { RESYNC }))
}

/// When to try again. A conflict means that the group has changed since it was read.
#[expect(clippy::needless_pass_by_value, reason = "the controller calls it so")]
fn retry(conclave: Arc<Conclave>, error: &kube::Error, _: Arc<Context>) -> Action {
    if is_conflict(error) {
        return Action::requeue(RETRY_CONFLICT);
    }
    warn!(
        namespace = conclave.namespace(),
        group = conclave.name_any(),
        error = chain(error),
        "the group was not reconciled"
    );
    Action::requeue(RETRY_ERROR)
}

fn report(
    context: &Arc<Context>,
    result: Result<(ObjectRef<Conclave>, Action), Error<kube::Error, watcher::Error>>,
) {
    match result {
        Ok((group, _)) => debug!(%group, "reconciled"),
        Err(Error::ObjectNotFound(group)) => {
            let (namespace, name) = (group.namespace.clone().unwrap_or_default(), group.name);
            context.forget(&namespace, &name);
            let context = Arc::clone(context);
            tokio::spawn(async move { context.strays.notice(&namespace, &name).await });
        }
        // `retry` has reported it.
        Err(Error::ReconcilerFailed(..)) => {}
        Err(error @ (Error::QueueError(_) | Error::RunnerError(_))) => {
            warn!(error = chain(&error), "a watch was interrupted");
        }
    }
}

/// The pause after a watch was interrupted. All watches share it: they break together when the API
/// server goes, and if it grew with each of them, the last would wait for minutes.
struct Pause;

impl Iterator for Pause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(PAUSE)
    }
}

impl Backoff for Pause {
    fn reset(&mut self) {}
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict() || status.is_already_exists())
}

/// Between two tries to watch.
const PAUSE: Duration = Duration::from_millis(500);
/// How many groups are reconciled at a time.
const WORKERS: u16 = 8;
/// How long changes are gathered: a rollout is many at once.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// How often a group is looked at although nothing moved.
const RESYNC: Duration = Duration::from_mins(10);
/// The same of one that shares elections. Nothing says that a Lease of one was deleted: it is not the group's.
const LOOK_FOR_LEASES: Duration = Duration::from_mins(1);
/// How many seconds a watch lasts before the next one takes over. A connection may be lost without either end being
/// notified, as where another machine takes the API server's address over: of that a watch hears nothing any more, and
/// only its end shows it.
const WATCH: u32 = 30;
const RETRY_CONFLICT: Duration = Duration::from_millis(500);
const RETRY_ERROR: Duration = Duration::from_secs(10);
