//! What the API server, or anybody else that reaches the webhook, sends when a pod is created.

use std::sync::LazyLock;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use conclave_operator::injector::Injector;
use conclave_pods::inject::{Options, inject_pod};
use http_body_util::BodyExt;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::service::on_runtime;

/// What is no review is the caller's mistake; a pod becomes what `conclave inject` makes of it, once.
pub(crate) fn run(input: &[u8]) {
    let (status, answer) = call(input.to_vec());
    let shown = String::from_utf8_lossy(input);
    if status != StatusCode::OK {
        let is_blamed = [StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE].contains(&status);
        assert!(is_blamed, "{status} answers {shown}");
        return;
    }
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&json!(API_VERSION), &json!(KIND)));
    // Fields that the webhook does not know it skips without reading their texts.
    let Ok(mut review) = serde_json::from_slice::<Value>(input) else { return };
    let request = &review["request"];
    // A list can stand for an object whose fields are in order. The API server never writes that.
    if !request.is_object() || !request["resource"].is_object() {
        return;
    }
    let (before, response) = (&request["object"], &answer["response"]);
    assert_eq!(response["uid"], request["uid"], "the answer to another review");
    let after = injected(request);
    assert_eq!(response["allowed"], after.is_some(), "{answer} answers {shown}");
    let Some(after) = after else { return };
    if !is_written_as_read(before) || !is_written_as_read(&after) {
        return;
    }
    assert_eq!(patched(before, response), after, "{answer} answers {shown}");
    let allowed = json!({ "uid": request["uid"], "allowed": true });
    review["request"]["object"] = after;
    let (_, again) = call(review.to_string().into_bytes());
    assert_eq!(again["response"], allowed, "twice is not once for {review}");
}

/// What must become of the object; nothing, if it must be refused.
fn injected(request: &Value) -> Option<Value> {
    let resource = &request["resource"];
    let resource = [&resource["group"], &resource["version"], &resource["resource"]];
    let mut object = request["object"].clone();
    if request["operation"] == "CREATE" && resource == ["", "v1", "pods"] {
        let options = Options { image: IMAGE.to_owned(), ..Options::default() };
        inject_pod(&mut object, &options).ok()?;
    }
    Some(object)
}

/// The object as the API server makes it of an answer.
fn patched(object: &Value, response: &Value) -> Value {
    let mut object = object.clone();
    let Some(patch) = response.get("patch") else { return object };
    assert_eq!(response["patchType"], "JSONPatch");
    let patch: ByteString = serde_json::from_value(patch.clone()).expect("base64");
    let patch: json_patch::Patch = serde_json::from_slice(&patch.0).expect("a patch");
    json_patch::patch(&mut object, &patch).expect("it fits");
    object
}

/// Whether its numbers keep their value in a text. Fractions may not; no field of a pod has any.
fn is_written_as_read(value: &Value) -> bool {
    serde_json::from_str::<Value>(&value.to_string()).is_ok_and(|again| again == *value)
}

/// The webhook's answer to a body.
fn call(body: Vec<u8>) -> (StatusCode, Value) {
    static WEBHOOK: LazyLock<Router> = LazyLock::new(|| Injector::new(IMAGE.to_owned()).router());
    let request = Request::post("/v1/inject").body(Body::from(body)).expect("a request");
    let answering = async {
        let response = WEBHOOK.clone().oneshot(request).await.expect("a router does not fail");
        let (parts, body) = response.into_parts();
        (parts.status, body.collect().await.expect("it is in memory").to_bytes())
    };
    let (status, body) = on_runtime(|runtime, _| runtime.block_on(answering));
    let is_good = status == StatusCode::OK;
    let answer = is_good.then(|| serde_json::from_slice(&body).expect("an answer is JSON"));
    (status, answer.unwrap_or_default())
}

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";
const IMAGE: &str = "registry.example.com/conclave:1";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds;

    #[test]
    fn the_seeds_are_answered_in_each_way() {
        let mut ways = Vec::new();
        for (path, seed) in seeds::of("review").expect("seeds") {
            let (status, answer) = call(seed);
            let response = &answer["response"];
            let way = match (status, response["allowed"].as_bool(), response.get("patch")) {
                (StatusCode::OK, Some(true), Some(_)) => "patched",
                (StatusCode::OK, Some(true), None) => "left alone",
                (StatusCode::OK, Some(false), None) => "refused",
                other => panic!("{}: {other:?}", path.display()),
            };
            ways.push(way);
        }
        for way in ["patched", "left alone", "refused"] {
            assert!(ways.contains(&way), "none is {way}");
        }
    }
}
