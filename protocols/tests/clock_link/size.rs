//! What a link keeps of the packets that it heard.

use std::time::Duration;

use conclave_protocols::clock::{Assumptions, Link};
use conclave_protocols::random::Random;

use crate::course::{Course, MS, SECOND, US};

/// Of the 480 packets of a minute, those that bound something now or later, and those of the last moments. So a sample and a
/// relation cost the same however long the link lasts.
#[test]
fn a_minute_of_packets_is_kept_in_less_than_half_as_many_points() {
    let assumptions =
        Assumptions { max_drift_ppm: 100, wander_ppb: 1_000, min_delay_ns: 0, stamp_slack_ns: 1 };
    let course = Course::new(SECOND, 0, &[(10_000 * SECOND, 0)]);
    for jitter in [10 * US, 100 * US, MS] {
        let mut random = Random::new(1);
        let mut link = Link::new(assumptions, Duration::from_secs(60));
        let mut most = 0;
        for step in 0..8_000_u64 {
            let delay = (0..8).map(|_| random.up_to(jitter)).min().expect("eight") * 8;
            course.packet(step % 2 == 0, SECOND + step * 125 * MS, delay).hand_to(&mut link);
            if step > 1_000 && step % 100 == 0 {
                let relation = link.relation(SECOND + step * 125 * MS).expect("both ways");
                assert!(relation.sent + relation.received > 440, "{relation:?}");
                most = most.max(format!("{link:?}").matches("Point").count());
            }
        }
        println!("{} us: at most {most} points", jitter / US);
        assert!(most < 240, "{} us: {most} points", jitter / US);
    }
}
