//! Certifies members: `POST /v1/certificates`.
//!
//! The token says which pod asks, the API server which group that pod is in, and the request which
//! key it has. Nothing that the pod says about itself gets into the certificate.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use conclave_crds::{Conclave, GROUP_LABEL};
use conclave_pods::PeerId;
use conclave_protocols::ids::PodUid;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tracing::{debug, error, info, warn};

use super::bearer::{self, Bearer};
use super::problem::{Kind, Problem};
use super::{Authority, certificates};
use crate::observe::PodSeen;
use crate::telemetry::{chain, excerpt};

/// What certifies. Clones are the same.
#[derive(Clone)]
pub struct Issuing {
    client: Client,
    authority: watch::Receiver<Option<Arc<Authority>>>,
    lifetime: Duration,
    reviews: Arc<Semaphore>,
}

/// What a pod asks for.
#[derive(Deserialize)]
struct Wanted {
    group: String,
    request: String,
}

impl Issuing {
    /// Certifies by this authority, for so long.
    pub fn new(
        client: Client,
        authority: watch::Receiver<Option<Arc<Authority>>>,
        lifetime: Duration,
    ) -> Self {
        Self { client, authority, lifetime, reviews: Arc::new(Semaphore::new(REVIEWS)) }
    }

    /// The route.
    pub fn router(self) -> Router {
        Router::new()
            .route("/v1/certificates", post(certify))
            .layer(DefaultBodyLimit::max(BODY_MAX))
            .with_state(self)
    }

    /// The API server is asked about nothing that can be refused without it.
    async fn certify(&self, headers: &HeaderMap, body: &[u8]) -> Result<String, Problem> {
        let token = bearer::token(headers, Timestamp::now())?;
        let invalid = |detail: String| Problem::new(Kind::Invalid, detail);
        let wanted: Wanted =
            serde_json::from_slice(body).map_err(|error| invalid(format!("the body: {error}")))?;
        if wanted.request.len() > REQUEST_MAX {
            return Err(invalid(format!("`request` is longer than {REQUEST_MAX} bytes")));
        }
        let key = certificates::requested_key(&wanted.request)
            .map_err(|error| invalid(error.to_string()))?;
        let bearer = self.review(token).await?;
        let pod = self.pod(&bearer, &wanted.group).await?;
        let group = self.group(&bearer.namespace, &wanted.group).await?;
        let Bearer { namespace, service_account, .. } = bearer.clone();
        let name = PeerId { namespace, service_account, group, pod }.to_string();

        let authority = self.authority.borrow().clone();
        let authority = authority.ok_or_else(|| unavailable("there is no authority yet"))?;
        let now = Timestamp::now();
        let made = certificates::member(&authority.current, &key, &name, now, self.lifetime);
        let certificate = made.map_err(|error| {
            error!(error = chain(&error), name, "no certificate could be made");
            unavailable("the certificate could not be made")
        })?;
        info!(bearer.namespace, pod = bearer.pod, group = wanted.group, "certified");
        Ok(certificate)
    }

    /// Few at a time: anybody can make the operator ask.
    async fn review(&self, token: String) -> Result<Bearer, Problem> {
        let permit = self.reviews.acquire().await;
        let _permit = permit.map_err(|_| unavailable("no token is reviewed any more"))?;
        bearer::review(&self.client, token).await
    }

    /// The pod of the token, which must live and be in the group.
    async fn pod(&self, bearer: &Bearer, group: &str) -> Result<PodUid, Problem> {
        let forbidden = |detail: &str| Problem::new(Kind::Forbidden, detail);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &bearer.namespace);
        let pod = pods.get_opt(&bearer.pod).await.map_err(failed)?;
        let pod = pod.ok_or_else(|| forbidden("the pod of the token is gone"))?;
        let seen = PodSeen::from(&pod);
        if seen.uid != bearer.uid {
            return Err(forbidden("the pod of the token is gone, and another has its name"));
        }
        if seen.service_account != bearer.service_account {
            return Err(forbidden("the pod has another ServiceAccount than the token"));
        }
        if seen.is_over {
            return Err(forbidden("the pod has ended"));
        }
        if pod.labels().get(GROUP_LABEL).map(String::as_str) != Some(group) {
            return Err(forbidden("the pod has not the label of this group"));
        }
        seen.uid.parse().map_err(|_| unavailable("the UID of the pod is no UUID"))
    }

    async fn group(&self, namespace: &str, name: &str) -> Result<PodUid, Problem> {
        let groups: Api<Conclave> = Api::namespaced(self.client.clone(), namespace);
        let group = groups.get_opt(name).await.map_err(failed)?;
        let group = group.ok_or_else(|| {
            Problem::new(Kind::NoGroup, format!("there is no Conclave `{name}` in `{namespace}`"))
        })?;
        let uid = group.uid().unwrap_or_default();
        uid.parse().map_err(|_| unavailable("the UID of the group is no UUID"))
    }
}

async fn certify(
    State(issuing): State<Issuing>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    match issuing.certify(&headers, &body).await {
        Ok(certificate) => Ok(Json(json!({ "certificate": certificate }))),
        Err(problem) => {
            debug!(problem = %excerpt(&problem.detail), "not certified");
            Err(problem)
        }
    }
}

/// A call to the API server that failed. What it answered is not for the pod.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` calls it so")]
pub(super) fn failed(error: kube::Error) -> Problem {
    warn!(error = chain(&error), "the API server has not helped to certify");
    unavailable("the API server has not answered as it should")
}

fn unavailable(detail: &str) -> Problem {
    Problem::new(Kind::Unavailable, detail)
}

/// A token has about one kilobyte, a request half of that.
const BODY_MAX: usize = 64 * 1024;
const REQUEST_MAX: usize = 8 * 1024;
/// Tokens that the API server is asked about at a time.
const REVIEWS: usize = 8;
