//! What members find out about each other's clocks.

use conclave_protocols::policy::{ClockAlgorithm, ClockPolicy};
use serde_json::Value;

use super::known::get_until;
use super::*;

/// How far the raw clock of one is ahead of that of another: at least, and at most.
fn ahead(one: OsClock, other: OsClock) -> (i64, i64) {
    let read = |clock: OsClock| i64::try_from(clock.raw().0).expect("centuries");
    let before = read(other);
    let ahead = read(one);
    let after = read(other);
    (ahead - after, ahead - before)
}

fn number(offset: &Value, field: &str) -> i64 {
    let number = offset[field].as_str().and_then(|ns| ns.parse().ok());
    number.unwrap_or_else(|| panic!("no {field} in {offset}"))
}

/// All have the same raw clock, and an error of their own is put into it. So what each states of group time is of a clock of
/// its own, and no statement contradicts another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_shows_by_how_much_the_clocks_of_the_others_are_off() {
    let _alone = ONE_GROUP.lock().await;
    let policy = Policy { generation: 1, timing: BRIEF, ..Policy::default() };
    let members = Members::start(settings(policy)).await.expect("the ports are free");
    all_go_by(&members, Arbiter::Quorum).await;
    let clock = |number| OsClock::with_fault(members.fault(number).expect("there is one"));
    for me in 0..members.count() {
        let is_close = |peer: &Value| {
            let bound = peer["offset"]["error_bound_ns"].as_u64();
            bound.is_some_and(|bound| bound < 5_000_000)
                && peer["audit"]["checked"].as_u64() > Some(4)
        };
        let are_close = |json: &Value| {
            let peers = json["peers"].as_array().expect("a list");
            let known = peers.iter().filter(|peer| !peer["offset"].is_null());
            peers.len() == 2 && known.filter(|peer| is_close(peer)).count() == 2
        };
        let truth = |other: u16| ahead(clock(other), clock(me));
        let others: Vec<u16> = (0..members.count()).filter(|other| *other != me).collect();
        get_until(&members, me, "/v1/time/peers", are_close).await;
        let before = others.iter().map(|other| truth(*other)).collect::<Vec<_>>();
        let json = get_until(&members, me, "/v1/time/peers", are_close).await;
        for (other, before) in others.iter().zip(before) {
            let after = truth(*other);
            let mut peers = json["peers"].as_array().expect("a list").iter();
            let name = format!("dev-{other}");
            let peer = peers.find(|peer| peer["pod"] == name.as_str()).expect("it is probed");
            let (least, most) =
                (number(&peer["offset"], "least_ns"), number(&peer["offset"], "most_ns"));
            let (lowest, highest) = (before.0.min(after.0), before.1.max(after.1));
            assert!(least <= highest && lowest <= most, "{lowest} to {highest}: {peer:#}");
            assert_eq!((&peer["contradictions"], &peer["disrupted"]), (&0.into(), &false.into()));
            let (same, audit) = (&peer["same_clock"], &peer["audit"]["violations"]);
            assert_eq!((same, audit), (&false.into(), &0.into()), "{peer:#}");
        }
    }
    members.end().await;
}

/// The clocks of the three drift from one another by 12 parts per million and more. The policy trusts each to one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_drift_more_than_the_policy_assumes_are_noticed_by_all() {
    let _alone = ONE_GROUP.lock().await;
    let clock = ClockPolicy { max_drift_ppm: 1, ..ClockPolicy::default() };
    let policy = Policy { generation: 1, timing: BRIEF, clock, ..Policy::default() };
    let members = Members::start(settings(policy)).await.expect("the ports are free");
    all_go_by(&members, Arbiter::Quorum).await;
    for me in 0..members.count() {
        let contradicts = |peer: &Value| peer["contradictions"].as_u64() > Some(0);
        let all_do = |json: &Value| {
            let peers = json["peers"].as_array().expect("a list");
            peers.len() == 2 && peers.iter().all(contradicts)
        };
        get_until(&members, me, "/v1/time/peers", all_do).await;
        get_until(&members, me, "/v1/time", |time| time["status"] == "disrupted").await;
    }
    members.end().await;
}

/// A leader that asks nobody has none. Clocks of the three are off and drift.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_algorithm_reads_group_time_by_its_own_messages() {
    let _alone = ONE_GROUP.lock().await;
    for algorithm in ClockAlgorithm::ALL {
        let clock = ClockPolicy { algorithm, ..ClockPolicy::default() };
        let policy = Policy { generation: 1, timing: BRIEF, clock, ..Policy::default() };
        let members = Members::start(settings(policy)).await.expect("the ports are free");
        all_go_by(&members, Arbiter::Quorum).await;
        for me in 0..members.count() {
            let asks = |time: &Value| {
                algorithm == ClockAlgorithm::Berkeley || time["master"] != time["self"]
            };
            let is_complete = |time: &Value| {
                let is_there = !time["by_messages"].is_null();
                time["status"] == "synchronized" && is_there == asks(time)
            };
            let time = get_until(&members, me, "/v1/time", is_complete).await;
            let one = &time["by_messages"];
            if !asks(&time) {
                continue;
            }
            let apart = number(one, "time_ns").abs_diff(number(&time, "time_ns"));
            let bounds = [&time, one].map(|time| time["error_bound_ns"].as_u64().expect("a bound"));
            assert!(apart <= bounds.iter().sum::<u64>(), "{algorithm:?}, {apart} ns: {time:#}");
            assert!(one["textbook_error_ns"].is_u64() && one["age_ns"].is_u64(), "{time:#}");
            number(one, "correction_ns");
            let intervals = ["interval_ns", "resync_interval_ns"].map(|of| time[of].as_u64());
            assert_eq!(intervals, [Some(1_000_000_000), Some(5_000_000_000)], "used, and allowed");
        }
        members.end().await;
    }
}
