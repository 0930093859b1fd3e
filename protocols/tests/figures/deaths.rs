//! A member dies in the middle of an election: each of them, at every step. The election still ends, with one
//! leader among those that live, and costs no more than a bound.
//!
//! `election_laws.rs` searches all orders of what happens, and looks at the winner. Here it is what it costs.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::election::{
    Bully, ChangRoberts, Command, Election, Ring, SpanningTree, Timing as Waits,
};
use conclave_protocols::member::Node;
use conclave_protocols::member::message::ElectionPart;
use conclave_protocols::policy::{ElectionAlgorithm, Timing};
use conclave_protocols::sim::Simulator;
use conclave_protocols::{Incarnation, MemberId, cost};

use crate::elections::{bereft, hold};
use crate::measure::T;
use crate::sent::Sent;
use crate::whole::{Pod, Whole};

/// All deaths in the elections of one size.
pub(crate) struct Deaths {
    pub(crate) size: u32,
    /// How many were tried.
    pub(crate) tried: u64,
    /// The most messages that the source counts, and the bound.
    pub(crate) messages: (u64, Sent),
    /// The longest time until another leads.
    pub(crate) longest: Duration,
}

/// What one death led to.
struct End {
    messages: u64,
    took: Duration,
}

/// Where deaths are tried.
pub(crate) struct Tried {
    pub(crate) plain: Vec<Deaths>,
    pub(crate) ballots: Vec<Deaths>,
    pub(crate) nominations: Vec<Deaths>,
}

/// The sizes: members that live when the election begins, or candidates.
const SIZES: std::ops::RangeInclusive<u32> = 2..=6;

/// All of one algorithm.
pub(crate) fn all(algorithm: ElectionAlgorithm) -> Tried {
    let mut whole = Whole::new(algorithm);
    let mut tried = Tried { plain: vec![], ballots: vec![], nominations: vec![] };
    for size in SIZES {
        tried.plain.push(match algorithm {
            ElectionAlgorithm::Bully => plain::<Bully>(size, most(algorithm, size)),
            ElectionAlgorithm::Ring => plain::<Ring>(size, most(algorithm, size)),
            ElectionAlgorithm::ChangRoberts => plain::<ChangRoberts>(size, most(algorithm, size)),
            ElectionAlgorithm::SpanningTree => plain::<SpanningTree>(size, most(algorithm, size)),
        });
        whole.grow(size + 1);
        tried.ballots.push(ballots(algorithm, &whole, size));
        tried.nominations.push(nominations(algorithm, &whole, size));
    }
    tried
}

/// What an election of so many costs that all begin at once.
fn most(algorithm: ElectionAlgorithm, living: u32) -> u64 {
    let n = u64::from(living) + 1;
    match algorithm {
        ElectionAlgorithm::Bully => cost::bully_worst(n) + cost::bully_announced_upwards(n, n - 2),
        ElectionAlgorithm::Ring => cost::ring(n, n - 1),
        // Two sends to the member that was dead from the beginning.
        ElectionAlgorithm::ChangRoberts => cost::chang_roberts(n, 0) + 2,
        // It is asked in each computation that a member joins.
        ElectionAlgorithm::SpanningTree => cost::spanning_tree_most(n),
    }
}

fn summary(size: u32, ends: &[End], most: u64) -> Deaths {
    assert!(!ends.is_empty());
    let worst = ends.iter().map(|end| end.messages).max().unwrap_or(0);
    Deaths {
        size,
        tried: ends.len() as u64,
        messages: hold(worst, Sent::AtMost(most)),
        longest: ends.iter().map(|end| end.took).max().unwrap_or_default(),
    }
}

/// The algorithm alone: each that lives notices by itself, or all do at once.
fn plain<P: Election + Clone>(living: u32, most: u64) -> Deaths {
    let each = (0..living).map(|initiator| vec![initiator]);
    let mut ends = vec![];
    for initiators in each.chain([(0..living).collect()]) {
        let mut sim = bereft::<P>(living + 1);
        for one in initiators {
            sim.command(MemberId(one), Command::Elect);
        }
        loop {
            for victim in (0..living).map(MemberId) {
                ends.push(without(sim.clone(), victim));
            }
            if !sim.step_until(Duration::from_mins(1)) {
                break;
            }
        }
    }
    summary(living, &ends, 2 * most)
}

/// That one dies now. Those that live notice when the one that they follow is dead, or nobody elects any more.
fn without<P: Election>(mut sim: Simulator<P>, victim: MemberId) -> End {
    let died = sim.now();
    sim.crash(victim);
    for _ in 0..ROUNDS {
        let mut ended = sim.now();
        while sim.step_until(Duration::from_mins(1)) {
            ended = sim.now();
        }
        let lost: Vec<MemberId> = sim
            .nodes()
            .filter(|(_, node)| node.elected().is_none_or(|leader| sim.node(leader).is_none()))
            .map(|(me, _)| me)
            .collect();
        if lost.is_empty() {
            let leaders: Vec<_> = sim.nodes().map(|(_, node)| node.elected()).collect();
            let highest = sim.nodes().map(|(me, _)| me).max();
            assert!(
                leaders.iter().all(|leader| *leader == highest),
                "{leaders:?} without {victim}"
            );
            let on_top: u64 =
                ["ack", "probe", "reply", "outdated"].iter().map(|name| sim.sent(name)).sum();
            return End { messages: sim.sent_in_all() - on_top, took: ended.saturating_sub(died) };
        }
        for me in lost {
            sim.command(me, Command::Elect);
        }
    }
    panic!("without {victim} no election comes to an end");
}

/// How often those that live notice at most.
const ROUNDS: u32 = 8;

/// A ballot in its worst case: the caller, which had the lead, is no candidate any more. The caller may die too.
fn ballots(algorithm: ElectionAlgorithm, whole: &Whole, size: u32) -> Deaths {
    let (mut run, ranks) = (whole.clone(), whole.ranks());
    let former = ranks[size as usize];
    run.stand(former, 0);
    run.sim.run_for(T * 20);
    ranks[..size as usize].iter().for_each(|candidate| run.stand(*candidate, 0));
    run.sim.run_for(Timing::default().heartbeat * 4);
    let before = sent(&run, |pod| &pod.named);
    run.withdraw(former);
    let mut ends = vec![];
    let known = run.led_by_another_than(former) + T * 2;
    while run.sim.now() <= known {
        for victim in &ranks {
            let mut run = run.clone();
            let (died, of_it) = (run.sim.now(), run.sent_by(*victim, |pod| &pod.named));
            run.sim.crash(Node::Member(*victim));
            run.until("another leads", |run| {
                run.lead().is_some_and(|lead| lead != *victim && lead != former)
            });
            let took = run.sim.now().saturating_sub(died);
            run.sim.run_for(Duration::from_secs(1));
            assert!(run.lead().is_some());
            let messages = sent(&run, |pod| &pod.named) + of_it - before;
            ends.push(End { messages, took });
        }
        assert!(run.sim.step_until(run.sim.now() + Duration::from_secs(5)));
    }
    let n = u64::from(size);
    let most = match algorithm {
        ElectionAlgorithm::Bully => {
            2 * (cost::bully_living(n, 0) + cost::bully_announced_again(n, 0))
        }
        ElectionAlgorithm::Ring => 2 * cost::ring_living(n),
        ElectionAlgorithm::ChangRoberts => 2 * cost::chang_roberts_living(n, 0),
        // All that have lost their parent begin at once.
        ElectionAlgorithm::SpanningTree => {
            cost::spanning_tree_living(n) + cost::spanning_tree_most(n)
        }
    };
    summary(size, &ends, most)
}

/// The leader has died, and so many others nominate. Then one of them dies too.
fn nominations(algorithm: ElectionAlgorithm, whole: &Whole, size: u32) -> Deaths {
    let (mut run, ranks) = (whole.clone(), whole.ranks());
    let leader = run.group_leader().expect("it leads");
    run.sim.crash(Node::Member(leader));
    run.until("promises run out", |run| sent(run, |pod| &pod.nominating) > 0);
    let mut ends = vec![];
    while run.group_leader().is_none() {
        for victim in ranks.iter().filter(|one| **one != leader) {
            let mut run = run.clone();
            let (died, of_it) = (run.sim.now(), run.sent_by(*victim, |pod| &pod.nominating));
            run.sim.crash(Node::Member(*victim));
            run.until("another leads", |run| run.group_leader().is_some());
            let took = run.sim.now().saturating_sub(died);
            run.sim.run_for(Waits::of(Timing::default().leader_lease).answer * 4);
            assert!(run.group_leader().is_some());
            ends.push(End { messages: sent(&run, |pod| &pod.nominating) + of_it, took });
        }
        assert!(run.sim.step_until(run.sim.now() + Duration::from_secs(5)));
    }
    summary(size, &ends, 2 * most(algorithm, size))
}

fn sent(run: &Whole, of: fn(&Pod) -> &BTreeMap<ElectionPart, u64>) -> u64 {
    run.count(of, ElectionPart::Textbook)
}

impl Whole {
    /// When another leads, if nobody dies.
    fn led_by_another_than(&self, former: Incarnation) -> Duration {
        let mut run = self.clone();
        run.until("another leads", |run| run.lead().is_some_and(|lead| lead != former));
        run.sim.now()
    }

    fn sent_by(&self, member: Incarnation, of: fn(&Pod) -> &BTreeMap<ElectionPart, u64>) -> u64 {
        let pod = self.pod(member);
        pod.and_then(|pod| of(pod).get(&ElectionPart::Textbook).copied()).unwrap_or(0)
    }
}
