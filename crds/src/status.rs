//! What the operator observes of a group.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::limits::{ELECTION_NAME_MAX, ELECTIONS_MAX};
use crate::period::Period;

/// What the operator has observed of the group. Only the operator writes it, and it may lag, so an application
/// asks its sidecar instead.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConclaveStatus {
    /// The generation of the `spec` that the operator has acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The generation of the `spec` that the members run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_generation: Option<i64>,
    /// The number of the current view. It is 0 before the first view and never goes back. If the group's Lease
    /// is lost, the next view still gets a larger number.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// The largest number that a fencing token of the current view can begin with.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<i64>,
    /// The leases of the current view: what new members must wait for if the group's Lease is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitsStatus>,
    /// The leader of the group, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<LeaderStatus>,
    /// How many members the current view has.
    #[schemars(range(min = 0, max = 512))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<i32>,
    /// How many members are in a pod that is ready.
    #[schemars(range(min = 0, max = 512))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_members: Option<i32>,
    /// `readyMembers` and `members` as one text, such as `4/5`.
    #[schemars(length(max = 16))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness: Option<String>,
    /// The leader of each election other than `default`, and of `default` too if it has a Service.
    #[schemars(length(max = ELECTIONS_MAX), extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"]
    ))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elections: Vec<ElectionStatus>,
    /// `elections` as one text without `default`, such as `reports=orders-1,mails=-`. A `-` means that nobody leads.
    #[schemars(length(max = LEADERS_MAX))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaders: Option<String>,
    /// The certificate authority of the members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<AuthorityStatus>,
    /// The conditions of the group. `Ready` sums up the others.
    #[schemars(
        length(max = 16),
        extend(
            "x-kubernetes-list-type" = "map",
            "x-kubernetes-list-map-keys" = ["type"]
        ),
        transform = bound_conditions
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The pod that leads.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderStatus {
    /// The name of the pod.
    #[schemars(length(max = 253))]
    pub pod: String,
    /// The UID of the pod.
    #[schemars(length(max = 64))]
    pub uid: String,
}

/// The leader of one election.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ElectionStatus {
    /// The name of the election.
    #[schemars(length(max = ELECTION_NAME_MAX))]
    pub name: String,
    /// The leader, if one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<LeaderStatus>,
    /// The fencing token of the lead. For `default` it is the epoch.
    #[schemars(range(min = 0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<i64>,
    /// When the operator first saw this leader with this token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// The length of a name, of a pod's name, and of what joins them, for each election.
const LEADERS_MAX: usize = ELECTIONS_MAX * (ELECTION_NAME_MAX + 253 + 2);

/// The certificate authority of the members: where a sidecar asks for its certificate, and which certificates
/// members trust.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorityStatus {
    /// Where the operator issues certificates: `IP:port`, over TLS. The name of the server is
    /// `authority.conclave.dev`.
    #[schemars(length(max = 64))]
    pub address: String,
    /// The certificates of the authority, each as the base64 text of a PEM file in one line, with a space between them.
    /// Both the members and the server at `address` have certificates of this authority. While the authority is being
    /// replaced there are two.
    #[schemars(length(max = 16384))]
    pub bundle: String,
}

impl AuthorityStatus {
    /// An authority with these certificates, in PEM, one after another.
    pub fn new(address: String, pem: &str) -> Self {
        Self { address, bundle: in_one_line(pem) }
    }
}

/// Certificates in PEM without their first and last lines and without ends of lines: a reader of a status wants to see the
/// rest of it.
fn in_one_line(pem: &str) -> String {
    let certificates = pem.split("-----END CERTIFICATE-----").map(|certificate| {
        let lines = certificate.lines().map(str::trim);
        lines.filter(|line| !line.starts_with("-----")).collect::<String>()
    });
    certificates.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The leases of a view.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitsStatus {
    /// How long a member promises to follow no other leader.
    pub leader_lease: Period,
    /// How long a lock stays with a holder that was lost.
    pub member_lease: Period,
    /// How long the group goes on while it cannot reach the API server.
    pub api_outage: Period,
}

/// Gives the texts of a condition the lengths that Kubernetes' own types state and that the schema
/// of `k8s-openapi` leaves out.
fn bound_conditions(conditions: &mut Schema) {
    for (field, length_max) in
        [("type", 316), ("status", 7), ("reason", 1_024), ("message", 32_768)]
    {
        let field = conditions.pointer_mut(&format!("/items/properties/{field}"));
        if let Some(field) = field.and_then(|field| field.as_object_mut()) {
            field.insert("maxLength".to_owned(), length_max.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_has_one_line() {
        let pem = |text: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
        };
        let both = format!("{}{}", pem("MIIB\r\nkTCB=="), pem("MIIC"));
        assert_eq!(AuthorityStatus::new(String::new(), &both).bundle, "MIIBkTCB== MIIC");
        assert_eq!(AuthorityStatus::new(String::new(), "").bundle, "");
    }
}
