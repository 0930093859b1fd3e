//! A page of shared memory by which processes read group time without asking anybody.
//!
//! The sidecar publishes [`Words`] on a page: a file in a memory-backed volume of the pod. A process in another container
//! maps the file, reads the raw clock of the kernel, and evaluates the words at that reading. `README.md` has the
//! layout and the formulas; readers in C, Python and Go are beside this crate.
//!
//! The page is a sequence lock. Source: H.-J. Boehm, "Can seqlocks get along with programming language memory
//! models?", MSPC 2012, section 4: the words are atomics, and fences order them with the sequence.
//!
//! **Time does not go back.** The writer plans a course that agrees with the published one up to a reading of the raw
//! clock that is at least [`Writer::PLAN_NS`] ahead. The sequence is odd from before [`Writer::publish`] checks that
//! reading until the new words are whole. So each reading by the old words is from a time at which old and new words
//! give the same, in whichever process it was made. A reading with the status [`Status::Unknown`] has no such promise.
//!
//! **A writer that ends needs no notice.** The words name the readings of the raw clock after which they are stale and
//! after which they are void, and each reader compares its own reading with them.

mod course;
mod layout;
mod map;
mod reader;
mod reading;
mod words;
mod writer;

#[cfg(test)]
mod tests;

/// The example in the document compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Document;

pub use course::Piece;
pub use layout::{FIELDS, INJECTED_FAULT, LAYOUT, MAGIC, SIZE};
pub use reader::{OpenError, Reader};
pub use reading::{Reading, Status};
pub use words::{Stated, Words};
pub use writer::{Refused, Writer};

use rustix::time::{ClockId, clock_gettime};

/// The clock by which the page is read: `CLOCK_MONOTONIC_RAW`, which nothing slews, in nanoseconds.
#[inline]
pub fn raw_clock() -> u64 {
    let now = clock_gettime(ClockId::MonotonicRaw);
    // Neither is negative: the clock begins with the machine.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
