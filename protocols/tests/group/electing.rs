//! Elections by capacity, and a change of each algorithm into each other while the group lives.

use std::collections::BTreeSet;
use std::time::Duration;

use conclave_protocols::election::AnyMessage;
use conclave_protocols::elections::message::{ElectionMessage, What};
use conclave_protocols::member::Command;
use conclave_protocols::member::message::{Message, PeerMessage, ServiceMessage};
use conclave_protocols::policy::{ElectionAlgorithm, ElectionPolicy, Policy, Timing};
use conclave_protocols::sim::circuit;

use crate::bench::{Bench, SECOND};
use crate::named_elections::{LEAD, Named};
use crate::world::{DRIFT, Variety, World};

const MILLI: Duration = Duration::from_millis(1);

fn bench(algorithm: ElectionAlgorithm, capacities: &[u32]) -> Bench {
    let policy = Policy { election: algorithm, ..Policy::default() };
    Bench::of_capacities(capacities, policy)
}

/// With the others, the second in the order of seniority follows the first.
#[test]
fn the_member_of_the_greatest_capacity_follows_a_leader_that_dies() {
    for (capacities, tree) in
        [(&[9, 0, 3, 7][..], 3), (&[0, 1, 2, 1], 2), (&[0, 5, 0, 5], 1), (&[3, 0, 0, 0], 1)]
    {
        for algorithm in ElectionAlgorithm::ALL {
            let mut bench = bench(algorithm, capacities);
            bench.stop(0);
            bench.wait(SECOND * 4);
            let next = if algorithm == ElectionAlgorithm::SpanningTree { tree } else { 1 };
            assert_eq!(bench.leader(), Some(next), "{algorithm:?} of {capacities:?}");
        }
    }
}

#[test]
fn each_leader_that_dies_is_followed_by_the_best_of_those_that_live() {
    let mut bench = bench(ElectionAlgorithm::SpanningTree, &[0, 2, 8, 4, 6, 8, 1]);
    // Among equals the one that came first has the higher rank. The last three are no majority.
    for (dies, next) in [(0, 2), (2, 5), (5, 4)] {
        bench.stop(dies);
        bench.wait(SECOND * 12);
        assert_eq!(bench.leader(), Some(next), "without {dies}");
    }
}

/// Of the priorities 0, 1, 2, 0 and 1, and among equals the one that came first; by capacity, which is 1, 2, 0, 2 and 1, of
/// those that have the greatest.
#[test]
fn the_member_of_the_highest_priority_leads_the_group_next_and_takes_the_lead_from_nobody() {
    for algorithm in ElectionAlgorithm::ALL {
        let policy = Policy { timing: Timing::FAST, election: algorithm, ..Policy::default() };
        let variety = Variety { priorities: true, ..Variety::default() };
        let mut world = World::with_variety(7, 1, policy, DRIFT, variety);
        world.run_until("it leads", SECOND * 10, |world| world.leader() == Some(0));
        for member in 1..5 {
            assert_eq!(world.join(), member);
            world.run_until("it is in", SECOND * 10, |world| {
                world.record().members.len() == member + 1
            });
        }
        world.run_for(SECOND);
        assert_eq!(world.leader(), Some(0), "{algorithm:?}: those that came later follow");
        let tree = algorithm == ElectionAlgorithm::SpanningTree;
        for next in if tree { [1, 3] } else { [2, 1] } {
            let (leader, epoch) = (world.leader().expect("one leads"), world.record().epoch);
            world.crash(leader);
            world.run_until("another leads", SECOND * 20, |world| {
                world.leader().is_some_and(|one| one != leader)
            });
            assert_eq!(world.leader(), Some(next), "{algorithm:?}");
            assert!(world.record().epoch > epoch, "{algorithm:?}: a later view");
            world.run_for(SECOND * 10);
        }
    }
}

/// The leader of the group, which calls the ballots, does not stand.
#[test]
fn in_a_named_election_the_priority_goes_before_the_capacity_and_that_before_the_rank() {
    for (priorities, nominee) in [([0, 0, 0], 3), ([0, 1, 1], 3), ([1, 0, 0], 1), ([-1, 0, -1], 2)]
    {
        let policy = ElectionPolicy::new("reports", ElectionAlgorithm::SpanningTree);
        let mut named = Named::among(policy, &[0, 1, 5, 9, 7]);
        named.stand(4, 0);
        assert_eq!(named.leader(), Some(4), "it is alone");
        for (member, priority) in (1..).zip(priorities) {
            named.stand(member, priority);
        }
        named.wait(SECOND);
        assert_eq!(named.leader(), Some(4), "a greater capacity takes nothing from it");
        named.withdraw(4);
        named.wait(SECOND);
        assert_eq!(named.leader(), Some(nominee), "{priorities:?}");
    }
}

/// The ring of a view is that of its members, and the dead are not in the next view.
#[test]
fn a_member_that_died_before_is_sent_nothing_by_the_ring_of_the_next_view() {
    for algorithm in [ElectionAlgorithm::Ring, ElectionAlgorithm::ChangRoberts] {
        let mut bench = bench(algorithm, &[0; 5]);
        let nominating = |bench: &Bench, to: usize| {
            let to = bench.node(to);
            let sent = bench.sent.iter().filter(|(_, whom, _)| *whom == to);
            let is_of_it =
                |message: &Message| matches!(message, Message::Peer(PeerMessage::Nominator { .. }));
            sent.filter(|(_, _, message)| is_of_it(message)).count()
        };
        let mut dead: Vec<usize> = Vec::new();
        for _ in 0..2 {
            let leader = bench.leader().expect("one leads");
            let epoch = bench.record().epoch;
            bench.forget();
            bench.stop(leader);
            bench.wait(SECOND * 4);
            let next = bench.leader().expect("another leads");
            assert!(next != leader && bench.record().epoch > epoch, "{algorithm:?}");
            assert!(nominating(&bench, next) > 0, "{algorithm:?}");
            assert!(
                nominating(&bench, leader) > 0,
                "{algorithm:?}: none knew that {leader} is dead"
            );
            for one in &dead {
                assert_eq!(nominating(&bench, *one), 0, "{algorithm:?}: {one} is no member");
            }
            dead.push(leader);
            let died = bench.members[leader].me();
            assert_eq!(bench.record().rank(died), None, "{algorithm:?}");
        }
    }
}

/// The leader dies just before members hear of the new policy, as they do, or just after.
#[test]
fn each_algorithm_takes_the_place_of_each_other_also_when_the_leader_dies_meanwhile() {
    let changes = circuit(ElectionAlgorithm::ALL.len());
    for (seed, late) in [(1, -20), (2, 0), (3, 5), (4, 40)] {
        let election = ElectionAlgorithm::ALL[changes[0].0];
        let policy = Policy { timing: Timing::FAST, election, ..Policy::default() };
        let mut world = World::new(seed, 5, policy.clone());
        world.run_until("one leads", SECOND * 10, |world| world.leaders().len() == 1);
        for (generation, (from, to)) in (1..).zip(&changes) {
            let (from, to) = (ElectionAlgorithm::ALL[*from], ElectionAlgorithm::ALL[*to]);
            assert_eq!(world.record().policy.election, from);
            let (leader, epoch) = (world.leaders()[0], world.record().epoch);
            let policy = Policy { generation, election: to, ..policy.clone() };
            let wait = Duration::from_millis(u64::from(i32::unsigned_abs(late)));
            if late < 0 {
                world.crash(leader);
                world.run_for(wait);
                world.set_policy(&policy);
            } else {
                world.set_policy(&policy);
                world.run_for(wait);
                world.crash(leader);
            }
            world.run_until("another leads by it", SECOND * 20, |world| {
                let next = world.leader().filter(|next| *next != leader);
                next.is_some() && world.record().policy.election == to
            });
            let elected = world.record().epoch;
            assert!(elected > epoch, "seed {seed}: {from:?} to {to:?}: {elected} after {epoch}");
            world.join();
            world.run_until("all that live are in one view", SECOND * 20, |world| {
                let record = world.record();
                let belongs = |one| record.rank(world.incarnation(one)).is_some();
                record.members.len() == 5
                    && world.living().all(belongs)
                    && world.leader().is_some_and(|leader| world.member(leader).is_some())
            });
            let joined = world.record().epoch;
            assert!(joined > elected, "seed {seed}: {from:?} to {to:?}: {joined} after {elected}");
        }
        world.check_history();
    }
}

/// A living group with one named election, whose algorithm changes. Members that died are followed by new ones.
struct Changing {
    named: Named,
    living: BTreeSet<usize>,
    generation: i64,
    /// The highest token of a leader so far.
    token: Option<u64>,
}

impl Changing {
    /// Five members, of which the first leads the group, and stands or does not.
    fn new(algorithm: ElectionAlgorithm, all_stand: bool) -> Self {
        let named = Named::group(5, algorithm);
        let mut changing = Self { named, living: (0..5).collect(), generation: 0, token: None };
        for member in usize::from(!all_stand)..5 {
            changing.named.stand(member, 0);
        }
        changing.until_another_leads(None, "at first");
        changing
    }

    fn change(&mut self, to: ElectionAlgorithm) {
        self.generation += 1;
        let elections = vec![ElectionPolicy::new("reports", to)];
        let bench = &mut self.named.bench;
        bench.policy = Policy { generation: self.generation, elections, ..bench.policy.clone() };
        for member in &self.living {
            let policy = Box::new(self.named.bench.policy.clone());
            self.named.bench.command(*member, Command::Policy(policy));
        }
        self.named.heed();
    }

    fn end_the_lead(&mut self, of: usize, dies: bool) {
        if dies {
            self.living.remove(&of);
            self.named.bench.stop(of);
        } else {
            self.named.withdraw(of);
        }
    }

    /// Somebody else leads, with a higher token than anybody before, and it is by itself from then on.
    fn until_another_leads(&mut self, last: Option<usize>, case: &str) {
        let timing = Policy::default().timing;
        let end = self.named.bench.now.after(timing.member_lease + timing.leader_lease * 6);
        let other = |named: &Named| named.leader().filter(|leader| Some(*leader) != last);
        while other(&self.named).is_none() {
            assert!(self.named.bench.now < end, "{case}: nobody else leads");
            self.named.wait(MILLI * 10);
        }
        let leader = other(&self.named);
        for _ in 0..100 {
            self.named.wait(MILLI * 20);
            assert_eq!(self.named.leader(), leader, "{case}");
        }
        let token = leader.and_then(|leader| self.named.bench.tokens(leader, LEAD).pop());
        assert!(token > self.token, "{case}: {token:?} after {:?}", self.token);
        self.token = token;
    }

    /// Five live and are in one view, and the member that withdrew stands again.
    fn fill_up(&mut self, withdrawn: Option<usize>) {
        let new = (self.living.len() < 5).then(|| self.named.bench.start());
        self.living.extend(new);
        if let Some(member) = withdrawn.or(new) {
            self.named.stand(member, 0);
        }
        let end = self.named.bench.now.after(Policy::default().timing.member_lease * 2);
        while !self.are_the_members() {
            assert!(self.named.bench.now < end, "{:?} are in no view of their own", self.living);
            self.named.wait(MILLI * 100);
        }
        self.named.wait(SECOND * 3);
    }

    fn are_the_members(&self) -> bool {
        let bench = &self.named.bench;
        let record = bench.record();
        let belongs = |one: &usize| record.rank(bench.members[*one].me()).is_some();
        record.members.len() == self.living.len() && self.living.iter().all(belongs)
    }

    /// The algorithms by which ballots were held since the last look.
    fn algorithms(&mut self) -> BTreeSet<ElectionAlgorithm> {
        let of = |message: &Message| match message {
            Message::Peer(PeerMessage::Service(envelope)) => match &envelope.body {
                ServiceMessage::Election(ElectionMessage {
                    what: What::Nominate { message, .. },
                    ..
                }) => Some(match message {
                    AnyMessage::Bully(_) => ElectionAlgorithm::Bully,
                    AnyMessage::Ring(_) => ElectionAlgorithm::Ring,
                    AnyMessage::ChangRoberts(_) => ElectionAlgorithm::ChangRoberts,
                    AnyMessage::SpanningTree(_) => ElectionAlgorithm::SpanningTree,
                }),
                ServiceMessage::Election(_) | ServiceMessage::Lock(_) => None,
            },
            Message::Peer(_) | Message::Register(_) => None,
        };
        std::mem::take(&mut self.named.bench.sent).iter().filter_map(|(_, _, m)| of(m)).collect()
    }
}

/// A leader withdraws or dies just before members hear of the new algorithm, or just after. It may lead the group too.
#[test]
fn in_a_named_election_each_algorithm_takes_the_place_of_each_other() {
    for (all_stand, dies) in [(false, false), (false, true), (true, false), (true, true)] {
        for late in [false, true] {
            let changes = circuit(ElectionAlgorithm::ALL.len());
            let mut changing = Changing::new(ElectionAlgorithm::ALL[changes[0].0], all_stand);
            let (mut of_the_group, mut of_others) = (0, 0);
            for (from, to) in changes {
                let (from, to) = (ElectionAlgorithm::ALL[from], ElectionAlgorithm::ALL[to]);
                let case = format!("{from:?} to {to:?}; {all_stand} {dies} {late}");
                let leader = changing.named.leader().expect("one leads");
                let epoch = changing.named.bench.record().epoch;
                if changing.named.bench.leader() == Some(leader) {
                    of_the_group += 1;
                } else {
                    of_others += 1;
                }
                changing.algorithms();
                if late {
                    changing.change(to);
                    changing.named.wait(SECOND);
                    assert!(changing.algorithms().is_empty(), "{case}: one leads all the time");
                    changing.end_the_lead(leader, dies);
                } else {
                    changing.end_the_lead(leader, dies);
                    changing.change(to);
                }
                changing.until_another_leads(Some(leader), &case);
                let held = changing.algorithms();
                // On the bench a ballot takes no time: one that a withdrawal calls is over before the change.
                let by = if late || dies { to } else { from };
                assert_eq!(held, [by].into(), "{case}");
                assert_eq!(changing.named.bench.record().policy.elections[0].algorithm, to);
                assert!(changing.named.bench.record().epoch > epoch, "{case}");
                changing.fill_up((!dies).then_some(leader));
            }
            println!("{all_stand} {dies} {late}: {of_the_group} of the group, {of_others} others");
            assert!(of_others > 0 || all_stand);
        }
    }
}
