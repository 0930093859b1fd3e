//! The programs of a node, and their settings.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;

use super::daemon::Daemon;
use super::node::{Node, PODS};
use super::pki::{self, KUBE_PROXY};
use super::state::State;
use crate::{binaries, image};

/// Runs containers.
pub(super) fn containerd(state: &State, node: Node) -> Daemon {
    let config = state.node(node).join("containerd.toml");
    Daemon {
        name: format!("containerd-{}", node.name()),
        program: "/usr/bin/containerd".into(),
        arguments: vec![format!("--config={}", config.display())],
        node: Some(node),
    }
}

/// Runs pods.
pub(super) fn kubelet(state: &State, node: Node) -> Daemon {
    let directory = state.node(node);
    Daemon {
        name: format!("kubelet-{}", node.name()),
        program: binaries::KUBELET.path(),
        arguments: vec![
            format!("--config={}", directory.join("kubelet.json").display()),
            format!("--kubeconfig={}", state.kubeconfig(&node.name()).display()),
            format!("--root-dir={}", state.kubelet(node).display()),
            format!("--cert-dir={}", directory.join("kubelet/pki").display()),
            format!("--hostname-override={}", node.name()),
            format!("--node-ip={}", node.address()),
        ],
        node: Some(node),
    }
}

/// Makes Services work.
pub(super) fn kube_proxy(state: &State, node: Node) -> Daemon {
    Daemon {
        name: format!("kube-proxy-{}", node.name()),
        program: binaries::KUBE_PROXY.path(),
        arguments: vec![
            format!("--kubeconfig={}", state.kubeconfig(KUBE_PROXY.file).display()),
            format!("--hostname-override={}", node.name()),
            format!("--cluster-cidr={PODS}"),
            "--proxy-mode=nftables".to_owned(),
            // These are the machine's, not the node's.
            "--conntrack-max-per-core=0".to_owned(),
            "--conntrack-tcp-timeout-established=0".to_owned(),
            "--conntrack-tcp-timeout-close-wait=0".to_owned(),
            // Lowering it takes a right that a virtual machine's root may lack.
            "--oom-score-adj=0".to_owned(),
        ],
        node: Some(node),
    }
}

/// Writes the settings of a node's programs.
pub(super) fn configure(state: &State, node: Node) -> Result<()> {
    let directory = state.node(node);
    fs::create_dir_all(directory.join("cni"))?;
    fs::write(directory.join("containerd.toml"), containerd_config(state, node))?;
    fs::write(directory.join("kubelet.json"), kubelet_config(state, node))?;
    make_plugins(state, node)?;
    connect_pods(state, node, &Plugins::Bridge)
}

/// How the pods of a node are connected from now on.
pub(super) enum Plugins {
    /// To a bridge, and nothing stands in between.
    Bridge,
    /// Each by a route of its own, and this plugin is notified of it.
    Chained(&'static str),
}

/// Writes down how pods are connected. Into the same file: containerd does not look at one that is
/// made or moved there.
pub(super) fn connect_pods(state: &State, node: Node, plugins: &Plugins) -> Result<()> {
    let file = state.node(node).join("cni/10-pods.conflist");
    Ok(fs::write(file, cni_config(state, node, plugins))?)
}

/// Where a node's plugins are: those of Debian, and what belongs to this node alone.
pub(super) fn plugins(state: &State, node: Node) -> PathBuf {
    state.node(node).join("plugins")
}

fn make_plugins(state: &State, node: Node) -> Result<()> {
    let plugins = plugins(state, node);
    fs::create_dir_all(&plugins)?;
    for name in ["bridge", "host-local", "loopback", "ptp"] {
        symlink(Path::new("/usr/lib/cni").join(name), plugins.join(name))?;
    }
    Ok(())
}

fn containerd_config(state: &State, node: Node) -> String {
    let directory = state.node(node);
    let directory = directory.display();
    let socket = state.containerd_socket(node);
    // `restrict_oom_score_adj`: without CAP_SYS_RESOURCE no sandbox would start otherwise.
    // `netns_mounts_under_state_dir` and `Root` keep everything below our own directory.
    format!(
        r#"version = 2
root = "{directory}/containerd/root"
state = "{directory}/containerd/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
address = "{socket}"

[plugins."io.containerd.internal.v1.opt"]
path = "{directory}/containerd/opt"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{directory}/cni"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
Root = "{directory}/containerd/runc"
SystemdCgroup = false
"#,
        socket = socket.display(),
        pause = image::PAUSE,
        plugins = plugins(state, node).display(),
    )
}

fn cni_config(state: &State, node: Node, plugins: &Plugins) -> String {
    let addresses = json!({
        "type": "host-local",
        "dataDir": state.node(node).join("addresses"),
        "ranges": [[{ "subnet": node.pod_subnet() }]],
        "routes": [{ "dst": "0.0.0.0/0" }],
    });
    let plugins = match plugins {
        Plugins::Bridge => json!([{
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": true,
            // A pod may reach itself through a Service.
            "hairpinMode": true,
            "ipam": addresses,
        }]),
        Plugins::Chained(name) => json!([
            { "type": "ptp", "ipam": addresses },
            { "type": name, "chaining-mode": "generic-veth" },
        ]),
    };
    // One name for both, or an address would be given out twice.
    json!({ "cniVersion": "0.4.0", "name": "pods", "plugins": plugins }).to_string()
}

fn kubelet_config(state: &State, node: Node) -> String {
    let directory = state.node(node);
    let name = node.name();
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": pki::authority(state) },
        },
        "authorization": { "mode": "Webhook" },
        "tlsCertFile": pki::certificate(state, &name),
        "tlsPrivateKeyFile": pki::key(state, &name),
        "containerRuntimeEndpoint": format!("unix://{}", state.containerd_socket(node).display()),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", node.namespace()),
        "failCgroupV1": false,
        "failSwapOn": false,
        "resolvConf": "",
        "podLogsDir": state.pod_logs(node),
        // Pods see a change of a Secret that they mount after about so long.
        "syncFrequency": "10s",
        // A trace of a long test is to be one file.
        "containerLogMaxSize": "1Gi",
        "volumePluginDir": directory.join("volume-plugins"),
        "makeIPTablesUtilChains": false,
        "oomScoreAdj": 0,
        // The machine's disk is not the node's: only a full one is worth an eviction.
        "evictionHard": {
            "memory.available": "50Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
            "imagefs.inodesFree": "1%",
        },
        // An image that was imported by hand cannot be pulled again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    });
    config.to_string()
}
