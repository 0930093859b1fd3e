//! What a member's certificate says.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conclave_pods::{PeerId, PeerIdError};
use conclave_protocols::PodUid;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

/// What a certificate says of whom it belongs to. Whether it is genuine is checked elsewhere.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Leaf {
    /// Whose it is.
    pub id: PeerId,
    /// From when on it is good.
    pub begins: SystemTime,
    /// Until when it is good.
    pub ends: SystemTime,
}

/// Why a certificate is not that of a member.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LeafError {
    /// It cannot be read.
    #[error("the certificate cannot be read")]
    Malformed,
    /// It does not have exactly one name, which is a URI.
    #[error("the certificate has not exactly one URI as its name")]
    Names,
    /// It names no member.
    #[error(transparent)]
    Id(#[from] PeerIdError),
}

impl Leaf {
    /// Reads a certificate in DER.
    pub fn read(der: &[u8]) -> Result<Self, LeafError> {
        let (rest, certificate) =
            X509Certificate::from_der(der).map_err(|_| LeafError::Malformed)?;
        if !rest.is_empty() {
            return Err(LeafError::Malformed);
        }
        let names = certificate.subject_alternative_name().map_err(|_| LeafError::Names)?;
        let names = names.map(|names| &names.value.general_names[..]);
        let Some([GeneralName::URI(uri)]) = names else { return Err(LeafError::Names) };
        let validity = certificate.validity();
        Ok(Self {
            id: uri.parse()?,
            begins: instant(validity.not_before),
            ends: instant(validity.not_after),
        })
    }

    /// The UID of the pod that it belongs to.
    pub fn pod(&self) -> PodUid {
        self.id.pod
    }
}

/// What was before 1970 has the same effect at any time.
fn instant(time: ASN1Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or(0))
}
