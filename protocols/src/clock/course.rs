//! A time as a function of a raw clock, and what is known of it.

use serde::{Deserialize, Serialize};

use super::exchange::saturate;
use super::link::{Relation, Slope};
use super::rates::BILLION;

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

/// How far something may be from the truth: an error that grows, and from some moment on by another rate.
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
}

/// What is known of group time: a course that it runs along, and how far from it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Known {
    /// The course, by the raw clock of the member that knows it.
    pub path: Course,
    /// How far group time is from it.
    pub bound: Bound,
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
        Self { raw, error_ns, growth, later_raw: u64::MAX, later: growth }
    }

    /// The error at a raw reading.
    pub fn at(&self, raw: u64) -> u64 {
        let until = raw.min(self.later_raw);
        let grown = self.growth.in_ns_at_least(until.saturating_sub(self.raw));
        let later = self.later.in_ns_at_least(raw.saturating_sub(self.later_raw.max(self.raw)));
        let grown = u64::try_from(grown.saturating_add(later)).unwrap_or(u64::MAX);
        self.error_ns.saturating_add(grown)
    }

    fn is_sane(&self) -> bool {
        let is_slow = |slope: Slope| Slope::default() <= slope && slope <= RATE_MAX;
        self.raw <= READING_MAX && is_slow(self.growth) && is_slow(self.later)
    }
}

impl Known {
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
        Self { path, bound: self.bound_seen_by(relation, own) }
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
        let until_later = self.bound.later_raw.saturating_sub(shows.latest_ns);
        let fresh = own.abs_diff(relation.at);
        let sure = relation.extends_for_ns.saturating_sub(fresh);
        Bound {
            raw: own,
            error_ns,
            growth: by_own(self.bound.growth).plus(strays),
            later_raw: own.saturating_add(relation.drift.passed(until_later).min(sure)),
            later: by_own(self.bound.later.max(self.bound.growth)).plus(loose.max(strays)),
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
