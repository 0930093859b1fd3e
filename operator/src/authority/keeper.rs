//! Keeps the authority: reads it, and changes it where this replica acts.

use std::sync::Arc;
use std::time::Duration;

use conclave_crds::AuthorityStatus;
use conclave_kubernetes::within;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tokio::time::error::Elapsed;
use tokio::time::sleep;
use tracing::{info, warn};

use super::publishing::Publishing;
use super::secret::{REVOKE_ANNOTATION, SECRET_NAME};
use super::{Authority, CertificateError, Lifetimes, SecretError, Step};
use crate::FIELD_MANAGER;
use crate::metrics::Metrics;
use crate::telemetry::chain;

/// Where things are, and how long they last.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The operator's own namespace.
    pub namespace: String,
    /// The namespaces of the groups; all, if there is none.
    pub namespaces: Vec<String>,
    /// The Service by which certificates are issued.
    pub service: String,
    /// The configuration of the webhook, if there is one.
    pub webhook: Option<String>,
    /// How long things last.
    pub lifetimes: Lifetimes,
}

/// What keeps the authority.
pub struct Keeper {
    secrets: Api<Secret>,
    publishing: Publishing,
    lifetimes: Lifetimes,
    authority: watch::Sender<Option<Arc<Authority>>>,
    status: watch::Sender<Option<AuthorityStatus>>,
    metrics: Metrics,
    has_address: bool,
}

/// Why a round has failed. Whatever was known before stays in use.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// A call failed.
    #[error("the API server has not helped to keep the authority")]
    Api(#[from] kube::Error),
    /// The API server has not answered at all.
    #[error("the API server has not answered in time")]
    Late(#[from] Elapsed),
    /// The Secret is none of ours, or damaged.
    #[error("the Secret `{SECRET_NAME}` cannot be used")]
    Secret(#[from] SecretError),
    /// No certificate could be made.
    #[error("the authority could not be made")]
    Certificate(#[from] CertificateError),
}

impl Keeper {
    /// A keeper that knows nothing yet.
    pub fn new(client: &Client, settings: Settings, metrics: Metrics) -> Self {
        let Settings { namespace, namespaces, service, webhook, lifetimes } = settings;
        let publishing = Publishing {
            client: client.clone(),
            namespaces,
            services: Api::namespaced(client.clone(), &namespace),
            service,
            webhook,
        };
        Self {
            secrets: Api::namespaced(client.clone(), &namespace),
            publishing,
            lifetimes,
            authority: watch::Sender::new(None),
            status: watch::Sender::new(None),
            metrics,
            has_address: true,
        }
    }

    /// The authority, as it is known.
    pub fn authority(&self) -> watch::Receiver<Option<Arc<Authority>>> {
        self.authority.subscribe()
    }

    /// What is announced of it to groups.
    pub fn status(&self) -> watch::Receiver<Option<AuthorityStatus>> {
        self.status.subscribe()
    }

    /// Keeps it for good. `read` is called when the authority was read, or found to be missing.
    pub async fn run(mut self, mut acts: watch::Receiver<bool>, read: impl Fn()) {
        loop {
            let is_acting = *acts.borrow_and_update();
            // A call that is never answered must not be the last one. What it has done is read then.
            let round = within(ROUND, self.round(is_acting, Timestamp::now(), &read)).await;
            match round.map_err(KeepError::from).flatten() {
                Ok(()) => self.metrics.authority_maintained(Timestamp::now()),
                Err(error) => warn!(error = chain(&error), "the authority stays as it is known"),
            }
            tokio::select! {
                () = sleep(self.pause()) => {}
                changed = acts.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Reads the authority once; where this replica acts, it does what is due, too.
    pub async fn round(
        &mut self,
        acts: bool,
        now: Timestamp,
        read: impl Fn(),
    ) -> Result<(), KeepError> {
        let secret = self.secrets.get_opt(SECRET_NAME).await?;
        let kept = secret.as_ref().map(Authority::read).transpose()?;
        read();
        match secret.zip(kept) {
            Some((secret, kept)) => self.follow(&secret, kept, acts, now).await?,
            None if acts => self.create(now).await?,
            // The replica that acts is about to make it.
            None => {}
        }
        self.publish(acts).await
    }

    /// What others need less than half of the overlap for must not take all of it here. Without an
    /// authority nobody is certified, and no pod of a group can be made.
    fn pause(&self) -> Duration {
        let longest = if self.authority.borrow().is_none() { PAUSE_UNKNOWN } else { PAUSE };
        longest.min(self.lifetimes.overlap / 4).max(PAUSE_MIN)
    }

    /// A Secret that somebody has deleted is made anew as it was: clients that trust the authority go on.
    async fn create(&self, now: Timestamp) -> Result<(), KeepError> {
        let known = self.authority.borrow().clone();
        let authority = match known {
            Some(known) => {
                warn!(
                    name = SECRET_NAME,
                    "the Secret was deleted, and is made anew with the same keys: to be rid of \
                     them, set its annotation {REVOKE_ANNOTATION}"
                );
                known.as_ref().clone()
            }
            None => Authority::new(now, &self.lifetimes)?,
        };
        match self.secrets.create(&params(), &authority.write(None)).await {
            Ok(_) => info!(name = SECRET_NAME, "the authority is kept"),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        self.tell(authority);
        Ok(())
    }

    async fn follow(
        &self,
        secret: &Secret,
        authority: Authority,
        acts: bool,
        now: Timestamp,
    ) -> Result<(), KeepError> {
        let due = authority.due(now, &self.lifetimes).filter(|_| acts);
        let lacking = match due {
            Some(Step::Publish) => self.publishing.lacking(&authority.bundle()).await?,
            Some(Step::Begin | Step::Switch | Step::Forget | Step::Replace) | None => Vec::new(),
        };
        self.metrics.authority_lacking(lacking.len());
        let is_waited_for = !lacking.is_empty() && now < authority.patience(&self.lifetimes);
        let Some(step) = due.filter(|_| !is_waited_for) else {
            self.tell(authority);
            return Ok(());
        };
        if !lacking.is_empty() {
            let some = lacking.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>();
            let (count, some) = (lacking.len(), some.join(", "));
            warn!(count, some, "the authority is replaced, although not all have the next one");
        }
        let after = authority.after(step, now, &self.lifetimes)?;
        // With the version that was read. After a conflict the next round reads what is there.
        match self.secrets.replace(SECRET_NAME, &params(), &after.write(Some(secret))).await {
            Ok(_) if step == Step::Replace => {
                warn!("the authority is replaced at once: members are refused until they renew");
            }
            Ok(_) => info!(?step, "the authority rotates"),
            Err(kube::Error::Api(status)) if status.is_conflict() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        self.tell(after);
        Ok(())
    }

    fn tell(&self, authority: Authority) {
        self.metrics.authority_ends(authority.current.life().ends);
        self.authority.send_if_modified(|known| {
            let is_new = known.as_deref() != Some(&authority);
            if is_new {
                *known = Some(Arc::new(authority));
            }
            is_new
        });
    }

    async fn publish(&mut self, acts: bool) -> Result<(), KeepError> {
        let Some(authority) = self.authority.borrow().clone() else { return Ok(()) };
        let address = self.publishing.address().await?;
        if address.is_none() && self.has_address {
            let service = &self.publishing.service;
            warn!(service, "no Service has an address: groups are notified of no authority");
        }
        self.has_address = address.is_some();
        if let Some(address) = address {
            let status = Some(AuthorityStatus::new(address, &authority.bundle()));
            self.status.send_if_modified(|known| {
                let is_new = *known != status;
                *known = status;
                is_new
            });
        }
        if acts {
            self.publishing.tell_webhook(&authority.bundle()).await?;
        }
        Ok(())
    }
}

fn params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

/// How many that lack a certificate are named in a line of the log.
const NAMED: usize = 20;

/// How long a round may take.
const ROUND: Duration = Duration::from_secs(30);

/// How often the Secret is read.
const PAUSE: Duration = Duration::from_secs(10);
/// How often, while no authority is known.
const PAUSE_UNKNOWN: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(100);
