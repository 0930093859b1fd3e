//! What a sidecar sees of the server, over loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use conclave_operator::authority::mounted::Mounted;
use conclave_operator::authority::serving::{Certificate, SERVER_NAME, serve};
use conclave_operator::authority::{Authority, Lifetimes};
use conclave_operator::metrics::Metrics;
use jiff::Timestamp;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::certificates::LIFETIMES;

/// A server with an authority that can be replaced.
struct Server {
    address: SocketAddr,
    notified: watch::Sender<Option<Arc<Authority>>>,
}

impl Server {
    async fn new(authority: &Authority, lifetimes: Lifetimes) -> Self {
        Self::with(authority, lifetimes, None).await
    }

    async fn with(authority: &Authority, lifetimes: Lifetimes, mounted: Option<&Mounted>) -> Self {
        let notified = watch::Sender::new(Some(Arc::new(authority.clone())));
        let names = [SERVICE_NAME.to_owned()];
        let certificate = Certificate::new(notified.subscribe(), names, lifetimes.certificate);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new().route("/hello", get(|| async { "hello" }));
        tokio::spawn(serve(
            listener,
            certificate.config(mounted).expect("a configuration"),
            router,
        ));
        tokio::spawn(certificate.renew());
        Self { address, notified }
    }

    async fn connect(
        &self,
        name: &'static str,
        bundle: &str,
        version: &'static SupportedProtocolVersion,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        for anchor in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            roots.add(anchor.expect("PEM")).expect("an anchor");
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from(name).expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Connects as soon as there is a certificate that this bundle trusts.
    async fn connect_soon(&self, name: &'static str, bundle: &str) -> TlsStream<TcpStream> {
        let connected = async {
            loop {
                if let Ok(stream) = self.connect(name, bundle, &TLS13).await {
                    return stream;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), connected).await.expect("a certificate")
    }
}

/// What the API server asks for.
const SERVICE_NAME: &str = "conclave-operator.conclave-system.svc";

fn authority() -> Authority {
    Authority::new(Timestamp::now(), &LIFETIMES).expect("an authority")
}

#[tokio::test]
async fn a_sidecar_that_has_the_bundle_reaches_the_server_by_either_name() {
    let authority = authority();
    let server = Server::new(&authority, LIFETIMES).await;
    for name in [SERVER_NAME, SERVICE_NAME] {
        let mut stream = server.connect_soon(name, &authority.bundle()).await;
        assert_eq!(stream.get_ref().1.protocol_version(), Some(ProtocolVersion::TLSv1_3));
        let request = b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
    }
    let bundle = authority.bundle();
    server.connect("bank.example.com", &bundle, &TLS13).await.expect_err("another name");
    server
        .connect(SERVER_NAME, &self::authority().bundle(), &TLS13)
        .await
        .expect_err("another authority");
    server.connect(SERVER_NAME, &bundle, &TLS12).await.expect_err("an old version");
}

#[tokio::test]
async fn the_server_shows_a_new_certificate_when_another_signer_takes_over() {
    let (first, second) = (authority(), authority());
    let server = Server::new(&first, LIFETIMES).await;
    server.connect_soon(SERVER_NAME, &first.bundle()).await;
    server.notified.send_replace(Some(Arc::new(second.clone())));
    server.connect_soon(SERVER_NAME, &second.bundle()).await;
    server.connect(SERVER_NAME, &first.bundle(), &TLS13).await.expect_err("it is no longer shown");
}

#[tokio::test]
async fn the_maker_of_the_webhooks_certificate_is_nobody_to_sidecars() {
    let authority = authority();
    let directory = tempfile::tempdir().expect("a directory");
    let mut mounted = Mounted::new(directory.path().to_owned(), Metrics::new().expect("metrics"));
    let server = Server::with(&authority, LIFETIMES, Some(&mounted)).await;
    let own = authority.bundle();
    server.connect_soon(SERVER_NAME, &own).await;
    server.connect(SERVICE_NAME, &own, &TLS13).await.expect_err("there are no files yet");

    let mut trusted = Vec::new();
    for _ in 0..2 {
        let names = [SERVICE_NAME.to_owned(), SERVER_NAME.to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        for (name, text) in
            [("tls.crt", made.cert.pem()), ("tls.key", made.signing_key.serialize_pem())]
        {
            std::fs::write(directory.path().join(name), text).expect("written");
        }
        assert!(mounted.look().expect("files"));
        trusted.push(made.cert.pem());
        let new = trusted.last().expect("just made");
        server.connect(SERVICE_NAME, new, &TLS13).await.expect("the API server is shown it");
        server.connect(SERVICE_NAME, &own, &TLS13).await.expect_err("and not the authority's");
        server.connect(SERVER_NAME, &own, &TLS13).await.expect("sidecars go by the authority");
        server.connect(SERVER_NAME, new, &TLS13).await.expect_err("and by nobody else");
    }
    let first = &trusted[0];
    server.connect(SERVICE_NAME, first, &TLS13).await.expect_err("it is no longer shown");
}
