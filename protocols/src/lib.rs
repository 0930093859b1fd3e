//! The algorithms of Conclave, as pure state machines.
//!
//! Nothing in this crate does I/O, reads a clock, draws a random number or waits. Every algorithm
//! is a value that implements [`Protocol`]: it is handed one input at a time and states what it wants
//! done. The same value runs in the sidecar, in the seeded simulator and in the model checker.
//!
//! How to read an algorithm file: the header gives the source, the pseudocode and a table of
//! promises; the `impl Protocol` at the end is the pseudocode again, one line for each rule.

mod by_variant;
pub mod clock;
pub mod core;
pub mod cost;
pub mod detection;
pub mod election;
pub mod elections;
#[cfg(any(test, feature = "testing"))]
pub mod history;
pub mod ids;
pub mod locks;
pub mod logical;
pub mod member;
pub mod mutex;
mod one_of;
pub mod policy;
pub mod protocol;
pub mod random;
pub mod record;
pub mod register;
pub mod services;
#[cfg(any(test, feature = "testing"))]
pub mod sim;
pub mod time;
pub mod trace;
pub mod version;
pub mod view;
pub mod zone;

pub use ids::{
    Epoch, FencingToken, HoldName, Incarnation, LamportTime, LockName, MemberId, PodUid,
};
pub use protocol::{Effect, Input, Named, Outbox, Protocol, Value};
pub use time::LocalTime;
pub use view::View;
