//! The NetworkPolicy of a group, where the network of the cluster enforces such policies.
//!
//! That of the harness does not (the plugin `bridge` knows none), and then the test says so and passes
//! over. Whether a network enforces policies is seen by one that has nothing to do with Conclave.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_e2e::cluster::{Cluster, Namespace, Pod};
use conclave_e2e::product::{APPLICATION, Group, SOON};
use conclave_e2e::wait;

#[test]
fn the_peer_port_is_open_to_the_group_and_to_nobody_else() -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.in_namespace("policy-elsewhere", |elsewhere| {
        cluster.in_namespace("policy", |namespace| {
            // The label of the group opens nothing to pods of another namespace.
            let without_webhook = "conclave.dev/admission-webhooks=disabled";
            cluster.kubectl(&["label", "namespace", elsewhere.name(), without_webhook])?;
            let strangers = [
                Callers::deploy(namespace, "app: stranger")?,
                Callers::deploy(elsewhere, "conclave.dev/group: orders")?,
            ];
            if !are_policies_enforced(&strangers)? {
                println!("skipped: the network of this cluster enforces no NetworkPolicies");
                return Ok(());
            }
            let group = Group::start(namespace, "{}", 3)?;
            the_group_alone_gets_through(&group, &strangers)
        })
    })
}

/// Whether a policy that closes some pods to everybody keeps the others from connecting.
fn are_policies_enforced([callers, called]: &[Callers<'_>; 2]) -> Result<bool> {
    wait::until("connections without a policy", SOON, || callers.must_reach(REDIS, &called.pods))?;
    called.namespace.apply(CLOSED)?;
    let closed = wait::until("a closed port", Duration::from_secs(15), || {
        callers.must_not_reach(REDIS, &called.pods)
    });
    Ok(closed.is_ok())
}

fn the_group_alone_gets_through(group: &Group<'_>, strangers: &[Callers<'_>]) -> Result<()> {
    let first = group.pods()?;
    for some in strangers {
        some.await_shut_out(&first)?;
        // What is not for Conclave to close stays open; what is for the pod itself never was.
        some.must_reach(ADMIN, &first)?;
        some.must_not_reach(API, &first)?;
    }
    let members = Callers { namespace: group.namespace, pods: first };
    members.must_reach(PEER, &members.pods)?;

    // A member that comes now has no connection from before.
    let gone = group.followers()?.pop().context("a follower")?;
    group.namespace.kubectl(&["delete", "pod", &gone.name])?;
    group.await_members(3)?;
    let now = group.pods()?;
    let is_new = |pod: &&Pod| members.pods.iter().all(|one| one.uid != pod.uid);
    let new = now.iter().find(is_new).context("no pod has come")?;
    let held = group.lock(new, "report", "10s")?;
    group.unlock(new, &held)?;
    strangers.iter().try_for_each(|some| some.await_shut_out(&now))
}

/// Pods from which connections are tried. Those that are deployed here are one on each node, so that
/// some are on the node of a member and some are not.
struct Callers<'a> {
    namespace: &'a Namespace<'a>,
    pods: Vec<Pod>,
}

impl<'a> Callers<'a> {
    fn deploy(namespace: &'a Namespace<'a>, label: &str) -> Result<Self> {
        let image = &namespace.cluster().images().client;
        namespace.apply(&STRANGERS.replace("LABEL", label).replace("IMAGE", image))?;
        namespace.kubectl(&["rollout", "status", "daemonset/stranger", "--timeout=60s"])?;
        let pods = namespace.pods("of=stranger")?;
        ensure!(!pods.is_empty(), "no stranger runs");
        Ok(Self { namespace, pods })
    }

    /// How many connections to this port come about, of one from each of these pods to each of
    /// those; and how many were tried.
    fn connections(&self, port: u16, to: &[Pod]) -> Result<[usize; 2]> {
        let attempt = |pod: &Pod| {
            let socket = format!("/dev/tcp/{}/{port}", pod.address);
            format!("(timeout 2 bash -c 'exec 3<>{socket}' 2>/dev/null && echo reached) & ")
        };
        let script: String = to.iter().map(attempt).chain(["wait".to_owned()]).collect();
        let mut connections = 0;
        for pod in &self.pods {
            let printed = self.namespace.exec(&pod.name, APPLICATION, &["bash", "-c", &script])?;
            connections += printed.lines().count();
        }
        Ok([connections, self.pods.len() * to.len()])
    }

    fn must_reach(&self, port: u16, to: &[Pod]) -> Result<()> {
        let [connections, tried] = self.connections(port, to)?;
        let whose = self.namespace.name();
        ensure!(connections == tried, "{connections} of {tried} from {whose} reached {port}");
        Ok(())
    }

    fn must_not_reach(&self, port: u16, to: &[Pod]) -> Result<()> {
        let [connections, tried] = self.connections(port, to)?;
        let whose = self.namespace.name();
        ensure!(connections == 0, "{connections} of {tried} from {whose} reached {port}");
        Ok(())
    }

    /// Waits until nobody gets through: the enforcer learns of pods and policies in its own time.
    fn await_shut_out(&self, from: &[Pod]) -> Result<()> {
        wait::until("a closed peer port", SOON, || self.must_not_reach(PEER, from))
    }
}

const API: u16 = 7070;
const PEER: u16 = 7071;
const ADMIN: u16 = 7072;
const REDIS: u16 = 6379;

const STRANGERS: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: stranger}
spec:
  selector: {matchLabels: {of: stranger}}
  template:
    metadata: {labels: {of: stranger, LABEL}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: application
        image: IMAGE
        imagePullPolicy: IfNotPresent
        command: [redis-server, --bind, 0.0.0.0, --protected-mode, 'no', --save, '']
";

const CLOSED: &str = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed}
spec: {podSelector: {matchLabels: {of: stranger}}, policyTypes: [Ingress]}
";
