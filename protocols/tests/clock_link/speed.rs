//! What the estimator costs. Run by hand: `cargo test -p conclave-protocols --test clock_link speed --
//! --ignored --nocapture`.

#![expect(clippy::disallowed_types, reason = "a measurement of real time, that nothing depends on")]

use std::time::{Duration, Instant};

use conclave_protocols::clock::{Assumptions, Link};
use conclave_protocols::random::Random;

use crate::course::{Course, MS, SECOND, US};

#[test]
#[ignore = "a measurement, not a check"]
fn speed_of_a_sample_and_of_a_relation() {
    let assumptions =
        Assumptions { max_drift_ppm: 100, wander_ppb: 1_000, min_delay_ns: 0, stamp_slack_ns: 1 };
    let course = Course::new(SECOND, 0, &[(10_000 * SECOND, 0)]);
    for jitter in [10 * US, 100 * US, MS] {
        let mut random = Random::new(1);
        let packets: Vec<_> = (0..40_000_u64)
            .map(|step| {
                let delay = (0..8).map(|_| random.up_to(jitter)).min().expect("eight") * 8;
                course.packet(step % 2 == 0, SECOND + step * 125 * MS, delay)
            })
            .collect();
        let mut link = Link::new(assumptions, Duration::from_secs(60));
        let begin = Instant::now();
        for packet in &packets {
            packet.hand_to(&mut link);
        }
        let sample = begin.elapsed() / 40_000;
        let begin = Instant::now();
        let mut sum = 0;
        for step in 0..2_000_u64 {
            sum += link.relation(5_001 * SECOND + step).expect("known").offset.ns;
        }
        let relation = begin.elapsed() / 2_000;
        let points = format!("{link:?}").matches("Point").count();
        println!(
            "{} us: {sample:?} a sample, {relation:?} a relation, {points} points kept ({sum})",
            jitter / US
        );
    }
}
