//! Named elections on the bench: who is nominated, what that costs, and what becomes of a lead.

use std::collections::BTreeSet;
use std::time::Duration;

use conclave_protocols::elections::hold_of;
use conclave_protocols::member::message::{Message, PeerMessage, ServiceMessage};
use conclave_protocols::member::{
    Candidacy, Command, ElectionCommand, ElectionEvent, Event, OfElection, OfService,
};
use conclave_protocols::policy::{ElectionAlgorithm, ElectionPolicy, Policy, Preemption, Timing};
use conclave_protocols::protocol::Named as _;

use crate::bench::{Bench, Link, SECOND};
use crate::storm::Storm;

pub(crate) const LEAD: &str = "election/reports";

/// A group with one named election. Applications do what a sidecar does for them: a nominee asks for the lead.
pub(crate) struct Named {
    pub(crate) bench: Bench,
    candidates: BTreeSet<usize>,
    pub(crate) asked: BTreeSet<usize>,
    /// Whether a nominee asks for the lead.
    pub(crate) asks: bool,
    /// Whether a leader that is to give the lead to another does.
    pub(crate) yields: bool,
    /// How often leaders were asked to.
    pub(crate) asked_to_yield: usize,
    /// How much of what was reported was looked at.
    pub(crate) heard: usize,
}

impl Named {
    pub(crate) fn group(members: usize, algorithm: ElectionAlgorithm) -> Self {
        Self::of(members, ElectionPolicy::new("reports", algorithm))
    }

    pub(crate) fn of(members: usize, policy: ElectionPolicy) -> Self {
        Self::among(policy, &vec![0; members])
    }

    /// Members of these capacities.
    pub(crate) fn among(policy: ElectionPolicy, capacities: &[u32]) -> Self {
        let policy = Policy { elections: vec![policy], ..Policy::default() };
        let bench = Bench::of_capacities(capacities, policy);
        let (candidates, asked) = (BTreeSet::new(), BTreeSet::new());
        Self { bench, candidates, asked, asks: true, yields: true, asked_to_yield: 0, heard: 0 }
    }

    pub(crate) fn stand(&mut self, member: usize, priority: i32) {
        self.stand_as(member, Candidacy { priority, ..Candidacy::default() });
    }

    pub(crate) fn stand_as(&mut self, member: usize, candidacy: Candidacy) {
        self.candidates.insert(member);
        let election = hold_of("reports").expect("a name");
        let stand = ElectionCommand::Stand { election, candidacy };
        self.bench.command(member, Command::Service(stand.into()));
        self.heed();
    }

    pub(crate) fn withdraw(&mut self, member: usize) {
        self.candidates.remove(&member);
        let election = hold_of("reports").expect("a name");
        let withdraw = ElectionCommand::Withdraw { election };
        self.bench.command(member, Command::Service(withdraw.into()));
        self.resign(member);
    }

    pub(crate) fn resign(&mut self, member: usize) {
        if self.asked.remove(&member) {
            self.bench.exit(member, LEAD);
        }
        self.heed();
    }

    pub(crate) fn wait(&mut self, span: Duration) {
        let end = self.bench.now.after(span);
        while self.bench.now < end {
            self.bench.wait(STEP.min(end - self.bench.now));
            self.heed();
        }
    }

    /// Nominees ask for the lead, and those that were too late ask no longer.
    pub(crate) fn heed(&mut self) {
        while let Some((member, event)) = self.bench.notified.get(self.heard).cloned() {
            self.heard += 1;
            let Event::Service(OfService::Election(OfElection { event, .. })) = event else {
                continue;
            };
            let me = self.bench.members[member].me();
            match event {
                ElectionEvent::Elected { winner, .. } => {
                    let may = self.asks && self.candidates.contains(&member);
                    if winner == me && may && self.asked.insert(member) {
                        self.bench.enter(member, LEAD);
                    }
                }
                ElectionEvent::HandOver => {
                    self.asked_to_yield += 1;
                    if self.yields {
                        self.resign(member);
                    }
                }
                ElectionEvent::State { leader, .. } => {
                    let other = leader.is_some_and(|leader| leader != me);
                    if other && !self.bench.holds(member, LEAD) && self.asked.remove(&member) {
                        self.bench.exit(member, LEAD);
                    }
                }
            }
        }
    }

    pub(crate) fn leader(&self) -> Option<usize> {
        let leads = |member: &usize| self.bench.holds(*member, LEAD);
        let leaders: Vec<usize> = (0..self.bench.members.len()).filter(leads).collect();
        assert!(leaders.len() <= 1, "{leaders:?} lead");
        leaders.first().copied()
    }

    /// Whom a member knows to lead, and how many it knows to stand.
    pub(crate) fn seen_by(&self, member: usize) -> Option<(Option<usize>, usize)> {
        let of = self.bench.notified.iter().rev().filter(|(index, _)| *index == member);
        of.into_iter().find_map(|(_, event)| {
            let Event::Service(OfService::Election(OfElection {
                event: ElectionEvent::State { leader, candidates, .. },
                ..
            })) = event
            else {
                return None;
            };
            let index = |leader| self.bench.members.iter().position(|m| m.me() == leader);
            Some((leader.and_then(index), candidates.len()))
        })
    }

    /// The names of the messages about the election that were sent.
    pub(crate) fn sent(&self) -> Vec<&'static str> {
        let name = |message: &Message| match message {
            Message::Peer(PeerMessage::Service(envelope)) => match &envelope.body {
                ServiceMessage::Election(message) => Some(message.name()),
                ServiceMessage::Lock(_) => None,
            },
            Message::Peer(_) | Message::Register(_) => None,
        };
        self.bench.sent.iter().filter_map(|(_, _, message)| name(message)).collect()
    }

    /// How many of them the algorithm sent.
    fn nominating(&self) -> usize {
        let notices = ["stand", "withdraw", "call", "election_state", "election_known"];
        let on_top = ["ack", "probe", "reply", "outdated"];
        let ours = |name: &&str| notices.contains(name) || on_top.contains(name);
        self.sent().into_iter().filter(|name| !ours(name)).count()
    }
}

const STEP: Duration = Duration::from_millis(10);

#[test]
fn the_candidate_of_the_highest_priority_leads_and_nobody_takes_that_away() {
    for algorithm in ElectionAlgorithm::ALL {
        let mut named = Named::group(5, algorithm);
        named.stand(1, 0);
        assert_eq!(named.leader(), Some(1), "{algorithm:?}: it is alone");
        named.stand(3, 7);
        named.stand(4, 0);
        named.wait(SECOND * 3);
        assert_eq!(named.leader(), Some(1), "{algorithm:?}");
        for member in 0..5 {
            assert_eq!(named.seen_by(member), Some((Some(1), 3)), "{algorithm:?} {member}");
        }
        named.resign(1);
        named.wait(SECOND);
        assert_eq!(named.leader(), Some(3), "{algorithm:?}: of the highest priority");
        named.withdraw(3);
        named.wait(SECOND);
        assert_eq!(named.leader(), Some(1), "{algorithm:?}: of the highest rank");
        assert_eq!(named.seen_by(0), Some((Some(1), 2)));
        let [first, last] = named.bench.tokens(1, LEAD)[..] else { panic!("it led twice") };
        let [between] = named.bench.tokens(3, LEAD)[..] else { panic!("it led once") };
        assert!(first < between && between < last, "{algorithm:?}");
    }
}

#[test]
fn a_member_that_does_not_stand_is_never_nominated() {
    let mut named = Named::group(3, ElectionAlgorithm::Bully);
    named.wait(SECOND * 3);
    assert_eq!((named.leader(), named.nominating()), (None, 0));
    named.stand(2, 0);
    named.withdraw(2);
    named.wait(SECOND * 3);
    assert_eq!(named.leader(), None);
    assert_eq!(named.seen_by(1), Some((None, 0)));
}

#[test]
fn at_rest_an_election_sends_nothing() {
    let mut named = Named::group(3, ElectionAlgorithm::Ring);
    for member in 0..3 {
        named.stand(member, 0);
    }
    named.wait(SECOND);
    named.bench.forget();
    named.heard = 0;
    named.wait(SECOND * 30);
    assert_eq!(named.sent(), Vec::<&str>::new());
    assert!(named.leader().is_some());
}

/// The leader of the group begins if it stands, and has the highest rank: that is the best case, n - 1 messages of
/// n candidates. Else the lowest begins, and that is the worst: each asks all above it (n (n - 1) / 2), is
/// answered by each, and the winner announces itself to n - 1, again for each that asks it: it has nobody to wait
/// for, and so has won before the next one asks. A list goes round twice in any case. An identifier goes round twice
/// too, after a step of each below it. A tree costs the same, with any initiator.
#[test]
fn a_ballot_costs_what_its_algorithm_costs() {
    type Formula = fn(usize) -> usize;
    let cases: [(ElectionAlgorithm, usize, Formula); 8] = [
        (ElectionAlgorithm::Bully, 0, |n| n - 1),
        (ElectionAlgorithm::Bully, 1, |n| n * (n - 1) + (n - 1) * (n - 1)),
        (ElectionAlgorithm::Ring, 0, |n| 2 * n),
        (ElectionAlgorithm::Ring, 1, |n| 2 * n),
        (ElectionAlgorithm::ChangRoberts, 0, |n| 2 * n),
        (ElectionAlgorithm::ChangRoberts, 1, |n| 3 * n - 1),
        (ElectionAlgorithm::SpanningTree, 0, |n| (n - 1) * (2 * n - 1)),
        (ElectionAlgorithm::SpanningTree, 1, |n| (n - 1) * (2 * n - 1)),
    ];
    for (algorithm, first, formula) in cases {
        for candidates in 2..=7 {
            let mut named = Named::group(9, algorithm);
            named.stand(8, 0);
            for member in first..first + candidates {
                named.stand(member, 0);
            }
            named.wait(SECOND);
            assert_eq!(named.leader(), Some(8));
            named.bench.forget();
            named.heard = 0;
            named.withdraw(8);
            named.wait(SECOND);
            assert_eq!(named.leader(), Some(first), "{algorithm:?}: the highest rank");
            assert_eq!(named.nominating(), formula(candidates), "{algorithm:?} of {candidates}");
        }
    }
}

#[test]
fn another_leads_when_the_leader_has_died() {
    for algorithm in ElectionAlgorithm::ALL {
        for dies in 0..3 {
            let mut named = Named::group(3, algorithm);
            named.stand(dies, 0);
            for member in 0..3 {
                named.stand(member, 0);
            }
            assert_eq!(named.leader(), Some(dies));
            let before = named.bench.tokens(dies, LEAD);
            named.bench.stop(dies);
            named.wait(SECOND * 30);
            let next = named.leader().expect("somebody leads");
            assert_ne!(next, dies);
            assert!(named.bench.tokens(next, LEAD) > before, "{algorithm:?}");
        }
    }
}

/// A lead lasts no longer than a leader lease: then another has it, while what else the dead one held is still its.
#[test]
fn a_leader_that_dies_is_followed_after_a_leader_lease() {
    for algorithm in ElectionAlgorithm::ALL {
        let mut named = Named::group(3, algorithm);
        for member in [2, 1, 0] {
            named.stand(member, 0);
        }
        named.bench.enter(2, "orders");
        named.bench.enter(1, "orders");
        assert!(named.bench.holds(2, LEAD) && named.bench.holds(2, "orders"));
        named.bench.stop(2);
        let Timing { leader_lease, heartbeat, .. } = Timing::default();
        named.wait(leader_lease + heartbeat * 2);
        assert_eq!(named.leader(), Some(0), "{algorithm:?}");
        assert!(!named.bench.holds(1, "orders"), "a lock lasts for a member lease");
        named.wait(SECOND * 10);
        assert!(named.bench.holds(1, "orders"));
    }
}

/// A group whose leader hands over carries a lead as any hold. The crash of the group's leader costs it: nobody
/// renewed it for a leader lease.
#[test]
fn a_lead_survives_a_hand_over_and_not_a_crash_of_the_leader_of_the_group() {
    let mut named = Named::group(3, ElectionAlgorithm::Bully);
    for member in [2, 1, 0] {
        named.stand(member, 0);
    }
    assert_eq!((named.leader(), named.bench.leader()), (Some(2), Some(0)));
    named.bench.command(0, Command::Drain);
    named.wait(SECOND * 3);
    let next = named.bench.leader().expect("it handed over");
    assert_ne!(next, 0);
    assert_eq!((named.leader(), named.bench.tokens(2, LEAD).len()), (Some(2), 1));
    let other = 3 - next;
    named.bench.stop(next);
    named.wait(SECOND * 20);
    let leader = named.leader().expect("somebody leads");
    assert_ne!(leader, next);
    assert!(named.bench.tokens(leader, LEAD).last() > named.bench.tokens(2, LEAD).first());
    assert_eq!(named.seen_by(other), Some((Some(leader), 2)), "they stand anew in each view");
}

/// Its sidecar leaves in order while its application still goes by the deadline that it knows. The same if the leader
/// of the group has it, which hands that over first, and if it drains before.
#[test]
fn a_leader_that_leaves_in_order_is_followed_after_a_leader_lease() {
    for (leaves, drains) in [(2, false), (0, false), (0, true)] {
        let mut named = Named::group(3, ElectionAlgorithm::Bully);
        named.stand(leaves, 0);
        for member in 0..3 {
            named.stand(member, 0);
        }
        assert_eq!((named.leader(), named.bench.leader()), (Some(leaves), Some(0)));
        if drains {
            named.bench.command(leaves, Command::Drain);
            named.wait(SECOND * 2);
            assert_eq!(named.leader(), Some(leaves));
        }
        named.bench.command(leaves, Command::Leave);
        named.wait(SECOND * 3);
        let next = named.leader().expect("a lead lasts no longer");
        assert_ne!(next, leaves, "drains: {drains}");
    }
}

/// A nominee is granted the lead when nothing extends its leads any more, and the grant waits. Meanwhile another is
/// granted it. A member lease that still runs makes nothing of the first grant.
#[test]
fn a_grant_from_before_the_lease_of_leads_ended_counts_for_nothing() {
    let mut bench = Named::group(3, ElectionAlgorithm::Bully).bench;
    let (leader, follower) = (bench.node(0), bench.node(1));
    let epoch = bench.record().epoch;
    bench.enter(2, LEAD);
    bench.enter(1, LEAD);
    bench.wait(SECOND);
    // From now on the leader hears nothing of it, and extends nothing; it is not silent for long yet.
    bench.way(follower, leader, Link::Cut);
    bench.wait(Duration::from_millis(1_450));
    bench.exit(2, LEAD);
    bench.enter(2, LEAD);
    assert!(!bench.holds(1, LEAD) && !bench.holds(2, LEAD), "it is granted to 1, which waits");
    bench.wait(Duration::from_millis(1_800));
    assert!(bench.holds(2, LEAD));
    bench.free(follower, leader);
    bench.wait(SECOND);
    assert_eq!(bench.record().epoch, epoch);
    assert!(bench.holds(2, LEAD) && !bench.holds(1, LEAD));
}

/// Whatever is lost once is made good: a candidate announces itself again, and a ballot that comes to nothing is
/// followed by another.
#[test]
fn what_is_lost_is_made_good() {
    for algorithm in ElectionAlgorithm::ALL {
        let lost = "stand call election coordinator elected not_child report leader election_state";
        for lost in lost.split(' ') {
            let mut named = Named::group(3, algorithm);
            named.bench.lost = Some(lost);
            for member in 0..3 {
                named.stand(member, 0);
            }
            named.resign(0);
            named.wait(Duration::from_millis(700));
            named.bench.lost = None;
            named.wait(SECOND * 8);
            assert!(named.leader().is_some(), "{algorithm:?} without {lost}");
            for member in 0..3 {
                let seen = named.seen_by(member);
                assert_eq!(seen, Some((named.leader(), 3)), "{algorithm:?} without {lost}");
            }
        }
    }
}

/// The same of what is lost when all is known, from and to members that go on being heard.
#[test]
fn what_is_lost_later_is_made_good() {
    let mut named = Named::group(4, ElectionAlgorithm::Bully);
    for member in 0..3 {
        named.stand(member, 0);
    }
    named.wait(SECOND);
    for lost in ["election_state", "election_known"] {
        named.bench.lost = Some(lost);
        named.withdraw(2);
        named.wait(SECOND);
        named.bench.lost = None;
        named.wait(SECOND * 3);
        assert_eq!(named.seen_by(3), Some((Some(0), 2)), "without {lost}");
        named.stand(2, 0);
        named.wait(SECOND);
    }
    // A candidacy that changes, and one that ends.
    named.bench.lost = Some("stand");
    named.stand(1, 7);
    named.bench.lost = Some("withdraw");
    named.withdraw(2);
    named.bench.lost = None;
    named.stand(3, 0);
    named.wait(SECOND * 4);
    assert_eq!(named.seen_by(0), Some((Some(0), 3)));
    named.resign(0);
    named.wait(SECOND);
    assert_eq!(named.leader(), Some(1), "of the highest priority");
    named.bench.forget();
    named.heard = 0;
    named.wait(SECOND * 10);
    assert_eq!(named.sent(), Vec::<&str>::new(), "all is known");
}

/// What a candidate asked in a ballot arrives when that has ended: the one of a higher rank, which nobody waits
/// for any more, does not ask for the lead.
#[test]
fn a_late_message_of_a_ballot_that_is_over_moves_nobody() {
    let mut named = Named::group(3, ElectionAlgorithm::Bully);
    let (higher, lower) = (named.bench.node(1), named.bench.node(2));
    named.bench.way(lower, higher, Link::Held);
    named.stand(1, 0);
    named.stand(2, 0);
    named.resign(1);
    named.wait(SECOND);
    assert_eq!(named.leader(), Some(2), "nobody above it answered");
    named.bench.free(lower, higher);
    named.wait(SECOND);
    assert_eq!((named.leader(), named.asked.contains(&1)), (Some(2), false));
}

/// A member that is not heard for a while may miss what is sent. It is notified when it is heard of again, in the
/// same view.
#[test]
fn a_member_that_was_cut_off_learns_who_leads() {
    let mut named = Named::group(4, ElectionAlgorithm::Bully);
    named.stand(1, 0);
    named.stand(2, 0);
    named.wait(SECOND);
    assert_eq!(named.seen_by(3), Some((Some(1), 2)));
    let epoch = named.bench.record().epoch;
    // The leader goes on being heard, but for what it states of the election.
    named.bench.way(named.bench.node(3), named.bench.node(0), Link::Cut);
    named.bench.lost = Some("election_state");
    named.withdraw(1);
    named.wait(Duration::from_millis(2_500));
    named.bench.lost = None;
    named.bench.free(named.bench.node(3), named.bench.node(0));
    named.wait(SECOND * 2);
    assert_eq!(named.bench.record().epoch, epoch);
    assert_eq!(named.leader(), Some(2));
    assert_eq!(named.seen_by(3), Some((Some(2), 1)));
}

#[test]
fn a_nominee_that_dies_before_it_leads_is_followed_by_another() {
    let mut named = Named::group(3, ElectionAlgorithm::Bully);
    named.stand(0, 0);
    named.stand(1, 0);
    named.stand(2, 9);
    assert_eq!(named.leader(), Some(0));
    // It is nominated, and cannot ask.
    named.bench.way(named.bench.node(2), named.bench.node(0), Link::Cut);
    named.withdraw(0);
    named.wait(SECOND * 15);
    assert_eq!(named.leader(), Some(1));
}

/// Members crash, leave, are cut off and frozen, and the register is away: at most one leads in each election
/// at any moment, with rising tokens, which the world checks as for any hold. Afterwards somebody leads.
#[test]
fn in_any_weather_one_leads_at_a_time() {
    for algorithm in ElectionAlgorithm::ALL {
        for (seed, members) in (0..60).zip([1, 2, 3, 4, 5].into_iter().cycle()) {
            let names = ["reports", "mails"];
            let election = |name: &&str| {
                let preemption =
                    if *name == "mails" { Preemption::Graceful } else { Preemption::Never };
                ElectionPolicy { preemption, ..ElectionPolicy::new(name, algorithm) }
            };
            let mut storm = Storm::of(members, Timing::FAST);
            storm.policy.elections = names.iter().map(election).collect();
            let mut world = storm.run(seed, false);
            world.run_for(SECOND * 20);
            for name in names {
                let lead = hold_of(name).expect("a name");
                assert!(world.holder(lead.as_str()).is_some(), "{algorithm:?} {seed}: {name}");
            }
        }
    }
}
