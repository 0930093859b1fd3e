//! Links between members that do not reach each other: gateways pass on what both ends say.
//!
//! A member that opens a link asks a gateway, which asks the other end, or a gateway of that one's zone to. Each of them connects to
//! the next as to any peer, by its certificate, so nothing gets to anybody else, whatever address a member states. From then
//! on gateways pass on bytes. These are TLS of the two ends, so a gateway can hold them up and cut them off, and nothing else.

use std::io;
use std::time::Duration;

use conclave_protocols::Incarnation;
use conclave_protocols::election::Way;
use futures::stream::FuturesUnordered;
use futures::{SinkExt, StreamExt};
use prometheus::IntGauge;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsStream;
use tokio_util::either::Either;
use tracing::debug;

use super::Local;
use super::crowd::{Crowd, Known};
use super::inbound::{SILENCE, UNREAD, send};
use super::outbound::{CONNECT, receive};
use super::secure::{self, Connection, Refusal, Secure};
use crate::wire::{Frame, NoRelay, Relay};

/// What the TLS of a link goes over: a connection to the other end, or to a gateway that passes on.
pub(super) type Line = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// How long one way is tried alone before the next is tried too, as RFC 8305 has it in section 5.
pub(super) const HEAD_START: Duration = Duration::from_millis(200);

/// As much is passed on at once.
const BUFFER: usize = 4096;

/// A line to a member, and when it ends: with the certificate of the gateway that passes on.
struct Opened {
    line: Line,
    ends: Option<Instant>,
}

/// Connects to a peer, by the first way that gets there, which is returned too unless it is the direct one. That is tried
/// first, and with it `last`, the one that was good the last time, or another one if the peer's zone was reached so lately.
/// Each way that fails is counted.
pub(super) async fn reach(
    local: &Local,
    to: Incarnation,
    last: Option<Way>,
) -> Result<(Secure<Line>, Option<Way>), Refusal> {
    let mut ways = local.roads.ways(&local.info, to);
    ways.sort_by_key(|way| Some(*way) != last);
    let is_known =
        last.is_some() && ways.first().copied() == last || local.roads.is_apart(&local.info, to);
    let mut ways = ways.into_iter().peekable();
    let mut attempts = FuturesUnordered::from_iter([attempt(local, to, None)]);
    let mut next = Instant::now() + if is_known { Duration::ZERO } else { HEAD_START };
    let mut latest = Refusal::Unreachable(io::ErrorKind::AddrNotAvailable.into());
    loop {
        tokio::select! {
            Some((way, reached)) = attempts.next() => match reached {
                Ok(connection) => {
                    local.roads.reached(&local.info, to, way);
                    return Ok((connection, way));
                }
                Err(refusal) => {
                    match way {
                        None => local.refused(to, &refusal),
                        Some(Way { by, .. }) => {
                            local.refused(format_args!("{to}, by {by}"), &refusal);
                        }
                    }
                    latest = refusal;
                    next = Instant::now();
                }
            },
            () = sleep_until(next), if ways.peek().is_some() => {
                attempts.push(attempt(local, to, ways.next()));
                next = Instant::now() + HEAD_START;
            }
            else => return Err(latest),
        }
    }
}

async fn attempt(
    local: &Local,
    to: Incarnation,
    way: Option<Way>,
) -> (Option<Way>, Result<Secure<Line>, Refusal>) {
    let connects = async {
        let Opened { line, ends } = open(local, to, way).await?;
        let mut connection = secure::greet(local, line, to.pod).await?;
        connection.ends = ends.map_or(connection.ends, |ends| ends.min(connection.ends));
        Ok(connection)
    };
    (way, connects.await)
}

/// Opens a line to a member, where nothing was sent yet.
async fn open(local: &Local, to: Incarnation, way: Option<Way>) -> Result<Opened, Refusal> {
    let next = way.map_or(to, |way| way.by);
    let nowhere = |why: &str| Refusal::Unreachable(io::Error::other(why));
    let addresses = local.roads.addresses(next).ok_or_else(|| nowhere("no address is known"))?;
    if local.cuts.is_from(next.pod) {
        return Err(nowhere("cut off"));
    }
    let Some(way) = way else {
        let line = Line::Left(secure::dial(local, &addresses).await?);
        return Ok(Opened { line, ends: None });
    };
    let mut gateway = secure::connect(local, &addresses, next.pod).await?;
    let relay = Frame::Relay(Relay { by: way.then, to }).encode();
    gateway.frames.send(relay).await.map_err(Refusal::of)?;
    match receive(&mut gateway).await.map_err(Refusal::of)? {
        Frame::Relayed(Ok(())) => {
            let ends = Some(gateway.ends);
            Ok(Opened { line: Line::Right(Box::new(alone(gateway)?)), ends })
        }
        Frame::Relayed(Err(why)) => Err(Refusal::NoRelay(why)),
        Frame::Hello(_)
        | Frame::Welcome { .. }
        | Frame::Reject(_)
        | Frame::Data { .. }
        | Frame::Ack { .. }
        | Frame::Introduce(_)
        | Frame::Introduced(_)
        | Frame::Relay(_) => Err(Refusal::Protocol("it answers something else".to_owned())),
    }
}

/// What is left of a connection after the last frame. The other end may not have gone on without an answer.
pub(super) fn alone<S: AsyncRead + AsyncWrite>(connection: Connection<S>) -> Result<S, Refusal> {
    let parts = connection.frames.into_parts();
    if parts.read_buf.is_empty() {
        return Ok(parts.io);
    }
    Err(Refusal::Protocol("it did not wait for an answer".to_owned()))
}

/// Answers one that asks for a relay, and passes on what it and the other end say until either of them, or this member,
/// has no more of it.
pub(super) async fn pass_on<S: AsyncRead + AsyncWrite + Unpin>(
    local: &Local,
    mut connection: Connection<S>,
    relay: Relay,
    places: &Crowd,
) -> io::Result<()> {
    let opened = tokio::select! {
        biased;
        opened = open_rest(local, relay, places) => opened,
        // It has hung up, or does not wait.
        _ = connection.frames.next() => return Ok(()),
    };
    let answer = Frame::Relayed(opened.as_ref().map(drop).map_err(|why| *why));
    send(&mut connection, &answer).await.map_err(io::Error::other)?;
    let (_place, Opened { line, ends }) = match opened {
        Ok(opened) => opened,
        Err(why) => {
            let crowded = why == NoRelay::Crowded;
            let refusal = if crowded { Refusal::Crowded } else { Refusal::NoRelay(why) };
            local.refused(connection.pod, &refusal);
            return Ok(());
        }
    };
    let _count = Count::of(&local.metrics.peers.relays);
    let (pod, next) = (connection.pod, relay.by.unwrap_or(relay.to).pod);
    let ends = ends.map_or(connection.ends, |ends| ends.min(connection.ends));
    let near = alone(connection).map_err(io::Error::other)?;
    let (mut near, mut far) = (tokio::io::split(near), tokio::io::split(line));
    let (mut cuts, mut others) = (local.cuts.clone(), local.cuts.clone());
    tokio::select! {
        passed = pass(&mut near.0, &mut far.1) => passed,
        passed = pass(&mut far.0, &mut near.1) => passed,
        () = sleep_until(ends) => Err(io::Error::other("a certificate has ended")),
        () = cuts.until_from(pod) => Err(io::Error::other("cut off")),
        () = others.until_from(next) => Err(io::Error::other("cut off")),
    }
}

/// Opens what is left of the way, if this member is to and has a place for it.
async fn open_rest(
    local: &Local,
    relay: Relay,
    places: &Crowd,
) -> Result<(Known, Opened), NoRelay> {
    let Relay { by, to } = relay;
    let next = by.unwrap_or(to);
    if !local.roads.have_gateways() {
        return Err(NoRelay::Topology);
    }
    if next == local.info.incarnation || local.roads.addresses(next).is_none() {
        return Err(NoRelay::Unknown);
    }
    let place = places.relay().ok_or(NoRelay::Crowded)?;
    let way = Way { by: next, then: None };
    match timeout(CONNECT, open(local, to, Some(way))).await {
        Ok(Ok(opened)) => Ok((place, opened)),
        Ok(Err(Refusal::NoRelay(why))) => Err(why),
        failed => {
            debug!(%to, %next, error = ?failed.map(Result::err), "pass on");
            Err(NoRelay::Unreachable)
        }
    }
}

/// Passes on one way, up to the end of it.
async fn pass(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = timeout(SILENCE, from.read(&mut buffer)).await??;
        if read == 0 {
            return Ok(());
        }
        let written = async {
            to.write_all(&buffer[..read]).await?;
            to.flush().await
        };
        timeout(UNREAD, written).await??;
    }
}

/// One more, until it is dropped.
struct Count(IntGauge);

impl Count {
    fn of(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_sends_nothing_for_long_is_passed_on_no_more() {
        let (mut sends, mut near) = tokio::io::duplex(64);
        let (mut far, mut hears) = tokio::io::duplex(64);
        let passes = tokio::spawn(async move { pass(&mut near, &mut far).await });
        for _ in 0..3 {
            tokio::time::sleep(SILENCE / 2).await;
            sends.write_all(b"word").await.expect("it is read");
            hears.read_exact(&mut [0; 4]).await.expect("it is passed on");
        }
        let begun = Instant::now();
        let ended = passes.await.expect("no panic");
        assert_eq!(ended.expect_err("it is over").kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), SILENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_is_sent_no_more() {
        let (mut sends, mut near) = tokio::io::duplex(1024);
        let (mut far, _hears) = tokio::io::duplex(64);
        let begun = Instant::now();
        sends.write_all(&[0; 1024]).await.expect("there is room");
        let ended = pass(&mut near, &mut far).await;
        assert_eq!(ended.expect_err("it is over").kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), UNREAD);
    }
}
