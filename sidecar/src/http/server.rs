//! Listening, with the limits that a local service needs against clients that misbehave.

#[cfg(feature = "fuzzing")]
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use axum::{Extension, Router};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Layer;
use tracing::debug;

use super::listeners::Listeners;
use super::unread::Unread;

/// What a client may use up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Connections at a time; further ones wait to be accepted.
    pub connections: usize,
    /// Calls at a time that wait or stream. Below `connections`, so that a holder finds
    /// a connection to release its lock by, however many wait for it.
    pub long_calls: usize,
    /// Headers of a request.
    pub headers: usize,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// How long a head may take, and how long a connection may idle: longer than clients keep one that
    /// idles (90 s in Go), or they would now and then call on one that is just being closed.
    pub head_time: Duration,
    /// Bytes of a body.
    pub body_bytes: usize,
    /// How long a body may take.
    pub body_time: Duration,
    /// How long a client may take nothing of what it is sent.
    pub unread_time: Duration,
    /// How often a silent stream says that it is still there.
    pub keep_alive: Duration,
    /// How long connections may take to end at shutdown.
    pub end_time: Duration,
}

impl Limits {
    /// For a port that others than the pod itself reach, and on which few call.
    pub fn of_probes() -> Self {
        Self { connections: 256, long_calls: 224, ..Self::default() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2_560,
            long_calls: 2_304,
            headers: 64,
            head_bytes: 16 * 1024,
            head_time: Duration::from_secs(120),
            body_bytes: 64 * 1024,
            body_time: Duration::from_secs(5),
            unread_time: Duration::from_secs(10),
            keep_alive: Duration::from_secs(10),
            end_time: Duration::from_secs(1),
        }
    }
}

/// How a request came in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Via {
    /// Over TCP, from this address.
    Tcp(SocketAddr),
    /// Over a Unix socket, which no browser reaches.
    Unix,
}

/// Serves a router on these sockets until `shutdown`; then requests may end, and nothing new
/// begins.
pub async fn serve_router(
    listeners: Listeners,
    router: Router,
    limits: Limits,
    shutdown: CancellationToken,
) {
    // The router decides who may call.
    let Listeners { tcp, unix, .. } = listeners;
    let server = Server {
        limits,
        free: Arc::new(Semaphore::new(limits.connections)),
        connections: TaskTracker::new(),
        shutdown,
    };
    let accepting = TaskTracker::new();
    for listener in tcp {
        accepting.spawn(server.clone().accept(listener, router.clone(), Via::Tcp));
    }
    for listener in unix {
        accepting.spawn(server.clone().accept(listener, router.clone(), |_| Via::Unix));
    }
    accepting.close();
    accepting.wait().await;
    server.connections.close();
    server.connections.wait().await;
}

/// Serves one connection to its end, as if it had come in over TCP.
#[cfg(feature = "fuzzing")]
pub(crate) async fn serve_one<I>(io: I, router: Router, limits: Limits)
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let server = Server {
        limits,
        free: Arc::new(Semaphore::new(1)),
        connections: TaskTracker::new(),
        shutdown: CancellationToken::new(),
    };
    let Ok(permit) = Arc::clone(&server.free).acquire_owned().await else { return };
    let via = Via::Tcp((Ipv4Addr::LOCALHOST, 1).into());
    server.converse(io, via, router, permit).await;
}

/// What the sockets of a service share.
#[derive(Clone, Debug)]
struct Server {
    limits: Limits,
    free: Arc<Semaphore>,
    connections: TaskTracker,
    shutdown: CancellationToken,
}

impl Server {
    async fn accept<L: Listener>(self, mut listener: L, router: Router, via: fn(L::Addr) -> Via) {
        loop {
            // A permit is not waited for before there is a connection: an idle socket would keep it.
            let accept = async {
                let (io, peer) = listener.accept().await;
                Some((Arc::clone(&self.free).acquire_owned().await.ok()?, io, peer))
            };
            let accepted = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return,
                accepted = accept => accepted,
            };
            let Some((permit, io, peer)) = accepted else { return };
            self.connections.spawn(self.clone().converse(io, via(peer), router.clone(), permit));
        }
    }

    /// Serves a connection to its end. Requests carry how they came in.
    async fn converse<I>(self, io: I, via: Via, router: Router, permit: OwnedSemaphorePermit)
    where
        I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        // HTTP/1 alone: on loopback a second connection is cheaper than the ways in which HTTP/2
        // can be abused.
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_time)
            .max_headers(self.limits.headers)
            .max_header_size(self.limits.head_bytes)
            .max_buf_size(2 * self.limits.head_bytes.max(8 * 1024));
        let service = TowerToHyperService::new(Extension(via).layer(router));
        let io = TokioIo::new(Unread::new(io, self.limits.unread_time));
        let mut connection = pin!(builder.serve_connection(io, service));
        // It is looked at only once it was woken, and not with each call.
        let mut shutdown = FuturesUnordered::from_iter([self.shutdown.cancelled()]);
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            Some(()) = shutdown.next() => {
                connection.as_mut().graceful_shutdown();
                tokio::time::timeout(self.limits.end_time, connection).await.ok()
            }
        };
        if let Some(Err(error)) = ended {
            debug!(%error, "connection ended");
        }
        drop(permit);
    }
}
