//! The group clock.

use conclave_protocols::clock::{Correction, Shown, VirtualClock};
use conclave_protocols::policy::ClockPolicy;
use conclave_protocols::{Epoch, LocalTime};
use serde_json::{Value, json};

use super::double::*;
use crate::os_clock::{ClockFault, OsClock};

/// Synchronises the double's clock just now, to within 2 ms; says what it is off by since.
pub(super) fn synchronise(double: &Double) {
    let now = double.group.os_clock().raw();
    double.time.send_replace(synchronised_at(now));
}

fn synchronised_at(raw: LocalTime) -> conclave_protocols::clock::ClockMap {
    let rates = conclave_protocols::clock::Rates::new(100, 500);
    let mut clock = VirtualClock::new(1_700_000_000_000_000_000, rates);
    clock.enter(raw, (Epoch(1), false), rates, 3_000_000_000);
    let shown = Shown { raw, ns: clock.map().now_ns(raw.0) };
    let correction = Correction { delta_ns: 0, ahead_ns: 0, error_ns: 2_000_000 };
    assert!(clock.adjust(raw, shown, correction));
    clock.map()
}

#[tokio::test]
async fn a_clock_that_was_never_compared_is_503_with_its_reading() {
    let double = Double::new();
    let answer = double.get("/v1/time").await;
    assert_eq!(answer.status.as_u16(), 503);
    let time = answer.json();
    assert_eq!((&time["status"], &time["earliest_ns"]), (&json!("unknown"), &json!(null)));
    assert!(time["time_ns"].as_str().is_some_and(|ns| ns.parse::<i64>().is_ok()));
    assert_eq!(answer.header("conclave-time-status"), Some("unknown"));
    assert_eq!(answer.header("conclave-time-error-bound-ns"), None);
}

/// A map that came too late shows a time that is before what readers have seen, and so may the group of the next life.
#[tokio::test]
async fn the_time_goes_back_for_no_reader_and_is_unknown_while_it_is_far_behind() {
    let double = Double::new();
    let mut map = synchronised_at(double.group.os_clock().raw());
    double.time.send_replace(map);
    let read = async || {
        let time = double.get("/v1/time").await.json();
        let ns = time["time_ns"].as_str().and_then(|ns| ns.parse::<i64>().ok());
        (ns.expect("a number"), time["error_bound_ns"].as_u64())
    };
    let begun = std::time::Instant::now();
    let (mut seen, bound) = read().await;
    let bound = bound.expect("it is known");
    let mut fall_behind = |ns: i64| {
        for course in [&mut map.shown, &mut map.known.path] {
            for line in [&mut course.first, &mut course.then, &mut course.last] {
                line.ns -= ns;
            }
        }
        double.time.send_replace(map);
    };
    for (begins_anew, behind) in [(false, 40_000_000), (true, 80_000_000)] {
        fall_behind(40_000_000);
        if begins_anew {
            double.life.send_replace(double.group.os_clock().raw());
        }
        let (later, wider) = read().await;
        assert!(later >= seen, "{later} after {seen}");
        let ahead = u128::from(wider.expect("it is known") - bound);
        let passed = begun.elapsed().as_nanos();
        assert!(ahead + passed >= behind, "the error covers what it is ahead: {ahead}");
        seen = later;
    }
    fall_behind(3_600_000_000_000);
    assert_eq!(read().await.1, None, "another group has another time");
    fall_behind(-3_600_000_000_000);
    let (later, wider) = read().await;
    assert!(later >= seen && wider.is_some());
}

#[tokio::test]
async fn the_time_comes_with_what_bounds_it() {
    let double = Double::new();
    synchronise(&double);
    let answer = double.get("/v1/time").await;
    assert_eq!(answer.status.as_u16(), 200);
    let time = answer.json();
    let number = |name: &str| time[name].as_str().unwrap().parse::<i64>().unwrap();
    let bound = time["error_bound_ns"].as_i64().unwrap();
    assert!((2_000_000..3_000_000).contains(&bound), "{time}");
    assert_eq!(number("time_ns") - number("earliest_ns"), bound);
    assert_eq!(number("latest_ns") - number("time_ns"), bound);
    let raw = i64::try_from(double.group.os_clock().raw().0).unwrap();
    assert!((0..10_000_000_000).contains(&(raw - number("raw_ns"))), "{time}");
    for (field, value) in [
        ("status", json!("synchronized")),
        ("reference", json!("group")),
        ("group", json!("orders")),
        ("algorithm", json!("Berkeley")),
        ("epoch", json!(12)),
        ("master", json!("shop-1")),
        ("self", json!("shop-0")),
        ("members", json!(2)),
        ("clock_id", json!("monotonic_raw")),
    ] {
        assert_eq!(time[field], value, "{field}");
    }
    assert_eq!(answer.header("conclave-time-ns"), time["time_ns"].as_str());
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn a_caller_that_needs_a_closer_bound_reads_it_from_the_status() {
    let double = Double::new();
    synchronise(&double);
    for (limit, status) in [("1s", 200), ("1ms", 503), ("0", 503)] {
        let answer = double.get(&format!("/v1/time?max_error={limit}")).await;
        assert_eq!(answer.status.as_u16(), status, "{limit}");
        assert_eq!(answer.json()["status"], "synchronized");
    }
    assert_eq!(double.get("/v1/time?max_error=x").await.problem(), "invalid");
    assert_eq!(double.get("/v1/time?allow=all").await.problem(), "invalid");
}

#[tokio::test]
async fn a_clock_that_missed_comparisons_says_so_and_still_has_a_bound() {
    let double = Double::new();
    let now = double.group.os_clock().raw();
    let long_ago = LocalTime(now.0 - 10_000_000_000);
    double.time.send_replace(synchronised_at(long_ago));
    let answer = double.get("/v1/time").await;
    assert_eq!(answer.status.as_u16(), 200);
    assert_eq!(answer.json()["status"], "holdover");
}

#[tokio::test]
async fn what_the_bound_rests_on_is_that_of_the_policy_in_force() {
    let double = Double::new();
    synchronise(&double);
    let stated = double.get("/v1/time").await.json();
    let expected = json!({"max_drift_ppm": 100, "wander_ppb": 15_000});
    assert_eq!(stated["assumptions"], expected, "by default");
    for (max_drift_ppm, max_wander_ppb) in [(731, 15_000), (731, 1_000)] {
        double.status.send_modify(|status| {
            status.clock = ClockPolicy { max_drift_ppm, max_wander_ppb, ..status.clock };
        });
        let time = double.get("/v1/time").await.json();
        let expected = json!({"max_drift_ppm": max_drift_ppm, "wander_ppb": max_wander_ppb});
        assert_eq!(time["assumptions"], expected);
    }
}

#[tokio::test]
async fn the_wall_clock_of_the_machine_is_shown_beside_the_group_time() {
    let mut double = Double::new();
    let unknown = double.get("/v1/time").await.json();
    let nothing = (&unknown["host"]["offset_ns"], &unknown["host"]["error_ns"], &unknown["utc"]);
    assert_eq!(nothing, (&json!(null), &json!(null), &json!({"bound_ns": null})));
    // A minute behind, by a fault that the kernel does not know of.
    for offset_ns in [0, -60_000_000_000] {
        double.group.clock = OsClock::with_fault(ClockFault { offset_ns, ..ClockFault::default() });
        synchronise(&double);
        let before = double.group.os_clock().wall_ns();
        let time = double.get("/v1/time").await.json();
        let after = double.group.os_clock().wall_ns();
        let number = |text: &Value| text.as_str().and_then(|ns| ns.parse::<i64>().ok()).unwrap();
        let (now, offset) = (number(&time["time_ns"]), number(&time["host"]["offset_ns"]));
        assert!((before..=after).contains(&(now + offset)), "{time}");
        let (bound, error) = (&time["error_bound_ns"], &time["host"]["error_ns"]);
        assert!(bound.as_u64() <= error.as_u64() && error.is_u64(), "{time}");
        assert_eq!(time["reference"], "group");
        let synchronization = double.group.os_clock().host_at(0).synchronization;
        let synchronized = synchronization.map(|one| one.synchronized);
        assert_eq!(time["host"]["synchronized"], json!(synchronized), "{synchronization:?}");
        assert_eq!(time["host"]["max_error_ns"].is_u64(), synchronization.is_some(), "{time}");
        assert_eq!(
            time["host"]["estimated_error_ns"].is_u64(),
            synchronization.is_some(),
            "{time}"
        );
        assert_eq!(time["utc"]["bound_ns"].is_string(), synchronized == Some(true), "{time}");
    }
}

#[tokio::test]
async fn a_shell_gets_one_line() {
    let double = Double::new();
    let text = ["Accept: text/plain"];
    let answer = double.call("GET /v1/time", &text, "").await.unwrap();
    assert!(answer.text.starts_with("status=unknown time_ns="), "{}", answer.text);
    synchronise(&double);
    let answer = double.call("GET /v1/time", &text, "").await.unwrap();
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    let names: Vec<_> =
        answer.text.trim_end().split(' ').filter_map(|pair| pair.split_once('=')).collect();
    let names: Vec<_> = names.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["status", "time_ns", "earliest_ns", "latest_ns", "error_bound_ns"]);
}

#[tokio::test]
async fn the_clock_is_scraped() {
    let double = Double::new();
    let text = double.metrics.scrape(&double.group);
    assert!(text.contains("conclave_clock_error_bound_seconds{group=\"orders\"} inf\n"), "{text}");
    synchronise(&double);
    let text = double.metrics.scrape(&double.group);
    assert!(text.contains("conclave_clock_synchronized{group=\"orders\"} 1\n"), "{text}");
    assert!(text.contains("conclave_clock_error_bound_seconds{group=\"orders\"} 0.00"), "{text}");
    let host = double.group.os_clock().host_at(0).synchronization;
    for name in ["host_synchronized", "host_max_error_seconds"] {
        let is_there = text.contains(&format!("\nconclave_clock_{name}{{group=\"orders\"}} "));
        assert_eq!(is_there, host.is_some(), "{name}: {text}");
    }
}
