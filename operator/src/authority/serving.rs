//! Serves HTTPS with a certificate of the authority's own.
//!
//! The certificate and its key live in memory. They are made anew at half of their life and when
//! another signer takes over; connections that there are go on.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use jiff::Timestamp;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tracing::{error, info};

use super::{Authority, CertificateError, Life, Signer, certificates};
use crate::connections::{self, Limits};
use crate::telemetry::chain;

/// The name by which sidecars know the server, whatever its address.
pub const SERVER_NAME: &str = "authority.conclave.dev";

/// What shows the certificate of this server.
#[derive(Debug)]
pub struct Certificate {
    authority: watch::Receiver<Option<Arc<Authority>>>,
    names: Vec<String>,
    lifetime: Duration,
    shown: watch::Sender<Option<Arc<CertifiedKey>>>,
}

/// What is shown at present.
#[derive(Debug)]
struct Shown(watch::Receiver<Option<Arc<CertifiedKey>>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.borrow().clone()
    }
}

impl Certificate {
    /// A certificate with these names beside [`SERVER_NAME`]. There is none until [`Self::renew`]
    /// runs and there is an authority.
    pub fn new(
        authority: watch::Receiver<Option<Arc<Authority>>>,
        names: impl IntoIterator<Item = String>,
        lifetime: Duration,
    ) -> Self {
        let names = [SERVER_NAME.to_owned()].into_iter().chain(names).collect();
        Self { authority, names, lifetime, shown: watch::Sender::new(None) }
    }

    /// What rustls needs: TLS 1.3, no client certificates, and nothing that is resumed.
    pub fn config(&self) -> Result<ServerConfig, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Shown(self.shown.subscribe())));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// Keeps the certificate new, as long as somebody tells of the authority.
    pub async fn renew(mut self) {
        let mut made_by: Option<Signer> = None;
        let mut due = Duration::ZERO;
        loop {
            let signer = self.authority.borrow_and_update().as_ref().map(|one| one.current.clone());
            if let Some(signer) = signer
                && (due.is_zero() || made_by.as_ref() != Some(&signer))
            {
                due = match self.make(&signer) {
                    Ok(life) => until(life.after(1, 2)),
                    Err(error) => {
                        error!(error = chain(&error), "no certificate of this server");
                        RETRY
                    }
                };
                made_by = Some(signer);
            }
            tokio::select! {
                changed = self.authority.changed() => if changed.is_err() { return },
                () = sleep(due), if made_by.is_some() => due = Duration::ZERO,
            }
        }
    }

    fn make(&self, signer: &Signer) -> Result<Life, CertificateError> {
        let made = certificates::server(signer, &self.names, Timestamp::now(), self.lifetime)?;
        let (certificate, key, life) = made;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let key = ring::sign::any_supported_type(&key).map_err(|_| CertificateError::Unreadable)?;
        let certified = CertifiedKey::new(vec![certificate.der().clone()], key);
        self.shown.send_replace(Some(Arc::new(certified)));
        info!(until = %life.ends, "this server has a new certificate");
        Ok(life)
    }
}

/// Serves the router.
pub async fn serve(listener: TcpListener, config: ServerConfig, router: Router) {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let handshake = move |stream| acceptor.accept(stream);
    connections::serve(listener, handshake, router, Limits::serving(CONNECTIONS)).await;
}

/// How long it is until then, from now on.
fn until(time: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default().max(RETRY)
}

/// Connections at a time. It takes sixteen addresses to take all of them.
const CONNECTIONS: usize = 256;
/// The shortest time between two certificates.
const RETRY: Duration = Duration::from_secs(1);
