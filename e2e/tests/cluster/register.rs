//! What becomes of a group whose register is edited, damaged, or brought back from before.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use conclave_e2e::faults::{BRIEF, CALM, under_load, with_group};
use conclave_e2e::load::{HandOvers, Load};
use conclave_e2e::product::{Group, SOON};
use conclave_e2e::prometheus;
use conclave_testbed::cluster::{Cluster, Pod};
use conclave_testbed::wait;

#[test]
fn the_lease_is_annotated_edited_and_deleted() -> Result<()> {
    with_group("faults-lease", BRIEF, 3, |cluster, group| {
        let namespace = group.namespace;
        let lease = "lease/conclave-orders";
        let record = r"jsonpath={.metadata.annotations.conclave\.dev/record}";
        let first = namespace.kubectl(&["get", lease, "-o", record])?;
        under_load("Lease annotated", cluster, group, CALM, || {
            namespace.kubectl(&["annotate", lease, "example.org/by=hand"]).map(drop)
        })?;
        let before =
            namespace.kubectl(&["get", lease, "-o", "jsonpath={.metadata.annotations}"])?;
        ensure!(before.contains("by") && before.contains("record"), "{before}");
        under_load("Lease edited", cluster, group, CALM, || {
            let patch = r#"{"spec":{"holderIdentity":"somebody","leaseTransitions":0}}"#;
            namespace.kubectl(&["patch", lease, "--type=merge", "--patch", patch]).map(drop)
        })?;
        let brought_back = format!("conclave.dev/record={first}");
        for (name, damage) in [
            ("Lease deleted", vec!["delete", lease]),
            ("record damaged", vec!["annotate", "--overwrite", lease, "conclave.dev/record={"]),
            ("record taken off", vec!["annotate", lease, "conclave.dev/record-"]),
            ("record brought back", vec!["annotate", "--overwrite", lease, &brought_back]),
        ] {
            the_leader_replaces(cluster, group, name, &damage)?;
        }
        the_status_tells_of_a_view_that_nobody_knows(group)
    })
}

/// That is what it reports when the Lease was brought back to before it: nothing is granted until all of that
/// view has run out, and everything after.
fn the_status_tells_of_a_view_that_nobody_knows(group: &Group<'_>) -> Result<()> {
    let leader = group.await_leader()?;
    let held = group.lock(&leader, "kept", "5s")?;
    let patch = format!(r#"{{"status":{{"epoch":{}}}}}"#, group.epoch(&leader)? + 1);
    let conclave = ["patch", "ccv/orders", "--subresource=status", "--type=merge", "--patch"];
    group.namespace.kubectl(&[&conclave[..], &[patch.as_str()]].concat())?;
    wait::until("the grace period", SOON, || {
        let grace = group.get(&leader, "/v1/status")?.number("grace_ms")?;
        ensure!(grace > 10_000, "it lasts for {grace} ms more");
        Ok(())
    })?;
    let refused = group.post(&leader, "/v1/locks/another?wait=1s")?;
    let problem = refused.text("type")?;
    ensure!(refused.status == 503 && problem.ends_with("/grace-period"), "{refused:?}");
    ensure!(group.check(&leader, &held)? == 204, "the lock was lost");
    let given = group.lock(&leader, "another", "20s")?;
    ensure!(group.check(&leader, &held)? == 204, "the lock was lost");
    group.unlock(&leader, &given)?;
    group.unlock(&leader, &held)
}

/// The operator puts a mark where the record was, and the leader its next view: holders go on.
fn the_leader_replaces(
    cluster: &Cluster,
    group: &Group<'_>,
    name: &str,
    damage: &[&str],
) -> Result<()> {
    let leader = group.await_leader()?;
    let epoch = group.epoch(&leader)?;
    let keeper = group.followers()?[0].clone();
    let held = group.lock(&keeper, "kept", "5s")?;
    let pods = group.pods()?;
    let load = Load::start(cluster, &pods, HandOvers::None)?;
    thread::sleep(Duration::from_secs(2));
    let at = load.now();
    group.namespace.kubectl(damage)?;
    wait::until("a view after the loss", SOON, || {
        let next = group.leader()?;
        ensure!(group.epoch(&next)? > epoch, "it is the old one");
        ensure!(next.name == leader.name, "another leads");
        Ok(())
    })?;
    thread::sleep(CALM);
    let diary = load.end()?;
    let took = diary.next_grant(at, epoch)?;
    println!("{name}: first grant of another view after {} ms", took.as_millis());
    ensure!(took < Duration::from_secs(5), "{name}: that was not at once");
    ensure!(group.check(&keeper, &held)? == 204, "{name}: the lock was lost");
    group.unlock(&keeper, &held)?;
    diary.check()
}

/// What the API server has to do for a group: nothing for locks, and a few reads for a group at rest.
#[test]
fn the_api_server_is_written_to_neither_at_rest_nor_for_locks() -> Result<()> {
    with_group("faults-none", "{}", 5, |cluster, group| {
        let written = || {
            let lease =
                ["get", "lease/conclave-orders", "-o", "jsonpath={.metadata.resourceVersion}"];
            group.namespace.kubectl(&lease)
        };
        let pods = group.pods()?;
        // The last member's view has begun, and everybody has confirmed it.
        thread::sleep(Duration::from_secs(5));
        let before = (written()?, reads(&pods)?);
        let span = Duration::from_secs(30);
        thread::sleep(span);
        let at_rest = (written()?, reads(&pods)?);
        ensure!(before.0 == at_rest.0, "a group at rest wrote to its Lease");
        let minutes = span.as_secs_f64() / 60.0 * 5.0;
        println!("at rest: {:.1} reads a member and minute", (at_rest.1 - before.1) / minutes);

        let load = Load::start(cluster, &pods, HandOvers::None)?;
        thread::sleep(span);
        let diary = load.end()?;
        let loaded = (written()?, reads(&pods)?);
        ensure!(at_rest.0 == loaded.0, "the Lease was written to for a lock");
        let grants = diary.grants().len();
        println!(
            "{grants} grants: no write, {:.1} reads a member and minute",
            (loaded.1 - at_rest.1) / minutes
        );
        ensure!(grants > 1_000, "only {grants} grants: this shows nothing");
        diary.check()
    })
}

/// How often these pods have read the Lease.
fn reads(pods: &[Pod]) -> Result<f64> {
    prometheus::sum_over(pods, "conclave_arbiter_requests_total", "verb=\"read\"")
}
