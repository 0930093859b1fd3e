//! A `Conclave` that is deleted while locks are held, and made again under the same name at once: the register is the
//! earlier one, and what it remembers is waited for.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use conclave_e2e::faults::{CALM, with_group};
use conclave_e2e::load::{HandOvers, Load};
use conclave_e2e::product::{Answer, Group, SOON};
use conclave_testbed::cluster::{Cluster, Cut, Pod};
use conclave_testbed::wait;

#[test]
fn a_conclave_made_anew_grants_nothing_that_is_held() -> Result<()> {
    with_group("faults-anew", TIMING, 3, |cluster, group| {
        all_members_hear_of_it(cluster, group)?;
        most_members_do_not_hear_of_it(cluster, group)
    })
}

/// They leave the earlier group in order, and what they held ends with it.
fn all_members_hear_of_it(cluster: &Cluster, group: &Group<'_>) -> Result<()> {
    let holder = group.followers()?[0].clone();
    let other = group.await_leader()?;
    let held = group.lock(&holder, "mine", "5s")?;
    let load = Load::start(cluster, &group.pods()?, HandOvers::None)?;
    thread::sleep(Duration::from_secs(2));
    let at = load.now();
    make_anew(group)?;
    let given = await_lock(group, &other, "mine")?;
    println!(
        "all hear of it: granted again after {} ms",
        load.now().saturating_sub(at).as_millis()
    );
    ensure!(given.number("token")? > held.number("token")?, "{given:?} is not after {held:?}");
    ensure!(group.check(&holder, &held)? == 410, "it still holds");
    group.await_members(3)?;
    group.unlock(&other, &given)?;
    thread::sleep(CALM);
    load.end()?.check()
}

/// The leader and another cannot reach the API server: they go on with the earlier group, and grant, while the one that
/// heard of it founds the later.
fn most_members_do_not_hear_of_it(cluster: &Cluster, group: &Group<'_>) -> Result<()> {
    let leader = group.await_leader()?;
    let followers = group.followers()?;
    let (kept, founder) = (&followers[0], &followers[1]);
    let format = "jsonpath={.spec.clusterIP}";
    let get = ["get", "service/kubernetes", "--namespace", "default", "--output", format];
    let api_server = cluster.kubectl(&get)?.trim().parse()?;
    let held = group.lock(kept, "mine", "5s")?;
    for pod in [&leader, kept] {
        cluster.cut_from(pod, Cut::Both, &[api_server])?;
    }
    let load = Load::start(cluster, &group.pods()?, HandOvers::None)?;
    let at = load.now();
    make_anew(group)?;
    let refused = group.post(founder, "/v1/locks/mine?wait=2s")?;
    ensure!(refused.status != 201, "it was granted at once: {refused:?}");
    ensure!(group.look(kept, &held)?.text("state")? == "held", "the earlier group stopped at once");
    let given = await_lock(group, founder, "mine")?;
    println!(
        "two do not hear of it: granted again after {} ms",
        load.now().saturating_sub(at).as_millis()
    );
    ensure!(given.number("token")? > held.number("token")?, "{given:?} is not after {held:?}");
    ensure!(group.check(kept, &held)? == 410, "it still holds");
    for pod in [&leader, kept] {
        cluster.heal(pod)?;
    }
    group.await_members(3)?;
    ensure!(group.check(founder, &given)? == 204, "a member that comes back ended a hold");
    group.unlock(founder, &given)?;
    thread::sleep(CALM);
    load.end()?.check()
}

/// A leader that is alone holds by its leader lease, which outlasts a view change on a busy machine too.
const TIMING: &str =
    "{timing: {leaderLease: 2s, heartbeat: 120ms, memberLease: 5s, apiOutage: 10s}}";

/// Deletes the resource, and makes it again with another UID.
fn make_anew(group: &Group<'_>) -> Result<()> {
    let uid = ["get", "ccv/orders", "--output", "jsonpath={.metadata.uid}"];
    let before = group.namespace.kubectl(&uid)?;
    group.namespace.kubectl(&["delete", "ccv/orders", "--wait"])?;
    let made = format!(
        "apiVersion: conclave.dev/v1alpha1\nkind: Conclave\nmetadata: {{name: orders}}\nspec: {TIMING}\n"
    );
    group.namespace.apply(&made)?;
    ensure!(group.namespace.kubectl(&uid)? != before, "it is the same resource");
    Ok(())
}

/// Asks for a lock until it is granted.
fn await_lock(group: &Group<'_>, pod: &Pod, lock: &str) -> Result<Answer> {
    wait::until("a grant of the later group", SOON, || group.lock(pod, lock, "2s"))
}
