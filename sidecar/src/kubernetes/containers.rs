//! Evidence of death: what the kubelet says has become of the sidecars' containers.
//!
//! Each sidecar writes its incarnation to its termination message file when it begins. The kubelet
//! makes that file anew for every start of a container, and puts what is in it into the status once
//! the container has terminated. So a report names the one process that is over, and nobody needs to
//! know containers by their ids.
//!
//! Only that is evidence. A pod, a node or an endpoint that is gone says nothing, because deletion
//! can be forced while the process runs; nor does the phase of a pod.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use conclave_crds::{GROUP_LABEL, SIDECAR_CONTAINER};
use conclave_protocols::policy::Evidence;
use conclave_protocols::{Incarnation, PodUid};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use kube::Api;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::{mpsc, watch};
use tracing::{debug, info};

use super::Place;
use crate::group::Status;

/// What the kubelet says of a container that it cannot find: nothing is known about its process.
pub(super) const UNKNOWN: &str = "ContainerStatusUnknown";

/// Writes who this process is to the file whose content the kubelet reports when the container has
/// terminated. The kubelet has made the file; it is not made here.
pub fn write_termination_message(path: &Path, me: Incarnation) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    write!(file, "{me}")
}

impl Place {
    /// Follows the pods of the group while the policy in force takes evidence of death.
    pub async fn watch_for_evidence(
        self,
        mut status: watch::Receiver<Status>,
        dead: mpsc::Sender<Incarnation>,
    ) {
        let takes = |status: &Status| status.evidence == Evidence::ContainerStatus;
        loop {
            if status.wait_for(takes).await.is_err() {
                return;
            }
            tokio::select! {
                over = status.wait_for(|status| !takes(status)) => {
                    if over.is_err() {
                        return;
                    }
                }
                () = self.watch_containers(&dead) => return,
            }
        }
    }

    /// Hands on every termination that a kubelet reports. Returns when nobody listens any more.
    async fn watch_containers(&self, dead: &mpsc::Sender<Incarnation>) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let label = format!("{GROUP_LABEL}={}", self.name);
        let config = watcher::Config::default().labels(&label);
        let mut events = watcher(pods, config).default_backoff().boxed();
        let mut notified = BTreeSet::new();
        loop {
            match events.try_next().await {
                // What was reported before is not forgotten here: a status has the last two only.
                Ok(Some(Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod))) => {
                    for incarnation in terminated(&pod) {
                        if notified.insert(incarnation) {
                            info!(%incarnation, "the kubelet reports its container as terminated");
                            if dead.send(incarnation).await.is_err() {
                                return;
                            }
                        }
                    }
                    if notified.len() > NOTIFIED_MAX {
                        notified.clear();
                    }
                }
                Ok(Some(Event::Init | Event::InitDone)) => {}
                Ok(None) => return,
                Err(error) => debug!(error = &error as &dyn Error, "watch the pods"),
            }
        }
    }
}

/// More are not kept in mind; to report them again does no harm.
const NOTIFIED_MAX: usize = 4_096;

/// The processes of a pod's sidecar that the kubelet reports as terminated.
fn terminated(pod: &Pod) -> Vec<Incarnation> {
    let uid = pod.metadata.uid.as_deref().and_then(|uid| uid.parse().ok());
    let (Some(uid), Some(status)) = (uid, &pod.status) else { return Vec::new() };
    // A native sidecar is an init container.
    let native = status.init_container_statuses.iter().flatten();
    let statuses = native.chain(status.container_statuses.iter().flatten());
    statuses
        .filter(|status| status.name == SIDECAR_CONTAINER)
        .flat_map(ends)
        .filter_map(|end| named(end, uid))
        .collect()
}

fn ends(container: &ContainerStatus) -> impl Iterator<Item = &ContainerStateTerminated> {
    let states = container.state.iter().chain(&container.last_state);
    states.filter_map(|state| state.terminated.as_ref())
}

/// Which process of the pod this end names, to the letter.
fn named(end: &ContainerStateTerminated, pod: PodUid) -> Option<Incarnation> {
    let text = end.message.as_deref().filter(|_| end.reason.as_deref() != Some(UNKNOWN))?;
    let (_, run) = text.split_once('/')?;
    let incarnation = Incarnation { pod, run: u64::from_str_radix(run, 16).ok()? };
    (incarnation.to_string() == text).then_some(incarnation)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOBODY: [u64; 0] = [];

    const UID: &str = "00000000-0000-4000-8000-000000000007";

    fn seen(status: &Value) -> Vec<u64> {
        let pod = json!({"metadata": {"uid": UID}, "status": status});
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        terminated(&pod).iter().map(|incarnation| incarnation.run).collect()
    }

    fn container(name: &str, state: &Value, last: &Value) -> Value {
        json!({
            "name": name, "state": state, "lastState": last,
            "image": "i", "imageID": "", "ready": false, "restartCount": 1,
        })
    }

    fn end(reason: &str, message: &str) -> Value {
        json!({"terminated": {"exitCode": 137, "reason": reason, "message": message}})
    }

    #[test]
    fn a_native_or_a_plain_sidecar_that_has_terminated_is_dead() {
        let running = json!({"running": {}});
        let restarted = container("conclave", &running, &end("Error", &format!("{UID}/1f")));
        assert_eq!(seen(&json!({"initContainerStatuses": [restarted]})), [0x1f]);
        let both = container(
            "conclave",
            &end("OOMKilled", &format!("{UID}/2")),
            &end("Error", &format!("{UID}/1")),
        );
        assert_eq!(seen(&json!({"containerStatuses": [both]})), [2, 1]);
    }

    #[test]
    fn nothing_else_is_evidence() {
        let good = end("Error", &format!("{UID}/1f"));
        let only = |state: &Value| {
            let status = container("conclave", state, &json!({}));
            seen(&json!({"initContainerStatuses": [status]}))
        };
        assert_eq!(only(&good), [0x1f]);
        for message in [
            String::new(),
            UID.to_owned(),
            format!("{UID}/"),
            format!("{UID}/1f\n"),
            format!(" {UID}/1f"),
            format!("{UID}/+1f"),
            format!("{UID}/01f"),
            format!("{UID}/1F"),
            "00000000-0000-4000-8000-000000000008/1f".to_owned(),
            "The container could not be located when the pod was deleted".to_owned(),
        ] {
            assert_eq!(only(&end("Error", &message)), NOBODY, "{message:?}");
        }
        assert_eq!(only(&end(UNKNOWN, &format!("{UID}/1f"))), NOBODY);
        assert_eq!(only(&json!({"terminated": {"exitCode": 0}})), NOBODY);
        assert_eq!(
            only(&json!({"waiting": {"reason": "CrashLoopBackOff", "message": "x"}})),
            NOBODY
        );
        let other = container("till", &good, &good);
        assert_eq!(seen(&json!({"containerStatuses": [other]})), NOBODY);
        assert_eq!(seen(&json!({"phase": "Failed", "reason": "NodeLost"})), NOBODY);
    }

    #[test]
    fn what_a_sidecar_writes_is_what_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("termination-log");
        let pod = UID.parse().expect("a UID");
        let me = Incarnation { pod, run: (1 << 53) - 1 };
        assert!(write_termination_message(&path, me).is_err(), "only the kubelet makes the file");
        std::fs::write(&path, "of an earlier life, and longer than what comes: ".repeat(4))
            .expect("written");
        write_termination_message(&path, me).expect("written");
        let message = std::fs::read_to_string(&path).expect("read");
        let end = ContainerStateTerminated { message: Some(message), ..Default::default() };
        assert_eq!(named(&end, pod), Some(me));
    }
}
