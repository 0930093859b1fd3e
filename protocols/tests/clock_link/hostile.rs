//! Stamps that no honest clock shows, packets twice and late, and a clock of our own that goes back.

use std::time::Duration;

use conclave_protocols::clock::{Assumptions, Heard, Link, Missing};
use conclave_protocols::random::Random;

use crate::course::{Course, MS, SECOND, US, is_within, ppb};

const WINDOW: u64 = 60 * SECOND;

fn link() -> Link {
    let assumptions =
        Assumptions { max_drift_ppm: 100, wander_ppb: 1_000, min_delay_ns: 0, stamp_slack_ns: 100 };
    Link::new(assumptions, Duration::from_nanos(WINDOW))
}

/// Readings at the edges of what numbers can be, and near each other.
fn reading(random: &mut Random) -> u64 {
    let edges = [0, 1, WINDOW, 1 << 62, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX - 1, u64::MAX];
    let edge = edges[usize::try_from(random.up_to(8)).expect("small")];
    match random.up_to(4) {
        0 => edge,
        1 => edge.saturating_sub(random.up_to(2 * WINDOW)),
        2 => edge.saturating_add(random.up_to(SECOND)),
        _ => random.draw(),
    }
}

#[test]
fn nonsense_neither_stops_a_member_nor_turns_a_bound_around() {
    let assume = [0, 1, 100, u64::from(u32::MAX), u64::MAX];
    let mut known = 0;
    for seed in 0..800 {
        let mut random = Random::new(seed);
        let of = |random: &mut Random| assume[usize::try_from(random.up_to(5)).expect("small")];
        let assumptions = Assumptions {
            max_drift_ppm: u32::try_from(of(&mut random)).unwrap_or(7),
            wander_ppb: of(&mut random),
            min_delay_ns: of(&mut random),
            stamp_slack_ns: of(&mut random),
        };
        let mut link = Link::new(assumptions, Duration::from_nanos(of(&mut random)));
        for _ in 0..300 {
            let (departed, arrived) = (reading(&mut random), reading(&mut random));
            if random.once_in(2) {
                link.sent(departed, arrived);
            } else {
                link.received(departed, arrived);
            }
            let Ok(relation) = link.relation(reading(&mut random)) else { continue };
            known += 1;
            let own = reading(&mut random);
            let (at, back, there) =
                (relation.offset(own), relation.to_own(own), relation.to_peer(own));
            assert!(at.least_ns <= at.ns && at.ns <= at.most_ns, "seed {seed}: {at:?}");
            assert!(back.earliest_ns <= back.ns && back.ns <= back.latest_ns, "seed {seed}");
            assert!(there.earliest_ns <= there.ns && there.ns <= there.latest_ns, "seed {seed}");
            assert!(at.error_ns() >= at.ns.abs_diff(at.least_ns), "seed {seed}");
        }
    }
    assert!(known > 1_000, "{known}");
}

#[test]
fn stamps_beyond_all_clocks_are_refused_and_counted() {
    let mut link = link();
    assert_eq!(link.sent(1, u64::MAX), Heard::Absurd);
    assert_eq!(link.received(1 << 63, SECOND), Heard::Absurd);
    assert_eq!(link.sent(1, (1 << 63) - 1), Heard::Absurd, "with the slack it is beyond");
    assert_eq!(link.refused().absurd, 3);
    assert_eq!(link, {
        let mut other = self::link();
        for _ in 0..3 {
            other.sent(u64::MAX, 0);
        }
        other
    });
}

#[test]
fn a_packet_that_comes_twice_counts_once() {
    let mut link = link();
    assert_eq!(link.sent(SECOND, 2 * SECOND), Heard::Taken);
    assert_eq!(link.received(2 * SECOND + 50, SECOND + 100), Heard::Taken);
    let before = link.clone();
    assert_eq!(link.sent(SECOND, 2 * SECOND), Heard::Known);
    assert_eq!(link.received(2 * SECOND + 50, SECOND + 100), Heard::Known);
    assert_eq!(link, before);
    let relation = link.relation(2 * SECOND).expect("known");
    assert_eq!((relation.sent, relation.received), (1, 1));
}

#[test]
fn a_late_report_of_our_packet_is_refused_but_our_clock_going_back_starts_anew() {
    let mut link = link();
    let start = 100 * WINDOW;
    link.sent(start, start);
    link.received(start + 10, start + 20);
    assert_eq!(link.sent(start - 2 * WINDOW, start), Heard::Late);
    assert_eq!(link.refused().late, 1);
    assert_eq!(link.relation(start - WINDOW).expect("known").at, start + 20);
    assert_eq!(link.received(start, start - 2 * WINDOW), Heard::Contradiction);
    assert_eq!(link.relation(start), Err(Missing::Broken));
    assert_eq!(link.sent(start - 2 * WINDOW + 5, start + 10), Heard::Taken);
    let relation = link.relation(start - 2 * WINDOW + 5).expect("known");
    assert_eq!(relation.offset.least_ns, 2 * WINDOW.cast_signed() - 101);
}

#[test]
fn a_flood_of_packets_takes_no_more_than_its_place_and_the_bound_still_holds() {
    let stretches: Vec<(u64, i64)> =
        (0..2_000).map(|step| (50 * MS, ppb(if step % 40 < 20 { 900 } else { -900 }))).collect();
    let course = Course::new(WINDOW, -5_000, &stretches);
    let mut random = Random::new(3);
    let mut link = link();
    for step in 0..60_000 {
        // Young packets are ever faster: no point hides another.
        let delay = 50 * US + random.up_to(100) + (step % 4_000) * (step % 4_000) / 1_000;
        let packet = course.packet(step % 2 == 0, WINDOW + step * MS, delay);
        assert_eq!(packet.hand_to(&mut link), Heard::Taken);
        if step % 100 == 1 {
            let offset = link.relation(packet.known_at).expect("known").offset;
            assert!(is_within(course.fine(packet.known_at), offset.least_ns, offset.most_ns));
        }
    }
    let points = format!("{link:?}").matches("Point").count();
    assert!(points <= 2 * 16 * 64, "{points} points");
    assert!(points > 2 * 16 * 30, "{points} points: the flood hides its own points");
    let relation = link.relation(2 * WINDOW).expect("known");
    assert!(relation.offset.error_ns() < 120 * US, "{relation:?}");
}
