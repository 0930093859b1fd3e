//! Why a pod cannot have the sidecar.

use std::fmt;

/// What must change before a pod can have the sidecar.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The path of the field.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Problem {
    /// A problem with a field.
    pub(super) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }

    /// The same problem, seen from further up.
    pub(super) fn below(self, path: &str) -> Self {
        if path.is_empty() {
            return self;
        }
        Self { field: format!("{path}.{}", self.field), ..self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.field, self.problem)
    }
}
