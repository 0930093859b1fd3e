//! Elections by a spanning tree in zones, of whole members.

use std::collections::{BTreeMap, BTreeSet};

use conclave_protocols::MemberId;
use conclave_protocols::cost;
use conclave_protocols::election::{AnyMessage, spanning_tree};
use conclave_protocols::member::message::{
    ElectionMessage, Message, OfElection, PeerMessage, ServiceMessage,
};
use conclave_protocols::policy::{ElectionAlgorithm, ElectionPolicy, Policy, Topology};

use crate::bench::{Bench, SECOND, info};
use crate::named_elections::Named;

/// Three zones of three. The first member leads, and has the highest rank, so gateways of the nomination that follows are
/// those from 3 on.
const ZONES: &str = "abcabcabc";

fn policy() -> Policy {
    let (election, topology) = (ElectionAlgorithm::SpanningTree, Topology::Zones);
    Policy { election, topology, ..Policy::default() }
}

fn of_tree(message: &Message) -> Option<&spanning_tree::Message> {
    let Message::Peer(peer) = message else { return None };
    let message = if let PeerMessage::Nominator { message, .. } = peer {
        message
    } else {
        in_a_ballot(message)?.1
    };
    if let AnyMessage::SpanningTree(message) = message { Some(message) } else { None }
}

/// What candidates sent to each other, and in which ballot.
fn in_a_ballot(message: &Message) -> Option<(u64, &AnyMessage)> {
    if let Message::Peer(PeerMessage::Service(envelope)) = message
        && let ServiceMessage::Election(ElectionMessage { what, .. }) = &envelope.body
        && let OfElection::Nominate { ballot, message } = what
    {
        Some((*ballot, message))
    } else {
        None
    }
}

/// Who sent something of a spanning tree to a member of another zone, or was sent it.
fn ends_between_zones(bench: &Bench) -> BTreeSet<usize> {
    let of_tree = bench.sent.iter().filter(|(_, _, message)| of_tree(message).is_some());
    let ends = of_tree.filter_map(|(from, to, _)| Some([bench.index(*from)?, bench.index(*to)?]));
    let zone = |member: usize| &ZONES[member..=member];
    ends.filter(|[from, to]| zone(*from) != zone(*to)).flatten().collect()
}

/// How many messages were sent in computations in which all members are neighbours, and in others.
fn wide_and_others(bench: &Bench) -> (usize, usize) {
    let sent = bench.sent.iter().filter_map(|(_, _, message)| of_tree(message));
    let (wide, others): (Vec<&_>, Vec<&_>) = sent.partition(|message| message.of().wide);
    (wide.len(), others.len())
}

#[test]
fn the_next_leader_is_nominated_by_way_of_the_gateways_and_is_the_best_of_all_zones() {
    for best in 1..9 {
        let mut capacities = [0; 9];
        capacities[best] = 7;
        let mut bench = Bench::in_zones(ZONES, &capacities, policy());
        bench.stop(0);
        bench.wait(SECOND * 4);
        assert_eq!(bench.leader(), Some(best));
        assert_eq!(ends_between_zones(&bench), (3..9).collect());
        assert_eq!(wide_and_others(&bench).0, 0);
    }
}

/// 7 leads, of the three in zone b the one with the lowest rank: the gateways of what follows are 4 and 1.
#[test]
fn the_death_of_one_gateway_with_the_leader_divides_nobody_also_if_the_leader_would_be_the_other() {
    let mut bench = Bench::in_zones(ZONES, &[0, 5, 0, 0, 0, 0, 0, 7, 0], policy());
    bench.stop(0);
    bench.wait(SECOND * 4);
    assert_eq!(bench.leader(), Some(7));
    bench.forget();
    bench.stop(7);
    bench.stop(4);
    bench.wait(SECOND * 6);
    assert_eq!(bench.leader(), Some(1));
    let between = ends_between_zones(&bench);
    assert!(between.contains(&1), "{between:?}");
    assert_eq!(wide_and_others(&bench).0, 0);
}

/// A space is no value of a label.
#[test]
fn a_pod_that_states_a_zone_that_cannot_be_one_is_not_taken_in() {
    for (zones, size) in [("aaa", 3), ("aa ", 2)] {
        let mut bench = Bench::in_zones(zones, &[0; 2], policy());
        bench.start();
        bench.wait(SECOND * 5);
        assert_eq!(bench.record().members.len(), size);
    }
}

#[test]
fn in_a_full_mesh_everybody_sends_to_other_zones() {
    let policy = Policy { topology: Topology::FullMesh, ..policy() };
    let mut bench = Bench::in_zones(ZONES, &[0; 9], policy);
    bench.stop(0);
    bench.wait(SECOND * 4);
    assert_eq!(ends_between_zones(&bench), (0..9).collect());
}

/// What is left of the zone elects its own best; one of the two nominees has the next view.
#[test]
fn one_leads_though_both_gateways_of_a_zone_die_with_the_leader() {
    for (gateways, zone) in [([3, 6], "a"), ([4, 7], "b"), ([5, 8], "c")] {
        let mut bench = Bench::in_zones(ZONES, &[0; 9], policy());
        for dies in [0, gateways[0], gateways[1]] {
            bench.stop(dies);
        }
        bench.wait(SECOND * 12);
        let leader = bench.leader().expect("one leads");
        assert!(leader != 0 && !gateways.contains(&leader), "without the gateways of {zone}");
    }
}

/// Nominees cannot begin a view while no seal arrives. There is one more nomination each 825 ms, in which
/// several members begin, and learn from each other how far numbers are.
#[test]
fn the_third_nomination_in_a_view_is_wide_and_the_first_two_and_the_first_of_the_next_are_not() {
    let mut bench = Bench::in_zones(ZONES, &[0; 9], policy());
    bench.stop(0);
    bench.lost = Some("seal");
    for (nomination, until) in [("first", 2), ("second", 1)] {
        bench.wait(SECOND * until);
        let (wide, others) = wide_and_others(&bench);
        assert!(wide == 0 && others > 0, "{wide} of the {nomination}, {others} not");
        bench.forget();
    }
    bench.wait(SECOND * 20);
    let (wide, others) = wide_and_others(&bench);
    assert!(wide > 0 && others == 0, "{wide} of the third and later ones, {others} not");
    assert_eq!(bench.leader(), None);
    bench.lost = None;
    bench.wait(SECOND * 90);
    let leader = bench.leader().expect("it has seals now");
    bench.forget();
    // 1 and 2 were nominees before the third.
    for dies in [leader, 1, 2] {
        bench.stop(dies);
    }
    bench.wait(SECOND * 6);
    assert!(bench.leader().is_some());
    let (wide, others) = wide_and_others(&bench);
    assert!(wide == 0 && others > 0, "{wide} of the next view");
}

/// Discovery finds all nine all the time, so each nomination has the number that the one before had. The greatest three
/// capacities are those of members that are no gateways.
#[test]
fn without_an_arbiter_each_that_was_nominated_leads_and_none_of_many_nominations_is_wide() {
    let mut bench = Bench::unarbitrated(ZONES, &[1, 1, 1, 1, 1, 6, 7, 8, 9], policy());
    for leader in [8, 7, 6, 5] {
        assert_eq!(bench.leader(), Some(leader));
        let (wide, others) = wide_and_others(&bench);
        assert!(wide == 0 && others > 0, "{wide} when {leader} was nominated");
        bench.forget();
        bench.stop(leader);
        bench.wait(SECOND * 6);
    }
}

/// What a nominator sent in another view, and what one sent that is no member.
#[test]
fn a_message_of_a_nomination_that_there_is_not_changes_nothing() {
    let mut bench = Bench::in_zones(ZONES, &[0; 9], policy());
    let (epoch, member) = (bench.record().epoch, bench.members[3].me());
    let of = spanning_tree::Index { wide: false, number: 1, source: MemberId(0) };
    let message = AnyMessage::SpanningTree(spanning_tree::Message::Election { of });
    let before = bench.members[1].clone();
    for (from, epoch) in [(member, epoch.next()), (info(20, 7).incarnation, epoch)] {
        bench.deliver(from, 1, PeerMessage::Nominator { epoch, message: message.clone() });
    }
    assert_eq!(bench.members[1], before);
}

fn ballots(capacities: &[u32; 9]) -> Named {
    let elections = vec![ElectionPolicy::new("reports", ElectionAlgorithm::SpanningTree)];
    let mut named = Named::of(1, elections[0].clone());
    named.bench = Bench::in_zones(ZONES, capacities, Policy { elections, ..policy() });
    named.heard = 0;
    named.stand(4, 0);
    assert_eq!(named.leader(), Some(4), "it is alone");
    for member in (1..9).filter(|member| *member != 4) {
        named.stand(member, 0);
    }
    named.wait(SECOND);
    named.bench.forget();
    named.heard = 0;
    named
}

/// The candidates are all but the leader of the group and 4, which withdraws: of the nine, 2 alone is no gateway.
#[test]
fn a_candidate_is_nominated_by_way_of_the_gateways_among_the_candidates() {
    let mut named = ballots(&[0, 1, 9, 3, 5, 7, 8, 2, 4]);
    named.withdraw(4);
    named.wait(SECOND);
    assert_eq!(named.leader(), Some(2));
    assert_eq!(ends_between_zones(&named.bench), [1, 3, 5, 6, 7, 8].into());
    // Of the zones of two, two and three there are 5 links, and 12 between the gateways.
    let sent = named.bench.sent.iter().filter_map(|(_, _, message)| of_tree(message));
    let counted = sent.filter(|message| message.is_counted()).count() as u64;
    assert_eq!(counted, cost::spanning_tree(7, 5 + 12));
    assert_eq!(wide_and_others(&named.bench).0, 0);
}

/// Of each ballot that was held: whether all members were neighbours in it.
fn widths(bench: &Bench) -> BTreeMap<u64, BTreeSet<bool>> {
    let mut widths: BTreeMap<u64, BTreeSet<bool>> = BTreeMap::new();
    for (_, _, message) in &bench.sent {
        if let (Some((ballot, _)), Some(of_tree)) = (in_a_ballot(message), of_tree(message)) {
            widths.entry(ballot).or_default().insert(of_tree.of().wide);
        }
    }
    widths
}

/// The ballot of 4 alone was the first. The ones that follow come to nothing while nobody asks for the lead.
#[test]
fn the_third_ballot_in_a_row_is_wide_and_so_are_those_after_it_and_the_first_after_a_lead_is_not() {
    let mut named = ballots(&[0; 9]);
    named.asks = false;
    named.withdraw(4);
    named.wait(SECOND * 7);
    let expected = [(2, false), (3, false), (4, true), (5, true), (6, true)];
    let expected = expected.map(|(ballot, wide)| (ballot, BTreeSet::from([wide])));
    assert_eq!(widths(&named.bench), expected.into());
    assert_eq!(named.leader(), None);
    named.asks = true;
    named.wait(SECOND * 2);
    let leader = named.leader().expect("it asks now");
    named.bench.forget();
    named.heard = 0;
    named.withdraw(leader);
    named.wait(SECOND);
    assert!(named.leader().is_some());
    assert_eq!(widths(&named.bench), [(8, [false].into())].into());
}
