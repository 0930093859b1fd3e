//! The same elections as whole members hold them: a ballot of a named election, and the nomination of the
//! group's next leader.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::cost;
use conclave_protocols::election::Timing as Waits;
use conclave_protocols::member::Node;
use conclave_protocols::member::message::ElectionPart;
use conclave_protocols::policy::{ElectionAlgorithm, Timing};

use crate::elections::{ALL_SIZES, hold};
use crate::measure::{T, UNIT};
use crate::sent::{Sent, nanos};
use crate::whole::{Pod, Whole};

/// One election of whole members.
pub(crate) struct Held {
    pub(crate) size: u32,
    /// Messages that the sources count.
    pub(crate) messages: (u64, Sent),
    /// What the algorithm sends on top.
    pub(crate) on_top: (u64, Sent),
    /// What is sent around it.
    pub(crate) notices: (u64, Sent),
    /// How long it took, in T; of a nomination without its Δt.
    pub(crate) took: (u64, Sent),
}

/// What whole members of one algorithm cost, in groups of all sizes.
pub(crate) struct Costs {
    /// The member that begins has the highest rank in the ballot, a middle one, the lowest.
    pub(crate) ballots: [Vec<Held>; 3],
    pub(crate) nominations: Vec<Held>,
}

/// Which place in the ballot the member has that begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Begins {
    Highest,
    Middle,
    Lowest,
}

/// All of one algorithm.
pub(crate) fn all(algorithm: ElectionAlgorithm) -> Costs {
    let mut whole = Whole::new(algorithm);
    let begins = [Begins::Highest, Begins::Middle, Begins::Lowest];
    let mut costs = Costs { ballots: [vec![], vec![], vec![]], nominations: vec![] };
    for size in ALL_SIZES {
        whole.grow(size);
        costs.nominations.push(nomination(algorithm, &whole, size));
        whole.grow(size + 1);
        for (ballots, begins) in costs.ballots.iter_mut().zip(begins) {
            ballots.push(ballot(algorithm, &whole, size, begins));
        }
    }
    costs
}

/// One member more than there are candidates has the lead, and gives it up.
fn ballot(algorithm: ElectionAlgorithm, whole: &Whole, size: u32, begins: Begins) -> Held {
    let (mut run, ranks) = (whole.clone(), whole.ranks());
    assert_eq!(ranks.last(), run.group_leader().as_ref(), "it has the highest rank, and calls");
    let (former, candidates) = match begins {
        Begins::Highest => (ranks[0], &ranks[1..]),
        Begins::Middle | Begins::Lowest => (ranks[size as usize], &ranks[..size as usize]),
    };
    // The lowest rank begins if the caller is no candidate. Members of a lower priority are before it.
    let place = match begins {
        Begins::Highest => size - 1,
        Begins::Middle => size / 2,
        Begins::Lowest => 0,
    };
    run.stand(former, 0);
    run.sim.run_for(T * 20);
    assert_eq!(run.lead(), Some(former));
    for (rank, candidate) in (0..).zip(candidates) {
        let before = begins == Begins::Middle && (1..=place).contains(&rank);
        run.stand(*candidate, if before { -1 } else { 0 });
    }
    run.sim.run_for(Timing::default().heartbeat * 4);
    let before = counts(&run, |pod| &pod.named);
    let (coordinators, reported, start) =
        (run.sim.sent("coordinator"), run.reported(), run.sim.now());
    run.withdraw(former);
    run.until("another leads", |run| run.lead().is_some_and(|lead| lead != former));
    let took = run.sim.now().saturating_sub(start);
    run.sim.run_for(T * 300);
    let [textbook, acks, notices] = counts(&run, |pod| &pod.named);
    let textbook = textbook - before[0];
    let (n, begun) = (u64::from(size), u64::from(place));
    let again = match algorithm {
        ElectionAlgorithm::Bully => run.sim.sent("coordinator") - coordinators - (n - 1),
        ElectionAlgorithm::Ring
        | ElectionAlgorithm::ChangRoberts
        | ElectionAlgorithm::SpanningTree => 0,
    };
    let called = begins == Begins::Highest;
    let (messages, on_top, transfers) = match algorithm {
        ElectionAlgorithm::Bully => (
            cost::bully_living(n, begun),
            Sent::Exactly(cost::bully_announced_again(n, begun)),
            // The withdrawal; or the call, the question, and the nominee asks and is granted.
            if called { 1 } else { 3 + u64::from(begun < n - 1) },
        ),
        ElectionAlgorithm::Ring => {
            // So far from the first to the nominee. It has the lead at once or after two transfers, and one
            // later the others know, and pass on no more.
            let hops = n - 1 - begun;
            let known = n + hops + if called { 2 } else { 3 };
            let messages = known.min(cost::ring_living(n));
            // What arrives after that is not acknowledged.
            let on_top = Sent::Between(messages - 1, messages);
            (messages, on_top, if called { n + 1 } else { n + hops + 3 })
        }
        ElectionAlgorithm::ChangRoberts => {
            // The nominee sends the announcement itself. Up to then its identifier went round, after a step of
            // each below it.
            let hops = n - 1 - begun;
            let known = n + hops + if called { 2 } else { 3 };
            let messages = known.min(cost::chang_roberts_living(n, begun));
            let on_top = Sent::Between(messages - 1, messages);
            (messages, on_top, if called { n + 1 } else { n + hops + 3 })
        }
        // ELECTION, and then a question and an answer between those that joined, before they report. Where the
        // caller does not stand the call is before it, the announcement after it, and the nominee asks the caller.
        ElectionAlgorithm::SpanningTree => {
            let tree = if n > 2 { 4 } else { 2 };
            let around = if called { 1 } else { 3 + u64::from(begun < n - 1) };
            let on_top = Sent::Exactly(if n > 2 { n - 1 } else { 0 });
            (cost::spanning_tree_living(n), on_top, tree + around)
        }
    };
    // Members were notified of what they sent up to the outcome: of all, but for what a bully announces again and
    // what those send that learn who leads before the list reaches them.
    let known = run.reported() - reported;
    match (algorithm, begins) {
        (ElectionAlgorithm::Bully, Begins::Highest) | (ElectionAlgorithm::Ring, Begins::Lowest) => {
            assert_eq!(known, textbook);
        }
        _ => assert!(known <= textbook, "{known} of {textbook}"),
    }
    Held {
        size,
        messages: hold(textbook - again, Sent::Exactly(messages)),
        on_top: hold(again + acks - before[1], on_top),
        notices: hold(notices - before[2], Sent::Exactly(5 * n)),
        took: hold(nanos(took) / UNIT, Sent::Exactly(transfers)),
    }
}

/// The leader dies, and the promises of all run out.
fn nomination(algorithm: ElectionAlgorithm, whole: &Whole, size: u32) -> Held {
    let (mut run, ranks) = (whole.clone(), whole.ranks());
    let leader = run.group_leader().expect("it leads");
    assert_eq!(ranks.last(), Some(&leader), "it has the highest rank");
    run.sim.crash(Node::Member(leader));
    let sent = |run: &Whole| counts(run, |pod| &pod.nominating);
    let announced = run.sim.sent("coordinator");
    run.until("promises run out", |run| sent(run)[0] > 0);
    let start = run.sim.now();
    run.until("another leads", |run| run.group_leader().is_some());
    assert_eq!(run.group_leader(), Some(ranks[ranks.len() - 2]), "the second highest");
    let took = run.sim.now().saturating_sub(start);
    let wait = Waits::of(Timing::default().leader_lease).answer;
    run.sim.run_for(Duration::from_secs(2));
    let [textbook, acks, notices] = sent(&run);
    let n = u64::from(size);
    // An acknowledgement is of a message that arrived.
    assert!(acks <= textbook);
    let (messages, on_top, transfers) = match algorithm {
        ElectionAlgorithm::Bully => {
            // All that live but the winner are notified by it; the dead one too, and that is on top.
            let upwards = run.sim.sent("coordinator") - announced - (n - 2);
            (
                hold(textbook - upwards, Sent::Exactly(cost::bully_worst(n))),
                hold(acks + upwards, Sent::Exactly(cost::bully_announced_upwards(n, n - 2))),
                if n == 2 { 4 } else { 8 },
            )
        }
        // Each message is acknowledged at most once.
        ElectionAlgorithm::Ring => {
            let most = Sent::AtMost(cost::ring_next(n));
            (hold(textbook, most), hold(acks, most), if n == 2 { 4 } else { n + 7 })
        }
        ElectionAlgorithm::ChangRoberts => {
            let most = Sent::AtMost(cost::chang_roberts_next(n));
            (hold(textbook, most), hold(acks, most), if n == 2 { 4 } else { n + 7 })
        }
        ElectionAlgorithm::SpanningTree => (
            hold(textbook, Sent::AtMost(cost::spanning_tree_next(n))),
            hold(acks, Sent::Exactly(cost::full_mesh(n - 1) + 2 * (n - 2))),
            if n == 2 { 4 } else { 10 },
        ),
    };
    let took = hold(nanos(took.saturating_sub(wait)) / UNIT, Sent::Exactly(transfers));
    Held { size, messages, on_top, notices: hold(notices, Sent::Exactly(0)), took }
}

fn counts(whole: &Whole, of: fn(&Pod) -> &BTreeMap<ElectionPart, u64>) -> [u64; 3] {
    [ElectionPart::Textbook, ElectionPart::Acknowledgement, ElectionPart::Notice]
        .map(|part| whole.count(of, part))
}
