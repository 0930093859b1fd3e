//! To whom a pod that the webhook refuses is reported. Time is virtual.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use conclave_operator::injector::Injector;
use conclave_operator::injector::refusals::Telling;
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::ServiceExt;

use crate::server::{ApiServer, Call};

const CONCLAVE: &str = "/apis/conclave.dev/v1alpha1/namespaces/shop/conclaves/orders";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/shop/events";
const MINUTE: Duration = Duration::from_mins(1);

/// An API server, and a webhook that reports refusals to it.
struct Cluster {
    server: ApiServer,
    injector: Injector,
}

impl Cluster {
    fn new() -> Self {
        let server = ApiServer::default();
        let (telling, teller) = Telling::new(server.client(), "operator-0");
        tokio::spawn(telling.run());
        Self { server, injector: Injector::new("a.test/conclave:1".to_owned()).telling(teller) }
    }

    fn with_group() -> Self {
        let cluster = Self::new();
        cluster.server.put(
            CONCLAVE,
            json!({
                "apiVersion": "conclave.dev/v1alpha1",
                "kind": "Conclave",
                "metadata": { "name": "orders", "namespace": "shop", "uid": "group-uid" },
                "spec": {},
            }),
        );
        cluster
    }

    /// Asks the webhook about a pod; says whether it may be created.
    async fn review(&self, pod: &Value, dry_run: bool) -> bool {
        let resource = json!({ "group": "", "version": "v1", "resource": "pods" });
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "review-uid", "operation": "CREATE", "resource": resource,
                "namespace": "shop", "dryRun": dry_run, "object": pod,
            },
        });
        let request = Request::post("/v1/inject").body(Body::from(review.to_string()));
        let answer = self.injector.clone().router().oneshot(request.expect("a request")).await;
        let body = answer.expect("an answer").into_body();
        let body = axum::body::to_bytes(body, usize::MAX).await.expect("a body");
        let answer: Value = serde_json::from_slice(&body).expect("JSON");
        answer["response"]["allowed"].as_bool().expect("an answer")
    }

    /// What was written since this was asked the last time, after a while.
    async fn notified(&self) -> Vec<Call> {
        sleep(MINUTE).await;
        self.server.take_calls().1
    }
}

/// A pod of a `ReplicaSet` that would be in the node's network.
fn pod() -> Value {
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "till-5d4", "uid": "set-uid",
        "controller": true,
    });
    json!({
        "metadata": {
            "generateName": "till-5d4-", "labels": { "conclave.dev/group": "orders" },
            "ownerReferences": [owner],
        },
        "spec": { "hostNetwork": true, "containers": [{ "name": "till", "image": "till:1" }] },
    })
}

fn owner() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "till-5d4", "namespace": "shop",
        "uid": "set-uid",
    })
}

#[tokio::test(start_paused = true)]
async fn a_group_is_notified_of_the_pod_that_it_does_not_get() {
    let cluster = Cluster::with_group();
    assert!(!cluster.review(&pod(), false).await);
    let notified = cluster.notified().await;
    assert_eq!(
        (notified.len(), &notified[0].method, notified[0].path.as_str()),
        (1, &Method::POST, EVENTS)
    );
    let event = &notified[0].body;
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("PodRefused")));
    assert_eq!(event["regarding"]["kind"], "Conclave");
    assert_eq!(event["regarding"]["uid"], "group-uid");
    assert_eq!(event["related"], owner());
    assert_eq!(event["reportingInstance"], "operator-0");
    let note = event["note"].as_str().expect("a note");
    assert!(note.contains("of the ReplicaSet till-5d4 is refused"), "{note}");
    assert!(note.contains("`spec.hostNetwork`"), "{note}");
}

#[tokio::test(start_paused = true)]
async fn without_the_group_the_owner_is_notified_and_without_an_owner_nobody() {
    let cluster = Cluster::new();
    assert!(!cluster.review(&pod(), false).await);
    let mut misnamed = pod();
    misnamed["metadata"]["labels"]["conclave.dev/group"] = json!("../orders");
    misnamed["metadata"]["ownerReferences"][0]["uid"] = json!("other-uid");
    assert!(!cluster.review(&misnamed, false).await);
    let notified = cluster.notified().await;
    assert_eq!(notified.len(), 2);
    assert_eq!(notified[0].body["regarding"], owner());
    assert_eq!(notified[1].body["regarding"]["uid"], "other-uid");
    assert!(notified.iter().all(|call| call.path == EVENTS && call.body["related"].is_null()));

    let mut bare = pod();
    bare["metadata"]["ownerReferences"] = json!([]);
    assert!(!cluster.review(&bare, false).await);
    let mut kept = pod();
    kept["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    assert!(!cluster.review(&kept, false).await);
    assert_eq!(cluster.notified().await, []);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_notified_of_a_dry_run_or_of_a_pod_that_may_be() {
    let cluster = Cluster::with_group();
    assert!(!cluster.review(&pod(), true).await);
    let mut good = pod();
    good["spec"]["hostNetwork"] = json!(false);
    assert!(cluster.review(&good, false).await);
    assert_eq!(cluster.notified().await, []);
    assert!(!cluster.review(&pod(), false).await);
    assert_eq!(cluster.notified().await.len(), 1, "and yet it can be told");
}

#[tokio::test(start_paused = true)]
async fn what_happens_again_is_counted_on_the_same_event() {
    let cluster = Cluster::with_group();
    for _ in 0..3 {
        assert!(!cluster.review(&pod(), false).await);
    }
    let notified = cluster.notified().await;
    let methods: Vec<_> = notified.iter().map(|call| call.method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "PATCH"]);
    assert_eq!(notified[2].body["series"]["count"], 3);
}

#[tokio::test(start_paused = true)]
async fn another_problem_has_an_event_of_its_own() {
    let cluster = Cluster::with_group();
    let mut misspelt = pod();
    misspelt["metadata"]["annotations"] = json!({ "config.conclave.dev/imag": "x" });
    for pod in [&misspelt, &pod(), &misspelt, &pod()] {
        assert!(!cluster.review(pod, false).await);
    }
    let notified = cluster.notified().await;
    let methods: Vec<_> = notified.iter().map(|call| call.method.as_str()).collect();
    assert_eq!(methods, ["POST", "POST", "PATCH", "PATCH"]);
    for (call, part) in notified.iter().zip(["imag", "hostNetwork", "imag", "hostNetwork"]) {
        let note = call.body["note"].as_str().expect("a note");
        assert!(note.contains(part), "`{part}` is not in `{note}`");
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_refusals_makes_one_event_in_a_second_and_each_is_answered() {
    let cluster = Cluster::with_group();
    for number in 0..200 {
        let mut pod = pod();
        pod["metadata"]["ownerReferences"][0]["uid"] = json!(format!("set-{number}"));
        assert!(!cluster.review(&pod, false).await);
    }
    sleep(Duration::from_millis(4_500)).await;
    assert_eq!(cluster.server.take_calls().1.len(), 5);
    let rest = cluster.notified().await.len();
    assert!((10..20).contains(&rest), "{rest}: what finds no place in the line is dropped");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_refuses_or_never_answers_holds_nothing_up() {
    let cluster = Cluster::with_group();
    cluster.server.hang(&Method::GET, CONCLAVE);
    assert!(!cluster.review(&pod(), false).await);
    assert_eq!(cluster.notified().await, [], "it was not in time");
    assert!(!cluster.review(&pod(), false).await);
    assert_eq!(cluster.notified().await.len(), 1);
    cluster.server.refuse(&Method::GET, CONCLAVE, StatusCode::FORBIDDEN);
    assert!(!cluster.review(&pod(), false).await);
    assert_eq!(cluster.notified().await, [], "whether there is a group is not known");
}
