//! A cgroup for each node in every hierarchy of cgroup version 1.
//!
//! Beside those a machine may have the hierarchy of version 2, with no controllers: nothing is
//! made there on purpose, but what others make is counted and removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::process::Process;
use crate::wait;

/// Makes the cgroup `name` in every hierarchy.
pub(super) fn create(name: &str) -> Result<()> {
    let hierarchies = hierarchies(&["cgroup"])?;
    ensure!(
        !hierarchies.is_empty(),
        "this machine has no cgroup version 1, and the test cluster has been tried with no other"
    );
    for root in hierarchies {
        let group = root.join(name);
        fs::create_dir_all(&group)
            .with_context(|| format!("cannot make the cgroup {}", group.display()))?;
        // A new cpuset is empty, and nothing can run in it.
        for setting in ["cpuset.cpus", "cpuset.mems"] {
            if root.join(setting).exists() {
                fs::write(group.join(setting), fs::read(root.join(setting))?)?;
            }
        }
    }
    Ok(())
}

/// The processes in the cgroup `name` and below, in any hierarchy.
pub(super) fn members(name: &str) -> Result<Vec<Process>> {
    let mut members = Vec::new();
    for group in groups(name)? {
        let pids = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        members.extend(pids.lines().filter_map(|pid| Process::of(pid.parse().ok()?)));
    }
    members.sort_by_key(|process| process.pid());
    members.dedup();
    Ok(members)
}

/// Removes the cgroup `name` and those below, which have no members any more.
pub(super) fn remove(name: &str) -> Result<()> {
    wait::until("empty cgroups", Duration::from_secs(10), || {
        for group in groups(name)? {
            match fs::remove_dir(&group) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error)
                        .with_context(|| format!("cannot remove {}", group.display()));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    })
}

/// All cgroups `name` and below, each after those below it.
fn groups(name: &str) -> Result<Vec<PathBuf>> {
    let mut groups = Vec::new();
    for root in hierarchies(&["cgroup", "cgroup2"])? {
        let group = root.join(name);
        if group.exists() {
            below(&group, &mut groups)?;
        }
    }
    Ok(groups)
}

fn below(group: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            below(&entry.path(), found)?;
        }
    }
    found.push(group.to_path_buf());
    Ok(())
}

/// The roots of the hierarchies of these kinds.
fn hierarchies(kinds: &[&str]) -> Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let cgroup = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind) = (fields.next()?, fields.next()?);
        kinds.contains(&kind).then(|| PathBuf::from(path))
    };
    Ok(mounts.lines().filter_map(cgroup).collect())
}
