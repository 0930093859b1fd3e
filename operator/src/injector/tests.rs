use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::http::Request as HttpRequest;
use futures::FutureExt;
use hyper::body::{Frame, SizeHint};
use tower::ServiceExt;

use super::*;

const IMAGE: &str = "registry.example.com/conclave:1";

async fn call(body: String) -> (StatusCode, Value) {
    let request = HttpRequest::post("/v1/inject").body(Body::from(body)).expect("a request");
    let response = Injector::new(IMAGE.to_owned()).router().oneshot(request).await;
    let response = response.expect("an answer");
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn review(pod: &Value) -> Value {
    let resource = json!({ "group": "", "version": "v1", "resource": "pods" });
    let request = json!({
        "uid": "review-uid", "operation": "CREATE", "resource": resource,
        "namespace": "shop", "object": pod,
    });
    json!({ "apiVersion": API_VERSION, "kind": KIND, "request": request })
}

/// The answer to the creation of a pod.
async fn reviewed(pod: &Value) -> Value {
    let (status, answer) = call(review(pod).to_string()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&json!(API_VERSION), &json!(KIND)));
    assert_eq!(answer["response"]["uid"], "review-uid");
    answer["response"].clone()
}

/// The pod as the API server makes it of an answer.
fn patched(pod: &Value, response: &Value) -> Value {
    assert_eq!((&response["allowed"], &response["patchType"]), (&json!(true), &json!("JSONPatch")));
    let patch: ByteString = serde_json::from_value(response["patch"].clone()).expect("base64");
    let patch: json_patch::Patch = serde_json::from_slice(&patch.0).expect("a patch");
    let mut pod = pod.clone();
    json_patch::patch(&mut pod, &patch).expect("it fits");
    pod
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "till", "labels": { "conclave.dev/group": "orders" } },
        "spec": { "containers": [{ "name": "till", "image": "till:1" }] },
    })
}

/// The template of the pods in a golden manifest of `conclave inject`.
fn template(manifest: &str) -> Value {
    // As kubectl reads it: `0400` is octal.
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(manifest, options).expect("YAML");
    let mut deployments = documents.into_iter().filter(|document| document["kind"] == "Deployment");
    deployments.next().expect("a Deployment")["spec"]["template"].clone()
}

#[tokio::test]
async fn a_pod_becomes_what_the_command_makes_of_its_manifest_byte_for_byte() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pods/src/inject/golden");
    let manifest = std::fs::read_to_string(golden.join("deployment.yaml")).expect("a manifest");
    let options = Options { image: IMAGE.to_owned(), ..Options::default() };
    let by_command = conclave_pods::inject::inject(&manifest, &options).expect("injected");
    let golden = std::fs::read_to_string(golden.join("injected.yaml")).expect("a manifest");
    assert_eq!(by_command, golden);

    let before = template(&manifest);
    let after = patched(&before, &reviewed(&before).await);
    assert_eq!(after.to_string(), template(&by_command).to_string());
    assert!(reviewed(&after).await["patch"].is_null(), "twice is once");
}

#[tokio::test]
async fn what_belongs_to_no_group_or_is_no_new_pod_is_left_alone() {
    let mut other = pod();
    other["metadata"]["labels"] = json!({ "app": "till" });
    let allowed = json!({ "uid": "review-uid", "allowed": true });
    assert_eq!(reviewed(&other).await, allowed);

    let mut update = review(&pod());
    update["request"]["operation"] = json!("UPDATE");
    assert_eq!(call(update.to_string()).await.1["response"], allowed);
    let mut binding = review(&pod());
    binding["request"]["resource"]["resource"] = json!("services");
    assert_eq!(call(binding.to_string()).await.1["response"], allowed);
}

#[tokio::test]
async fn a_pod_that_cannot_have_the_sidecar_is_refused_with_the_field() {
    let mut in_node = pod();
    in_node["spec"]["hostNetwork"] = json!(true);
    let mut unknown = pod();
    unknown["metadata"]["annotations"] = json!({ "config.conclave.dev/memory": "1Gi" });
    let mut misnamed = pod();
    misnamed["metadata"]["labels"]["conclave.dev/group"] = json!("Orders");
    for (pod, field) in [
        (in_node, "`spec.hostNetwork`"),
        (unknown, "`metadata.annotations[config.conclave.dev/memory]`"),
        (misnamed, "`metadata.labels[conclave.dev/group]`"),
    ] {
        let response = reviewed(&pod).await;
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["code"], 422);
        let message = response["status"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(field), "{message}");
    }
}

#[tokio::test]
async fn what_is_no_review_is_a_bad_request() {
    let mut older = review(&pod());
    older["apiVersion"] = json!("admission.k8s.io/v1beta1");
    let mut bare = review(&pod());
    bare["request"] = Value::Null;
    for body in [String::new(), "[".repeat(1_000), older.to_string(), bare.to_string()] {
        assert_eq!(call(body).await.0, StatusCode::BAD_REQUEST);
    }
    let long = " ".repeat(BODY_MAX as usize + 1);
    assert_eq!(call(long).await.0, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_body_without_a_length_is_not_read() {
    let review = Ok::<_, io::Error>(review(&pod()).to_string());
    let body = Body::from_stream(futures::stream::iter([review]));
    let request = HttpRequest::post("/v1/inject").body(body).expect("a request");
    let response = Injector::new(IMAGE.to_owned()).router().oneshot(request).await;
    assert_eq!(response.expect("an answer").status(), StatusCode::LENGTH_REQUIRED);
}

/// A body of this length, of which nothing comes; says whether somebody has begun to read it.
struct Silent(u32, Arc<AtomicBool>);

impl HttpBody for Silent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.1.store(true, Ordering::Relaxed);
        Poll::Pending
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.into())
    }
}

#[tokio::test]
async fn large_bodies_wait_until_there_is_room_and_keep_no_usual_pod_waiting() {
    let injector = Injector::new(IMAGE.to_owned());
    let send = |body| {
        let request = HttpRequest::post("/v1/inject").body(body).expect("a request");
        Box::pin(injector.clone().router().oneshot(request))
    };
    let silent = |length| {
        let read = Arc::new(AtomicBool::new(false));
        (send(Body::new(Silent(length, Arc::clone(&read)))), read)
    };
    let mut held = Vec::new();
    for _ in 0..ROOM / BODY_MAX as usize {
        let (mut sending, read) = silent(BODY_MAX);
        assert!(futures::poll!(&mut sending).is_pending() && read.load(Ordering::Relaxed));
        held.push(sending);
    }
    let (mut waiting, read) = silent(BODY_SMALL + 1);
    assert!(futures::poll!(&mut waiting).is_pending() && !read.load(Ordering::Relaxed));
    let usual = send(Body::from(review(&pod()).to_string())).now_or_never();
    let usual = usual.expect("it does not wait").expect("an answer");
    assert_eq!(usual.status(), StatusCode::OK);
    held.pop();
    assert!(futures::poll!(&mut waiting).is_pending() && read.load(Ordering::Relaxed));
}
