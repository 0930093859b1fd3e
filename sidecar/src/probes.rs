//! Clock probes: what members learn of each other's clocks by small UDP packets with stamps of the kernel.
//!
//! A thread sends each peer a *beacon* four times a second, and takes theirs ([`thread`]). What came of them are
//! [`Sample`]s: when a packet departed by the one clock, and when it arrived by the other. No packet arrives before it
//! departs, so each of them bounds the offset of the two clocks from one side, whatever the network does. All clocks
//! are raw ones (`CLOCK_MONOTONIC_RAW`).

mod allowance;
mod audit;
mod exchange;
mod figures;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod hosts;
mod keys;
mod packet;
mod report;
mod socket;
#[cfg(test)]
mod tests;
mod thread;
mod trips;
mod unheard;
mod waker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use conclave_protocols::clock::Assumptions;
use conclave_protocols::policy::ClockPolicy;
use conclave_protocols::record::MemberInfo;
use conclave_protocols::{Incarnation, LocalTime};
use tokio::sync::{mpsc, watch};

#[cfg(test)]
pub(crate) use self::audit::Audited;
pub(crate) use self::audit::Check;
pub(crate) use self::figures::{Figures, PeerFigures, Probed};
pub(crate) use self::hosts::HostClock;
#[cfg(test)]
pub(crate) use self::keys::Disbelief;
pub(crate) use self::keys::{Keyring, LABEL, ProbeKey};
pub(crate) use self::packet::GroupHash;
#[cfg(test)]
pub(crate) use self::packet::{Beacon, Packet};
pub(crate) use self::report::{Report, Reporter};
use self::thread::Thread;
use self::waker::Waker;
use crate::links::Cuts;
use crate::metrics::ProbeMetrics;

/// Who took a stamp.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Source {
    /// The kernel, as the packet passed it.
    Kernel,
    /// This program, right before it sent the packet or right after it received it.
    User,
}

/// A moment by the raw clock of one member.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stamp {
    pub(crate) raw: LocalTime,
    pub(crate) source: Source,
}

/// One packet of which both ends are known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sample {
    /// From here to there.
    Sent {
        /// To whom.
        peer: Incarnation,
        /// When it departed, by this member's clock, or earlier.
        departed: Stamp,
        /// When it arrived, by the peer's clock, or later.
        arrived_there: Stamp,
    },
    /// From there to here.
    Received {
        /// From whom.
        peer: Incarnation,
        /// When it departed, by the peer's clock, or earlier.
        departed_there: Stamp,
        /// When it arrived, by this member's clock, or later.
        arrived: Stamp,
    },
}

impl Sample {
    /// With whom.
    pub(crate) fn peer(&self) -> Incarnation {
        match self {
            Self::Sent { peer, .. } | Self::Received { peer, .. } => *peer,
        }
    }

    /// When it departed, and when it arrived.
    pub(crate) fn ends(&self) -> (Stamp, Stamp) {
        match self {
            Self::Sent { departed, arrived_there, .. } => (*departed, *arrived_there),
            Self::Received { departed_there, arrived, .. } => (*departed_there, *arrived),
        }
    }
}

/// Whom beacons go to.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) incarnation: Incarnation,
    /// The pod's name.
    pub(crate) name: String,
    pub(crate) addresses: Vec<SocketAddr>,
    /// What is assumed of the raw clocks by the policy of the view, and of packets.
    pub(crate) assumptions: Assumptions,
    /// What the thread counts.
    pub(crate) counts: Arc<Counts>,
}

/// Packets of one peer.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sent: Count,
    pub(crate) received: Count,
    /// Those that name this peer as their sender, and were not taken.
    pub(crate) refused: Count,
}

/// A number that one thread raises and others read.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a thread of beacons needs.
pub(crate) struct Setting {
    pub(crate) me: Incarnation,
    /// The UID of the group's resource.
    pub(crate) group: u128,
    /// The address of the port of the links; that of beacons is the same, by UDP.
    pub(crate) address: SocketAddr,
    pub(crate) reporter: Reporter,
    pub(crate) keys: Keyring,
    pub(crate) cuts: Cuts,
    pub(crate) metrics: ProbeMetrics,
}

/// What the thread learns.
pub(crate) struct Heard {
    pub(crate) samples: mpsc::Receiver<Sample>,
    /// What peers state of their clocks.
    pub(crate) reports: mpsc::Receiver<(Incarnation, Report)>,
}

/// The thread of beacons, which ends with this.
pub(crate) struct Probes {
    peers: watch::Sender<Vec<Peer>>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

/// Samples that may wait to be taken: those of a second with as many peers as a group may have, if all send as often as
/// they may.
const SAMPLES: usize = 4096;

impl Probes {
    /// Starts the thread, with nobody to send to, and says where what it learns comes out.
    pub(crate) fn start(setting: Setting) -> io::Result<(Self, Heard)> {
        let waker = Arc::new(Waker::new()?);
        let (peers, probed) = watch::channel(Vec::new());
        let (samples, taken) = mpsc::channel(SAMPLES);
        let (reports, reported) = mpsc::channel(SAMPLES);
        let Setting { me, group, address, reporter, keys, cuts, metrics } = setting;
        let thread = Thread {
            me,
            group: GroupHash::of(group),
            address,
            reporter,
            keys,
            cuts,
            metrics,
            peers: probed,
            samples,
            reports,
            waker: Arc::clone(&waker),
        };
        let builder = std::thread::Builder::new().name("clock-probes".to_owned());
        let thread = builder.stack_size(STACK).spawn(move || thread.run())?;
        let heard = Heard { samples: taken, reports: reported };
        Ok((Self { peers, waker, thread: Some(thread) }, heard))
    }

    /// From now on beacons go to these, of whose clocks the policy assumes so much.
    pub(crate) fn probe(&self, members: &[MemberInfo], policy: &ClockPolicy) {
        let assumptions = figures::assumptions(policy);
        self.peers.send_modify(|peers| {
            let before = std::mem::take(peers);
            peers.extend(members.iter().map(|info| {
                let known = before.iter().find(|peer| peer.incarnation == info.incarnation);
                Peer {
                    incarnation: info.incarnation,
                    name: info.name.clone(),
                    addresses: info.addresses.clone(),
                    assumptions,
                    counts: known.map(|peer| Arc::clone(&peer.counts)).unwrap_or_default(),
                }
            }));
        });
        self.waker.wake();
    }

    /// Whom beacons go to.
    pub(crate) fn peers(&self) -> watch::Receiver<Vec<Peer>> {
        self.peers.subscribe()
    }
}

impl Drop for Probes {
    /// Waits until the port is free again: the thread looks at nothing else before it ends.
    fn drop(&mut self) {
        self.waker.stop();
        // A thread that panicked has reported it.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The stack of the thread, in bytes: it calls nothing that is deep.
const STACK: usize = 256 << 10;
