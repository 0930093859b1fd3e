//! The register: the API server as a peer that answers compare-and-swap.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Epoch;
use crate::protocol::Named;
use crate::record::Record;

/// No call takes longer: who makes it gives it up by then.
pub const CALL_MAX: Duration = Duration::from_secs(5);

/// What members and the register send to each other. Never on a wire between members.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Message {
    /// "What do you hold?" A consistent read.
    Read(CallId),
    /// "Put this in place of what you held at that version."
    Write {
        /// Which call.
        id: CallId,
        /// What must still be in place.
        version: Version,
        /// What to put there.
        record: Box<Record>,
    },
    /// "This."
    Value {
        /// Which call.
        id: CallId,
        /// What it holds.
        value: Box<Value>,
    },
    /// "Done; this is its version."
    Written {
        /// Which call.
        id: CallId,
        /// The version made.
        version: Version,
    },
    /// "Something else is in place; nothing was written."
    Conflict(CallId),
    /// "That I do not put there." Nothing was written, and the same would be refused again.
    Declined(CallId),
    /// Nobody knows whether the call was carried out. A read was just not answered.
    Unknown(CallId),
}

/// Distinguishes the calls of one member.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct CallId(pub u64);

/// A version of the register's content: equal or not, nothing else (`metadata.resourceVersion`).
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Version(pub String);

/// What the register holds.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Value {
    /// Its version.
    pub version: Version,
    /// The record; nothing before the first view.
    pub record: Option<Record>,
    /// The [`time_term`] of the next epoch, by the register's own clock. It matters only when the
    /// record itself was lost.
    pub time_term: Epoch,
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Read(_) => "read",
            Self::Write { .. } => "write",
            Self::Value { .. } => "value",
            Self::Written { .. } => "written",
            Self::Conflict(_) => "conflict",
            Self::Declined(_) => "declined",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// Of all epochs that there may have been by a moment, none was higher: four for each second since
/// 2024.
///
/// A view takes one number for itself and three for its ceiling
/// ([`CEILING_STEP`](crate::record::CEILING_STEP)), and views begin once a second at most, on average;
/// so the time is ahead of the numbers, whatever was forgotten.
pub fn time_term(since_2024: Duration) -> Epoch {
    Epoch(u64::try_from(since_2024.as_millis() / 250).unwrap_or(u64::MAX))
}

/// The largest time term that counts, in the year 2058: a clock that shows more is wrong.
pub const TIME_TERM_MAX: Epoch = Epoch((1 << 32) - 1);

/// A register in memory: what `conclave dev` and the simulator have in place of the API server.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct MemoryRegister {
    version: u64,
    record: Option<Record>,
}

impl MemoryRegister {
    /// The answer to a call. `time_term` is the time of the register's own clock.
    pub fn answer(&mut self, call: &Message, time_term: Epoch) -> Option<Message> {
        match call {
            Message::Read(id) => {
                let (version, record) = (self.version(), self.record.clone());
                let value = Box::new(Value { version, record, time_term });
                Some(Message::Value { id: *id, value })
            }
            Message::Write { id, version, record } => {
                if *version != self.version() {
                    return Some(Message::Conflict(*id));
                }
                self.version += 1;
                self.record = Some((**record).clone());
                Some(Message::Written { id: *id, version: self.version() })
            }
            Message::Value { .. }
            | Message::Written { .. }
            | Message::Conflict(_)
            | Message::Declined(_)
            | Message::Unknown(_) => None,
        }
    }

    /// What it holds.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// Somebody else writes: what it holds from now on, or the same as before. Its version changes
    /// all the same.
    pub fn put(&mut self, record: Option<Record>) {
        self.version += 1;
        self.record = record;
    }

    fn version(&self) -> Version {
        Version(self.version.to_string())
    }
}
