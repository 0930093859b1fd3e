//! What happens when a clock does what none is assumed to do.

use std::time::Duration;

use conclave_protocols::clock::{Assumptions, Heard, Link, Missing};
use conclave_protocols::random::Random;

use crate::course::{Course, MS, SECOND, US, between, is_within, ppb};

const WINDOW: u64 = 20 * SECOND;
const START: u64 = 1_000 * SECOND;
/// When the clock does it.
const BREAK: u64 = START + 50 * SECOND;
const PAUSE: u64 = 250 * MS;

fn assumptions() -> Assumptions {
    Assumptions { max_drift_ppm: 50, wander_ppb: 1_000, min_delay_ns: 0, stamp_slack_ns: 1 }
}

/// What a link made of it.
#[derive(Debug, Default)]
struct Seen {
    /// The last moment at which a bound excluded the truth, since the break.
    excluded_for: u64,
    contradictions: u64,
    /// Checks in which there was no relation because of a contradiction.
    broken: u64,
}

/// Four packets a second each way, with delays of up to a millisecond. Looks ten times a second.
fn run(course: &Course, random: &mut Random) -> Seen {
    let mut link = Link::new(assumptions(), Duration::from_nanos(WINDOW));
    let mut seen = Seen::default();
    for step in 1..800 {
        let at = START + step * PAUSE / 2;
        let packet = course.packet(step % 2 == 0, at, random.up_to(MS));
        let heard = packet.hand_to(&mut link);
        seen.contradictions += u64::from(heard == Heard::Contradiction);
        for look in [1, 2] {
            let now = packet.known_at + look * (PAUSE / 2 - MS) / 2;
            match link.relation(now).map(|relation| relation.offset) {
                Ok(offset) if is_within(course.fine(now), offset.least_ns, offset.most_ns) => {}
                Ok(offset) => {
                    assert!(now > BREAK, "before the break: {offset:?}");
                    seen.excluded_for = now - BREAK;
                }
                Err(Missing::Broken) => seen.broken += 1,
                Err(Missing::Unknown) => {}
            }
        }
    }
    assert_eq!(seen.contradictions, link.refused().contradictions);
    seen
}

#[test]
fn a_clock_that_jumps_is_excluded_for_less_than_a_window() {
    let (mut longest, mut unnoticed) = (0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let size = i64::try_from(US << random.up_to(31)).expect("small");
        let by = if random.once_in(2) { size } else { -size };
        let rate = ppb(between(&mut random, -100_000, 100_000));
        let mut course = Course::new(START, 400 * SECOND.cast_signed(), &[(300 * SECOND, rate)]);
        course.jump(BREAK, by);
        let seen = run(&course, &mut random);
        longest = longest.max(seen.excluded_for);
        assert!(seen.excluded_for < WINDOW, "seed {seed}: by {by} ns: {seen:?}");
        if size < 2 * MS.cast_signed() {
            unnoticed += u64::from(seen.contradictions == 0);
            continue;
        }
        assert!(seen.contradictions > 0 && seen.broken > 0, "seed {seed}: by {by} ns: {seen:?}");
        let is_soon = seen.excluded_for < 2 * PAUSE;
        assert!(is_soon, "seed {seed}: by {by} ns: {seen:?}");
    }
    println!("longest exclusion {} ms, {unnoticed} small jumps unnoticed", longest / MS);
    assert!(longest > 0, "no jump was ever outside of the bound");
}

#[test]
fn a_clock_whose_rate_leaves_the_limits_is_excluded_for_less_than_a_window() {
    let mut longest = 0;
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let rates = [(); 2].map(|()| ppb(between(&mut random, -100_000, 100_000)));
        let beyond = [0, ppb(300_000), ppb(-300_000)][usize::try_from(seed % 3).expect("small")];
        let stretches = [(50 * SECOND, rates[0]), (200 * SECOND, rates[1] + beyond)];
        let course = Course::new(START, 400 * SECOND.cast_signed(), &stretches);
        let seen = run(&course, &mut random);
        if beyond == 0 {
            longest = longest.max(seen.excluded_for);
            assert!(seen.excluded_for < WINDOW, "seed {seed}: {seen:?}");
        } else {
            assert!(seen.contradictions > 3, "seed {seed}: {seen:?}");
        }
    }
    println!("longest exclusion {} ms", longest / MS);
}
