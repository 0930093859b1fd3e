//! A group on a real cluster: chart, operator, sidecars, and applications that only have `curl`.

use std::thread;

use anyhow::{Context, Result, ensure};
use conclave_e2e::counter::{self, Counter};
use conclave_e2e::product::{APPLICATION, Group, SIDECAR, SOON, claim_path};
use conclave_e2e::wall_clock::WallClock;
use conclave_testbed::cluster::{Cluster, Cut, Namespace, Pod, Signal};
use conclave_testbed::wait;

/// Short waits, so that the tests need not be long.
const FAST: &str =
    "{timing: {leaderLease: 600ms, heartbeat: 120ms, memberLease: 3s, apiOutage: 30s}}";

/// The leader's own metrics are what the Service leads to.
const WITH_SERVICE: &str =
    "{elections: [{name: default, service: {name: orders-leader, targetPort: 7072}}]}";

#[test]
fn five_pods_become_one_group_that_kubectl_shows_and_a_service_reaches() -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.in_namespace("group-forms", |namespace| {
        Group::traced(namespace, WITH_SERVICE, 5, |group| {
            let leader = group.await_leader()?;
            wait::until("the status", SOON, || {
                let shown = namespace.kubectl(&["get", "ccv", "orders", "--no-headers"])?;
                ensure!(shown.contains(&leader.name) && shown.contains("Quorum"), "{shown}");
                let path = "jsonpath={.status.readyMembers}/{.status.members}";
                let members = namespace.kubectl(&["get", "ccv", "orders", "-o", path])?;
                ensure!(members == "5/5", "{members} members");
                Ok(())
            })?;
            the_leaders_service_answers(namespace, &leader)?;
            if cluster.is_ours_or_skip("the audit of clocks that are one") {
                clocks_of_one_machine_pass_the_audit(group)?;
            }
            a_lock_goes_from_one_to_the_next_with_a_larger_token(group)?;
            a_changed_algorithm_reaches_running_sidecars(group)
        })
    })
}

/// The Service of the election `default`.
fn the_leaders_service_answers(namespace: &Namespace<'_>, leader: &Pod) -> Result<()> {
    let address = ["get", "service/orders-leader", "-o", "jsonpath={.spec.clusterIP}"];
    let address = namespace.kubectl(&address)?;
    let url = format!("http://{address}/metrics");
    wait::until("the leader's Service", SOON, || {
        let curl = ["curl", "--silent", "--show-error", "--fail", "--max-time", "3", &url];
        let metrics = namespace.exec(&leader.name, APPLICATION, &curl)?;
        ensure!(metrics.contains("conclave_leader{group=\"orders\"} 1"), "{metrics}");
        Ok(())
    })
}

/// All nodes are on one machine, so members see that their raw clocks are one, and hold what is stated against that.
pub(crate) fn clocks_of_one_machine_pass_the_audit(group: &Group<'_>) -> Result<()> {
    let pods = group.pods()?;
    let (mut clock, mut times_set) = (WallClock::read(), 0);
    wait::until("the audit of clocks", SOON, || {
        // A sidecar takes no stamp of the kernel while the wall clock is set again and again.
        let now = WallClock::read();
        times_set += u32::from(clock.was_set_until(now));
        clock = now;
        for pod in &pods {
            let found = group.get(pod, "/v1/time/peers")?;
            ensure!(found.body["host"]["outlier"] == false, "{} has {found:?}", pod.name);
            let time = group.get(pod, "/v1/time")?;
            let is_known = time.body["host"]["synchronized"].is_boolean();
            ensure!(is_known, "{} does not know its machine's clock: {time:?}", pod.name);
            let peers = found.body["peers"].as_array().context("a list of peers")?;
            ensure!(peers.len() == pods.len() - 1, "{} has {found:?}", pod.name);
            for peer in peers {
                let audited =
                    peer["same_clock"] == true && peer["audit"]["checked"].as_u64() > Some(8);
                let sound = peer["audit"]["violations"] == 0 && peer["disrupted"] == false;
                let stamps = &peer["timestamps"];
                let stamped = stamps["sent"] == "kernel" && stamps["received"] == "kernel";
                ensure!(audited && sound && (stamped || times_set > 1), "{} has {peer}", pod.name);
            }
        }
        Ok(())
    })
}

fn a_lock_goes_from_one_to_the_next_with_a_larger_token(group: &Group<'_>) -> Result<()> {
    let pods = group.pods()?;
    let [first, second] = [&pods[0], &pods[1]];
    let held = group.lock(first, "tap", "5s")?;
    let refused = group.post(second, "/v1/locks/tap")?;
    ensure!(refused.status == 423, "{refused:?}");
    ensure!(refused.body["holders"][0]["pod"] == first.name, "{refused:?}");
    let next = thread::scope(|scope| {
        let waiting = scope.spawn(|| group.lock(second, "tap", "20s"));
        group.unlock(first, &held)?;
        waiting.join().expect("it does not panic")
    })?;
    ensure!(next.number("token")? > held.number("token")?, "{held:?}, then {next:?}");
    group.unlock(second, &next)
}

fn a_changed_algorithm_reaches_running_sidecars(group: &Group<'_>) -> Result<()> {
    let pods = group.pods()?;
    let held = group.lock(&pods[0], "kept", "5s")?;
    for algorithm in ["Ring", "ChangRoberts", "SpanningTree", "Bully"] {
        group.elects_by(algorithm)?;
        ensure!(group.check(&pods[0], &held)? == 204, "the lock was lost on the way");
    }
    group.unlock(&pods[0], &held)
}

#[test]
fn ten_clients_lose_no_increment_under_the_lock_and_some_without_it() -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.in_namespace("group-counts", |namespace| {
        Group::traced(namespace, FAST, 5, |group| {
            let counter = Counter::deploy(group)?;
            let pods = group.pods()?;
            let sum = counter.count(&pods, counter::LOCKED, 100)?;
            ensure!(sum == 1_000, "{sum} of 1,000 increments under the lock");
            // So many that the clients do count at once.
            let sum = counter.count(&pods, counter::FREELY, 1_000)?;
            ensure!(sum < 10_000, "nothing is lost without the lock: the test shows nothing");
            Ok(())
        })
    })
}

#[test]
fn a_deleted_leader_hands_over_and_its_locks_are_free_at_once() -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.in_namespace("group-hand-over", |namespace| {
        Group::traced(namespace, FAST, 5, |group| {
            let leader = group.await_leader()?;
            let followers = group.followers()?;
            let epoch = group.epoch(&leader)?;
            let lost = group.lock(&leader, "leaders", "5s")?;
            let kept = group.lock(&followers[0], "followers", "5s")?;
            namespace.kubectl(&["delete", "pod", &leader.name, "--wait=true"])?;
            let next = group.lock(&followers[1], "leaders", "5s")?;
            ensure!(next.number("token")? > lost.number("token")?);
            ensure!(group.check(&followers[0], &kept)? == 204, "a living pod lost its lock");
            let new = group.await_leader()?;
            ensure!(new.uid != leader.uid && group.epoch(&new)? > epoch);
            group.await_members(5)
        })
    })
}

#[test]
fn a_killed_leader_is_followed_by_another_and_locks_of_the_living_survive() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a crash of a sidecar") {
        return Ok(());
    }
    cluster.in_namespace("group-crash", |namespace| {
        Group::traced(namespace, FAST, 5, |group| {
            let leader = group.await_leader()?;
            let followers = group.followers()?;
            let epoch = group.epoch(&followers[0])?;
            let lost = group.lock(&leader, "leaders", "5s")?;
            let kept = group.lock(&followers[0], "followers", "5s")?;
            cluster.signal_container(&leader, SIDECAR, Signal::KILL)?;
            // With its leader lease, and not before: the waiter gets it from the next leader.
            let next = group.lock(&followers[1], "leaders", "10s")?;
            ensure!(next.number("token")? > lost.number("token")?);
            ensure!(group.check(&followers[0], &kept)? == 204, "a living pod lost its lock");
            ensure!(group.epoch(&followers[0])? > epoch, "the same epoch as before");
            group.await_members(5)?;
            a_killed_followers_lock_comes_free_after_the_member_lease(group)
        })
    })
}

fn a_killed_followers_lock_comes_free_after_the_member_lease(group: &Group<'_>) -> Result<()> {
    let followers = group.followers()?;
    let lost = group.lock(&followers[0], "slow", "5s")?;
    group.namespace.cluster().signal_container(&followers[0], SIDECAR, Signal::KILL)?;
    let early = group.post(&followers[1], "/v1/locks/slow?wait=1s")?;
    ensure!(early.status == 423, "the lock was free before its wait was over: {early:?}");
    let next = group.lock(&followers[1], "slow", "10s")?;
    ensure!(next.number("token")? > lost.number("token")?);
    group.await_members(5)
}

#[test]
fn a_pod_that_is_cut_off_says_lost_before_anybody_else_gets_its_lock() -> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("a partition") {
        return Ok(());
    }
    cluster.in_namespace("group-partition", |namespace| {
        Group::traced(namespace, FAST, 5, |group| {
            for cut_off in [group.await_leader()?, group.followers()?[0].clone()] {
                let others: Vec<Pod> =
                    group.pods()?.into_iter().filter(|pod| pod.uid != cut_off.uid).collect();
                let held = group.lock(&cut_off, "orders", "10s")?;
                // The containers of one pod share their loopback, which is not cut.
                let path =
                    format!("{}?wait=60s&index={}", claim_path(&held)?, held.number("index")?);
                thread::scope(|scope| -> Result<()> {
                    let (group, cut_off, path) = (group, &cut_off, &path);
                    let lost = scope.spawn(move || await_loss(group, cut_off, path));
                    cluster.cut(cut_off, Cut::Both)?;
                    let next = group.lock(&others[0], "orders", "15s")?;
                    // The holder before knows by the time that another has it.
                    ensure!(group.check(cut_off, &held)? == 410, "two pods hold the lock");
                    lost.join().expect("it does not panic")?;
                    cluster.heal(cut_off)?;
                    group.unlock(&others[0], &next)
                })?;
                group.await_members(5)?;
            }
            Ok(())
        })
    })
}

/// Follows a claim until it is lost.
fn await_loss(group: &Group<'_>, pod: &Pod, path: &str) -> Result<()> {
    wait::until("the loss", SOON, || {
        let claim = group.get(pod, path)?;
        ensure!(claim.status == 410 || claim.body["state"] == "lost", "{claim:?}");
        Ok(())
    })
}
