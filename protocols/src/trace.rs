//! The rules of the leader lease protocol as one value, and traces that are held against them.
//!
//! A trace records what members of one group did that others rely on: promises and seals given, the
//! register replaced, views entered and left, the leader lease believed in, locks held. `Rules` knows for each
//! kind of event when it may happen and what follows from it, and refuses whatever no rule of
//! `docs/views.md` allows, whether or not anybody comes to harm by it. The code of the members leaves such
//! traces in the simulators ([`Watch`]); the steps of the leader lease model are another source of them
//! (`protocols/tests/leader_model`). So what the model searches and what the members do is held against the
//! same rules (Cirstea, Kuppe, Loillier and Merz, *Validating Traces of Distributed Programs Against TLA+
//! Specifications*, 2024; Howard and others, *Smart Casual Verification of the Confidential Consortium
//! Framework*, NSDI 2025).
//!
//! **Clocks.** A trace has one axis of time. In the simulator that is true time: an event happens at the
//! true time of the step that it was observed in, and a deadline, which a member states by its own clock, lies
//! where that clock will read it. How fast each clock runs is known, so a hold is exactly as long as its
//! holder counts it. What somebody else waits is only known to be no shorter than by the fastest clock that
//! the rules allow for (`Clocks::least`).

#[cfg(any(test, feature = "testing"))]
mod axis;
#[cfg(any(test, feature = "testing"))]
mod breach;
#[cfg(any(test, feature = "testing"))]
mod clocks;
mod content;
mod event;
#[cfg(any(test, feature = "testing"))]
mod leader_lease;
mod line;
#[cfg(any(test, feature = "testing"))]
mod locks;
#[cfg(any(test, feature = "testing"))]
mod memory;
#[cfg(any(test, feature = "testing"))]
mod merge;
#[cfg(any(test, feature = "testing"))]
mod process;
mod recorder;
#[cfg(any(test, feature = "testing"))]
mod rules;
#[cfg(test)]
mod tests;
mod watch;

#[cfg(any(test, feature = "testing"))]
pub use self::breach::Breach;
#[cfg(any(test, feature = "testing"))]
pub use self::clocks::Clocks;
pub use self::content::Content;
pub use self::event::{Event, TraceEntry};
pub use self::line::{Line, What};
#[cfg(any(test, feature = "testing"))]
pub use self::memory::{answer, replaced};
#[cfg(any(test, feature = "testing"))]
pub use self::merge::{Merged, Refusal, Step, merge};
pub use self::recorder::Recorder;
#[cfg(any(test, feature = "testing"))]
pub use self::rules::Rules;
pub use self::watch::{Grants, Log, Watch, Watched};
