//! One outgoing link: connects, sends what there is to send, keeps it until it is acknowledged.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conclave_protocols::election::Way;
use conclave_protocols::record::MemberInfo;
use conclave_protocols::{Incarnation, PodUid};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::relays::{Line, reach};
use super::secure::{self, Refusal, Secure};
use super::{Link, Local};
use crate::lazy_sleep::LazySleep;
use crate::wire::{self, Frame, Hello, Introduction, Payload, Rejection};

/// How long a connection may take to be made and accepted.
pub(crate) const CONNECT: Duration = Duration::from_secs(2);

/// The pause after a first failure; doubled after each, up to the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// A message that is of no use when it is late is dropped after that time.
const FLEETING: Duration = Duration::from_millis(400);

/// Without an acknowledgement for that long the connection is given up and made anew.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

/// A link over which nothing was sent for that long ends.
pub(super) const IDLE: Duration = Duration::from_secs(60);

/// Messages that may wait for a link.
const QUEUE: usize = 4096;

/// What may wait for an acknowledgement; more, and the link ends: the peer is gone.
const UNACKNOWLEDGED: usize = 16_384;

struct Outbound {
    local: Local,
    hello: Hello,
    /// By whom the latest connection went, unless it was direct.
    way: Option<Way>,
    queue: mpsc::Receiver<Payload>,
    connected: Arc<AtomicBool>,
    /// There may be no key any more: then another connection is to bring one.
    lacks_key: Arc<Notify>,
    /// Sent or to be sent, and not acknowledged.
    unacknowledged: VecDeque<Unacknowledged>,
    /// The number of the latest message.
    last: u64,
    /// There is to be a connection though there is nothing to send.
    greets: bool,
}

struct Unacknowledged {
    number: u64,
    payload: Payload,
    since: Instant,
}

/// How a connection ended.
enum End {
    /// There is no use in another one.
    Final,
    /// It broke.
    Broken(io::Error),
}

/// A connection is over.
struct Over {
    why: &'static str,
    /// There is to be another one though there is nothing to send.
    greets: bool,
}

/// Opens a link. It ends when nobody holds the sender any more and all that was sent is acknowledged, or the peer is not
/// there; when the peer says that it is somebody else; or when nothing was sent for long.
pub(super) fn open(
    local: &Local,
    links: &TaskTracker,
    to: Incarnation,
    session: u64,
    greets: bool,
) -> Link {
    let (sender, queue) = mpsc::channel(QUEUE);
    let connected = Arc::new(AtomicBool::new(false));
    let lacks_key = Arc::new(Notify::new());
    let versions = wire::VERSIONS;
    let hello = Hello { versions, group: local.group, from: local.info.incarnation, to, session };
    let outbound = Outbound {
        local: local.clone(),
        hello,
        way: None,
        queue,
        connected: Arc::clone(&connected),
        lacks_key: Arc::clone(&lacks_key),
        unacknowledged: VecDeque::new(),
        last: 0,
        greets,
    };
    let (end, link) = (local.end.clone(), links.token());
    local.tracker.spawn(async move {
        // The end of the sidecar ends all links at once.
        let _ = end.run_until_cancelled(Box::pin(outbound.run())).await;
        drop(link);
    });
    Link { queue: sender, connected, lacks_key }
}

impl Outbound {
    /// What connecting and conversing take lasts as long as they do: most links are idle.
    async fn run(mut self) {
        let mut pause = PAUSE.0;
        while self.has_something_to_send().await {
            let is_gone = match Box::pin(self.connect()).await {
                Ok(connection) => {
                    pause = PAUSE.0;
                    self.greets = false;
                    self.local.metrics.peers.connections.inc();
                    self.connected.store(true, Ordering::Relaxed);
                    let end = Box::pin(self.converse(connection)).await;
                    self.connected.store(false, Ordering::Relaxed);
                    self.local.metrics.peers.connections.dec();
                    if let End::Final = end {
                        return;
                    }
                    false
                }
                Err(End::Final) => return,
                Err(End::Broken(error)) => {
                    debug!(peer = %self.hello.to, %error, "connect");
                    is_of_nobody(&error)
                }
            };
            // Nobody sends more, and the peer is not there, or is known no more.
            let is_gone = is_gone || self.local.roads.addresses(self.hello.to).is_none();
            if self.queue.is_closed() && is_gone {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
            self.drop_what_is_late();
        }
    }

    /// Waits for a message, unless there is one, or it is enough to connect.
    async fn has_something_to_send(&mut self) -> bool {
        // A peer that is known no more is not greeted.
        self.greets &= !self.queue.is_closed();
        let lacks_key = Arc::clone(&self.lacks_key);
        while self.unacknowledged.is_empty() && !self.greets {
            tokio::select! {
                next = timeout(IDLE, self.queue.recv()) => match next {
                    Ok(Some(payload)) => self.keep(payload),
                    Ok(None) | Err(_) => return false,
                },
                () = lacks_key.notified() => self.greets = !self.has_key(),
            }
        }
        self.unacknowledged.len() <= UNACKNOWLEDGED
    }

    fn has_key(&self) -> bool {
        self.local.keys.ours(self.hello.to).is_some()
    }

    fn keep(&mut self, payload: Payload) {
        self.last += 1;
        self.unacknowledged.push_back(Unacknowledged {
            number: self.last,
            payload,
            since: Instant::now(),
        });
    }

    fn drop_what_is_late(&mut self) {
        while let Ok(payload) = self.queue.try_recv() {
            self.keep(payload);
        }
        // Who sends no more waits for nothing that is of no use soon.
        let ends = self.queue.is_closed();
        self.unacknowledged
            .retain(|one| !one.payload.is_fleeting() || !ends && one.since.elapsed() < FLEETING);
    }

    async fn connect(&mut self) -> Result<Secure<Line>, End> {
        if self.local.cuts.is_from(self.hello.to.pod) {
            return Err(End::Broken(cut_off()));
        }
        match timeout(CONNECT, self.shake_hands()).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(end)) => Err(end),
            Err(_) => {
                self.failed("timeout");
                Err(End::Broken(io::ErrorKind::TimedOut.into()))
            }
        }
    }

    async fn shake_hands(&mut self) -> Result<Secure<Line>, End> {
        let reached = reach(&self.local, self.hello.to, self.way).await;
        let failed = |refusal: Refusal| End::Broken(io::Error::other(refusal));
        let (mut connection, way) = reached.map_err(failed)?;
        let hello = Frame::Hello(self.hello).encode();
        connection.frames.send(hello).await.map_err(|e| self.refused(Refusal::of(e)))?;
        // Only here is heard whether our certificate is believed.
        match receive(&mut connection).await.map_err(|e| self.refused(Refusal::of(e)))? {
            Frame::Welcome { received } => {
                self.acknowledge(received);
                self.way = way;
                self.local.metrics.peers.relayed.inc_by(way.is_some().into());
                if let Some(key) = connection.key.take() {
                    let ends = connection.ends.into_std();
                    self.local.keys.seal_with(key, self.hello.to, ends);
                }
                Ok(connection)
            }
            Frame::Reject(rejection) => {
                self.failed(reason(rejection));
                if rejection == Rejection::Version {
                    self.local.speaks_otherwise(self.hello.to);
                }
                Err(End::Final)
            }
            Frame::Hello(_)
            | Frame::Data { .. }
            | Frame::Ack { .. }
            | Frame::Introduce(_)
            | Frame::Introduced(_)
            | Frame::Relay(_)
            | Frame::Relayed(_) => {
                self.failed("protocol");
                Err(End::Broken(io::ErrorKind::InvalidData.into()))
            }
        }
    }

    /// What is not acknowledged stays: nobody else at that address, or on the way to it, may end a link.
    fn refused(&self, refusal: Refusal) -> End {
        self.local.refused(self.hello.to, &refusal);
        End::Broken(io::Error::other(refusal))
    }

    fn failed(&self, reason: &str) {
        self.local.metrics.peers.connect_failures.with_label_values(&[reason]).inc();
    }

    fn acknowledge(&mut self, received: u64) {
        while self.unacknowledged.front().is_some_and(|one| one.number <= received) {
            self.unacknowledged.pop_front();
        }
    }

    /// Sends what is not acknowledged, then whatever comes, and listens for acknowledgements.
    async fn converse(&mut self, mut connection: Secure<Line>) -> End {
        for one in &self.unacknowledged {
            let frame = Frame::Data { number: one.number, payload: one.payload.clone() };
            if let Err(error) = self.send(&mut connection, frame).await {
                return End::Broken(error);
            }
        }
        let mut over = pin!(self.over(connection.ends));
        let (mut heard, mut sleep) = (Instant::now(), LazySleep::new());
        let mut more = true;
        loop {
            if self.unacknowledged.len() > UNACKNOWLEDGED || !more && self.unacknowledged.is_empty()
            {
                return End::Final;
            }
            let silent = if self.unacknowledged.is_empty() {
                Instant::now() + IDLE
            } else {
                heard + SILENCE
            };
            tokio::select! {
                payload = self.queue.recv(), if more => {
                    let Some(payload) = payload else {
                        more = false;
                        continue;
                    };
                    if self.unacknowledged.is_empty() {
                        heard = Instant::now();
                    }
                    self.keep(payload.clone());
                    let frame = Frame::Data { number: self.last, payload };
                    if let Err(error) = self.send(&mut connection, frame).await {
                        return End::Broken(error);
                    }
                }
                frame = receive(&mut connection) => match frame {
                    Ok(Frame::Ack { received }) => {
                        heard = Instant::now();
                        self.acknowledge(received);
                    }
                    Ok(_) => return End::Broken(io::ErrorKind::InvalidData.into()),
                    Err(error) => return End::Broken(error),
                },
                () = sleep.until(silent) => {
                    if !self.unacknowledged.is_empty() {
                        return End::Broken(io::ErrorKind::TimedOut.into());
                    }
                    // What is sent at this very moment must not end with the link.
                    if self.queue.is_empty() {
                        return End::Final;
                    }
                }
                over = &mut over => {
                    self.greets |= over.greets;
                    return End::Broken(io::Error::other(over.why));
                }
            }
        }
    }

    /// Waits until the connection is over, whatever is sent on it: one future for as long as it lasts, since to make
    /// these anew for each message costs as much as to send it.
    fn over(&self, ends: Instant) -> impl Future<Output = Over> + Send + 'static {
        let (local, lacks_key) = (self.local.clone(), Arc::clone(&self.lacks_key));
        let to = self.hello.to;
        let next = self.way.map_or(to, |way| way.by);
        async move {
            let (mut cuts, mut nearer) = (local.cuts.clone(), local.cuts.clone());
            let lacks_key = async {
                loop {
                    lacks_key.notified().await;
                    // The connection may have brought it since it was missed.
                    if local.keys.ours(to).is_none() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = lacks_key => Over { why: "another key is wanted", greets: true },
                () = sleep_until(ends) => {
                    Over { why: "the peer's certificate has ended", greets: false }
                }
                () = cuts.until_from(to.pod) => Over { why: CUT_OFF, greets: false },
                () = nearer.until_from(next.pod) => Over { why: CUT_OFF, greets: false },
            }
        }
    }

    async fn send(&self, connection: &mut Secure<Line>, frame: Frame) -> io::Result<()> {
        let bytes = frame.encode();
        self.local.metrics.peers.bytes_sent.inc_by(bytes.len() as u64);
        // A peer that reads nothing must not hold up the link for ever.
        match timeout(SILENCE, connection.frames.send(bytes)).await {
            Ok(sent) => sent,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Says who this is, and asks a pod who it is. Nothing if it does not answer in time, or if somebody
/// else is there.
pub(crate) async fn introduce(
    local: &Local,
    pod: PodUid,
    addresses: &[SocketAddr],
) -> Option<MemberInfo> {
    if local.cuts.is_from(pod) {
        return None;
    }
    let introduction = Introduction { group: local.group, from: local.info.clone(), to: pod };
    let asked = async {
        let mut connection = secure::connect(local, addresses, pod).await?;
        let introduce = Frame::Introduce(Box::new(introduction)).encode();
        connection.frames.send(introduce).await.map_err(Refusal::of)?;
        receive(&mut connection).await.map_err(Refusal::of)
    };
    match timeout(CONNECT, asked).await {
        Ok(Ok(Frame::Introduced(info))) if info.incarnation.pod == pod && info.is_sound() => {
            Some(*info)
        }
        Ok(Err(refusal)) => {
            local.refused(pod, &refusal);
            None
        }
        other => {
            debug!(%pod, ?other, "introduce");
            None
        }
    }
}

/// The next frame.
pub(super) async fn receive<S: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut Secure<S>,
) -> io::Result<Frame> {
    let bytes = connection.frames.next().await.ok_or(io::ErrorKind::UnexpectedEof)??;
    Frame::decode(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Whether nobody answered where a peer was.
fn is_of_nobody(error: &io::Error) -> bool {
    let refusal = error.get_ref().and_then(|error| error.downcast_ref::<Refusal>());
    matches!(refusal, Some(Refusal::Unreachable(_)))
}

fn cut_off() -> io::Error {
    io::Error::other(CUT_OFF)
}

const CUT_OFF: &str = "cut off";

fn reason(rejection: Rejection) -> &'static str {
    match rejection {
        Rejection::Version => "version",
        Rejection::Group => "group",
        Rejection::Incarnation => "incarnation",
        Rejection::Session => "session",
    }
}
