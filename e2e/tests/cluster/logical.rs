//! Logical clocks of three pods: a message goes from one to the next, and the stamps show what happened before what.

use anyhow::{Context, Result, ensure};
use conclave_e2e::product::{Answer, Group, SIDECAR, SOON};
use conclave_testbed::cluster::{Cluster, Pod, Signal};
use conclave_testbed::wait;
use serde_json::{Value, json};

const KINDS: [&str; 3] = ["Lamport", "Vector", "Hybrid"];

#[test]
fn pods_that_send_stamps_along_see_what_happened_before_what() -> Result<()> {
    let cluster = Cluster::from_env()?;
    cluster.in_namespace("logical-clocks", |namespace| {
        let group = Group::start(namespace, "{}", 3)?;
        let pods = group.pods()?;
        await_hybrid(&group, &pods)?;
        for kind in KINDS {
            a_message_goes_through_all_pods(&group, &pods, kind)?;
        }
        a_stamp_from_a_wrong_clock_is_refused(&group, &pods[0])?;
        if cluster.is_ours_or_skip("a crash of a sidecar") {
            another_process_goes_on(&group, &pods[1])?;
        }
        Ok(())
    })
}

/// Hybrid clocks go as soon as the group time is known everywhere.
fn await_hybrid(group: &Group<'_>, pods: &[Pod]) -> Result<()> {
    wait::until("hybrid clocks", SOON, || {
        for pod in pods {
            let answer = group.post(pod, "/v1/clocks/begun/tick?kind=Hybrid")?;
            ensure!(answer.status == 200, "{}: {answer:?}", pod.name);
        }
        Ok(())
    })
}

/// The first pod sends to the second, which sends to the third. Meanwhile the first has an event that neither hears of.
fn a_message_goes_through_all_pods(group: &Group<'_>, pods: &[Pod], kind: &str) -> Result<()> {
    let [first, second, third] = pods else { anyhow::bail!("there are {} pods", pods.len()) };
    let sent = tick(group, first, kind)?;
    let alone = tick(group, first, kind)?;
    let received = receive(group, second, kind, &sent)?;
    let forwarded = tick(group, second, kind)?;
    let last = receive(group, third, kind, &forwarded)?;
    let chain = [&sent, &received, &forwarded, &last];
    for (place, one) in chain.iter().enumerate() {
        for later in &chain[place + 1..] {
            // Every pod can compare two stamps, whichever pods they are of.
            for pod in pods {
                ensure!(order(group, pod, one, later)? == "before", "{one} and {later}");
                ensure!(order(group, pod, later, one)? == "after", "{later} and {one}");
            }
        }
    }
    if kind == "Vector" {
        for of_others in [&received, &forwarded, &last] {
            let shown = order(group, third, &alone, of_others)?;
            ensure!(shown == "concurrent", "{shown}: {alone} and {of_others}");
        }
    }
    Ok(())
}

/// A stamp that is an hour ahead would take all clocks along.
fn a_stamp_from_a_wrong_clock_is_refused(group: &Group<'_>, pod: &Pod) -> Result<()> {
    let mut stamp = tick(group, pod, "Hybrid")?;
    let time: u64 = stamp["time"].as_str().context("a hybrid stamp has a time")?.parse()?;
    stamp["time"] = json!((time + (3_600 << 32)).to_string());
    let answer = post(group, pod, "/v1/clocks/Hybrid/receive", &json!({ "stamp": stamp }))?;
    ensure!(answer.status == 409, "{answer:?}");
    let kind = answer.text("type")?;
    ensure!(kind.ends_with("/stamp-ahead"), "{kind}");
    Ok(())
}

/// A sidecar that starts anew has no clocks. Its hybrid stamps are later than those of its earlier process all the same.
fn another_process_goes_on(group: &Group<'_>, pod: &Pod) -> Result<()> {
    let before = group.post(pod, "/v1/clocks/Hybrid/tick?kind=Hybrid")?;
    ensure!(before.status == 200, "{before:?}");
    let vector = tick(group, pod, "Vector")?;
    group.namespace.cluster().signal_container(pod, SIDECAR, Signal::KILL)?;
    let after = wait::until("hybrid stamps of the sidecar's next process", SOON, || {
        let after = group.post(pod, "/v1/clocks/Hybrid/tick?kind=Hybrid")?;
        ensure!(after.status == 200, "{after:?}");
        ensure!(after.text("process")? != before.text("process")?, "the process has not ended");
        Ok(after)
    })?;
    let shown = order(group, pod, &before.body["stamp"], &after.body["stamp"])?;
    ensure!(shown == "before", "{shown}: {before:?} and {after:?}");
    let other = tick(group, pod, "Vector")?;
    ensure!(order(group, pod, &vector, &other)? == "concurrent", "{vector} and {other}");
    let informed = receive(group, pod, "Vector", &vector)?;
    ensure!(order(group, pod, &vector, &informed)? == "before", "{vector} and {informed}");
    Ok(())
}

/// The stamp of an event of a pod. The clock has the name of its kind.
fn tick(group: &Group<'_>, pod: &Pod, kind: &str) -> Result<Value> {
    let answer = group.post(pod, &format!("/v1/clocks/{kind}/tick?kind={kind}"))?;
    stamp(&answer)
}

/// The stamp of the receipt of another.
fn receive(group: &Group<'_>, pod: &Pod, kind: &str, sent: &Value) -> Result<Value> {
    let path = format!("/v1/clocks/{kind}/receive");
    stamp(&post(group, pod, &path, &json!({ "stamp": sent }))?)
}

fn stamp(answer: &Answer) -> Result<Value> {
    ensure!(answer.status == 200, "{answer:?}");
    Ok(answer.body["stamp"].clone())
}

/// How one stamp stands to another, as a pod answers.
fn order(group: &Group<'_>, pod: &Pod, a: &Value, b: &Value) -> Result<String> {
    let answer = post(group, pod, "/v1/clocks/compare", &json!({ "a": a, "b": b }))?;
    ensure!(answer.status == 200, "{answer:?}");
    answer.text("order").map(str::to_owned)
}

fn post(group: &Group<'_>, pod: &Pod, path: &str, body: &Value) -> Result<Answer> {
    group.call_with(pod, "POST", path, &[], &body.to_string())
}
