//! Brings the cluster up.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use super::node::Node;
use super::state::State;
use super::{
    Cluster, cgroups, control_plane, daemon, evidence, network, pki, sysctls, teardown, worker,
};
use crate::{command, wait};

/// Boots a cluster with these images on every node, after removing what an earlier one left.
///
/// If it cannot, it leaves nothing of it but the logs, in `kept_logs`.
pub fn up(state: &State, images: &[PathBuf], kept_logs: &Path) -> Result<Cluster> {
    teardown::down(state)?;
    match boot(state, images) {
        Ok(cluster) => Ok(cluster),
        Err(error) => {
            let kept = evidence::keep_logs(state, kept_logs);
            teardown::down(state)?;
            kept?;
            Err(error.context(format!("no cluster; its logs are in {}", kept_logs.display())))
        }
    }
}

fn boot(state: &State, images: &[PathBuf]) -> Result<Cluster> {
    fs::create_dir_all(state.directory())?;
    sysctls::save(state)?;
    pki::create(state)?;
    network::create()?;
    control_plane::etcd(state).start(state)?;
    control_plane::api_server(state).start(state)?;

    on_every_node(|node| start_containerd(state, node, images))?;
    control_plane::api_proxy(state).start(state)?;
    let cluster = Cluster::of(state.clone());
    cluster.await_api_server()?;
    control_plane::controller_manager(state).start(state)?;
    control_plane::scheduler(state).start(state)?;
    on_every_node(|node| start_kubelet(state, node))?;
    await_nodes(&cluster)?;
    Ok(cluster)
}

fn start_containerd(state: &State, node: Node, images: &[PathBuf]) -> Result<()> {
    worker::configure(state, node)?;
    worker::containerd(state, node).start(state)?;
    wait::until("containerd", Duration::from_secs(30), || {
        command::output(ctr(state, node).arg("version")).map(drop)
    })?;
    for image in images {
        import(state, node, image)?;
    }
    Ok(())
}

fn start_kubelet(state: &State, node: Node) -> Result<()> {
    cgroups::create(&node.namespace())?;
    worker::kubelet(state, node).start(state)?;
    worker::kube_proxy(state, node).start(state)
}

fn await_nodes(cluster: &Cluster) -> Result<()> {
    wait::until("three nodes", Duration::from_secs(60), || {
        let nodes = cluster.kubectl(&["get", "nodes", "--output=name"])?;
        ensure!(nodes.lines().count() == Node::ALL.len(), "there are only: {nodes}");
        Ok(())
    })?;
    cluster.kubectl(&["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s"])?;
    Ok(())
}

/// Puts the image of an archive into a node's containerd.
pub(super) fn import(state: &State, node: Node, archive: &Path) -> Result<()> {
    command::output(ctr(state, node).args(["images", "import"]).arg(archive))
        .with_context(|| format!("{} cannot import an image", node.name()))?;
    Ok(())
}

/// The command line of a node's containerd, in the namespace that Kubernetes uses.
pub(super) fn ctr(state: &State, node: Node) -> Command {
    let mut ctr = Command::new("ctr");
    daemon::mark(&mut ctr, state);
    ctr.arg("--address").arg(state.containerd_socket(node)).args(["--namespace", "k8s.io"]);
    ctr
}

/// Does the same on all nodes at once; the first error is reported.
pub(super) fn on_every_node(action: impl Fn(Node) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let threads = Node::ALL.map(|node| {
            scope.spawn({
                let action = &action;
                move || action(node)
            })
        });
        let results = threads.map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("panic"))));
        results.into_iter().collect()
    })
}
