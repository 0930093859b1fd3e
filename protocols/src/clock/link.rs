//! The relation between the raw clocks of two members, from the stamps of the packets between them.
//!
//! Sources: Patt-Shamir and Rajsbaum, *A Theory of Clock Synchronization*, STOC 1994 (what stamps say
//! about clocks is a set of differences, and the best bound is a shortest path in it); Marzullo and
//! Owicki, *Maintaining the Time in a Distributed System*, PODC 1983 (time as an interval that holds
//! the truth); Geng et al., *Exploiting a Natural Network Effect for Scalable, Fine-grained Clock
//! Synchronization* (Huygens), NSDI 2018, section 4 (the line with the widest margin between the
//! stamps of the two directions).
//!
//! Let o(x) be the peer's raw clock less ours at the moment when ours reads x. No packet arrives
//! before it leaves, so each limits o from one side, and no delay is taken to be the same both ways:
//!
//! ```text
//! ours left at x, arrived there at y:   o(x) <= y - x + slack - m  =: u     (an upper point)
//! theirs left at y, arrived here at x:  o(x) >= y - x - slack + m  =: l     (a lower point)
//!
//! rise := min (u_i - l_j)/(x_i - x_j)  over lower points j older than upper points i
//! fall := min (u_i - l_j)/(x_j - x_i)  over upper points i older than lower points j
//! up   := min(rise + 2w, drift)        no rate of o in the window is more than this
//! down := min(fall + 2w, drift)        or less than -down
//! most(now)  := min over i of u_i + up (now - x_i)
//! least(now) := max over j of l_j - down (now - x_j)
//! broken if rise + fall + 2w < 0, or rise < -drift, or fall < -drift
//!
//! estimate: the rate g between -(fall + w) and rise + w that makes gap(g) largest, where
//! gap(g) := high(g) - low(g), high(g) := min over i of u_i + g D_i + a D_i^1.5, D := now - x,
//! low(g) := max over j of l_j + g D_j - a D_j^1.5; the offset is (high + low)/2
//! ```
//!
//! # What is assumed
//!
//! See [`Assumptions`]. For the rate of o, that is: there is a g in [-drift, drift] such that for all
//! x and y in the window `|o(x) - o(y) - g (x - y)| <= w |x - y|`, and `|o(x) - o(y)| <=
//! drift |x - y|`. As the peer's clock runs by 1 ± R of true time and ours too, drift = 2R/(1 - R).
//!
//! # Why the bound holds, and why no bound is better
//!
//! From a lower point to an upper point that is younger by d, o climbs from l or more to u or less: by
//! (u - l)/d on average at most. The average is g - w at least, so g <= rise + w, and no rate is more
//! than rise + 2w. From an upper point to a younger lower point it falls, in the same way, and
//! g >= -(fall + w). With these rates each point limits o(now).
//!
//! Conversely, take any g between these limits. From each upper point draw the fastest climb into the
//! future and the fastest fall that led there; let o be the lowest of all these lines at each moment.
//! It is as fast as allowed, at most as high as each upper point, and at least as high as each lower
//! one, for that is what the limits on g say. With g = rise + w it ends at `most`: there is a course of
//! o that fits all stamps and all assumptions and ends there, so that no smaller bound is sound.
//!
//! # Deviations
//!
//! - The window advances by a sixteenth of itself: a sample counts for between 15/16 and 16/16 of
//!   the window.
//! - Only points that some line can touch are kept, those of the hull of each sixteenth, once it is
//!   the third youngest. What a packet that comes later than that would have shown about rates together
//!   with a point that is gone is lost, and when more than 64 points of a sixteenth are left, every
//!   second of them. Less is known then, nothing wrong.
//! - The margin grows with D^1.5, as the error of a line does under a random walk of the rate; Huygens
//!   has short windows and no such term. The estimate is kept within the bound.
//! - All is counted in whole numbers and rounded outwards. A clock that shows whole nanoseconds errs
//!   by up to one each time; the slack has to cover that.

mod estimate;
mod relation;
mod side;
mod slope;

use std::time::Duration;

pub use relation::{Ahead, Relation, Shows};
pub use slope::Slope;

use self::side::{BLOCKS, Meeting, Point, Side};
use super::rates::as_nanos;

/// What is assumed of two raw clocks, and of the link between them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Assumptions {
    /// R: how far the rate of each raw clock is from the rate of true time, at most. More than 10 %
    /// is taken for that.
    pub max_drift_ppm: u32,
    /// w: how far the rate of the one clock, as the other sees it, is from some constant, at most, at
    /// any moment of a span of two windows: the window, and a relation that is extended by one more.
    pub wander_ppb: u64,
    /// m: how long a packet is on its way at least, in true time.
    pub min_delay_ns: u64,
    /// By how much the two stamps of a packet may err to the wrong side, together: the one of the
    /// departure late, the one of the arrival early.
    pub stamp_slack_ns: u64,
}

/// What the packets between this member and one peer say about the peer's raw clock.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Link {
    drift: Slope,
    wander: Slope,
    /// What is added to the difference of two stamps: slack - m.
    margin: i128,
    /// A sixteenth of the window.
    block: u64,
    /// What our packets say: o is at most this.
    ceiling: Side,
    /// What the peer's say: -o is at most this.
    floor: Side,
    newest: u64,
    is_broken: bool,
    refused: Refused,
}

/// What became of a sample.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Heard {
    /// It counts.
    Taken,
    /// It was known.
    Known,
    /// Our stamp is a window older than the newest.
    Late,
    /// A stamp is of 2^63 ns or more, 292 years.
    Absurd,
    /// It contradicts the others: some assumption is broken. They are dropped, and it alone is kept.
    Contradiction,
}

/// How many samples did not count, and how often all were dropped.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Refused {
    /// Samples that came too late.
    pub late: u64,
    /// Samples with stamps that no clock shows.
    pub absurd: u64,
    /// Contradictions.
    pub contradictions: u64,
}

/// Why there is no relation.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
pub enum Missing {
    /// The window has no sample in one of the directions.
    #[error("no recent packet in one of the directions")]
    Unknown,
    /// The same, after a contradiction.
    #[error("the stamps contradict what is assumed of the clocks")]
    Broken,
}

#[derive(Clone, Copy)]
enum Direction {
    Sent,
    Received,
}

impl Link {
    /// A link that heard nothing, and counts samples for `window`: 16 ns to a day. The error of the
    /// estimate falls with the number of samples, until the rate changes too much within the window:
    /// 30 s to 100 s for jitter of up to 100 us and four samples a second.
    pub fn new(assumptions: Assumptions, window: Duration) -> Self {
        let Assumptions { max_drift_ppm, wander_ppb, min_delay_ns, stamp_slack_ns } = assumptions;
        let rate = u64::from(max_drift_ppm.min(DRIFT_MAX_PPM)) * 1_000;
        let shortest = u128::from(min_delay_ns) * u128::from(BILLION - rate) / u128::from(BILLION);
        let window = as_nanos(window.min(WINDOW_MAX));
        Self {
            drift: Slope::at_least(2 * rate, BILLION - rate),
            wander: Slope::at_least(wander_ppb.min(BILLION), BILLION),
            margin: i128::from(stamp_slack_ns) - shortest.cast_signed(),
            block: (window / BLOCKS).max(1),
            ceiling: Side::default(),
            floor: Side::default(),
            newest: 0,
            is_broken: false,
            refused: Refused::default(),
        }
    }

    /// A packet of ours left when our raw clock read `departed`, and arrived when the peer's read
    /// `arrived`.
    pub fn sent(&mut self, departed: u64, arrived: u64) -> Heard {
        self.hear(Direction::Sent, departed, arrived, departed)
    }

    /// A packet of the peer left when its raw clock read `departed`, and arrived when ours read
    /// `arrived`. If `arrived` is a window before what was heard already, our own clock went back.
    pub fn received(&mut self, departed: u64, arrived: u64) -> Heard {
        self.hear(Direction::Received, departed, arrived, arrived)
    }

    /// The relation when our raw clock reads `now`; if that is before the newest sample, at that.
    pub fn relation(&self, now: u64) -> Result<Relation, Missing> {
        let at = now.max(self.newest);
        let first = self.first_block(at);
        let (ceiling, floor) = (self.ceiling.heard(first), self.floor.heard(first));
        if ceiling == 0 || floor == 0 {
            return Err(if self.is_broken { Missing::Broken } else { Missing::Unknown });
        }
        let (fall, rise) = (self.ceiling.limit(first), self.floor.limit(first));
        let up = rise.plus(self.wander).plus(self.wander).min(self.drift);
        let down = fall.plus(self.wander).plus(self.wander).min(self.drift);
        let best = estimate::widest(
            &self.ceiling.lines(first, at),
            &self.floor.lines(first, at),
            fall.plus(self.wander).min(self.drift).negative(),
            rise.plus(self.wander).min(self.drift),
        );
        let most = self.ceiling.bound(first, at, up);
        let least = -self.floor.bound(first, at, down);
        Ok(Relation {
            at,
            offset: Ahead::new(best.offset, least, most),
            rate: best.rate,
            least_rate: down.negative(),
            most_rate: up,
            drift: self.drift,
            extends_for_ns: self.block * BLOCKS,
            round_trip_ns: u64::try_from(best.gap - 2 * self.margin).unwrap_or(0),
            sent: ceiling,
            received: floor,
        })
    }

    /// What did not count so far.
    pub fn refused(&self) -> Refused {
        self.refused
    }

    fn hear(&mut self, direction: Direction, departed: u64, arrived: u64, at: u64) -> Heard {
        let limit = i128::from(arrived) - i128::from(departed) + self.margin;
        let (false, Ok(most)) = (departed.max(arrived) > READING_MAX, i64::try_from(limit)) else {
            return self.refuse(Heard::Absurd);
        };
        let point = Point { at, most };
        if at / self.block < self.first_block(self.newest) {
            return match direction {
                Direction::Sent => self.refuse(Heard::Late),
                Direction::Received => self.start_anew(direction, point),
            };
        }
        self.take(direction, point)
    }

    fn take(&mut self, direction: Direction, point: Point) -> Heard {
        self.newest = self.newest.max(point.at);
        let first = self.first_block(self.newest);
        let (mine, theirs) = match direction {
            Direction::Sent => (&mut self.ceiling, &mut self.floor),
            Direction::Received => (&mut self.floor, &mut self.ceiling),
        };
        mine.forget(first);
        theirs.forget(first);
        let Meeting::At(limit) = theirs.meet(point, self.drift) else {
            return self.start_anew(direction, point);
        };
        if !mine.add(point, self.block, limit, self.newest) {
            return Heard::Known;
        }
        let (fall, rise) = (self.ceiling.limit(first), self.floor.limit(first));
        let lowest = self.drift.negative();
        let room = fall.plus(rise).plus(self.wander).plus(self.wander);
        if room < Slope::default() || fall < lowest || rise < lowest {
            return self.start_anew(direction, point);
        }
        if self.ceiling.heard(first) > 0 && self.floor.heard(first) > 0 {
            self.is_broken = false;
        }
        Heard::Taken
    }

    fn start_anew(&mut self, direction: Direction, point: Point) -> Heard {
        self.ceiling = Side::default();
        self.floor = Side::default();
        let side = match direction {
            Direction::Sent => &mut self.ceiling,
            Direction::Received => &mut self.floor,
        };
        side.add(point, self.block, self.drift, point.at);
        self.newest = point.at;
        self.is_broken = true;
        self.refuse(Heard::Contradiction)
    }

    fn refuse(&mut self, why: Heard) -> Heard {
        let counter = match why {
            Heard::Late => &mut self.refused.late,
            Heard::Absurd => &mut self.refused.absurd,
            Heard::Contradiction => &mut self.refused.contradictions,
            Heard::Taken | Heard::Known => return why,
        };
        *counter = counter.saturating_add(1);
        why
    }

    /// The oldest sixteenth that counts at a moment.
    fn first_block(&self, at: u64) -> u64 {
        (at / self.block).saturating_sub(BLOCKS - 1)
    }
}

const BILLION: u64 = 1_000_000_000;
const READING_MAX: u64 = u64::MAX / 2;
const DRIFT_MAX_PPM: u32 = 100_000;
const WINDOW_MAX: Duration = Duration::from_hours(24);
