//! What a closed record states about holds: which of them may still run.

use serde::{Deserialize, Serialize};

use super::escaped;
use crate::ids::{FencingToken, HoldName, Incarnation};

/// Something that was held when nobody was left to lead.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftHold {
    /// Which.
    pub name: HoldName,
    /// By whom.
    pub holder: Incarnation,
    /// With this token.
    pub token: FencingToken,
    /// For how much longer it keeps others out at the most, if that is less than a member lease.
    pub rest_ms: Option<u64>,
}

/// More names would make the record long. Then it names none, and all names wait.
const LEFT_MAX: usize = 64;

/// So many bytes they have in the record, at the most.
pub(super) const LEFT_BYTES_MAX: usize = 16 << 10;

/// What one has there besides its name, at the most.
const LEFT_BYTES: usize = 160;

impl LeftHold {
    /// Whether a record has room for all of them.
    pub fn have_room(all: &[Self]) -> bool {
        let bytes = |left: &Self| LEFT_BYTES + escaped(left.name.as_str());
        all.len() <= LEFT_MAX && all.iter().map(bytes).sum::<usize>() <= LEFT_BYTES_MAX
    }
}
