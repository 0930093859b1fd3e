//! The directory that holds everything a running cluster has on disk.

use std::path::{Path, PathBuf};

use super::node::Node;
use crate::cache;

/// The state directory of a cluster, and where things are in it.
#[derive(Clone, Debug)]
pub struct State {
    directory: PathBuf,
}

impl State {
    /// The cluster of this user: in `$CONCLAVE_STATE`, or `cluster` in the cache.
    pub fn of_this_user() -> Self {
        let chosen = std::env::var_os("CONCLAVE_STATE").map(PathBuf::from);
        Self { directory: chosen.unwrap_or_else(|| cache::root().join("cluster")) }
    }

    /// All of it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A process that starts, stops or tests the cluster holds a lock on this file, which outlives it.
    pub fn claim(&self) -> PathBuf {
        self.directory.with_extension("lock")
    }

    /// Which process is which daemon.
    pub fn pids(&self) -> PathBuf {
        self.directory.join("pids")
    }

    /// What the daemons write.
    pub fn logs(&self) -> PathBuf {
        self.directory.join("logs")
    }

    /// Keys and certificates.
    pub fn pki(&self) -> PathBuf {
        self.directory.join("pki")
    }

    /// How the client called `who` reaches the API server.
    pub fn kubeconfig(&self, who: &str) -> PathBuf {
        self.directory.join(format!("{who}.kubeconfig"))
    }

    /// The kubeconfig for people and tests, with every right.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.kubeconfig("admin")
    }

    /// Where the API server is asked without credentials.
    pub fn api_socket(&self) -> PathBuf {
        self.directory.join("api.sock")
    }

    /// The kernel's settings from before the cluster, one `key=value` a line.
    pub fn sysctls(&self) -> PathBuf {
        self.directory.join("sysctls")
    }

    /// What the API server keeps.
    pub fn etcd(&self) -> PathBuf {
        self.directory.join("etcd")
    }

    /// What helm keeps: it shall not use the user's own settings.
    pub fn helm(&self) -> PathBuf {
        self.directory.join("helm")
    }

    /// Everything of one node.
    pub fn node(&self, node: Node) -> PathBuf {
        self.directory.join(node.name())
    }

    /// What a node's kubelet keeps.
    pub fn kubelet(&self, node: Node) -> PathBuf {
        self.node(node).join("kubelet")
    }

    /// What a node's pods log: a directory for each.
    pub fn pod_logs(&self, node: Node) -> PathBuf {
        self.node(node).join("pod-logs")
    }

    /// The socket of a node's containerd.
    pub fn containerd_socket(&self, node: Node) -> PathBuf {
        self.node(node).join("containerd.sock")
    }

    /// What a node's containerd knows of running containers: one directory each.
    pub fn running_containers(&self, node: Node) -> PathBuf {
        self.node(node).join("containerd/state/io.containerd.runtime.v2.task/k8s.io")
    }
}
