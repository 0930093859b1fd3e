//! Names that operator, sidecar and chart must agree on.

/// The pod label that says which group a pod belongs to: the name of a `Conclave` in its namespace.
pub const GROUP_LABEL: &str = "conclave.dev/group";

/// The annotation of a group's Lease that holds the record: versioned JSON.
pub const RECORD_ANNOTATION: &str = "conclave.dev/record";

/// The annotation of a group's Lease with the UID of the `Conclave` whose register it is. The Lease has no owner, so it
/// outlives that: what may still run of the group then is known to one that is made anew under the same name.
pub const GROUP_UID_ANNOTATION: &str = "conclave.dev/group-uid";

/// The name of the sidecar's container.
pub const SIDECAR_CONTAINER: &str = "conclave";

/// The port on which sidecars send to one another.
pub const PEER_PORT: u16 = 7071;

/// The name of [`PEER_PORT`] in a Service or a container.
pub const PEER_PORT_NAME: &str = "conclave-peer";

/// The name of the UDP port for clock probes in a container: it has the number of [`PEER_PORT`].
pub const PROBE_PORT_NAME: &str = "conclave-probes";

/// The name of a group's Lease, headless Service, Role and RoleBinding.
///
/// ```
/// assert_eq!(conclave_crds::object_name("orders"), "conclave-orders");
/// ```
pub fn object_name(group: &str) -> String {
    format!("conclave-{group}")
}
