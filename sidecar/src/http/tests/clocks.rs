//! Logical clocks.

use std::time::Duration;

use axum::Router;
use serde_json::{Value, json};

use super::double::*;
use super::time::synchronise;
use crate::clocks::{CLOCKS_MAX, Kind};

/// A pod: its calls reach the same clocks.
struct Pod {
    double: Double,
    router: Router,
}

impl Pod {
    fn new() -> Self {
        let double = Double::new();
        let router = double.router();
        Self { double, router }
    }

    async fn get(&self, path: &str) -> Answer {
        answer(self.router.clone(), request(&format!("GET {path}"), &[], "")).await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        answer(self.router.clone(), request(&format!("POST {path}"), &[], &body)).await
    }

    /// The stamp of the next event of a clock.
    async fn tick(&self, kind: &str) -> Value {
        let answer = self.post(&format!("/v1/clocks/{kind}/tick?kind={kind}"), &Value::Null).await;
        assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
        answer.json()["stamp"].clone()
    }

    /// The stamp of the receipt of another.
    async fn receive(&self, stamp: &Value) -> Value {
        let kind = stamp["kind"].as_str().expect("a kind");
        let path = format!("/v1/clocks/{kind}/receive");
        let answer = self.post(&path, &json!({ "stamp": stamp })).await;
        assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
        answer.json()["stamp"].clone()
    }

    async fn compare(&self, a: &Value, b: &Value) -> Value {
        let answer = self.post("/v1/clocks/compare", &json!({ "a": a, "b": b })).await;
        assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
        answer.json()
    }

    /// Waits until hybrid clocks go.
    async fn begin_hybrid(&self) {
        synchronise(&self.double);
        let going = async {
            while self.post("/v1/clocks/begun/tick?kind=Hybrid", &Value::Null).await.status != 200 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        soon(going).await;
    }

    fn counted(&self, line: &str) -> bool {
        let text = self.double.metrics.scrape(&self.double.group);
        let line = line.replace('}', r#",group="orders"}"#);
        text.lines().any(|one| one == line)
    }
}

#[tokio::test]
async fn an_event_steps_the_clock_and_a_look_does_not() {
    let pod = Pod::new();
    let none = pod.get("/v1/clocks/orders").await;
    assert_eq!((none.status.as_u16(), none.problem().as_str()), (404, "not-found"));
    let first = pod.post("/v1/clocks/orders/tick?kind=Lamport", &Value::Null).await.json();
    assert_eq!((&first["clock"], &first["kind"]), (&json!("orders"), &json!("Lamport")));
    assert_eq!(
        (&first["stamp"]["counter"], &first["stamp"]["kind"]),
        (&json!(1), &json!("Lamport"))
    );
    assert_eq!(first["stamp"]["process"], first["process"]);
    assert!(first["process"].as_str().is_some_and(|p| p.starts_with("shop-0/")), "{first}");
    let second = pod.post("/v1/clocks/orders/tick", &Value::Null).await.json();
    assert_eq!(second["stamp"]["counter"], 2);
    for _ in 0..2 {
        assert_eq!(pod.get("/v1/clocks/orders").await.json(), second);
    }
    let third = pod.post("/v1/clocks/orders/tick", &json!({"kind": "Lamport"})).await.json();
    assert_eq!(third["stamp"]["counter"], 3);
    assert!(pod.counted(r#"conclave_logical_events_total{event="tick",kind="Lamport"} 3"#));
    assert!(pod.counted(r#"conclave_logical_clocks{kind="Lamport"} 1"#));
}

#[test]
fn everything_is_counted_from_0_on() {
    let pod = Pod::new();
    for kind in Kind::ALL.map(Kind::name) {
        assert!(pod.counted(&format!(r#"conclave_logical_clocks{{kind="{kind}"}} 0"#)));
        for event in ["tick", "receive"] {
            let events = format!(r#"{{event="{event}",kind="{kind}"}} 0"#);
            assert!(pod.counted(&format!("conclave_logical_events_total{events}")), "{events}");
        }
    }
    for reason in ["ahead", "untrue", "exhausted", "vector-full", "kind", "clocks", "time"] {
        let refused = format!(r#"conclave_logical_stamps_refused_total{{reason="{reason}"}} 0"#);
        assert!(pod.counted(&refused), "{refused}");
    }
}

#[tokio::test]
async fn the_kind_is_stated_at_the_first_event_and_is_no_other_later() {
    let pod = Pod::new();
    let first = pod.post("/v1/clocks/orders/tick", &Value::Null).await;
    assert_eq!((first.problem().as_str(), &first.json()["field"]), ("invalid", &json!("kind")));
    let wrong = pod.post("/v1/clocks/orders/tick?kind=lamport", &Value::Null).await;
    assert_eq!((wrong.problem().as_str(), &wrong.json()["field"]), ("invalid", &json!("kind")));
    let begun = pod.post("/v1/clocks/orders/tick?kind=Vector", &Value::Null).await;
    assert_eq!(begun.status.as_u16(), 200);
    let differs = pod.post("/v1/clocks/orders/tick?kind=Lamport", &Value::Null).await;
    assert_eq!((differs.status.as_u16(), differs.problem().as_str()), (409, "kind-differs"));
    let stamp = json!({"kind": "Lamport", "counter": 1, "process": "shop-1/2e"});
    let differs = pod.post("/v1/clocks/orders/receive", &json!({ "stamp": stamp })).await;
    assert_eq!((differs.status.as_u16(), differs.problem().as_str()), (409, "kind-differs"));
    assert!(pod.counted(r#"conclave_logical_stamps_refused_total{reason="kind"} 1"#));
    assert_eq!(pod.get("/v1/clocks/orders").await.json()["stamp"], begun.json()["stamp"]);
}

#[tokio::test]
async fn what_is_sent_has_a_smaller_stamp_than_its_receipt() {
    let (one, two) = (Pod::new(), Pod::new());
    one.begin_hybrid().await;
    two.begin_hybrid().await;
    for (kind, exact) in [("Lamport", false), ("Vector", true), ("Hybrid", false)] {
        let sent = one.tick(kind).await;
        let received = two.receive(&sent).await;
        let compared = two.compare(&sent, &received).await;
        assert_eq!(compared, json!({"kind": kind, "order": "before", "exact": exact}));
        assert_eq!(two.compare(&received, &sent).await["order"], "after");
        assert_eq!(two.compare(&sent, &sent).await["order"], "equal");
        let line = format!(r#"conclave_logical_events_total{{event="receive",kind="{kind}"}} 1"#);
        assert!(two.counted(&line), "{line}");
    }
}

#[tokio::test]
async fn vectors_show_what_is_concurrent_and_know_each_process_by_its_name() {
    let (one, two) = (Pod::new(), Pod::new());
    let (a, b) = (one.tick("Vector").await, two.tick("Vector").await);
    assert_eq!(one.compare(&a, &b).await["order"], "concurrent");
    let after = one.receive(&b).await;
    let entries = after["entries"].as_object().expect("entries");
    // Both are processes of one pod.
    assert_eq!(entries.len(), 2);
    let mut counts: Vec<_> = entries.values().filter_map(Value::as_u64).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 2]);
    assert!(entries.keys().all(|process| process.starts_with("shop-0/")), "{after}");
    assert_eq!(one.compare(&b, &after).await["order"], "before");
}

#[tokio::test]
async fn a_hybrid_clock_waits_for_the_group_time_and_goes_by_it() {
    let pod = Pod::new();
    let unknown = pod.post("/v1/clocks/orders/tick?kind=Hybrid", &Value::Null).await;
    assert_eq!((unknown.status.as_u16(), unknown.problem().as_str()), (503, "time-unknown"));
    assert_eq!(unknown.header("retry-after"), Some("1"));
    assert!(pod.counted(r#"conclave_logical_clocks{kind="Hybrid"} 0"#));
    pod.begin_hybrid().await;
    let time = |stamp: &Value| stamp["time"].as_str().and_then(|t| t.parse::<u64>().ok()).unwrap();
    let (first, second) = (time(&pod.tick("Hybrid").await), time(&pod.tick("Hybrid").await));
    assert!(first < second);
    let shown = pod.get("/v1/time").await.json();
    let shown: u128 = shown["time_ns"].as_str().unwrap().parse().unwrap();
    let stamped = u128::from(second >> 16) * 1_000_000_000 / 65_536;
    assert!(shown.abs_diff(stamped) < 1_000_000_000, "{shown} {stamped}");
    // The member begins another life, in a group whose time may be behind.
    pod.double.life.send_replace(pod.double.group.os_clock().raw());
    let young = pod.post("/v1/clocks/Hybrid/tick", &Value::Null).await;
    assert_eq!((young.status.as_u16(), young.problem().as_str()), (503, "time-unknown"));
    pod.begin_hybrid().await;
    assert!(second < time(&pod.tick("Hybrid").await));
}

#[tokio::test]
async fn a_stamp_that_no_clock_of_the_group_can_show_is_refused_and_counted() {
    let pod = Pod::new();
    pod.begin_hybrid().await;
    let mine = pod.tick("Hybrid").await;
    let time: u64 = mine["time"].as_str().unwrap().parse().unwrap();
    let ahead = |seconds: u64| {
        let time = (time + (seconds << 32)).to_string();
        json!({"stamp": {"kind": "Hybrid", "time": time, "process": "shop-1/2e"}})
    };
    let refused = pod.post("/v1/clocks/Hybrid/receive", &ahead(100)).await;
    assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (409, "stamp-ahead"));
    let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((80..=100).contains(&after), "{after} s");
    assert!(refused.json()["detail"].as_str().unwrap().contains(" s later than any clock"));
    let most = json!({"kind": "Hybrid", "time": u64::MAX.to_string(), "process": "shop-1/2e"});
    let refused = pod.post("/v1/clocks/Hybrid/receive", &json!({ "stamp": most })).await;
    assert_eq!(
        (refused.header("retry-after"), refused.problem().as_str()),
        (Some("65535"), "stamp-ahead")
    );
    assert!(pod.counted(r#"conclave_logical_stamps_refused_total{reason="ahead"} 2"#));
    assert_eq!(pod.get("/v1/clocks/Hybrid").await.json()["stamp"], mine, "it moved nothing");
    let behind = json!({"kind": "Hybrid", "time": "0", "process": "shop-1/2e"});
    let next = pod.receive(&behind).await;
    assert_eq!(pod.compare(&mine, &next).await["order"], "before");
}

#[tokio::test]
async fn what_is_wrong_with_a_stamp_is_named() {
    let pod = Pod::new();
    let lamport = |counter: Value| json!({"kind": "Lamport", "counter": counter, "process": "a/1"});
    let vector = |entries: Value| json!({"kind": "Vector", "entries": entries});
    let hybrid = |time: Value| json!({"kind": "Hybrid", "time": time, "process": "a/1"});
    let crowd: serde_json::Map<_, _> = (0..257).map(|n| (format!("p/{n}"), json!(1))).collect();
    for (stamp, field) in [
        (Value::Null, "stamp"),
        (json!("42"), "stamp"),
        (json!([1]), "stamp"),
        (json!({}), "stamp.kind"),
        (json!({"kind": 1}), "stamp.kind"),
        (json!({"kind": "vector", "entries": {}}), "stamp.kind"),
        (lamport(json!(-1)), "stamp.counter"),
        (lamport(json!(1.5)), "stamp.counter"),
        (lamport(json!("1")), "stamp.counter"),
        (lamport(json!(9_007_199_254_740_992_u64)), "stamp.counter"),
        (json!({"kind": "Lamport", "counter": 1}), "stamp.process"),
        (json!({"kind": "Lamport", "counter": 1, "process": ""}), "stamp.process"),
        (json!({"kind": "Lamport", "counter": 1, "process": "a/1", "time": "1"}), "stamp.time"),
        (vector(json!([])), "stamp.entries"),
        (vector(json!({"a/1": "1"})), "stamp.entries.a/1"),
        (vector(json!({"": 1})), "stamp.entries."),
        (vector(Value::Object(crowd)), "stamp.entries"),
        (hybrid(json!(1)), "stamp.time"),
        (hybrid(json!("")), "stamp.time"),
        (hybrid(json!("+1")), "stamp.time"),
        (hybrid(json!("01")), "stamp.time"),
        (vector(json!({"a b": 1})), "stamp.entries.a b"),
        (vector(wide(86)), "stamp.entries"),
        (hybrid(json!("18446744073709551616")), "stamp.time"),
        (json!({"kind": "Hybrid", "time": "1", "process": "a\n"}), "stamp.process"),
    ] {
        let answer = pod.post("/v1/clocks/new/receive", &json!({ "stamp": stamp })).await;
        assert_eq!(answer.problem(), "invalid", "{stamp}");
        assert_eq!(answer.json()["field"], field, "{stamp}");
    }
    let more = json!({"stamp": lamport(json!(1)), "kind": "Lamport"});
    let answer = pod.post("/v1/clocks/new/receive", &more).await;
    assert_eq!((answer.problem().as_str(), &answer.json()["field"]), ("invalid", &json!("kind")));
    assert_eq!(pod.get("/v1/clocks/new").await.status.as_u16(), 404, "none of it was an event");
    let two = json!({"a": lamport(json!(1)), "b": hybrid(json!("1"))});
    let answer = pod.post("/v1/clocks/compare", &two).await;
    assert_eq!((answer.problem().as_str(), &answer.json()["field"]), ("invalid", &json!("b")));
    let one = pod.post("/v1/clocks/compare", &json!({"a": lamport(json!(1))})).await;
    assert_eq!((one.problem().as_str(), &one.json()["field"]), ("invalid", &json!("b")));
}

#[tokio::test]
async fn a_vector_clock_refuses_what_it_cannot_know_and_what_it_has_no_room_for() {
    let pod = Pod::new();
    let mine = pod.tick("Vector").await;
    let process = mine["entries"].as_object().unwrap().keys().next().unwrap().clone();
    let of = |entries: Value| json!({"stamp": {"kind": "Vector", "entries": entries}});
    let untrue = pod.post("/v1/clocks/Vector/receive", &of(json!({process: 2}))).await;
    assert_eq!((untrue.problem().as_str(), &untrue.json()["field"]), ("invalid", &json!("stamp")));
    assert!(pod.counted(r#"conclave_logical_stamps_refused_total{reason="untrue"} 1"#));
    let crowd: serde_json::Map<_, _> = (0..256).map(|n| (format!("p/{n}"), json!(1))).collect();
    let full = pod.post("/v1/clocks/Vector/receive", &of(Value::Object(crowd))).await;
    assert_eq!((full.status.as_u16(), full.problem().as_str()), (409, "vector-full"));
    assert_eq!(full.json()["field"], "stamp.entries");
    assert!(full.json()["detail"].as_str().unwrap().contains("at most 256 processes, and 24576"));
    assert!(pod.counted(r#"conclave_logical_stamps_refused_total{reason="vector-full"} 1"#));
    assert_eq!(pod.get("/v1/clocks/Vector").await.json()["stamp"], mine);
    let zero = pod.post("/v1/clocks/Vector/receive", &of(json!({"p/1": 0}))).await.json();
    assert_eq!(zero["stamp"]["entries"].as_object().map(serde_json::Map::len), Some(1));
}

/// So many entries of 288 bytes.
fn wide(count: usize) -> Value {
    let entry = |n: usize| (format!("{n:0>268}"), json!(9_007_199_254_740_991_u64));
    Value::Object((0..count).map(entry).collect())
}

/// A vector that has grown as large as it may be can still be sent, and compared with another.
#[tokio::test]
async fn two_vectors_of_the_largest_size_fit_a_body() {
    let pod = Pod::new();
    let large = json!({"kind": "Vector", "entries": wide(85)});
    let grown = pod.receive(&large).await;
    let other = json!({"kind": "Vector", "entries": {"q".repeat(80): 1}});
    let path = "/v1/clocks/Vector/receive";
    let grown_most = pod.receive(&json!({"kind": "Vector", "entries": {"shop-1/2e": 1}})).await;
    let full = pod.post(path, &json!({ "stamp": other })).await;
    assert_eq!(full.problem(), "vector-full", "{full:?}");
    let grown_most = pod.receive(&grown_most).await;
    assert!(grown_most.to_string().len() > 24_000, "{}", grown_most.to_string().len());
    assert_eq!(pod.compare(&grown, &grown_most).await["order"], "before");
}

#[tokio::test]
async fn a_clock_that_is_deleted_makes_room_and_another_of_its_name_gives_other_stamps() {
    let pod = Pod::new();
    let delete = async |path: &str| {
        answer(pod.router.clone(), request(&format!("DELETE {path}"), &[], ""))
            .await
            .status
            .as_u16()
    };
    for kind in ["Lamport", "Vector"] {
        let before = pod.tick(kind).await;
        let shown = pod.get(&format!("/v1/clocks/{kind}")).await.json();
        let listed = pod.get("/v1/clocks").await.json();
        let entry = json!({"clock": kind, "kind": kind, "process": shown["process"]});
        assert_eq!(listed, json!({ "clocks": [entry] }));
        let path = format!("/v1/clocks/{kind}");
        assert_eq!([delete(&path).await, delete(&path).await], [204, 204]);
        assert_eq!(pod.get(&path).await.status.as_u16(), 404);
        assert_eq!(pod.get("/v1/clocks").await.json(), json!({"clocks": []}));
        assert!(pod.counted(&format!(r#"conclave_logical_clocks{{kind="{kind}"}} 0"#)));
        let after = pod.tick(kind).await;
        let order = pod.compare(&before, &after).await["order"].clone();
        assert_ne!(order, "equal", "{before} {after}");
        assert_eq!(order == "concurrent", kind == "Vector");
        assert_eq!(delete(&path).await, 204);
    }
    assert_eq!(delete("/v1/clocks/compare").await, 405);
}

/// Whatever the order of the calls is, each has a step of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_at_once_get_different_stamps_that_rise() {
    const CALLS: usize = 64;
    let pod = Pod::new();
    pod.begin_hybrid().await;
    for kind in Kind::ALL.map(Kind::name) {
        let first = pod.tick(kind).await;
        let calls = (0..CALLS).map(|number| {
            let body = json!({ "stamp": first }).to_string();
            let (path, body) =
                if number % 2 == 0 { ("tick", String::new()) } else { ("receive", body) };
            let request = request(&format!("POST /v1/clocks/{kind}/{path}"), &[], &body);
            tokio::spawn(answer(pod.router.clone(), request))
        });
        let calls: Vec<_> = calls.collect();
        let mut stamps = vec![first];
        for call in calls {
            stamps.push(call.await.unwrap().json()["stamp"].clone());
        }
        let mut counts: Vec<u64> = stamps.iter().map(|stamp| own_count(kind, stamp)).collect();
        counts.sort_unstable();
        assert!(counts.windows(2).all(|pair| pair[0] < pair[1]), "{kind}: {counts:?}");
        let last = own_count(kind, &pod.get(&format!("/v1/clocks/{kind}")).await.json()["stamp"]);
        assert_eq!(Some(&last), counts.last(), "{kind}");
        if kind != "Hybrid" {
            assert_eq!(counts, (1..=1 + CALLS as u64).collect::<Vec<_>>(), "{kind}");
        }
    }
}

/// What a clock that hears of nobody else has counted of its own events.
fn own_count(kind: &str, stamp: &Value) -> u64 {
    let count = match kind {
        "Lamport" => stamp["counter"].as_u64(),
        "Vector" => stamp["entries"].as_object().and_then(|all| all.values().next()?.as_u64()),
        _ => stamp["time"].as_str().and_then(|time| time.parse().ok()),
    };
    count.unwrap_or_else(|| panic!("{kind}: {stamp}"))
}

#[tokio::test]
async fn a_pod_has_so_many_clocks_and_no_more() {
    let pod = Pod::new();
    for number in 0..CLOCKS_MAX {
        let path = format!("/v1/clocks/c{number}/tick?kind=Lamport");
        assert_eq!(pod.post(&path, &Value::Null).await.status.as_u16(), 200, "{number}");
    }
    let more = pod.post("/v1/clocks/more/tick?kind=Lamport", &Value::Null).await;
    assert_eq!((more.status.as_u16(), more.problem().as_str()), (429, "too-many-clocks"));
    let old = pod.post("/v1/clocks/c0/tick", &Value::Null).await;
    assert_eq!(old.json()["stamp"]["counter"], 2);
    assert!(pod.counted(&format!(r#"conclave_logical_clocks{{kind="Lamport"}} {CLOCKS_MAX}"#)));
}

#[tokio::test]
async fn a_name_is_one_that_a_path_can_have() {
    let pod = Pod::new();
    for (name, status) in
        [("a%2Fb", 200), ("%C3%BC", 200), ("compare", 400), ("%2E%2E", 400), ("a%0Ab", 400)]
    {
        let answer = pod.post(&format!("/v1/clocks/{name}/tick?kind=Lamport"), &Value::Null).await;
        assert_eq!(answer.status.as_u16(), status, "{name}: {answer:?}");
    }
}

#[tokio::test]
async fn a_sidecar_that_starts_anew_is_another_process_without_clocks() {
    let (double, anew) = (Double::new(), Double::new());
    let tick = async |router: &Router| {
        let line = "POST /v1/clocks/orders/tick?kind=Lamport";
        answer(router.clone(), request(line, &[], "")).await.json()
    };
    let (before, after) = (double.router(), anew.router());
    let (old, new) = (tick(&before).await, tick(&after).await);
    assert_eq!((&old["stamp"]["counter"], &new["stamp"]["counter"]), (&json!(1), &json!(1)));
    assert_ne!(old["process"], new["process"]);
}
