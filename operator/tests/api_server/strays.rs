//! Pods whose label names a `Conclave` that is not there. Time is virtual where it matters.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use conclave_operator::controller::{self, Context};
use conclave_operator::injector::Injector;
use conclave_operator::injector::groups::Groups;
use conclave_operator::metrics::Metrics;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::server::{ApiServer, Call};

const CONCLAVE: &str = "/apis/conclave.dev/v1alpha1/namespaces/shop/conclaves/orders";
const PODS: &str = "/api/v1/namespaces/shop/pods";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/shop/events";

fn conclave() -> Value {
    json!({
        "apiVersion": "conclave.dev/v1alpha1",
        "kind": "Conclave",
        "metadata": { "name": "orders", "namespace": "shop", "uid": "group-uid", "generation": 1 },
        "spec": {},
    })
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("{name}-uid"),
            "labels": { "conclave.dev/group": "orders" },
        },
        "spec": { "containers": [{ "name": "till", "image": "till:1" }] },
    })
}

fn cluster(pods: &[&str]) -> (ApiServer, Arc<Context>) {
    let server = ApiServer::default();
    for name in pods {
        server.put(&format!("{PODS}/{name}"), pod(name));
    }
    let metrics = Metrics::new().expect("metrics");
    let authority = watch::Sender::new(None).subscribe();
    let context = Context::new(server.client(), metrics, "operator-0", authority);
    (server, context)
}

/// The Events since the last time this was asked, other than those about a group: which pod each is about.
fn notified(server: &ApiServer) -> Vec<String> {
    let calls = server.take_calls().1.into_iter();
    let events = calls.filter(|call| call.path == EVENTS && call.method == Method::POST);
    let of_a_group = |call: &Call| {
        call.body["regarding"]["kind"] == "Conclave" && call.body["reason"] != "NoSuchConclave"
    };
    let events = events.filter(|call| !of_a_group(call));
    let about = |call: Call| {
        assert_eq!(call.body["regarding"]["kind"], "Pod");
        assert_eq!(
            (&call.body["type"], &call.body["reason"]),
            (&json!("Warning"), &json!("NoSuchConclave"))
        );
        let note = call.body["note"].as_str().expect("a note");
        assert!(note.contains("no Conclave `orders` in the namespace `shop`"), "{note}");
        call.body["regarding"]["uid"].as_str().expect("a UID").to_owned()
    };
    events.map(about).collect()
}

#[tokio::test(start_paused = true)]
async fn the_operator_reports_a_pod_whose_group_does_not_come_within_seconds() {
    for comes in [false, true] {
        let (server, context) = cluster(&["till"]);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let namespaces = ["shop".to_owned()];
        let running =
            tokio::spawn(async move { controller::run(context, &namespaces, &stopped).await });
        sleep(Duration::from_secs(3)).await;
        assert_eq!(notified(&server), Vec::<String>::new(), "it may be on its way");
        if comes {
            server.put(CONCLAVE, conclave());
        }
        sleep(Duration::from_mins(5)).await;
        let expected = if comes { &[][..] } else { &["till-uid"][..] };
        assert_eq!(notified(&server), expected);
        stop.cancel();
        running.await.expect("it stops");
    }
}

#[tokio::test]
async fn each_pod_is_reported_once_and_anew_when_its_group_was_there_meanwhile() {
    let (server, context) = cluster(&["till-0", "till-1"]);
    let look = || context.strays().look("shop", "orders");
    look().await.expect("it works");
    assert_eq!(notified(&server), ["till-0-uid", "till-1-uid"]);
    server.put(&format!("{PODS}/till-2"), pod("till-2"));
    for expected in [&["till-2-uid"][..], &[], &[]] {
        look().await.expect("it works");
        assert_eq!(notified(&server), expected);
    }
    server.put(CONCLAVE, conclave());
    context.bring_about("shop", "orders").await.expect("it works");
    server.take_calls();
    look().await.expect("it works");
    assert_eq!(notified(&server), Vec::<String>::new());
    server.remove(CONCLAVE);
    look().await.expect("it works");
    // It is the same that is reported of them, so it is counted on their first Events.
    let calls = server.take_calls().1.into_iter();
    let counted =
        calls.filter(|call| call.path.starts_with(EVENTS) && call.method == Method::PATCH);
    assert_eq!(counted.count(), 3);
}

#[tokio::test]
async fn a_pod_that_is_over_or_going_is_nobodys() {
    let (server, context) = cluster(&[]);
    let mut over = pod("over");
    over["status"] = json!({ "phase": "Succeeded" });
    server.put(&format!("{PODS}/over"), over);
    let mut going = pod("going");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    server.put(&format!("{PODS}/going"), going);
    context.strays().look("shop", "orders").await.expect("it works");
    assert_eq!(notified(&server), Vec::<String>::new());
}

/// A pod whose Event was refused is reported the next time.
#[tokio::test]
async fn an_event_that_cannot_be_written_is_written_later() {
    let (server, context) = cluster(&["till"]);
    let look = || context.strays().look("shop", "orders");
    server.refuse(&Method::POST, EVENTS, StatusCode::FORBIDDEN);
    look().await.expect_err("refused");
    server.take_calls();
    server.allow(&Method::POST, EVENTS);
    look().await.expect("it works");
    assert_eq!(notified(&server), ["till-uid"]);
}

/// The answer of the webhook to a new pod.
async fn reviewed(server: &ApiServer, pod: &Value) -> Value {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "review-uid", "operation": "CREATE", "namespace": "shop", "object": pod,
            "resource": { "group": "", "version": "v1", "resource": "pods" },
        },
    });
    let request = Request::post("/v1/inject").body(Body::from(review.to_string()));
    let injector =
        Injector::new("a.test/conclave:1".to_owned()).knowing(Groups::new(server.client()));
    let answer = injector.router().oneshot(request.expect("a request")).await.expect("an answer");
    let body = to_bytes(answer.into_body(), usize::MAX).await.expect("a body");
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    answer["response"].clone()
}

#[tokio::test]
async fn the_creator_of_a_pod_is_warned_that_its_group_is_not_there() {
    let (server, _) = cluster(&[]);
    let answer = reviewed(&server, &pod("till")).await;
    assert_eq!((&answer["allowed"], &answer["patchType"]), (&json!(true), &json!("JSONPatch")));
    let expected = "there is no Conclave `orders` in the namespace `shop`: until there is one, the pod is in no group";
    assert_eq!(answer["warnings"], json!([expected]));
    server.put(CONCLAVE, conclave());
    assert!(reviewed(&server, &pod("till")).await["warnings"].is_null());
}

/// The webhook answers in time all the same, and nobody is warned of what is not known.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_say_holds_no_pod_up() {
    let (server, _) = cluster(&[]);
    server.hang(&Method::GET, CONCLAVE);
    let pod = pod("till");
    for _ in 0..2 {
        let answer = tokio::time::timeout(Duration::from_secs(1), reviewed(&server, &pod));
        let answer = answer.await.expect("in time");
        assert_eq!((&answer["allowed"], &answer["warnings"]), (&json!(true), &Value::Null));
        server.refuse(&Method::GET, CONCLAVE, StatusCode::FORBIDDEN);
    }
    let mut misnamed = pod;
    misnamed["metadata"]["labels"]["conclave.dev/group"] = json!("../orders");
    server.take_calls();
    assert_eq!(reviewed(&server, &misnamed).await["allowed"], false);
    assert_eq!(server.take_calls().0, Vec::<String>::new(), "what is no name gets into no path");
}

/// One mistake in a template is one mistake, however many pods come of it.
#[tokio::test]
async fn of_many_pods_some_get_an_event() {
    let names: Vec<String> = (0..30).map(|pod| format!("till-{pod}")).collect();
    let (server, context) = cluster(&names.iter().map(String::as_str).collect::<Vec<_>>());
    context.strays().look("shop", "orders").await.expect("it works");
    assert_eq!(notified(&server).len(), 20);
    context.strays().look("shop", "orders").await.expect("it works");
    assert_eq!(notified(&server), Vec::<String>::new());
}
