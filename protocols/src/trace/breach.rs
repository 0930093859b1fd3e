//! A step that no rule has.

use std::fmt;

/// An event that no rule allows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Breach {
    /// The rule of `docs/views.md` that has no such step.
    pub rule: u8,
    /// What is wrong, in a few words.
    pub what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no step of rule {}: {}", self.rule, self.what)
    }
}

/// Whether a step may be taken.
pub(super) type Allowed = Result<(), Breach>;

/// Refuses a step unless its condition is so.
pub(super) fn need(rule: u8, is_so: bool, what: impl FnOnce() -> String) -> Allowed {
    if is_so { Ok(()) } else { Err(Breach { rule, what: what() }) }
}
