//! What a member that asks others for their time needs of them.

use serde::{Deserialize, Serialize};

/// What a member needs that asks others for their time.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Wants {
    /// Nothing: it has group time.
    Nothing,
    /// Group time.
    GroupTime,
    /// Any time: it leads, may begin one, and nobody in its view has group time. Before it begins one it goes by what a
    /// clock had before it lapsed.
    AnyTime,
}
