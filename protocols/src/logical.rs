//! Logical clocks: they order the events of several processes without asking what time it is.
//!
//! An event *happened before* another (`→`) if both are of one process and it came first, if it sent the message
//! that the other received, or by a chain of these. Two events neither of which happened before the other are
//! *concurrent* (Lamport, *Time, Clocks, and the Ordering of Events in a Distributed System*, CACM 21(7), 1978).
//!
//! | clock | its stamp | `a → b` implies `C(a) < C(b)` | `C(a) < C(b)` implies `a → b` |
//! | --- | --- | --- | --- |
//! | [`lamport`] | a count and a process | yes | no |
//! | [`vector`] | a count for each process that was heard of | yes | yes |
//! | [`hybrid`] | a time, a count and a process | yes | no; but the time is near that of a physical clock |
//!
//! A *process* is whatever has one clock, and stamps its events one after another: here each clock that an application
//! names, in each life of a pod. Two clocks of one pod are two processes. What happened in the one before something in
//! the other is shown only by a stamp that went between them.
//!
//! A clock is a value. Its process calls `tick` at each event of its own, a sending too, and `receive` at the receipt
//! of a message, with the stamp that the message carries. Both return the stamp of that event. A clock that cannot
//! give a later stamp returns an error and stays as it was: no stamp is given twice.

pub mod hybrid;
pub mod lamport;
pub mod vector;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// How one stamp stands to another.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Order {
    /// It is less.
    Before,
    /// It is greater.
    After,
    /// It is the same.
    Equal,
    /// Neither is less: with vector clocks alone.
    Concurrent,
}

impl From<Option<Ordering>> for Order {
    fn from(ordering: Option<Ordering>) -> Self {
        match ordering {
            Some(Ordering::Less) => Self::Before,
            Some(Ordering::Greater) => Self::After,
            Some(Ordering::Equal) => Self::Equal,
            None => Self::Concurrent,
        }
    }
}

/// The name of one life of one process: 1 to 270 characters of ASCII that can be seen, without quotes and backslashes.
/// So it is as long in JSON as it is here.
///
/// A process that starts anew counts from zero again. It needs another name, or its events would have the stamps
/// of earlier ones.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ProcessId(Arc<str>);

/// Why a text names no process.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "a process has a name of 1 to {} visible ASCII characters without `\"` and `\\`",
    ProcessId::BYTES_MAX
)]
pub struct ProcessIdError;

impl ProcessId {
    /// The longest name: that of a pod, a separator and a number of 16 hexadecimal digits.
    pub const BYTES_MAX: usize = 253 + 1 + 16;

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ProcessId {
    type Error = ProcessIdError;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let fits = (1..=Self::BYTES_MAX).contains(&name.len());
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !br#""\"#.contains(&byte);
        if !fits || !name.bytes().all(is_plain) {
            return Err(ProcessIdError);
        }
        Ok(Self(name.into()))
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number of events, below 2^53: every JSON parser reads it exactly.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Count(u64);

impl Count {
    /// The largest.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// That many; nothing if it is too many.
    pub fn new(number: u64) -> Option<Self> {
        (number <= Self::MAX.0).then_some(Self(number))
    }

    /// As a number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    /// One more.
    fn next(self) -> Result<Self, Exhausted> {
        Self::new(self.0 + 1).ok_or(Exhausted)
    }
}

/// The clock is at its end: it has no later stamp to give.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the clock has no later stamp to give")]
pub struct Exhausted;

/// A process of a test.
#[cfg(test)]
fn process(name: &str) -> ProcessId {
    ProcessId::try_from(name.to_owned()).expect("a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_name_that_is_as_long_in_json() {
        assert_eq!(process("shop-0/1f").as_str(), "shop-0/1f");
        for wrong in ["", "a\nb", "a b", "ü", "a\"b", "a\\b", &"a".repeat(ProcessId::BYTES_MAX + 1)]
        {
            assert_eq!(ProcessId::try_from(wrong.to_owned()), Err(ProcessIdError), "{wrong:?}");
        }
        assert!(ProcessId::try_from("a".repeat(ProcessId::BYTES_MAX)).is_ok());
    }

    #[test]
    fn a_count_ends_below_two_to_the_fifty_three() {
        assert_eq!(Count::MAX.get(), 9_007_199_254_740_991);
        assert_eq!(Count::new(Count::MAX.get() + 1), None);
        assert_eq!(Count::MAX.next(), Err(Exhausted));
        assert_eq!(Count::default().next(), Ok(Count(1)));
    }
}
