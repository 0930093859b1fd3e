//! The alerts and dashboards of the chart, in a Prometheus that scrapes real pods. The alerts are those of the chart's
//! file, but each fires a second after its expression became true, and their limits and windows are small.

use anyhow::{Result, ensure};
use conclave_e2e::faults::with_group;
use conclave_e2e::monitoring::{dashboards, impatient_rules, queries};
use conclave_e2e::product::{APPLICATION, Group};
use conclave_e2e::prometheus::Prometheus;
use conclave_testbed::cluster::{Cluster, Cut};

#[test]
fn dashboards_show_a_real_group_and_its_alerts_fire_and_clear() -> Result<()> {
    with_group("monitoring-group", SPEC, 3, |cluster, group| {
        let namespace = group.namespace.name();
        let prometheus = Prometheus::with_rules(cluster, namespace, &impatient_rules()?)?;
        prometheus.await_value("sum(conclave_leader)", "1")?;
        every_query_of_a_dashboard_has_an_answer(group, &prometheus)?;
        // The rules were evaluated several times by now.
        prometheus.await_no_alert("Conclave.+", &of(group))?;
        a_follower_hears_nobody(cluster, group, &prometheus)?;
        nobody_reaches_the_api_server(cluster, group, &prometheus)
    })
}

#[test]
fn alerts_report_what_is_near_its_limit_and_whose_clock_is_wrong() -> Result<()> {
    with_group("monitoring-limits", SPEC, 3, |cluster, group| {
        let namespace = group.namespace.name();
        let prometheus = Prometheus::with_rules(cluster, namespace, &impatient_rules()?)?;
        prometheus.await_value("sum(conclave_leader)", "1")?;
        prometheus.await_no_alert("Conclave.+", &of(group))?;
        many_locks_are_held_at_one_pod(group, &prometheus)?;
        further_members_have_wrong_clocks(group, &prometheus)
    })
}

/// As many as need no waiter, until their time is over.
fn many_locks_are_held_at_one_pod(group: &Group<'_>, prometheus: &Prometheus) -> Result<()> {
    let pod = group.await_leader()?;
    let url = "http://localhost:7070/v1/locks/many-[1-31]?ttl=15s";
    let post = ["curl", "--silent", "--fail", "--request", "POST", url];
    group.namespace.exec(&pod.name, APPLICATION, &post)?;
    let at_it = format!("{}, pod=\"{}\"", of(group), pod.name);
    for (alert, labels) in [("ConclaveManyClaims", &at_it), ("ConclaveManyLocks", &of(group))] {
        prometheus.await_alert(alert, labels)?;
    }
    prometheus.await_no_alert("ConclaveMany.+", &of(group))
}

/// One is more members than the limit. Its clock is off, and drifts more than the policy states; that of another runs a
/// thousand times too fast, so that what was compared is always long ago.
fn further_members_have_wrong_clocks(group: &Group<'_>, prometheus: &Prometheus) -> Result<()> {
    group.deploy_with_wrong_clock("late", (90_000, 5_000))?;
    group.deploy_with_wrong_clock("mad", (0, 1_000_000_000))?;
    group.await_members(5)?;
    let late = format!("{}, pod=~\"late-.+\"", of(group));
    let mad = format!("{}, pod=~\"mad-.+\"", of(group));
    let alerts = [
        ("ConclaveManyMembers", of(group)),
        ("ConclaveHostClockOff", late),
        ("ConclaveClockContradicted", of(group)),
        ("ConclaveClockUnsynchronized", mad),
    ];
    for (alert, labels) in &alerts {
        prometheus.await_alert(alert, labels)?;
    }
    group.namespace.kubectl(&["delete", "deployment/late", "deployment/mad"])?;
    group.await_members(3)?;
    prometheus.await_no_alert("Conclave.+", &of(group))
}

fn every_query_of_a_dashboard_has_an_answer(
    group: &Group<'_>,
    prometheus: &Prometheus,
) -> Result<()> {
    let leader = group.await_leader()?;
    let held = group.lock(&leader, "shown", "5s")?;
    group.unlock(&leader, &held)?;
    let mut asked = 0;
    for (_, dashboard) in dashboards()? {
        for query in queries(&dashboard) {
            let query = query.replace("$__rate_interval", "10s").replace("$group", group.name);
            prometheus.await_some(&query.replace("$namespace", group.namespace.name()))?;
            asked += 1;
        }
    }
    println!("{asked} queries of dashboards have answers");
    ensure!(asked > 50, "only {asked} queries are asked");
    Ok(())
}

fn a_follower_hears_nobody(
    cluster: &Cluster,
    group: &Group<'_>,
    prometheus: &Prometheus,
) -> Result<()> {
    let follower = group.followers()?[0].clone();
    let pods = group.pods()?;
    let others: Vec<_> = pods.iter().filter(|pod| pod.uid != follower.uid).collect();
    let addresses: Vec<_> = others.iter().map(|pod| pod.address).collect();
    let at_it = format!("{}, pod=\"{}\"", of(group), follower.name);
    let stands = group.call(&follower, "PUT", "/v1/elections/reports/candidacy")?;
    ensure!(stands.status < 300, "it does not stand: {stands:?}");
    prometheus.await_value("sum(conclave_election_leading{election=\"reports\"})", "1")?;
    cluster.cut_from(&follower, Cut::Both, &addresses)?;
    let waits = group.line_up(&follower, "waited", "waits")?;
    let of_the_group = ["ConclaveElectionNoLeader", "ConclaveClaimsStalled"];
    for alert in of_the_group {
        prometheus.await_alert(alert, &of(group))?;
    }
    prometheus.await_alert("ConclaveGrantsStalled", &at_it)?;
    for other in others {
        let at_another = format!("{}, pod=\"{}\"", of(group), other.name);
        prometheus.await_no_alert("ConclaveGrantsStalled", &at_another)?;
    }
    cluster.heal(&follower)?;
    prometheus.await_no_alert("ConclaveGrantsStalled", &at_it)?;
    for alert in of_the_group {
        prometheus.await_no_alert(alert, &of(group))?;
    }
    group.unlock(&follower, &waits)?;
    group.await_members(3)
}

/// The operator does, and sees that the members do not take what the resource states.
fn nobody_reaches_the_api_server(
    cluster: &Cluster,
    group: &Group<'_>,
    prometheus: &Prometheus,
) -> Result<()> {
    let format = "jsonpath={.spec.clusterIP}";
    let get = ["get", "service/kubernetes", "--namespace", "default", "--output", format];
    let api_server = cluster.kubectl(&get)?.trim().parse()?;
    let pods = group.pods()?;
    pods.iter().try_for_each(|pod| cluster.cut_from(pod, Cut::Both, &[api_server]))?;
    let patch = r#"{"spec":{"timing":{"heartbeat":"110ms"}}}"#;
    group.namespace.kubectl(&["patch", "ccv/orders", "--type=merge", "--patch", patch])?;
    let by_the_operator = format!("namespace_name=\"{}\"", group.namespace.name());
    let alerts = [
        ("ConclaveRegisterUnreachable", of(group)),
        ("ConclavePolicyNotInForce", by_the_operator),
        ("ConclaveNoLeader", of(group)),
    ];
    for (alert, labels) in &alerts {
        prometheus.await_alert(alert, labels)?;
    }
    pods.iter().try_for_each(|pod| cluster.heal(pod))?;
    for (alert, labels) in &alerts {
        prometheus.await_no_alert(alert, labels)?;
    }
    group.await_leader().map(drop)
}

/// The labels of the group's alerts.
fn of(group: &Group<'_>) -> String {
    format!("namespace=\"{}\", group=\"{}\"", group.namespace.name(), group.name)
}

/// Short waits, and an election in which applications stand.
const SPEC: &str = "{timing: {leaderLease: 600ms, heartbeat: 120ms, memberLease: 3s, apiOutage: 10s}, \
                    elections: [{name: reports}]}";
