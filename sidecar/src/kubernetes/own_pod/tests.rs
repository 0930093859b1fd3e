//! Reports of a kubelet, and what they say of the application.

use serde_json::{Value, json};

use super::*;

fn container(name: &str, count: u32, state: &Value, last: &Value) -> Value {
    json!({
        "name": name, "state": state, "lastState": last,
        "image": "i", "imageID": "", "ready": false, "restartCount": count,
    })
}

fn running() -> Value {
    json!({"running": {}})
}

fn over(code: u32) -> Value {
    json!({"terminated": {"exitCode": code, "finishedAt": "2026-11-26T04:00:00Z"}})
}

fn waiting() -> Value {
    json!({"waiting": {"reason": "CrashLoopBackOff"}})
}

fn pod(policy: &str, containers: &[Value]) -> Pod {
    let pod = json!({
        "metadata": {},
        "spec": {"restartPolicy": policy, "containers": []},
        "status": {
            "containerStatuses": containers,
            "initContainerStatuses": [
                container("conclave", 0, &running(), &json!({})),
                container("proxy", 0, &running(), &json!({})),
                container("first", 0, &over(0), &json!({})),
            ],
        },
    });
    serde_json::from_value(pod).expect("a pod")
}

/// What each of these looks at one container shows: whether it runs, and whether it ended since.
fn looks(policy: &str, looks: &[(u32, Value, Value)]) -> Vec<(Containers, bool)> {
    let mut seen = EndedProcesses::default();
    let look = |(count, state, last): &(u32, Value, Value)| {
        let report = seen.read(&pod(policy, &[container("till", *count, state, last)]), None);
        (report.containers, report.ended.is_some())
    };
    looks.iter().map(look).collect()
}

const RUNS: (Containers, bool) = (Containers::Running, false);
const STOPPED: (Containers, bool) = (Containers::Stopped, false);

#[test]
fn the_end_of_a_process_is_noticed_once_however_it_is_reported() {
    let none = json!({});
    let begun = [
        (0, json!({"waiting": {"reason": "ContainerCreating"}}), none.clone()),
        (0, running(), none.clone()),
    ];
    // Seen at each step.
    let steps = [
        (0, over(1), none),
        (0, waiting(), over(1)),
        (1, running(), over(1)),
        (1, over(137), over(1)),
        (2, running(), over(137)),
    ];
    let all = [&begun[..], &steps].concat();
    let ended = (Containers::Stopped, true);
    assert_eq!(looks("Always", &all), [STOPPED, RUNS, ended, STOPPED, RUNS, ended, RUNS]);
    // Seen when it runs again.
    let quick = [&begun[..], &[(1, running(), over(1)), (3, running(), over(1))]].concat();
    let again = (Containers::Running, true);
    assert_eq!(looks("Always", &quick), [STOPPED, RUNS, again, again]);
}

#[test]
fn what_was_over_before_the_first_look_counts_for_what_was_asked_before_it() {
    for first in [(4, running(), over(1)), (4, waiting(), over(1)), (4, over(1), json!({}))] {
        assert!(looks("Always", &[first])[0].1);
    }
    assert!(!looks("Always", &[(4, running(), json!({}))])[0].1, "nobody knows when it was");
}

#[test]
fn of_a_container_that_cannot_be_found_nothing_is_known() {
    let unknown = json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}});
    let all = [(0, running(), json!({})), (0, unknown, json!({})), (1, running(), json!({}))];
    assert_eq!(looks("Always", &all), [RUNS, STOPPED, (Containers::Running, true)]);
}

#[test]
fn a_task_that_is_done_stops_nothing_while_another_container_runs() {
    for (policy, code, containers) in [
        ("Always", 0, Containers::Stopped),
        ("OnFailure", 0, Containers::Running),
        ("OnFailure", 1, Containers::Stopped),
        ("Never", 0, Containers::Running),
        ("Never", 1, Containers::Stopped),
    ] {
        let mut seen = EndedProcesses::default();
        let mut look = |state: &Value| {
            let till = container("till", 0, &running(), &json!({}));
            seen.read(&pod(policy, &[till, container("task", 0, state, &json!({}))]), None)
        };
        assert_eq!(look(&running()).containers, Containers::Running);
        let report = look(&over(code));
        assert_eq!(report.containers, containers, "{policy} {code}");
        let is_done = containers == Containers::Running;
        assert_eq!(report.ended.is_none(), is_done, "it may have been the one that led");
    }
    let mut seen = EndedProcesses::default();
    let done = container("till", 0, &over(0), &json!({}));
    assert_eq!(
        seen.read(&pod("Never", std::slice::from_ref(&done)), None).containers,
        Containers::Stopped
    );
    let other = container("logs", 0, &running(), &json!({}));
    for (containers, only, ended) in [
        (vec![done.clone()], None, true),
        (vec![done.clone(), other.clone()], None, false),
        (vec![done, other], Some("till"), true),
    ] {
        let report = EndedProcesses::default().read(&pod("Never", &containers), only);
        assert_eq!(report.ended.is_some(), ended, "{containers:?}");
    }
}

#[test]
fn the_application_is_the_container_that_is_named_or_all_but_those_of_the_beginning() {
    let restarted = |name: &str, other: &str| {
        let mut seen = EndedProcesses::default();
        let mut look = |count| {
            let one = container(name, count, &running(), &json!({}));
            seen.read(
                &pod("Always", &[one, container(other, 0, &running(), &json!({}))]),
                Some("till"),
            )
        };
        look(0);
        look(1).ended.is_some()
    };
    assert!(restarted("till", "logs") && !restarted("logs", "till"));
    let mut seen = EndedProcesses::default();
    let empty = pod("Always", &[]);
    assert_eq!(seen.read(&empty, None).containers, Containers::Unknown);
    assert_eq!(
        seen.read(&empty, Some("proxy")).containers,
        Containers::Running,
        "a native sidecar"
    );
}

#[test]
fn what_was_asked_in_the_second_of_the_end_counts_as_asked_before_it() {
    let now = LocalTime(60_000_000_000);
    let end = Time("2026-11-26T04:00:00Z".parse().expect("a time"));
    let wall = |milliseconds: i64| {
        let of_end = i64::try_from(end.0.as_nanosecond()).expect("it fits");
        at(&End::At(end.clone()), of_end + milliseconds * 1_000_000, now).0
    };
    assert_eq!(wall(3_500), now.0 - 2_500_000_000, "2.5 s ago at the latest");
    for unclear in [1_000, 999, 0, -3_600_000] {
        assert_eq!(wall(unclear), now.0, "{unclear}");
    }
    assert_eq!(at(&End::Unknown, 0, now), now, "when it was is not reported");
    assert_eq!(at(&End::At(end), i64::MAX, LocalTime(5)), LocalTime(0));
}
