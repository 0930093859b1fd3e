//! The thread that sends beacons and takes those of others: a task would be late whenever another one is busy.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_protocols::Incarnation;
use prometheus::IntGauge;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tracing::{debug, info, warn};

use super::allowance::Allowance;
use super::exchange::Exchange;
use super::keys::Keyring;
use super::packet::{GroupHash, LENGTH, Packet, PacketError};
use super::report::{Report, Reporter};
use super::socket::{KernelStamp, Socket};
use super::unheard::Unheard;
use super::waker::Waker;
use super::{Peer, Sample};
use crate::links::Cuts;
use crate::metrics::ProbeMetrics;

/// What the thread begins with.
pub(super) struct Thread {
    pub(super) me: Incarnation,
    pub(super) group: GroupHash,
    /// The address of the port of the links.
    pub(super) address: SocketAddr,
    pub(super) reporter: Reporter,
    pub(super) keys: Keyring,
    pub(super) cuts: Cuts,
    pub(super) metrics: ProbeMetrics,
    pub(super) peers: watch::Receiver<Vec<Peer>>,
    pub(super) samples: mpsc::Sender<Sample>,
    pub(super) reports: mpsc::Sender<(Incarnation, Report)>,
    pub(super) waker: Arc<Waker>,
}

/// The thread with its socket.
struct Running {
    thread: Thread,
    socket: Socket,
    _open: Open,
    probed: Vec<Correspondent>,
    /// Which train was sent last, of all since the peers changed.
    train: usize,
    /// When the next one is to leave.
    due: Instant,
    /// The number of the latest beacon, whomever it was to.
    number: u64,
    /// The packets whose departure the kernel has not reported: its count, to whom, and its number.
    in_flight: VecDeque<(u32, Incarnation, u64)>,
}

/// Shows that the port is open, as long as it is.
struct Open(IntGauge);

impl Open {
    fn new(gauge: IntGauge) -> Self {
        gauge.set(1);
        Self(gauge)
    }
}

impl Drop for Open {
    /// However the thread ends.
    fn drop(&mut self) {
        self.0.set(0);
        if std::thread::panicking() {
            warn!("the thread of clock probes has ended by a fault: there are none any more");
        }
    }
}

/// A peer that beacons go to.
struct Correspondent {
    peer: Peer,
    exchange: Exchange,
    allowance: Allowance,
    unheard: Unheard,
    /// Which of its addresses is used.
    address: usize,
    /// When it was heard last, or another address was tried.
    heard: Instant,
}

/// Between two beacons on one link. At 4 per second a bound of 15 parts per million costs a few microseconds over the
/// delay; at 1 per second it costs three times that.
pub(super) const PERIOD: Duration = Duration::from_millis(250);

/// How many beacons leave one right after the other, at most. The first one finds processors asleep and caches cold; those
/// that follow are quicker, and their delays vary less.
const TRAIN: usize = 8;

/// A peer that was not heard for that long may be reached at another of its addresses.
const DEAF: Duration = Duration::from_secs(5);

/// Where the port is taken, it is tried again after that long.
const TAKEN: Duration = Duration::from_secs(10);

/// Packets that are taken before beacons are sent again that are due.
const AT_ONCE: usize = 64;

/// Where more packets come than are taken at once, the thread takes no more for that long: so a flood of them costs a part
/// of a processor, and what it crowds out is lost.
const BREATH: Duration = Duration::from_millis(1);

/// How to wait for what comes next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Pause {
    /// Until a packet comes, or for that long.
    Hears(Duration),
    /// For that long, whatever comes.
    HearsNothing(Duration),
}

/// Departures that the kernel may still report.
const IN_FLIGHT: usize = 1024;

impl Thread {
    /// Runs until the waker is stopped.
    pub(super) fn run(mut self) {
        let mut has_warned = false;
        while !self.waker.is_stopped() {
            match Socket::open(self.address, self.reporter.clock()) {
                Ok(socket) => {
                    if has_warned {
                        info!(address = %self.address, "the port of clock probes is open");
                    }
                    self.peers.mark_changed();
                    return Running::new(self, socket).run();
                }
                Err(error) => {
                    if !std::mem::replace(&mut has_warned, true) {
                        warn!(address = %self.address, %error, "open the UDP port of clock probes: there are none");
                    }
                    // However that ends, the port is tried again.
                    let _ = wait(None, &self.waker, TAKEN);
                }
            }
        }
    }
}

impl Running {
    fn new(thread: Thread, socket: Socket) -> Self {
        let open = Open::new(thread.metrics.socket.clone());
        let (probed, in_flight) = (Vec::new(), VecDeque::new());
        let due = Instant::now();
        Self { thread, socket, _open: open, probed, train: 0, due, number: 0, in_flight }
    }

    fn run(mut self) {
        let cost = self.thread.metrics.cost.clone();
        while !self.thread.waker.is_stopped() {
            let waited = cost.of(|| match self.turn() {
                Pause::Hears(at_most) => wait(Some(&self.socket), &self.thread.waker, at_most),
                Pause::HearsNothing(at_most) => wait(None, &self.thread.waker, at_most),
            });
            if let Err(error) = waited {
                warn!(%error, "wait for clock probes: there are none any more");
                break;
            }
        }
    }

    /// Does what is due, and says how to wait for what comes next.
    fn turn(&mut self) -> Pause {
        if self.thread.peers.has_changed().unwrap_or(false) {
            self.take_peers();
        }
        self.note_departures();
        let has_more = self.receive(Instant::now());
        let now = Instant::now();
        if now >= self.due {
            self.send(now);
            self.note_departures();
        }
        self.socket.clear();
        let left = self.due.saturating_duration_since(Instant::now());
        let left = if self.probed.is_empty() { IDLE } else { left };
        if has_more { Pause::HearsNothing(left.min(BREATH)) } else { Pause::Hears(left) }
    }

    /// Other peers are to be probed. With those that stay the exchange goes on.
    fn take_peers(&mut self) {
        let peers = self.thread.peers.borrow_and_update().clone();
        let mut before = std::mem::take(&mut self.probed);
        for peer in peers {
            let at = before.iter().position(|one| one.peer.incarnation == peer.incarnation);
            let probed = match at.map(|at| before.swap_remove(at)) {
                Some(probed) => Correspondent { peer, ..probed },
                None => Correspondent::new(peer),
            };
            self.probed.push(probed);
        }
        self.train = 0;
    }

    /// Sends the train of beacons that is due. Trains are spread evenly, and each time another beacon is the first of its
    /// train; what is late is not made up for.
    fn send(&mut self, now: Instant) {
        let trains = u32::try_from(trains(self.probed.len())).unwrap_or(u32::MAX);
        self.due = (self.due + PERIOD / trains).max(now);
        self.train = self.train.wrapping_add(1);
        for place in train(self.probed.len(), self.train) {
            self.send_to(place, now);
        }
    }

    fn send_to(&mut self, place: usize, now: Instant) {
        let Some(probed) = self.probed.get_mut(place) else { return };
        let to = probed.peer.incarnation;
        let Some(key) = self.thread.keys.ours(to).filter(|_| !self.thread.cuts.is_from(to.pod))
        else {
            return probed.unheard.sends_nothing(now);
        };
        let Some(address) = probed.address(&self.socket, now) else { return };
        self.number += 1;
        let report = self.thread.reporter.report();
        let beacon = probed.exchange.beacon(self.thread.me, self.number, report);
        let bytes = beacon.seal(self.thread.group, &key);
        match self.socket.send(&bytes, address) {
            Ok(sending) => {
                let metrics = &self.thread.metrics;
                probed.exchange.sent(self.number, sending.began, sending.returned);
                probed.peer.counts.sent.add_one();
                metrics.sent.inc();
                if let Some(departed) = beacon.departed {
                    metrics.departed(departed.at.source);
                }
                self.in_flight.push_back((sending.count, to, self.number));
                if self.in_flight.len() > IN_FLIGHT {
                    self.in_flight.pop_front();
                }
            }
            Err(error) => {
                debug!(%address, %error, "send a clock probe");
                probed.address += 1;
                // Those before it in its train have departed.
                self.note_departures();
                self.in_flight.clear();
                self.socket.count_anew();
            }
        }
    }

    /// Takes what the kernel says of departures.
    fn note_departures(&mut self) {
        for (count, departed) in self.socket.departed() {
            let Some(at) = self.in_flight.iter().position(|(sent, ..)| *sent == count) else {
                continue;
            };
            let Some((_, to, number)) = self.in_flight.remove(at) else { continue };
            let mut probed = self.probed.iter_mut();
            if let Some(probed) = probed.find(|one| one.peer.incarnation == to) {
                probed.exchange.stamped(number, departed);
            }
        }
    }

    /// Takes what has arrived. Whether there may be more: whatever it is, it is not to keep the thread busy.
    fn receive(&mut self, now: Instant) -> bool {
        // One byte more than a beacon has: a longer packet is none.
        let mut buffer = [0; LENGTH + 1];
        for _ in 0..AT_ONCE {
            match self.socket.receive(&mut buffer) {
                Ok(Some((length, stamp))) => self.hear(&buffer[..length], stamp, now),
                Ok(None) => return false,
                Err(error) => {
                    debug!(%error, "receive a clock probe");
                    return false;
                }
            }
        }
        true
    }

    /// Takes one packet, which the kernel stamped then.
    fn hear(&mut self, bytes: &[u8], stamp: Option<KernelStamp>, now: Instant) {
        let metrics = &self.thread.metrics;
        let packet = match Packet::parse(bytes, self.thread.group) {
            Ok(packet) => packet,
            Err(PacketError::Malformed) => return metrics.refuse("malformed"),
            Err(PacketError::Group) => return metrics.refuse("group"),
        };
        let beacon = packet.claimed();
        let mut probed = self.probed.iter_mut();
        let Some(probed) = probed.find(|one| one.peer.incarnation == beacon.from) else {
            return metrics.refuse("stranger");
        };
        if self.thread.cuts.is_from(beacon.from.pod) {
            return;
        }
        if probed.allowance.is_used_up(now) {
            probed.peer.counts.refused.add_one();
            return metrics.refuse("too-often");
        }
        if let Err(disbelief) = self.thread.keys.believe(&packet) {
            probed.peer.counts.refused.add_one();
            return metrics.refuse(disbelief.label());
        }
        // What somebody else sent in its name has no part in its allowance.
        probed.allowance.take(now);
        probed.heard = now;
        // The clocks are read for nobody else.
        let arrived = self.socket.arrived(stamp);
        probed.peer.counts.received.add_one();
        metrics.received.inc();
        metrics.arrived(arrived.source);
        let before = probed.exchange.answered();
        let samples = probed.exchange.received(&beacon, arrived);
        if probed.exchange.answered() > before {
            probed.unheard.acknowledged(now);
        } else if probed.unheard.is_over(now) {
            self.thread.keys.forget(beacon.from);
        }
        // One that nobody takes in time is missed by no one: the next says more.
        let _ = self.thread.reports.try_send((beacon.from, beacon.report));
        for sample in samples {
            if let Err(TrySendError::Full(_)) = self.thread.samples.try_send(sample) {
                metrics.dropped.inc();
            }
        }
    }
}

impl Correspondent {
    fn new(peer: Peer) -> Self {
        let exchange = Exchange::with(peer.incarnation);
        let now = Instant::now();
        let (allowance, unheard) = (Allowance::new(now), Unheard::new(now));
        Self { peer, exchange, allowance, unheard, address: 0, heard: now }
    }

    /// Where to send to.
    fn address(&mut self, socket: &Socket, now: Instant) -> Option<SocketAddr> {
        if now.duration_since(self.heard) >= DEAF {
            self.heard = now;
            self.address += 1;
        }
        let reached = || self.peer.addresses.iter().filter(|address| socket.reaches(**address));
        reached().nth(self.address.checked_rem(reached().count())?).copied()
    }
}

/// How many trains a round of beacons to so many peers is sent in.
fn trains(peers: usize) -> usize {
    peers.div_ceil(TRAIN).max(1)
}

/// The places of the peers that one train is for, in the order of their beacons.
fn train(peers: usize, number: usize) -> impl Iterator<Item = usize> {
    let trains = trains(peers);
    let (train, round) = (number % trains, number / trains);
    let (first, end) = (train * peers / trains, (train + 1) * peers / trains);
    (0..end - first).map(move |place| first + (place + round) % (end - first))
}

/// Waits until something is there on the socket, until somebody wakes the thread, or for that long.
fn wait(socket: Option<&Socket>, waker: &Waker, at_most: Duration) -> io::Result<()> {
    let timeout = Timespec::try_from(at_most).map_err(io::Error::other)?;
    let mut ends = vec![PollFd::new(waker, PollFlags::IN)];
    ends.extend(socket.map(|socket| PollFd::new(socket, PollFlags::IN)));
    match poll(&mut ends, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    waker.hear();
    Ok(())
}

/// With nobody to send to the thread waits that long, unless it is woken.
const IDLE: Duration = Duration::from_mins(1);
