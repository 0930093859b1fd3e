//! What the clock algorithms cost and how wrong clocks are, and the part of the page that states it.

use std::collections::BTreeMap;

use conclave_protocols::clock::{
    AnyClock, AnyMessage, AnyTimer, GroupClock, Params, VirtualClock, berkeley, cristian, ntp,
};
use conclave_protocols::policy::{ClockAlgorithm, ClockPolicy};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{
    Effect, Epoch, Input, LocalTime, MemberId, Named, Outbox, Protocol, View,
};

use crate::locks::SIZES;
use crate::page::{cells, head, table};

/// All of it.
pub(crate) fn section() -> String {
    let mut text = String::from(
        "
## Clocks

The raw clocks of members of even rank are fast by the 100 ppm that the policy allows, those of the others slow by as
much, and their wall clocks are minutes apart. A message to a
higher rank takes 0.7 ms, one to a lower rank 0.2 ms; the highest rank leads. After ten seconds the
messages of ten rounds are counted. The error is the largest difference between a member's clock and the
leader's then, in Berkeley's algorithm that between a follower's and the average. It stands beside the largest error of a member by the formula of the source, half a
round trip at least, which it must not exceed. A group states a wider bound than that
([guarantees.md](guarantees.md#group-time)).

",
    );
    for (algorithm, file, source) in ALGORITHMS {
        text += &head(algorithm.name(), file, source);
        text += "A round of n members takes ";
        text += formula_as_text(algorithm);
        text += " messages:\n\n";
        text += &table(&["n", "messages", "formula", "of which", "error in µs", "by the source"]);
        for size in SIZES {
            let found = Run::of(algorithm, size);
            let formula = u64::from(formula(algorithm, size));
            assert_eq!(found.messages, ROUNDS * formula, "{algorithm:?}, n = {size}");
            assert!(found.error_ns <= found.textbook_ns, "{algorithm:?}, n = {size}: {found:?}");
            let micros = |ns: u64| ns.div_ceil(1_000).to_string();
            text += &cells(&[
                size.to_string(),
                (found.messages / ROUNDS).to_string(),
                formula.to_string(),
                found.names(),
                micros(found.error_ns),
                micros(found.textbook_ns),
            ]);
        }
        text += "\n";
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn formula(algorithm: ClockAlgorithm, n: u32) -> u32 {
    match algorithm {
        ClockAlgorithm::Berkeley => berkeley::messages_per_round(n),
        ClockAlgorithm::Cristian => cristian::messages_per_round(n),
        ClockAlgorithm::Ntp => ntp::messages_per_poll(n),
    }
}

fn formula_as_text(algorithm: ClockAlgorithm) -> &'static str {
    match algorithm {
        ClockAlgorithm::Berkeley => "3(n - 1)",
        ClockAlgorithm::Cristian => "2(n - 1)",
        ClockAlgorithm::Ntp => "2(n - 1) min(n - 1, 4)",
    }
}

/// A group of which nobody disturbs anybody.
struct Run {
    members: Vec<AnyClock>,
    now: u64,
    queue: BTreeMap<(u64, u64), Due>,
    timers: BTreeMap<(usize, AnyTimer), u64>,
    count: u64,
    sent: BTreeMap<&'static str, u64>,
}

/// What is to happen.
enum Due {
    Arrives { to: usize, from: usize, message: AnyMessage },
    Fires { member: usize, timer: AnyTimer, armed: u64 },
}

/// What was measured.
#[derive(Debug)]
struct Found {
    messages: u64,
    sent: BTreeMap<&'static str, u64>,
    error_ns: u64,
    textbook_ns: u64,
}

impl Found {
    /// How many of each name a round has.
    fn names(&self) -> String {
        let each = self.sent.iter().map(|(name, count)| format!("{} {name}", count / ROUNDS));
        each.collect::<Vec<_>>().join(", ")
    }
}

impl Run {
    fn of(algorithm: ClockAlgorithm, size: u32) -> Found {
        let params = Params::from(&ClockPolicy { algorithm, ..ClockPolicy::default() });
        let view = View { epoch: Epoch(1), size, leader: MemberId(size - 1) };
        let member = |me: MemberId| {
            let clock = VirtualClock::new(i64::from(me.0) * 60_000_000_000, params.rates());
            AnyClock::with(algorithm, params, (me, view), clock)
        };
        let members: Vec<_> = view.members().map(member).collect();
        let (queue, timers, sent) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut run = Self { members, now: SECOND, queue, timers, count: 0, sent };
        for member in 0..run.members.len() {
            let mut out = Outbox::default();
            let raw = run.raw(member);
            run.members[member].start(raw, &mut out);
            run.carry_out(member, out);
        }
        run.until(10 * SECOND + SECOND / 2);
        run.sent.clear();
        run.until((10 + ROUNDS) * SECOND + SECOND / 2);
        run.found()
    }

    /// The raw clock of a member now.
    fn raw(&self, member: usize) -> LocalTime {
        let drift = self.now / 1_000_000 * DRIFT_PPM;
        LocalTime(if member.is_multiple_of(2) { self.now + drift } else { self.now - drift })
    }

    fn found(self) -> Found {
        let reading =
            |(id, member): (usize, &AnyClock)| member.clock().map().reading(self.raw(id).0);
        let readings: Vec<_> = self.members.iter().enumerate().map(reading).collect();
        let (last, others) = readings.split_last().expect("members");
        let right = match self.members.last().expect("members") {
            // The daemon's own clock comes to the average when what it has stated of itself is over.
            AnyClock::Berkeley(_) => {
                let own_ns = last.by_messages.expect("it averaged").now_ns;
                let count = i64::try_from(readings.len()).expect("a few");
                others.iter().map(|one| one.now_ns).chain([own_ns]).map(|ns| ns / count).sum()
            }
            AnyClock::Cristian(_) | AnyClock::Ntp(_) => last.now_ns,
        };
        Found {
            messages: self.sent.values().sum(),
            sent: self.sent,
            error_ns: others.iter().map(|one| one.now_ns.abs_diff(right)).max().unwrap_or(0),
            textbook_ns: others
                .iter()
                .map(|one| one.by_messages.expect("it was compared").textbook_ns)
                .max()
                .unwrap_or(0),
        }
    }

    fn until(&mut self, end: u64) {
        while let Some((&(at, count), _)) =
            self.queue.first_key_value().filter(|((at, _), _)| *at < end)
        {
            self.now = at;
            match self.queue.remove(&(at, count)).expect("it is the first") {
                Due::Arrives { to, from, message } => {
                    self.handle(to, Input::Message { from: id(from), message });
                }
                Due::Fires { member, timer, armed } => {
                    if self.timers.get(&(member, timer)) == Some(&armed) {
                        self.handle(member, Input::Timer(timer));
                    }
                }
            }
        }
        self.now = end;
    }

    fn handle(&mut self, member: usize, input: InputOf<AnyClock>) {
        let mut out = Outbox::default();
        let raw = self.raw(member);
        self.members[member].handle(raw, input, &mut out);
        self.carry_out(member, out);
    }

    fn carry_out(&mut self, member: usize, mut out: OutboxOf<AnyClock>) {
        for effect in out.drain() {
            self.count += 1;
            match effect {
                Effect::Send { to, message } => {
                    *self.sent.entry(message.name()).or_default() += 1;
                    let to = to.0 as usize;
                    let delay = if to > member { 700_000 } else { 200_000 };
                    let due = Due::Arrives { to, from: member, message };
                    self.queue.insert((self.now + delay, self.count), due);
                }
                Effect::Arm { timer, after } => {
                    let after = u64::try_from(after.as_nanos()).expect("a short time");
                    self.timers.insert((member, timer), self.count);
                    let due = Due::Fires { member, timer, armed: self.count };
                    self.queue.insert((self.now + after, self.count), due);
                }
                Effect::Disarm(timer) => {
                    self.timers.remove(&(member, timer));
                }
                Effect::Tell(_) => {}
            }
        }
    }
}

fn id(member: usize) -> MemberId {
    MemberId(u32::try_from(member).expect("a small group"))
}

const ROUNDS: u64 = 10;
const DRIFT_PPM: u64 = 100;
const SECOND: u64 = 1_000_000_000;

pub(crate) const BERKELEY: &str = include_str!("../../src/clock/berkeley.rs");
pub(crate) const CRISTIAN: &str = include_str!("../../src/clock/cristian.rs");
pub(crate) const NTP: &str = include_str!("../../src/clock/ntp.rs");

const ALGORITHMS: [(ClockAlgorithm, &str, &str); 3] = [
    (ClockAlgorithm::Berkeley, "protocols/src/clock/berkeley.rs", BERKELEY),
    (ClockAlgorithm::Cristian, "protocols/src/clock/cristian.rs", CRISTIAN),
    (ClockAlgorithm::Ntp, "protocols/src/clock/ntp.rs", NTP),
];
