//! Whom a member believes.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::ByteString;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

/// The certificates of the authority: while it changes, those of the old one and of the new one.
#[derive(Clone)]
pub struct Bundle {
    text: Arc<str>,
    roots: Arc<RootCertStore>,
}

/// Why a text is no bundle.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BundleError {
    /// There is no certificate in it.
    #[error("the authority's bundle has no certificate")]
    Empty,
    /// One of its certificates cannot be read.
    #[error("the authority's bundle has a certificate that cannot be read")]
    Malformed,
}

impl Bundle {
    /// Reads certificates as the status of a group has them: each in base64, with a space between them.
    pub fn read(text: &str) -> Result<Self, BundleError> {
        let mut roots = RootCertStore::empty();
        for certificate in text.split_whitespace() {
            let certificate: ByteString =
                serde_json::from_value(certificate.into()).map_err(|_| BundleError::Malformed)?;
            let certificate = CertificateDer::from(certificate.0);
            roots.add(certificate).map_err(|_| BundleError::Malformed)?;
        }
        if roots.is_empty() {
            return Err(BundleError::Empty);
        }
        Ok(Self { text: text.into(), roots: Arc::new(roots) })
    }

    pub(super) fn roots(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.roots)
    }
}

impl PartialEq for Bundle {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Bundle {}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bundle({} certificates)", self.roots.len())
    }
}
