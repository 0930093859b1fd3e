//! A group whose sidecars publish clock pages, and where those are on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use conclave_clock_page::{Reader, Status};
use serde_json::json;

use super::PERIOD;
use crate::boottime::Boottime;
use crate::cluster::{Cluster, Namespace, Pod};
use crate::product::{Group, SIDECAR};

/// Forms a group of so many pods, each of which publishes a page in the volume of its socket.
pub fn form<'a>(namespace: &'a Namespace<'a>, spec: &str, pods: usize) -> Result<Group<'a>> {
    namespace.apply(&format!(
        "apiVersion: conclave.dev/v1alpha1\nkind: Conclave\nmetadata: {{name: {GROUP}}}\n\
         spec: {spec}\n"
    ))?;
    // The webhook would put its own sidecar there, which has no such setting.
    let mine = ["namespace", namespace.name(), "conclave.dev/admission-webhooks=disabled"];
    namespace.cluster().kubectl(&[&["label", "--overwrite"], &mine[..]].concat())?;
    let group = Group::of(namespace, GROUP);
    group.apply_deployment("shop", 0)?;
    let variable = json!({ "name": VARIABLE, "value": format!("/run/conclave/{PAGE}") });
    let changed = json!([
        { "op": "add", "path": "/spec/template/spec/initContainers/0/env/-", "value": variable },
        { "op": "replace", "path": "/spec/replicas", "value": pods },
    ]);
    let patch = ["patch", "deployment/shop", "--type=json", "--patch", &changed.to_string()];
    namespace.kubectl(&patch)?;
    namespace.await_deployment("shop")?;
    group.await_members(pods)?;
    Ok(group)
}

/// Where the pages of these pods are on this machine.
pub fn paths(cluster: &Cluster, pods: &[Pod]) -> Result<Vec<PathBuf>> {
    let directories = cluster.pod_directories()?;
    let path = |pod: &Pod| {
        let mut all = directories.iter().map(|directory| directory.join(&pod.uid));
        let own = all.find(|directory| directory.exists());
        own.map(|own| page(&own)).with_context(|| format!("{} has no volumes here", pod.name))
    };
    pods.iter().map(path).collect()
}

fn page(of_pod: &Path) -> PathBuf {
    of_pod.join("volumes/kubernetes.io~empty-dir/conclave-run").join(PAGE)
}

/// When the pages of new pods state a time first.
#[derive(Debug)]
pub struct Starts {
    stop: Arc<AtomicBool>,
    seen: JoinHandle<BTreeMap<String, Duration>>,
}

impl Starts {
    /// Looks out for them from now on.
    pub fn watch(cluster: &Cluster) -> Result<Self> {
        let directories = cluster.pod_directories()?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let mut seen = BTreeMap::new();
                while !stop.load(Ordering::Relaxed) {
                    for (uid, path) in directories.iter().flat_map(|directory| pods(directory)) {
                        if !seen.contains_key(&uid) && is_in_step(&page(&path)) {
                            seen.insert(uid, Boottime::now().since_boot());
                        }
                    }
                    thread::sleep(PERIOD);
                }
                seen
            }
        });
        Ok(Self { stop, seen })
    }

    /// How long after the start of its process the page of each of these pods stated a time.
    pub fn end(self, cluster: &Cluster, pods: &[Pod]) -> Result<Vec<Duration>> {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.seen.join().map_err(|_| anyhow!("the watch of starts panicked"))?;
        let took = |pod: &Pod| {
            let begun = cluster.process(pod, SIDECAR)?.started_since_boot();
            let at = seen.get(&pod.uid);
            let at = at.with_context(|| format!("the page of {} states no time", pod.name))?;
            Ok(at.saturating_sub(begun))
        };
        pods.iter().map(took).collect()
    }
}

/// The pods of a node, by their UIDs.
fn pods(directory: &Path) -> Vec<(String, PathBuf)> {
    let entries = directory.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| (entry.file_name().display().to_string(), entry.path())).collect()
}

/// Fails unless the page of each of these pods states a time within its error.
pub fn are_in_step(cluster: &Cluster, pods: &[Pod]) -> Result<()> {
    for (path, pod) in paths(cluster, pods)?.iter().zip(pods) {
        ensure!(is_in_step(path), "the page of {} states no time", pod.name);
    }
    Ok(())
}

fn is_in_step(page: &Path) -> bool {
    Reader::open(page).is_ok_and(|reader| reader.now().status == Status::Synchronised)
}

/// The group's name.
const GROUP: &str = "orders";

/// By this variable a sidecar has the path of its page.
const VARIABLE: &str = "CONCLAVE_CLOCK_PAGE";

/// The name of the page in the volume.
const PAGE: &str = "clock";
