//! Leases of the API server.

use std::error::Error;

use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::{Call, Do, News, Outcome, Record};

/// A way to the Leases of a namespace.
#[derive(Clone)]
pub struct KubernetesLeases {
    client: Client,
    namespace: String,
    under_way: TaskTracker,
}

impl std::fmt::Debug for KubernetesLeases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Leases in {}", self.namespace)
    }
}

impl KubernetesLeases {
    /// Those of this namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned(), under_way: TaskTracker::new() }
    }

    fn api(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(super) fn call(&self, call: Call, news: mpsc::Sender<News>) {
        let api = self.api();
        self.under_way.spawn(async move {
            let Call { lease, id, what } = call;
            // It was given up before that, and what became of it is read.
            let outcome =
                conclave_kubernetes::within(super::turn::PATIENCE, answer(&api, &lease, what));
            let outcome = outcome.await.unwrap_or(Outcome::Unknown);
            // The node that asked is gone.
            let _ = news.send(News::Answer { lease, id, outcome }).await;
        });
    }

    /// Follows a Lease until this is dropped.
    pub(super) async fn follow(self, lease: String, news: mpsc::Sender<News>) {
        let config = watcher::Config::default().fields(&format!("metadata.name={lease}"));
        let mut events = watcher(self.api(), config).default_backoff().boxed();
        let mut is_listed = false;
        loop {
            let record = match events.try_next().await {
                Ok(Some(Event::Init)) => {
                    is_listed = false;
                    continue;
                }
                Ok(Some(Event::InitApply(seen) | Event::Apply(seen))) => {
                    is_listed = true;
                    Some(Record::new(seen))
                }
                Ok(Some(Event::InitDone)) if is_listed => continue,
                Ok(Some(Event::InitDone | Event::Delete(_))) => None,
                Ok(None) => return,
                Err(error) => {
                    debug!(error = &error as &dyn Error, lease, "watch a Lease of an election");
                    continue;
                }
            };
            if news.send(News::Seen { lease: lease.clone(), record }).await.is_err() {
                return;
            }
        }
    }

    pub(super) async fn settled(&self) {
        self.under_way.close();
        self.under_way.wait().await;
        self.under_way.reopen();
    }
}

async fn answer(api: &Api<Lease>, name: &str, what: Do) -> Outcome {
    let done = match what {
        Do::Read => api.get(name).await,
        Do::Write(record, write) => {
            let lease = record.with(&write, Timestamp::now());
            api.replace(name, &PostParams::default(), &lease).await
        }
    };
    match done {
        Ok(lease) => Outcome::Is(Record::new(lease)),
        Err(kube::Error::Api(status)) => match status.code {
            404 => Outcome::Absent,
            409 => Outcome::Conflict,
            // It may be let through next time.
            401 | 408 | 429 => unknown(&kube::Error::Api(status), name),
            400..=499 => Outcome::Refused,
            _ => unknown(&kube::Error::Api(status), name),
        },
        Err(error) => unknown(&error, name),
    }
}

fn unknown(error: &kube::Error, lease: &str) -> Outcome {
    debug!(error = error as &dyn Error, lease, "call for a Lease of an election");
    Outcome::Unknown
}

#[cfg(test)]
mod tests;
