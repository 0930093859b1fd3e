//! A group whose sidecars publish clock pages, and where those are on this machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use conclave_clock_page::{OpenError, Reader, Status};
use conclave_testbed::cluster::{Cluster, Namespace, Pod};
use serde_json::{Value, json};

use super::{Fault, Pages};
use crate::product::{Group, SIDECAR};

/// A page of a group on this machine.
#[derive(Clone, Debug)]
pub struct Source {
    pub(super) path: PathBuf,
    /// What is wrong with the clock by which it is published.
    pub(super) fault: Fault,
}

/// Forms a group of so many pods, each of which publishes a page in the volume of its socket.
pub fn form<'a>(namespace: &'a Namespace<'a>, spec: &str, pods: usize) -> Result<Group<'a>> {
    let group = begin(namespace, spec)?;
    deploy(&group, "shop", pods, Fault::default())?;
    group.await_members(pods)?;
    Ok(group)
}

/// The same, of a pod for each of these faults.
pub fn form_of_wrong_clocks<'a>(
    namespace: &'a Namespace<'a>,
    spec: &str,
    faults: &[Fault],
) -> Result<Group<'a>> {
    let group = begin(namespace, spec)?;
    for (number, fault) in faults.iter().enumerate() {
        deploy(&group, &format!("shop-{number}"), 1, *fault)?;
    }
    group.await_members(faults.len())?;
    Ok(group)
}

fn begin<'a>(namespace: &'a Namespace<'a>, spec: &str) -> Result<Group<'a>> {
    namespace.apply(&format!(
        "apiVersion: conclave.dev/v1alpha1\nkind: Conclave\nmetadata: {{name: {GROUP}}}\n\
         spec: {spec}\n"
    ))?;
    // The webhook would put its own sidecar there, which has no such settings.
    let mine = ["namespace", namespace.name(), "conclave.dev/admission-webhooks=disabled"];
    namespace.cluster().kubectl(&[&["label", "--overwrite"], &mine[..]].concat())?;
    Ok(Group::of(namespace, GROUP))
}

fn deploy(group: &Group<'_>, name: &str, pods: usize, fault: Fault) -> Result<()> {
    group.apply_deployment(name, 0)?;
    let page = json!({ "name": VARIABLE, "value": format!("/run/conclave/{PAGE}") });
    let add = |variable: Value| json!({ "op": "add", "path": ENVIRONMENT, "value": variable });
    let mut changes: Vec<Value> = [page].into_iter().chain(fault.variables()).map(add).collect();
    changes.push(json!({ "op": "replace", "path": "/spec/replicas", "value": pods }));
    let (target, changes) = (format!("deployment/{name}"), Value::Array(changes).to_string());
    group.namespace.kubectl(&["patch", &target, "--type=json", "--patch", &changes])?;
    group.namespace.await_deployment(name)
}

/// Fails unless the page of each of these pods states a time within its error.
pub fn are_in_step(cluster: &Cluster, pods: &[Pod]) -> Result<()> {
    let sources = pods.iter().map(|pod| Source::of(cluster, pod)).collect::<Result<_>>()?;
    let sample = Pages::new(sources).sample().context("some page changes all the while")?;
    for (reading, pod) in sample.iter().zip(pods) {
        let status = reading.status;
        ensure!(status == Status::Synchronised, "the page of {} is {status:?}", pod.name);
    }
    Ok(())
}

impl Source {
    /// The page of a pod.
    pub fn of(cluster: &Cluster, pod: &Pod) -> Result<Self> {
        let directories = cluster.pod_directories()?;
        let mut all = directories.iter().map(|directory| directory.join(&pod.uid));
        let own = all.find(|directory| directory.exists());
        let own = own.with_context(|| format!("{} has no volumes here", pod.name))?;
        let containers = pod.object["spec"]["initContainers"].as_array();
        let mut containers = containers.into_iter().flatten();
        let sidecar = containers.find(|container| container["name"] == SIDECAR);
        let sidecar = sidecar.with_context(|| format!("{} has no sidecar", pod.name))?;
        Ok(Self { path: page(&own), fault: Fault::of(&sidecar["env"])? })
    }

    pub(super) fn open(&self) -> Result<Reader, OpenError> {
        if self.fault == Fault::default() {
            return Reader::open(&self.path);
        }
        Reader::open_even_with_fault(&self.path)
    }
}

/// The page below the directory of a pod.
pub(super) fn page(of_pod: &Path) -> PathBuf {
    of_pod.join("volumes/kubernetes.io~empty-dir/conclave-run").join(PAGE)
}

/// The group's name.
const GROUP: &str = "orders";

/// By this variable a sidecar has the path of its page.
const VARIABLE: &str = "CONCLAVE_CLOCK_PAGE";

/// The end of the sidecar's environment, in a deployment.
const ENVIRONMENT: &str = "/spec/template/spec/initContainers/0/env/-";

/// The name of the page in the volume.
const PAGE: &str = "clock";
