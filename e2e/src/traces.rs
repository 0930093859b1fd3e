//! What the sidecars of a group did, held against the rules of the leader lease.
//!
//! Sidecars that are set to (`conclave::trace=trace`) log each step of their members. The nodes of the
//! harness are on this machine: their logs are files here, which are followed while pods live, so that
//! nothing is lost with a pod that is deleted, and all sidecars stamp their lines by one clock, the
//! `CLOCK_BOOTTIME` of this kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_protocols::LocalTime;
use conclave_protocols::trace::{Clocks, Line, Merged, Refusal, merge};
use conclave_testbed::cluster::{Cluster, evidence_directory};
use serde_json::Value;

use crate::boottime::Boottime;
use crate::product::SIDECAR;

/// What sidecars are set to log.
pub const LOG: &str = "info,kube=warn,conclave::trace=trace";

/// A trace of fewer steps shows nothing.
const FLOOR: u64 = 200;

/// How often files are looked for. One that is there for less is missed, and its lines are.
const LOOK: Duration = Duration::from_millis(50);

/// From a sidecar to its file a line takes no longer than that.
const ON_THE_WAY: Duration = Duration::from_secs(2);

/// How many steps before a wrong one are shown.
const SHOWN: usize = 20;

/// Follows the logs of all sidecars of a namespace.
#[derive(Debug)]
pub struct Traces {
    namespace: String,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Found>>,
}

/// What stood in the logs.
#[derive(Debug, Default)]
struct Found {
    lines: Vec<Line>,
    /// Lines of a trace that cannot be read.
    broken: u64,
}

impl Traces {
    /// Begins. Nothing on somebody else's cluster: its nodes have clocks and files of their own.
    pub fn follow(cluster: &Cluster, namespace: &str) -> Result<Option<Self>> {
        let Ok(directories) = cluster.pod_logs() else {
            println!("the trace is not checked: the nodes are not on this machine");
            return Ok(None);
        };
        let mut logs = Logs::new(directories, namespace)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            loop {
                // Where a test panics nobody asks any more.
                let is_last = stopped.load(Ordering::Relaxed) || Arc::strong_count(&stopped) == 1;
                logs.look()?;
                if is_last {
                    return Ok(logs.found);
                }
                thread::sleep(LOOK);
            }
        });
        Ok(Some(Self { namespace: namespace.to_owned(), stop, thread }))
    }

    /// Ends, and fails if what was done up to now is no run of the rules, or not all of it is known.
    pub fn check(self) -> Result<()> {
        let end = LocalTime(u64::try_from(Boottime::now().since_boot().as_nanos())?);
        thread::sleep(ON_THE_WAY);
        self.stop.store(true, Ordering::Relaxed);
        let found = self.thread.join().ok().context("following the logs panicked")??;
        found.check(end, &evidence_directory().join(&self.namespace))
    }
}

impl Found {
    /// Later lines of one sidecar may be here, and of another not.
    fn check(mut self, end: LocalTime, evidence: &Path) -> Result<()> {
        self.lines.retain(|line| line.at <= end);
        let (lines, broken) = (self.lines.len(), self.broken);
        let sidecars: BTreeSet<_> = self.lines.iter().map(|line| line.who).collect();
        let merged = merge(self.lines);
        let lost: u64 = merged.lost.values().sum();
        let checked = merged.check(Clocks::Drifting);
        let steps = match &checked {
            Ok(steps) => *steps,
            Err(refusal) => u64::try_from(refusal.step)?,
        };
        println!(
            "trace: {lines} lines of {} sidecars, {lost} lost, {broken} broken; {steps} steps of the rules",
            sidecars.len()
        );
        ensure!(lost + broken == 0, "{lost} lines are lost of {:?}", merged.lost);
        if let Err(refusal) = checked {
            println!("{}", keep(&merged, &refusal, evidence)?);
            anyhow::bail!("step {}: {}", refusal.step, refusal.breach);
        }
        ensure!(steps >= FLOOR, "only {steps} steps: this shows nothing");
        Ok(())
    }
}

/// Writes the trace down, up to the wrong step and some more, and returns what came just before that.
fn keep(merged: &Merged, refusal: &Refusal, evidence: &Path) -> Result<String> {
    let shown = |from: usize, to: usize| {
        merged.steps.iter().enumerate().take(to).skip(from).fold(String::new(), |mut text, s| {
            let (place, step) = s;
            let called = if step.is_call { " calls for" } else { "" };
            // Writing to a text does not fail.
            let _ = writeln!(text, "{place} {:?}{called} {:?}", step.at, step.entry);
            text
        })
    };
    fs::create_dir_all(evidence)?;
    fs::write(evidence.join("trace.txt"), shown(0, refusal.step + 1_000))?;
    Ok(shown(refusal.step.saturating_sub(SHOWN), refusal.step + 1))
}

/// The logs of the sidecars of one namespace, in directories of nodes.
#[derive(Debug)]
struct Logs {
    directories: Vec<PathBuf>,
    prefix: String,
    /// Pods of an earlier namespace of that name.
    old: BTreeSet<PathBuf>,
    /// Open files by their number: one that was renamed or removed is read to its end.
    files: BTreeMap<u64, Tail>,
    found: Found,
}

/// A file, as far as it was read.
#[derive(Debug)]
struct Tail {
    file: File,
    /// The begin of a line.
    rest: Vec<u8>,
    /// The begin of a record that is longer than the runtime's lines.
    partial: String,
}

impl Logs {
    fn new(directories: Vec<PathBuf>, namespace: &str) -> Result<Self> {
        let (files, found) = (BTreeMap::new(), Found::default());
        // Neither has an underscore: not a namespace, and not a pod.
        let prefix = format!("{namespace}_");
        let mut logs = Self { directories, prefix, old: BTreeSet::new(), files, found };
        logs.old = logs.pods()?.into_iter().collect();
        Ok(logs)
    }

    /// The directories of pods.
    fn pods(&self) -> Result<Vec<PathBuf>> {
        let mut pods = Vec::new();
        for directory in &self.directories {
            let is_ours = |path: &PathBuf| {
                let name = path.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| name.starts_with(&self.prefix)) && !self.old.contains(path)
            };
            pods.extend(entries(directory)?.into_iter().filter(is_ours));
        }
        Ok(pods)
    }

    /// Opens what is new, and reads on.
    fn look(&mut self) -> Result<()> {
        for pod in self.pods()? {
            for path in entries(&pod.join(SIDECAR))? {
                if path.extension().is_some_and(|extension| extension == "log") {
                    self.open(&path)?;
                }
            }
        }
        for tail in self.files.values_mut() {
            tail.read(&mut self.found)?;
        }
        Ok(())
    }

    fn open(&mut self, path: &Path) -> Result<()> {
        // It may have been removed just now.
        let Some(file) = there(File::open(path))? else { return Ok(()) };
        let (rest, partial) = (Vec::new(), String::new());
        self.files.entry(file.metadata()?.ino()).or_insert(Tail { file, rest, partial });
        Ok(())
    }
}

impl Tail {
    fn read(&mut self, found: &mut Found) -> Result<()> {
        self.file.read_to_end(&mut self.rest)?;
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        for line in String::from_utf8_lossy(&lines).lines() {
            // The time, the stream, whether the record ends with this line, and the record.
            let mut parts = line.splitn(4, ' ').skip(2);
            let (ends, record) = (parts.next() == Some("F"), parts.next().unwrap_or_default());
            self.partial.push_str(record);
            if ends {
                found.read(&std::mem::take(&mut self.partial));
            }
        }
        Ok(())
    }
}

impl Found {
    fn read(&mut self, record: &str) {
        if !record.contains("\"conclave::trace\"") {
            return;
        }
        let sent: Option<Value> = serde_json::from_str(record).ok();
        let line = sent.and_then(|sent| serde_json::from_str(sent["message"].as_str()?).ok());
        match line {
            Some(line) => self.lines.push(line),
            None => self.broken += 1,
        }
    }
}

/// What is in a directory; nothing if it is not there, or no more.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in there(fs::read_dir(directory))?.into_iter().flatten() {
        paths.extend(there(entry)?.map(|entry| entry.path()));
    }
    Ok(paths)
}

fn there<T>(found: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

#[cfg(test)]
mod tests;
