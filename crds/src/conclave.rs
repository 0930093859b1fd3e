//! The kind `Conclave`: one group of pods and its policies.

use conclave_protocols::policy::{
    Arbiter, Averaging, Caching, ClockAlgorithm, ElectionAlgorithm, Evidence, Handoff,
    LockAlgorithm, Preemption, Topology,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::period::Period;
use crate::schema;
use crate::status::ConclaveStatus;

/// What you want of the group. Every field has a default, so `spec: {}` is enough.
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
    doc = "A group of pods that coordinate with one another, and its policies.",
    printcolumn(name = "Leader", type_ = "string", json_path = ".status.leader.pod"),
    printcolumn(name = "Epoch", type_ = "integer", json_path = ".status.epoch"),
    printcolumn(
        name = "Members",
        type_ = "string",
        description = "How many members are in a ready pod, and how many there are",
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
        description = "The leader of each election other than `default`",
        json_path = ".status.leaders"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = limits::name_rule(),
    validation = limits::service_rule(),
    validation = limits::timeout_rule()
)]
#[serde(rename_all = "camelCase", default)]
pub struct ConclaveSpec {
    /// What makes the result of an algorithm safe: the promises of a majority of the members and the register
    /// in the API server (`Quorum`), or nothing (`None`). With `None` every result is advisory, and there are
    /// no fencing tokens.
    pub arbiter: Arbiter,
    /// What counts as proof that a member is dead, so that the others need not wait out its promises: nothing
    /// (`None`), or the kubelet's report that the sidecar's container has terminated (`ContainerStatus`).
    /// `ContainerStatus` gives the members the right to read the pods of their namespace.
    pub evidence: Evidence,
    /// The leases and periods of the group.
    pub timing: TimingSpec,
    /// When a member suspects that another has crashed. A suspicion only leaves a candidate out of ballots. It
    /// ends no hold and no lead: only leases do.
    pub failure_detection: FailureDetectionSpec,
    /// The elections of the group. `default` elects the leader of the group, every member is a candidate in it,
    /// and it exists whether it is listed or not. In every other election the candidates are the members whose
    /// application stands.
    #[schemars(length(max = limits::ELECTIONS_MAX), extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"],
        "x-kubernetes-validations" = [limits::distinct_services_rule(), limits::distinct_leases_rule()]
    ))]
    pub elections: Vec<ElectionSpec>,
    /// The links between neighbours in an election by `SpanningTree`, which sends along them. Other messages go directly, and by
    /// the gateways of zones where two pods do not reach each other.
    pub topology: TopologySpec,
    /// How locks are granted. If several patterns match a name, an exact name beats a prefix, and a longer
    /// prefix beats a shorter one. A lock that no pattern matches cannot be taken, so with an empty list there are
    /// no locks at all. `locks` and `elections` may need 24 KiB together.
    #[schemars(length(max = 16), extend(
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = [limits::distinct_patterns_rule()]
    ))]
    pub locks: Vec<LockSpec>,
    /// Which members coordinate the locks of the algorithm `Superpeers`.
    pub superpeers: SuperpeersSpec,
    /// How the members keep the group clock.
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
            topology: TopologySpec::default(),
            locks: vec![LockSpec::default()],
            superpeers: SuperpeersSpec::default(),
            clock: ClockSpec::default(),
        }
    }
}

/// The leases and periods of the group.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("x-kubernetes-validations" = limits::timing_rules()))]
#[serde(rename_all = "camelCase", default)]
pub struct TimingSpec {
    /// How long a member promises to follow no other leader: 300ms to 1m, and at least five heartbeats. After
    /// a leader crashes, the group is without one for about this long.
    pub leader_lease: Period,
    /// How often the leader sends a heartbeat and asks for new promises: 50ms to 10s.
    pub heartbeat: Period,
    /// How long a lock stays with a holder that was lost: up to 10m, and at least 2s more than `leaderLease`.
    pub member_lease: Period,
    /// How long the group goes on at most while it cannot reach the API server: 3s to 1h. With 60s it surely does for
    /// 47s. After all members were lost at once, new members wait for this time and for `leaderLease` before one of them
    /// leads.
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

/// When a member suspects that another has crashed. It expects a heartbeat, or the answer to one, every
/// `timing.heartbeat`, and goes by how long the other has been silent.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("x-kubernetes-validations" = limits::failure_detection_rules()))]
#[serde(rename_all = "camelCase", default)]
pub struct FailureDetectionSpec {
    /// A member that was silent for this long is suspected: at least twice `timing.heartbeat`, and at most
    /// `timing.leaderLease`. Without it, three and a half heartbeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Period>,
    /// A member is suspected before `timeout` if a heartbeat that is this late has a probability of 10^-phi,
    /// judged by the last 100 heartbeats: 1 to 16. Without it, only `timeout` counts.
    #[schemars(range(min = limits::PHI_MIN, max = limits::PHI_MAX))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phi: Option<i32>,
}

/// One election.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("x-kubernetes-validations" = limits::election_rules()))]
#[serde(rename_all = "camelCase", default)]
pub struct ElectionSpec {
    /// The name of the election: lower-case letters, digits and dashes.
    #[schemars(length(min = 1, max = limits::ELECTION_NAME_MAX))]
    pub name: String,
    /// How the winner is found: the candidate of the highest rank that lives takes over (`Bully`), a list of the
    /// candidates goes round a ring and the highest on it wins (`Ring`), ranks go round a ring and only the
    /// highest comes back (`ChangRoberts`), or a tree grows and the greatest capacity is reported up it
    /// (`SpanningTree`).
    pub algorithm: ElectionAlgorithm,
    /// When the next leader begins after a leader hands over: when the application of the former one has
    /// stopped, or at its deadline (`afterStop`); or at once (`beforeStop`). With `beforeStop` both may believe
    /// that they lead until that deadline.
    pub handoff: Handoff,
    /// Whether a candidate of a higher priority takes the lead from a leader that could go on: no (`Never`), or
    /// by a hand-over as `handoff` says (`Graceful`).
    pub preemption: Preemption,
    /// A Service that sends connections to the leader's pod. Without it there is none. It may lag behind a change
    /// of leader, so an application that is called through it must ask its sidecar whether it leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ElectionService>,
    /// A Lease in the namespace of the group that the leader must hold too, so that members and programs with
    /// client-go's leader election never lead at the same time. The operator creates it if it is missing, and
    /// never deletes it.
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

/// A Service that sends connections to the leader's pod.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("x-kubernetes-validations" = limits::service_rules()))]
#[serde(rename_all = "camelCase")]
pub struct ElectionService {
    /// The name of the Service. Without it, `GROUP-ELECTION`.
    #[schemars(length(max = limits::SERVICE_NAME_MAX))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The port of the Service.
    #[schemars(range(min = limits::PORT_MIN, max = limits::PORT_MAX))]
    #[serde(default = "http")]
    pub port: i32,
    /// The port on which the application listens.
    #[schemars(range(min = limits::PORT_MIN, max = limits::PORT_MAX))]
    pub target_port: i32,
}

fn http() -> i32 {
    80
}

/// The links between neighbours in an election by `SpanningTree`. It saves messages and separates nobody: if an election comes
/// to nothing twice, all members are neighbours in the next. Pods that do not reach each other need no pairs but those of
/// neighbours: gateways pass on the rest.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySpec {
    /// Every two members are neighbours (`FullMesh`); or every two of one zone, and every two gateways, of which each
    /// zone has two (`Zones`). A pod's zone is its annotation `conclave.dev/zone`, or else its label
    /// `topology.kubernetes.io/zone`, which Kubernetes copies from the node from 1.35 on. Pods without a zone make
    /// one.
    pub kind: Topology,
}

/// How locks with certain names are granted.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("x-kubernetes-validations" = limits::lock_rules()))]
#[serde(rename_all = "camelCase", default)]
pub struct LockSpec {
    /// The names of the locks, or patterns. A `*` at the end matches any text, also one with a `/`.
    #[schemars(
        length(min = 1, max = 16),
        inner(length(min = 1, max = 253)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub names: Vec<String>,
    /// The members that grant the lock: the leader of the group (`Central`); the member that has the token (`TokenRing`,
    /// `Raymond`); all other members (`Lamport`, `RicartAgrawala`); some of the members, who vote
    /// (`Maekawa`, `Voting`); or the one of several coordinators to which the name of the lock falls
    /// (`Superpeers`).
    pub algorithm: LockAlgorithm,
    /// How long one claim may hold the lock at most: 1s to 24h.
    pub max_hold: Period,
    /// How much longer than `timing.memberLease` a lock stays closed after its holder was lost: up to 1h. It is
    /// for a store that cannot check fencing tokens.
    pub lock_delay: Period,
    /// Whether the member that held the lock last may take it again without a message, until another member asks
    /// for it (`Central`, `RicartAgrawala`, `Superpeers`). With `TokenRing` and `Raymond` that is always so. The other
    /// algorithms ask for each entry.
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

/// Which members coordinate the locks of the algorithm `Superpeers`.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SuperpeersSpec {
    /// How many of a hundred members are coordinators. The number of coordinators is the next power of two at or above
    /// that share, and never more than the largest power of two that fits into the group: 100 in a group of 7 gives 4.
    /// Each of them coordinates an equal part of all names.
    #[schemars(range(min = limits::SHARE_PERCENT_MIN, max = limits::SHARE_PERCENT_MAX))]
    pub share_percent: i32,
}

impl Default for SuperpeersSpec {
    fn default() -> Self {
        Self { share_percent: 10 }
    }
}

/// How the members keep the group clock.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("x-kubernetes-validations" = limits::clock_rules()))]
#[serde(rename_all = "camelCase", default)]
pub struct ClockSpec {
    /// How the clocks are compared: the leader asks all members, averages, and sends each its correction
    /// (`Berkeley`); each member asks the leader, until an answer is quick enough (`Cristian`); or each member asks
    /// the leader and up to three others, and follows the lowest stratum of those that agree (`NTP`).
    pub algorithm: ClockAlgorithm,
    /// How the leader averages with `Berkeley`, so that a wrong clock does not drag the others: the largest set of
    /// clocks within 20ms of one another (`LargestSet`, the default); the median of those within 20ms of the median
    /// (`Median`); or the middle of what the most of their error intervals have in common (`Intervals`).
    #[schemars(transform = schema::described_by_field)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub averaging: Option<Averaging>,
    /// How far apart the clocks of two members may be: 1ms to 10s.
    pub precision: Period,
    /// By how much the rate of a member's clock may be wrong, in parts per million.
    #[schemars(range(min = limits::DRIFT_PPM_MIN, max = limits::DRIFT_PPM_MAX))]
    pub max_drift_ppm: i32,
    /// How far the rate of a member's raw clock, as another shows it, may be from some constant within two minutes, in
    /// parts per billion. The smaller it is, the narrower are the bounds of group time that follow from clock probes.
    /// The default, 15 parts per million, is chosen and not proven: no standard bounds how fast a rate changes. 1000 is
    /// a value for machines with steady clocks. If the value is too small, the bounds may be wrong until the packets
    /// contradict it. Then the clock is `disrupted`, and the counter `conclave_clock_disruptions_total` rises.
    #[schemars(range(min = limits::WANDER_PPB_MIN, max = limits::WANDER_PPB_MAX))]
    pub max_wander_ppb: i32,
}

impl Default for ClockSpec {
    fn default() -> Self {
        Self {
            algorithm: ClockAlgorithm::default(),
            averaging: None,
            precision: Period::new("1ms"),
            max_drift_ppm: 100,
            max_wander_ppb: 15_000,
        }
    }
}
