//! Serves HTTP/1.1 to everybody, with limits for all and for each address.
//!
//! A connection carries one request, and ends at a fixed age whatever it does: nothing in HTTP makes
//! a client read its answer. An address that has all its places waits for itself, and keeps nobody
//! else waiting; what it opens beyond that is closed at once.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower_http::timeout::TimeoutLayer;
use tracing::debug;

use crate::telemetry::chain;

/// What clients may use up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Limits {
    /// Connections that are served at a time; further ones wait.
    served: usize,
    /// The same for one address. Several clients may have the same, where it is translated.
    served_for_one: usize,
    /// Connections that are served or wait; further ones wait to be accepted.
    open: usize,
    /// The same for one address; further ones are closed.
    open_for_one: usize,
    /// How long a connection may last, from when it was accepted.
    lifetime: Duration,
}

impl Limits {
    /// So many connections are served at a time.
    pub(crate) const fn serving(served: usize) -> Self {
        Self {
            served,
            served_for_one: 16,
            open: 4 * served,
            open_for_one: 64,
            lifetime: Duration::from_secs(30),
        }
    }
}

/// Serves the router on connections that this handshake makes of those that come in.
pub(crate) async fn serve<H, F, I>(
    mut listener: TcpListener,
    handshake: H,
    router: Router,
    limits: Limits,
) where
    H: Fn(TcpStream) -> F,
    F: Future<Output = io::Result<I>> + Send + 'static,
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let late = TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, REQUEST_TIME);
    let router = router.layer(late);
    let mut addresses = Addresses { limits, places: HashMap::new() };
    let served = Arc::new(Semaphore::new(limits.served));
    let open = Arc::new(Semaphore::new(limits.open));
    loop {
        let (stream, peer) = Listener::accept(&mut listener).await;
        let Some(places) = addresses.enter(peer.ip()) else {
            debug!(address = %peer.ip(), "closed: the address has too many connections");
            continue;
        };
        let Ok(permit) = Arc::clone(&open).acquire_owned().await else { return };
        let (served, router, stream) = (Arc::clone(&served), router.clone(), handshake(stream));
        tokio::spawn(async move {
            let turn = async {
                let _places = (places.acquire().await?, served.acquire().await?);
                converse(stream, router).await
            };
            match timeout(limits.lifetime, turn).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(error = chain(error.as_ref()), "connection ended"),
                Err(_) => debug!("connection ended: it was too old"),
            }
            drop(permit);
        });
    }
}

async fn converse<I>(
    handshake: impl Future<Output = io::Result<I>>,
    router: Router,
) -> anyhow::Result<()>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = timeout(HEAD_TIME, handshake).await.map_err(io::Error::from)??;
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(HEAD_TIME)
        .max_headers(HEADERS)
        .max_buf_size(HEAD_BYTES);
    let service = TowerToHyperService::new(router);
    pin!(builder.serve_connection(TokioIo::new(stream), service)).await?;
    Ok(())
}

/// The places of each address. An open connection holds those of its address, so that there are as
/// many holders as open connections.
struct Addresses {
    limits: Limits,
    places: HashMap<IpAddr, Weak<Semaphore>>,
}

impl Addresses {
    /// The places of this address, if it may open one more connection.
    fn enter(&mut self, address: IpAddr) -> Option<Arc<Semaphore>> {
        // At least half of so many have no connection any more.
        if self.places.len() >= 2 * self.limits.open {
            self.places.retain(|_, places| places.strong_count() > 0);
        }
        let known = self.places.entry(address.to_canonical()).or_default();
        let places = known.upgrade().unwrap_or_else(|| {
            let places = Arc::new(Semaphore::new(self.limits.served_for_one));
            *known = Arc::downgrade(&places);
            places
        });
        (Arc::strong_count(&places) <= self.limits.open_for_one).then_some(places)
    }
}

/// How long a handshake may take, and how long a head.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// How long a request may take, with its body.
const REQUEST_TIME: Duration = Duration::from_secs(10);
const HEADERS: usize = 64;
const HEAD_BYTES: usize = 32 * 1024;

#[cfg(test)]
mod tests;
