//! The webhook that adds the sidecar: `POST /v1/inject`.
//!
//! What it does to a pod is what `conclave inject` does to a manifest
//! ([`conclave_sidecar::inject`]). A pod that cannot have the sidecar is refused, with the field that
//! must change; whoever creates pods for a workload tells that as an Event of the workload.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use conclave_sidecar::inject::{Options, inject_pod};
use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tracing::info;

/// What injects. Clones are the same.
#[derive(Clone)]
pub struct Injector {
    options: Arc<Options>,
    free: Arc<Semaphore>,
}

/// The part of an `AdmissionReview` that is looked at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    uid: String,
    operation: String,
    resource: GroupVersionResource,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    object: Value,
}

#[derive(Deserialize, Eq, PartialEq)]
struct GroupVersionResource {
    group: String,
    version: String,
    resource: String,
}

impl Injector {
    /// Injects a sidecar with this image, where a pod's annotation names no other.
    pub fn new(image: String) -> Self {
        let options = Arc::new(Options { group: None, image });
        Self { options, free: Arc::new(Semaphore::new(REVIEWS)) }
    }

    /// The route.
    pub fn router(self) -> Router {
        Router::new()
            .route("/v1/inject", post(inject))
            .layer(DefaultBodyLimit::max(BODY_MAX))
            .with_state(self)
    }

    /// The answer to one request.
    fn answer(&self, request: Request) -> Value {
        let Request { uid, operation, resource, namespace, object } = request;
        let is_new_pod = operation == "CREATE"
            && resource.group.is_empty()
            && resource.version == "v1"
            && resource.resource == "pods";
        if !is_new_pod {
            return json!({ "uid": uid, "allowed": true });
        }
        let mut injected = object.clone();
        match inject_pod(&mut injected, &self.options) {
            Ok(_) if injected == object => json!({ "uid": uid, "allowed": true }),
            Ok(_) => {
                let patch = json_patch::diff(&object, &injected).to_string();
                json!({
                    "uid": uid,
                    "allowed": true,
                    "patchType": "JSONPatch",
                    "patch": ByteString(patch.into_bytes()),
                })
            }
            Err(problem) => {
                info!(namespace, %problem, "a pod was refused");
                let status = json!({
                    "status": "Failure",
                    "reason": "Invalid",
                    "code": StatusCode::UNPROCESSABLE_ENTITY.as_u16(),
                    "message": format!("the pod cannot have the sidecar of Conclave: {problem}"),
                });
                json!({ "uid": uid, "allowed": false, "status": status })
            }
        }
    }
}

/// What is no review of this version gets 400.
async fn inject(
    State(injector): State<Injector>,
    body: Bytes,
) -> Result<Json<Value>, (StatusCode, String)> {
    let invalid = |reason: String| (StatusCode::BAD_REQUEST, format!("{reason}\n"));
    // Waited for with the body in hand: a slow sender keeps nobody waiting.
    let _permit = injector.free.acquire().await;
    let review: Review =
        serde_json::from_slice(&body).map_err(|error| invalid(error.to_string()))?;
    if review.api_version != API_VERSION || review.kind != KIND {
        return Err(invalid(format!("expected {KIND} of {API_VERSION}")));
    }
    let response = injector.answer(review.request);
    Ok(Json(json!({ "apiVersion": API_VERSION, "kind": KIND, "response": response })))
}

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Reviews that are parsed at a time: JSON takes many times the memory of its text.
const REVIEWS: usize = 2;

/// The API server stores no object that is larger than about 1.5 MiB.
const BODY_MAX: usize = 2 * 1024 * 1024;

#[cfg(test)]
mod tests;
