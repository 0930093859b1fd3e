//! Serves HTTPS with a certificate of the authority's own.
//!
//! The certificate and its key live in memory. They are made anew at half of their life and when
//! another signer takes over; connections that there are go on.
//!
//! Where somebody else makes the certificate of the webhook ([`mounted`](super::mounted)), the name
//! that a client asks for decides which one it is shown. A sidecar asks for [`SERVER_NAME`] and trusts
//! the authority, the API server asks for the Service and trusts that somebody. So another that may
//! sign for the webhook does not become one that members believe.

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

use super::mounted::Mounted;
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

/// What is shown at present, and to whom.
#[derive(Debug)]
struct Shown {
    own: watch::Receiver<Option<Arc<CertifiedKey>>>,
    /// To clients that ask for another name than [`SERVER_NAME`], if it is not the same.
    mounted: Option<watch::Receiver<Option<Arc<CertifiedKey>>>>,
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let shown = match &self.mounted {
            Some(mounted) if hello.server_name() != Some(SERVER_NAME) => mounted,
            Some(_) | None => &self.own,
        };
        shown.borrow().clone()
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

    /// What rustls needs: TLS 1.3, no client certificates, and nothing that is resumed. A client that asks
    /// for another name than [`SERVER_NAME`] is shown the mounted certificate, if there is one.
    pub fn config(&self, mounted: Option<&Mounted>) -> Result<ServerConfig, rustls::Error> {
        let shown = Shown { own: self.shown.subscribe(), mounted: mounted.map(Mounted::shown) };
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(shown));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// Keeps the certificate new, as long as somebody announces the authority.
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
                        PAUSE
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
/// The time between two tries that fail. A signer that has ended does not come back, and its
/// successor is not waited for: its owner announces it.
const PAUSE: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tracing::{Event, Level, Subscriber};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    use super::*;
    use crate::authority::Lifetimes;

    const HOUR: Duration = Duration::from_hours(1);

    /// Counts what is logged as an error.
    struct Errors(Arc<AtomicUsize>);

    impl<S: Subscriber> Layer<S> for Errors {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            if *event.metadata().level() == Level::ERROR {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// An authority that was made so many hours ago, for two hours.
    fn authority(hours: u32) -> Arc<Authority> {
        let made = Timestamp::now().checked_sub(HOUR * hours).expect("a time");
        let lifetimes = Lifetimes { authority: 2 * HOUR, overlap: HOUR, certificate: HOUR };
        Arc::new(Authority::new(made, &lifetimes).expect("an authority"))
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_signer_that_has_ended_cannot_make_is_tried_once_a_minute() {
        let errors = Arc::new(AtomicUsize::new(0));
        let subscriber = tracing_subscriber::registry().with(Errors(Arc::clone(&errors)));
        let _logged = tracing::subscriber::set_default(subscriber);
        let notified = watch::Sender::new(Some(authority(3)));
        let certificate = Certificate::new(notified.subscribe(), [], HOUR);
        let mut shown = certificate.shown.subscribe();
        tokio::spawn(certificate.renew());

        sleep(PAUSE * 10 + PAUSE / 2).await;
        assert_eq!(errors.load(Ordering::Relaxed), 11, "at once, and after each minute");
        assert!(shown.borrow_and_update().is_none());

        notified.send_replace(Some(authority(1)));
        sleep(RETRY).await;
        assert!(shown.borrow().is_some(), "its successor is not kept waiting");
        sleep(PAUSE * 2).await;
        assert_eq!(errors.load(Ordering::Relaxed), 11);
    }
}
