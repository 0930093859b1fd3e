//! What a closed record says of holds: which of them may still run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Record;
use crate::core::message::{Note, Table, TableHold};
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
const HELD_MAX: usize = 64;

impl LeftHold {
    /// All that a table names, if a record has room for it.
    pub(crate) fn all_of(table: &Table) -> Option<Vec<Self>> {
        let held = table.holds.iter().map(|hold| Self {
            name: hold.name.clone(),
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
        let entry = |left: &LeftHold| TableHold {
            name: left.name.clone(),
            holder: left.holder,
            token: left.token,
            rest: left.rest_ms.map(Duration::from_millis),
            note: Note::default(),
        };
        Some(Table { holds: held.iter().map(entry).collect(), waits: Vec::new() })
    }
}
