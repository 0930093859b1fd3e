//! What enforces network policies, for as long as a test needs it: Cilium, an agent for each node.
//!
//! The plugins of the cluster know no policies. Cilium is chained to the one that connects each pod by
//! a route of its own, and puts its programs where the packets of a pod come by. It is not there for
//! the other tests, which would measure it too.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::boot::on_every_node;
use super::daemon::{Daemon, network_of};
use super::node::Node;
use super::state::State;
use super::worker::{self, Plugins};
use super::{Cluster, Owner, network};
use crate::{binaries, command, packages, wait};

/// Enforces the network policies of the cluster for as long as it lives, for pods that are made while
/// it does.
#[derive(Debug)]
pub struct Enforcer<'a> {
    state: &'a State,
}

impl Cluster {
    /// Starts what enforces policies, and waits until it does on every node. Pods that there are
    /// stay connected as they were. On somebody's cluster there is nothing to start: what enforces
    /// policies there, if anything does, is theirs.
    pub fn start_enforcer(&self) -> Result<Option<Enforcer<'_>>> {
        let Owner::Harness(state) = &self.owner else { return Ok(None) };
        packages::install_for_enforcer()?;
        binaries::build_enforcer()?;
        let enforcer = Enforcer { state };
        operator(state).start(state)?;
        on_every_node(|node| {
            prepare(state, node)?;
            agent(state, node).start(state)?;
            worker::connect_pods(state, node, &Plugins::Chained(PLUGIN))
        })?;
        on_every_node(await_agent)?;
        Ok(Some(enforcer))
    }
}

impl Enforcer<'_> {
    fn stop(&self) -> Result<()> {
        on_every_node(|node| {
            worker::connect_pods(self.state, node, &Plugins::Bridge)?;
            agent(self.state, node).kill(self.state)?;
            network::remove_programs(node)
        })?;
        operator(self.state).kill(self.state)?;
        // Each agent had a directory of its own there.
        let _in_use = fs::remove_dir(RUNTIME);
        Ok(())
    }
}

impl Drop for Enforcer<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("the enforcer of policies is not wholly gone: {error:#}");
        }
    }
}

fn directory(state: &State, node: Node) -> PathBuf {
    state.node(node).join("cilium")
}

/// Lays out what an agent and its plugin need.
fn prepare(state: &State, node: Node) -> Result<()> {
    let directory = directory(state, node);
    for part in ["run", "proc", "library"] {
        fs::create_dir_all(directory.join(part))?;
    }
    let datapath = binaries::cilium_datapath();
    let library = directory.join("library");
    command::run(Command::new("cp").arg("--recursive").arg(datapath.join("bpf")).arg(library))?;
    let plugin = worker::plugins(state, node).join(PLUGIN);
    let script = format!(
        "#!/bin/sh\nCILIUM_SOCK={} exec {}\n",
        directory.join("run/cilium.sock").display(),
        binaries::CILIUM_CNI.path().display()
    );
    fs::write(&plugin, script)?;
    fs::set_permissions(&plugin, Permissions::from_mode(0o755))?;
    Ok(())
}

/// Until its programs are loaded and it follows the API server.
fn await_agent(node: Node) -> Result<()> {
    wait::until("an agent of Cilium", Duration::from_secs(180), || {
        let mut curl = Command::new("nsenter");
        curl.arg(network_of(node)).args(["--", "curl", "--silent", "--show-error", "--fail"]);
        curl.args(["--max-time", "5", "--header", "brief: true", HEALTH]);
        command::output(&mut curl).map(drop)
    })
}

fn agent(state: &State, node: Node) -> Daemon {
    let directory = directory(state, node);
    let program = binaries::CILIUM_AGENT.path();
    let mut arguments =
        ["--mount", "--", "sh", "-ec", IN_ITS_MOUNTS, "sh"].map(str::to_owned).to_vec();
    arguments.extend([node.name(), shown(&directory), shown(&program)]);
    arguments.push(format!("--k8s-kubeconfig-path={}", shown(&state.admin_kubeconfig())));
    arguments.push(format!("--lib-dir={}", shown(&directory.join("library"))));
    arguments.push(format!("--cgroup-root={RUNTIME}/cgroup"));
    arguments.extend(AGENT.iter().map(ToString::to_string));
    let name = format!("cilium-agent-{}", node.name());
    Daemon { name, program: "/usr/bin/unshare".into(), arguments, node: Some(node) }
}

fn operator(state: &State) -> Daemon {
    let binary = binaries::CILIUM_OPERATOR;
    let mut arguments = vec![format!("--k8s-kubeconfig-path={}", shown(&state.admin_kubeconfig()))];
    arguments.extend(OPERATOR.iter().map(ToString::to_string));
    Daemon { name: binary.name().to_owned(), program: binary.path(), arguments, node: None }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The name of the plugin on each node.
const PLUGIN: &str = "cilium-cni";

/// Where an agent keeps its sockets, whatever else is set for it.
const RUNTIME: &str = "/run/cilium";

const HEALTH: &str = "http://127.0.0.1:9879/healthz";

/// Three agents on one machine each see as theirs what a machine has once: their sockets and their
/// pinned programs. They cannot change the machine's settings. A kernel without modules has no list of
/// them, and the agent insists on one, so it is shown an empty one among the files of /proc that it
/// and its compiler read.
const IN_ITS_MOUNTS: &str = "
export K8S_NODE_NAME=$1
own=$2
shift 2
mkdir -p /run/cilium
mount --bind $own/run /run/cilium
mount -t bpf bpf /sys/fs/bpf
mkdir -p /run/cilium/cgroup
mount -t cgroup2 none /run/cilium/cgroup
mount --rbind /proc $own/proc
mount --bind $own/proc/sys/kernel $own/proc/sys/kernel
mount -o remount,bind,ro $own/proc/sys/kernel
mount -t tmpfs none /proc
for entry in $$ self thread-self sys net mounts cpuinfo meminfo stat version uptime loadavg \
    filesystems cgroups devices kallsyms cmdline config.gz; do
    ln -s $own/proc/$entry /proc/$entry
done
: >/proc/modules
exec \"$@\"
";

/// Policies and nothing else: addresses, routes and Services stay with those who have them.
const AGENT: &[&str] = &[
    "--cni-chaining-mode=generic-veth",
    "--cni-exclusive=false",
    "--devices=eth0",
    "--enable-endpoint-health-checking=false",
    "--enable-health-checking=false",
    "--enable-host-legacy-routing=true",
    "--enable-hubble=false",
    "--enable-ipv4=true",
    "--enable-ipv4-masquerade=false",
    "--enable-ipv6=false",
    "--enable-l7-proxy=false",
    "--identity-allocation-mode=crd",
    "--install-iptables-rules=false",
    "--ipam=cluster-pool",
    "--ipv4-native-routing-cidr=198.18.0.0/15",
    "--kube-proxy-replacement=false",
    "--preallocate-bpf-maps=false",
    "--routing-mode=native",
    // Room for some pods, and not for those of a data centre.
    "--bpf-ct-global-any-max=16384",
    "--bpf-ct-global-tcp-max=16384",
    "--bpf-lb-map-max=4096",
    "--bpf-nat-global-max=16384",
    "--bpf-neigh-global-max=16384",
    "--bpf-policy-map-max=4096",
];

/// It makes Cilium's definitions. Its agents want a subnet each, which no pod is ever in.
const OPERATOR: &[&str] = &[
    "--cluster-pool-ipv4-cidr=198.19.128.0/17",
    "--cluster-pool-ipv4-mask-size=24",
    "--enable-ipv4=true",
    "--enable-ipv6=false",
    "--identity-allocation-mode=crd",
    "--ipam=cluster-pool",
    "--operator-api-serve-addr=127.0.0.1:19234",
    "--operator-prometheus-serve-addr=",
    "--remove-cilium-node-taints=false",
    "--set-cilium-is-up-condition=false",
    "--set-cilium-node-taints=false",
];
