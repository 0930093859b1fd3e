//! What the textbook counts: messages, and what an entry or an election should cost.

use std::collections::BTreeSet;

use conclave_protocols::election::Place;
use conclave_protocols::locks::superpeers_of;
use conclave_protocols::mutex::maekawa::Quorums;
use conclave_protocols::policy::{Arbiter, ElectionAlgorithm, LockAlgorithm, Topology};
use conclave_protocols::record::Record;
use conclave_protocols::{Incarnation, MemberId, cost};

use super::ElectionCost;

/// What the textbook says that an entry of this member and its exit cost, with the algorithms of a view,
/// if nobody else wants in. Where that is not the same for all locks, nobody knows beforehand.
pub(super) fn lock_costs(record: &Record, me: Incarnation) -> Vec<(LockAlgorithm, u64)> {
    let algorithms: BTreeSet<_> = record.policy.locks.iter().map(|lock| lock.algorithm).collect();
    let cost = |algorithm| Some((algorithm, lock_cost(algorithm, record, record.rank(me)?)?));
    algorithms.into_iter().filter_map(cost).collect()
}

/// The same with a lock that a member grants, where that is known.
pub(super) fn cost_of_lock(
    algorithm: LockAlgorithm,
    record: &Record,
    me: Incarnation,
    coordinator: Option<MemberId>,
) -> Option<u64> {
    let rank = record.rank(me)?;
    match coordinator {
        Some(coordinator) => Some(cost::central(u64::from(coordinator != rank))),
        None => lock_cost(algorithm, record, rank),
    }
}

fn lock_cost(algorithm: LockAlgorithm, record: &Record, rank: MemberId) -> Option<u64> {
    let view = record.view();
    let (n, majority) = (u64::from(view.size), view.majority() as u64);
    match algorithm {
        LockAlgorithm::Central => Some(cost::central(u64::from(view.leader != rank))),
        LockAlgorithm::Lamport => Some(cost::lamport(n, 1)),
        LockAlgorithm::RicartAgrawala => Some(cost::ricart_agrawala(n, 1)),
        LockAlgorithm::Maekawa => {
            let quorum = Quorums::grid(view.size).of(rank).len();
            Some(cost::maekawa(quorum as u64))
        }
        // A member asks itself too, which is no message.
        LockAlgorithm::Voting => Some(cost::voting_least(majority.saturating_sub(1), 1)),
        // Where a token is, nobody knows beforehand.
        LockAlgorithm::TokenRing | LockAlgorithm::Raymond => None,
        // To one that coordinates some locks, that depends on which it is.
        LockAlgorithm::Superpeers => {
            let superpeers = superpeers_of(&record.policy, &record.members);
            (!superpeers.all().contains(&rank)).then(|| cost::central(1))
        }
    }
}

/// What the textbook says that an election of the group's leader costs after the leader of a view has died: at best one of
/// the others begins, at worst all, and send to the dead one too.
pub(super) fn nomination_cost(record: &Record) -> ElectionCost {
    let n = record.members.len() as u64;
    nomination_cost_of(record.policy.election, n, || links_without_leader(record))
}

/// What it says that a ballot costs among these candidates, all of them members that live, of whom one begins.
pub(super) fn ballot_cost(
    algorithm: ElectionAlgorithm,
    record: &Record,
    candidates: &BTreeSet<Incarnation>,
) -> ElectionCost {
    let n = candidates.len() as u64;
    ballot_cost_of(algorithm, n, || match record.policy.topology {
        Topology::FullMesh => cost::full_mesh(n),
        Topology::Zones => {
            let mut electorate = Record { leader: None, ..record.clone() };
            electorate.members.retain(|info| candidates.contains(&info.incarnation));
            links(&electorate, None)
        }
    })
}

/// The links among the members that are left, in an election that goes by links.
fn links_without_leader(record: &Record) -> u64 {
    // Without an arbiter, who leads is no part of what members know together, and may be a gateway.
    let leader = record.leader.filter(|_| record.policy.arbiter == Arbiter::Quorum);
    links(&Record { leader, ..record.clone() }, Some(record.view().leader))
}

/// The links among all members but one.
fn links(electorate: &Record, but: Option<MemberId>) -> u64 {
    let others = |one: &MemberId| Some(*one) != but;
    let ends = (0..electorate.view().size).map(MemberId).filter(others).map(|me| {
        Place::in_record(electorate, me).neighbours.into_iter().filter(others).count() as u64
    });
    ends.sum::<u64>() / 2
}

/// `links`: among the n candidates.
fn ballot_cost_of(
    algorithm: ElectionAlgorithm,
    n: u64,
    links: impl FnOnce() -> u64,
) -> ElectionCost {
    let highest = n.saturating_sub(1);
    let both = |of: fn(u64, u64) -> u64| (of(n, highest), of(n, 0));
    let (best, worst) = match algorithm {
        _ if n < 2 => (0, 0),
        ElectionAlgorithm::Bully => both(cost::bully_living),
        ElectionAlgorithm::Ring => both(|n, _| cost::ring_living(n)),
        ElectionAlgorithm::ChangRoberts => both(cost::chang_roberts_living),
        ElectionAlgorithm::SpanningTree => {
            let all = cost::spanning_tree(n, links());
            (all, all)
        }
    };
    ElectionCost::new(best, worst)
}

/// At best and at worst, of n members. `links`: among those that are left.
fn nomination_cost_of(
    algorithm: ElectionAlgorithm,
    n: u64,
    links: impl FnOnce() -> u64,
) -> ElectionCost {
    let living = n.saturating_sub(1);
    let (best, worst) = match algorithm {
        ElectionAlgorithm::Bully => (cost::bully_best(n), cost::bully_next(n)),
        ElectionAlgorithm::Ring => (cost::ring(n, 1), cost::ring_next(n)),
        ElectionAlgorithm::ChangRoberts => {
            (cost::chang_roberts_best(living), cost::chang_roberts_next(n))
        }
        ElectionAlgorithm::SpanningTree => {
            // With fewer links than a full mesh has it costs no more at worst: a member that reports in a computation that another
            // takes over lacks neighbours that it would send ELECTION to.
            (cost::spanning_tree(living, links()), cost::spanning_tree_next(n))
        }
    };
    ElectionCost::new(best, worst)
}

#[cfg(test)]
mod tests {
    use conclave_protocols::PodUid;
    use conclave_protocols::policy::Policy;
    use conclave_protocols::record::MemberInfo;

    use super::*;
    use crate::group::sample;

    #[test]
    fn an_election_costs_at_best_and_at_worst_what_its_formulas_state() {
        let links = |members: u64| cost::full_mesh(members.saturating_sub(1));
        let of = |n| {
            let cost = |one| nomination_cost_of(one, n, || links(n));
            ElectionAlgorithm::ALL.map(|one| both(cost(one)))
        };
        assert_eq!(of(5), [(4, 20), (8, 33), (8, 13), (21, 48)]);
        let alone = [(1, 2), (0, 1), (0, 2), (0, 1)];
        assert_eq!(of(2), alone, "one that is left alone sends to the dead one at most");
        assert_eq!((of(1), of(0)), ([(0, 0); 4], [(0, 0); 4]));
    }

    #[test]
    fn a_ballot_costs_what_it_does_if_the_highest_candidate_begins_or_the_lowest() {
        let of = |n| {
            let cost = |one| ballot_cost_of(one, n, || cost::full_mesh(n));
            ElectionAlgorithm::ALL.map(|one| both(cost(one)))
        };
        assert_eq!(of(4), [(3, 15), (8, 8), (8, 11), (21, 21)]);
        assert_eq!((of(1), of(0)), ([(0, 0); 4], [(0, 0); 4]), "nobody is asked");
    }

    #[test]
    fn in_zones_a_ballot_costs_what_the_links_of_its_candidates_make() {
        let record = record(Topology::Zones, "aaabbb", 0);
        let cost = |numbers: &[u128]| {
            let stands = |number: &u128| Incarnation { pod: PodUid(*number), run: 1 };
            let candidates = numbers.iter().map(stands).collect();
            ballot_cost(ElectionAlgorithm::SpanningTree, &record, &candidates)
        };
        let of = |n, links| {
            ElectionCost::new(cost::spanning_tree(n, links), cost::spanning_tree(n, links))
        };
        assert_eq!(cost(&[0, 1, 2]), of(3, 3), "one zone alone");
        assert_eq!(cost(&[1, 2, 3, 4, 5]), of(5, 1 + 3 + 4), "the leader may be none of them");
        assert_eq!(cost(&[0, 1, 2, 3, 4, 5]), of(6, 3 + 3 + 4));
    }

    fn both(cost: ElectionCost) -> (u32, u32) {
        (cost.best, cost.worst)
    }

    #[test]
    fn in_zones_an_election_costs_what_the_links_make_that_are_left_without_the_leader() {
        let best = |topology, zones, leader| nomination_cost(&record(topology, zones, leader)).best;
        let of_five = |links| u32::try_from(cost::spanning_tree(5, links)).expect("small");
        for leader in 0..6 {
            assert_eq!(best(Topology::FullMesh, "aaabbb", leader), of_five(10));
            assert_eq!(best(Topology::Zones, "aaabbb", leader), of_five(3 + 1 + 4));
            assert_eq!(best(Topology::Zones, "------", leader), of_five(10));
        }
        assert_eq!(best(Topology::Zones, "aaaaab", 5), of_five(10), "one zone is left");
        assert_eq!(best(Topology::Zones, "aaaaab", 0), of_five(6 + 2));
    }

    #[test]
    fn without_an_arbiter_the_leader_may_have_been_a_gateway() {
        let best = |leader| {
            let mut record = record(Topology::Zones, "aaabbb", leader);
            record.policy.arbiter = Arbiter::None;
            nomination_cost(&record).best
        };
        let of_five = |links| u32::try_from(cost::spanning_tree(5, links)).expect("small");
        for (leader, links) in [(0, 1 + 3 + 2), (2, 1 + 3 + 4), (4, 3 + 1 + 2), (5, 3 + 1 + 4)] {
            assert_eq!(best(leader), of_five(links), "{leader} led");
        }
    }

    /// Of members in the zones that letters name; a dash is none.
    fn record(topology: Topology, zones: &str, leader: usize) -> Record {
        let incarnation = |number: u128| Incarnation { pod: PodUid(number), run: 1 };
        let member = |(number, zone)| MemberInfo {
            zone: Some(String::from(zone)).filter(|zone| zone != "-"),
            ..sample::member(incarnation(number), &format!("orders-{number}"))
        };
        Record {
            leader: Some(incarnation(leader as u128)),
            policy: Policy {
                election: ElectionAlgorithm::SpanningTree,
                topology,
                ..Policy::default()
            },
            ..sample::view((0..).zip(zones.chars()).map(member).collect())
        }
    }
}
