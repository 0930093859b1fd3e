//! A time as a function of a raw clock, and what is known of it.

use serde::{Deserialize, Serialize};

use super::exchange::saturate;
use super::link::{Relation, Slope};
use super::rates::BILLION;
use crate::ids::Epoch;

/// A straight stretch.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Line {
    /// A raw reading.
    pub raw: u64,
    /// The time then.
    pub ns: i64,
    /// By how much it runs faster than the raw clock.
    pub rate: Slope,
}

/// A time that runs evenly but for two moments.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Course {
    /// Until `then` begins.
    pub first: Line,
    /// From its own reading on.
    pub then: Line,
    /// From its own reading on.
    pub last: Line,
}

/// How far something may be from the truth: an error that grows, by another rate from one moment on, and by a third from a
/// later one on.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Bound {
    /// A raw reading.
    pub raw: u64,
    /// How wrong it may be until then.
    pub error_ns: u64,
    /// What that grows by from then on.
    pub growth: Slope,
    /// From here on it grows otherwise.
    pub later_raw: u64,
    /// By so much.
    pub later: Slope,
    /// From here on by a third rate. It is not before `later_raw`.
    pub last_raw: u64,
    /// By so much.
    pub last: Slope,
}

/// What is known of group time: a course that it runs along, and how far from it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Known {
    /// The course, by the raw clock of the member that knows it.
    pub path: Course,
    /// How far group time is from it.
    pub bound: Bound,
    /// In which view the member led whose clock the path is; 0 if it is no leader's.
    pub epoch: Epoch,
    /// Whether the member states that every member of its view has this time.
    pub common: bool,
}

impl Line {
    /// As fast as the raw clock.
    pub(super) fn straight(raw: u64, ns: i64) -> Self {
        Self { raw, ns, rate: Slope::default() }
    }

    /// The time at a raw reading, which may be before `raw`. It never falls while the raw clock rises.
    pub fn at(self, raw: u64) -> i64 {
        let away = i128::from(raw) - i128::from(self.raw);
        saturate(i128::from(self.ns) + away + self.rate.of(away))
    }

    /// The same line, stated for another reading.
    pub(super) fn from(self, raw: u64) -> Self {
        Self { raw, ns: self.at(raw), rate: self.rate }
    }

    /// The same line as seen from another raw clock, which reads `own` when this one reads `raw`, and as which this
    /// one is faster by `rate`.
    fn seen(self, raw: u64, own: u64, rate: Slope) -> Self {
        Self { raw: own, ns: self.at(raw), rate: self.rate.after(rate) }
    }
}

impl Course {
    /// One line for good.
    pub(super) fn even(line: Line) -> Self {
        Self { first: line, then: line, last: line }
    }

    /// The stretch that a reading is in.
    pub fn line(&self, raw: u64) -> Line {
        match raw {
            _ if raw < self.then.raw => self.first,
            _ if raw < self.last.raw => self.then,
            _ => self.last,
        }
    }

    /// The time at a raw reading.
    pub fn at(&self, raw: u64) -> i64 {
        self.line(raw).at(raw)
    }

    /// The greatest rate at which it differs from its raw clock from a reading on, on either side.
    pub(super) fn fastest(&self, raw: u64) -> Slope {
        let lines = [self.line(raw), self.then, self.last];
        let ahead = lines.into_iter().filter(|line| line.raw >= raw || *line == self.line(raw));
        ahead.map(|line| line.rate.size()).max().unwrap_or_default()
    }

    /// Whether it never runs faster or slower than its raw clock by more than so many parts per billion.
    pub(super) fn turns_at_most(&self, ppb: u64) -> bool {
        let most = Slope::at_least(ppb, BILLION);
        [self.first, self.then, self.last].iter().all(|line| line.rate.size() <= most)
    }

    /// Whether it is one that some clock may have: what a peer states is not trusted.
    fn is_sane(&self) -> bool {
        let ordered = self.first.raw <= self.then.raw && self.then.raw <= self.last.raw;
        let is_slow = |line: &Line| line.rate.size() <= RATE_MAX;
        let goes_on = |from: Line, to: Line| from.at(to.raw).abs_diff(to.ns) <= STEP_NS;
        ordered
            && self.last.raw <= READING_MAX
            && [self.first, self.then, self.last].iter().all(is_slow)
            && goes_on(self.first, self.then)
            && goes_on(self.then, self.last)
    }
}

impl Bound {
    /// One that grows evenly, by so many parts per billion.
    pub(super) fn even(raw: u64, error_ns: u64, growth_ppb: u64) -> Self {
        let growth = Slope::at_least(growth_ppb, BILLION);
        let never = u64::MAX;
        Self {
            raw,
            error_ns,
            growth,
            later_raw: never,
            later: growth,
            last_raw: never,
            last: growth,
        }
    }

    /// The error at a raw reading.
    pub fn at(&self, raw: u64) -> u64 {
        let (later_raw, last_raw) = (self.later_raw.max(self.raw), self.last_raw.max(self.raw));
        let span = |from: u64, to: u64| raw.min(to).saturating_sub(from);
        let first = self.growth.at_least_of(span(self.raw, later_raw));
        let later = self.later.at_least_of(span(later_raw, last_raw));
        let last = self.last.at_least_of(span(last_raw, u64::MAX));
        self.error_ns.saturating_add(first).saturating_add(later).saturating_add(last)
    }

    fn is_sane(&self) -> bool {
        let is_slow = |slope: Slope| Slope::default() <= slope && slope <= RATE_MAX;
        let rates = [self.growth, self.later, self.last];
        self.raw <= READING_MAX && self.later_raw <= self.last_raw && rates.into_iter().all(is_slow)
    }
}

impl Known {
    /// A line that is no leader's.
    pub(super) fn of(line: Line, bound: Bound) -> Self {
        Self { path: Course::even(line), bound, epoch: Epoch::default(), common: false }
    }

    /// Whether a member may know this: what a peer states is not trusted.
    pub fn is_sane(&self) -> bool {
        self.path.is_sane() && self.bound.is_sane()
    }

    /// The same by the raw clock of another member, from its reading `own` on, if this is by the clock of the peer that
    /// the relation is with.
    ///
    /// The estimate of the relation is followed. The peer's clock may show something else by then, but at most so
    /// much as the bounds of the relation have, and group time with it.
    pub fn seen_by(&self, relation: &Relation, own: u64) -> Self {
        let shows = relation.to_peer(own);
        let (rate, theirs) = (relation.rate, shows.ns);
        let knot = |line: Line| {
            let until = line.raw.saturating_sub(theirs);
            let reading = own.saturating_add(rate.passed(until));
            line.seen(line.raw, reading, rate)
        };
        let now = self.path.line(theirs).seen(theirs, own, rate);
        let path = match theirs {
            _ if theirs < self.path.then.raw => {
                Course { first: now, then: knot(self.path.then), last: knot(self.path.last) }
            }
            _ if theirs < self.path.last.raw => {
                Course { first: now, then: now, last: knot(self.path.last) }
            }
            _ => Course::even(now),
        };
        Self { path, bound: self.bound_seen_by(relation, own), ..*self }
    }

    fn bound_seen_by(&self, relation: &Relation, own: u64) -> Bound {
        let shows = relation.to_peer(own);
        let (rate, fastest) = (relation.rate, self.path.fastest(shows.earliest_ns));
        let apart = shows.latest_ns.abs_diff(shows.ns).max(shows.ns.abs_diff(shows.earliest_ns));
        let apart = apart.saturating_add(fastest.at_least_of(apart)).saturating_add(GRAIN_NS);
        let error_ns = self.bound.at(shows.latest_ns).saturating_add(apart);
        // What the peer's clock gains on the estimate, and what the path gains on the peer's clock by it.
        let strays = relation.most_rate.less(rate).max(rate.less(relation.least_rate));
        let strays = strays.scaled(fastest);
        let loose = relation.drift.plus(rate.size()).scaled(fastest);
        let by_own = |slope: Slope| slope.scaled(relation.drift);
        // The rates are sure for so long, and the peer's clock shows a reading at this one of ours, or later.
        let sure = relation.extends_for_ns.saturating_sub(own.abs_diff(relation.at));
        let until = |raw: u64| {
            let until = raw.saturating_sub(shows.latest_ns);
            own.saturating_add(relation.drift.passed(until).min(sure))
        };
        let Bound { growth, later_raw, later, last_raw, last, .. } = self.bound;
        Bound {
            raw: own,
            error_ns,
            growth: by_own(growth).plus(strays),
            later_raw: until(later_raw),
            later: by_own(later).plus(strays),
            last_raw: until(last_raw),
            last: by_own(last.max(later).max(growth)).plus(loose.max(strays)),
        }
    }
}

/// Readings are whole nanoseconds, and so is every step of the arithmetic.
const GRAIN_NS: u64 = 4;
/// Where one stretch ends the next goes on, give or take what was rounded.
const STEP_NS: u64 = 200;
/// No clock is slewed by more than half of its rate.
const RATE_MAX: Slope = Slope::HALF;
/// 292 years.
const READING_MAX: u64 = u64::MAX / 2;
