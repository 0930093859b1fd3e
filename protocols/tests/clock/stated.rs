//! Whatever a leader states and probes say, a member's time goes on, and its readers see it go on.

use conclave_protocols::clock::{
    Ahead, Bound, ClockMap, Correction, Course, Known, Line, Missing, Rates, Relation, Shown,
    Slope, Transfer, VirtualClock,
};
use conclave_protocols::random::Random;
use conclave_protocols::{Epoch, LocalTime};

use crate::lies::choice;
use crate::world::{EPOCH_NS, MS, SECOND, between};

const RATES: [(u32, u32); 3] = [(50, 500), (1, 500), (100_000, 500)];

/// A course that turns faster than any leader plans is not followed, and the member says that something is wrong.
#[test]
fn a_course_faster_than_a_leader_may_plan_is_not_followed() {
    let relation = Relation {
        at: SECOND,
        offset: Ahead { ns: 0, least_ns: -1_000, most_ns: 1_000 },
        rate: Slope::default(),
        least_rate: Slope::default(),
        most_rate: Slope::default(),
        drift: Slope::of_units(1 << 30),
        extends_for_ns: 60 * SECOND,
        round_trip_ns: 2_000,
        sent: 4,
        received: 4,
    };
    // 500 ppm, and the quarter of a rate.
    for (units, is_followed) in [(140_737_488_355, true), (1 << 46, false)] {
        let rates = Rates::new(100, 500);
        let mut own = VirtualClock::new(0, rates);
        let now = LocalTime(SECOND);
        own.enter(now, (Epoch(1), false), rates, 3 * SECOND);
        let mut transfer = Transfer::new(own.clone());
        let correction = Correction { delta_ns: 0, ahead_ns: 0, error_ns: 10 * MS };
        assert!(own.adjust(now, Shown { raw: now, ns: own.map().now_ns(now.0) }, correction));
        transfer.adjusted(now, &own);
        transfer.related(now, Ok(relation));
        let line = Line { raw: SECOND, ns: 1_000_000_000, rate: Slope::of_units(units) };
        let path = Course { first: line, then: line, last: line };
        let bound = Bound {
            raw: SECOND,
            error_ns: 0,
            growth: Slope::default(),
            later_raw: u64::MAX,
            later: Slope::default(),
            last_raw: u64::MAX,
            last: Slope::default(),
        };
        assert!(transfer.stated(now, Known { path, bound, epoch: Epoch(1), common: false }));
        let map = transfer.map();
        assert_eq!(map.known.epoch == Epoch(1), is_followed);
        assert_eq!(map.disrupted_until == 0, is_followed);
    }
}

/// Something between that a liar may think of.
fn any(random: &mut Random, usual: u64) -> u64 {
    let wild = [0, 1, u64::MAX / 4, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX - 1, u64::MAX];
    match random.up_to(8) {
        0 => wild[choice(random, wild.len())],
        1 => random.draw(),
        _ => usual + random.up_to(5 * SECOND),
    }
}

fn any_ns(random: &mut Random, usual: i64) -> i64 {
    let wild = [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX];
    match random.up_to(8) {
        0 => wild[choice(random, wild.len())],
        1 => random.draw().cast_signed(),
        _ => usual + between(random, -20_000_000, 20_000_000),
    }
}

fn any_slope(random: &mut Random) -> Slope {
    let wild = [i64::MIN, -(1 << 47), -(1 << 47) - 1, 0, 1 << 47, i64::MAX];
    match random.up_to(8) {
        0 => Slope::of_units(wild[choice(random, wild.len())]),
        1 => Slope::of_units(random.draw().cast_signed() >> 16),
        _ => Slope::of_units(between(random, -(1 << 34), 1 << 34)),
    }
}

fn any_known(random: &mut Random, raw: u64, ns: i64) -> Known {
    let mut lines = [(); 3].map(|()| {
        let rate = any_slope(random);
        Line { raw: any(random, raw - 2 * SECOND), ns: any_ns(random, ns), rate }
    });
    if random.up_to(4) > 0 {
        lines.sort_unstable_by_key(|line| line.raw);
    }
    let [first, mut then, mut last] = lines;
    if random.up_to(4) > 0 {
        then.ns = first.at(then.raw);
        last.ns = then.at(last.raw);
    }
    let growth = Slope::of_units(any_slope(random).units().saturating_abs());
    let later = any_slope(random);
    let error_ns = [0, 1_000, 10 * MS, u64::MAX][choice(random, 4)];
    let mut turns = [any(random, raw), any(random, raw)];
    if random.up_to(4) > 0 {
        turns.sort_unstable();
    }
    let ([later_raw, last_raw], slowest) = (turns, any_slope(random));
    let raw = any(random, raw);
    let bound = Bound { raw, error_ns, growth, later_raw, later, last_raw, last: slowest };
    Known { path: Course { first, then, last }, bound, epoch: Epoch(1), common: false }
}

/// What probes can say at all: a link bounds the rates by the drift that is assumed, of which there is no more than a
/// tenth for each clock.
fn any_relation(random: &mut Random, at: u64) -> Result<Relation, Missing> {
    if random.up_to(10) == 0 {
        return Err([Missing::Unknown, Missing::Broken][choice(random, 2)]);
    }
    let drift = [1 << 34, 62_000_000_000_000][choice(random, 2)];
    let mut ends = [between(random, -drift, drift), between(random, -drift, drift)];
    ends.sort_unstable();
    let rate = between(random, ends[0], ends[1]);
    let mut ahead = [(); 3].map(|()| any_ns(random, 0));
    ahead.sort_unstable();
    Ok(Relation {
        at,
        offset: Ahead { ns: ahead[1], least_ns: ahead[0], most_ns: ahead[2] },
        rate: Slope::of_units(rate),
        least_rate: Slope::of_units(ends[0]),
        most_rate: Slope::of_units(ends[1]),
        drift: Slope::of_units(drift),
        extends_for_ns: random.up_to(60 * SECOND),
        round_trip_ns: 0,
        sent: 1,
        received: 1,
    })
}

/// Readers that have the map of before see what those with the new one do, for as long as they may; and no map jumps.
pub(crate) fn goes_on(old: &ClockMap, new: &ClockMap, now: u64, seed: u64) {
    let knots = |map: &ClockMap| [map.shown.then.raw, map.shown.last.raw];
    let end = now + ClockMap::SWITCH_NS;
    let around = |knot: u64| [knot.saturating_sub(1), knot, knot.saturating_add(1)];
    let all = knots(old).into_iter().chain(knots(new)).flat_map(around);
    for raw in all.chain([now, now + 1, end - 1, end]).filter(|raw| (now..=end).contains(raw)) {
        let (before, after) = (old.now_ns(raw), new.now_ns(raw));
        assert_eq!(before, after, "seed {seed}: {} ns on, {old:?} {new:?}", raw - now);
    }
    for knot in knots(new).into_iter().filter(|knot| *knot > now) {
        let (before, after) = (new.now_ns(knot - 1), new.now_ns(knot));
        let step = i128::from(after) - i128::from(before);
        assert!((0..=4).contains(&step), "seed {seed}: {step} ns in one, {new:?}");
    }
}

#[test]
fn whatever_is_stated_time_neither_jumps_nor_goes_back_for_any_reader() {
    let (mut moved, mut absurd) = (0, 0);
    for seed in 0..3_000 {
        let mut random = Random::new(seed);
        let (drift, slew) = RATES[choice(&mut random, RATES.len())];
        let rates = Rates::new(drift, slew);
        let mut now = (1 << 45) + random.up_to(1 << 45);
        let offset = EPOCH_NS - i64::try_from(now).expect("small");
        let mut own = VirtualClock::new(offset, rates);
        own.enter(LocalTime(now), (Epoch(1), false), rates, SECOND);
        let nothing = Correction { delta_ns: 0, ahead_ns: 0, error_ns: 50 * MS };
        let shown = Shown { raw: LocalTime(now), ns: own.map().now_ns(now) };
        assert!(own.adjust(LocalTime(now), shown, nothing));
        let mut transfer = Transfer::new(own.clone());
        for _ in 0..30 {
            let pauses = [0, 500_000, 2 * MS, 6 * MS, SECOND, 20 * SECOND];
            let pause = pauses[choice(&mut random, pauses.len())];
            now += random.up_to(pause + 1);
            let old = transfer.map();
            let shows_ns = old.now_ns(now);
            match random.up_to(5) {
                0 | 1 => {
                    let known = any_known(&mut random, now, shows_ns);
                    absurd += u32::from(!transfer.stated(LocalTime(now), known));
                }
                2 | 3 => {
                    let relation = any_relation(&mut random, now);
                    transfer.related(LocalTime(now), relation);
                }
                _ => {
                    let shown = Shown { raw: LocalTime(now), ns: own.map().now_ns(now) };
                    let delta_ns = any_ns(&mut random, 0);
                    let by = Correction { delta_ns, ahead_ns: any_ns(&mut random, 0), error_ns: 0 };
                    own.adjust(LocalTime(now), shown, by);
                    transfer.adjusted(LocalTime(now), &own);
                }
            }
            let new = transfer.map();
            moved += u32::from(new.shown != old.shown);
            goes_on(&old, &new, now, seed);
            let _ = [new.reading(0), new.reading(u64::MAX)];
        }
    }
    assert!(moved > 5_000 && absurd > 1_000, "{moved} {absurd}");
}
