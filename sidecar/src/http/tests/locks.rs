//! Locks, as a member knows them.

use std::time::Duration;

use conclave_protocols::LockName;
use conclave_protocols::policy::{Arbiter, LockAlgorithm};
use serde_json::json;

use super::double::*;
use crate::claims::{Holder, LostReason};
use crate::group::Request;
use crate::locks::{Elsewhere, Lock, Locks, LocksError, WaitingPod, Which};
use crate::os_clock::OsClock;

/// A lock that nobody is known to hold.
pub(super) fn lock() -> Lock {
    Lock {
        name: LockName::try_from("orders".to_owned()).expect("a name"),
        algorithm: LockAlgorithm::Central,
        coordinator: None,
        expected_messages: None,
        arbiter: Arbiter::Quorum,
        max_hold: Duration::from_mins(10),
        holding: None,
        elsewhere: None,
        waiting: Vec::new(),
        unshown: 0,
        pods: Vec::new(),
    }
}

/// Answers the next request, which is for locks, and says for which.
async fn show(double: &mut Double, shown: Result<Locks, LocksError>) -> Which {
    let Request::Locks(which, reply) = double.next().await else { panic!("nobody looked") };
    reply.send(shown).expect("the call waits");
    which
}

#[tokio::test]
async fn a_lock_shows_what_a_claim_of_this_pod_holds_and_what_waits_in_order() {
    let mut double = Double::new();
    let call = double.call("GET /v1/locks/orders", &[], "");
    let mut other = claim(waiting());
    other.metadata = None;
    let pod = WaitingPod { pod: "shop-2".to_owned(), owner: None, metadata: None };
    let waits =
        Lock { holding: Some(claim(held())), waiting: vec![other], pods: vec![pod], ..lock() };
    let coordinator = Some("shop-3".to_owned());
    let waits = Lock { coordinator, expected_messages: Some(3), ..waits };
    let known = Locks { locks: vec![waits], complete: true, next: None };
    assert!(
        matches!(show(&mut double, Ok(known)).await, Which::One(name) if name.as_str() == "orders")
    );
    let lock = call.await.unwrap().json();
    let (holder, waiters) = (&lock["holders"][0], &lock["waiters"]);
    assert_eq!((&lock["coordinator"], &lock["expected_messages"]), (&json!("shop-3"), &json!(3)));
    assert_eq!((&lock["complete"], &lock["max_hold_ms"]), (&json!(true), &json!(600_000)));
    let expected = json!({"pod": "shop-0", "owner": "shop-0", "claim": "1f-1", "token": 12 * 1_048_576 + 1,
        "held_ms": holder["held_ms"], "metadata": {"job": "reindex"}});
    assert_eq!(*holder, expected);
    let first = json!({"pod": "shop-0", "owner": "shop-0", "claim": "1f-1", "waited_ms": waiters[0]["waited_ms"]});
    assert_eq!(*waiters, json!([first, {"pod": "shop-2"}]));
}

#[tokio::test]
async fn a_holder_elsewhere_is_as_old_as_the_report() {
    let mut double = Double::new();
    let notified = OsClock::default().now();
    let reported = Holder { notified, ..holder() };
    tokio::time::sleep(Duration::from_millis(30)).await;
    for is_report in [true, false] {
        let call = double.call("GET /v1/locks/orders", &[], "");
        let elsewhere = Some(Elsewhere { holder: reported.clone(), is_report });
        let locks = vec![Lock { elsewhere, ..lock() }];
        show(&mut double, Ok(Locks { locks, ..Locks::default() })).await;
        let lock = call.await.unwrap().json();
        let holder = &lock["holders"][0];
        assert_eq!((&holder["pod"], holder.get("claim")), (&json!("shop-1"), None));
        assert!(holder["held_ms"].as_u64() >= Some(4_240), "{holder}");
        let age = holder["reported_ms"].as_u64();
        assert!(if is_report { age >= Some(30) } else { age.is_none() }, "{holder}");
        assert_eq!(lock["complete"], false);
    }
}

#[tokio::test]
async fn a_claim_whose_time_is_over_holds_nothing() {
    let mut double = Double::new();
    for state in [overdue(), crate::claims::ClaimState::Lost(LostReason::MaxHold)] {
        let call = double.call("GET /v1/locks/orders", &[], "");
        let locks = vec![Lock { holding: Some(claim(state)), ..lock() }];
        show(&mut double, Ok(Locks { locks, ..Locks::default() })).await;
        assert_eq!(call.await.unwrap().json()["holders"], json!([]));
    }
}

#[tokio::test]
async fn a_list_says_how_to_go_on() {
    let mut double = Double::new();
    let call = double.call("GET /v1/locks?prefix=or&after=orders&limit=1", &[], "");
    let name = LockName::try_from("orders/none".to_owned()).expect("a name");
    let many = Lock { waiting: vec![claim(waiting()); 12], unshown: 3, ..lock() };
    let known = Locks { locks: vec![many], complete: false, next: Some(name) };
    let which = show(&mut double, Ok(known)).await;
    let (prefix, after) = ("or".to_owned(), "orders".to_owned());
    assert_eq!(which, Which::Used { prefix, after, limit: 1 });
    let list = call.await.unwrap().json();
    assert_eq!(list["next"], "orders/none", "the last that was looked at");
    let lock = &list["locks"][0];
    assert_eq!((&lock["lock"], &lock["waiting"]), (&json!("orders"), &json!(15)));
    let waiters = lock["waiters"].as_array().unwrap();
    assert_eq!((waiters.len(), waiters[0].get("metadata")), (10, None));

    let call = double.call("GET /v1/locks", &[], "");
    let which = show(&mut double, Ok(Locks { complete: true, ..Locks::default() })).await;
    let whole = Which::Used { prefix: String::new(), after: String::new(), limit: 100 };
    assert_eq!(which, whole);
    let empty = json!({"locks": [], "complete": true, "next": null});
    assert_eq!(call.await.unwrap().json(), empty);
}

#[tokio::test]
async fn what_cannot_be_shown_is_a_problem() {
    let mut double = Double::new();
    for (error, status, kind) in [
        (LocksError::NotAllowed, 403, "not-allowed"),
        (LocksError::NotReady("no view".to_owned()), 503, "not-ready"),
        (LocksError::Closed, 503, "terminating"),
    ] {
        let call = double.call("GET /v1/locks/orders", &[], "");
        show(&mut double, Err(error)).await;
        let answer = call.await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (status, kind));
    }
    for (query, field) in [("limit=0", "limit"), ("limit=1001", "limit"), ("wait=1s", "wait")] {
        let answer = double.get(&format!("/v1/locks?{query}")).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["field"]), (400, &json!(field)));
    }
}
