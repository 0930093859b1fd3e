//! What a member shows to its peers, and whom it believes.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use conclave_protocols::PodUid;
use rcgen::KeyPair;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{ClientConfig, CommonState, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::verifier::Verifier;
use super::{Bundle, Leaf, LeafError};

/// A key, its certificate, and a bundle: all that a connection needs. It never changes; a member
/// gets other credentials instead, and what is open goes on with the old ones.
pub struct Credentials {
    leaf: Leaf,
    bundle: Bundle,
    certified: Arc<CertifiedKey>,
    /// Whether the certificate is of the bundle's authority. It was; but authorities change.
    believed: bool,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// It is no member's certificate.
    #[error(transparent)]
    Leaf(#[from] LeafError),
    /// It is another member's.
    #[error("the certificate is of another member: {0}")]
    Foreign(String),
    /// It is for another key, or its authority is not in the bundle, or it is not good now.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// Nothing can be checked with that bundle.
    #[error(transparent)]
    Bundle(#[from] rustls::server::VerifierBuilderError),
}

/// What connections between members speak.
const ALPN: &[u8] = b"conclave/1";

impl Credentials {
    /// Takes a certificate in PEM for a key, if it is that of this pod in this group.
    pub fn new(
        group: PodUid,
        pod: PodUid,
        key: &KeyPair,
        certificate: &str,
        bundle: Bundle,
    ) -> Result<Self, CredentialsError> {
        let chain: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
        let chain = chain.map_err(|_| LeafError::Malformed)?;
        let leaf = Leaf::read(chain.first().ok_or(LeafError::Malformed)?)?;
        if (leaf.id.group, leaf.id.pod) != (group, pod) {
            return Err(CredentialsError::Foreign(leaf.id.to_string()));
        }
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let certified = CertifiedKey::from_der(chain, key, &provider())?;
        Self::of(leaf, Arc::new(certified), bundle, true)
    }

    /// The same certificate with another bundle.
    pub fn trusting(&self, bundle: Bundle) -> Result<Self, CredentialsError> {
        Self::of(self.leaf.clone(), Arc::clone(&self.certified), bundle, false)
    }

    fn of(
        leaf: Leaf,
        certified: Arc<CertifiedKey>,
        bundle: Bundle,
        must_be_believed: bool,
    ) -> Result<Self, CredentialsError> {
        let provider = provider();
        let verifier = Arc::new(Verifier::new(leaf.id.group, &bundle, Arc::clone(&provider))?);
        let [own, intermediates @ ..] = &certified.cert[..] else {
            return Err(LeafError::Malformed.into());
        };
        let checked = verifier.check_server(own, intermediates, UnixTime::now());
        let believed = checked.is_ok();
        if must_be_believed {
            checked?;
        }
        let shown = Arc::new(SingleCertAndKey::from(Arc::clone(&certified)));

        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::<Verifier>::clone(&verifier))
            .with_client_cert_resolver(Arc::<SingleCertAndKey>::clone(&shown));
        client.alpn_protocols = vec![ALPN.to_vec()];
        client.enable_sni = false;
        // A resumed session would go on without its certificate being looked at.
        client.resumption = Resumption::disabled();

        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(shown);
        server.alpn_protocols = vec![ALPN.to_vec()];
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        server.max_early_data_size = 0;

        let (client, server) = (Arc::new(client), Arc::new(server));
        Ok(Self { leaf, bundle, certified, believed, client, server })
    }

    /// What the certificate says.
    pub fn leaf(&self) -> &Leaf {
        &self.leaf
    }

    /// Whom these credentials believe.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// Whether the certificate is of an authority in the bundle: others believe it only then.
    pub fn is_believed(&self) -> bool {
        self.believed
    }

    /// Whether the certificate has ended.
    pub fn has_ended(&self) -> bool {
        self.remaining().is_zero()
    }

    /// How long the certificate is still good.
    pub fn remaining(&self) -> Duration {
        self.leaf.ends.duration_since(SystemTime::now()).unwrap_or_default()
    }

    /// Makes connections with these credentials.
    pub(crate) fn connector(&self) -> TlsConnector {
        Arc::clone(&self.client).into()
    }

    /// Accepts connections with these credentials.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.server).into()
    }

    /// Who is at the other end, after a handshake; nothing if it does not speak our protocol.
    pub(crate) fn peer(connection: &CommonState) -> Option<Leaf> {
        let speaks = connection.alpn_protocol() == Some(ALPN);
        let certificate = connection.peer_certificates()?.first()?;
        Leaf::read(certificate).ok().filter(|_| speaks)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("leaf", &self.leaf).finish_non_exhaustive()
    }
}

/// The one source of cryptography.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
