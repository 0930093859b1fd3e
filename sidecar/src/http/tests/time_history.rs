//! What is remembered of the group clock.

use conclave_protocols::LocalTime;
use serde_json::{Value, json};

use super::double::*;
use super::hanging_up::connect;
use super::time::synchronise;
use crate::http::{Api, router};

async fn changes(api: &Api, query: &str) -> Vec<Value> {
    let line = format!("GET /v1/time/history{query}");
    let answer = answer(router(api.clone()), request(&line, &[], "")).await;
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text);
    answer.json()["changes"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn changes_are_listed_the_newest_last() {
    let double = Double::new();
    let api = double.api();
    assert!(changes(&api, "").await.is_empty());
    api.note_time();
    api.note_time();
    synchronise(&double);
    api.note_time();
    api.note_time();
    double.status.send_modify(|status| status.members[1].leader = false);
    api.note_time();
    let all = changes(&api, "").await;
    let stood = |change: &Value| [change["status"].clone(), change["master"].clone()];
    let expected = [
        [json!("unknown"), json!("shop-1")],
        [json!("synchronized"), json!("shop-1")],
        [json!("synchronized"), json!(null)],
    ];
    assert_eq!(all.iter().map(stood).collect::<Vec<_>>(), expected);
    assert_eq!((&all[0]["error_bound_ns"], &all[0]["epoch"]), (&json!(null), &json!(12)));
    assert!(all[1]["error_bound_ns"].as_u64() >= Some(2_000_000), "{all:?}");
    assert!(all[1]["slewing_ns"].is_i64(), "{all:?}");
    let raw = |change: &Value| change["raw_ns"].as_str().and_then(|ns| ns.parse::<u64>().ok());
    assert!(raw(&all[0]).is_some() && raw(&all[0]) < raw(&all[1]), "{all:?}");
    let time = all[1]["time_ns"].as_str().and_then(|ns| ns.parse::<i64>().ok());
    assert!(time >= Some(1_700_000_000_000_000_000), "{all:?}");
    assert_eq!(changes(&api, "?limit=1").await, all[2..]);
    assert_eq!(changes(&api, "?limit=256").await, all);
    double.life.send_replace(LocalTime(5));
    assert!(changes(&api, "").await.is_empty(), "of the life before");
    api.note_time();
    assert_eq!(changes(&api, "").await.len(), 1);
}

#[tokio::test]
async fn a_wrong_limit_of_changes_is_named() {
    let double = Double::new();
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=257", "limit"),
        ("limit=x", "limit"),
        ("limit=", "limit"),
        ("limit=18446744073709551615", "limit"),
        ("since=1", "since"),
    ] {
        let answer = double.get(&format!("/v1/time/history?{query}")).await;
        assert_eq!((answer.status.as_u16(), answer.problem()), (400, "invalid".into()), "{query}");
        assert_eq!(answer.json()["field"], field, "{query}");
    }
}

#[tokio::test]
async fn a_served_api_looks_at_the_clock_by_itself() {
    let double = Double::new();
    let (stream, _shutdown) = connect(&double).await;
    let address = stream.peer_addr().expect("it is connected");
    let listed = async |status: &str| {
        soon(async {
            loop {
                let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
                super::hanging_up::send(&mut stream, "GET /v1/time/history", "").await;
                let line = super::hanging_up::read_until(&mut stream, "{").await;
                if line.contains(&format!("\"status\":\"{status}\"")) {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        })
        .await;
    };
    listed("unknown").await;
    synchronise(&double);
    listed("synchronized").await;
}
