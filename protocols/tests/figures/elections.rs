//! The elections, measured in the simulator: the highest rank is dead, and somebody notices.

use std::time::Duration;

use conclave_protocols::election::{
    Bully, ChangRoberts, Command, Election, Event, Place, Ring, SpanningTree, Timing,
};
use conclave_protocols::sim::Simulator;
use conclave_protocols::{MemberId, cost};

use crate::measure::{T, UNIT, view};
use crate::sent::{Mean, Sent, nanos};

/// How long an answer is waited for: Δt, and the announcement: Δt'. In T.
pub(crate) const ANSWER: u32 = 10;
pub(crate) const ANNOUNCEMENT: u32 = 30;

/// The sizes of groups. The page shows some of them.
pub(crate) const ALL_SIZES: std::ops::RangeInclusive<u32> = 2..=64;

/// A case in a group of a size: the elections of several runs, or of one.
pub(crate) struct Outcome {
    pub(crate) size: u32,
    pub(crate) runs: u64,
    /// Messages that the sources count.
    pub(crate) messages: (u64, Sent),
    /// Messages that come on top. The page states what each of them is.
    pub(crate) on_top: (u64, Sent),
    /// In T.
    pub(crate) turnaround: (Mean, Sent),
}

/// A case in groups of all sizes.
pub(crate) struct Case {
    pub(crate) title: &'static str,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Case {
    pub(crate) fn new(title: &'static str, outcome: impl Fn(u32) -> Outcome) -> Self {
        Self { title, outcomes: ALL_SIZES.map(outcome).collect() }
    }
}

/// The bully algorithm, by the members that notice.
pub(crate) fn bully() -> Vec<Case> {
    // The lowest that notices asks all above it, and any other that notices has been asked, or asks, anyway.
    let one = |size: u32, initiators: &[u32]| {
        let (n, lowest) = (u64::from(size), initiators[0]);
        let seen = elect::<Bully>(size, initiators);
        let notified = n - 2;
        let upwards = seen.sent("coordinator") - notified;
        // A member that asks and wins has waited for nobody but Δt; one that does not waits for a message to
        // the winner too. Then the others are notified, if there are others.
        let transfers = u64::from(!initiators.contains(&(size - 2))) + u64::from(notified > 0);
        Outcome {
            size,
            runs: 1,
            messages: hold(
                seen.sim.sent_in_all() - upwards,
                Sent::Exactly(cost::bully(n, lowest.into())),
            ),
            on_top: hold(upwards, Sent::Exactly(cost::bully_announced_upwards(n, n - 2))),
            turnaround: took(seen.all_know, Sent::Exactly(u64::from(ANSWER) + transfers)),
        }
    };
    for n in ALL_SIZES.map(u64::from) {
        assert_eq!(cost::bully(n, 0), cost::bully_worst(n));
        assert_eq!(cost::bully(n, n - 2), cost::bully_best(n));
        let all: u64 = (0..n - 1).map(|initiator| cost::bully(n, initiator)).sum();
        assert_eq!(6 * all, (n - 1) * (n * (2 * n - 1) + 6 * (n - 2)), "the page's mean");
    }
    vec![
        Case::new("At best, n - 1 messages: the second highest notices.", |size| {
            one(size, &[size - 2])
        }),
        Case::new("At worst, (n - 1)² + n - 2: the lowest notices.", |size| one(size, &[0])),
        Case::new(
            "On average, n(2n - 1)/6 + n - 2: each that lives notices in a run of its own.",
            |size| mean(size, (0..size - 1).map(|initiator| one(size, &[initiator]))),
        ),
        Case::new("The two lowest notice at once: what the lowest alone costs.", |size| {
            one(size, if size > 2 { &[0, 1] } else { &[0] })
        }),
        Case::new("All that live notice at once: again what the lowest alone costs.", |size| {
            one(size, &(0..size - 1).collect::<Vec<_>>())
        }),
    ]
}

/// The ring: one notices, or all at once.
pub(crate) fn ring() -> Vec<Case> {
    let one = |size: u32, initiators: &[u32]| {
        let (n, wait) = (u64::from(size), u64::from(ANSWER));
        let seen = elect::<Ring>(size, initiators);
        let to_the_dead = seen.lost();
        let counted = seen.sent("election") + seen.sent("coordinator") - to_the_dead;
        let messages = cost::ring(n, initiators.len() as u64);
        // The dead member is tried in each pass, unless the second reaches the member before it while lists
        // of the first still wait there: always if all begin, and with two on a ring that is short against Δt.
        let several = initiators.len() > 1;
        let lost =
            if n == 2 || several && (n <= 4 || initiators.len() as u64 == n - 1) { 1 } else { 2 };
        // One goes round twice. If all begin, the member before the dead one is the neck: it waits once, then
        // passes on two lists for each of them, with an acknowledgement each but for the last.
        let turnaround = match initiators.len() as u64 {
            _ if n == 2 => Sent::Exactly(wait),
            1 => Sent::Exactly(2 * (n - 1) + 2 * wait),
            all if all == n - 1 => Sent::Exactly(4 * (n - 1) - 1 + wait),
            // The second list waits for an acknowledgement longer than the first.
            _ if n > 4 => Sent::Exactly(2 * (n - 1) + 2 * wait + 1),
            _ => Sent::Exactly(2 * (n - 1) + wait + 2),
        };
        Outcome {
            size,
            runs: 1,
            messages: hold(counted, Sent::Exactly(messages)),
            on_top: hold(seen.sent("ack") + to_the_dead, Sent::Exactly(messages + lost)),
            turnaround: took(seen.last_sent, turnaround),
        }
    };
    vec![
        Case::new(
            "At best, and on average, 2(n - 1) messages: one notices. Each that lives does in a run of its own, and all cost the same.",
            |size| mean(size, (0..size - 1).map(|initiator| one(size, &[initiator]))),
        ),
        Case::new("Two neighbours notice at once: 4(n - 1).", |size| {
            one(size, if size > 2 { &[0, 1] } else { &[0] })
        }),
        Case::new("At worst, 2(n - 1)²: all that live notice at once.", |size| {
            one(size, &(0..size - 1).collect::<Vec<_>>())
        }),
    ]
}

/// Chang and Roberts' ring, by the members that notice.
pub(crate) fn chang_roberts() -> Vec<Case> {
    let one = |size: u32, initiators: &[u32]| {
        let (n, wait) = (u64::from(size), u64::from(ANSWER));
        let lowest = initiators.iter().min().copied().unwrap_or(0);
        let highest = initiators.iter().max().copied().unwrap_or(0);
        let seen = elect::<ChangRoberts>(size, initiators);
        let to_the_dead = seen.lost();
        let counted = seen.sent("election") + seen.sent("elected") - to_the_dead;
        let messages = cost::chang_roberts(n, lowest.into());
        // The dead member is behind the winner, which sends two messages.
        let lost = if n == 2 { 1 } else { 2 };
        // The highest that notices has the shortest way to the winner, whose two passes are next.
        let turnaround = match n {
            2 => wait,
            _ => n - 2 - u64::from(highest) + 2 * (n - 1) + 2 * wait,
        };
        Outcome {
            size,
            runs: 1,
            messages: hold(counted, Sent::Exactly(messages)),
            on_top: hold(seen.sent("ack") + to_the_dead, Sent::Exactly(messages + lost)),
            turnaround: took(seen.last_sent, Sent::Exactly(turnaround)),
        }
    };
    for living in ALL_SIZES.map(|n| u64::from(n) - 1).filter(|living| *living > 1) {
        let best = cost::chang_roberts_best(living);
        assert_eq!((best, cost::chang_roberts_worst(living)), (2 * living, 3 * living - 1));
        let all: u64 =
            (0..living).map(|initiator| cost::chang_roberts_living(living, initiator)).sum();
        assert_eq!(2 * all, living * (5 * living - 1), "the page's mean");
    }
    vec![
        Case::new("At best, 2(n - 1) messages: the second highest notices.", |size| {
            one(size, &[size - 2])
        }),
        Case::new("At worst, 3(n - 1) - 1: the lowest notices.", |size| one(size, &[0])),
        Case::new(
            "On average, (5(n - 1) - 1)/2: each that lives notices in a run of its own.",
            |size| mean(size, (0..size - 1).map(|initiator| one(size, &[initiator]))),
        ),
        Case::new("The two lowest notice at once: what the lowest alone costs.", |size| {
            one(size, if size > 2 { &[0, 1] } else { &[0] })
        }),
        Case::new("All that live notice at once: again what the lowest alone costs.", |size| {
            one(size, &(0..size - 1).collect::<Vec<_>>())
        }),
    ]
}

/// The spanning tree in a full mesh, by the members that notice.
pub(crate) fn spanning_tree() -> Vec<Case> {
    let one = |size: u32, initiators: &[u32]| {
        let (n, wait) = (u64::from(size), u64::from(ANSWER));
        let (living, begin) = (n - 1, initiators.len() as u64);
        let seen = elect::<SpanningTree>(size, initiators);
        let to_the_dead = seen.lost();
        let kept = ["probe", "reply"].map(|name| seen.sent(name)).iter().sum::<u64>();
        let counted = seen.sim.sent_in_all() - kept - to_the_dead;
        // Each that joins one computation after the other asks the dead member in each, and replies to its parent.
        let joined = (living - begin) * begin + cost::full_mesh(begin);
        let replies = if n > 2 { joined } else { 0 };
        // The winner's source finds the dead member dead before the others do, and asks these once more.
        let asked_again = living.saturating_sub(1);
        let on_top = begin + joined + replies + 2 * asked_again;
        Outcome {
            size,
            runs: 1,
            messages: hold(counted, Sent::Exactly(cost::spanning_tree_at_once(living, begin))),
            on_top: hold(kept + to_the_dead, Sent::Exactly(on_top)),
            // The last to join waits for Δt from then on, and reports; then the leader is announced.
            turnaround: took(seen.all_know, Sent::Exactly(if n > 2 { wait + 3 } else { wait })),
        }
    };
    for n in ALL_SIZES.map(u64::from) {
        assert_eq!(cost::spanning_tree_living(n - 1), (n - 2) * (2 * n - 3), "the page's formula");
        assert_eq!(cost::spanning_tree_at_once(n, 1), cost::spanning_tree_living(n));
        let most = cost::spanning_tree_at_once(n, n);
        assert_eq!(2 * most, n * (n - 1) * (n + 2));
        assert!(most <= cost::spanning_tree_most(n));
    }
    vec![
        Case::new(
            "At best, and on average, (n - 2)(2n - 3) messages: one notices. Each that lives does in a run of its own, and all cost the same.",
            |size| mean(size, (0..size - 1).map(|initiator| one(size, &[initiator]))),
        ),
        Case::new("The two lowest notice at once.", |size| {
            one(size, if size > 2 { &[0, 1] } else { &[0] })
        }),
        Case::new(
            "All that live notice at once, and the lowest is heard first: (n - 1)(n - 2)(n + 1)/2.",
            |size| one(size, &(0..size - 1).collect::<Vec<_>>()),
        ),
    ]
}

/// Several runs in groups of one size.
fn mean(size: u32, runs: impl Iterator<Item = Outcome>) -> Outcome {
    let exact = |sent: Sent| match sent {
        Sent::Exactly(value) => value,
        Sent::Between(..) | Sent::AtLeast(_) | Sent::AtMost(_) | Sent::Nothing => {
            panic!("{sent:?} has no mean")
        }
    };
    let mut all = Outcome {
        size,
        runs: 0,
        messages: (0, Sent::Exactly(0)),
        on_top: (0, Sent::Exactly(0)),
        turnaround: (Mean { sum: 0, count: UNIT }, Sent::Exactly(0)),
    };
    let add = |sum: &mut Sent, one: Sent| *sum = Sent::Exactly(exact(*sum) + exact(one));
    for run in runs {
        all.runs += 1;
        all.messages.0 += run.messages.0;
        add(&mut all.messages.1, run.messages.1);
        all.on_top.0 += run.on_top.0;
        add(&mut all.on_top.1, run.on_top.1);
        all.turnaround.0.sum += run.turnaround.0.sum;
        add(&mut all.turnaround.1, run.turnaround.1);
    }
    all.turnaround.0.count = UNIT * all.runs;
    all
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

/// A group whose highest rank is dead, before anybody notices.
pub(crate) fn bereft<P: Election>(size: u32) -> Simulator<P> {
    let timing = Timing { answer: T * ANSWER, announcement: T * ANNOUNCEMENT };
    let dead = view(size).leader;
    let mut sim = Simulator::new(0);
    sim.set_delay(T, T);
    for me in view(size).peers(dead) {
        sim.add(me, P::new(Place::new(me, view(size)), timing));
        sim.cut(me, dead);
    }
    sim
}

/// These notice at once that the highest rank is dead. In the end all that live follow the second
/// highest.
fn elect<P: Election>(size: u32, initiators: &[u32]) -> Seen<P> {
    let mut sim = bereft::<P>(size);
    for one in initiators {
        sim.command(MemberId(*one), Command::Elect);
    }
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
pub(crate) fn hold(measured: u64, messages: Sent) -> (u64, Sent) {
    assert!(messages.admits(measured), "{measured} is not {messages:?}");
    (measured, messages)
}

#[track_caller]
pub(crate) fn took(time: Duration, messages: Sent) -> (Mean, Sent) {
    hold(nanos(time), messages.map(|times| times * UNIT));
    (Mean { sum: nanos(time), count: UNIT }, messages)
}
