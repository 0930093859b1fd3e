//! Incoming links: who speaks, whether it may, and in what order.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::BytesMut;
use conclave_protocols::{Incarnation, PodUid};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, warn};

use super::Local;
use super::crowd::{Crowd, Stranger};
use super::outbound::IDLE;
use super::relays::{alone, pass_on};
use super::secure::{self, Connection, Refusal, Secure};
use super::sessions::{Sessions, Turn};
use crate::lazy_sleep::LazySleep;
use crate::wire::{self, Frame, FrameError, Hello, Introduction, Payload, Rejection, Relay};

/// How long a peer may take to say who it is.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// A link on which nothing came for that long ends. Its peer would have ended it long before.
pub(super) const SILENCE: Duration = IDLE.saturating_mul(2);

/// How long a peer may read nothing of what it is sent.
pub(super) const UNREAD: Duration = Duration::from_secs(2);

/// A message is acknowledged after that long, or with so many others. Its sender waits for seconds.
pub(super) const LATE: Duration = Duration::from_millis(20);
pub(super) const MANY: u32 = 64;

type Inbox = mpsc::Sender<(Incarnation, Payload)>;

/// Accepts connections until the sidecar ends.
pub(super) fn listen(local: &Local, listeners: Vec<TcpListener>, inbox: &Inbox) {
    let sessions = Sessions::default();
    let crowd = Crowd::new();
    for listener in listeners {
        let (local, inbox) = (local.clone(), inbox.clone());
        let (sessions, crowd) = (sessions.clone(), crowd.clone());
        let (tracker, end) = (local.tracker.clone(), local.end.clone());
        tracker.spawn(async move {
            let accepting = accept(local, listener, inbox, sessions, crowd);
            // The end of the sidecar ends it.
            let _ = end.run_until_cancelled(accepting).await;
        });
    }
}

async fn accept(
    local: Local,
    listener: TcpListener,
    inbox: Inbox,
    sessions: Sessions,
    crowd: Crowd,
) {
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: it passes.
                warn!(%error, "accept a peer");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(place) = crowd.enter(address.ip()).await else {
            local.refused(address, &Refusal::Crowded);
            continue;
        };
        let (inbox, sessions) = (inbox.clone(), sessions.clone());
        let conversation = Inbound { local: local.clone(), inbox, sessions, crowd: crowd.clone() };
        let end = local.end.clone();
        local.tracker.spawn(async move {
            let conversation = Box::pin(conversation.run(stream, address, place));
            if let Some(Err(error)) = end.run_until_cancelled(conversation).await {
                debug!(%error, "incoming link");
            }
        });
    }
}

/// Hears one connection to its end, as if the certificate of that pod had been shown on it.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) async fn hear(
    local: Local,
    inbox: Inbox,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    pod: PodUid,
) {
    let mut connection = Connection::of(stream, pod, HANDSHAKE * 100);
    let Ok(first) = connection.frames.next().await.transpose() else { return };
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let inbound = Inbound { local, inbox, sessions: Sessions::default(), crowd: Crowd::new() };
    // However it ends is well.
    let _ = inbound.hear(connection, first, address).await;
}

struct Inbound {
    local: Local,
    inbox: Inbox,
    sessions: Sessions,
    crowd: Crowd,
}

/// Why an incoming link ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum InboundError {
    #[error("the connection failed")]
    Io(#[from] io::Error),
    #[error("the peer is not believed")]
    Refused,
    #[error("the peer sent something that makes no sense")]
    Frame(#[from] FrameError),
    #[error("the peer sent nothing")]
    Silence,
    #[error("the peer reads nothing")]
    Unread,
    #[error("the peer's certificate has ended")]
    Ended,
    #[error("cut off")]
    Cut,
}

impl Inbound {
    async fn run(
        self,
        stream: TcpStream,
        address: SocketAddr,
        place: Stranger,
    ) -> Result<(), InboundError> {
        if self.local.cuts.is_whole() {
            return Err(InboundError::Cut);
        }
        let accepted = secure::accept(&self.local, stream);
        let (connection, first) = self.begin(accepted, address).await?;
        let _place = place.known().ok_or_else(|| {
            self.local.refused(address, &Refusal::Crowded);
            InboundError::Refused
        })?;
        self.hear(connection, first, address).await
    }

    /// Goes on after the first words of a peer whose certificate is known.
    async fn hear<S: AsyncRead + AsyncWrite + Unpin>(
        self,
        connection: Connection<S>,
        first: Option<BytesMut>,
        address: SocketAddr,
    ) -> Result<(), InboundError> {
        let Some(bytes) = first else { return Ok(()) };
        let first = Frame::decode(&bytes)?;
        let Frame::Relay(relay) = first else {
            return self.converse(connection, first, address).await;
        };
        if self.local.cuts.is_from(connection.pod) {
            return Err(InboundError::Cut);
        }
        if relay == (Relay { by: None, to: self.local.info.incarnation }) {
            return Box::pin(self.hear_through(connection, address)).await;
        }
        Ok(Box::pin(pass_on(&self.local, connection, relay, &self.crowd)).await?)
    }

    /// A gateway passes on what somebody says to this member.
    async fn hear_through<S: AsyncRead + AsyncWrite + Unpin>(
        self,
        mut gateway: Connection<S>,
        address: SocketAddr,
    ) -> Result<(), InboundError> {
        send(&mut gateway, &Frame::Relayed(Ok(()))).await?;
        let ends = gateway.ends;
        let stream = alone(gateway).map_err(io::Error::other)?;
        let accepted = secure::accept_relayed(&self.local, stream);
        let (mut connection, first) = self.begin(accepted, address).await?;
        connection.ends = connection.ends.min(ends);
        let Some(bytes) = first else { return Ok(()) };
        self.converse(connection, Frame::decode(&bytes)?, address).await
    }

    /// Answers a peer that introduces itself, or listens to it.
    async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
        self,
        mut connection: Connection<S>,
        first: Frame,
        address: SocketAddr,
    ) -> Result<(), InboundError> {
        let hello = match first {
            Frame::Hello(hello) => hello,
            Frame::Introduce(introduction) => {
                let claimed = introduction.from.incarnation.pod;
                if self.local.cuts.is_from(claimed) {
                    return Err(InboundError::Cut);
                }
                let answer = match self.check(&connection, address, claimed) {
                    Ok(()) => self.introduced(*introduction),
                    Err(rejection) => Frame::Reject(rejection),
                };
                return send(&mut connection, &answer).await;
            }
            Frame::Welcome { .. }
            | Frame::Reject(_)
            | Frame::Data { .. }
            | Frame::Ack { .. }
            | Frame::Introduced(_)
            | Frame::Relay(_)
            | Frame::Relayed(_) => return Ok(()),
        };
        if self.local.cuts.is_from(hello.from.pod) {
            return Err(InboundError::Cut);
        }
        let checked = self.check(&connection, address, hello.from.pod);
        let rejected = &self.local.metrics.peers.connect_failures;
        let admit =
            || self.admit(hello).inspect_err(|_| rejected.with_label_values(&["rejected"]).inc());
        match checked.and_then(|()| admit()) {
            Ok(turn) => {
                // It may be used once the welcome has arrived.
                if let Some(key) = connection.key.take() {
                    self.local.keys.hear_with(key, hello.from, connection.ends.into_std());
                }
                send(&mut connection, &Frame::Welcome { received: turn.received }).await?;
                self.listen(hello.from, turn, connection).await
            }
            Err(rejection) => send(&mut connection, &Frame::Reject(rejection)).await,
        }
    }

    /// Finds out who connected, and what it says first.
    async fn begin<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        accepted: impl Future<Output = Result<Secure<S>, Refusal>>,
        address: SocketAddr,
    ) -> Result<(Secure<S>, Option<BytesMut>), InboundError> {
        let begun = async {
            let mut connection = accepted.await.map_err(|refusal| {
                self.local.refused(address, &refusal);
                InboundError::Refused
            })?;
            let first = connection.frames.next().await.transpose()?;
            Ok((connection, first))
        };
        timeout(HANDSHAKE, begun).await.map_err(|_| InboundError::Silence)?
    }

    /// Whether a peer is the pod that it says it is.
    fn check<S>(
        &self,
        connection: &Connection<S>,
        address: SocketAddr,
        claimed: PodUid,
    ) -> Result<(), Rejection> {
        connection.is(claimed).map_err(|refusal: Refusal| {
            self.local.refused(address, &refusal);
            Rejection::Incarnation
        })
    }

    /// A peer says who it is, and asks who this is.
    fn introduced(&self, introduction: Introduction) -> Frame {
        let Introduction { group, from, to } = introduction;
        let me = &self.local.info;
        if group != self.local.group {
            return Frame::Reject(Rejection::Group);
        }
        if to != me.incarnation.pod || !from.is_sound() {
            return Frame::Reject(Rejection::Incarnation);
        }
        // A process that is not admitted now will ask again.
        let _ = self.local.introduced.try_send(from);
        Frame::Introduced(Box::new(me.clone()))
    }

    /// Whether this peer may speak here, and where it goes on.
    fn admit(&self, hello: Hello) -> Result<Turn, Rejection> {
        let (lowest, highest) = hello.versions;
        if lowest > wire::VERSIONS.1 || highest < wire::VERSIONS.0 {
            self.local.speaks_otherwise(hello.from);
            return Err(Rejection::Version);
        }
        if hello.group != self.local.group {
            return Err(Rejection::Group);
        }
        if hello.to != self.local.info.incarnation {
            return Err(Rejection::Incarnation);
        }
        self.sessions.admit(hello.from, hello.session).ok_or(Rejection::Session)
    }

    async fn listen<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        from: Incarnation,
        turn: Turn,
        mut connection: Connection<S>,
    ) -> Result<(), InboundError> {
        let mut over = pin!(self.over(from, &turn, connection.ends));
        let (mut owed, mut sleep) = (Owed::default(), LazySleep::new());
        loop {
            let is_late = owed.messages > 0;
            let due = if is_late { owed.since + LATE } else { Instant::now() + SILENCE };
            let bytes = tokio::select! {
                bytes = connection.frames.next() => bytes,
                () = sleep.until(due) => {
                    if !is_late {
                        return Err(InboundError::Silence);
                    }
                    send(&mut connection, &owed.take()).await?;
                    continue;
                }
                over = &mut over => return over,
            };
            let Some(bytes) = bytes else { return Ok(()) };
            let bytes = bytes?;
            self.local.metrics.peers.bytes_received.inc_by(bytes.len() as u64);
            let Frame::Data { number, payload } = Frame::decode(&bytes)? else { return Ok(()) };
            // The place comes first, so that a message that was noted is handed on in that moment.
            let place = tokio::select! {
                biased;
                place = self.inbox.reserve() => place,
                () = turn.is_over() => return Ok(()),
            };
            let Ok(place) = place else { return Ok(()) };
            let hand_on = || {
                let (protocol, name) = payload.names();
                let received = &self.local.metrics.peers.messages_received;
                received.with_label_values(&[protocol, name]).inc();
                place.send((from, payload));
            };
            if self.sessions.hand_on(&turn, number, hand_on).is_none() {
                return Ok(());
            }
            owed.note(number);
            if owed.messages >= MANY {
                send(&mut connection, &owed.take()).await?;
            }
        }
    }

    /// Waits until the connection is over, whatever arrives on it.
    async fn over(
        &self,
        from: Incarnation,
        turn: &Turn,
        ends: Instant,
    ) -> Result<(), InboundError> {
        let mut cuts = self.local.cuts.clone();
        tokio::select! {
            () = turn.is_over() => Ok(()),
            () = sleep_until(ends) => Err(InboundError::Ended),
            () = cuts.until_from(from.pod) => Err(InboundError::Cut),
        }
    }
}

/// What was received and is not acknowledged yet. An acknowledgement is no hurry, while the answer to a message may be:
/// one stands for several, as with TCP (RFC 1122, section 4.2.3.2).
struct Owed {
    messages: u32,
    /// The highest number so far.
    received: u64,
    /// When the first of them came.
    since: Instant,
}

impl Default for Owed {
    fn default() -> Self {
        Self { messages: 0, received: 0, since: Instant::now() }
    }
}

impl Owed {
    fn note(&mut self, number: u64) {
        if self.messages == 0 {
            self.since = Instant::now();
        }
        self.messages += 1;
        self.received = self.received.max(number);
    }

    fn take(&mut self) -> Frame {
        self.messages = 0;
        Frame::Ack { received: self.received }
    }
}

/// Sends a frame to a peer, which must not hold up the link by reading nothing.
pub(super) async fn send<S: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut Connection<S>,
    frame: &Frame,
) -> Result<(), InboundError> {
    let sent = timeout(UNREAD, connection.frames.send(frame.encode())).await;
    Ok(sent.map_err(|_| InboundError::Unread)??)
}
