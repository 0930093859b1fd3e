//! Whatever clocks and packets do within what is assumed, the bound holds the truth.

use std::time::Duration;

use conclave_protocols::clock::{Assumptions, Heard, Link, Missing};
use conclave_protocols::random::Random;

use crate::course::{Course, MS, Packet, SECOND, US, between, is_within, ns_in, ppb};

const WINDOW: u64 = 20 * SECOND;
const SPAN: u64 = 120 * SECOND;
const SEEDS: u64 = 200;

#[derive(Clone, Copy)]
struct Case {
    seed: u64,
    assumptions: Assumptions,
    start: u64,
}

impl Case {
    fn new(seed: u64, random: &mut Random) -> Self {
        let max_drift_ppm = one_of(random, [50, 100, 500]);
        let wander_ppb = one_of(random, [0, 100, 1_000, 15_000, 1_000_000]);
        let assumptions =
            Assumptions { max_drift_ppm, wander_ppb, min_delay_ns: 0, stamp_slack_ns: 1 };
        Self { seed, assumptions, start: random.up_to(1 << 61) }
    }

    /// A course at the edge of what is allowed: rates that flip between their limits, that sweep from
    /// one limit to the other and back once in four windows, or that are drawn.
    fn course(&self, random: &mut Random) -> Course {
        let limit = ppb(2_000 * i64::from(self.assumptions.max_drift_ppm));
        let wander = ppb(i64::try_from(self.assumptions.wander_ppb).expect("small")).min(limit);
        let middle = between(random, -limit, limit);
        let kind = random.up_to(3);
        let mut stretches = Vec::new();
        let mut total = 0;
        while total < SPAN + 2 * WINDOW {
            let longest = one_of(random, [SECOND, 30 * SECOND]);
            let length = 1 + random.up_to(longest);
            let deviation = match kind {
                0 => one_of(random, [-wander, wander]),
                1 => sweep(total, wander),
                _ => between(random, -wander, wander),
            };
            let length = if kind == 1 { WINDOW / 50 } else { length };
            stretches.push((length, (middle + deviation).clamp(-limit, limit)));
            total += length;
        }
        let offset = between(random, -(1 << 60), 1 << 60).max(-self.start.cast_signed());
        Course::new(self.start, offset, &stretches)
    }

    /// Packets both ways, at random moments, with delays of all sizes.
    fn packets(&self, course: &Course, random: &mut Random) -> Vec<Packet> {
        let pause = one_of(random, [50 * MS, 300 * MS, 3 * SECOND]);
        let scale = one_of(random, [10 * US, MS, 200 * MS]);
        let mut at = self.start;
        let mut packets = Vec::new();
        while at < self.start + SPAN {
            at += random.up_to(pause);
            let largest = random.up_to(scale) / (1 + random.up_to(20));
            let delay = random.up_to(1 + largest);
            let mut packet = course.packet(random.once_in(2), at, delay);
            let report = one_of(random, [1, SECOND, 10 * SECOND]);
            packet.known_at += random.up_to(report);
            let copies = one_of(random, [0, 1, 1, 1, 2]);
            packets.extend(vec![packet; copies]);
        }
        packets.sort_by_key(|packet| packet.known_at);
        packets
    }
}

fn sweep(at: u64, wander: i64) -> i64 {
    let phase = i64::try_from(at % (4 * WINDOW) * 1_000 / WINDOW).expect("small");
    let share = if phase < 2_000 { phase - 1_000 } else { 3_000 - phase };
    wander / 1_000 * share
}

fn one_of<T: Copy, const N: usize>(random: &mut Random, choices: [T; N]) -> T {
    choices[usize::try_from(random.up_to(N as u64)).expect("small")]
}

/// What was seen in a run.
#[derive(Default)]
struct Tally {
    checks: u64,
    /// Of the drift-only interval of the newest packets each way, and how wide the bound was.
    plain: i128,
    width: i128,
}

fn check(case: &Case, link: &Link, course: &Course, now: u64, random: &mut Random) -> bool {
    let Ok(relation) = link.relation(now) else { return false };
    let seed = case.seed;
    assert!(relation.at >= now);
    for around in [0, WINDOW / 50, WINDOW, 3 * WINDOW] {
        for own in [now.saturating_sub(random.up_to(around + 1)), now + random.up_to(around + 1)] {
            if own < case.start || own > case.start + SPAN {
                continue;
            }
            let (offset, truth) = (relation.offset(own), course.fine(own));
            let is_right = is_within(truth, offset.least_ns, offset.most_ns);
            assert!(is_right, "seed {seed}: at {own}, {truth:x} is not in {offset:?}");
            assert!(offset.least_ns <= offset.ns && offset.ns <= offset.most_ns);
            let peer = course.peer(own);
            let shows = relation.to_peer(own);
            assert!(shows.earliest_ns <= peer && peer <= shows.latest_ns, "seed {seed}: {shows:?}");
            let back = relation.to_own(peer);
            assert!(back.earliest_ns <= own && own <= back.latest_ns, "seed {seed}: {back:?}");
        }
    }
    true
}

/// The interval that the newest packet each way gives, if clocks may drift as they like.
fn plain_width(packets: &[Packet], link: &Link, now: u64) -> i128 {
    let newest = |is_ours: bool| {
        let stamps = packets.iter().filter(|packet| packet.is_ours == is_ours);
        let at = |packet: &Packet| if is_ours { packet.departed } else { packet.arrived };
        let newest = stamps.max_by_key(|packet| at(packet)).expect("a relation has both");
        (i128::from(newest.arrived) - i128::from(newest.departed), now.saturating_sub(at(newest)))
    };
    let (ours, theirs) = (newest(true), newest(false));
    let drift = link.relation(now).expect("known").drift;
    ours.0 + theirs.0 + ns_in(drift, ours.1) + ns_in(drift, theirs.1) + 4
}

#[test]
fn the_bound_holds_the_truth_and_is_never_wider_than_that_of_one_exchange() {
    let mut tally = Tally::default();
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let case = Case::new(seed, &mut random);
        let course = case.course(&mut random);
        let packets = case.packets(&course, &mut random);
        let mut link = Link::new(case.assumptions, Duration::from_nanos(WINDOW));
        for (count, packet) in packets.iter().enumerate() {
            let heard = packet.hand_to(&mut link);
            assert!(matches!(heard, Heard::Taken | Heard::Known), "seed {seed}: {heard:?}");
            if !random.once_in(4) {
                continue;
            }
            let now = packet.known_at + random.up_to(SECOND);
            if check(&case, &link, &course, now, &mut random) {
                let relation = link.relation(now).expect("known");
                let width =
                    i128::from(relation.offset.most_ns) - i128::from(relation.offset.least_ns);
                let plain = plain_width(&packets[..=count], &link, relation.at);
                assert!(width <= plain, "seed {seed}: {width} ns, one exchange gives {plain} ns");
                tally.checks += 1;
                tally.width += width;
                tally.plain += plain;
            }
        }
    }
    println!("{} checks: width {} of {}", tally.checks, tally.width, tally.plain);
    assert!(tally.checks > 10_000);
    assert!(2 * tally.width < tally.plain, "the bound is no better than that of one exchange");
}

#[test]
fn without_packets_in_both_directions_nothing_is_known() {
    let assumptions =
        Assumptions { max_drift_ppm: 100, wander_ppb: 0, min_delay_ns: 0, stamp_slack_ns: 0 };
    let mut link = Link::new(assumptions, Duration::from_nanos(WINDOW));
    assert_eq!(link.relation(5), Err(Missing::Unknown));
    link.sent(SECOND, 7 * SECOND + 10);
    assert_eq!(link.relation(SECOND), Err(Missing::Unknown));
    link.received(7 * SECOND + 10, SECOND + 20);
    let offset = link.relation(SECOND + 20).expect("known").offset;
    assert_eq!((offset.least_ns, offset.most_ns), (6_000_000_000 - 10, 6_000_000_010 + 1));
    assert_eq!(link.relation(SECOND + WINDOW + 20), Err(Missing::Unknown));
}
