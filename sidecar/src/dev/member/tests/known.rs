//! A claim and its lock, as members see them that did not make it.

use conclave_protocols::policy::{LockAlgorithm, LockPolicy};
use serde_json::{Value, json};

use super::*;
use crate::http::tests::double::{Answer, answer, request};

/// What a member answers.
async fn call(members: &Members, number: u16, line: &str) -> Answer {
    let group = members.group(number).expect("it lives");
    let router = router(Api::new(
        group,
        SharedClocks::new("dev"),
        Metrics::new("dev"),
        Limits::default(),
        None,
    ));
    answer(router, request(line, &[], "")).await
}

async fn get(members: &Members, number: u16, path: &str) -> Answer {
    call(members, number, &format!("GET {path}")).await
}

/// What a member answers as soon as that is so.
pub(super) async fn get_until(
    members: &Members,
    number: u16,
    path: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Value {
    let asking = async {
        loop {
            let json = get(members, number, path).await.json();
            if is_so(&json) {
                return json;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("{number}: {path}"))
}

/// The leader, and two that follow.
fn ranked(members: &Members) -> [u16; 3] {
    let status = members.group(0).expect("it lives").status().borrow().clone();
    let number = |member: &MemberStatus| member.uid.parse().ok().and_then(number_of);
    let mut all = status.members;
    all.sort_by_key(|member| !member.leader);
    let numbers: Vec<u16> = all.iter().filter_map(number).collect();
    numbers.try_into().expect("three")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_known_where_it_was_made_and_is_lost_there_alone() {
    let _alone = ONE_GROUP.lock().await;
    let policy = Policy { generation: 1, timing: BRIEF, ..Policy::default() };
    let members = Members::start(settings(policy)).await.expect("the ports are free");
    all_go_by(&members, Arbiter::Quorum).await;
    let [leader, maker, _] = ranked(&members);
    let claim = ask(&members, maker).await;
    held(&claim, Arbiter::Quorum).await;
    let path = format!("/v1/locks/orders/claims/{}", claim.borrow().id);
    for number in 0..members.count() {
        let answer = get(&members, number, &path).await;
        if number == maker {
            assert_eq!(answer.json()["state"], "held");
        } else {
            assert_eq!((answer.problem().as_str(), answer.status.as_u16()), ("other-member", 404));
            assert_eq!(answer.json()["pod"], format!("dev-{maker}"));
        }
    }
    members.kill(maker);
    members.revive(maker).await.expect("its ports are free");
    let group = members.group(maker).expect("it lives");
    until("it belongs", group.status(), |status| status.missing.is_none()).await;
    let lost = get(&members, maker, &path).await;
    assert_eq!((lost.problem().as_str(), &lost.json()["reason"]), ("lost", &json!("restarted")));
    assert_eq!(get(&members, leader, &path).await.problem(), "other-member");
    members.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_knows_who_holds_a_lock_and_others_what_they_are_sent() {
    let _alone = ONE_GROUP.lock().await;
    for algorithm in [LockAlgorithm::Central, LockAlgorithm::Lamport] {
        let locks = vec![LockPolicy { algorithm, ..LockPolicy::default() }];
        let policy = Policy { generation: 1, timing: BRIEF, locks, ..Policy::default() };
        let members = Members::start(settings(policy)).await.expect("the ports are free");
        all_go_by(&members, Arbiter::Quorum).await;
        let [leader, holder, waiter] = ranked(&members);
        let path = "/v1/locks/orders";
        let unused = get(&members, holder, path).await.json();
        assert_eq!((&unused["holders"], &unused["waiters"]), (&json!([]), &json!([])));
        let holds = ask(&members, holder).await;
        let token = held(&holds, Arbiter::Quorum).await.token.expect("a quorum grants").get();
        let waits = ask(&members, waiter).await;

        let waiting_pod = json!(format!("dev-{waiter}"));
        let at_leader = |lock: &Value| {
            let is_held = lock["holders"][0]["pod"] == format!("dev-{holder}");
            lock["complete"] == true && is_held && lock["waiters"][0]["pod"] == waiting_pod
        };
        let known = get_until(&members, leader, path, at_leader).await;
        assert_eq!(known["holders"][0]["token"], token, "{known}");
        assert_eq!(
            (known["holders"][0].get("claim"), known["holders"][0].get("reported_ms")),
            (None, None)
        );
        let list = get(&members, leader, "/v1/locks?prefix=or").await.json();
        assert_eq!((&list["locks"][0]["lock"], &list["next"]), (&json!("orders"), &Value::Null));
        let others = get(&members, leader, "/v1/locks?prefix=x").await.json();
        assert_eq!((&others["locks"], &others["complete"]), (&json!([]), &json!(true)));

        for more in ["oranges", "order"] {
            let lock = format!("/v1/locks/{more}");
            assert_eq!(call(&members, holder, &format!("POST {lock}")).await.status.as_u16(), 201);
            get_until(&members, leader, &lock, |lock| !lock["holders"][0].is_null()).await;
        }
        let (mut pages, mut after) = (Vec::new(), json!(""));
        while let Some(name) = after.as_str() {
            let page = format!("/v1/locks?limit=1&after={name}");
            let page = get(&members, leader, &page).await.json();
            pages.push(page["locks"][0]["lock"].clone());
            after = page["next"].clone();
        }
        assert_eq!(pages, ["oranges", "order", "orders"]);

        let own = get(&members, holder, path).await.json();
        assert_eq!(own["complete"], false);
        assert_eq!(own["holders"][0]["claim"], holds.borrow().id.as_str());
        let is_line = |lock: &Value| lock["waiters"][0]["claim"] == waits.borrow().id.as_str();
        get_until(&members, waiter, path, is_line).await;
        if algorithm == LockAlgorithm::Central {
            let is_reported = |lock: &Value| lock["holders"][0]["reported_ms"].is_u64();
            let lock = get_until(&members, waiter, path, is_reported).await;
            assert_eq!(lock["holders"][0]["pod"], format!("dev-{holder}"));
        }
        members.end().await;
    }
}
