//! The register is one Lease of the API server. Its record stands in an annotation, and is replaced
//! as a whole with the resourceVersion that was read.

mod watching;

use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_crds::{GROUP_UID_ANNOTATION, RECORD_ANNOTATION, object_name};
use conclave_protocols::record::Record;
use conclave_protocols::register::{self, Message, Value, Version};
use conclave_protocols::{Epoch, PodUid};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Status};
use kube::api::{GetParams, PostParams};
use kube::client::Body;
use kube::{Client, Resource, ResourceExt};
use tokio::sync::{mpsc, watch};
use tracing::{debug, warn};

pub use watching::Sight;

use crate::metrics::Metrics;

/// From 1970 to 2024.
pub(super) const BEFORE_2024: Duration = Duration::from_secs(1_704_067_200);

/// A way to the Lease of a group.
#[derive(Clone)]
pub struct KubernetesRegister {
    client: Client,
    namespace: String,
    name: String,
    /// The UID of the group's resource, whose register the Lease is.
    owner: PodUid,
    /// The Lease had a record when this process started.
    was_used: bool,
    /// The Lease as it was last read: what is not ours in it is written back.
    last: Arc<watch::Sender<Option<Lease>>>,
    metrics: Metrics,
}

impl std::fmt::Debug for KubernetesRegister {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lease {}/{}", self.namespace, self.name)
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error("the API server was not asked in time, or did not answer in time")]
    Timeout,
    #[error("the API server could not be asked")]
    Kube(#[from] kube::Error),
    #[error("the API server answered something else than a Lease")]
    Json(#[from] serde_json::Error),
    #[error("the request could not be made")]
    Request(#[from] kube::core::request::Error),
    #[error("the Lease has a record that cannot be read")]
    Record(#[source] serde_json::Error),
    #[error("the Lease is that of an earlier Conclave, and the operator has not taken it over yet")]
    Foreign,
    #[error("the record was taken off the Lease, and the operator has not put a mark there yet")]
    Stripped,
    #[error("the Lease was never read")]
    Unread,
    #[error("the API server answered {status}: {message}")]
    Refused { status: u16, message: String },
}

/// Something else is in place.
const CONFLICT: u16 = 409;
/// The API server asks for patience.
const IN_VAIN_FOR_NOW: [u16; 2] = [408, 429];

/// How many characters of what the API server says about a refusal the log has. It may quote all that was to be written.
const MESSAGE_MAX: usize = 300;

impl CallError {
    /// Whether nothing was done, and nothing will be done for the same call.
    fn is_final(&self) -> bool {
        matches!(self, Self::Refused { status, .. }
            if (400..500).contains(status) && !IN_VAIN_FOR_NOW.contains(status))
    }

    /// The API server answered with that status, and this.
    fn refused(status: u16, body: &[u8]) -> Self {
        let message = serde_json::from_slice::<Status>(body).ok().and_then(|body| body.message);
        let message = message.unwrap_or_default().chars().take(MESSAGE_MAX).collect();
        Self::Refused { status, message }
    }
}

impl KubernetesRegister {
    /// The Lease of a group. `status_epoch` is that of the resource's status: above zero, a Lease
    /// without a record is no new one.
    pub fn new(
        client: Client,
        namespace: &str,
        group: &str,
        owner: PodUid,
        status_epoch: Epoch,
        metrics: Metrics,
    ) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            name: object_name(group),
            owner,
            was_used: status_epoch > Epoch::default(),
            last: Arc::new(watch::Sender::new(None)),
            metrics,
        }
    }

    pub(super) fn call(&self, call: Message, answers: mpsc::Sender<Message>) {
        let register = self.clone();
        tokio::spawn(async move {
            let answer = register.answer(call).await;
            // The member that asked is gone.
            let _ = answers.send(answer).await;
        });
    }

    async fn answer(&self, call: Message) -> Message {
        let begun = Instant::now();
        match call {
            Message::Read(id) => match self.read().await {
                Ok(value) => {
                    self.metrics.register.answered("read", "success", begun.elapsed());
                    Message::Value { id, value: Box::new(value) }
                }
                Err(error) => {
                    let cause = &error as &dyn std::error::Error;
                    let outcome = if matches!(error, CallError::Record(_) | CallError::Stripped) {
                        warn!(error = cause, "read the register");
                        "unreadable"
                    } else {
                        debug!(error = cause, "read the register");
                        "error"
                    };
                    self.metrics.register.answered("read", outcome, begun.elapsed());
                    Message::Unknown(id)
                }
            },
            Message::Write { id, version, record } => {
                let (outcome, answer) = match self.write(version, &record).await {
                    Ok(version) => ("success", Message::Written { id, version }),
                    Err(CallError::Refused { status: CONFLICT, .. }) => {
                        ("conflict", Message::Conflict(id))
                    }
                    Err(error) => {
                        warn!(error = &error as &dyn std::error::Error, "write the register");
                        if error.is_final() {
                            ("refused", Message::Declined(id))
                        } else {
                            ("unknown", Message::Unknown(id))
                        }
                    }
                };
                self.metrics.register.answered("write", outcome, begun.elapsed());
                answer
            }
            Message::Value { id, .. }
            | Message::Written { id, .. }
            | Message::Conflict(id)
            | Message::Declined(id)
            | Message::Unknown(id) => Message::Unknown(id),
        }
    }

    async fn read(&self) -> Result<Value, CallError> {
        let request = kube::core::Request::new(Lease::url_path(&(), Some(&self.namespace)))
            .get(&self.name, &GetParams::default())?;
        let (lease, date) = self.send(request).await?;
        let record = self.record_of(&lease)?;
        let version = Version(lease.resource_version().unwrap_or_default());
        self.last.send_replace(Some(lease));
        Ok(Value { version, record, time_term: time_term(date) })
    }

    /// What a Lease holds, if it is that of this group.
    fn record_of(&self, lease: &Lease) -> Result<Option<Record>, CallError> {
        let of = lease.annotations().get(GROUP_UID_ANNOTATION);
        if of.is_none_or(|uid| uid.parse() != Ok(self.owner)) {
            return Err(CallError::Foreign);
        }
        let text = lease.annotations().get(RECORD_ANNOTATION);
        let record: Option<Record> =
            text.map(|text| serde_json::from_str(text)).transpose().map_err(CallError::Record)?;
        if record.is_none() && self.was_used {
            return Err(CallError::Stripped);
        }
        Ok(record)
    }

    async fn write(&self, version: Version, record: &Record) -> Result<Version, CallError> {
        let Some(mut lease) = self.last.borrow().clone() else { return Err(CallError::Unread) };
        let text = serde_json::to_string(record)?;
        lease.annotations_mut().insert(RECORD_ANNOTATION.to_owned(), text);
        lease.metadata.resource_version = Some(version.0);
        lease.metadata.managed_fields = None;
        lease.spec = Some(for_people(record, lease.spec.as_ref()));
        let request = kube::core::Request::new(Lease::url_path(&(), Some(&self.namespace)))
            .replace(&self.name, &PostParams::default(), serde_json::to_vec(&lease)?)?;
        let (lease, _) = self.send(request).await?;
        let version = Version(lease.resource_version().unwrap_or_default());
        self.last.send_replace(Some(lease));
        Ok(version)
    }

    /// Asks the API server, and returns the Lease and the time by the API server's clock.
    async fn send(
        &self,
        request: axum::http::Request<Vec<u8>>,
    ) -> Result<(Lease, Option<Timestamp>), CallError> {
        let exchange = async {
            let response = self.client.send(request.map(Body::from)).await?;
            let status = response.status();
            let date = response.headers().get("date").and_then(|date| date.to_str().ok());
            let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
            let body = response.into_body().collect_bytes().await?;
            if !status.is_success() {
                return Err(CallError::refused(status.as_u16(), &body));
            }
            Ok((serde_json::from_slice(&body)?, date.map(|date| date.timestamp())))
        };
        conclave_kubernetes::within(register::CALL_MAX, exchange)
            .await
            .map_err(|_| CallError::Timeout)?
    }
}

/// The Lease's own fields: nothing decides by them.
fn for_people(record: &Record, before: Option<&LeaseSpec>) -> LeaseSpec {
    let leader = record.leader.and_then(|leader| record.rank(leader));
    let name = leader.and_then(|rank| record.member(rank)).map(|info| info.name.clone());
    let changed = before.is_none_or(|spec| spec.holder_identity != name);
    let now = MicroTime(Timestamp::now());
    let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
    let acquired = before.and_then(|spec| spec.acquire_time.clone());
    LeaseSpec {
        holder_identity: name,
        acquire_time: if changed { Some(now.clone()) } else { acquired },
        renew_time: Some(now),
        lease_transitions: Some(transitions.saturating_add(i32::from(changed))),
        ..before.cloned().unwrap_or_default()
    }
}

fn time_term(date: Option<Timestamp>) -> Epoch {
    let seconds = date.and_then(|date| u64::try_from(date.as_second()).ok()).unwrap_or(0);
    register::time_term(Duration::from_secs(seconds).saturating_sub(BEFORE_2024))
}

#[cfg(test)]
mod tests;
