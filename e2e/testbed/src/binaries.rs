//! The Go programs of the test cluster: built from source once, then kept.
//!
//! Each directory of `e2e/go` is a Go module of its own, because the versions that one program
//! needs would not suit another. Those of the same Kubernetes share the versions of what both need, so
//! that Go compiles it once. A build is kept under the hash of everything that it depends on,
//! so that changing a version builds anew and going back finds the old one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use crate::{cache, command};

/// One of the programs that are built here.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Binary {
    name: &'static str,
    module: &'static Module,
    package: &'static str,
}

/// A directory of `e2e/go` and how its programs are built.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Module {
    directory: &'static str,
    linker_flags: &'static str,
    tags: &'static str,
}

impl Binary {
    /// The file, which is there after [`build`].
    pub fn path(self) -> PathBuf {
        self.module.output().join(self.name)
    }

    /// The program's name, as one would type it.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The program, to be run. With a cluster of the user's nothing is built, and it is theirs.
    pub fn command(self) -> Command {
        let built = self.path();
        Command::new(if built.exists() { built } else { self.name.into() })
    }

    fn build(self, to: &Path) -> Result<()> {
        println!("building {} from source; this is done once", self.name);
        command::run(
            Command::new("go")
                .current_dir(self.module.source())
                .env("CGO_ENABLED", "0")
                .env("GOFLAGS", "")
                .args(["build", "-trimpath", "-buildvcs=false"])
                .args(["-ldflags", self.module.linker_flags, "-tags", self.module.tags])
                .arg("-o")
                .arg(to)
                .arg(self.package),
        )
        .with_context(|| format!("cannot build {}; it needs Go 1.24 or later", self.name))
    }
}

impl Module {
    fn source(&self) -> PathBuf {
        cache::workspace().join("e2e/go").join(self.directory)
    }

    fn output(&self) -> PathBuf {
        let read = |file| fs::read(self.source().join(file)).unwrap_or_default();
        let key = cache::key(&[
            &read("go.mod"),
            &read("go.sum"),
            // Programs of our own have a source here.
            &read("main.go"),
            self.linker_flags.as_bytes(),
            self.tags.as_bytes(),
        ]);
        cache::root().join("bin").join(format!("{}-{key}", self.directory))
    }
}

/// Builds whatever is not there yet.
pub fn build() -> Result<()> {
    build_those(ALL)
}

/// Builds what enforces network policies, if it is not there yet. That takes minutes, and few runs
/// need it.
pub fn build_enforcer() -> Result<()> {
    build_those(&[CILIUM_AGENT, CILIUM_OPERATOR, CILIUM_CNI])?;
    cache::make_once(&cilium_datapath(), copy_datapath).map(drop)
}

/// Builds what checks histories, if it is not there yet. It is wanted with a cluster of the user's too.
pub fn build_checker() -> Result<()> {
    build_those(&[PORCUPINE])
}

/// Builds what tests rules, if it is not there yet. It is wanted with a cluster of the user's too.
pub fn build_promtool() -> Result<()> {
    build_those(&[PROMTOOL])
}

/// Builds what locks are measured beside.
pub fn build_rivals() -> Result<()> {
    build_those(&[ETCD, RIVALS])
}

fn build_those(binaries: &[Binary]) -> Result<()> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for binary in binaries {
        cache::make_once(&binary.path(), |partial| binary.build(partial))?;
    }
    Ok(())
}

/// What the agent of Cilium compiles on each node, in C. It is there after [`build_enforcer`].
pub fn cilium_datapath() -> PathBuf {
    CILIUM.output().join("datapath")
}

/// The sources come with those of the agent, so that they are of the same version.
fn copy_datapath(to: &Path) -> Result<()> {
    let mut list = Command::new("go");
    list.current_dir(CILIUM.source()).env("GOFLAGS", "");
    list.args(["list", "-m", "-f", "{{.Dir}}", "github.com/cilium/cilium"]);
    let module = command::output(&mut list)?;
    fs::create_dir_all(to)?;
    let source = Path::new(module.trim()).join("bpf");
    let copy = ["--recursive", "--no-preserve=mode"];
    command::run(Command::new("cp").args(copy).arg(source).arg(to))
}

static KUBERNETES: Module = Module {
    directory: "kubernetes",
    // Without these the programs say that they are v0.0.0, and clients that look at the version
    // of the server, such as helm, refuse it.
    linker_flags: "-s -w \
        -X k8s.io/component-base/version.gitVersion=v1.34.4 \
        -X k8s.io/component-base/version.gitMajor=1 \
        -X k8s.io/component-base/version.gitMinor=34",
    tags: "",
};

static TOOLS: Module = Module { directory: "tools", linker_flags: "-s -w", tags: "" };

static HELM_4_MODULE: Module = Module { directory: "helm4", linker_flags: "-s -w", tags: "" };

static CILIUM: Module = Module {
    directory: "cilium",
    linker_flags: "-s -w",
    // Without the addresses that clouds give out.
    tags: "osusergo,ipam_provider_operator",
};

static PROMETHEUS: Module = Module {
    directory: "prometheus",
    linker_flags: "-s -w",
    tags: "remove_all_sd,enable_kubernetes_sd",
};

static PROMLINT_MODULE: Module = Module { directory: "promlint", linker_flags: "-s -w", tags: "" };

static PORCUPINE_MODULE: Module =
    Module { directory: "porcupine", linker_flags: "-s -w", tags: "" };

static RIVALS_MODULE: Module = Module { directory: "rivals", linker_flags: "-s -w", tags: "" };

static LEADER_ELECTION_MODULE: Module =
    Module { directory: "leaderelection", linker_flags: "-s -w", tags: "" };

const fn kubernetes(name: &'static str, package: &'static str) -> Binary {
    Binary { name, module: &KUBERNETES, package }
}

const fn tool(name: &'static str, package: &'static str) -> Binary {
    Binary { name, module: &TOOLS, package }
}

const fn cilium(name: &'static str, package: &'static str) -> Binary {
    Binary { name, module: &CILIUM, package }
}

/// The Kubernetes API.
pub const API_SERVER: Binary = kubernetes("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver");
/// Deployments, Endpoints, garbage collection and the like.
pub const CONTROLLER_MANAGER: Binary =
    kubernetes("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager");
/// Places pods on nodes.
pub const SCHEDULER: Binary = kubernetes("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler");
/// Runs the pods of one node.
pub const KUBELET: Binary = kubernetes("kubelet", "k8s.io/kubernetes/cmd/kubelet");
/// Makes Services work on one node.
pub const KUBE_PROXY: Binary = kubernetes("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy");
/// The command line of Kubernetes.
pub const KUBECTL: Binary = kubernetes("kubectl", "k8s.io/kubernetes/cmd/kubectl");
/// The store below the API server.
pub const ETCD: Binary = tool("etcd", "go.etcd.io/etcd/server/v3");
/// Restores a backup of the store.
pub const ETCDUTL: Binary = tool("etcdutl", "go.etcd.io/etcd/etcdutl/v3");
/// Installs charts.
pub const HELM_3: Binary = tool("helm", "helm.sh/helm/v3/cmd/helm");
/// The same by its next major version, which applies on the server's side.
pub const HELM_4: Binary =
    Binary { name: "helm", module: &HELM_4_MODULE, package: "helm.sh/helm/v4/cmd/helm" };
/// Every helm that the chart is for.
pub const HELMS: [Binary; 2] = [HELM_3, HELM_4];
/// Enforces network policies on one node.
pub const CILIUM_AGENT: Binary = cilium("cilium-agent", "github.com/cilium/cilium/daemon");
/// What its agents need once in a cluster.
pub const CILIUM_OPERATOR: Binary = cilium("cilium-operator", "github.com/cilium/cilium/operator");
/// Tells the agent of a new pod.
pub const CILIUM_CNI: Binary = cilium("cilium-cni", "github.com/cilium/cilium/plugins/cilium-cni");
/// Scrapes the pods' metrics.
pub const PROMETHEUS_SERVER: Binary = Binary {
    name: "prometheus",
    module: &PROMETHEUS,
    package: "github.com/prometheus/prometheus/cmd/prometheus",
};

/// Tests rules of Prometheus without one.
pub const PROMTOOL: Binary = Binary {
    name: "promtool",
    module: &PROMETHEUS,
    package: "github.com/prometheus/prometheus/cmd/promtool",
};

/// The linter of Prometheus for metrics.
pub const PROMLINT: Binary = Binary { name: "promlint", module: &PROMLINT_MODULE, package: "." };
/// The checker that reads recorded histories besides our own.
pub const PORCUPINE: Binary = Binary { name: "porcupine", module: &PORCUPINE_MODULE, package: "." };
/// Takes locks from Conclave and from what people use instead.
pub const RIVALS: Binary = Binary { name: "rivals", module: &RIVALS_MODULE, package: "." };
/// client-go's leader election at its defaults: what Conclave is measured beside.
pub const LEADER_ELECTION: Binary =
    Binary { name: "leaderelection", module: &LEADER_ELECTION_MODULE, package: "." };

/// Every program that [`build`] builds; the largest first.
pub const ALL: &[Binary] = &[
    API_SERVER,
    CONTROLLER_MANAGER,
    SCHEDULER,
    KUBELET,
    KUBE_PROXY,
    KUBECTL,
    ETCD,
    ETCDUTL,
    HELM_3,
    HELM_4,
    PROMETHEUS_SERVER,
    PROMTOOL,
    PROMLINT,
    PORCUPINE,
    LEADER_ELECTION,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// What a module requires, by path, at which version. Kubernetes replaces what it states as `v0.0.0`.
    fn required(module: &Module) -> BTreeMap<String, String> {
        let file = module.source().join("go.mod");
        let text = fs::read_to_string(file).expect("every module has a go.mod");
        let requirement = |line: &str| {
            let mut parts = line.trim().trim_start_matches("require ").split(' ');
            let (path, version) = (parts.next()?, parts.next()?);
            let is_meant = version.starts_with('v') && version != "v0.0.0";
            is_meant.then(|| (path.to_owned(), version.to_owned()))
        };
        text.lines().filter_map(requirement).collect()
    }

    #[test]
    fn what_modules_of_the_same_kubernetes_share_is_compiled_once() {
        let of_1_34 = [&KUBERNETES, &TOOLS, &LEADER_ELECTION_MODULE, &RIVALS_MODULE];
        for modules in [&of_1_34[..], &[&HELM_4_MODULE, &PROMETHEUS]] {
            let mut versions = BTreeMap::<String, String>::new();
            for module in modules {
                let required = required(module);
                assert!(required.len() > 10, "{}: {required:?}", module.directory);
                for (path, version) in required {
                    let first = versions.entry(path.clone()).or_insert_with(|| version.clone());
                    assert_eq!(*first, version, "{path} of {}", module.directory);
                }
            }
        }
    }
}
