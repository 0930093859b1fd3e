//! Takes the cluster down, whatever state it is in, and leaves nothing of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::node::Node;
use super::process;
use super::state::State;
use super::{cgroups, daemon, mounts, network, sysctls};

/// Ends every process of the cluster and removes everything that it made.
///
/// It depends on nothing that a boot records last, so it also removes a cluster whose boot was
/// killed half-way; and what is not there it leaves alone, so it can be repeated.
pub fn down(state: &State) -> Result<()> {
    end_processes(state)?;
    remove_shim_sockets(state)?;
    mounts::remove_below(state.directory())?;
    network::remove()?;
    for node in Node::ALL {
        cgroups::remove(&node.namespace())?;
    }
    remove_network_notes(state)?;
    remove_log_links(state)?;
    remove_shared(state)?;
    sysctls::restore(state)?;
    remove_directory(state.directory())
}

fn end_processes(state: &State) -> Result<()> {
    // Daemons first, or they would start what is killed after them anew.
    process::end_all(|| daemon::find_all(state))?;
    for node in Node::ALL {
        process::end_all(|| cgroups::members(&node.namespace()))?;
    }
    Ok(())
}

/// Removes the sockets of the processes that watched over containers: containerd keeps them all in
/// one directory of its own choosing, and notes with each container which is its.
fn remove_shim_sockets(state: &State) -> Result<()> {
    for node in Node::ALL {
        for container in entries(&state.running_containers(node))? {
            let Ok(note) = fs::read_to_string(container.join("address")) else { continue };
            if let Some(socket) = note.trim().strip_prefix("unix://") {
                fs::remove_file(socket).or_else(gone_is_fine)?;
            }
        }
    }
    Ok(())
}

/// Removes what the container network library notes of each pod in its own directory: ours name a
/// network namespace below the state directory.
fn remove_network_notes(state: &State) -> Result<()> {
    let ours = state.directory().display().to_string();
    for note in entries(Path::new("/var/lib/cni/results"))? {
        if fs::read_to_string(&note).is_ok_and(|text| text.contains(&ours)) {
            fs::remove_file(note).or_else(gone_is_fine)?;
        }
    }
    Ok(())
}

/// Removes the links that kubelets make for collectors of logs.
fn remove_log_links(state: &State) -> Result<()> {
    for link in entries(Path::new("/var/log/containers"))? {
        if fs::read_link(&link).is_ok_and(|target| target.starts_with(state.directory())) {
            fs::remove_file(link).or_else(gone_is_fine)?;
        }
    }
    Ok(())
}

/// Removes what the programs make in places that no setting can change.
fn remove_shared(state: &State) -> Result<()> {
    if !state.directory().exists() {
        return Ok(());
    }
    fs::remove_file(Path::new(PLUGINS).join("kubelet.sock")).or_else(gone_is_fine)?;
    for directory in SHARED {
        // One that is not empty has somebody else's files in it.
        let _removed_if_empty = fs::remove_dir(directory);
    }
    Ok(())
}

fn remove_directory(directory: &Path) -> Result<()> {
    fs::remove_dir_all(directory)
        .or_else(gone_is_fine)
        .with_context(|| format!("cannot remove {}", directory.display()))
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?),
        Err(error) => gone_is_fine(error).map(|()| Vec::new()).map_err(Into::into),
    }
}

fn gone_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Where a kubelet listens for device plugins, whatever its root directory is.
const PLUGINS: &str = "/var/lib/kubelet/device-plugins";

/// Directories that kubelet, containerd and the container network library make; a directory
/// follows those in it.
const SHARED: &[&str] = &[
    PLUGINS,
    "/var/lib/kubelet",
    "/var/lib/cni/results",
    "/var/lib/cni",
    "/var/log/containers",
    "/run/containerd/s",
    "/run/containerd",
];
