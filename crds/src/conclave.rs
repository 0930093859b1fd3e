//! The kind `Conclave`: one group of pods and its policies.

use conclave_protocols::policy::{
    Arbiter, Caching, ClockAlgorithm, ElectionAlgorithm, Evidence, Handoff, LockAlgorithm,
    Preemption,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::period::Period;
use crate::status::ConclaveStatus;

/// What the user wants of a group. Every field has a default, so that `spec: {}` is enough.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "conclave.dev",
    version = "v1alpha1",
    kind = "Conclave",
    plural = "conclaves",
    shortname = "ccv",
    category = "conclave",
    namespaced,
    status = "ConclaveStatus",
    derive = "PartialEq",
    doc = "A group of pods that coordinate among themselves, and its policies.",
    printcolumn(name = "Leader", type_ = "string", json_path = ".status.leader.pod"),
    printcolumn(name = "Epoch", type_ = "integer", json_path = ".status.epoch"),
    printcolumn(
        name = "Members",
        type_ = "string",
        description = "Members whose pod is ready, of all members",
        json_path = ".status.readiness"
    ),
    printcolumn(name = "Arbiter", type_ = "string", json_path = ".spec.arbiter"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Leaders",
        type_ = "string",
        description = "Who leads each election beside `default`",
        json_path = ".status.leaders"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = limits::name_rule(),
    validation = limits::service_rule(),
    validation = limits::timeout_rule()
)]
#[serde(rename_all = "camelCase", default)]
pub struct ConclaveSpec {
    /// What makes the outcome of an algorithm safe.
    pub arbiter: Arbiter,
    /// What proves that a member is dead, so that the others need not wait as if it lived: nothing
    /// (`None`), or the kubelet's report that the sidecar's container has terminated
    /// (`ContainerStatus`). For that the members may read the pods of their namespace.
    pub evidence: Evidence,
    /// Waits and periods.
    pub timing: TimingSpec,
    /// How members guess which of them have crashed. A guess only leaves a candidate out of ballots; who leads
    /// and who holds ends by leases alone.
    pub failure_detection: FailureDetectionSpec,
    /// Elections. The one named `default` nominates the leader of the group among all members, and is there
    /// whether it is listed or not. In each other one the members are candidates that their
    /// applications put forward.
    #[schemars(length(max = limits::ELECTIONS_MAX), extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"],
        "x-kubernetes-validations" = [limits::distinct_services_rule(), limits::distinct_leases_rule()]
    ))]
    pub elections: Vec<ElectionSpec>,
    /// How locks are granted. Where several patterns fit, an exact name beats the longest literal
    /// prefix; a lock that no pattern fits cannot be taken. So with an empty list no lock can be taken at all.
    #[schemars(length(max = 16), extend(
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = [limits::distinct_patterns_rule()]
    ))]
    pub locks: Vec<LockSpec>,
    /// How the members' clocks are kept together.
    pub clock: ClockSpec,
}

impl Default for ConclaveSpec {
    fn default() -> Self {
        Self {
            arbiter: Arbiter::default(),
            evidence: Evidence::default(),
            timing: TimingSpec::default(),
            failure_detection: FailureDetectionSpec::default(),
            elections: vec![ElectionSpec::default()],
            locks: vec![LockSpec::default()],
            clock: ClockSpec::default(),
        }
    }
}

/// Waits and periods.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("x-kubernetes-validations" = limits::timing_rules()))]
#[serde(rename_all = "camelCase", default)]
pub struct TimingSpec {
    /// How long a member promises not to follow another leader: 300ms to 1m, and at least five
    /// heartbeats. A leader that was lost is missed for about this long.
    pub leader_lease: Period,
    /// How often the leader asks for promises: 50ms to 10s.
    pub heartbeat: Period,
    /// How long a lock keeps others out when its holder was lost: up to 10m, and at least 2s more
    /// than `leaderLease`.
    pub member_lease: Period,
    /// How long the group goes on without the API server: 3s to 1h.
    pub api_outage: Period,
}

impl Default for TimingSpec {
    fn default() -> Self {
        Self {
            leader_lease: Period::new("1500ms"),
            heartbeat: Period::new("250ms"),
            member_lease: Period::new("10s"),
            api_outage: Period::new("60s"),
        }
    }
}

/// How members guess which of them have crashed: by the silence of those whose heartbeats, or answers to them, they
/// expect at each `timing.heartbeat`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("x-kubernetes-validations" = limits::failure_detection_rules()))]
#[serde(rename_all = "camelCase", default)]
pub struct FailureDetectionSpec {
    /// Who was silent for so long is suspected: at least twice `timing.heartbeat`, and at most
    /// `timing.leaderLease`. Three heartbeats and a half, if none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Period>,
    /// A shorter silence is suspected, too, if one of so many heartbeats would come as late, going by the last 100:
    /// with 8, one of 10^8. From 1 to 16; by the timeout alone, if none is given.
    #[schemars(range(min = limits::PHI_MIN, max = limits::PHI_MAX))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phi: Option<i32>,
}

/// How one election is held.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("x-kubernetes-validations" = limits::election_rules()))]
#[serde(rename_all = "camelCase", default)]
pub struct ElectionSpec {
    /// The name of the election: lower-case letters, digits and dashes.
    #[schemars(length(min = 1, max = limits::ELECTION_NAME_MAX))]
    pub name: String,
    /// Who wins: the highest living rank at once (`Bully`), or the highest on a list that goes
    /// round (`Ring`).
    pub algorithm: ElectionAlgorithm,
    /// When the next begins to lead after a leader that is to give the lead to another: when its application
    /// has stopped, and at its deadline otherwise (`afterStop`), or at once, so that both may believe until that
    /// deadline (`beforeStop`).
    pub handoff: Handoff,
    /// Whether a candidate of a higher priority takes over: not from a leader that goes on (`Never`), or as
    /// `handoff` has it (`Graceful`).
    pub preemption: Preemption,
    /// A Service that leads to the pod that leads, if there is to be one. It follows the leader and may
    /// lag: an application that it reaches asks its sidecar whether it leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ElectionService>,
    /// A Lease of the namespace that the leader must have too, so that programs with client-go's leader election
    /// take turns with the members. It is made if it is not there, and never deleted.
    #[schemars(length(min = 1, max = limits::LEASE_NAME_MAX))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_name: Option<String>,
}

impl Default for ElectionSpec {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            algorithm: ElectionAlgorithm::default(),
            handoff: Handoff::default(),
            preemption: Preemption::default(),
            service: None,
            lease_name: None,
        }
    }
}

/// A Service that leads to the leader of an election.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("x-kubernetes-validations" = limits::service_rules()))]
#[serde(rename_all = "camelCase")]
pub struct ElectionService {
    /// The name of the Service; that of the group, a dash and that of the election, if none is given.
    #[schemars(length(max = limits::SERVICE_NAME_MAX))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The port of the Service.
    #[schemars(range(min = limits::PORT_MIN, max = limits::PORT_MAX))]
    #[serde(default = "http")]
    pub port: i32,
    /// The port on which the applications listen.
    #[schemars(range(min = limits::PORT_MIN, max = limits::PORT_MAX))]
    pub target_port: i32,
}

fn http() -> i32 {
    80
}

/// How the locks of some names are granted.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("x-kubernetes-validations" = limits::lock_rules()))]
#[serde(rename_all = "camelCase", default)]
pub struct LockSpec {
    /// The names of the locks. A `*` at the end fits any text, `/` too.
    #[schemars(
        length(min = 1, max = 16),
        inner(length(min = 1, max = 253)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub names: Vec<String>,
    /// Who grants: the leader of the group (`Central`), or the members among themselves, by a token
    /// (`TokenRing`, `Raymond`), by everybody's permission (`Lamport`, `RicartAgrawala`) or by the votes
    /// of some (`Maekawa`, `Voting`).
    pub algorithm: LockAlgorithm,
    /// The longest that one claim may hold: 1s to 24h.
    pub max_hold: Period,
    /// How long a lock stays closed after its holder was lost: up to 1h.
    pub lock_delay: Period,
    /// Whether a member that was in last may enter again without a message, until another wants in
    /// (`Central`, `RicartAgrawala`). A token always stays where it was used; the other algorithms
    /// ask for each entry.
    pub caching: Caching,
}

impl Default for LockSpec {
    fn default() -> Self {
        Self {
            names: vec!["*".to_owned()],
            algorithm: LockAlgorithm::default(),
            max_hold: Period::new("10m"),
            lock_delay: Period::new("0s"),
            caching: Caching::default(),
        }
    }
}

/// How the members' clocks are kept together.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("x-kubernetes-validations" = limits::clock_rules()))]
#[serde(rename_all = "camelCase", default)]
pub struct ClockSpec {
    /// Who asks whom: the leader asks all and tells each its correction (`Berkeley`).
    pub algorithm: ClockAlgorithm,
    /// How far apart two clocks may be: 1ms to 10s.
    pub precision: Period,
    /// The largest rate error of a clock, in parts per million.
    #[schemars(range(min = limits::DRIFT_PPM_MIN, max = limits::DRIFT_PPM_MAX))]
    pub max_drift_ppm: i32,
}

impl Default for ClockSpec {
    fn default() -> Self {
        Self {
            algorithm: ClockAlgorithm::default(),
            precision: Period::new("1ms"),
            max_drift_ppm: 100,
        }
    }
}
