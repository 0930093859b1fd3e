//! The webhook that adds the sidecar: `POST /v1/inject`.
//!
//! What it does to a pod is what `conclave inject` does to a manifest
//! ([`conclave_pods::inject`]). A pod that cannot have the sidecar is refused, with the field that
//! must change; the controller that creates pods for a workload reports that as an Event of the workload, and an
//! Event of the group says so too ([`refusals`]). Of a pod whose group is not there its creator is warned ([`groups`]).

pub mod groups;
pub mod refusals;

use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use conclave_crds::GROUP_LABEL;
use conclave_pods::inject::{Options, Resources, inject_pod};
use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use tracing::info;

use crate::telemetry::excerpt;
use groups::Groups;
use refusals::{Refused, Teller, is_label};

/// What injects. Clones are the same.
#[derive(Clone)]
pub struct Injector {
    options: Arc<Options>,
    free: Arc<Semaphore>,
    room: Arc<Semaphore>,
    teller: Option<Teller>,
    groups: Option<Groups>,
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
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    operation: String,
    resource: GroupVersionResource,
    #[serde(default)]
    namespace: String,
    /// Nothing is to come of it but the answer.
    dry_run: Option<bool>,
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
        let options = Arc::new(Options { image, ..Options::default() });
        let [free, room] = [REVIEWS, ROOM].map(|permits| Arc::new(Semaphore::new(permits)));
        Self { options, free, room, teller: None, groups: None }
    }

    /// Has sidecars ask for these, where a pod's annotations say nothing else.
    pub fn with_resources(mut self, resources: Resources) -> Self {
        Arc::make_mut(&mut self.options).resources = resources;
        self
    }

    /// Has the creator of a pod warned if its group is not there.
    pub fn knowing(self, groups: Groups) -> Self {
        Self { groups: Some(groups), ..self }
    }

    /// Has it reported when a pod is refused.
    pub fn telling(self, teller: Teller) -> Self {
        Self { teller: Some(teller), ..self }
    }

    /// The route.
    pub fn router(self) -> Router {
        Router::new().route("/v1/inject", post(inject)).with_state(self)
    }

    /// Reads a body, as soon as there is room for all of it. A small one has room in any case: a client
    /// that sends large ones slowly keeps no usual pod waiting.
    async fn receive(&self, body: Body) -> Result<(Bytes, Option<SemaphorePermit<'_>>), Refusal> {
        let length = body.size_hint().exact().ok_or_else(|| {
            (StatusCode::LENGTH_REQUIRED, "the length of the body is not given\n".to_owned())
        })?;
        let length = u32::try_from(length).ok().filter(|length| *length <= BODY_MAX);
        let length = length.ok_or_else(|| {
            (StatusCode::PAYLOAD_TOO_LARGE, format!("the body is longer than {BODY_MAX} bytes\n"))
        })?;
        let room = match length {
            0..=BODY_SMALL => None,
            _ => Some(self.room.acquire_many(length).await.map_err(|error| closed(&error))?),
        };
        let body = to_bytes(body, BODY_MAX as usize).await;
        Ok((body.map_err(|error| invalid(&error.to_string()))?, room))
    }

    /// The answer to one request.
    fn answer(&self, request: Request) -> Value {
        let is_new_pod = request.is_new_pod();
        let Request { uid, namespace, dry_run, object, .. } = request;
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
                let notified = problem.to_string();
                self.refuse(&namespace, &object, &notified, dry_run == Some(true));
                let status = json!({
                    "status": "Failure",
                    "reason": "Invalid",
                    "code": StatusCode::UNPROCESSABLE_ENTITY.as_u16(),
                    "message": format!("the pod cannot have the sidecar of Conclave: {notified}"),
                });
                json!({ "uid": uid, "allowed": false, "status": status })
            }
        }
    }

    /// What the creator of that pod is warned of.
    async fn warning(&self, namespaced: Option<(String, String)>) -> Option<String> {
        let (namespace, group) = namespaced?;
        self.groups.as_ref()?.warning(&namespace, &group).await
    }

    /// Logs that a pod is refused, and has it reported unless nothing was to be made anyway.
    fn refuse(&self, namespace: &str, pod: &Value, problem: &str, is_dry: bool) {
        if let Some(teller) = self.teller.as_ref().filter(|_| !is_dry)
            && let Some(refused) = Refused::new(namespace, pod, problem)
        {
            teller.tell(refused);
        }
        let (namespace, problem) = (excerpt(namespace), excerpt(problem));
        info!(%namespace, %problem, "a pod was refused");
    }
}

impl Request {
    fn is_new_pod(&self) -> bool {
        let GroupVersionResource { group, version, resource } = &self.resource;
        self.operation == "CREATE" && group.is_empty() && version == "v1" && resource == "pods"
    }

    /// The namespace of a new pod and the group that it names: they become parts of a path, so they must be names.
    fn group(&self) -> Option<(String, String)> {
        let labels = self.object.pointer("/metadata/labels").filter(|_| self.is_new_pod())?;
        let (namespace, group) = (self.namespace.as_str(), labels[GROUP_LABEL].as_str()?);
        let are_names = is_label(namespace) && is_label(group);
        are_names.then(|| (namespace.to_owned(), group.to_owned()))
    }
}

/// What is no review of this version gets 400.
async fn inject(State(injector): State<Injector>, body: Body) -> Result<Json<Value>, Refusal> {
    let (body, room) = injector.receive(body).await?;
    // Waited for with the body in hand: a slow sender keeps nobody waiting.
    let permit = injector.free.acquire().await.map_err(|error| closed(&error))?;
    let review: Review =
        serde_json::from_slice(&body).map_err(|error| invalid(&error.to_string()))?;
    if review.api_version != API_VERSION || review.kind != KIND {
        return Err(invalid(&format!("expected {KIND} of {API_VERSION}")));
    }
    let group = review.request.group();
    let mut response = injector.answer(review.request);
    // An API server that is slow to say whether there is a group keeps no other review waiting.
    drop((body, room, permit));
    if response["allowed"] == true
        && let Some(warning) = injector.warning(group).await
    {
        response["warnings"] = json!([warning]);
    }
    Ok(Json(json!({ "apiVersion": API_VERSION, "kind": KIND, "response": response })))
}

/// Status and reason.
type Refusal = (StatusCode, String);

fn invalid(reason: &str) -> Refusal {
    (StatusCode::BAD_REQUEST, format!("{reason}\n"))
}

fn closed(error: &AcquireError) -> Refusal {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n"))
}

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Reviews that are parsed at a time: JSON takes many times the memory of its text.
const REVIEWS: usize = 2;

/// The API server stores no object that is larger than about 1.5 MiB.
const BODY_MAX: u32 = 2 * 1024 * 1024;
/// A review of a usual pod is shorter.
const BODY_SMALL: u32 = 32 * 1024;
/// Bytes of larger bodies that are held at a time. As many connections as are served, each with a
/// small body, hold as much again.
const ROOM: usize = 8 * 1024 * 1024;

#[cfg(test)]
mod tests;
