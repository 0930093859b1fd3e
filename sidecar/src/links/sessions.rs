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

    /// Hands a message on, unless it was here before. Nothing if a later connection has taken over:
    /// that may have handed on later messages by now, so this one must not follow them.
    pub(super) fn hand_on(&self, turn: &Turn, number: u64, hand_on: impl FnOnce()) -> Option<()> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A session that takes over states so within the lock.
        let session = sessions.get_mut(&turn.from).filter(|_| !turn.over.is_cancelled())?;
        if number > session.received {
            session.received = number;
            hand_on();
        }
        Some(())
    }
}

impl Turn {
    /// Returns once a later connection has taken over.
    pub(super) async fn is_over(&self) {
        self.over.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use conclave_protocols::PodUid;

    use super::*;

    const SPEAKER: Incarnation = Incarnation { pod: PodUid(7), run: 1 };

    #[test]
    fn a_connection_that_was_overtaken_hands_nothing_on() {
        let sessions = Sessions::default();
        let mut heard = Vec::new();
        let first = sessions.admit(SPEAKER, 1).expect("the first");
        assert!(sessions.hand_on(&first, 1, || heard.push(1)).is_some());
        assert!(sessions.hand_on(&first, 1, || heard.push(1)).is_some(), "it was here before");
        let second = sessions.admit(SPEAKER, 1).expect("the same session");
        assert_eq!(second.received, 1);
        assert!(sessions.hand_on(&first, 2, || heard.push(2)).is_none());
        for number in [2, 3] {
            sessions.hand_on(&second, number, || heard.push(number)).expect("it is the latest");
        }
        assert_eq!(heard, [1, 2, 3]);
    }
}
