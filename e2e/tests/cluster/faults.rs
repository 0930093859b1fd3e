//! What goes wrong on a real cluster, under load: every operation of every client is checked.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use conclave_e2e::faults::{BRIEF, CALM, FAST, under_load, with_group};
use conclave_e2e::leader_watch::{LEADS_GROUP, LeaderWatch};
use conclave_e2e::load::{HandOvers, Load};
use conclave_e2e::product::{Group, SIDECAR, SOON};
use conclave_testbed::cluster::{Cluster, Cut, Pod, Signal};
use conclave_testbed::wait;
use jiff::{SignedDuration, Timestamp};

#[test]
fn sidecars_are_killed() -> Result<()> {
    with_group("faults-kill", FAST, 5, |cluster, group| {
        let kill = |pod: &Pod| cluster.signal_container(pod, SIDECAR, Signal::KILL);
        let leader = group.await_leader()?;
        under_load("leader killed", cluster, group, CALM, || kill(&leader))?;
        group.await_members(5)?;
        let holder = group.followers()?[0].clone();
        under_load("follower killed", cluster, group, CALM, || kill(&holder))?;
        group.await_members(5)
    })
}

/// One of three can seal nothing: it waits until the promises of the dead would have ended.
#[test]
fn two_of_three_sidecars_are_killed_at_once() -> Result<()> {
    with_group("faults-kill-two", BRIEF, 3, |cluster, group| {
        let kill = |pod: &Pod| cluster.signal_container(pod, SIDECAR, Signal::KILL);
        let leader = group.await_leader()?;
        let follower = group.followers()?[0].clone();
        let calm = Duration::from_secs(25);
        under_load("two of three killed", cluster, group, calm, || {
            kill(&leader).and_then(|()| kill(&follower))
        })?;
        group.await_members(3)
    })
}

/// The third leader knows by seals what the first and the second granted, so nobody waits for a member lease.
#[test]
fn two_leaders_are_killed_three_seconds_apart() -> Result<()> {
    with_group("faults-kill-again", "{}", 5, |cluster, group| {
        for round in 0..rounds(2) {
            let mut killed: Vec<Pod> = Vec::new();
            for pause in [3, 0] {
                let leader = group.await_leader()?;
                cluster.signal_container(&leader, SIDECAR, Signal::KILL)?;
                killed.push(leader);
                thread::sleep(Duration::from_secs(pause));
            }
            let begin = Instant::now();
            let living = |pod: &Pod| killed.iter().all(|other| other.uid != pod.uid);
            let pod = group.pods()?.into_iter().find(living).context("three live")?;
            let grant = group.lock(&pod, &format!("unused-{round}"), "30s")?;
            let took = begin.elapsed();
            println!("two leaders killed: a lock that nobody held {} ms later", took.as_millis());
            ensure!(took < Duration::from_secs(5), "nothing was granted for {took:?}");
            group.unlock(&pod, &grant)?;
            // A container that ends again is started later each time.
            for pod in killed {
                group.namespace.kubectl(&["delete", "pod", &pod.name])?;
            }
            group.await_members(5)?;
        }
        Ok(())
    })
}

/// So many times, or as often as somebody wants to see it.
fn rounds(usual: usize) -> usize {
    let wanted = std::env::var("CONCLAVE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    wanted.unwrap_or(usual)
}

/// In order, however they end: scaled to zero and back, or deleted while others start. So many rounds
/// (`CONCLAVE_ROUNDS`), with the usual waits.
#[test]
fn all_pods_go_and_come_back() -> Result<()> {
    with_group("faults-scale", "{}", 1, |_, group| {
        for round in 0..rounds(4) {
            let pods = [3, 1, 5, 2][round % 4];
            let deleted = round / 4 % 2 == usize::from(round % 2 == 1);
            come_back(group, pods, deleted)
                .with_context(|| format!("round {round}, {pods} pods"))?;
        }
        Ok(())
    })
}

fn come_back(group: &Group<'_>, size: usize, deleted: bool) -> Result<()> {
    scale(group, size)?;
    let old = group.pods()?;
    let held = group.lock(&old[0], "held", "30s")?;
    let free = group.lock(&old[size - 1], "free", "30s")?;
    group.unlock(&old[size - 1], &free)?;
    if deleted {
        group.namespace.kubectl(&["delete", "pods", "-l", "app=shop", "--wait=false"])?;
    } else {
        replicas(group, 0)?;
        let gone = ["wait", "pods", "-l", "app=shop", "--for=delete", "--timeout=90s"];
        group.namespace.kubectl(&gone)?;
        replicas(group, size)?;
    }
    let next = wait::until("a pod that is in a view", SOON, || {
        let is_new = |pod: &Pod| old.iter().all(|other| other.uid != pod.uid);
        let new: Vec<Pod> = group.pods()?.into_iter().filter(is_new).collect();
        let is_in_view = |pod: &Pod| {
            let answer = group.get(pod, "/v1/members");
            answer.is_ok_and(|answer| {
                answer.body["members"].as_array().is_some_and(|all| !all.is_empty())
            })
        };
        new.into_iter().find(is_in_view).context("none of the new ones is")
    })?;
    let asked = Timestamp::now();
    let again = group.lock(&next, "free", "90s")?;
    let granted = Timestamp::now();
    ensure!(again.number("token")? > free.number("token")?, "{free:?}, then {again:?}");
    let is_new = |pod: &Pod| old.iter().all(|other| other.uid != pod.uid);
    let new: Vec<Pod> = group.pods()?.into_iter().filter(is_new).collect();
    let first = |what| -> Result<Timestamp> {
        let times = new.iter().map(|pod| logged(group, pod, what)).collect::<Result<Vec<_>>>()?;
        times.into_iter().min().context("no pod is new")
    };
    let (begun, led) = (first("\"a new certificate\"")?, first("\"view\"")?);
    println!(
        "{size} pods, deleted: {deleted}: a leader after {:?}, asked after {:?}, granted after {:?}",
        begun.duration_until(led),
        begun.duration_until(asked),
        begun.duration_until(granted)
    );
    ensure!(begun.duration_until(led) <= BACK, "no leader for {:?}", begun.duration_until(led));
    // A caller that asks later need not wait at all. What `kubectl` takes beside that is no wait.
    let late = begun.duration_until(granted) > BACK && again.took > AT_ONCE;
    ensure!(!late, "nothing was granted for {:?}: {again:?}", begun.duration_until(granted));
    let freed = group.lock(&next, "held", "60s")?;
    ensure!(freed.number("token")? > held.number("token")?, "{held:?}, then {freed:?}");
    group.unlock(&next, &freed)?;
    group.unlock(&next, &again)
}

/// From the first certificate of those that come back to their leader and to a grant.
const BACK: SignedDuration = SignedDuration::from_secs(3);

/// What a request takes that need not wait, on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(1);

/// When the sidecar of a pod first logged something, which it will if it has not yet.
fn logged(group: &Group<'_>, pod: &Pod, what: &str) -> Result<Timestamp> {
    let arguments = ["logs", &pod.name, "--container", SIDECAR, "--timestamps"];
    wait::until(what, SOON, || {
        let log = group.namespace.kubectl(&arguments)?;
        let line = log.lines().find(|line| line.contains(what));
        let time = line.and_then(|line| line.split(' ').next());
        Ok(time.with_context(|| format!("{} has not logged it", pod.name))?.parse()?)
    })
}

/// All at once, without a word.
#[test]
fn all_pods_are_deleted_by_force() -> Result<()> {
    with_group("faults-force", BRIEF, 5, |_, group| {
        let pods = group.pods()?;
        let last = group.lock(&pods[2], "second", "5s")?;
        let delete = ["delete", "pods", "-l", "app=shop", "--grace-period=0", "--force"];
        group.namespace.kubectl(&delete)?;
        let begin = Instant::now();
        group.await_members(5)?;
        let pods = group.pods()?;
        // apiOutage, leaderLease, an election and memberLease of BRIEF, and the start of pods.
        let after = group.lock(&pods[0], "second", "30s")?;
        println!("all pods deleted by force: a grant after {:.1?}", begin.elapsed());
        ensure!(after.number("token")? > last.number("token")?, "{last:?}, then {after:?}");
        Ok(())
    })
}

#[test]
fn rollouts_leave_no_long_hole_without_a_leader() -> Result<()> {
    with_group("faults-rollout", "{}", 3, |cluster, group| {
        let name = group.namespace.name().to_owned();
        let watch = LeaderWatch::start([LEADS_GROUP], move || pods_of(&name));
        group.namespace.kubectl(&["rollout", "restart", "deployment/shop"])?;
        group.namespace.await_deployment("shop")?;
        group.await_members(3)?;
        thread::sleep(Duration::from_secs(2));
        let [hole] = watch.longest_holes()?;
        println!("rolling update: at most {} ms without a leader", hole.as_millis());
        ensure!(hole < Duration::from_secs(3), "{hole:?} without a leader");

        let held = group.lock(&group.pods()?[0], "across", "5s")?;
        let recreate = r#"{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}"#;
        group.namespace.kubectl(&["patch", "deployment/shop", "--patch", recreate])?;
        group.namespace.kubectl(&["rollout", "restart", "deployment/shop"])?;
        group.namespace.await_deployment("shop")?;
        group.await_members(3)?;
        let pods = group.pods()?;
        let next = group.lock(&pods[0], "across", "15s")?;
        ensure!(next.number("token")? > held.number("token")?, "{held:?}, then {next:?}");
        let load = Load::start(cluster, &pods, HandOvers::None)?;
        thread::sleep(CALM);
        load.end()?.check()
    })
}

fn pods_of(namespace: &str) -> Result<Vec<Pod>> {
    Cluster::from_env()?.pods_in(namespace, "app=shop")
}

#[test]
fn the_network_is_cut() -> Result<()> {
    with_group("faults-cut", FAST, 5, |cluster, group| {
        for (name, cut) in
            [("leader hears nobody", Cut::Incoming), ("leader is not heard", Cut::Outgoing)]
        {
            let leader = group.await_leader()?;
            under_load(name, cluster, group, CALM, || cluster.cut(&leader, cut))?;
            cluster.heal(&leader)?;
            group.await_members(5)?;
        }
        // The leader and one follower on one side, three on the other, which has the majority.
        let leader = group.await_leader()?;
        let followers = group.followers()?;
        let minority = [leader, followers[0].clone()];
        let majority: Vec<_> = followers[1..].iter().map(|pod| pod.address).collect();
        under_load("leader in the minority", cluster, group, CALM, || {
            minority.iter().try_for_each(|pod| cluster.cut_from(pod, Cut::Both, &majority))
        })?;
        minority.iter().try_for_each(|pod| cluster.heal(pod))?;
        group.await_members(5)
    })
}

#[test]
fn a_sidecar_is_stopped_for_longer_than_its_lease() -> Result<()> {
    with_group("faults-stop", FAST, 5, |cluster, group| {
        for leads in [true, false] {
            let leader = group.await_leader()?;
            let stopped = if leads { leader } else { group.followers()?[0].clone() };
            let held = group.lock(&stopped, "stalled", "5s")?;
            let signal = |signal| cluster.signal_container(&stopped, SIDECAR, signal);
            let name = if leads { "leader stopped" } else { "follower stopped" };
            under_load(name, cluster, group, CALM, || {
                signal(Signal::STOP)?;
                thread::sleep(Duration::from_secs(5));
                signal(Signal::CONT)
            })?;
            ensure!(group.check(&stopped, &held)? == 410, "it still holds after its lease");
            group.await_members(5)?;
        }
        Ok(())
    })
}

/// Scales the group, and waits until it has so many members.
fn scale(group: &Group<'_>, pods: usize) -> Result<()> {
    replicas(group, pods)?;
    group.await_members(pods)
}

fn replicas(group: &Group<'_>, pods: usize) -> Result<()> {
    let replicas = format!("--replicas={pods}");
    group.namespace.kubectl(&["scale", "deployment/shop", &replicas])?;
    wait::until("the pods", SOON, || {
        let there = group.pods()?.len();
        ensure!(there == pods, "there are {there} pods");
        Ok(())
    })
}
