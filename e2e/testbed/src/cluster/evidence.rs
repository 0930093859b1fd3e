//! What is kept of a failed test, to find out why it failed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Cluster;
use super::state::State;
use crate::cache;

/// Where evidence is kept: `$CONCLAVE_EVIDENCE`, or a directory in the build's.
pub fn evidence_directory() -> PathBuf {
    std::env::var_os("CONCLAVE_EVIDENCE")
        .map_or_else(|| cache::workspace().join("target/evidence"), PathBuf::from)
}

/// Copies the logs of the cluster's daemons.
pub fn keep_logs(state: &State, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)?;
    if !state.logs().exists() {
        return Ok(());
    }
    for log in fs::read_dir(state.logs())? {
        let log = log?;
        fs::copy(log.path(), directory.join(log.file_name()))?;
    }
    Ok(())
}

impl Cluster {
    /// Writes the objects, events and pod logs of a namespace to `directory`.
    pub fn keep_evidence(&self, namespace: &str, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory)?;
        let keep = |file: &str, arguments: &[&str]| {
            let found = self.kubectl(&[&["--namespace", namespace], arguments].concat());
            // What could not be got, and why, is evidence too.
            let text = found.unwrap_or_else(|error| format!("{error:#}\n"));
            fs::write(directory.join(file), text)
        };
        keep("events.txt", &["get", "events", "--sort-by=.lastTimestamp", "--output=wide"])?;
        keep("pods.txt", &["describe", "pods"])?;
        keep("nodes.txt", &["describe", "nodes"])?;
        keep("objects.yaml", &["get", OBJECTS, "--output=yaml"])?;
        keep("conclaves.yaml", &["get", "conclaves.conclave.dev", "--output=yaml"])?;
        for pod in
            self.kubectl(&["--namespace", namespace, "get", "pods", "--output=name"])?.lines()
        {
            let name = pod.trim_start_matches("pod/");
            let all = ["logs", name, "--all-containers", "--prefix", "--timestamps"];
            keep(&format!("{name}.log"), &all)?;
            keep(&format!("{name}.previous.log"), &[&all[..], &["--previous"]].concat())?;
        }
        Ok(())
    }
}

const OBJECTS: &str = "deployments,statefulsets,pods,services,endpointslices,leases,configmaps,\
    roles,rolebindings,serviceaccounts,networkpolicies";
