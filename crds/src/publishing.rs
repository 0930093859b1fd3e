//! Which elections are published, and under which names: operator and sidecars must agree on it.
//!
//! The leader of a published election writes itself to an EndpointSlice that the operator has made: the
//! operator reads it there, and a Service, if one is wanted, leads to it.

use crate::conclave::{ConclaveSpec, ElectionSpec};
use crate::limits::DEFAULT_ELECTION;
use crate::names::object_name;

/// The label that names the election of a Service or of a slice.
pub const ELECTION_LABEL: &str = "conclave.dev/election";

/// The annotation of a slice with the fencing token of the lead that was written to it last. `default` has
/// its epoch in the place of a token. It never falls.
pub const TOKEN_ANNOTATION: &str = "conclave.dev/token";

/// The elections that are published: those whose leader stands in no record of the group, and those with a
/// Service.
pub fn published(spec: &ConclaveSpec) -> impl Iterator<Item = &ElectionSpec> {
    let is_published =
        |spec: &&ElectionSpec| spec.name != DEFAULT_ELECTION || spec.service.is_some();
    spec.elections.iter().filter(is_published)
}

/// The names of the Leases that leaders must have besides.
pub fn lease_names(spec: &ConclaveSpec) -> impl Iterator<Item = &str> {
    spec.elections.iter().filter_map(|election| election.lease_name.as_deref())
}

/// The name of an election's Service.
///
/// ```
/// use conclave_crds::{ElectionSpec, service_name};
///
/// let election = ElectionSpec { name: "reports".to_owned(), ..ElectionSpec::default() };
/// assert_eq!(service_name("orders", &election), "orders-reports");
/// ```
pub fn service_name(group: &str, election: &ElectionSpec) -> String {
    let given = election.service.as_ref().and_then(|service| service.name.clone());
    given.unwrap_or_else(|| format!("{group}-{}", election.name))
}

/// The name of an election's EndpointSlice. No group has a dot in its name, so no two slices have one name.
///
/// ```
/// assert_eq!(conclave_crds::slice_name("orders", "reports"), "conclave-orders.reports");
/// ```
pub fn slice_name(group: &str, election: &str) -> String {
    format!("{}.{election}", object_name(group))
}
