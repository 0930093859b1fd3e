//! Where certificates come from.

use std::io;
use std::sync::Arc;

use conclave_pods::PeerId;
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use super::{AuthorityClient, Bundle, LocalAuthority};

/// A way to certificates.
pub enum Issuer {
    /// The operator's authority.
    Authority(AuthorityClient),
    /// One within this process, which certifies this member.
    Local(Arc<LocalAuthority>, PeerId),
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// There is no token to ask with.
    #[error("the token cannot be read: {0}")]
    Token(#[source] io::Error),
    /// The authority does not answer.
    #[error("the authority at {0} cannot be reached: {1}")]
    Unreachable(String, String),
    /// The authority refuses.
    #[error("the authority answered {status}: {detail}")]
    Refused {
        /// The status of its answer.
        status: u16,
        /// What it answered.
        detail: String,
    },
    /// What the authority gave is of no use.
    #[error("the authority's answer cannot be used: {0}")]
    Unusable(String),
    /// There is no key, or no request could be made.
    #[error("no request can be made: {0}")]
    Request(#[from] rcgen::Error),
}

impl IssueError {
    /// The label of metrics.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Token(_) => "no-token",
            Self::Unreachable(..) => "unreachable",
            Self::Refused { .. } => "refused",
            Self::Unusable(_) => "unusable",
            Self::Request(_) => "no-request",
        }
    }
}

impl Issuer {
    /// Asks for a certificate for a key, and returns it in PEM. The authority is at an address, and
    /// is believed if its certificate is of the bundle.
    pub(super) async fn issue(
        &self,
        address: &str,
        bundle: &Bundle,
        key: &KeyPair,
    ) -> Result<String, IssueError> {
        match self {
            Self::Authority(client) => {
                let mut params = CertificateParams::default();
                // The authority takes the key alone; it knows better who this is.
                params.distinguished_name = DistinguishedName::new();
                let request = params.serialize_request(key)?.pem()?;
                client.certify(address, bundle, &request).await
            }
            Self::Local(authority, id) => Ok(authority.certify(id, key)?),
        }
    }
}
