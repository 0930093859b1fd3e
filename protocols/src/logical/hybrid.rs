//! Hybrid logical clocks: a Lamport clock whose stamps are near the time of a physical clock.
//!
//! Source: Kulkarni, Demirbas, Madappa, Avva and Leone, *Logical Physical Clocks*, OPODIS 2014; the longer version,
//! *Logical Physical Clocks and Consistent Snapshots in Globally Distributed Databases*, University at Buffalo TR
//! 2014-04: figure 5, and section 6.2 for the form in 64 bits.
//!
//! ```text
//! initially                l.j := 0; c.j := 0
//!
//! send or local event      l'.j := l.j
//!                          l.j := max(l'.j, pt.j)
//!                          if l.j = l'.j then c.j := c.j + 1
//!                          else c.j := 0
//!                          stamp with l.j, c.j
//!
//! receive message m        l'.j := l.j
//!                          l.j := max(l'.j, l.m, pt.j)
//!                          if l.j = l'.j = l.m then c.j := max(c.j, c.m) + 1
//!                          elseif l.j = l'.j then c.j := c.j + 1
//!                          elseif l.j = l.m then c.j := c.m + 1
//!                          else c.j := 0
//!                          stamp with l.j, c.j
//! ```
//!
//! `pt.j` is the physical clock of process j, and any two of these differ by at most ε.
//!
//! | property | value |
//! | --- | --- |
//! | messages of its own | none: a stamp goes along with each message |
//! | size of a stamp | 64 bits and the name of its process |
//! | clock condition | `a → b` implies `(l, c)(a) < (l, c)(b)` |
//! | the converse | does not hold |
//! | order | total, by (l, c, process), and agrees with `→` |
//! | nearness | `pt ≤ l ≤ pt + ε`: `l` is the latest physical clock that the event knows of |
//! | size of c | at most as many events happened before it with the same l |
//! | tolerates | lost, late, repeated and reordered messages; a process that stops; a physical clock that stands still |
//! | links | nothing is asked of them |
//!
//! The form in 64 bits: the upper 48 are seconds with 16 binary places (a unit of 2^-16 s, 15.3 µs), the lower 16 are c.
//! As one unsigned number it is ordered as (l, c) is. A physical time is rounded up to a whole unit, so `pt ≤ l` is true of
//! the time itself.
//!
//! Deviations:
//!
//! * Seconds are counted from 1970, as everywhere on these machines, and not from 1900 as NTP does. They last until 2106.
//! * A c that does not fit into 16 bits carries into l. The number is one larger then, as after any other event, and the
//!   order is kept; l runs one unit ahead of every physical clock for each 65,536 events in which none of them moves.
//! * A stamp whose l is later than any clock within its bound can show is refused ([`Ahead`]): it would take every clock
//!   that hears of it away from the time for good. The source suggests to ignore such a message.

use super::{Exhausted, Order, ProcessId};

/// The clock of one process.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Clock {
    me: ProcessId,
    time: HybridTime,
}

/// The stamp of an event. Stamps are ordered by l, then by c, then by process.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Stamp {
    /// What the clock showed.
    pub time: HybridTime,
    /// Whose event it was.
    pub process: ProcessId,
}

/// (l, c) in the form of 64 bits.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HybridTime(pub u64);

/// A reading of a physical clock, in units of 2^-16 s since 1970; below 2^48.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PhysicalTime(u64);

/// A stamp is later than any clock can show.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the stamp is {:.3} s later than any clock of the group can show", seconds(*.units))]
pub struct Ahead {
    /// By how much, in units of 2^-16 s.
    pub units: u64,
}

/// Why a stamp was not received.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ReceiveError {
    /// The clock cannot go on.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// The stamp is too late to be true.
    #[error(transparent)]
    Ahead(#[from] Ahead),
}

impl Clock {
    /// The clock of a process before its first event.
    pub fn new(me: ProcessId) -> Self {
        Self { me, time: HybridTime::default() }
    }

    /// A send or a local event, at which the physical clock reads `pt`.
    pub fn tick(&mut self, pt: PhysicalTime) -> Result<Stamp, Exhausted> {
        let (before, c) = (self.time.l(), self.time.c());
        let l = before.max(pt);
        let c = if l == before { c + 1 } else { 0 };
        self.time = HybridTime::of(l, c)?;
        Ok(self.now())
    }

    /// The receipt of a message, at which the physical clock reads `pt` and no clock is later than `latest`.
    pub fn receive(
        &mut self,
        pt: PhysicalTime,
        latest: PhysicalTime,
        stamp: &Stamp,
    ) -> Result<Stamp, ReceiveError> {
        let (before, c) = (self.time.l(), self.time.c());
        let (sent, c_sent) = (stamp.time.l(), stamp.time.c());
        if sent > latest {
            return Err(Ahead { units: sent.0 - latest.0 }.into());
        }
        let l = before.max(sent).max(pt);
        let c = match (l == before, l == sent) {
            (true, true) => c.max(c_sent) + 1,
            (true, false) => c + 1,
            (false, true) => c_sent + 1,
            (false, false) => 0,
        };
        self.time = HybridTime::of(l, c)?;
        Ok(self.now())
    }

    /// The stamp of the latest event.
    pub fn now(&self) -> Stamp {
        Stamp { time: self.time, process: self.me.clone() }
    }
}

impl Stamp {
    /// The total order. [`Order::Before`] does not mean that it happened before.
    pub fn compare(&self, other: &Self) -> Order {
        Some(Ord::cmp(self, other)).into()
    }
}

impl HybridTime {
    /// `l`: the latest physical clock that the event knows of.
    #[must_use]
    pub fn l(self) -> PhysicalTime {
        PhysicalTime(self.0 >> C_BITS)
    }

    /// `c`: the count of events at the same l.
    #[must_use]
    pub fn c(self) -> u64 {
        self.0 & C_MAX
    }

    /// A c that is one too large carries.
    fn of(l: PhysicalTime, c: u64) -> Result<Self, Exhausted> {
        (l.0 << C_BITS).checked_add(c).map(Self).ok_or(Exhausted)
    }
}

impl PhysicalTime {
    /// The latest that there is: in the year 2106.
    pub const MAX: Self = Self((1 << 48) - 1);

    /// Nanoseconds since 1970, rounded up to a whole unit.
    #[must_use]
    pub fn of_nanos(ns: i64) -> Self {
        let ns = u128::from(ns.max(0).unsigned_abs());
        let units = (ns << 16).div_ceil(1_000_000_000);
        u64::try_from(units).map_or(Self::MAX, |units| Self(units).min(Self::MAX))
    }

    /// In units of 2^-16 s.
    #[must_use]
    pub fn units(self) -> u64 {
        self.0
    }
}

/// Units of 2^-16 s as seconds, for people.
#[expect(clippy::cast_precision_loss, reason = "a text with three places")]
fn seconds(units: u64) -> f64 {
    units as f64 / 65_536.0
}

const C_BITS: u32 = 16;

const C_MAX: u64 = (1 << C_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::super::process;
    use super::*;

    fn stamp(name: &str, l: u64, c: u64) -> Stamp {
        Stamp { time: HybridTime::of(PhysicalTime(l), c).expect("small"), process: process(name) }
    }

    fn clock(name: &str, l: u64, c: u64) -> Clock {
        Clock { me: process(name), time: stamp(name, l, c).time }
    }

    fn tick(clock: &mut Clock, pt: u64) -> (u64, u64) {
        let time = clock.tick(PhysicalTime(pt)).expect("there is room").time;
        (time.l().units(), time.c())
    }

    fn receive(clock: &mut Clock, pt: u64, stamp: &Stamp) -> (u64, u64) {
        let time = clock.receive(PhysicalTime(pt), PhysicalTime::MAX, stamp).expect("true").time;
        (time.l().units(), time.c())
    }

    /// Figure 6: process 0 is ten ahead, and what it sends goes by way of 1 to 2.
    #[test]
    fn the_time_of_the_clock_that_is_ahead_goes_along_and_is_counted_on() {
        assert_eq!(tick(&mut clock("0", 0, 0), 10), (10, 0));
        let mut one = clock("1", 0, 0);
        assert_eq!(receive(&mut one, 1, &stamp("0", 10, 0)), (10, 1));
        assert_eq!(tick(&mut one, 2), (10, 2));
        let mut two = clock("2", 1, 0);
        assert_eq!(receive(&mut two, 2, &one.now()), (10, 3));
        assert_eq!(tick(&mut two, 3), (10, 4));
    }

    #[test]
    fn a_physical_clock_that_has_moved_on_begins_the_count_anew() {
        let mut one = clock("1", 10, 7);
        assert_eq!(tick(&mut one, 11), (11, 0));
        assert_eq!(receive(&mut one, 12, &stamp("0", 11, 9)), (12, 0));
    }

    #[test]
    fn each_branch_of_a_receipt_is_as_in_figure_5() {
        for (own, pt, sent, then) in [
            ((10, 3), 9, (10, 5), (10, 6)),
            ((10, 5), 9, (10, 3), (10, 6)),
            ((10, 3), 9, (9, 8), (10, 4)),
            ((10, 3), 9, (11, 8), (11, 9)),
            ((10, 3), 12, (11, 8), (12, 0)),
            ((10, 3), 10, (10, 3), (10, 4)),
            ((10, 3), 11, (11, 8), (11, 9)),
        ] {
            let mut one = clock("1", own.0, own.1);
            assert_eq!(
                receive(&mut one, pt, &stamp("0", sent.0, sent.1)),
                then,
                "{own:?} {sent:?}"
            );
        }
    }

    #[test]
    fn a_physical_clock_that_goes_back_takes_no_stamp_back() {
        let mut one = clock("1", 10, 0);
        assert_eq!(tick(&mut one, 3), (10, 1));
        assert_eq!(tick(&mut one, 0), (10, 2));
    }

    #[test]
    fn a_count_that_is_full_carries_and_the_order_is_kept() {
        let mut one = clock("1", 10, C_MAX);
        let before = one.now();
        assert_eq!(tick(&mut one, 10), (11, 0));
        assert_eq!(before.compare(&one.now()), Order::Before);
        let mut two = clock("2", 9, 0);
        assert_eq!(receive(&mut two, 9, &stamp("1", 10, C_MAX)), (11, 0));
    }

    #[test]
    fn a_stamp_that_no_clock_can_show_is_refused_and_moves_nothing() {
        let mut one = clock("1", 10, 0);
        let receive =
            |one: &mut Clock, l| one.receive(PhysicalTime(10), PhysicalTime(20), &stamp("0", l, 0));
        let error = receive(&mut one, 20 + 65_536 * 3 / 2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the stamp is 1.500 s later than any clock of the group can show"
        );
        assert_eq!(receive(&mut one, 21), Err(Ahead { units: 1 }.into()));
        assert_eq!(one.now(), stamp("1", 10, 0));
        assert_eq!(receive(&mut one, 20), Ok(stamp("1", 20, 1)));
    }

    #[test]
    fn stamps_are_ordered_by_time_then_by_count_then_by_process() {
        let ordered = [stamp("b", 1, 9), stamp("a", 2, 0), stamp("b", 2, 0), stamp("a", 2, 1)];
        assert!(ordered.windows(2).all(|pair| pair[0].compare(&pair[1]) == Order::Before));
        assert_eq!(ordered[0].compare(&ordered[0]), Order::Equal);
        assert!(ordered.windows(2).all(|pair| pair[0].time <= pair[1].time), "as one number too");
    }

    #[test]
    fn a_time_is_rounded_up_to_a_unit_and_ends_where_its_bits_do() {
        for (ns, units) in [
            (i64::MIN, 0),
            (-1, 0),
            (0, 0),
            (1, 1),
            (15_258, 1),
            (15_259, 2),
            (1_000_000_000, 65_536),
            (1_000_000_001, 65_537),
            (i64::MAX, PhysicalTime::MAX.0),
        ] {
            assert_eq!(PhysicalTime::of_nanos(ns).units(), units, "{ns}");
        }
    }

    #[test]
    fn a_clock_at_its_end_gives_no_stamp_twice() {
        let mut one = clock("1", PhysicalTime::MAX.0, C_MAX);
        assert_eq!(one.tick(PhysicalTime::MAX), Err(Exhausted));
        let last = Stamp { time: HybridTime(u64::MAX), process: process("0") };
        let mut two = clock("2", 0, 0);
        let error = two.receive(PhysicalTime(0), PhysicalTime::MAX, &last);
        assert_eq!(error, Err(Exhausted.into()));
        assert_eq!(tick(&mut two, 0), (0, 1));
    }
}
