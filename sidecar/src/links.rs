//! Links to the other members: reliable and FIFO, also across reconnects.
//!
//! A link goes one way. It is opened when something is sent to a peer for the first time, and
//! closed when nothing was sent for long. What a peer has not acknowledged is kept, within limits;
//! what would be of no use when it is late is dropped instead.
//!
//! Both ends show a certificate of the group ([`crate::identity`]), and are the pods that it names. Where zones have gateways, these
//! pass on what ends say to each other that do not reach each other ([`relays`]).

mod crowd;
mod cuts;
mod inbound;
mod outbound;
mod refusals;
mod relays;
mod roads;
mod secure;
mod sessions;
#[cfg(test)]
mod tests;

pub(crate) use cuts::Cuts;
#[cfg(feature = "fuzzing")]
pub(crate) use inbound::hear;
pub(crate) use outbound::{CONNECT, introduce};
pub(crate) use refusals::Warnings;
pub(crate) use roads::Roads;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use conclave_protocols::Incarnation;
use conclave_protocols::record::{MemberInfo, Record};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::identity::OwnCredentials;
use crate::metrics::Metrics;
use crate::probes::Keyring;
use crate::wire::Payload;

/// What this sidecar is to its peers.
#[derive(Clone)]
pub(crate) struct Local {
    /// The UID of the group's resource.
    pub(crate) group: u128,
    /// Who this is.
    pub(crate) info: MemberInfo,
    /// What it shows to others, and whom it believes.
    pub(crate) held: OwnCredentials,
    pub(crate) warnings: Warnings,
    /// Who introduces itself.
    pub(crate) introduced: mpsc::Sender<MemberInfo>,
    pub(crate) metrics: Metrics,
    /// Where the keys go that both ends of a link derive.
    pub(crate) keys: Keyring,
    /// Between whom nothing passes.
    pub(crate) cuts: Cuts,
    /// Where the others are.
    pub(crate) roads: Roads,
    pub(crate) tracker: TaskTracker,
    pub(crate) end: CancellationToken,
}

/// The outgoing links, by peer.
pub(crate) struct Links {
    local: Local,
    open: HashMap<Incarnation, Link>,
    /// Those that have not ended.
    outgoing: TaskTracker,
    sessions: Arc<AtomicU64>,
}

/// One outgoing link.
struct Link {
    queue: mpsc::Sender<Payload>,
    /// Whether there is a connection now, on which the peer was heard of lately.
    connected: Arc<AtomicBool>,
    /// Asks for another connection, and a key with it, unless there is a key.
    lacks_key: Arc<Notify>,
}

impl Links {
    /// Listens for the others, and hands what they say to `inbox`.
    pub(crate) fn new(
        local: Local,
        listeners: Vec<TcpListener>,
        inbox: &mpsc::Sender<(Incarnation, Payload)>,
    ) -> Self {
        inbound::listen(&local, listeners, inbox);
        let sessions = Arc::new(AtomicU64::new(1));
        Self { local, open: HashMap::new(), outgoing: TaskTracker::new(), sessions }
    }

    /// Learns where a peer is.
    pub(crate) fn meet(&mut self, info: &MemberInfo) {
        self.local.roads.meet(info);
    }

    /// Forgets where everybody else is.
    pub(crate) fn keep_only(&mut self, known: impl Fn(&Incarnation) -> bool) {
        self.local.roads.keep_only(&known);
        self.open.retain(|peer, link| known(peer) && !link.queue.is_closed());
    }

    /// Goes by the zones of a view from now on.
    pub(crate) fn go_by(&self, view: &Record) {
        self.local.roads.go_by(view);
    }

    /// Whether a link to a peer is open.
    pub(crate) fn is_open(&self, peer: Incarnation) -> bool {
        self.open.get(&peer).is_some_and(|link| link.connected.load(Ordering::Relaxed))
    }

    /// Has both get a key: opens a link to a peer though there is nothing to say, or has one that is open connect
    /// again, by which it loses nothing.
    pub(crate) fn greet(&mut self, to: Incarnation) {
        match self.open.get(&to).filter(|link| !link.queue.is_closed()) {
            Some(link) => link.lacks_key.notify_one(),
            None => _ = self.connect(to, true),
        }
    }

    /// Whether this member and a peer have a key for what this member sends beside the link.
    pub(crate) fn has_key(&self, to: Incarnation) -> bool {
        self.local.keys.ours(to).is_some()
    }

    /// Says something. Never waits: a message for which there is no room is dropped and counted.
    pub(crate) fn send(&mut self, to: Incarnation, payload: Payload) {
        let (protocol, name) = payload.names();
        self.local.metrics.peers.messages_sent.with_label_values(&[protocol, name]).inc();
        let payload = match self.open.get(&to) {
            None => payload,
            Some(link) => match link.queue.try_send(payload) {
                Ok(()) => return,
                Err(mpsc::error::TrySendError::Full(_)) => return self.ignored("queue-full"),
                // It ended because nothing was sent for long, or because the peer refused it.
                Err(mpsc::error::TrySendError::Closed(payload)) => payload,
            },
        };
        let Some(link) = self.connect(to, false) else { return self.ignored("no-address") };
        // A link that was opened just now has room.
        let _ = link.queue.try_send(payload);
    }

    /// Sends no more, and waits until all that was sent is acknowledged, or its peer is not there.
    pub(crate) async fn end(&mut self) {
        self.open.clear();
        self.outgoing.close();
        self.outgoing.wait().await;
    }

    /// Opens a link to a peer, if it is known where that is.
    fn connect(&mut self, to: Incarnation, greets: bool) -> Option<&Link> {
        self.local.roads.addresses(to)?;
        let session = self.sessions.fetch_add(1, Ordering::Relaxed);
        let link = outbound::open(&self.local, &self.outgoing, to, session, greets);
        Some(self.open.entry(to).insert_entry(link).into_mut())
    }

    fn ignored(&self, reason: &str) {
        self.local.metrics.peers.messages_ignored.with_label_values(&[reason]).inc();
    }
}
