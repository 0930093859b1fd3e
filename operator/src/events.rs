//! Writes Events. What happens again within minutes is counted on the Event of the first time.
//!
//! `kube`'s recorder takes two Events for the same if they have the same reason and action and are
//! about the same objects, whatever their notes say, and shows the note of the first. Here the note is
//! the answer to *why*: a second problem that is counted on the Event of another would be reported to
//! nobody. So each note has a recorder of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, Recorder, Reporter};

use crate::FIELD_MANAGER;

/// Writes Events in the name of one replica. Clones are the same.
#[derive(Clone)]
pub(crate) struct Events {
    client: Client,
    reporter: Reporter,
    recorders: Arc<Mutex<HashMap<String, Recorder>>>,
}

impl Events {
    pub(crate) fn new(client: Client, replica: &str) -> Self {
        let reporter =
            Reporter { controller: FIELD_MANAGER.to_owned(), instance: Some(replica.to_owned()) };
        Self { client, reporter, recorders: Arc::default() }
    }

    /// Writes an Event about an object, or counts it on the one that says the same.
    ///
    /// # Errors
    ///
    /// The API server refused it, or was not reached.
    pub(crate) async fn publish(
        &self,
        event: &Event,
        regarding: &ObjectReference,
    ) -> kube::Result<()> {
        self.recorder(event.note.as_deref().unwrap_or_default()).publish(event, regarding).await
    }

    fn recorder(&self, note: &str) -> Recorder {
        let mut recorders = self.recorders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(recorder) = recorders.get(note) {
            return recorder.clone();
        }
        if recorders.len() >= NOTES {
            recorders.clear();
        }
        let recorder = Recorder::new(self.client.clone(), self.reporter.clone());
        recorders.insert(note.to_owned(), recorder.clone());
        recorder
    }
}

/// Notes that are remembered. When there are more, all are forgotten, and what happens again is
/// written anew.
const NOTES: usize = 256;
