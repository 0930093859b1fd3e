//! How long a new sidecar takes to a page in step.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use conclave_clock_page::{Reader, Status};
use conclave_testbed::cluster::{Cluster, Pod};

use super::PERIOD;
use super::deploy::page;
use crate::boottime::Boottime;
use crate::product::SIDECAR;

/// When the pages of new pods, whose clocks have no fault, state a time first.
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

fn is_in_step(page: &Path) -> bool {
    Reader::open(page).is_ok_and(|reader| reader.now().status == Status::Synchronised)
}
