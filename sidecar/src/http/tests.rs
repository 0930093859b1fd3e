//! The API against a group that the test plays.

mod claims;
pub(crate) mod documents;
pub(crate) mod double;
mod elections;
mod enduring;
mod guarding;
mod hanging_up;
mod members;
mod serving;
mod time;
mod watching;
