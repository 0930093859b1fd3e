//! How long a named election is without a leader when its leader is killed, on the cluster.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_testbed::cluster::{Cluster, Pod, Signal};
use conclave_testbed::wait;

use super::failover::LOSSES;
use super::print;
use crate::load::{Habit, HandOvers, Load};
use crate::product::{Group, SIDECAR};

/// The election.
const NAME: &str = "reports";

/// Which pods stand in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Candidates {
    /// All but the group's own leader, which is never killed.
    Followers,
    /// All; one of them leads the election and the group.
    All,
}

/// Fifty kills of each kind in a group of five pods, whose applications ask over and over whether they lead.
pub(super) fn run(cluster: &Cluster, profile: &str, timing: &str) -> Result<()> {
    let spec = format!("{{{timing} elections: [{{name: {NAME}}}]}}");
    cluster.in_namespace(&format!("bench-named-{profile}"), |namespace| {
        let group = Group::form(namespace, &spec, 5)?;
        lose_leaders(cluster, &group, profile, Candidates::Followers)?;
        lose_leaders(cluster, &group, profile, Candidates::All)
    })
}

fn lose_leaders(
    cluster: &Cluster,
    group: &Group<'_>,
    profile: &str,
    candidates: Candidates,
) -> Result<()> {
    let mut load = Load::new(HandOvers::None);
    let (mut losses, mut both) = (Vec::new(), 0);
    let mut known = BTreeSet::new();
    for _ in 0..LOSSES {
        group.await_members(5)?;
        let leads_group = group.await_leader()?;
        for pod in group.pods()? {
            let stands = candidates == Candidates::All || pod.uid != leads_group.uid;
            if stands && known.insert(pod.uid.clone()) {
                stand(group, &pod)?;
                load.add(cluster, &pod, &[Habit::Watches(NAME.to_owned())])?;
            }
        }
        let wanted = if candidates == Candidates::All { 5 } else { 4 };
        let (leader, token) = settled(group, &leads_group, wanted)?;
        thread::sleep(Duration::from_secs(1));
        both += usize::from(leader.uid == leads_group.uid);
        let process = cluster.process(&leader, SIDECAR)?;
        let at = load.now();
        process.signal(Signal::KILL)?;
        losses.push((at, token));
        thread::sleep(Duration::from_secs(3));
        // Its container would be started again later and later; another pod starts at once.
        let delete = ["delete", "pod", &leader.name, "--grace-period=0", "--force"];
        group.namespace.kubectl(&delete)?;
    }
    let diary = load.end()?;
    diary.check_leads()?;
    let times: Result<Vec<_>> =
        losses.iter().map(|(at, token)| diary.next_leader(*at, *token)).collect();
    let whom = match candidates {
        Candidates::Followers => "a named leader".to_owned(),
        Candidates::All => format!("a named leader, {both} times also the group's"),
    };
    print(
        &format!("{profile} profile, SIGKILL of {whom}: another leads, and its application knows"),
        times?,
    );
    Ok(())
}

fn stand(group: &Group<'_>, pod: &Pod) -> Result<()> {
    let path = format!("/v1/elections/{NAME}/candidacy");
    let answer = group.call(pod, "PUT", &path)?;
    ensure!((200..300).contains(&answer.status), "{answer:?}");
    Ok(())
}

/// Who leads, with which token, once that many stand.
fn settled(group: &Group<'_>, asked: &Pod, candidates: u64) -> Result<(Pod, u64)> {
    let path = format!("/v1/elections/{NAME}");
    wait::until("a leader of them", Duration::from_secs(60), || {
        let seen = group.get(asked, &path)?;
        ensure!(seen.number("candidates")? == candidates, "{seen:?}");
        let uid = seen.body["leader"]["uid"].as_str().context("nobody leads")?;
        let pods = group.pods()?;
        let leader = pods.into_iter().find(|pod| pod.uid == uid).context("it is gone")?;
        let own = group.get(&leader, &path)?;
        Ok((leader, own.number("token")?))
    })
}
