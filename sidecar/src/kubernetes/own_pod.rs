//! What the kubelet reports of the application's containers in this pod, where the resource takes its reports for
//! evidence: a process that was over by then leads no more.
//!
//! The application is all containers of the pod but the sidecar and those that only come before the others, or the one
//! that an annotation names.

use std::collections::BTreeMap;
use std::error::Error;

use conclave_crds::SIDECAR_CONTAINER;
use conclave_protocols::policy::Evidence;
use conclave_protocols::{LocalTime, PodUid};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::watch;
use tracing::{debug, info};

use super::Place;
use super::containers::UNKNOWN;
use crate::application::{Application, Containers};
use crate::group::Group;

/// Which pod this is, and which of its containers is the application.
#[derive(Clone, Debug)]
pub struct OwnPod {
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    pub uid: PodUid,
    /// The container; all but the sidecar if none is named.
    pub container: Option<String>,
}

impl Place {
    /// Follows this pod while the policy in force takes evidence of death: otherwise it has no right to.
    pub async fn watch_own_pod(
        self,
        own: OwnPod,
        group: Group,
        application: watch::Sender<Application>,
    ) {
        let takes = |evidence: Evidence| evidence == Evidence::ContainerStatus;
        let mut status = group.status();
        loop {
            if status.wait_for(|status| takes(status.evidence)).await.is_err() {
                return;
            }
            tokio::select! {
                over = status.wait_for(|status| !takes(status.evidence)) => {
                    if over.is_err() {
                        return;
                    }
                }
                () = self.follow_pod(&own, &group, &application) => {}
            }
            application
                .send_if_modified(|now| std::mem::take(&mut now.containers) != Containers::Unknown);
        }
    }

    /// Hands on what is reported, until the watch ends.
    async fn follow_pod(
        &self,
        own: &OwnPod,
        group: &Group,
        application: &watch::Sender<Application>,
    ) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={}", own.name));
        let mut events = watcher(pods, config).default_backoff().boxed();
        let mut seen = EndedProcesses::default();
        loop {
            match events.try_next().await {
                Ok(Some(Event::Apply(pod) | Event::InitApply(pod))) if own.is(&pod) => {
                    let report = seen.read(&pod, own.container.as_deref());
                    let clock = group.os_clock();
                    // In this order: time that passes between the two makes it later.
                    let (wall, now) = (clock.wall_ns(), clock.now());
                    let ended = report.ended.as_ref().map(|end| at(end, wall, now));
                    if ended.is_some() {
                        info!("the kubelet reports the end of a container of the application");
                    }
                    application.send_if_modified(|now| {
                        let before = *now;
                        now.containers = report.containers;
                        now.ended = now.ended.max(ended);
                        *now != before
                    });
                    if report.is_deleted {
                        group.drain().await;
                    }
                }
                Ok(Some(Event::Apply(_) | Event::InitApply(_) | Event::Delete(_))) => {}
                Ok(Some(Event::Init | Event::InitDone)) => {}
                Ok(None) => return,
                Err(error) => debug!(error = &error as &dyn Error, "watch this pod"),
            }
        }
    }
}

impl OwnPod {
    fn is(&self, pod: &Pod) -> bool {
        pod.metadata.uid.as_deref().and_then(|uid| uid.parse().ok()) == Some(self.uid)
    }
}

/// How many processes of each container were over when the pod was looked at last.
#[derive(Default)]
struct EndedProcesses(BTreeMap<String, i32>);

/// What a look at the pod shows.
#[derive(Clone, Debug, Default, PartialEq)]
struct Look {
    containers: Containers,
    /// A process of the application is over that was not at the last look.
    ended: Option<End>,
    /// The pod is about to end.
    is_deleted: bool,
}

/// When a process was over, as far as that is known. One of which it is not may have been over last.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum End {
    At(Time),
    Unknown,
}

impl EndedProcesses {
    fn read(&mut self, pod: &Pod, only: Option<&str>) -> Look {
        let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
        let mut report =
            Look { is_deleted: pod.metadata.deletion_timestamp.is_some(), ..Look::default() };
        let are_several = application(pod, only).count() > 1;
        let (mut some, mut missing) = (false, false);
        for container in application(pod, only) {
            let ends = ends(container);
            let (is_running, is_done) = (is_running(container), is_done(container, policy));
            let before = self.0.insert(container.name.clone(), ends);
            let end = last_end(container).filter(|end| match before {
                Some(before) => before < ends,
                // At the first look an end counts for what was asked before it, if it is known when that was.
                None => *end != End::Unknown,
            });
            // One that has done its work was not the one that stands, if there are others.
            if !(is_done && are_several) {
                report.ended = report.ended.max(end);
            }
            some |= is_running;
            missing |= !is_running && !is_done;
        }
        report.containers = match (some, missing) {
            _ if self.0.is_empty() => Containers::Unknown,
            (true, false) => Containers::Running,
            (_, true) | (false, false) => Containers::Stopped,
        };
        report
    }
}

/// The containers that are the application. One that is named may be a native sidecar.
fn application<'a>(
    pod: &'a Pod,
    only: Option<&'a str>,
) -> impl Iterator<Item = &'a ContainerStatus> {
    let status = pod.status.as_ref();
    let main = status.and_then(|status| status.container_statuses.as_ref());
    let init = status.and_then(|status| status.init_container_statuses.as_ref());
    let init = init.filter(|_| only.is_some());
    main.into_iter().chain(init).flatten().filter(move |container| match only {
        Some(name) => container.name == name,
        None => container.name != SIDECAR_CONTAINER,
    })
}

fn is_running(container: &ContainerStatus) -> bool {
    container.state.as_ref().is_some_and(|state| state.running.is_some())
}

/// The end of a container's last process, if that is over for certain.
fn end(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    let of_state = container.state.as_ref().and_then(|state| state.terminated.as_ref());
    let before = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    // While the next one is waited for, the last one is the one before.
    let end = of_state.or_else(|| before.filter(|_| !is_running(container)));
    end.filter(|end| end.reason.as_deref() != Some(UNKNOWN))
}

/// How many processes of a container are over: a restart adds none to the end that it follows.
fn ends(container: &ContainerStatus) -> i32 {
    container.restart_count.saturating_add(i32::from(end(container).is_some()))
}

/// When the last process was over that is; nothing if none is, as far as the kubelet says.
fn last_end(container: &ContainerStatus) -> Option<End> {
    let mut states = container.state.iter().chain(&container.last_state);
    let end = states.find_map(|state| state.terminated.as_ref());
    let at = end.map(|end| end.finished_at.clone().map_or(End::Unknown, End::At));
    at.or_else(|| (container.restart_count > 0).then_some(End::Unknown))
}

/// Whether no process of the container comes any more, though nothing has failed.
fn is_done(container: &ContainerStatus, policy: Option<&str>) -> bool {
    let end = container.state.as_ref().and_then(|state| state.terminated.as_ref());
    end.is_some_and(|end| match policy {
        Some("OnFailure" | "Never") => end.exit_code == 0,
        _ => false,
    })
}

/// When it was over at the latest. The kubelet is on this machine, and states whole seconds by the wall clock; what was
/// asked in the same second may have been asked by the process that is over.
fn at(end: &End, wall_ns: i64, now: LocalTime) -> LocalTime {
    let End::At(Time(end)) = end else { return now };
    let since = i128::from(wall_ns) - end.as_nanosecond() - SECOND;
    LocalTime(now.0.saturating_sub(u64::try_from(since.max(0)).unwrap_or(u64::MAX)))
}

const SECOND: i128 = 1_000_000_000;

#[cfg(test)]
#[path = "own_pod/tests.rs"]
mod tests;
