//! Somebody who shows what it likes, and believes everybody.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use rcgen::KeyPair;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use tokio_util::codec::Framed;

use super::*;
use crate::wire::{self, Frame, Hello};

/// What a stranger shows.
pub(super) struct Stranger {
    pub(super) key: KeyPair,
    pub(super) chain: String,
    pub(super) protocols: Vec<Vec<u8>>,
}

/// Believes everybody.
#[derive(Debug)]
struct Gullible(Arc<CryptoProvider>);

type Frames = Framed<TlsStream<TcpStream>, tokio_util::codec::LengthDelimitedCodec>;

impl Stranger {
    pub(super) fn new((key, chain): (KeyPair, String)) -> Self {
        Self { key, chain, protocols: vec![b"conclave/1".to_vec()] }
    }

    fn shown(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let chain = CertificateDer::pem_slice_iter(self.chain.as_bytes());
        let chain = chain.collect::<Result<_, _>>().expect("PEM");
        (chain, PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der())))
    }

    pub(super) fn connector(&self) -> TlsConnector {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .expect("a version")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Gullible(provider)));
        let (chain, key) = self.shown();
        let mut config = if chain.is_empty() {
            config.with_no_client_auth()
        } else {
            config.with_client_auth_cert(chain, key).expect("a certificate")
        };
        config.alpn_protocols.clone_from(&self.protocols);
        Arc::new(config).into()
    }

    fn acceptor(&self) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (chain, key) = self.shown();
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .expect("a version")
            .with_client_cert_verifier(Arc::new(Gullible(provider)))
            .with_single_cert(chain, key)
            .expect("a certificate");
        config.alpn_protocols.clone_from(&self.protocols);
        Arc::new(config).into()
    }

    /// Connects, says that it is this incarnation, and returns what it is answered.
    pub(super) async fn calls(&self, to: &Process, from: Incarnation) -> Option<(Frame, Frames)> {
        calls(&self.connector(), to, from).await
    }

    /// Listens where a pod is expected, and admits everybody. Returns its address, and what is sent to
    /// it.
    pub(super) async fn listens(self) -> (SocketAddr, mpsc::Receiver<Option<Frame>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let (notified, tells) = mpsc::channel(64);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = self.acceptor().accept(stream).await else { continue };
                let mut frames = Framed::new(TlsStream::from(stream), wire::codec());
                while let Some(frame) = hears(&mut frames).await {
                    if let Frame::Hello(_) = frame {
                        let welcome = Frame::Welcome { received: 0 };
                        // The other end may have hung up.
                        let _ = frames.send(welcome.encode()).await;
                    }
                    if let Frame::Data { number, .. } = frame {
                        let _ = frames.send(Frame::Ack { received: number }.encode()).await;
                    }
                    let _ = notified.try_send(Some(frame));
                }
                let _ = notified.try_send(None);
            }
        });
        (address, tells)
    }
}

/// Connects in one way, as [`Stranger::calls`] does.
pub(super) async fn calls(
    connector: &TlsConnector,
    to: &Process,
    from: Incarnation,
) -> Option<(Frame, Frames)> {
    let expected = to.info.incarnation;
    let hello = Hello { versions: wire::VERSIONS, group: GROUP, from, to: expected, session: 1 };
    sends(connector, to, Frame::Hello(hello)).await
}

/// Connects, sends something, and returns what it is answered.
pub(super) async fn sends(
    connector: &TlsConnector,
    to: &Process,
    first: Frame,
) -> Option<(Frame, Frames)> {
    let stream = TcpStream::connect(to.address()).await.expect("it listens");
    sends_on(connector, stream, first).await
}

/// Sends a frame on a connection that is there already, as [`sends`] does.
pub(super) async fn sends_on(
    connector: &TlsConnector,
    stream: TcpStream,
    first: Frame,
) -> Option<(Frame, Frames)> {
    let name = ServerName::try_from("anybody").expect("a name");
    let stream = connector.connect(name, stream).await.ok()?;
    let mut frames = Framed::new(TlsStream::from(stream), wire::codec());
    frames.send(first.encode()).await.ok()?;
    let notified = hears(&mut frames).await?;
    Some((notified, frames))
}

/// The next frame; nothing at the end of the connection, which must come in time.
pub(super) async fn hears(frames: &mut Frames) -> Option<Frame> {
    let next = tokio::time::timeout(Duration::from_secs(20), frames.next()).await;
    let bytes = next.expect("the connection goes on")?.ok()?;
    Some(Frame::decode(&bytes).expect("a frame"))
}

/// What is sent next to a stranger that listens, which must come in time; nothing when a connection
/// has ended.
pub(super) async fn notified(tells: &mut mpsc::Receiver<Option<Frame>>) -> Option<Frame> {
    let next = tokio::time::timeout(Duration::from_secs(20), tells.recv()).await;
    next.expect("nothing is told").flatten()
}

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _leaf: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        unreachable!("TLS 1.3 alone is spoken")
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, leaf, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Gullible {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _leaf: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        unreachable!("TLS 1.3 alone is spoken")
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, leaf, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
