//! The harness itself: what the other cluster tests take for granted.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_testbed::cluster::{Cluster, Cut, Namespace, Node, Pod, Signal};
use conclave_testbed::wait;

#[test]
fn a_client_on_another_node_reaches_a_server_by_pod_and_by_service_address() -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.in_namespace("smoke-network", |namespace| {
        let pods = deploy(namespace)?;
        let nodes: BTreeSet<_> = pods.iter().map(|pod| &pod.node).collect();
        ensure!(nodes.len() == 3, "not spread over the nodes: {nodes:?}");

        let service = namespace.kubectl(&["get", "service/redis", "-o", SERVICE_ADDRESS])?;
        for from in &pods {
            for to in &pods {
                ping(namespace, from, &to.address.to_string())?;
            }
            // The proxies follow the endpoints at their own pace.
            wait::until("the Service", SOON, || ping(namespace, from, &service))?;
        }
        // curl speaks redis's protocol by telnet's, as far as one command goes.
        let url = format!("telnet://{}:6379", pods[0].address);
        let command = format!("printf 'PING\\r\\nQUIT\\r\\n' | curl --silent --max-time 5 {url}");
        let answer = namespace.exec(&pods[1].name, CLIENT, &["bash", "-c", &command])?;
        ensure!(answer.contains("+PONG"), "curl got {answer:?}");
        Ok(())
    })
}

#[test]
fn a_pod_that_is_cut_off_hears_nobody_until_it_is_healed() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a partition") {
        return Ok(());
    }
    cluster.in_namespace("smoke-partition", |namespace| {
        let pods = deploy(namespace)?;
        let [cut_off, other] = [&pods[0], &pods[1]];
        for cut in [Cut::Both, Cut::Incoming, Cut::Outgoing] {
            cluster.cut(cut_off, cut)?;
            let reached = ping(namespace, other, &cut_off.address.to_string());
            ensure!(reached.is_err(), "reached in spite of {cut:?}");
            // The kubelet is on its side of the partition.
            ping(namespace, cut_off, "127.0.0.1")?;

            cluster.heal(cut_off)?;
            ping(namespace, other, &cut_off.address.to_string())?;
        }
        cluster.cut_from(cut_off, Cut::Both, &[other.address])?;
        ensure!(ping(namespace, other, &cut_off.address.to_string()).is_err());
        ping(namespace, &pods[2], &cut_off.address.to_string())?;

        cluster.lose(cut_off, Cut::Both, 99)?;
        ensure!(ping(namespace, &pods[2], &cut_off.address.to_string()).is_err());
        Ok(())
    })
}

#[test]
fn nodes_have_networks_of_their_own_and_helm_reaches_the_cluster() -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.helm(&["list", "--all-namespaces"])?;
    if !cluster.is_ours_or_skip("a look at the nodes' networks") {
        return Ok(());
    }
    for node in Node::ALL {
        let addresses = cluster.node_exec(node, &["ip", "-brief", "-4", "address"])?;
        for other in Node::ALL {
            let has_it = addresses.contains(&format!("{}/", other.address()));
            ensure!(has_it == (node == other), "{node:?} has {addresses}");
        }
    }
    Ok(())
}

#[test]
fn a_killed_container_is_started_again_by_its_kubelet() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a crash of a container") {
        return Ok(());
    }
    cluster.in_namespace("smoke-crash", |namespace| {
        let before = deploy(namespace)?.swap_remove(0);
        cluster.signal_container(&before, CLIENT, Signal::KILL)?;
        wait::until("another container in the same pod", SOON, || {
            let pods = namespace.pods(SELECTOR)?;
            let now = pods.iter().find(|pod| pod.uid == before.uid).context("the pod is gone")?;
            ensure!(now.container_id(CLIENT)? != before.container_id(CLIENT)?, "it is the same");
            cluster.host_pid(now, CLIENT).map(drop)
        })
    })
}

/// Three Redis servers, one on each node, behind one Service; each pod is also the client.
pub(crate) fn deploy(namespace: &Namespace<'_>) -> Result<Vec<Pod>> {
    let image = &namespace.cluster().images().client;
    namespace.apply(&MANIFEST.replace("IMAGE", image))?;
    namespace.await_deployment("redis")?;
    let pods = namespace.pods(SELECTOR)?;
    ensure!(pods.len() == 3, "there are {} pods", pods.len());
    Ok(pods)
}

pub(crate) fn ping(namespace: &Namespace<'_>, from: &Pod, to: &str) -> Result<()> {
    let command = ["timeout", "3", "redis-cli", "-h", to, "ping"];
    let answer = namespace.exec(&from.name, CLIENT, &command)?;
    ensure!(answer.trim() == "PONG", "{} got {answer:?} from {to}", from.name);
    Ok(())
}

const SOON: Duration = Duration::from_secs(30);

pub(crate) const SELECTOR: &str = "app=redis";

const CLIENT: &str = "redis";

const SERVICE_ADDRESS: &str = "jsonpath={.spec.clusterIP}";

const MANIFEST: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: redis}
spec:
  replicas: 3
  selector: {matchLabels: {app: redis}}
  template:
    metadata: {labels: {app: redis}}
    spec:
      terminationGracePeriodSeconds: 1
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {app: redis}}
      containers:
      - name: redis
        image: IMAGE
        imagePullPolicy: Never
        command: [redis-server, --protected-mode, "no", --save, ""]
        readinessProbe: {tcpSocket: {port: 6379}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: redis}
spec:
  selector: {app: redis}
  ports: [{port: 6379}]
"#;
