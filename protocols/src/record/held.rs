//! What a closed record states about holds: which of them may still run.

use serde::{Deserialize, Serialize};

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
