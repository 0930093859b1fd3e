//! Real sidecars in network namespaces of their own, while most pairs of them are cut off from each other: a group needs no
//! pairs but those that its topology leaves. Gateways pass on the rest.
//!
//! Each test runs in a network that the machine's is no part of, and that ends with it.

#[path = "zones/group.rs"]
mod group;
#[path = "zones/network.rs"]
mod network;

use conclave_protocols::cost;
use conclave_protocols::policy::{ElectionAlgorithm, ElectionPolicy, Policy};

use self::group::{Group, SIZE, policy};
use self::network::{Pair, in_a_network_of_its_own};

/// The leader of the group from its beginning. It and the next four are the most senior, so none is a gateway.
const FIRST: usize = 0;

/// These have the greatest capacities, in this order.
const BEST: usize = 1;
const SECOND: usize = 3;
const THIRD: usize = 2;
const FOURTH: usize = 4;

/// A gateway.
const LAST: usize = SIZE - 1;

/// A nominee collects seals from all, and leads all: by gateways where it must.
#[test]
fn the_best_of_all_zones_leads_the_group_while_most_pairs_are_cut() {
    in_a_network_of_its_own(
        "the_best_of_all_zones_leads_the_group_while_most_pairs_are_cut",
        || {
            let mut group = Group::with_candidates();
            group.leave_only(&group.links(FIRST));
            group.open_links();
            for (dies, next) in [(FIRST, BEST), (BEST, SECOND)] {
                group.kill(dies);
                group.wait_until_all_follow(next, None);
            }
            assert!(group.relayed() > 0, "gateways pass on");
        },
    );
}

/// The candidates are all but the one that leads the group, which calls ballots and grants the lead. It has the pairs that
/// the topology leaves it.
#[test]
fn the_best_candidate_of_all_zones_is_elected_while_most_pairs_are_cut() {
    in_a_network_of_its_own(
        "the_best_candidate_of_all_zones_is_elected_while_most_pairs_are_cut",
        || {
            let mut group = Group::with_candidates();
            let links = group.links_of_candidates(FIRST);
            let most = cost::spanning_tree(SIZE as u64 - 1, links.len() as u64);
            let of_first = |(one, other): &Pair| [*one, *other].contains(&FIRST);
            let leads = group.links(FIRST).into_iter().filter(of_first);
            group.leave_only(&links.into_iter().chain(leads).collect());
            let first = group.open_links();
            let mut leads = first;
            for next in [SECOND, THIRD, FOURTH].into_iter().filter(|next| *next != first) {
                group.withdraw(leads, REPORTS);
                group.wait_until_all_follow(next, Some(REPORTS));
                let sent = group.sent_in(REPORTS);
                assert!(sent <= most, "{sent} messages, {most} if all links are used");
                leads = next;
            }
            // The next ballot may be called in a new view, among those that have stated so far that they stand.
            group.kill(leads);
            group.wait_until_all_follow_another(leads, REPORTS);
            group.wait_until_all_follow(FIRST, None);
            assert!(group.relayed() > 0, "gateways pass on");
        },
    );
}

/// It joins as a gateway of its zone, and asks those that it reaches to pass on that it wants to join.
#[test]
fn a_member_joins_while_most_pairs_are_cut() {
    in_a_network_of_its_own("a_member_joins_while_most_pairs_are_cut", || {
        let mut group = Group::start(policy(), |_| vec![]);
        let with = group.links(FIRST);
        group.kill(LAST);
        group.wait_until_all_are_in();
        group.leave_only(&group.links(FIRST).union(&with).copied().collect());
        group.begin(LAST, vec![]);
        group.wait_until_all_are_in();
        assert!(group.relayed() > 0, "gateways pass on");
    });
}

impl Group {
    /// All but the one that leads the group stand in a named election, and the best of them leads.
    fn with_candidates() -> Self {
        let elections = vec![ElectionPolicy::new(REPORTS, ElectionAlgorithm::SpanningTree)];
        let policy = Policy { elections, ..policy() };
        let stands = |member| if member == FIRST { vec![] } else { vec![REPORTS.to_owned()] };
        let group = Self::start(policy, stands);
        group.wait_until_all_follow(BEST, Some(REPORTS));
        group.wait_until_so_many_stand(SIZE - 1, REPORTS);
        group
    }

    /// The best withdraws, and a ballot opens the links among the others. TLS takes its time when all begin. A candidate that
    /// answers late counts as dead, so one may lead that is not the best of them. Returns which leads.
    fn open_links(&self) -> usize {
        self.withdraw(BEST, REPORTS);
        self.wait_until_all_follow_another(BEST, REPORTS)
    }
}

const REPORTS: &str = "reports";
