//! What the textbook counts: messages, and what an entry or an election should cost.

use std::collections::BTreeSet;

use conclave_protocols::locks::superpeers_of;
use conclave_protocols::mutex::maekawa::Quorums;
use conclave_protocols::policy::{ElectionAlgorithm, LockAlgorithm};
use conclave_protocols::record::Record;
use conclave_protocols::{Incarnation, cost};

/// What the textbook says that an entry of this member and its exit cost, with the algorithms of a view,
/// if nobody else wants in. Where a token is, nobody knows beforehand.
pub(super) fn lock_costs(record: &Record, me: Incarnation) -> Vec<(LockAlgorithm, u64)> {
    let view = record.view();
    let (n, majority) = (u64::from(view.size), view.majority() as u64);
    let cost = |algorithm| match algorithm {
        LockAlgorithm::Central => Some(cost::central(u64::from(record.leader != Some(me)))),
        LockAlgorithm::Lamport => Some(cost::lamport(n, 1)),
        LockAlgorithm::RicartAgrawala => Some(cost::ricart_agrawala(n, 1)),
        LockAlgorithm::Maekawa => {
            let quorum = Quorums::grid(view.size).of(record.rank(me)?).len();
            Some(cost::maekawa(quorum as u64))
        }
        // A member asks itself too, which is no message.
        LockAlgorithm::Voting => Some(cost::voting_least(majority.saturating_sub(1), 1)),
        LockAlgorithm::TokenRing | LockAlgorithm::Raymond => None,
        // To one that coordinates some locks, that depends on which it is.
        LockAlgorithm::Superpeers => {
            let superpeers = superpeers_of(&record.policy, &record.members);
            let rank = record.rank(me)?;
            (!superpeers.all().contains(&rank)).then(|| cost::central(1))
        }
    };
    let algorithms: BTreeSet<_> = record.policy.locks.iter().map(|lock| lock.algorithm).collect();
    algorithms.into_iter().filter_map(|algorithm| Some((algorithm, cost(algorithm)?))).collect()
}

/// What the textbook says that an election costs after the leader of so many members has died.
pub(super) fn election_cost(algorithm: ElectionAlgorithm, members: usize) -> (u32, u32) {
    let n = members as u64;
    let (best, worst) = match algorithm {
        ElectionAlgorithm::Bully => (cost::bully_best(n), cost::bully_worst(n)),
        ElectionAlgorithm::Ring => (cost::ring(n, 1), cost::ring(n, n)),
        ElectionAlgorithm::ChangRoberts => {
            let living = n.saturating_sub(1);
            (cost::chang_roberts_best(living), cost::chang_roberts_worst(living))
        }
        ElectionAlgorithm::SpanningTree => {
            let living = n.saturating_sub(1);
            (cost::spanning_tree_living(living), cost::spanning_tree_most(living))
        }
    };
    let small = |count| u32::try_from(count).unwrap_or(u32::MAX);
    (small(best), small(worst))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_election_costs_at_best_and_at_worst_what_its_formulas_state() {
        let of = |members| ElectionAlgorithm::ALL.map(|one| election_cost(one, members));
        assert_eq!(of(5), [(4, 19), (8, 40), (8, 11), (21, 38)]);
        assert_eq!(of(2)[2], (0, 0), "one that is left alone sends to nobody");
        assert_eq!(of(2)[3], (0, 0));
        assert_eq!((of(0)[2], of(0)[3]), ((0, 0), (0, 0)));
    }
}
