//! The bound is the best there is: pruning costs nothing, and some course attains each end.

use std::time::Duration;

use conclave_protocols::clock::{Assumptions, Heard, Link, Relation};
use conclave_protocols::random::Random;

use crate::course::{Course, MS, Packet, SECOND, US, between, ppb};

const WINDOW: u64 = 16 * SECOND;
const START: u64 = 5_000 * SECOND;
const WANDER_PPB: u64 = 2_000;

/// The offset, or its negative, is at most `most` at `at`.
#[derive(Clone, Copy)]
struct Limit {
    is_ours: bool,
    at: u64,
    most: i128,
}

impl Limit {
    fn of(packet: Packet) -> Self {
        let Packet { is_ours, departed, arrived, .. } = packet;
        let at = if is_ours { departed } else { arrived };
        Self { is_ours, at, most: i128::from(arrived) - i128::from(departed) + 1 }
    }
}

fn link() -> Link {
    let assumptions = Assumptions {
        max_drift_ppm: 100,
        wander_ppb: WANDER_PPB,
        min_delay_ns: 0,
        stamp_slack_ns: 1,
    };
    Link::new(assumptions, Duration::from_nanos(WINDOW))
}

fn wander() -> i128 {
    i128::from(ppb(WANDER_PPB.cast_signed())) + 1
}

/// A course within what is assumed, and what `count` packets on it say, in the order of time.
fn limits(random: &mut Random, count: u64, pause: u64, delay: u64) -> Vec<Limit> {
    let rate = between(random, ppb(-190_000), ppb(190_000));
    let stretches = [(); 200].map(|()| {
        let wander = ppb(WANDER_PPB.cast_signed());
        (1 + random.up_to(SECOND), rate + between(random, -wander, wander))
    });
    let course = Course::new(START, between(random, -1_000_000, 1_000_000), &stretches);
    let mut at = START;
    let mut limits: Vec<Limit> = Vec::new();
    for _ in 0..count {
        at += 1 + random.up_to(pause);
        let packet = course.packet(random.once_in(2), at, random.up_to(delay));
        limits.push(Limit::of(packet));
    }
    limits.sort_by_key(|limit| limit.at);
    limits
}

fn hand(limit: Limit, link: &mut Link) -> Heard {
    // The peer's stamp that says so, with a slack of one.
    let other = i128::from(limit.at) + if limit.is_ours { limit.most - 1 } else { 1 - limit.most };
    let other = u64::try_from(other).expect("a reading");
    if limit.is_ours { link.sent(limit.at, other) } else { link.received(other, limit.at) }
}

/// The same bound, from all pairs of all points.
fn of_all(limits: &[Limit], now: u64, drift: i128) -> Option<(i128, i128)> {
    let block = WINDOW / 16;
    let all: Vec<Limit> =
        limits.iter().copied().filter(|limit| limit.at / block + 16 > now / block).collect();
    let leave = |older_is_ours: bool| {
        let pairs = all.iter().flat_map(|older| all.iter().map(move |younger| (older, younger)));
        let rates = pairs
            .filter(|(older, younger)| {
                older.is_ours == older_is_ours && younger.is_ours != older_is_ours
            })
            .filter(|(older, younger)| older.at < younger.at)
            .map(|(older, younger)| {
                let span = i128::from(younger.at - older.at);
                -(-((older.most + younger.most) << 48)).div_euclid(span)
            });
        rates.min().unwrap_or(drift).min(drift)
    };
    let end = |is_ours: bool, slope: i128| {
        let ends = all.iter().filter(|limit| limit.is_ours == is_ours);
        let ends = ends.map(|limit| (limit.most << 48) + slope * i128::from(now - limit.at));
        ends.min().map(|fine| -(-fine >> 48))
    };
    let up = (leave(false) + 2 * wander()).min(drift);
    let down = (leave(true) + 2 * wander()).min(drift);
    Some((-end(false, down)?, end(true, up)?))
}

fn ends(relation: &Relation) -> (i128, i128) {
    (relation.offset.least_ns.into(), relation.offset.most_ns.into())
}

#[test]
fn what_is_dropped_changes_nothing_even_if_packets_overtake_each_other() {
    let mut compared = 0;
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let delay = [20 * US, MS, 200 * MS][usize::try_from(seed % 3).expect("small")];
        let mut limits = limits(&mut random, 400, 200 * MS, delay);
        if random.once_in(2) {
            limits.sort_by_cached_key(|limit| limit.at + random.up_to(WINDOW / 17));
        }
        let mut link = link();
        for count in 1..=limits.len() {
            assert_eq!(hand(limits[count - 1], &mut link), Heard::Taken, "seed {seed}");
            if !random.once_in(7) {
                continue;
            }
            let now = limits[..count].iter().map(|limit| limit.at).max().expect("one");
            let now = now + random.up_to(SECOND);
            let known = link.relation(now).ok();
            let drift = i128::from(known.map_or(0, |relation| relation.drift.units()));
            let all = of_all(&limits[..count], now, drift);
            assert_eq!(known.as_ref().map(ends), all, "seed {seed}, {count} packets");
            compared += u32::from(known.is_some());
        }
    }
    assert!(compared > 3_000);
}

/// Where the offset can be now, if its rate is within the wander of `rate`: from event to event, how
/// high and how low a course can be that passed all before.
fn reach(limits: &[Limit], now: u64, rate: i128, drift: i128) -> Option<(i128, i128)> {
    let (up, down) = ((rate + wander()).min(drift), (rate - wander()).max(-drift));
    let (mut low, mut high) = (-(1_i128 << 110), 1_i128 << 110);
    let mut at = limits[0].at;
    for limit in limits {
        let span = i128::from(limit.at - at);
        (low, high, at) = (low + down * span, high + up * span, limit.at);
        if limit.is_ours {
            high = high.min(limit.most << 48);
        } else {
            low = low.max(-(limit.most << 48));
        }
        if low > high {
            return None;
        }
    }
    let span = i128::from(now - at);
    Some((low + down * span, high + up * span))
}

#[test]
fn no_course_leaves_the_bound_and_some_course_attains_each_end() {
    let (mut attained, mut outside) = (0, 0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let count = 2 + random.up_to(12);
        let delay = [20 * US, MS][usize::try_from(seed % 2).expect("small")];
        let limits = limits(&mut random, count, SECOND, delay);
        let mut link = link();
        for limit in &limits {
            assert_eq!(hand(*limit, &mut link), Heard::Taken, "seed {seed}");
        }
        let now = limits[limits.len() - 1].at + random.up_to(SECOND);
        let Ok(relation) = link.relation(now) else { continue };
        let drift = i128::from(relation.drift.units());
        let (least, most) = ends(&relation);
        for step in -500..=500 {
            let Some((low, high)) = reach(&limits, now, drift * step / 500, drift) else {
                outside += 1;
                continue;
            };
            assert!(least << 48 <= low && high <= most << 48, "seed {seed}: {step}");
        }
        // Slopes are rounded outwards: the outermost that is possible is up to a unit further in.
        let highest = (i128::from(relation.most_rate.units()) - wander() - 1).min(drift);
        let lowest = (i128::from(relation.least_rate.units()) + wander() + 1).max(-drift);
        let ends = [highest, lowest].map(|rate| reach(&limits, now, rate, drift));
        let [Some((_, high)), Some((low, _))] = ends else {
            panic!("seed {seed}: no course at the ends of {relation:?}");
        };
        assert!(high > (most - 2) << 48 && low < (least + 2) << 48, "seed {seed}: {relation:?}");
        attained += 1;
    }
    assert!(attained > 350 && outside > 1_000, "{attained}, {outside}");
}
