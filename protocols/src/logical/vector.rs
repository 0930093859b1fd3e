//! Vector clocks: a count for each process, so that the stamps order events exactly as they happened.
//!
//! Source: Fidge, *Timestamps in Message-Passing Systems That Preserve the Partial Ordering*, Australian Computer
//! Science Communications 10(1), 1988; Mattern, *Virtual Time and Global States of Distributed Systems*, Parallel and
//! Distributed Algorithms, 1989. The rules as in Coulouris and others, *Distributed Systems*, 5th edition, section 14.4.
//!
//! ```text
//! VC1. initially, Vi[j] = 0 for all j
//! VC2. just before Pi stamps an event, it sets Vi[i] := Vi[i] + 1
//! VC3. Pi includes t = Vi in every message that it sends
//! VC4. when Pi receives t in a message, it sets Vi[j] := max(Vi[j], t[j]) for all j
//!
//! V = V'  iff V[j] = V'[j] for all j
//! V ≤ V'  iff V[j] ≤ V'[j] for all j
//! V < V'  iff V ≤ V' and V ≠ V'
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages of its own | none: a stamp goes along with each message |
//! | size of a stamp | a number and a name for each process that was heard of: 256, and 24,576 bytes, at most |
//! | clock condition | `a → b` implies `V(a) < V(b)` |
//! | the converse | holds: `V(a) < V(b)` implies `a → b` |
//! | order | partial: `→` itself. `V(a)` and `V(b)` not ordered: `a` and `b` are concurrent |
//! | tolerates | lost, late, repeated and reordered messages; a process that stops |
//! | links | nothing is asked of them |
//!
//! Deviations:
//!
//! * A receipt is an event (VC4, then VC2).
//! * The processes are not known beforehand: a vector has the entries that are not zero, by name. A process that starts
//!   anew has another name and an entry of its own, and the entry of its earlier life stays.
//! * So a vector grows with every process that was ever heard of. One that would have more than
//!   [`Stamp::ENTRIES_MAX`] entries or [`Stamp::BYTES_MAX`] bytes is refused. The clock stays as it was and ticks
//!   on, and no longer receives stamps of processes that are new to it.
//! * Nobody knows of an event of this process that it has not stamped: `Vj[i] ≤ Vi[i]`. A stamp that says otherwise is
//!   of another clock, or made up, and is refused.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::{Count, Exhausted, Order, ProcessId};

/// The clock of one process.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Clock {
    me: ProcessId,
    known: Stamp,
}

/// The stamp of an event: of how many events of each process it knows. A process that is not in it has none.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Stamp(BTreeMap<ProcessId, Count>);

/// A vector has more entries than [`Stamp::ENTRIES_MAX`], or more bytes than [`Stamp::BYTES_MAX`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "a vector stamp has at most {} processes, and {} bytes: {} and its name for each",
    Stamp::ENTRIES_MAX,
    Stamp::BYTES_MAX,
    Stamp::ENTRY_BYTES
)]
pub struct TooLarge;

/// Why a stamp was not received.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ReceiveError {
    /// The clock cannot count on.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// It would have to know of too many processes.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The stamp has more events of this process than there were.
    #[error("{process} has had {counted} events, and the stamp knows of {stated}")]
    Untrue {
        /// This process.
        process: ProcessId,
        /// How many it has had.
        counted: u64,
        /// How many the stamp says.
        stated: u64,
    },
}

impl Clock {
    /// The clock of a process before its first event (VC1).
    pub fn new(me: ProcessId) -> Self {
        Self { me, known: Stamp::default() }
    }

    /// VC2, and VC3 for the message that the event may send.
    pub fn tick(&mut self) -> Result<Stamp, Exhausted> {
        let next = self.known.of(&self.me).next()?;
        // There is always room for the first entry: a stamp without it has been refused.
        self.known.0.insert(self.me.clone(), next);
        Ok(self.now())
    }

    /// VC4, then VC2.
    pub fn receive(&mut self, stamp: &Stamp) -> Result<Stamp, ReceiveError> {
        let (counted, stated) = (self.known.of(&self.me), stamp.of(&self.me));
        if stated > counted {
            let process = self.me.clone();
            let (counted, stated) = (counted.get(), stated.get());
            return Err(ReceiveError::Untrue { process, counted, stated });
        }
        let own = counted.next()?;
        let mut merged = self.known.joined(stamp);
        merged.0.insert(self.me.clone(), own);
        self.known = merged.within_limits()?;
        Ok(self.now())
    }

    /// The stamp of the latest event.
    pub fn now(&self) -> Stamp {
        self.known.clone()
    }
}

impl Stamp {
    /// How many processes a vector can have.
    pub const ENTRIES_MAX: usize = 256;

    /// How many bytes the entries of a vector can have as JSON, without spaces: two of them fit 64 KiB.
    pub const BYTES_MAX: usize = 24 * 1024;

    /// What an entry has besides its name: two quotes, a colon, a comma, and a count of 16 digits at most.
    pub const ENTRY_BYTES: usize = 20;

    /// A stamp with these entries.
    pub fn new(entries: impl IntoIterator<Item = (ProcessId, Count)>) -> Result<Self, TooLarge> {
        let entries = entries.into_iter().filter(|(_, count)| *count > Count::default());
        Self(entries.collect()).within_limits()
    }

    /// How many events of a process it knows of.
    pub fn of(&self, process: &ProcessId) -> Count {
        self.0.get(process).copied().unwrap_or_default()
    }

    /// The entries that are not zero, in the order of the names.
    pub fn entries(&self) -> impl Iterator<Item = (&ProcessId, Count)> {
        self.0.iter().map(|(process, count)| (process, *count))
    }

    /// Whether this happened before the other, after it, or neither.
    pub fn compare(&self, other: &Self) -> Order {
        self.partial_cmp(other).into()
    }

    /// Itself, if it is not too large. Whatever the counts are, so a clock that only counts on never becomes so.
    fn within_limits(self) -> Result<Self, TooLarge> {
        let bytes: usize = self.0.keys().map(|name| name.as_str().len() + Self::ENTRY_BYTES).sum();
        if self.0.len() > Self::ENTRIES_MAX || bytes > Self::BYTES_MAX {
            return Err(TooLarge);
        }
        Ok(self)
    }

    /// The larger count of each process.
    fn joined(&self, other: &Self) -> Self {
        let mut joined = self.clone();
        for (process, count) in other.entries() {
            let own = joined.0.entry(process.clone()).or_default();
            *own = count.max(*own);
        }
        joined
    }

    /// Each count is at most the other's.
    fn is_within(&self, other: &Self) -> bool {
        self.entries().all(|(process, count)| count <= other.of(process))
    }
}

impl PartialOrd for Stamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self.is_within(other), other.is_within(self)) {
            (true, true) => Some(Ordering::Equal),
            (true, false) => Some(Ordering::Less),
            (false, true) => Some(Ordering::Greater),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::process;
    use super::*;

    fn clock(name: &str) -> Clock {
        Clock::new(process(name))
    }

    /// The counts of P1, P2 and P3.
    fn stamp(counts: [u64; 3]) -> Stamp {
        let named = ["p1", "p2", "p3"].into_iter().zip(counts);
        let entries = named.map(|(name, n)| (process(name), Count::new(n).expect("small")));
        Stamp::new(entries).expect("three")
    }

    /// The run by which lectures show why delivery in causal order needs vectors: m1 from P2 to P1, m2 from P1 to P3,
    /// m3 from P1 to P2, m4 from P2 to P3.
    #[test]
    fn a_stamp_counts_the_events_that_its_own_depends_on() {
        let [mut one, mut two] = ["p1", "p2"].map(clock);
        let m1 = two.tick().unwrap();
        assert_eq!(m1, stamp([0, 1, 0]));
        assert_eq!(one.receive(&m1), Ok(stamp([1, 1, 0])));
        let m2 = one.tick().unwrap();
        assert_eq!(m2, stamp([2, 1, 0]));
        assert_eq!(one.tick(), Ok(stamp([3, 1, 0])));
        let m3 = one.tick().unwrap();
        assert_eq!(m3, stamp([4, 1, 0]));
        assert_eq!(two.receive(&m3), Ok(stamp([4, 2, 0])));
        let m4 = two.tick().unwrap();
        assert_eq!(m4, stamp([4, 3, 0]));
        let mut in_order = clock("p3");
        assert_eq!(in_order.receive(&m2), Ok(stamp([2, 1, 1])));
        assert_eq!(in_order.receive(&m4), Ok(stamp([4, 3, 2])));
        let mut overtaken = clock("p3");
        assert_eq!(overtaken.receive(&m4), Ok(stamp([4, 3, 1])));
        assert_eq!(overtaken.receive(&m2), Ok(stamp([4, 3, 2])));
    }

    #[test]
    fn stamps_are_ordered_where_every_count_agrees_and_concurrent_elsewhere() {
        assert_eq!(stamp([2, 1, 0]).compare(&stamp([4, 3, 0])), Order::Before);
        assert_eq!(stamp([4, 3, 0]).compare(&stamp([2, 1, 0])), Order::After);
        assert_eq!(stamp([4, 1, 0]).compare(&stamp([2, 3, 0])), Order::Concurrent);
        assert_eq!(stamp([4, 1, 0]).compare(&stamp([4, 1, 0])), Order::Equal);
        assert_eq!(stamp([0, 0, 0]).compare(&stamp([0, 0, 1])), Order::Before);
        assert_eq!(stamp([1, 0, 0]).compare(&stamp([0, 0, 1])), Order::Concurrent);
    }

    #[test]
    fn a_count_of_zero_is_no_entry() {
        assert_eq!(stamp([0, 1, 0]).entries().count(), 1);
        assert_eq!(stamp([0, 0, 0]), Stamp::default());
    }

    #[test]
    fn a_process_that_starts_anew_is_another_and_its_earlier_life_stays_known() {
        let mut old = clock("p1/1");
        let last = old.tick().unwrap();
        let mut new = clock("p1/2");
        let first = new.tick().unwrap();
        assert_eq!(first.compare(&last), Order::Concurrent);
        let next = new.receive(&last).unwrap();
        assert_eq!(last.compare(&next), Order::Before);
        assert_eq!(next.of(&process("p1/1")), Count::new(1).expect("small"));
    }

    #[test]
    fn a_stamp_that_knows_events_that_were_not_is_refused() {
        let mut one = clock("p1");
        let error = one.receive(&stamp([1, 0, 0])).unwrap_err();
        assert_eq!(error.to_string(), "p1 has had 0 events, and the stamp knows of 1");
        assert_eq!(one.tick(), Ok(stamp([1, 0, 0])));
        assert_eq!(one.receive(&stamp([1, 0, 0])), Ok(stamp([2, 0, 0])), "its own may come back");
    }

    #[test]
    fn a_clock_takes_as_many_processes_as_it_has_room_for_and_goes_on() {
        let of = |numbers: std::ops::Range<usize>| {
            Stamp::new(numbers.map(|n| (process(&format!("q{n}")), Count::MAX)))
        };
        assert_eq!(of(0..Stamp::ENTRIES_MAX + 1), Err(TooLarge));
        let full = of(0..Stamp::ENTRIES_MAX).expect("as many as there may be");
        let mut one = clock("p1");
        assert_eq!(one.receive(&full), Err(TooLarge.into()), "there is no room for its own entry");
        assert_eq!(one.tick(), Ok(stamp([1, 0, 0])));
        let nearly = of(1..Stamp::ENTRIES_MAX).expect("one less");
        assert_eq!(one.receive(&nearly).map(|now| now.0.len()), Ok(Stamp::ENTRIES_MAX));
        assert_eq!(one.receive(&of(0..1).expect("one")), Err(TooLarge.into()));
        assert_eq!(one.tick().map(|now| now.of(&process("p1")).get()), Ok(3));
    }

    #[test]
    fn a_clock_takes_as_many_bytes_as_fit_and_goes_on() {
        // Each entry has 288 bytes, and 85 of them have 24,480.
        let of = |numbers: std::ops::Range<usize>| {
            Stamp::new(numbers.map(|n| (process(&format!("{n:0>268}")), Count::MAX)))
        };
        assert_eq!(of(0..86), Err(TooLarge));
        let most = of(0..85).expect("they fit");
        let json: usize =
            most.entries().map(|(name, n)| format!(r#""{name}":{},"#, n.get()).len()).sum();
        assert_eq!(json, 24_480);
        let name = "p".repeat(75);
        let mut one = clock(&name);
        let is_just_right = one.receive(&most).expect("96 bytes are left, and it needs 95");
        assert_eq!(is_just_right.entries().count(), 86);
        let mut longer = clock(&"p".repeat(77));
        assert_eq!(longer.receive(&most), Err(TooLarge.into()), "it would need 97");
        let other = Stamp::new([(process("q"), Count::MAX)]).expect("one");
        assert_eq!(one.receive(&other), Err(TooLarge.into()));
        assert_eq!(one.now(), is_just_right);
        assert_eq!(one.tick().map(|now| now.of(&process(&name)).get()), Ok(2));
        assert!(one.receive(&most).is_ok(), "what it knows of already has its place");
    }

    #[test]
    fn a_clock_at_its_end_gives_no_stamp_twice() {
        let mut one = clock("p1");
        one.known.0.insert(process("p1"), Count::MAX);
        assert_eq!(one.tick(), Err(Exhausted));
        assert_eq!(one.receive(&Stamp::default()), Err(Exhausted.into()));
    }
}
