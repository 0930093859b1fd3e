//! Lamport's clock: one count for each process, which moves past every stamp that it receives.
//!
//! Source: Lamport, *Time, Clocks, and the Ordering of Events in a Distributed System*, CACM 21(7), 1978, rules IR1
//! and IR2, and the total ordering `⇒`.
//!
//! ```text
//! IR1.    each process Pi increments Ci between any two successive events
//! IR2(a). if event a is the sending of a message m by Pi, then m contains the stamp Tm = Ci(a)
//! IR2(b). upon receiving m, Pj sets Cj greater than or equal to its present value and greater than Tm
//! total:  a ⇒ b if Ci(a) < Cj(b), or Ci(a) = Cj(b) and Pi < Pj
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages of its own | none: a stamp goes along with each message |
//! | size of a stamp | one number and the name of its process |
//! | clock condition | `a → b` implies `C(a) < C(b)` |
//! | the converse | does not hold: `C(a) < C(b)` shows only that `b` did not happen before `a` |
//! | order | total, and agrees with `→` |
//! | tolerates | lost, late, repeated and reordered messages; a process that stops |
//! | links | nothing is asked of them |
//!
//! Deviations:
//!
//! * A receipt is an event too, so it gets a stamp of its own: `max(Cj, Tm) + 1`. That is IR2(b) and IR1 in one step.
//!   A rule that some lecture notes have, "jump only if behind", leaves the clock as it is when `Tm = Cj`; a receipt
//!   would then have the stamp of its sending.
//! * Counts are below 2^53, and the clock refuses to go on where the source's integers have no end.
//!   [`LamportTime`](crate::LamportTime), by which locks are ordered, stops there instead: a lock asks for a new one in
//!   each view.

use super::{Count, Exhausted, Order, ProcessId};

/// The clock of one process.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Clock {
    me: ProcessId,
    time: Count,
}

/// The stamp of an event. Stamps are ordered by count, then by process.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Stamp {
    /// What the clock showed.
    pub counter: Count,
    /// Whose event it was.
    pub process: ProcessId,
}

impl Clock {
    /// The clock of a process before its first event: zero.
    pub fn new(me: ProcessId) -> Self {
        Self { me, time: Count::default() }
    }

    /// IR1, and IR2(a) for the message that the event may send.
    pub fn tick(&mut self) -> Result<Stamp, Exhausted> {
        self.time = self.time.next()?;
        Ok(self.now())
    }

    /// IR2(b).
    pub fn receive(&mut self, stamp: &Stamp) -> Result<Stamp, Exhausted> {
        self.time = self.time.max(stamp.counter).next()?;
        Ok(self.now())
    }

    /// The stamp of the latest event.
    pub fn now(&self) -> Stamp {
        Stamp { counter: self.time, process: self.me.clone() }
    }
}

impl Stamp {
    /// The total order. [`Order::Before`] does not mean that it happened before.
    pub fn compare(&self, other: &Self) -> Order {
        Some(Ord::cmp(self, other)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::process;
    use super::*;

    fn clock(name: &str) -> Clock {
        Clock::new(process(name))
    }

    fn at(name: &str, counter: u64) -> Stamp {
        Stamp { counter: Count::new(counter).expect("small"), process: process(name) }
    }

    /// A clock that has come to this number.
    fn clock_at(name: &str, counter: u64) -> Clock {
        Clock { time: Count::new(counter).expect("small"), ..clock(name) }
    }

    #[test]
    fn successive_events_have_rising_stamps_from_one() {
        let mut one = clock("p1");
        assert_eq!([one.tick(), one.tick(), one.tick()], [1, 2, 3].map(|n| Ok(at("p1", n))));
    }

    /// Three clocks that gain 6, 8 and 10 in a unit of time (Tanenbaum and van Steen, *Distributed Systems*, figure
    /// on the correction of clocks): what leaves at 60 and 69 arrives at 61 and 70, though the receivers show 56 and 54.
    #[test]
    fn a_clock_that_is_behind_moves_past_the_stamp_that_it_receives() {
        assert_eq!(clock_at("p2", 56).receive(&at("p3", 60)), Ok(at("p2", 61)));
        assert_eq!(clock_at("p1", 54).receive(&at("p2", 69)), Ok(at("p1", 70)));
    }

    #[test]
    fn a_clock_that_is_ahead_keeps_its_count_and_ticks() {
        assert_eq!(clock_at("p2", 90).receive(&at("p3", 60)), Ok(at("p2", 91)));
    }

    #[test]
    fn a_receipt_at_the_very_count_of_the_sending_is_later() {
        assert_eq!(clock_at("p2", 60).receive(&at("p1", 60)), Ok(at("p2", 61)));
    }

    /// P1: a local event, the sending, a local event. P2: two local events, the receipt, a local event.
    #[test]
    fn a_smaller_stamp_does_not_show_that_an_event_happened_before() {
        let (mut one, mut two) = (clock("p1"), clock("p2"));
        let [_, sent, local] = [one.tick(), one.tick(), one.tick()].map(Result::unwrap);
        let [_, _] = [two.tick(), two.tick()].map(Result::unwrap);
        let received = two.receive(&sent).unwrap();
        let later = two.tick().unwrap();
        assert_eq!((sent.counter.get(), received.counter.get()), (2, 3));
        assert_eq!((local.counter.get(), later.counter.get()), (3, 4));
        // No chain leads from the one to the other.
        assert_eq!(local.compare(&later), Order::Before);
    }

    /// Tanenbaum and van Steen, on vector clocks: a message is received at 16, and another is sent at 20 by a process that
    /// heard of nothing.
    #[test]
    fn what_is_received_at_16_did_not_cause_what_is_sent_at_20() {
        let (mut two, mut three) = (clock_at("p2", 8), clock_at("p3", 19));
        let received = two.receive(&at("p1", 15)).unwrap();
        let sent = three.tick().unwrap();
        assert_eq!((received.counter.get(), sent.counter.get()), (16, 20));
        assert_eq!(received.compare(&sent), Order::Before, "and no message was between them");
    }

    #[test]
    fn of_equal_counts_the_smaller_process_is_first() {
        assert_eq!(at("i", 40).compare(&at("j", 40)), Order::Before);
        assert_eq!(at("j", 40).compare(&at("i", 40)), Order::After);
        assert_eq!(at("i", 40).compare(&at("i", 40)), Order::Equal);
        assert_eq!(at("j", 39).compare(&at("i", 40)), Order::Before);
    }

    #[test]
    fn a_huge_foreign_count_takes_the_clock_to_its_end_and_no_stamp_comes_twice() {
        let mut one = clock("p1");
        let last = Count::MAX.get();
        assert_eq!(one.receive(&at("p2", last - 1)), Ok(at("p1", last)));
        assert_eq!(one.tick(), Err(Exhausted));
        assert_eq!(one.receive(&at("p2", 1)), Err(Exhausted));
        assert_eq!(one.now(), at("p1", last));
        let mut other = clock("p3");
        assert_eq!(other.receive(&at("p2", last)), Err(Exhausted));
        assert_eq!(other.tick(), Ok(at("p3", 1)), "a stamp that was refused has moved nothing");
    }
}
