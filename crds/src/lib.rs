//! The custom resources of Conclave, as the operator and the sidecars read them, and as the API
//! server validates them.
//!
//! [`Conclave`] is one group of pods and its policies. The schema in `conclave.dev_conclaves.yaml`
//! beside this crate is generated from the types here ([`schema::definition`]); a test compares the
//! two, and `UPDATE=1 cargo test -p conclave-crds` writes the file anew.
//!
//! Every rule stands twice: as schema or CEL, so that the API server refuses a wrong resource with
//! a message that names the field, and in [`policy()`], because a file given to `conclave` never
//! passes an API server. A test holds the two against each other.

mod conclave;
mod limits;
mod manifest;
mod names;
mod period;
mod policy;
mod publishing;
pub mod schema;
mod status;

pub use conclave_protocols::policy::{
    Arbiter, Averaging, Caching, ClockAlgorithm, ElectionAlgorithm, Evidence, Handoff,
    LockAlgorithm, Preemption, Topology,
};

pub use conclave::{
    ClockSpec, Conclave, ConclaveSpec, ElectionService, ElectionSpec, FailureDetectionSpec,
    LockSpec, SuperpeersSpec, TimingSpec, TopologySpec,
};
pub use limits::DEFAULT_ELECTION;
pub use manifest::{ManifestError, read};
pub use names::{
    GROUP_LABEL, GROUP_UID_ANNOTATION, PEER_PORT, PEER_PORT_NAME, PROBE_PORT_NAME,
    RECORD_ANNOTATION, SIDECAR_CONTAINER, object_name,
};
pub use period::{Period, PeriodError};
pub use policy::{PolicyError, detection, policy};
pub use publishing::{
    ELECTION_LABEL, TOKEN_ANNOTATION, lease_names, published, service_name, slice_name,
};
pub use status::{AuthorityStatus, ConclaveStatus, ElectionStatus, LeaderStatus, WaitsStatus};
