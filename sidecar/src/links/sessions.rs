//! What arrived so far, by sender.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use conclave_protocols::Incarnation;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Peers whose sessions are remembered; far more than a group has members.
const SESSIONS: usize = 4096;

/// The sessions of all peers, shared by the connections; nobody waits while holding them. Cheap to
/// clone.
#[derive(Clone, Default)]
pub(super) struct Sessions(Arc<Mutex<HashMap<Incarnation, Session>>>);

struct Session {
    id: u64,
    received: u64,
    /// Ends the latest connection once there is a later one.
    _latest: DropGuard,
}

/// The latest connection of a session, until it is over.
pub(super) struct Turn {
    from: Incarnation,
    /// The number of the latest message that arrived before.
    pub(super) received: u64,
    over: CancellationToken,
}

impl Sessions {
    /// Has a connection take over from an earlier one of its peer. Nothing if it is itself of an
    /// earlier session.
    pub(super) fn admit(&self, from: Incarnation, id: u64) -> Option<Turn> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= SESSIONS && !sessions.contains_key(&from) {
            sessions.clear();
        }
        let received = match sessions.get(&from) {
            Some(now) if now.id > id => return None,
            Some(now) if now.id == id => now.received,
            Some(_) | None => 0,
        };
        let over = CancellationToken::new();
        let latest = over.clone().drop_guard();
        sessions.insert(from, Session { id, received, _latest: latest });
        Some(Turn { from, received, over })
    }

    /// Takes note of a message. False if it was here before; nothing if a later connection has
    /// taken over.
    pub(super) fn note(&self, turn: &Turn, number: u64) -> Option<bool> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Who takes over says so within the lock.
        let session = sessions.get_mut(&turn.from).filter(|_| !turn.over.is_cancelled())?;
        let is_new = number > session.received;
        session.received = session.received.max(number);
        Some(is_new)
    }
}

impl Turn {
    /// Returns once a later connection has taken over.
    pub(super) async fn is_over(&self) {
        self.over.cancelled().await;
    }
}
