//! Reports pods that were refused, as Events.
//!
//! The pod does not exist and has no UID, so the Event is about the `Conclave` whose group the pod was
//! to join, with the pod's owner beside it. Without such a `Conclave` it is about the owner: a
//! `ReplicaSet`, a Job. The creator of a pod without an owner is notified by the refusal itself.
//!
//! Everybody that reaches the webhook can make up a review. So no answer waits for an Event, and there are
//! few: one in a second, and those that do not find a place in a short line are only logged.

use std::time::Duration;

use conclave_crds::{Conclave, GROUP_LABEL};
use conclave_kubernetes::within;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::runtime::events::{Event, EventType};
use kube::{Api, Client, Resource};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing::{debug, warn};

use crate::events::Events;
use crate::telemetry::{chain, excerpt};

/// A pod that was refused.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refused {
    namespace: String,
    group: Option<String>,
    owner: Option<ObjectReference>,
    problem: String,
}

/// Takes what is to be reported. Clones are the same.
#[derive(Clone, Debug)]
pub struct Teller(mpsc::Sender<Refused>);

/// What reports.
pub struct Telling {
    client: Client,
    events: Events,
    refused: mpsc::Receiver<Refused>,
}

impl Refused {
    /// What there is to say of this pod. Nothing, if there is nobody to say it of: the names become
    /// parts of a path, so they must be names.
    pub(super) fn new(namespace: &str, pod: &Value, problem: &str) -> Option<Self> {
        let group = pod.pointer("/metadata/labels").and_then(|labels| labels[GROUP_LABEL].as_str());
        let group = group.filter(|name| is_label(name)).map(str::to_owned);
        let owner = owner(namespace, pod);
        let is_notified = is_label(namespace) && (group.is_some() || owner.is_some());
        is_notified.then(|| Self {
            namespace: namespace.to_owned(),
            group,
            owner,
            problem: excerpt(problem).into_owned(),
        })
    }

    fn event(&self, secondary: Option<ObjectReference>) -> Event {
        let of =
            self.owner.as_ref().and_then(|owner| owner.kind.as_deref().zip(owner.name.as_deref()));
        let of = of.map(|(kind, name)| format!(" of the {kind} {name}")).unwrap_or_default();
        let mut note =
            format!("a pod{of} is refused, as it cannot have the sidecar: {}", self.problem);
        note.truncate(note.floor_char_boundary(NOTE_MAX));
        Event {
            type_: EventType::Warning,
            reason: "PodRefused".to_owned(),
            action: "Inject".to_owned(),
            note: Some(note),
            secondary,
        }
    }
}

impl Teller {
    /// Has this reported, if there is room for it.
    pub(super) fn tell(&self, refused: Refused) {
        if let Err(error) = self.0.try_send(refused) {
            debug!(%error, "no Event about a pod that was refused");
        }
    }
}

impl Telling {
    /// What reports in the name of this replica, and what takes what it is to report.
    pub fn new(client: Client, replica: &str) -> (Self, Teller) {
        let (teller, refused) = mpsc::channel(WAITING);
        let events = Events::new(client.clone(), replica);
        (Self { client, events, refused }, Teller(teller))
    }

    /// Reports, as long as there are tellers. What cannot be reported is not tried again.
    pub async fn run(mut self) {
        while let Some(refused) = self.refused.recv().await {
            match within(PATIENCE, self.tell(&refused)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => warn!(error = chain(&error), "no Event could be written"),
                Err(_) => warn!("no Event could be written in time"),
            }
            sleep(PAUSE).await;
        }
    }

    async fn tell(&self, refused: &Refused) -> kube::Result<()> {
        let Refused { namespace, group, owner, .. } = refused;
        let groups: Api<Conclave> = Api::namespaced(self.client.clone(), namespace);
        let found = match group {
            Some(group) => groups.get_opt(group).await?,
            None => None,
        };
        let (regarding, secondary) = match (found, owner) {
            (Some(found), owner) => (found.object_ref(&()), owner.clone()),
            (None, Some(owner)) => (owner.clone(), None),
            (None, None) => return Ok(()),
        };
        self.events.publish(&refused.event(secondary), &regarding).await
    }
}

/// What has made the pod, and makes it again.
fn owner(namespace: &str, pod: &Value) -> Option<ObjectReference> {
    let owners = pod.pointer("/metadata/ownerReferences")?;
    let owners: Vec<OwnerReference> = serde_json::from_value(owners.clone()).ok()?;
    let owner = owners.into_iter().find(|owner| owner.controller == Some(true))?;
    let texts = [&owner.api_version, &owner.kind, &owner.name, &owner.uid];
    texts.iter().all(|text| text.len() <= NAME_MAX).then(|| ObjectReference {
        api_version: Some(owner.api_version),
        kind: Some(owner.kind),
        name: Some(owner.name),
        namespace: Some(namespace.to_owned()),
        uid: Some(owner.uid),
        ..ObjectReference::default()
    })
}

/// Whether this can be the name of a namespace, or of a `Conclave`.
pub(super) fn is_label(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=LABEL_MAX).contains(&name.len()) && name.chars().all(is_inner)
}

/// Refusals that wait to be reported.
const WAITING: usize = 16;
/// The time between two of them.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the API server may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The API server takes no longer note of an Event, in bytes.
const NOTE_MAX: usize = 1024;
/// The longest name of a namespace.
const LABEL_MAX: usize = 63;
/// The longest name of anything else.
const NAME_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(group: &str) -> Value {
        json!({ "metadata": { "labels": { "conclave.dev/group": group } } })
    }

    #[test]
    fn what_is_no_name_gets_into_no_path() {
        for name in ["", "..", "a/b", "Orders", "a%2fb", "a?b", &"a".repeat(64)] {
            assert_eq!(Refused::new("shop", &pod(name), "no"), None, "{name}");
            assert_eq!(Refused::new(name, &pod("orders"), "no"), None, "{name}");
        }
        assert!(Refused::new("shop", &pod("orders"), "no").is_some());
        assert_eq!(Refused::new("shop", &json!({}), "no"), None, "there is nobody to tell of");
    }

    #[test]
    fn the_note_is_no_longer_than_the_api_server_takes() {
        let long = "𝄞".repeat(2_000);
        let refused = Refused::new("shop", &pod("orders"), &long).expect("a group");
        let note = refused.event(None).note.expect("a note");
        assert!((1_021..=1_024).contains(&note.len()), "{} bytes", note.len());
    }
}
