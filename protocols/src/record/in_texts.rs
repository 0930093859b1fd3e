//! What a record says in the register, which keeps it as text, and nowhere else.
//!
//! The layout in which members send each other a view is older, so there it takes no byte: a view that is
//! announced is not closed, and its base goes with the heartbeat.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn serialize<S: Serializer>(value: &impl Serialize, to: S) -> Result<S::Ok, S::Error> {
    if to.is_human_readable() { value.serialize(to) } else { to.serialize_unit() }
}

pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    if from.is_human_readable() { Option::deserialize(from) } else { Ok(None) }
}
