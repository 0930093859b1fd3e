//! A real Kubernetes of three nodes on one machine, and what tests do with it.
//!
//! etcd, the API server, the controllers and the scheduler run on the host, and a `kubectl proxy` by
//! which tests read what is there. A node is a network namespace behind a bridge, with a containerd, a
//! kubelet and a kube-proxy of its own, so that cutting it off is a partition and killing its
//! processes a node loss. Everything that runs is the real program; only the machine is shared.
//!
//! With `USE_EXISTING_CLUSTER=true` the tests use the cluster of `KUBECONFIG` instead, and those
//! that reach below the Kubernetes API say that they cannot.

mod boot;
mod cgroups;
mod containers;
mod control_plane;
mod daemon;
mod evidence;
mod faults;
mod mounts;
mod namespace;
mod network;
mod node;
mod pki;
mod policies;
mod process;
mod state;
mod sysctls;
mod teardown;
mod worker;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

pub use boot::up;
pub use evidence::{evidence_directory, keep_logs};
pub use faults::{Cut, PodNetwork};
pub use namespace::{Namespace, Pod};
pub use node::Node;
pub use policies::Enforcer;
pub use process::Process;
pub use rustix::process::Signal;
pub use state::State;
pub use teardown::down;

use crate::binaries::{self, Binary};
use crate::http::Http;
use crate::{command, image, skipped, wait};

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    owner: Owner,
    kubeconfig: PathBuf,
    images: Images,
}

/// The images on the cluster, by their full reference.
#[derive(Clone, Debug)]
pub struct Images {
    /// The product: sidecar and operator.
    pub product: String,
    /// Debian with curl, jq and Redis, for client applications.
    pub client: String,
}

/// Whose cluster it is.
#[derive(Debug)]
enum Owner {
    /// The harness booted it: its nodes can be reached into.
    Harness(State),
    /// Somebody else's: there is only its API.
    User,
}

impl Cluster {
    /// The cluster that the tests are to use: the user's if the environment says so, else the one
    /// that `cargo xtask cluster up` has booted.
    pub fn from_env() -> Result<Self> {
        if std::env::var_os("USE_EXISTING_CLUSTER").is_some_and(|value| value == "true") {
            return Self::of_user();
        }
        let state = State::of_this_user();
        if !state.admin_kubeconfig().exists() {
            bail!("there is no cluster; `cargo xtask cluster up` boots one");
        }
        Ok(Self::of(state))
    }

    fn of_user() -> Result<Self> {
        let variable = |name| {
            let value = std::env::var(name);
            value.with_context(|| format!("USE_EXISTING_CLUSTER=true also needs {name}"))
        };
        let client = std::env::var("CONCLAVE_CLIENT_IMAGE");
        Ok(Self {
            owner: Owner::User,
            kubeconfig: variable("KUBECONFIG")?.into(),
            images: Images {
                product: variable("CONCLAVE_IMAGE")?,
                client: client.unwrap_or_else(|_| image::CLIENT.to_owned()),
            },
        })
    }

    fn of(state: State) -> Self {
        Self {
            kubeconfig: state.admin_kubeconfig(),
            owner: Owner::Harness(state),
            images: Images { product: image::PRODUCT.to_owned(), client: image::CLIENT.to_owned() },
        }
    }

    /// Claims the cluster of this user for as long as the returned file is open, waiting for
    /// another that has it.
    pub fn claim(state: &State) -> Result<File> {
        if let Some(parent) = state.claim().parent() {
            std::fs::create_dir_all(parent)?;
        }
        let file = File::create(state.claim())?;
        if file.try_lock().is_err() {
            println!("waiting for another run to end with the cluster");
            file.lock()?;
        }
        Ok(file)
    }

    /// How clients reach it.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The images on it.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// Whether the harness booted it; if not, notes that the test `test` is skipped.
    ///
    /// Tests that stop a server, cut off a pod or kill a process begin with this question.
    pub fn is_ours_or_skip(&self, test: &str) -> bool {
        let is_ours = self.is_ours();
        if !is_ours {
            skipped::note(&format!(
                "{test} reaches below the Kubernetes API of somebody's cluster"
            ));
        }
        is_ours
    }

    /// Whether the harness made the cluster.
    pub fn is_ours(&self) -> bool {
        self.harness().is_ok()
    }

    /// Runs kubectl and returns what it prints.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        command::output(self.client(binaries::KUBECTL).args(arguments))
    }

    /// What the API server has at this path.
    pub fn read(&self, path: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.answer_to(path)?)?)
    }

    /// What the API server answers to a GET of this path.
    fn answer_to(&self, path: &str) -> Result<String> {
        let Owner::Harness(state) = &self.owner else {
            return self.kubectl(&["get", "--raw", path]);
        };
        let socket = state.api_socket();
        let mut proxy = Http::connect_to_socket(&socket)
            .with_context(|| format!("nothing answers at {}", socket.display()))?;
        let reply = proxy.call("GET", path)?;
        ensure!(reply.status == 200, "{path}: {} {}", reply.status, reply.body);
        Ok(reply.body)
    }

    /// Applies a manifest, strictly: an unknown field is an error.
    pub fn apply(&self, manifest: &str) -> Result<String> {
        self.kubectl_with_input(&["apply", "--validate=strict", "--filename=-"], manifest)
    }

    /// Runs kubectl with `input` as its standard input.
    pub fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        command::output_of_input(self.client(binaries::KUBECTL).args(arguments), input)
    }

    /// Runs helm and returns what it prints.
    pub fn helm(&self, arguments: &[&str]) -> Result<String> {
        self.helm_of(binaries::HELM_3, arguments)
    }

    /// The same, by one of the [`HELMS`](binaries::HELMS).
    pub fn helm_of(&self, version: Binary, arguments: &[&str]) -> Result<String> {
        command::output(self.client(version).args(arguments))
    }

    /// What a service account may do in a namespace, beside what it may do everywhere: resource,
    /// paths, names and verbs, as `kubectl auth can-i --list` prints them.
    pub fn rights(&self, [owner, account]: [&str; 2], namespace: &str) -> Result<BTreeSet<String>> {
        let account = format!("--as=system:serviceaccount:{owner}:{account}");
        let list = ["auth", "can-i", "--list", "--no-headers"];
        let listed = self.kubectl(&[&list[..], &["--namespace", namespace, &account]].concat())?;
        let parts = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(listed.lines().map(parts).collect())
    }

    /// Runs a command in the network of a node.
    pub fn node_exec(&self, node: Node, command: &[&str]) -> Result<String> {
        self.harness()?;
        let network = daemon::network_of(node);
        command::output(Command::new("nsenter").arg(network).arg("--").args(command))
    }

    /// Where the nodes keep what pods log.
    pub fn pod_logs(&self) -> Result<Vec<PathBuf>> {
        let state = self.harness()?;
        Ok(Node::ALL.into_iter().map(|node| state.pod_logs(node)).collect())
    }

    /// Puts the image of an archive on every node.
    pub fn import_image(&self, archive: &Path) -> Result<()> {
        let state = self.harness()?;
        boot::on_every_node(|node| boot::import(state, node, archive))
    }

    /// Stops the API server; what it has stored stays.
    pub fn stop_api_server(&self) -> Result<()> {
        let state = self.harness()?;
        control_plane::api_server(state).kill(state)
    }

    /// Starts the API server after [`Cluster::stop_api_server`], and waits until it is ready.
    pub fn start_api_server(&self) -> Result<()> {
        let state = self.harness()?;
        control_plane::api_server(state).start(state)?;
        self.await_api_server()?;
        // After several outages these would try again more and more rarely, and wait for minutes in the end; a
        // new process looks at once.
        for daemon in [control_plane::controller_manager(state), control_plane::scheduler(state)] {
            daemon.kill(state)?;
            daemon.start(state)?;
        }
        Ok(())
    }

    fn await_api_server(&self) -> Result<()> {
        wait::until("the API server", Duration::from_secs(60), || {
            self.answer_to("/readyz").map(drop)
        })
    }

    /// Whether its nodes are on this machine, and go by its clocks.
    pub fn is_on_this_machine(&self) -> bool {
        matches!(self.owner, Owner::Harness(_))
    }

    /// The state of a cluster that the harness booted.
    fn harness(&self) -> Result<&State> {
        match &self.owner {
            Owner::Harness(state) => Ok(state),
            Owner::User => bail!("this reaches below the Kubernetes API of somebody's cluster"),
        }
    }

    /// A client program of this cluster.
    fn client(&self, binary: Binary) -> Command {
        let mut command = binary.command();
        command.env("KUBECONFIG", &self.kubeconfig);
        daemon::collect_rarely(&mut command);
        if let Owner::Harness(state) = &self.owner {
            for (variable, directory) in [
                ("HELM_CACHE_HOME", "cache"),
                ("HELM_CONFIG_HOME", "config"),
                ("HELM_DATA_HOME", "data"),
            ] {
                command.env(variable, state.helm().join(directory));
            }
        }
        command
    }
}
