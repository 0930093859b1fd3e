//! What of a specification the members run.

use conclave_protocols::policy::{ElectionAlgorithm, Topology};

use super::*;

#[test]
fn a_changed_specification_is_pending_until_the_members_run_it() {
    let mut observed = settled();
    observed.conclave.metadata.generation = Some(2);
    let status = new_status(&plan(&observed));
    assert_eq!(condition(&status, status::POLICY_IN_FORCE), is("False", "Pending"));

    observed.conclave.status = Some(status);
    if let Register::View(view) = &mut observed.register {
        view.policy.generation = 2;
    }
    let changes = plan(&observed);
    let status = new_status(&changes);
    assert_eq!(condition(&status, status::POLICY_IN_FORCE), is("True", "InForce"));
    assert_eq!(status.policy_generation, Some(2));
    assert_eq!(changes[1..], [Change::Announce(Notice::PolicyChanged(2))]);
}

/// A group that has grown to so many members by now, or has so many and another policy, and what is announced of its
/// election.
fn announced(
    (algorithm, topology): (ElectionAlgorithm, Topology),
    before: usize,
    after: usize,
    generation: i64,
) -> Vec<String> {
    let of = |observed: &mut Observed, members: usize, generation: i64| {
        let Register::View(view) = &mut observed.register else { unreachable!("it has settled") };
        let member = |pod| MemberView { incarnation: incarnation(pod), name: format!("pod-{pod}") };
        view.members = (1..=members as u128).map(member).collect();
        view.policy.generation = generation;
        observed.conclave.metadata.generation = Some(generation);
    };
    let mut observed = settled();
    let election = conclave_crds::ElectionSpec { algorithm, ..Default::default() };
    observed.conclave.spec.elections = vec![election];
    observed.conclave.spec.topology.kind = topology;
    of(&mut observed, before, 1);
    observed.conclave.status = Some(status::status(&observed));
    of(&mut observed, after, generation);
    let changes = plan(&observed);
    let costly = |change: &Change| {
        let Change::Announce(notice @ Notice::CostlyElection { .. }) = change else { return None };
        notice.event(None).note
    };
    changes.iter().filter_map(costly).collect()
}

#[test]
fn an_election_that_is_too_costly_for_a_group_is_announced_once() {
    use ElectionAlgorithm::{Bully, ChangRoberts, Ring, SpanningTree};
    use Topology::{FullMesh, Zones};
    for held @ (algorithm, _) in [(Bully, FullMesh), (Bully, Zones), (SpanningTree, FullMesh)] {
        let notes = announced(held, 50, 51, 1);
        assert_eq!(notes.len(), 1, "{notes:?}");
        let begin = format!("51 members elect their leader by {}, ", algorithm.name());
        assert!(notes[0].starts_with(&begin) && notes[0].contains("`algorithm: ChangRoberts`"));
        assert_eq!(announced(held, 51, 51, 2).len(), 1, "the policy is another");
        for (before, after) in [(3, 50), (51, 52), (51, 50)] {
            assert_eq!(announced(held, before, after, 1), [""; 0], "{before}, {after}");
        }
    }
    for held in [(Ring, FullMesh), (ChangRoberts, FullMesh), (SpanningTree, Zones)] {
        assert_eq!(announced(held, 50, 51, 1), [""; 0]);
    }
}
