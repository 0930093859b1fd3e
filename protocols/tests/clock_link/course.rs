//! A true course of the offset between two clocks, exact, and packets between them.

use conclave_protocols::clock::{Link, Slope};
use conclave_protocols::random::Random;

/// The offset as a function of our clock: straight pieces.
pub(crate) struct Course {
    /// From when on, the offset then in 2^-48 ns, and the slope in 2^-48.
    pieces: Vec<(u64, i128, i64)>,
}

/// A packet with its stamps, and when this member knows both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) is_ours: bool,
    pub(crate) departed: u64,
    pub(crate) arrived: u64,
    pub(crate) known_at: u64,
}

impl Course {
    /// From a moment and an offset on, with a slope for each stretch of time.
    pub(crate) fn new(start: u64, offset: i64, stretches: &[(u64, i64)]) -> Self {
        let (mut at, mut fine) = (start, i128::from(offset) << 48);
        let mut pieces = Vec::new();
        for &(length, slope) in stretches {
            pieces.push((at, fine, slope));
            at += length;
            fine += i128::from(slope) * i128::from(length);
        }
        Self { pieces }
    }

    /// Moves the offset from a moment on.
    pub(crate) fn jump(&mut self, from: u64, by: i64) {
        let here = self.pieces.partition_point(|piece| piece.0 <= from) - 1;
        let (_, _, slope) = self.pieces[here];
        let fine = self.fine(from);
        self.pieces.insert(here + 1, (from, fine, slope));
        for piece in &mut self.pieces[here + 1..] {
            piece.1 += i128::from(by) << 48;
        }
    }

    /// The offset in 2^-48 ns.
    pub(crate) fn fine(&self, own: u64) -> i128 {
        let here = self.pieces.partition_point(|piece| piece.0 <= own).max(1) - 1;
        let (from, fine, slope) = self.pieces[here];
        fine + i128::from(slope) * (i128::from(own) - i128::from(from))
    }

    /// What the peer's clock shows: the last whole nanosecond.
    pub(crate) fn peer(&self, own: u64) -> u64 {
        u64::try_from(i128::from(own) + (self.fine(own) >> 48)).expect("a reading")
    }

    /// A packet that leaves when our clock shows `own` and is on its way for `delay` of it.
    pub(crate) fn packet(&self, is_ours: bool, own: u64, delay: u64) -> Packet {
        let arrival = own + delay;
        let (departed, arrived) =
            if is_ours { (own, self.peer(arrival)) } else { (self.peer(own), arrival) };
        Packet { is_ours, departed, arrived, known_at: arrival }
    }
}

impl Packet {
    pub(crate) fn hand_to(self, link: &mut Link) -> conclave_protocols::clock::Heard {
        if self.is_ours {
            link.sent(self.departed, self.arrived)
        } else {
            link.received(self.departed, self.arrived)
        }
    }
}

/// Whether an offset is between two whole numbers of nanoseconds.
pub(crate) fn is_within(fine: i128, least: i64, most: i64) -> bool {
    (i128::from(least) << 48) <= fine && fine <= (i128::from(most) << 48)
}

pub(crate) fn ppb(slope: i64) -> i64 {
    i64::try_from((i128::from(slope) << 48) / 1_000_000_000).expect("a slope")
}

/// Between two numbers, both of them included.
pub(crate) fn between(random: &mut Random, least: i64, most: i64) -> i64 {
    let width = most.abs_diff(least) + 1;
    least.wrapping_add_unsigned(random.up_to(width))
}

/// A share of a slope, for comparisons.
pub(crate) fn ns_in(slope: Slope, span: u64) -> i128 {
    slope.in_ns_at_least(span)
}

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const US: u64 = 1_000;
