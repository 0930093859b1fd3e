//! How the authority is made, kept, rotated and published.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use conclave_crds::AuthorityStatus;
use conclave_operator::authority::keeper::{Keeper, Settings};
use conclave_operator::authority::{Authority, REVOKE_ANNOTATION, ROTATE_ANNOTATION};
use conclave_operator::metrics::Metrics;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::certificates::LIFETIMES;
use crate::server::ApiServer;

const SECRETS: &str = "/api/v1/namespaces/conclave-system/secrets";
const SECRET: &str = "/api/v1/namespaces/conclave-system/secrets/conclave-authority";
const SERVICE: &str = "/api/v1/namespaces/conclave-system/services/conclave-operator";
const WEBHOOK: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/conclave-operator";
const CONCLAVES: &str = "/apis/conclave.dev/v1alpha1/conclaves";

fn cluster() -> ApiServer {
    let server = ApiServer::default();
    server.put(
        SERVICE,
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "conclave-operator" },
            "spec": { "clusterIP": "10.96.0.7" },
        }),
    );
    let client_config = json!({ "service": { "name": "conclave-operator", "namespace": "n" } });
    let webhook = json!({
        "name": "inject.conclave.dev", "clientConfig": client_config, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    server.put(
        WEBHOOK,
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": { "name": "conclave-operator" },
            "webhooks": [webhook],
        }),
    );
    put_group(&server, None);
    server
}

/// A cluster with one group that knows these certificates.
fn put_group(server: &ApiServer, bundle: Option<&str>) {
    let authority = bundle.map(|pem| AuthorityStatus::new("10.96.0.7:443".to_owned(), pem));
    let group = json!({
        "apiVersion": "conclave.dev/v1alpha1",
        "kind": "Conclave",
        "metadata": { "name": "orders", "namespace": "shop" },
        "spec": {},
        "status": { "authority": authority },
    });
    let list = json!({
        "apiVersion": "conclave.dev/v1alpha1", "kind": "ConclaveList", "metadata": {},
        "items": [group],
    });
    server.put(CONCLAVES, list);
}

fn keeper(server: &ApiServer) -> Keeper {
    keeper_with(server, Metrics::new().expect("metrics"))
}

fn keeper_with(server: &ApiServer, metrics: Metrics) -> Keeper {
    let settings = Settings {
        namespace: "conclave-system".to_owned(),
        namespaces: Vec::new(),
        service: "conclave-operator".to_owned(),
        webhook: Some("conclave-operator".to_owned()),
        lifetimes: LIFETIMES,
    };
    Keeper::new(&server.client(), settings, metrics)
}

fn kept(server: &ApiServer) -> Authority {
    let secret: Secret = serde_json::from_value(server.object(SECRET)).expect("a Secret");
    Authority::read(&secret).expect("an authority")
}

/// What the API server trusts when it calls the webhook.
fn trusted(server: &ApiServer) -> String {
    let bundle = server.object(WEBHOOK)["webhooks"][0]["clientConfig"]["caBundle"].clone();
    let bundle: ByteString = serde_json::from_value(bundle).expect("base64");
    String::from_utf8(bundle.0).expect("text")
}

fn at(hours: u64) -> Timestamp {
    let start = Timestamp::from_second(1_800_000_000).expect("a time");
    start.checked_add(Duration::from_hours(hours)).expect("a time")
}

async fn round(keeper: &mut Keeper, acts: bool, hours: u64) {
    keeper.round(acts, at(hours), || ()).await.expect("a round");
}

#[tokio::test]
async fn the_replica_that_acts_makes_the_authority_and_the_others_read_it() {
    let server = cluster();
    let (mut acting, mut waiting) = (keeper(&server), keeper(&server));
    round(&mut waiting, false, 0).await;
    assert_eq!(server.take_calls().1, [], "a replica that waits writes nothing");
    assert!(waiting.authority().borrow().is_none());

    round(&mut acting, true, 0).await;
    let (_, writes) = server.take_calls();
    let paths: Vec<_> = writes.iter().map(|call| (call.method.as_str(), &*call.path)).collect();
    assert_eq!(paths, [("POST", SECRETS), ("PATCH", WEBHOOK)]);
    assert_eq!(writes[0].body["type"], "Opaque");
    let fields: Vec<_> = writes[1].body["webhooks"][0].as_object().expect("one").keys().collect();
    assert_eq!(fields, ["clientConfig", "name"], "the rest is the chart's");

    round(&mut waiting, false, 0).await;
    let bundle = kept(&server).bundle();
    for keeper in [&acting, &waiting] {
        assert_eq!(keeper.authority().borrow().as_deref(), Some(&kept(&server)));
        let expected = AuthorityStatus::new("10.96.0.7:443".to_owned(), &bundle);
        assert_eq!(keeper.status().borrow().as_ref(), Some(&expected));
    }
    assert_eq!(trusted(&server), bundle);
    round(&mut acting, true, 1).await;
    assert_eq!(server.take_calls().1, [], "nothing is due");
}

#[tokio::test(start_paused = true)]
async fn a_replica_looks_before_its_turn_and_makes_the_authority_when_it_comes() {
    let server = cluster();
    let keeper = keeper(&server);
    let mut authority = keeper.authority();
    let (acts, acting) = watch::channel(false);
    let (looked, mut has_looked) = watch::channel(false);
    tokio::spawn(keeper.run(acting, move || {
        looked.send_replace(true);
    }));
    has_looked.changed().await.expect("the Secret was looked for");
    assert_eq!(server.object(SECRET), Value::Null);
    acts.send_replace(true);
    authority.changed().await.expect("an authority");
    assert_eq!(authority.borrow().as_deref(), Some(&kept(&server)));
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_waits_learns_of_the_authority_within_a_second() {
    let server = cluster();
    let (mut acting, waiting) = (keeper(&server), keeper(&server));
    let mut authority = waiting.authority();
    let (_acts, does_act) = watch::channel(false);
    let (looked, mut has_looked) = watch::channel(false);
    tokio::spawn(waiting.run(does_act, move || {
        looked.send_replace(true);
    }));
    has_looked.changed().await.expect("the Secret was looked for");
    round(&mut acting, true, 0).await;
    let known = timeout(Duration::from_millis(1100), authority.changed()).await;
    known.expect("soon").expect("an authority");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_never_answered_does_not_stop_the_keeper() {
    let (server, metrics) = (cluster(), Metrics::new().expect("metrics"));
    server.hang(&Method::GET, SECRET);
    let keeper = keeper_with(&server, metrics.clone());
    let mut authority = keeper.authority();
    let (_acts, does_act) = watch::channel(true);
    tokio::spawn(keeper.run(does_act, || ()));
    let has_kept = || {
        let text = String::from_utf8(metrics.text().expect("text")).expect("UTF-8");
        !text.contains("conclave_authority_kept_timestamp_seconds 0")
    };
    assert!(!has_kept());
    let made = timeout(Duration::from_mins(5), authority.changed()).await;
    made.expect("the keeper goes on").expect("an authority");
    while !has_kept() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_next_authority_signs_only_when_every_group_has_had_it_for_the_overlap() {
    let server = cluster();
    let mut keeper = keeper(&server);
    round(&mut keeper, true, 0).await;
    let first = kept(&server);
    put_group(&server, Some(&first.bundle()));
    let mut secret = server.object(SECRET);
    secret["metadata"]["annotations"][ROTATE_ANNOTATION] = json!("now");
    server.put(SECRET, secret);

    round(&mut keeper, true, 1).await;
    let begun = kept(&server);
    assert!(begun.bundle().starts_with(&first.bundle()) && begun.next.is_some());
    assert_eq!(trusted(&server), begun.bundle());
    round(&mut keeper, true, 1).await;
    assert_eq!(kept(&server), begun, "a group has not got it");

    put_group(&server, Some(&begun.bundle()));
    round(&mut keeper, true, 100).await;
    round(&mut keeper, true, 100).await;
    assert_eq!(kept(&server).current, first.current, "its members have yet to see it");
    round(&mut keeper, true, 101).await;
    let switched = kept(&server);
    assert_eq!(Some(&switched.current), begun.next.as_ref().map(|next| &next.signer));
    assert!(trusted(&server).contains(first.current.certificate()));
    assert_eq!(keeper.authority().borrow().as_deref(), Some(&switched));

    round(&mut keeper, true, 125).await;
    assert!(kept(&server).previous.is_some());
    round(&mut keeper, true, 126).await;
    assert!(!trusted(&server).contains(first.current.certificate()));
    assert_eq!(server.object(SECRET)["metadata"]["annotations"][ROTATE_ANNOTATION], "now");
}

#[tokio::test]
async fn a_group_that_does_not_get_the_next_authority_holds_it_up_for_the_overlap_alone() {
    let server = cluster();
    let mut keeper = keeper(&server);
    round(&mut keeper, true, 0).await;
    put_group(&server, Some(&kept(&server).bundle()));
    let mut secret = server.object(SECRET);
    secret["metadata"]["annotations"][ROTATE_ANNOTATION] = json!("now");
    server.put(SECRET, secret);
    round(&mut keeper, true, 1).await;
    let begun = kept(&server);
    let late = at(2).checked_sub(Duration::from_secs(1)).expect("a time");
    keeper.round(true, late, || ()).await.expect("a round");
    assert_eq!(kept(&server), begun);
    round(&mut keeper, true, 2).await;
    assert_eq!(kept(&server).next.expect("it is still to come").published, Some(at(2)));
    round(&mut keeper, true, 3).await;
    assert_eq!(kept(&server).current, begun.next.expect("a next one").signer);
}

#[tokio::test]
async fn a_group_that_was_never_notified_of_an_authority_holds_nothing_up() {
    let server = cluster();
    let mut keeper = keeper(&server);
    round(&mut keeper, true, 0).await;
    let mut secret = server.object(SECRET);
    secret["metadata"]["annotations"][ROTATE_ANNOTATION] = json!("now");
    server.put(SECRET, secret);
    round(&mut keeper, true, 1).await;
    round(&mut keeper, true, 1).await;
    assert_eq!(kept(&server).next.expect("a next one").published, Some(at(1)));
}

#[tokio::test]
async fn a_replica_that_was_not_first_takes_what_the_other_wrote() {
    let server = cluster();
    let (mut one, mut other) = (keeper(&server), keeper(&server));
    round(&mut one, true, 0).await;
    server.refuse(&Method::PUT, SECRET, StatusCode::CONFLICT);
    let mut secret = server.object(SECRET);
    secret["metadata"]["annotations"][ROTATE_ANNOTATION] = json!("now");
    server.put(SECRET, secret);
    round(&mut other, true, 0).await;
    assert!(other.authority().borrow().is_none(), "it signs by nothing that is not kept");
    server.refuse(&Method::POST, SECRETS, StatusCode::CONFLICT);
    server.remove(SECRET);
    round(&mut other, true, 0).await;
    assert!(other.authority().borrow().is_none());
}

#[tokio::test]
async fn a_secret_that_was_deleted_is_made_anew_as_it_was() {
    let server = cluster();
    let mut keeper = keeper(&server);
    round(&mut keeper, true, 0).await;
    let before = kept(&server);
    server.remove(SECRET);
    round(&mut keeper, true, 1).await;
    assert_eq!(kept(&server), before);
}

#[tokio::test]
async fn an_authority_that_was_revoked_is_gone_at_once_and_stays_away() {
    let server = cluster();
    let mut keeper = keeper(&server);
    round(&mut keeper, true, 0).await;
    let stolen = kept(&server);
    put_group(&server, Some(&stolen.bundle()));
    let mut secret = server.object(SECRET);
    secret["metadata"]["annotations"][REVOKE_ANNOTATION] = json!("stolen");
    server.put(SECRET, secret);
    round(&mut keeper, true, 1).await;
    let fresh = kept(&server);
    assert_ne!(fresh.current, stolen.current);
    assert_eq!(trusted(&server), fresh.current.certificate());
    let expected = AuthorityStatus::new("10.96.0.7:443".to_owned(), &trusted(&server));
    assert_eq!(keeper.status().borrow().as_ref(), Some(&expected));

    server.remove(SECRET);
    round(&mut keeper, true, 2).await;
    assert_eq!(kept(&server).bundle(), fresh.bundle(), "no key comes back");
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_is_left_alone() {
    let server = cluster();
    let mut keeper = keeper(&server);
    round(&mut keeper, true, 0).await;
    let known = kept(&server);
    let mut secret = server.object(SECRET);
    secret["data"]["current.key"] = json!("AA==");
    server.put(SECRET, secret.clone());
    let is_ready = || panic!("without an authority nobody is served");
    keeper.round(true, at(1), is_ready).await.expect_err("it is damaged");
    assert_eq!(server.object(SECRET)["data"], secret["data"]);
    assert_eq!(keeper.authority().borrow().as_deref(), Some(&known), "what is known goes on");
}

#[tokio::test]
async fn without_a_service_or_a_webhook_it_goes_on() {
    let server = cluster();
    server.remove(SERVICE);
    server.remove(WEBHOOK);
    let mut keeper = keeper(&server);
    round(&mut keeper, true, 0).await;
    assert!(keeper.status().borrow().is_none());
    assert!(keeper.authority().borrow().is_some());
}
