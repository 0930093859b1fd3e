//! The elections, measured in the simulator: the highest rank is dead, and somebody notices.

use std::time::Duration;

use conclave_protocols::election::{Bully, Command, Election, Event, Ring, Timing};
use conclave_protocols::sim::Simulator;
use conclave_protocols::{MemberId, cost};

use crate::locks::SIZES;
use crate::measure::{T, UNIT, view};
use crate::sent::{Mean, Sent, nanos};

/// How long an answer is waited for: Δt, and the announcement: Δt'. In T.
pub(crate) const ANSWER: u32 = 10;
pub(crate) const ANNOUNCEMENT: u32 = 30;

/// One election.
pub(crate) struct Outcome {
    /// Messages that the sources count.
    pub(crate) messages: (u64, Sent),
    /// Messages that come on top. The page states what each of them is.
    pub(crate) on_top: (u64, Sent),
    /// In T.
    pub(crate) turnaround: (Mean, Sent),
}

/// Both cases of an algorithm, in a group of a size.
pub(crate) struct Cases {
    pub(crate) size: u32,
    pub(crate) best: Outcome,
    pub(crate) worst: Outcome,
}

/// The bully algorithm: the second highest notices, or the lowest.
pub(crate) fn bully() -> Vec<Cases> {
    let outcome = |size: u32, initiator: u32, messages: u64| {
        let n = u64::from(size);
        let seen = elect::<Bully>(size, initiator..=initiator);
        let notified = n - 2;
        let upwards = seen.sent("coordinator") - notified;
        // A member that asks and wins has waited for nobody but Δt; one that does not waits for a message to
        // the winner too. Then the others are notified, if there are others.
        let transfers = u64::from(initiator < size - 2) + u64::from(notified > 0);
        Outcome {
            messages: hold(seen.sim.sent_in_all() - upwards, Sent::Exactly(messages)),
            on_top: hold(upwards, Sent::Exactly(cost::bully_announced_upwards(n, n - 2))),
            turnaround: took(seen.all_know, Sent::Exactly(u64::from(ANSWER) + transfers)),
        }
    };
    let cases = |size: u32| Cases {
        size,
        best: outcome(size, size - 2, cost::bully_best(size.into())),
        worst: outcome(size, 0, cost::bully_worst(size.into())),
    };
    SIZES.map(cases).into()
}

/// The ring: one notices, or all at once.
pub(crate) fn ring() -> Vec<Cases> {
    let outcome = |size: u32, initiators: u32| {
        let (n, wait) = (u64::from(size), u64::from(ANSWER));
        let seen = elect::<Ring>(size, 0..initiators);
        let to_the_dead = seen.lost();
        let counted = seen.sent("election") + seen.sent("coordinator") - to_the_dead;
        let messages = cost::ring(n, initiators.into());
        let on_top = match initiators {
            1 => Sent::Exactly(messages + if n > 2 { 2 } else { 1 }),
            several => Sent::Between(messages + 1, messages + 2 * u64::from(several)),
        };
        // Of several lists each may wait behind others, and what waits does not try the dead again.
        let turnaround = match initiators {
            1 if n > 2 => Sent::Exactly(2 * (n - 1) + 2 * wait),
            1 => Sent::Exactly(wait),
            _ => Sent::AtLeast(2 * (n - 1) + wait),
        };
        Outcome {
            messages: hold(counted, Sent::Exactly(messages)),
            on_top: hold(seen.sent("ack") + to_the_dead, on_top),
            turnaround: took(seen.last_sent, turnaround),
        }
    };
    let cases = |size: u32| Cases { size, best: outcome(size, 1), worst: outcome(size, size - 1) };
    SIZES.map(cases).into()
}

/// An election that is over.
struct Seen<P: Election> {
    sim: Simulator<P>,
    /// When the last that lives was notified.
    all_know: Duration,
    /// When the last message was sent.
    last_sent: Duration,
}

impl<P: Election> Seen<P> {
    fn sent(&self, name: &str) -> u64 {
        self.sim.sent(name)
    }

    /// Messages to the dead.
    fn lost(&self) -> u64 {
        self.sim.nodes().map(|(member, _)| self.sim.lost(member, self.dead())).sum()
    }

    fn dead(&self) -> MemberId {
        MemberId(u32::try_from(self.sim.nodes().count()).expect("a small group"))
    }
}

/// These notice at once that the highest rank is dead. In the end all that live follow the second
/// highest.
fn elect<P: Election>(size: u32, initiators: impl IntoIterator<Item = u32>) -> Seen<P> {
    let timing = Timing { answer: T * ANSWER, announcement: T * ANNOUNCEMENT };
    let dead = view(size).leader;
    let mut sim = Simulator::new(0);
    sim.set_delay(T, T);
    for me in view(size).peers(dead) {
        sim.add(me, P::new(me, view(size), timing));
        sim.cut(me, dead);
    }
    initiators.into_iter().for_each(|one| sim.command(MemberId(one), Command::Elect));
    let mut seen = Seen { sim, all_know: Duration::ZERO, last_sent: Duration::ZERO };
    let mut sent = 0;
    while seen.sim.step_until(Duration::from_mins(1)) {
        if seen.sim.sent_in_all() > sent {
            (sent, seen.last_sent) = (seen.sim.sent_in_all(), seen.sim.now());
        }
        if let Some((at, _, Event::Elected(_))) = seen.sim.take_notified().last() {
            seen.all_know = *at;
        }
    }
    for (member, node) in seen.sim.nodes() {
        assert_eq!(node.elected(), Some(MemberId(size - 2)), "{member} of {size}");
    }
    seen
}

#[track_caller]
fn hold(measured: u64, messages: Sent) -> (u64, Sent) {
    assert!(messages.admits(measured), "{measured} is not {messages:?}");
    (measured, messages)
}

#[track_caller]
fn took(time: Duration, messages: Sent) -> (Mean, Sent) {
    hold(nanos(time), messages.map(|times| times * UNIT));
    (Mean { sum: nanos(time), count: UNIT }, messages)
}
