//! A Prometheus beside the cluster, which finds the pods and scrapes them as a user's does.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_testbed::cluster::{Cluster, Pod};
use conclave_testbed::http::Http;
use conclave_testbed::{binaries, command, wait};
use serde_json::Value;

use crate::product::{ADMIN, SYSTEM};

/// A Prometheus of one test; it ends with it.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    address: SocketAddr,
    directory: tempfile::TempDir,
}

impl Prometheus {
    /// Scrapes the sidecars of a namespace from now on.
    pub fn start(cluster: &Cluster, namespace: &str) -> Result<Self> {
        Self::with_rules(cluster, namespace, "groups: []")
    }

    /// Scrapes the sidecars of a namespace and the operator from now on, and goes by these rules.
    pub fn with_rules(cluster: &Cluster, namespace: &str, rules: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let kubeconfig = cluster.kubeconfig().display().to_string();
        let scrape = SCRAPE.replace("OPERATOR", SYSTEM).replace("NAMESPACE", namespace);
        let file = directory.path().join("prometheus.yaml");
        std::fs::write(&file, scrape.replace("KUBECONFIG", &kubeconfig))?;
        std::fs::write(directory.path().join("rules.yaml"), rules)?;
        // Any that nobody has now.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let log = std::fs::File::create(directory.path().join("log"))?;
        let child = Command::new(binaries::PROMETHEUS_SERVER.path())
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("start Prometheus")?;
        Ok(Self { child, address, directory })
    }

    /// Waits until a query has this one answer.
    pub fn await_value(&self, query: &str, expected: &str) -> Result<()> {
        self.await_result(query, |result| {
            let is_so = matches!(result, [only] if only["value"][1] == expected);
            ensure!(is_so, "{query} is not {expected}: {result:?}");
            Ok(())
        })
    }

    /// Waits until a query has any answer.
    pub fn await_some(&self, query: &str) -> Result<()> {
        self.await_result(query, |result| {
            ensure!(!result.is_empty(), "{query} has no answer");
            Ok(())
        })
    }

    /// Waits until an alert of this name, a regular expression, fires with these labels, such as `group="orders"`.
    pub fn await_alert(&self, name: &str, labels: &str) -> Result<()> {
        self.await_some(&firing(name, labels))
    }

    /// Waits until none does.
    pub fn await_no_alert(&self, name: &str, labels: &str) -> Result<()> {
        let query = firing(name, labels);
        self.await_result(&query, |result| {
            ensure!(result.is_empty(), "{query}: {result:?}");
            Ok(())
        })
    }

    fn await_result(&self, query: &str, is_so: impl Fn(&[Value]) -> Result<()>) -> Result<()> {
        let awaited = wait::until(query, ALL_ROUND, || {
            let url = format!("http://{}/api/v1/query", self.address);
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--fail-with-body", "--max-time", "5", "--get"]);
            curl.arg("--data-urlencode").arg(format!("query={query}")).arg(url);
            let answer: Value = serde_json::from_str(&command::output(&mut curl)?)?;
            is_so(answer["data"]["result"].as_array().context("no result")?)
        });
        awaited.with_context(|| {
            std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
        })
    }
}

fn firing(name: &str, labels: &str) -> String {
    format!(r#"ALERTS{{alertname=~"{name}", alertstate="firing", {labels}}}"#)
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // One that has ended already is no trouble.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a metric says with this label, in the sum of these pods, as they state it.
pub fn sum_over(pods: &[Pod], metric: &str, label: &str) -> Result<f64> {
    let mut sum = 0.0;
    for pod in pods {
        let metrics = Http::connect_to((pod.address, ADMIN).into())?.call("GET", "/metrics")?.body;
        let is_meant = |line: &&str| {
            let labels = line.strip_prefix(metric).and_then(|rest| rest.strip_prefix('{'));
            labels.is_some_and(|labels| labels.contains(label))
        };
        for line in metrics.lines().filter(is_meant) {
            let (_, number) = line.rsplit_once(' ').context("no number")?;
            sum += number.parse::<f64>()?;
        }
    }
    Ok(sum)
}

/// The longest way to a metric: the kubelet looks at a pod every 60 to 90 s and then replaces the files of its Secrets, and
/// the operator reads those every 10 s.
const ALL_ROUND: Duration = Duration::from_secs(150);

const SCRAPE: &str = "
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
- job_name: conclave
  kubernetes_sd_configs:
  - role: pod
    kubeconfig_file: KUBECONFIG
    namespaces: {names: [NAMESPACE]}
  relabel_configs:
  - source_labels: [__meta_kubernetes_pod_container_port_name]
    regex: conclave-admin
    action: keep
  - source_labels: [__meta_kubernetes_namespace]
    target_label: namespace
  - source_labels: [__meta_kubernetes_pod_name]
    target_label: pod
- job_name: operator
  kubernetes_sd_configs:
  - role: pod
    kubeconfig_file: KUBECONFIG
    namespaces: {names: [OPERATOR]}
  relabel_configs:
  - source_labels: [__meta_kubernetes_pod_container_port_name]
    regex: metrics
    action: keep
  - source_labels: [__meta_kubernetes_namespace]
    target_label: namespace
  - source_labels: [__meta_kubernetes_pod_name]
    target_label: pod
";
