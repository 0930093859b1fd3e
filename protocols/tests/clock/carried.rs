//! What is known of group time by one raw clock, carried to another: against clocks that do whatever the relation allows.

use conclave_protocols::Epoch;
use conclave_protocols::clock::{Ahead, Bound, Course, Known, Line, Relation, Slope};
use conclave_protocols::random::Random;

use crate::world::{MS, SECOND, between};

/// Nanoseconds are counted in parts of 2^-16.
const FINE: u32 = 16;
const BITS: u32 = 48;
const EPOCH_NS: i64 = 1_800_000_000_000_000_000;

/// How many runs saw what has to be seen.
#[derive(Debug, Default)]
struct Seen {
    turns: u32,
    beyond_promise: u32,
    beyond_window: u32,
    stale: u32,
    /// The least that was left of a bound, and the share of it that was used at most, in percent.
    closest: u128,
}

fn slope(ppb: i64) -> Slope {
    let units = (i128::from(ppb) << BITS) / 1_000_000_000;
    Slope::of_units(i64::try_from(units).expect("slow"))
}

fn any_slope(random: &mut Random, most_ppb: i64) -> Slope {
    slope(between(random, -most_ppb, most_ppb))
}

/// A change by a slope, in fine nanoseconds.
fn change(slope: Slope, fine: i128) -> i128 {
    (i128::from(slope.units()) * fine) >> BITS
}

fn finely(ns: impl Into<i128>) -> i128 {
    ns.into() << FINE
}

/// A course by a clock that shows something between two whole nanoseconds. It is as the lines have it, not rounded.
fn exactly(path: &Course, raw: i128) -> i128 {
    let of = |line: Line| {
        let away = raw - finely(line.raw);
        finely(line.ns) + away + change(line.rate, away)
    };
    match raw {
        _ if raw < finely(path.then.raw) => of(path.first),
        _ if raw < finely(path.last.raw) => of(path.then),
        _ => of(path.last),
    }
}

/// A line that goes on where another is.
fn turned(line: Line, raw: u64, rate: Slope) -> Line {
    Line { raw, ns: line.at(raw), rate }
}

/// Something that a leader may state: when its clock shows `theirs`.
fn some_known(random: &mut Random, theirs: u64) -> Known {
    let fastest = [150_000, 400_000, 400_000_000][usize::try_from(random.up_to(3)).expect("small")];
    let raw = theirs - random.up_to(4 * SECOND);
    let first = Line { raw, ns: EPOCH_NS, rate: any_slope(random, fastest) };
    let turns = theirs - SECOND + random.up_to(5 * SECOND);
    let then = turned(first, turns.max(raw), any_slope(random, fastest));
    let meets = then.raw + 1 + random.up_to(20 * SECOND);
    let last = turned(then, meets, any_slope(random, fastest));
    let raw = theirs - random.up_to(2 * SECOND);
    let growth = slope(i64::try_from(random.up_to(600_000)).expect("small"));
    let later_raw = raw + random.up_to(8 * SECOND);
    let mut slower = || slope(i64::try_from(random.up_to(900_000)).expect("small"));
    let (later, last_rate) = (slower(), slower());
    let bound = Bound {
        raw,
        error_ns: random.up_to(1_000_000),
        growth: if random.up_to(2) == 0 { Slope::default() } else { growth },
        later_raw,
        later,
        last_raw: later_raw + random.up_to(4 * SECOND),
        last: last_rate,
    };
    Known { path: Course { first, then, last }, bound, epoch: Epoch(1), common: false }
}

fn some_relation(random: &mut Random, at: u64) -> Relation {
    let drift = [100_000, 200_000_000][usize::try_from(random.up_to(2)).expect("small")];
    let (mut least, mut most) = (any_slope(random, drift), any_slope(random, drift));
    if random.up_to(2) == 0 {
        // As probes have it: known to some parts per billion.
        most = slope(least.ppb() + between(random, 0, 1_000)).min(slope(drift));
    }
    (least, most) = (least.min(most), most.max(least));
    let share = i64::try_from(random.up_to(1_001)).expect("small");
    let wide = i128::from(most.units() - least.units()) * i128::from(share) / 1_000;
    let rate = Slope::of_units(least.units() + i64::try_from(wide).expect("slow"));
    let ns = between(random, 0, 1 << 45) - (1 << 44);
    let error = between(random, 0, 100_000);
    let offset = Ahead {
        ns,
        least_ns: ns - between(random, 0, error),
        most_ns: ns + between(random, 0, error),
    };
    Relation {
        at,
        offset,
        rate,
        least_rate: least,
        most_rate: most,
        drift: slope(drift),
        extends_for_ns: SECOND + random.up_to(60 * SECOND),
        round_trip_ns: 0,
        sent: 1,
        received: 1,
    }
}

/// The peer's clock, as a relation allows it to go: from one turn to the next at one of the rates at the limits.
struct Peer<'a> {
    relation: &'a Relation,
    random: Random,
    reading: u64,
    shows: i128,
    high: Option<bool>,
}

impl<'a> Peer<'a> {
    fn new(relation: &'a Relation, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let Ahead { least_ns, most_ns, .. } = relation.offset;
        let high = [None, Some(true), Some(false)][usize::try_from(seed % 3).expect("small")];
        let ahead = match high {
            None => between(&mut random, least_ns, most_ns),
            Some(true) => most_ns,
            Some(false) => least_ns,
        };
        let shows = finely(relation.at) + finely(ahead);
        Self { relation, random, reading: relation.at, shows, high }
    }

    /// What it shows at a later reading of ours.
    fn at(&mut self, reading: u64) -> i128 {
        let sure = self.relation.at + self.relation.extends_for_ns;
        while self.reading < reading {
            let high = self.high.unwrap_or_else(|| self.random.up_to(2) == 0);
            let (until, rates) = if self.reading < sure {
                (reading.min(sure), (self.relation.least_rate, self.relation.most_rate))
            } else {
                let drift = self.relation.drift;
                (reading, (Slope::of_units(-drift.units()), drift))
            };
            let passed = finely(until - self.reading);
            self.shows += passed + change(if high { rates.1 } else { rates.0 }, passed);
            self.reading = until;
        }
        self.shows
    }
}

/// Group time is as far from what is known as the bound has it.
fn check(
    known: &Known,
    carried: &Known,
    relation: &Relation,
    from: u64,
    seed: u64,
    counts: &mut Seen,
) {
    let mut random = Random::new(seed);
    let mut readings: Vec<u64> = (0..20).map(|_| from + random.up_to(12 * SECOND)).collect();
    readings.extend((0..6).map(|_| from + random.up_to(150 * SECOND)));
    let knots = [
        carried.path.then.raw,
        carried.path.last.raw,
        carried.bound.later_raw,
        carried.bound.last_raw,
    ];
    let knots = knots.into_iter().filter(|knot| *knot < from + 200 * SECOND);
    readings.extend(knots.flat_map(|knot| [knot - 1, knot, knot + 1]).filter(|one| *one >= from));
    readings.push(from);
    readings.sort_unstable();
    let mut peer = Peer::new(relation, seed);
    peer.at(from);
    for reading in readings {
        let theirs = peer.at(reading);
        let truth = exactly(&known.path, theirs);
        let whole = u64::try_from(theirs >> FINE).expect("after zero");
        let theirs_wrong = finely(known.bound.at(whole));
        let apart = (truth - finely(carried.path.at(reading))).unsigned_abs();
        let most = finely(carried.bound.at(reading)).unsigned_abs();
        let used = apart + theirs_wrong.unsigned_abs();
        assert!(
            used <= most,
            "seed {seed}: {} ns after {from}, off by {} of {most} / 65536 ns\n{known:?}\n{carried:?}\n{relation:?}",
            reading - from,
            used
        );
        counts.closest = counts.closest.max(if most > 1 << 26 { used * 100 / most } else { 0 });
        counts.turns += u32::from(whole >= known.path.then.raw && from < carried.path.then.raw);
        counts.beyond_promise += u32::from(reading > carried.bound.later_raw);
        counts.beyond_window += u32::from(reading > relation.at + relation.extends_for_ns);
    }
    counts.stale += u32::from(from > relation.at + 30 * SECOND);
}

#[test]
fn what_is_carried_to_another_clock_holds_whatever_the_clocks_do() {
    let mut total = Seen::default();
    for seed in 0..6_000 {
        let mut random = Random::new(seed);
        let at = (1 << 46) + random.up_to(1 << 46);
        let relation = some_relation(&mut random, at);
        let later = [0, MS, 5 * SECOND, 90 * SECOND][usize::try_from(seed % 4).expect("small")];
        let own = at + random.up_to(later + 1);
        let known = some_known(&mut random, relation.to_peer(own).ns);
        let seen = known.seen_by(&relation, own);
        check(&known, &seen, &relation, own, seed, &mut total);
    }
    // The law is worth nothing if no run comes near to what it allows.
    assert!(total.closest >= 99, "{total:?}");
    assert!(total.turns > 5_000 && total.beyond_promise > 10_000, "{total:?}");
    assert!(total.beyond_window > 10_000 && total.stale > 500, "{total:?}");
}

#[test]
fn a_carried_course_turns_without_a_jump() {
    for seed in 0..6_000 {
        let mut random = Random::new(seed);
        let at = (1 << 46) + random.up_to(1 << 46);
        let relation = some_relation(&mut random, at);
        let own = at + random.up_to(5 * SECOND);
        let known = some_known(&mut random, relation.to_peer(own).ns);
        let Known { path, .. } = known.seen_by(&relation, own);
        assert!(path.first.raw <= path.then.raw && path.then.raw <= path.last.raw, "seed {seed}");
        for knot in [path.then.raw, path.last.raw].into_iter().filter(|knot| *knot > own) {
            let step = path.at(knot) - path.at(knot - 1);
            assert!((-3..=5).contains(&step), "seed {seed}: {step} ns in one, {path:?}");
        }
    }
}
