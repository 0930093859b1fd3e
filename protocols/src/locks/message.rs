//! What members send about locks.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::core::Holder;
use crate::core::message::Note;
use crate::ids::{FencingToken, Incarnation, LockName};
use crate::mutex::AnyMessage;
use crate::protocol::Named;

/// A message of one lock.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct LockMessage {
    /// Which lock.
    pub lock: LockName,
    /// The highest token of this lock that the sender knows to have been given.
    pub highest: FencingToken,
    /// With a request: the member that asks. With the reply to one that must wait: the holder.
    pub note: Option<Box<LockNote>>,
    /// What the algorithm sends.
    pub message: AnyMessage,
}

/// What goes along with a lock's message, for people.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct LockNote {
    /// Who.
    pub member: Incarnation,
    /// On whose behalf.
    pub note: Note,
    /// With which token, if it holds.
    pub token: Option<FencingToken>,
    /// For how long it has held.
    pub held: Duration,
}

impl From<Holder> for LockNote {
    fn from(holder: Holder) -> Self {
        let Holder { member, note, token, held, .. } = holder;
        Self { member, note, token, held }
    }
}

impl Named for LockMessage {
    fn name(&self) -> &'static str {
        self.message.name()
    }
}
