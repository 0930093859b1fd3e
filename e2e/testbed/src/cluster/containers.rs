//! The processes of containers, as the host sees them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::boot::ctr;
use super::node::Node;
use super::process::Process;
use super::{Cluster, Pod};
use crate::command;

impl Cluster {
    /// Sends a signal to the first process of a container, from outside: SIGKILL is a crash,
    /// SIGSTOP a machine that stalls until SIGCONT.
    pub fn signal_container(&self, pod: &Pod, container: &str, signal: Signal) -> Result<()> {
        self.process(pod, container)?.signal(signal)
    }

    /// The first process of a container.
    pub fn process(&self, pod: &Pod, container: &str) -> Result<Process> {
        self.process_of(pod, &pod.container_id(container)?)
    }

    /// The number that the first process of a container has on the host.
    pub fn host_pid(&self, pod: &Pod, container: &str) -> Result<i32> {
        Ok(self.process(pod, container)?.pid())
    }

    /// Where the kubelets of all nodes keep the volumes of pods: a directory for each pod, by its UID.
    pub fn pod_directories(&self) -> Result<Vec<PathBuf>> {
        let state = self.harness()?;
        Ok(Node::ALL.into_iter().map(|node| state.kubelet(node).join("pods")).collect())
    }

    /// The process that holds the pod's sandbox open.
    pub(super) fn sandbox(&self, pod: &Pod) -> Result<Process> {
        let running = self.labelled(pod, "io.cri-containerd.kind", "sandbox")?;
        running.with_context(|| format!("the pod {} has no running sandbox", pod.name))
    }

    /// The first process of a container as it runs now.
    pub(super) fn running(&self, pod: &Pod, container: &str) -> Result<Process> {
        let running = self.labelled(pod, "io.kubernetes.container.name", container)?;
        running.with_context(|| format!("the container {container} of {} does not run", pod.name))
    }

    /// The first process of a running container of the pod with this label.
    fn labelled(&self, pod: &Pod, label: &str, value: &str) -> Result<Option<Process>> {
        let filter =
            format!("labels.\"io.kubernetes.pod.uid\"=={},labels.\"{label}\"=={value}", pod.uid);
        let list = ["containers", "list", "--quiet", &filter];
        let ids = command::output(ctr(self.harness()?, Node::named(&pod.node)?).args(list))?;
        Ok(ids.lines().find_map(|id| self.process_of(pod, id).ok()))
    }

    fn process_of(&self, pod: &Pod, id: &str) -> Result<Process> {
        let directory = self.harness()?.running_containers(Node::named(&pod.node)?).join(id);
        let pid = fs::read_to_string(directory.join("init.pid"))
            .with_context(|| format!("the container {id} of {} does not run", pod.name))?;
        Process::of(pid.trim().parse()?)
            .with_context(|| format!("the container {id} of {} has ended", pod.name))
    }
}
