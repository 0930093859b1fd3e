//! A trace that one process of many writes down by itself, line by line.

use serde::{Deserialize, Serialize};

use super::content::Content;
use super::event::Event;
use crate::ids::Incarnation;
use crate::register::CallId;
use crate::time::LocalTime;

/// One line.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Line {
    /// The process.
    pub who: Incarnation,
    /// How many lines it wrote before.
    pub number: u64,
    /// The one reading of its clock in the step that this belongs to.
    pub at: LocalTime,
    /// What it did or heard.
    pub what: What,
}

/// What a line states. Of the register a process knows what it called for and what it was answered; when a
/// write was carried out it does not know.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum What {
    /// Something else than a call or an answer of the register.
    Did(Event<LocalTime>),
    /// It called for a write.
    Calls {
        /// Which call.
        id: CallId,
        /// The version that must still be in place.
        version: u64,
        /// What to put there.
        content: Content,
    },
    /// The register answered a read.
    Read {
        /// The version that it holds.
        version: u64,
        /// What it holds.
        content: Option<Content>,
    },
    /// It answered that the write was carried out.
    Wrote {
        /// Which call.
        id: CallId,
        /// The version made.
        version: u64,
    },
    /// It answered that the write was not carried out.
    Refused(CallId),
}
