//! What a map of the group clock is on a page.

use std::cmp::Ordering;

use conclave_clock_page::{Piece, Stated, Status, Words, Writer};
use conclave_protocols::clock::{Bound, ClockMap, Course, Line, Rates, Slope, State};

/// What is to be done with a map.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Plan {
    /// The clock was never synchronised: the page stays as it is.
    Keep,
    /// The page stated a later time, or the API showed one, which is too far from the clock to be slewed: it is to state
    /// nothing until the clock has passed that, in so many nanoseconds, or that would be void.
    Wait(u64),
    /// Too little is known of group time: the page is to state nothing.
    Nothing,
    /// This is to be stated; after the page has stated nothing, if time does not go on from what it stated.
    State { words: Words, begins_anew: bool },
}

/// What a map is on a page, at a reading of the raw clock. `shown` is the latest time that others than the page have shown.
pub(super) fn plan(
    map: &ClockMap,
    published: &Words,
    shown: Option<i64>,
    now: u64,
    rates: Rates,
) -> Plan {
    let Some(synced) = map.synced_raw else { return Plan::Keep };
    let latest = synced.saturating_add(VOID_NS).min(map.void_from.saturating_sub(1));
    if now > latest || map.error_ns(now).is_none_or(|error| error > ERROR_MAX_NS) {
        return Plan::Nothing;
    }
    let words = |shown: &Course| {
        let words = Words {
            status: status(map.reading(now).state),
            stale_after_raw: synced.saturating_add(map.fresh_for_ns),
            ..within(map, shown, now, latest)
        };
        let void_after_raw = until_void(&words, now, latest)?;
        Some(Words { void_after_raw, ..words })
    };
    let is_stated = published.at(now).status != Status::Unknown;
    let followed = is_stated.then(|| words(&followed(map, published, now, rates))).flatten();
    let begins_anew = followed.is_none() && published.status != Stated::Unknown;
    let seen = published.latest_seen(now).max(shown).unwrap_or(i64::MIN);
    let anew = || if seen > map.now_ns(now) { None } else { words(&map.shown) };
    let state = |words| Plan::State { words, begins_anew };
    let ahead = u64::try_from(seen.saturating_sub(map.now_ns(now))).unwrap_or(0);
    followed.or_else(anew).map_or(Plan::Wait(ahead), state)
}

/// The course of the clock, as readers can follow it who follow the page.
fn followed(map: &ClockMap, published: &Words, now: u64, rates: Rates) -> Course {
    let (ours, theirs) = (pieces(&map.shown), [published.a, published.b, published.c]);
    let soon = now.saturating_add(2 * Writer::MARGIN_NS);
    let ends = ours.iter().chain(&theirs).map(|piece| piece.raw);
    let mut begins = ends.filter(|end| (now..soon).contains(end)).chain([now]);
    if begins.all(|raw| in_force(ours, raw) == in_force(theirs, raw)) {
        return map.shown;
    }
    let line = line(in_force(theirs, now));
    let switch = now.saturating_add(Writer::PLAN_NS);
    let Course { first: _, then, last } = map.shown;
    let turned = match now {
        _ if then.raw >= switch => Some(Course { first: line, then, last }),
        _ if now >= then.raw && last.raw >= switch => {
            Some(Course { first: line, then: last, last })
        }
        _ => None,
    };
    let is_met = |course: &Course| {
        let Line { raw, ns, .. } = course.then;
        let before = line.at(raw);
        (before..=before.saturating_add(MET_NS)).contains(&ns)
    };
    turned.filter(is_met).unwrap_or_else(|| map.joined_from(line, switch, rates))
}

/// A course, and how far group time is from it at most at any reading from now on.
///
/// The error of the page grows by one rate, and from one reading on by another. That reading is one where group time turns,
/// or where its bound begins to grow otherwise: the one with which the error is smallest when the next map is due.
fn within(map: &ClockMap, shown: &Course, now: u64, latest: u64) -> Words {
    let path = &map.known.path;
    let Bound { raw, growth, later_raw, later, last_raw, last, .. } = map.known.bound;
    let [growth, later, last] = [growth, later, last].map(units);
    let (later_raw, last_raw) = (later_raw.max(raw), last_raw.max(later_raw).max(raw));
    let rates = match now {
        _ if last_raw <= now => Growth { first: last, later_raw: u64::MAX, later: last },
        _ if later_raw <= now => Growth { first: later, later_raw: last_raw, later: last },
        _ => Growth { first: growth, later_raw, later: later.max(last) },
    };
    let turns = [path.then.raw, path.last.raw].into_iter().filter(|turn| *turn > now);
    let split = |raw: u64| rates.split_at(raw).with((map, shown), now, latest);
    let next = now.saturating_add(NEXT_NS);
    let rest = turns.map(split);
    rest.fold(split(rates.later_raw), |best, one| {
        if one.at(next).error_ns < best.at(next).error_ns { one } else { best }
    })
}

/// What an error grows by, and from one reading on.
#[derive(Clone, Copy, Debug)]
struct Growth {
    first: i64,
    later_raw: u64,
    later: i64,
}

impl Growth {
    /// No less at any time, with the other rate from another reading on.
    fn split_at(self, raw: u64) -> Self {
        let greatest = self.first.max(self.later);
        match raw.cmp(&self.later_raw) {
            Ordering::Less => Self { later_raw: raw, later: greatest, ..self },
            Ordering::Equal => Self { later: greatest, ..self },
            Ordering::Greater => Self { first: greatest, later_raw: raw, later: greatest },
        }
    }

    /// With what the course that is shown and that of group time come apart.
    fn with(self, (map, shown): (&ClockMap, &Course), now: u64, latest: u64) -> Words {
        let (path, split) = (&map.known.path, self.later_raw);
        let apart = |raw: u64| i128::from(path.at(raw).abs_diff(shown.at(raw)));
        let turns = [path.then.raw, path.last.raw, shown.then.raw, shown.last.raw];
        let ahead = turns.into_iter().filter(|turn| (now + 1..=latest).contains(turn));
        // Between two turns both are straight, so that they are farthest apart at one of them, or where the page is void.
        let ends: Vec<u64> = ahead.flat_map(|turn| [turn - 1, turn]).chain([latest]).collect();
        let gained = |since: (u64, i128), end: u64| {
            rate_of(apart(end) - since.1, end.saturating_sub(since.0))
        };
        let (until, after) = ends.iter().partition::<Vec<u64>, _>(|end| **end <= split);
        // With what is rounded, or a nanosecond within the next ones would be a rate.
        let begin = (now, apart(now) + i128::from(GRAIN_NS));
        let first = until.iter().chain((split <= latest).then_some(&split));
        let first = first.map(|end| gained(begin, *end)).max().unwrap_or(0).max(0);
        let second = if split > latest {
            0
        } else {
            let reached = begin.1 + ((i128::from(first) * i128::from(split - now)) >> 48);
            after.iter().map(|end| gained((split, reached), *end)).max().unwrap_or(0).max(0)
        };
        let apart_ns = path.at(now).abs_diff(shown.at(now)).saturating_add(GRAIN_NS);
        let bound_ns = map.known.bound.at(now).saturating_add(apart_ns);
        let growth = self.first.saturating_add(first);
        let [a, b, c] = pieces(shown);
        Words {
            a,
            b,
            c,
            bound_raw: now,
            bound_ns: bound_ns.saturating_add(GRAIN_NS),
            growth,
            later_raw: split,
            later_growth: self.later.saturating_add(second).saturating_sub(growth),
            void_after_raw: u64::MAX,
            status: Stated::Synchronised,
            ..Words::UNKNOWN
        }
    }
}

/// The rate at which so many nanoseconds are gained within others, or a little more.
fn rate_of(gained: i128, within: u64) -> i64 {
    let rate = (gained << 48).div_euclid(i128::from(within.max(1))) + 1;
    i64::try_from(rate).unwrap_or(i64::MAX)
}

/// The last reading at which the error is small enough; nothing if it is not now.
fn until_void(words: &Words, now: u64, latest: u64) -> Option<u64> {
    let is_small = |raw: u64| words.at(raw).error_ns <= ERROR_MAX_NS;
    let (mut least, mut most) = (now, latest);
    while least < most {
        let middle = least + (most - least).div_ceil(2);
        if is_small(middle) {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    is_small(least).then_some(least)
}

fn status(state: State) -> Stated {
    match state {
        State::Unsynchronised => Stated::Unknown,
        // A reader sees by its own clock which of the two it is.
        State::Synchronised | State::Holdover => Stated::Synchronised,
        State::Disrupted => Stated::Disrupted,
    }
}

fn pieces(course: &Course) -> [Piece; 3] {
    [course.first, course.then, course.last].map(|Line { raw, ns, rate }| Piece {
        raw,
        ns,
        rate: units(rate),
    })
}

fn in_force([a, b, c]: [Piece; 3], raw: u64) -> Piece {
    match raw {
        _ if raw < b.raw => a,
        _ if raw < c.raw => b,
        _ => c,
    }
}

fn line(Piece { raw, ns, rate }: Piece) -> Line {
    Line { raw, ns, rate: Slope::of_units(rate) }
}

fn units(slope: Slope) -> i64 {
    slope.units()
}

/// An error that is greater is of no use: a page whose error passes 100 ms states nothing.
pub(crate) const ERROR_MAX_NS: u64 = 100_000_000;
/// For so long at most a page states something after the last synchronisation: 1,000 s.
pub(crate) const VOID_NS: u64 = 1_000_000_000_000;
/// So far a line may lie behind the next where they meet: each is rounded.
const MET_NS: i64 = 4;
/// So soon there is another map, while clocks are compared.
const NEXT_NS: u64 = 500_000_000;
/// Readings are whole nanoseconds, and so is every step of the arithmetic: that of the map, of the two courses that are
/// compared, and of the growth in two parts.
const GRAIN_NS: u64 = 2 + 2 + 2;
