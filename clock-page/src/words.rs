//! What a page states.

use crate::course::{Course, Piece};
use crate::layout::PAYLOAD;

/// Everything that a page states.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Words {
    /// The course of the clock before `b` begins.
    pub a: Piece,
    /// The course from its own `raw` until `c` begins; a `raw` of `u64::MAX` if there is no second piece.
    pub b: Piece,
    /// The course from its own `raw` on; a `raw` of `u64::MAX` if there is no third piece.
    pub c: Piece,
    /// The reading of the raw clock at which the error is `bound_ns`, and from which on it grows.
    pub bound_raw: u64,
    /// How far group time is from the course at most at `bound_raw`.
    pub bound_ns: u64,
    /// How fast the error grows, in units of 2^-48.
    pub growth: i64,
    /// The reading of the raw clock from which on the error grows at another rate.
    pub later_raw: u64,
    /// What is added to `growth` from then on, in units of 2^-48.
    pub later_growth: i64,
    /// After this reading of the raw clock the clock is in holdover.
    pub stale_after_raw: u64,
    /// After this reading of the raw clock nothing is known of group time.
    pub void_after_raw: u64,
    /// What the writer states of the clock.
    pub status: Stated,
    /// The epoch of the view in which clocks are compared.
    pub epoch: u64,
    /// How many members the view has.
    pub members: u32,
    /// How many of their clocks are used.
    pub used: u32,
    /// The assumption on how fast a member's raw clock drifts at most, in parts per billion.
    pub max_drift_ppb: u64,
    /// The assumption on how much the rate of a raw clock wanders, in parts per billion.
    pub wander_ppb: u64,
    /// UTC less group time.
    pub utc_offset_ns: i64,
    /// How far UTC is from group time and the offset at most; `u64::MAX` if that is not known.
    pub utc_bound_ns: u64,
    /// A hash of the identity of the kernel's clock: pages with the same one have the same raw clock.
    pub clock_domain: u64,
    /// The reading of the raw clock at which this was published. [`Writer::publish`](crate::Writer::publish) sets it.
    pub published_raw: u64,
}

/// What a writer states of a clock.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Stated {
    /// Nothing is known of group time.
    #[default]
    Unknown,
    /// Group time is within the error.
    Synchronised,
    /// What is stated may be untrue: something that it rests on was found broken.
    Disrupted,
}

impl Words {
    /// What states nothing.
    pub const UNKNOWN: Self = Self {
        a: Piece { raw: 0, ns: 0, rate: 0 },
        b: Piece { raw: u64::MAX, ns: 0, rate: 0 },
        c: Piece { raw: u64::MAX, ns: 0, rate: 0 },
        bound_raw: 0,
        bound_ns: u64::MAX,
        growth: 0,
        later_raw: 0,
        later_growth: 0,
        stale_after_raw: 0,
        void_after_raw: 0,
        status: Stated::Unknown,
        epoch: 0,
        members: 0,
        used: 0,
        max_drift_ppb: 0,
        wander_ppb: 0,
        utc_offset_ns: 0,
        utc_bound_ns: u64::MAX,
        clock_domain: 0,
        published_raw: 0,
    };

    /// The latest time that readers may have seen up to a reading of the raw clock; nothing where what was stated is void.
    pub fn latest_seen(&self, raw: u64) -> Option<i64> {
        match self.status {
            _ if raw > self.void_after_raw => None,
            Stated::Unknown => Some(self.a.ns),
            Stated::Synchronised | Stated::Disrupted => Some(self.at(raw).time_ns),
        }
    }

    pub(crate) fn course(&self) -> Course {
        Course::new(self.a, self.b, self.c)
    }

    /// In the order of the layout.
    pub(crate) fn payload(&self) -> [u64; PAYLOAD] {
        let of = |piece: Piece| [piece.raw, piece.ns.cast_unsigned(), piece.rate.cast_unsigned()];
        let ([raw_a, ns_a, rate_a], [raw_b, ns_b, rate_b]) = (of(self.a), of(self.b));
        let [raw_c, ns_c, rate_c] = of(self.c);
        [
            raw_a,
            ns_a,
            rate_a,
            raw_b,
            ns_b,
            rate_b,
            raw_c,
            ns_c,
            rate_c,
            self.bound_raw,
            self.bound_ns,
            self.growth.cast_unsigned(),
            self.later_raw,
            self.later_growth.cast_unsigned(),
            self.stale_after_raw,
            self.void_after_raw,
            self.status.word(),
            self.epoch,
            u64::from(self.members) | u64::from(self.used) << 32,
            self.max_drift_ppb,
            self.wander_ppb,
            self.utc_offset_ns.cast_unsigned(),
            self.utc_bound_ns,
            self.clock_domain,
            self.published_raw,
        ]
    }

    #[inline]
    pub(crate) fn of_payload(words: &[u64; PAYLOAD]) -> Self {
        let piece = |at: usize| Piece {
            raw: words[at],
            ns: words[at + 1].cast_signed(),
            rate: words[at + 2].cast_signed(),
        };
        Self {
            a: piece(0),
            b: piece(3),
            c: piece(6),
            bound_raw: words[9],
            bound_ns: words[10],
            growth: words[11].cast_signed(),
            later_raw: words[12],
            later_growth: words[13].cast_signed(),
            stale_after_raw: words[14],
            void_after_raw: words[15],
            status: Stated::of_word(words[16]),
            epoch: words[17],
            members: low(words[18]),
            used: low(words[18] >> 32),
            max_drift_ppb: words[19],
            wander_ppb: words[20],
            utc_offset_ns: words[21].cast_signed(),
            utc_bound_ns: words[22],
            clock_domain: words[23],
            published_raw: words[24],
        }
    }
}

impl Stated {
    fn word(self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Synchronised => 1,
            Self::Disrupted => 2,
        }
    }

    /// A word that nobody has given a meaning yet states nothing.
    #[inline]
    fn of_word(word: u64) -> Self {
        match word {
            1 => Self::Synchronised,
            2 => Self::Disrupted,
            _ => Self::Unknown,
        }
    }
}

#[inline]
fn low(word: u64) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
    let low = word as u32;
    low
}
