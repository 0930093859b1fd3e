//! A clock as a function of the raw clock.

/// A stretch of a course: a line through a point.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Piece {
    /// The reading of the raw clock at the point.
    pub raw: u64,
    /// The time at the point, in nanoseconds since 1970.
    pub ns: i64,
    /// How much faster than the raw clock the time runs, in units of 2^-48.
    pub rate: i64,
}

/// Three pieces, and where the second and the third begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Course([Piece; 3]);

impl Piece {
    /// The time at a reading of the raw clock, which may be before the point.
    #[inline]
    pub fn at(self, raw: u64) -> i64 {
        self.near(raw).unwrap_or_else(|| far(self.ns, (raw, self.raw), self.rate))
    }

    /// The same where 64 bits suffice, which takes a third of the time.
    #[inline]
    fn near(self, raw: u64) -> Option<i64> {
        let passed = raw.checked_signed_diff(self.raw)?;
        let gained = (i128::from(passed) * i128::from(self.rate)) >> BITS;
        let gained = i64::try_from(gained).ok()?;
        self.ns.checked_add(passed)?.checked_add(gained)
    }

    /// Whether the time of this piece never falls while the raw clock rises.
    fn is_forward(self) -> bool {
        self.rate >= -(1 << BITS)
    }
}

impl Course {
    pub(crate) fn new(a: Piece, b: Piece, c: Piece) -> Self {
        Self([a, b, c])
    }

    #[inline]
    pub(crate) fn piece(self, raw: u64) -> Piece {
        let [a, b, c] = self.0;
        if raw < b.raw {
            a
        } else if raw < c.raw {
            b
        } else {
            c
        }
    }

    /// Whether both give the same at each reading from the first to before the second. Lines that are the same through
    /// other points are not: they are rounded in other places.
    pub(crate) fn agrees(self, other: Self, from: u64, until: u64) -> bool {
        let ends = self.ends().into_iter().chain(other.ends());
        let mut begins = ends.filter(|end| (from..until).contains(end)).chain([from]);
        begins.all(|raw| self.piece(raw) == other.piece(raw))
    }

    /// Whether time never falls from a reading of the raw clock on.
    pub(crate) fn is_forward_from(self, raw: u64) -> bool {
        let is_met = |end: &u64| *end > raw && *end != u64::MAX;
        let rises = |end: u64| {
            let (before, after) = (self.piece(end - 1), self.piece(end));
            after.is_forward() && before.at(end - 1) <= after.at(end)
        };
        self.piece(raw).is_forward() && self.ends().into_iter().filter(is_met).all(rises)
    }

    fn ends(self) -> [u64; 2] {
        let [_, b, c] = self.0;
        [b.raw, c.raw]
    }
}

/// An error's growth in a time, rounded up; it may be negative.
pub(crate) fn growth(passed: u64, rate: i64) -> i128 {
    -((-(i128::from(passed) * i128::from(rate))) >> BITS)
}

/// The same where 64 bits suffice.
#[inline]
pub(crate) fn near_growth(passed: u64, rate: i64) -> Option<i64> {
    // One multiplication without signs, where one with signs would be three.
    let size = u128::from(passed) * u128::from(rate.unsigned_abs());
    let whole = |size: u128| i64::try_from(size >> BITS).ok();
    if rate < 0 { whole(size).map(|shrunk| -shrunk) } else { whole(size + ROUNDED_UP) }
}

/// What is far from the point, with copies of what it takes, so that the usual way keeps all in registers.
#[cold]
#[inline(never)]
fn far(ns: i64, (raw, from): (u64, u64), rate: i64) -> i64 {
    let passed = i128::from(raw) - i128::from(from);
    // At most (2^64 - 1) * 2^63, which is less than 2^127.
    let gained = (passed * i128::from(rate)) >> BITS;
    saturate(i128::from(ns) + passed + gained)
}

#[inline]
fn saturate(ns: i128) -> i64 {
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

/// A rate is in units of 2^-48.
const BITS: u32 = 48;

/// What makes a shift by so many bits round up.
const ROUNDED_UP: u128 = (1 << BITS) - 1;
