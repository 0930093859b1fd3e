//! What a closed record says of locks: which of them may still be held.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Record;
use crate::ids::{FencingToken, Incarnation, LockName};
use crate::member::message::{Note, Table, TableHold};

/// A lock that was held when nobody was left to lead.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldLock {
    /// Which.
    pub lock: LockName,
    /// By whom.
    pub holder: Incarnation,
    /// With this token.
    pub token: FencingToken,
    /// For how much longer it keeps others out at the most, if that is less than a lock wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest_ms: Option<u64>,
}

/// More names would make the record long. Then it names none, and all locks wait.
const HELD_MAX: usize = 64;

impl HeldLock {
    /// All that a table names, if a record has room for it.
    pub(crate) fn all_of(table: &Table) -> Option<Vec<Self>> {
        let held = table.holds.iter().map(|hold| Self {
            lock: hold.lock.clone(),
            holder: hold.holder,
            token: hold.token,
            rest_ms: hold
                .rest
                .map(|rest| u64::try_from(rest.as_millis()).unwrap_or(u64::MAX).saturating_add(1)),
        });
        (table.holds.len() <= HELD_MAX).then(|| held.collect())
    }
}

impl Record {
    /// Who may hold what after the group was closed; nothing if that is not known.
    pub(crate) fn left_behind(&self) -> Option<Table> {
        let held = self.held.as_ref().filter(|_| self.is_closed())?;
        let entry = |lock: &HeldLock| TableHold {
            lock: lock.lock.clone(),
            holder: lock.holder,
            token: lock.token,
            rest: lock.rest_ms.map(Duration::from_millis),
            note: Note::default(),
        };
        Some(Table { holds: held.iter().map(entry).collect(), waits: Vec::new() })
    }
}

/// What stands in the register alone. A view that is announced to its members has a leader and is not
/// closed, and the layout in which members send it is older: there it takes no byte.
pub(super) mod in_texts {
    use super::{Deserialize, Deserializer, HeldLock, Serialize, Serializer};

    type Held = Option<Vec<HeldLock>>;

    pub(crate) fn serialize<S: Serializer>(held: &Held, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() { held.serialize(to) } else { to.serialize_unit() }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Held, D::Error> {
        if from.is_human_readable() {
            Held::deserialize(from)
        } else {
            <()>::deserialize(from).map(|()| None)
        }
    }
}
