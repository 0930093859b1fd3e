//! What a member is called in its certificate.

use std::fmt;

use conclave_protocols::ids::PodUid;

/// The only name in the certificate of a member: a SPIFFE ID.
///
/// ```
/// use conclave_operator::authority::identity::PeerUri;
///
/// let uid = "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01".parse().expect("a UID");
/// let name = PeerUri { namespace: "shop", service_account: "till", group: uid, pod: uid };
/// assert_eq!(
///     name.to_string(),
///     "spiffe://conclave.dev/ns/shop/sa/till/group/0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01\
///      /pod/0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01"
/// );
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeerUri<'a> {
    /// The namespace of the pod and its group.
    pub namespace: &'a str,
    /// What the pod runs as.
    pub service_account: &'a str,
    /// The UID of the `Conclave`.
    pub group: PodUid,
    /// The UID of the pod.
    pub pod: PodUid,
}

impl fmt::Display for PeerUri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, service_account, group, pod } = self;
        let account = format_args!("ns/{namespace}/sa/{service_account}");
        write!(f, "spiffe://{TRUST_DOMAIN}/{account}/group/{group}/pod/{pod}")
    }
}

/// The trust domain of all names.
pub const TRUST_DOMAIN: &str = "conclave.dev";
