//! The Service of a named election on a real cluster: it leads to the leader, also after that was killed or replaced,
//! and to nobody when nobody leads.

use std::time::Instant;

use anyhow::{Result, ensure};
use conclave_e2e::product::{APPLICATION, Group, SIDECAR, SOON};
use conclave_testbed::cluster::{Cluster, Pod, Signal};
use conclave_testbed::wait;

use crate::elections::{lead, path};

/// The sidecar's own metrics are what the Service leads to: they say who leads.
const SPEC: &str = "{timing: {leaderLease: 600ms, heartbeat: 120ms, memberLease: 10s, apiOutage: 30s}, \
     elections: [{name: reports, service: {targetPort: 7072}}, {name: mails}]}";

const LEADING: &str = r#"conclave_election_leading{election="reports",group="orders"} 1"#;

#[test]
fn the_service_of_an_election_follows_its_leader() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a crash of a sidecar") {
        return Ok(());
    }
    cluster.in_namespace("services", |namespace| {
        Group::traced(namespace, SPEC, 3, |group| {
            let annotation = r#"{"spec": {"template": {"metadata": {"annotations": {
                "conclave.dev/elections": "reports"}}}}}"#;
            namespace.kubectl(&["patch", "deployment/shop", "--patch", annotation])?;
            settled(group)?;
            let address = ["get", "service/orders-reports", "-o", "jsonpath={.spec.clusterIP}"];
            let service = Service { group, address: namespace.kubectl(&address)? };
            service.leads_to_the_leader("at first")?;
            the_operator_reports_the_leader(group)?;

            let dies = leader(group)?;
            let killed = Instant::now();
            cluster.signal_container(&dies, SIDECAR, Signal::KILL)?;
            let mut others = group.pods()?;
            others.retain(|pod| pod.uid != dies.uid);
            lead(group, "reports", &others)?;
            println!("reports: another leads {} ms after a kill", killed.elapsed().as_millis());
            service.leads_to_the_leader("after a kill")?;
            the_operator_reports_the_leader(group)?;

            namespace.kubectl(&["rollout", "restart", "deployment/shop"])?;
            settled(group)?;
            service.leads_to_the_leader("after a rollout")?;
            the_operator_reports_the_leader(group)?;

            nobody_leads(group)?;
            what_is_taken_out_is_deleted(group)
        })
    })
}

/// All pods are of the latest template.
fn settled(group: &Group<'_>) -> Result<()> {
    group.namespace.await_deployment("shop")?;
    group.await_members(3)
}

fn leader(group: &Group<'_>) -> Result<Pod> {
    Ok(lead(group, "reports", &group.pods()?)?.0)
}

struct Service<'a> {
    group: &'a Group<'a>,
    address: String,
}

impl Service<'_> {
    /// The pod in the slice is the one that leads, which on a busy machine may become another, and every pod reaches it.
    fn leads_to_the_leader(&self, when: &str) -> Result<()> {
        let begun = Instant::now();
        let namespace = self.group.namespace;
        let path = "jsonpath={.endpoints[*].targetRef.uid}";
        let slice = ["get", "endpointslice/conclave-orders.reports", "-o", path];
        wait::until("the leader in the slice", SOON, || {
            let leader = leader(self.group)?;
            let shown = namespace.kubectl(&slice)?;
            ensure!(shown == leader.uid, "{shown}, and not {}", leader.name);
            Ok(())
        })?;
        println!("reports, {when}: in the slice {} ms later", begun.elapsed().as_millis());
        let url = format!("http://{}/metrics", self.address);
        for pod in self.group.pods()? {
            wait::until("the Service", SOON, || {
                let curl = ["curl", "--silent", "--show-error", "--fail", "--max-time", "3", &url];
                let metrics = namespace.exec(&pod.name, APPLICATION, &curl)?;
                ensure!(metrics.contains(LEADING), "{} reached another: {metrics}", pod.name);
                Ok(())
            })?;
        }
        println!("reports, {when}: reached by all {} ms later", begun.elapsed().as_millis());
        Ok(())
    }
}

/// `kubectl get ccv` and an Event name the leader.
fn the_operator_reports_the_leader(group: &Group<'_>) -> Result<()> {
    wait::until("the status", SOON, || {
        let leader = leader(group)?;
        let shown = group.namespace.kubectl(&["get", "ccv", "orders", "--no-headers"])?;
        ensure!(shown.contains(&format!("reports={},mails=-", leader.name)), "{shown}");
        Ok(())
    })?;
    wait::until("the Event", SOON, || {
        let leader = leader(group)?;
        let elected = ["get", "events", "--field-selector=reason=LeaderElected", "-o"];
        let notes = [&elected[..], &["jsonpath={.items[*].message}"]].concat();
        let notes = group.namespace.kubectl(&notes)?;
        ensure!(notes.contains(&format!("{} leads `reports` with token", leader.name)), "{notes}");
        Ok(())
    })
}

/// Every application withdraws, and the Service leads nowhere.
fn nobody_leads(group: &Group<'_>) -> Result<()> {
    for pod in group.pods()? {
        let candidacy = format!("{}/candidacy", path("reports"));
        let answer = group.call(&pod, "DELETE", &candidacy)?;
        ensure!(answer.status == 204, "{answer:?}");
    }
    let slice = ["get", "endpointslice/conclave-orders.reports", "-o", "jsonpath={.endpoints}"];
    wait::until("an empty slice", SOON, || {
        let shown = group.namespace.kubectl(&slice)?;
        ensure!(matches!(shown.trim(), "" | "[]" | "null"), "{shown}");
        let shown = group.namespace.kubectl(&["get", "ccv", "orders", "--no-headers"])?;
        ensure!(shown.contains("reports=-,mails=-"), "{shown}");
        Ok(())
    })
}

fn what_is_taken_out_is_deleted(group: &Group<'_>) -> Result<()> {
    let patch = r#"{"spec": {"elections": [{"name": "mails"}]}}"#;
    group.namespace.kubectl(&["patch", "ccv", "orders", "--type=merge", "--patch", patch])?;
    wait::until("nothing of reports", SOON, || {
        let left = ["get", "services,endpointslices", "-o", "name", "--selector"];
        let left = [&left[..], &["conclave.dev/election"]].concat();
        let left = group.namespace.kubectl(&left)?;
        ensure!(left.trim().ends_with("/conclave-orders.mails"), "{left}");
        ensure!(left.trim().lines().count() == 1, "{left}");
        Ok(())
    })
}
