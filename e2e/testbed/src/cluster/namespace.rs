//! A namespace of its own for each test, with evidence when the test fails.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Cluster, evidence};
use crate::wait;

/// A namespace of the cluster that exists for one test.
#[derive(Debug)]
pub struct Namespace<'a> {
    cluster: &'a Cluster,
    name: String,
}

/// A pod, as it was when somebody asked.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What distinguishes it from an earlier pod of the same name.
    pub uid: String,
    /// The node it runs on.
    pub node: String,
    /// Its address.
    pub address: IpAddr,
    /// The whole object.
    pub object: Value,
}

impl Cluster {
    /// Runs a test in a new namespace, and deletes that afterwards.
    ///
    /// When the test fails or panics, the logs, events and objects of the namespace are kept
    /// first, in a directory of that name.
    pub fn in_namespace(
        &self,
        name: &str,
        test: impl FnOnce(&Namespace<'_>) -> Result<()>,
    ) -> Result<()> {
        let namespace = Namespace { cluster: self, name: name.to_owned() };
        if self.read(&format!("/api/v1/namespaces/{name}")).is_ok() {
            namespace.delete("--wait=true")?;
        }
        namespace.create()?;
        let outcome = catch_unwind(AssertUnwindSafe(|| test(&namespace)));
        if !matches!(outcome, Ok(Ok(()))) {
            let directory = evidence::evidence_directory().join(name);
            eprintln!("the evidence is in {}", directory.display());
            if let Err(error) = self.keep_evidence(name, &directory) {
                eprintln!("not all of it could be kept: {error:#}");
            }
        }
        // It takes some seconds that the next test can use.
        let deleted = namespace.delete("--wait=false");
        outcome.unwrap_or_else(|panic| resume_unwind(panic)).and(deleted)
    }
}

impl Cluster {
    /// The running pods of a namespace that a label selector selects, in the order of their names.
    pub fn pods_in(&self, namespace: &str, selector: &str) -> Result<Vec<Pod>> {
        let query = format!("labelSelector={selector}&fieldSelector=status.phase=Running");
        let list = self.read(&format!("/api/v1/namespaces/{namespace}/pods?{query}"))?;
        let items = list["items"].as_array().context("a list has items")?;
        let stays = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
        items.iter().filter(stays).map(Pod::of).collect()
    }

    /// Waits until all replicas of a deployment are as it says now, and available.
    pub fn await_deployment(&self, namespace: &str, name: &str) -> Result<()> {
        wait::until(&format!("the deployment `{name}`"), Duration::from_secs(120), || {
            self.replicas(namespace, name).map(drop)
        })
    }

    /// How many replicas a deployment has. An error if they are not all as it says now, and available.
    pub fn replicas(&self, namespace: &str, name: &str) -> Result<u64> {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}");
        let deployment = self.read(&path)?;
        let status = &deployment["status"];
        let is_seen = status["observedGeneration"] == deployment["metadata"]["generation"];
        ensure!(is_seen, "nobody has seen its last change");
        let wanted = deployment["spec"]["replicas"].as_u64().context("it has a number")?;
        for which in ["replicas", "updatedReplicas", "availableReplicas"] {
            // Of replicas that are not there the status has no number.
            ensure!(status[which].as_u64().unwrap_or(0) == wanted, "{status}");
        }
        Ok(wanted)
    }
}

impl Namespace<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cluster it is in.
    pub fn cluster(&self) -> &Cluster {
        self.cluster
    }

    /// Runs kubectl in this namespace.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.cluster.kubectl(&[&["--namespace", &self.name], arguments].concat())
    }

    /// Applies a manifest in this namespace.
    pub fn apply(&self, manifest: &str) -> Result<String> {
        self.cluster.kubectl_with_input(
            &["--namespace", &self.name, "apply", "--validate=strict", "--filename=-"],
            manifest,
        )
    }

    /// Runs a command in a container of a pod, or of one pod of `deployment/NAME`.
    pub fn exec(&self, pod: &str, container: &str, command: &[&str]) -> Result<String> {
        self.kubectl(&[&["exec", pod, "--container", container, "--"], command].concat())
    }

    /// What a container has logged.
    pub fn logs(&self, pod: &str, container: &str) -> Result<String> {
        self.kubectl(&["logs", pod, "--container", container])
    }

    /// Waits until all replicas of a deployment are as it says now, and available.
    pub fn await_deployment(&self, name: &str) -> Result<()> {
        self.cluster.await_deployment(&self.name, name)
    }

    /// The running pods that a label selector selects, in the order of their names.
    pub fn pods(&self, selector: &str) -> Result<Vec<Pod>> {
        self.cluster.pods_in(&self.name, selector)
    }

    fn create(&self) -> Result<()> {
        self.cluster.kubectl(&["create", "namespace", &self.name])?;
        // A pod that is made before its service account is refused. After an outage of the API server
        // the controllers take their time to come back.
        wait::until("the default service account", Duration::from_secs(120), || {
            let path = format!("/api/v1/namespaces/{}/serviceaccounts/default", self.name);
            self.cluster.read(&path).map(drop)
        })
    }

    fn delete(&self, wait: &str) -> Result<()> {
        let delete = ["delete", "namespace", &self.name, "--ignore-not-found", wait];
        self.cluster.kubectl(&[&delete[..], &["--timeout=120s"]].concat()).map(drop)
    }
}

impl Pod {
    fn of(object: &Value) -> Result<Self> {
        let text = |pointer: &str| {
            let value = object.pointer(pointer).and_then(Value::as_str);
            value.map(str::to_owned).with_context(|| format!("the pod has no {pointer}"))
        };
        Ok(Self {
            namespace: text("/metadata/namespace")?,
            name: text("/metadata/name")?,
            uid: text("/metadata/uid")?,
            node: text("/spec/nodeName")?,
            address: text("/status/podIP")?.parse()?,
            object: object.clone(),
        })
    }

    /// The id of a running container, native sidecars included.
    pub fn container_id(&self, container: &str) -> Result<String> {
        let lists = ["containerStatuses", "initContainerStatuses"];
        let statuses = lists.iter().filter_map(|list| self.object["status"][list].as_array());
        let status = statuses.flatten().find(|status| status["name"] == container);
        let id = status.and_then(|status| status["containerID"].as_str());
        let id = id.with_context(|| format!("{} has no container `{container}`", self.name))?;
        let id = id.strip_prefix("containerd://").unwrap_or(id);
        ensure!(!id.is_empty(), "the container `{container}` does not run");
        Ok(id.to_owned())
    }
}
