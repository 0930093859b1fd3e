//! The network policies that the page for operators gives to paste, enforced by Cilium, or by the network of a
//! user's cluster.
//!
//! On one day in eight a run starts Cilium, or any with `CONCLAVE_POLICIES=true`.
//!
//! Whether a network enforces policies is seen by one that has nothing to do with Conclave. That of the
//! harness must; where that of a user's cluster does not, the test says so and passes over.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use conclave_e2e::product::{self, APPLICATION, Group, SOON};
use conclave_e2e::{documented, rotation};
use conclave_testbed::cluster::{Cluster, Namespace, Pod};
use conclave_testbed::{skipped, wait};
use serde_json::json;

use self::Port::{Tcp, Udp};

#[test]
fn the_pasted_policies_open_and_close_the_peer_port_alone() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if cluster.is_ours() && !rotation::enforces_policies()? {
        skipped::note("policies are enforced on one day of eight, and this is another");
        return Ok(());
    }
    // What was connected before the enforcer came is connected in another way.
    product::helm_uninstall(&cluster)?;
    let outcome = among_strangers(&cluster);
    let uninstalled = product::helm_uninstall(&cluster);
    let installed = product::install(&cluster);
    outcome.and(uninstalled).and(installed)
}

fn among_strangers(cluster: &Cluster) -> Result<()> {
    let enforcer = cluster.start_enforcer()?;
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
                ensure!(enforcer.is_none(), "Cilium runs and enforces nothing");
                skipped::note("the network of this cluster enforces no NetworkPolicies");
                return Ok(());
            }
            product::install(cluster)?;
            let kubelets = enforcer.as_ref().map_or(&[][..], |_| &strangers[0].pods);
            namespace.apply(&denied(kubelets)?)?;
            namespace.apply(&documented::manifest(documented::OPERATING, "orders-peers")?)?;
            let group = Group::form(namespace, "{}", 3)?;
            what_is_pasted_lets_the_group_work_and_opens_nothing_else(&group, &strangers)?;
            nothing_else_lets_the_members_through(&group)?;
            the_operator_closes_nothing(&group, &strangers)?;
            what_is_pasted_closes_the_peer_port_and_nothing_else(&group, &strangers)
        })
    })
}

/// What a namespace has that denies everything, for the pods of the group: strangers may call out. A network that is
/// Cilium's own lets a kubelet through to the pods of its node. Here it is chained to another, and takes kubelets for
/// strangers: each comes by the first address of its node's subnet, in which one of these pods is.
fn denied(on_every_node: &[Pod]) -> Result<String> {
    let blocks = on_every_node.iter().map(|pod| match pod.address {
        IpAddr::V4(address) => {
            let [one, two, three, _] = address.octets();
            Ok(json!({ "ipBlock": { "cidr": format!("{one}.{two}.{three}.1/32") } }))
        }
        IpAddr::V6(_) => bail!("the pods of the harness have addresses of IPv4"),
    });
    let blocks = blocks.collect::<Result<Vec<_>>>()?;
    let kubelets = if blocks.is_empty() { json!([]) } else { json!([{ "from": blocks }]) };
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": "denied" },
        "spec": {
            "podSelector": { "matchLabels": { "conclave.dev/group": "orders" } },
            "policyTypes": ["Ingress", "Egress"],
            "ingress": kubelets,
        },
    });
    Ok(policy.to_string())
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

/// Where everything is denied that is not allowed.
fn what_is_pasted_lets_the_group_work_and_opens_nothing_else(
    group: &Group<'_>,
    strangers: &[Callers<'_>],
) -> Result<()> {
    let first = group.pods()?;
    for some in strangers {
        some.await_shut_out(&first)?;
        some.must_not_reach(ADMIN, &first)?;
    }
    // A member that comes now has no connection from before, and gets its certificate through this too.
    let gone = group.followers()?.pop().context("a follower")?;
    group.namespace.kubectl(&["delete", "pod", &gone.name])?;
    group.await_members(3)?;
    let now = group.pods()?;
    let is_new = |pod: &&Pod| first.iter().all(|one| one.uid != pod.uid);
    let new = now.iter().find(is_new).context("no pod has come")?;
    let held = group.lock(new, "report", "10s")?;
    group.unlock(new, &held)?;
    strangers.iter().try_for_each(|some| some.await_shut_out(&now))
}

/// It is the rule that was pasted, and none that the operator makes.
fn nothing_else_lets_the_members_through(group: &Group<'_>) -> Result<()> {
    let mut others = group.pods()?;
    let one = others.pop().context("a member")?;
    let one = Callers { namespace: group.namespace, pods: vec![one] };
    one.must_reach(PEER[0], &others)?;
    group.namespace.kubectl(&["delete", "networkpolicy/orders-peers"])?;
    one.await_shut_out(&others)
}

/// Without a policy of the user's everybody gets through to a port, and no further than certificates let them.
fn the_operator_closes_nothing(group: &Group<'_>, strangers: &[Callers<'_>]) -> Result<()> {
    group.namespace.kubectl(&["delete", "networkpolicies", "--all"])?;
    group.await_members(3)?;
    let pods = group.pods()?;
    strangers.iter().try_for_each(|some| some.await_both(&pods))
}

fn what_is_pasted_closes_the_peer_port_and_nothing_else(
    group: &Group<'_>,
    strangers: &[Callers<'_>],
) -> Result<()> {
    group.namespace.apply(&documented::manifest(documented::OPERATING, "orders-peer-port")?)?;
    let pods = group.pods()?;
    for some in strangers {
        some.await_shut_out(&pods)?;
        // What is not about Conclave stays open; what is for the pod itself never was.
        some.must_reach(ADMIN, &pods)?;
        some.must_not_reach(API, &pods)?;
    }
    let members = Callers { namespace: group.namespace, pods };
    members.await_both(&members.pods)
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

    /// How many of these pods reach this port of those, one from each to each; and how many were tried.
    fn connections(&self, port: Port, to: &[Pod]) -> Result<[usize; 2]> {
        let reached = match port {
            Tcp(port) => self.connected(port, to)?,
            Udp(port) => self.arrived(port, to)?,
        };
        Ok([reached, self.pods.len() * to.len()])
    }

    fn connected(&self, port: u16, to: &[Pod]) -> Result<usize> {
        let attempt = |pod: &Pod| {
            let connect = format!("exec 3<>/dev/tcp/{}/{port}", pod.address);
            format!("(timeout 2 bash -c '{connect}' 2>/dev/null && echo reached) & ")
        };
        let script: String = to.iter().map(attempt).chain(["wait".to_owned()]).collect();
        let mut connections = 0;
        for pod in &self.pods {
            let printed = self.namespace.exec(&pod.name, APPLICATION, &["bash", "-c", &script])?;
            connections += printed.lines().count();
        }
        Ok(connections)
    }

    /// A member answers no datagram that makes no sense, and counts it.
    fn arrived(&self, port: u16, to: &[Pod]) -> Result<usize> {
        let before = malformed(self.namespace.cluster(), to)?;
        let send = |pod: &Pod| format!("echo > /dev/udp/{}/{port}; ", pod.address);
        let script: String = to.iter().map(send).chain(["sleep 0.5".to_owned()]).collect();
        for pod in &self.pods {
            self.namespace.exec(&pod.name, APPLICATION, &["bash", "-c", &script])?;
        }
        Ok(malformed(self.namespace.cluster(), to)?.saturating_sub(before))
    }

    fn must_reach(&self, port: Port, to: &[Pod]) -> Result<()> {
        let [connections, tried] = self.connections(port, to)?;
        let whose = self.namespace.name();
        ensure!(connections == tried, "{connections} of {tried} from {whose} reached {port:?}");
        Ok(())
    }

    fn must_not_reach(&self, port: Port, to: &[Pod]) -> Result<()> {
        let [connections, tried] = self.connections(port, to)?;
        let whose = self.namespace.name();
        ensure!(connections == 0, "{connections} of {tried} from {whose} reached {port:?}");
        Ok(())
    }

    /// Over neither protocol, which the policies close alike.
    fn must_reach_neither(&self, to: &[Pod]) -> Result<()> {
        PEER.iter().try_for_each(|port| self.must_not_reach(*port, to))
    }

    /// Over both.
    fn await_both(&self, to: &[Pod]) -> Result<()> {
        wait::until("an open peer port", SOON, || {
            PEER.iter().try_for_each(|port| self.must_reach(*port, to))
        })
    }

    /// Waits until nobody gets through: the enforcer learns of pods and policies in its own time.
    fn await_shut_out(&self, from: &[Pod]) -> Result<()> {
        wait::until("a closed peer port", SOON, || self.must_reach_neither(from))
    }
}

/// How many datagrams that made no sense these members have counted. They are asked from within, which no policy is
/// about.
fn malformed(cluster: &Cluster, members: &[Pod]) -> Result<usize> {
    let read = "curl -fsS localhost:7072/metrics | grep 'refused_total.*malformed'";
    let mut all = 0;
    for Pod { namespace, name, .. } in members {
        let exec = ["exec", "-n", namespace, name, "--container", APPLICATION, "--"];
        let line = cluster.kubectl(&[&exec[..], &["bash", "-c", read]].concat())?;
        let count = line.trim().rsplit_once(' ').and_then(|(_, count)| count.parse::<usize>().ok());
        all += count.with_context(|| format!("{name} counts nothing: {line}"))?;
    }
    Ok(all)
}

/// A port of a pod.
#[derive(Clone, Copy, Debug)]
enum Port {
    Tcp(u16),
    Udp(u16),
}

const API: Port = Tcp(7070);
const PEER: [Port; 2] = [Tcp(7071), Udp(7071)];
const ADMIN: Port = Tcp(7072);
const REDIS: Port = Tcp(6379);

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
