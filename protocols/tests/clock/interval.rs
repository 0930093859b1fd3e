//! Clocks are compared as often as the textbook has it.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::clock::{AnyClock, AnyMessage, AnyTimer, Params, VirtualClock};
use conclave_protocols::policy::{ClockAlgorithm, ClockPolicy};
use conclave_protocols::protocol::OutboxOf;
use conclave_protocols::{
    Effect, Epoch, Input, LocalTime, MemberId, Named, Outbox, Protocol, View,
};

use crate::world::{MS, SECOND};

/// What is to happen to a member.
enum Due {
    Arrives(MemberId, AnyMessage),
    Fires(AnyTimer, u64),
}

/// Two members with one raw clock, whose messages take ten milliseconds.
struct Pair {
    members: [AnyClock; 2],
    queue: BTreeMap<(u64, u64), (usize, Due)>,
    armed: BTreeMap<(usize, AnyTimer), u64>,
    count: u64,
    /// When a message that asks for the time was sent.
    asked: Vec<u64>,
}

impl Pair {
    fn run(algorithm: ClockAlgorithm, params: Params) -> Self {
        let view = View { epoch: Epoch(1), size: 2, leader: MemberId(1) };
        let member = |rank| {
            let clock = VirtualClock::new(0, params.rates());
            AnyClock::with(algorithm, params, (MemberId(rank), view), clock)
        };
        let members = [member(0), member(1)];
        let (queue, armed) = (BTreeMap::new(), BTreeMap::new());
        let mut pair = Self { members, queue, armed, count: 0, asked: Vec::new() };
        for member in 0..2 {
            let mut out = Outbox::default();
            pair.members[member].start(LocalTime(SECOND), &mut out);
            pair.carry_out(SECOND, member, out);
        }
        while let Some(((now, _), (member, due))) = pair.queue.pop_first() {
            if now > 20 * SECOND {
                break;
            }
            let input = match due {
                Due::Arrives(from, message) => Input::Message { from, message },
                Due::Fires(timer, armed) if pair.armed.get(&(member, timer)) == Some(&armed) => {
                    Input::Timer(timer)
                }
                Due::Fires(..) => continue,
            };
            let mut out = Outbox::default();
            pair.members[member].handle(LocalTime(now), input, &mut out);
            pair.carry_out(now, member, out);
        }
        pair
    }

    fn carry_out(&mut self, now: u64, member: usize, mut out: OutboxOf<AnyClock>) {
        for effect in out.drain() {
            self.count += 1;
            let (after, who, due) = match effect {
                Effect::Send { to, message } => {
                    if ["poll", "request", "client"].contains(&message.name()) {
                        self.asked.push(now);
                    }
                    let from = MemberId(1 - to.0);
                    (10 * MS, to.0 as usize, Due::Arrives(from, message))
                }
                Effect::Arm { timer, after } => {
                    self.armed.insert((member, timer), self.count);
                    let after = u64::try_from(after.as_nanos()).expect("a short time");
                    (after, member, Due::Fires(timer, self.count))
                }
                Effect::Disarm(timer) => {
                    self.armed.remove(&(member, timer));
                    continue;
                }
                Effect::Tell(_) => continue,
            };
            self.queue.insert((now + after, self.count), (who, due));
        }
    }
}

/// A drift of 1 % and a precision of 1 ms are the strictest that a policy can name.
#[test]
fn no_more_time_lies_between_two_comparisons_than_the_textbook_allows() {
    for (precision_ms, max_drift_ppm, allowed) in
        [(1, 10_000, 50 * MS), (2, 10_000, 100 * MS), (3, 2_000, 750 * MS), (1, 100, 5 * SECOND)]
    {
        for algorithm in ClockAlgorithm::ALL {
            let precision = Duration::from_millis(precision_ms);
            let policy = ClockPolicy { precision, max_drift_ppm, ..ClockPolicy::default() };
            let params = Params::from(&policy);
            assert_eq!(params.resync_interval(), Duration::from_nanos(allowed));
            let asked = Pair::run(algorithm, params).asked;
            let longest = asked.windows(2).map(|two| two[1] - two[0]).max();
            let used = u64::try_from(params.interval().as_nanos()).expect("short");
            assert_eq!(longest, Some(used), "{algorithm:?}, {max_drift_ppm} ppm");
            assert_eq!(used, allowed.min(SECOND), "{algorithm:?}, {max_drift_ppm} ppm");
        }
    }
}
