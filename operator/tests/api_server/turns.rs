//! Two replicas and one Lease. Time is virtual.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use conclave_operator::config::Terms;
use conclave_operator::leadership::{Candidate, TurnEnded};
use kube::Api;
use tokio::time::Instant;

use crate::server::ApiServer;

const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/conclave-system/leases/conclave-operator";

fn candidate(server: &ApiServer, identity: &str) -> Candidate {
    let seconds = Duration::from_secs;
    let terms = Terms { duration: seconds(15), deadline: seconds(10), retry: seconds(2) };
    let api = Api::namespaced(server.client(), "conclave-system");
    Candidate::new(api, "conclave-operator", identity.to_owned(), terms)
}

fn holder(server: &ApiServer) -> Option<String> {
    server.object(LEASE)["spec"]["holderIdentity"].as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn the_next_replica_acts_soon_after_the_first_gives_up_its_turn() {
    let server = ApiServer::default();
    let first = candidate(&server, "first").acquire(|| ()).await;
    let second = tokio::spawn(candidate(&server, "second").acquire(|| ()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!second.is_finished());
    first.release().await;
    let begun = Instant::now();
    second.await.expect("its turn");
    assert!(begun.elapsed() <= Duration::from_secs(2));
    assert_eq!(holder(&server).as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_is_silent_loses_its_turn_after_the_duration_and_not_before() {
    let server = ApiServer::default();
    let mut first = candidate(&server, "first").acquire(|| ()).await;
    let begun = Instant::now();
    let second = candidate(&server, "second").acquire(|| ()).await;
    assert!(begun.elapsed() >= Duration::from_secs(15));
    assert_eq!(holder(&server).as_deref(), Some("second"));
    assert_eq!(first.keep().await, TurnEnded::NotRenewed);
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_renews_keeps_its_turn() {
    let server = ApiServer::default();
    let mut first = candidate(&server, "first").acquire(|| ()).await;
    let second = candidate(&server, "second").acquire(|| ());
    tokio::select! {
        ended = first.keep() => panic!("the first turn has ended: {ended}"),
        _ = second => panic!("there are two turns"),
        () = tokio::time::sleep(Duration::from_secs(600)) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_cannot_renew_stops_before_another_may_act() {
    let server = ApiServer::default();
    let mut first = candidate(&server, "first").acquire(|| ()).await;
    let begun = Instant::now();
    server.refuse(&Method::PUT, LEASE, StatusCode::FORBIDDEN);
    assert_eq!(first.keep().await, TurnEnded::NotRenewed);
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(8) && took <= Duration::from_secs(10), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_replica_whose_lease_names_another_stops() {
    let server = ApiServer::default();
    let mut first = candidate(&server, "first").acquire(|| ()).await;
    let mut lease = server.object(LEASE);
    lease["spec"]["holderIdentity"] = "second".into();
    server.put(LEASE, lease);
    assert_eq!(first.keep().await, TurnEnded::Taken);
}
