//! Leases within this process: what `conclave dev` has in place of the API server's. They are there as soon as
//! somebody asks for them, and nobody has them at first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use tokio::sync::{mpsc, watch};

use super::{Call, Do, News, Outcome, Record};

/// A way to Leases within this process, which can be cut off.
#[derive(Clone, Debug)]
pub struct MemoryLeases {
    all: Arc<Mutex<BTreeMap<String, watch::Sender<Record>>>>,
    /// It is cut off while any of these says so.
    cuts: Vec<watch::Receiver<bool>>,
}

impl MemoryLeases {
    /// No Leases yet.
    pub fn new(cut: watch::Receiver<bool>) -> Self {
        Self { all: Arc::default(), cuts: vec![cut] }
    }

    /// The same Leases by another way, which may be cut off on its own besides.
    #[must_use]
    pub fn by(&self, cut: watch::Receiver<bool>) -> Self {
        let cuts = self.cuts.iter().cloned().chain([cut]).collect();
        Self { all: Arc::clone(&self.all), cuts }
    }

    fn is_cut(&self) -> bool {
        self.cuts.iter().any(|cut| *cut.borrow())
    }

    fn lease(&self, name: &str) -> watch::Sender<Record> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let mut lease = Lease::default();
            (lease.metadata.name, lease.metadata.uid) =
                (Some(name.to_owned()), Some(name.to_owned()));
            lease.metadata.resource_version = Some("1".to_owned());
            watch::Sender::new(Record::new(lease))
        };
        all.entry(name.to_owned()).or_insert_with(new).clone()
    }

    pub(super) fn call(&self, call: Call, news: &mpsc::Sender<News>) {
        if self.is_cut() {
            // Nobody answers: the call is given up.
            return;
        }
        let Call { lease, id, what } = call;
        let outcome = self.answer(&lease, what, Timestamp::now());
        // The node that asked is gone, or floods itself: then the call is given up.
        let _ = news.try_send(News::Answer { lease, id, outcome });
    }

    fn answer(&self, name: &str, what: Do, now: Timestamp) -> Outcome {
        let lease = self.lease(name);
        let mut outcome = Outcome::Conflict;
        lease.send_if_modified(|known| {
            let written = match what {
                Do::Write(base, write) if base.version() == known.version() => {
                    let mut next = base.with(&write, now);
                    let version = next.resource_version().and_then(|text| text.parse().ok());
                    let version: u64 = version.unwrap_or(0);
                    next.metadata.resource_version = Some((version + 1).to_string());
                    *known = Record::new(next);
                    true
                }
                Do::Write(..) => return false,
                Do::Read => false,
            };
            outcome = Outcome::Is(known.clone());
            written
        });
        outcome
    }

    /// Follows a Lease until this is dropped.
    pub(super) async fn follow(self, name: String, news: mpsc::Sender<News>) {
        let mut lease = self.lease(&name).subscribe();
        loop {
            let record = lease.borrow_and_update().clone();
            let seen = News::Seen { lease: name.clone(), record: Some(record) };
            if news.send(seen).await.is_err() || lease.changed().await.is_err() {
                return;
            }
            for cut in &self.cuts {
                // Its other end is as long-lived as the members.
                let _ = cut.clone().wait_for(|cut| !cut).await;
            }
        }
    }
}
