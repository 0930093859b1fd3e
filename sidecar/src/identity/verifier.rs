//! How the certificate of a peer is checked, whichever side it is on.

use std::error::Error;
use std::sync::Arc;

use conclave_protocols::PodUid;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, PeerIncompatible,
    RootCertStore, SignatureScheme,
};

use super::{Bundle, Leaf, LeafError};

/// Why a peer is not believed, whose certificate is of our authority.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Distrust {
    /// Its certificate names no member.
    #[error(transparent)]
    Leaf(#[from] LeafError),
    /// It is a member of another group.
    #[error("a pod of the group with the UID {0}")]
    Group(PodUid),
}

/// Believes the members of one group.
#[derive(Debug)]
pub(super) struct Verifier {
    group: PodUid,
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
    /// Checks everything but the name, of those that connect.
    clients: Arc<dyn ClientCertVerifier>,
}

impl Verifier {
    pub(super) fn new(
        group: PodUid,
        bundle: &Bundle,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let roots = bundle.roots();
        let clients =
            WebPkiClientVerifier::builder_with_provider(bundle.roots(), Arc::clone(&provider))
                .build()?;
        Ok(Self { group, roots, provider, clients })
    }

    /// Checks the chain of one that is connected to.
    pub(super) fn check_server(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(leaf)?,
            &self.roots,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )
    }

    fn check_name(&self, leaf: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let found = Leaf::read(leaf).map_err(Distrust::Leaf)?;
        if found.id.group != self.group {
            return Err(Distrust::Group(found.id.group).into());
        }
        Ok(())
    }

    fn check_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, leaf, signed, algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl From<Distrust> for rustls::Error {
    fn from(distrust: Distrust) -> Self {
        Self::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(distrust))))
    }
}

impl Distrust {
    /// What the verifier reported, if that is what an error is about.
    pub(crate) fn of(error: &rustls::Error) -> Option<&Self> {
        let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) = error
        else {
            return None;
        };
        let inner: &(dyn Error + Send + Sync) = &**inner;
        inner.downcast_ref()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check_server(leaf, intermediates, now)?;
        self.check_name(leaf)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _leaf: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::ServerDoesNotSupportTls12Or13.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, leaf, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.clients.verify_client_cert(leaf, intermediates, now)?;
        self.check_name(leaf)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _leaf: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::ServerDoesNotSupportTls12Or13.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, leaf, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}
