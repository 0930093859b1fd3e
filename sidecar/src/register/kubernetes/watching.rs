//! Following the Lease: what others write to it is read at once, not at the next turn.
//!
//! A watch may lag and may break. Nothing relies on it: each change only makes the member read the
//! Lease, as it also does by itself every few seconds.

use std::error::Error;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tracing::debug;

use super::KubernetesRegister;

/// What a watch of the Lease has seen.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sight {
    /// Rises when somebody else changed the Lease.
    pub stirs: u64,
    /// It was deleted, and was not seen since.
    pub gone: bool,
}

impl KubernetesRegister {
    /// Follows the Lease until this is dropped.
    pub async fn watch(self, sight: watch::Sender<Sight>) {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut events = watcher(leases, config).default_backoff().boxed();
        let mut listed = false;
        loop {
            match events.try_next().await {
                Ok(Some(Event::Init)) => listed = false,
                Ok(Some(Event::InitApply(lease) | Event::Apply(lease))) => {
                    listed = true;
                    let known = self.last.borrow().as_ref().and_then(ResourceExt::resource_version);
                    let is_new = known != lease.resource_version();
                    sight.send_if_modified(|sight| {
                        let changed = is_new || sight.gone;
                        sight.stirs += u64::from(changed);
                        sight.gone = false;
                        changed
                    });
                }
                Ok(Some(Event::InitDone)) if listed => {}
                Ok(Some(Event::InitDone | Event::Delete(_))) => {
                    sight.send_modify(|sight| {
                        sight.stirs += 1;
                        sight.gone = true;
                    });
                }
                Ok(None) => return,
                Err(error) => debug!(error = &error as &dyn Error, "watch the Lease"),
            }
        }
    }
}
