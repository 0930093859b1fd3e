//! The elections that the textbooks work through, and what they state about the cost of an election.
//!
//! Sources: Tanenbaum and van Steen, *Distributed Systems*, 2nd edition, 6.5.1, figures 6-20 and
//! 6-21; Coulouris, Dollimore, Kindberg and Blair, *Distributed Systems*, 5th edition, 15.3; Chang and
//! Roberts, *An Improved Algorithm for Decentralized Extrema-Finding in Circular Configurations of
//! Processes*, CACM 22(5), 1979; Vasudevan, Kurose and Towsley, *Design and Analysis of a Leader Election
//! Algorithm for Mobile Ad Hoc Networks*, ICNP 2004.

#[path = "textbook_elections/any_order.rs"]
mod any_order;
#[path = "textbook_elections/spanning_tree.rs"]
mod spanning_tree;
mod support;
#[path = "textbook_elections/zones.rs"]
mod zones;

use std::time::Duration;

use conclave_protocols::election::{
    Bully, ChangRoberts, Command, Election, Place, Ring, Timing, bully, chang_roberts, ring,
};
use conclave_protocols::{Epoch, MemberId, View, cost};
use support::Subject;
use support::walk::Walk;

const TIMING: Timing =
    Timing { answer: Duration::from_millis(100), announcement: Duration::from_millis(300) };

fn member<P: Election>(size: u32) -> impl Fn(MemberId) -> P {
    move |me| {
        let view = View { epoch: Epoch(1), size, leader: MemberId(size - 1) };
        P::new(Place::new(me, view), TIMING)
    }
}

/// So many members, some of them dead, and the outcome of these members' electing at once.
fn elect<P: Subject + Election>(
    size: u32,
    dead: impl IntoIterator<Item = u32>,
    initiators: impl IntoIterator<Item = u32>,
) -> Walk<P> {
    let mut walk = Walk::new(size, dead, member(size));
    for initiator in initiators {
        walk.ask(initiator, Command::Elect);
    }
    walk.settle();
    walk
}

/// Asserts that all that live follow this member, and nobody waits.
#[track_caller]
fn assert_all_follow<P: Subject + Election>(walk: &Walk<P>, leader: u32) {
    for (id, protocol) in (0..).map(MemberId).zip(&walk.members) {
        if !walk.dead.contains(&id) {
            assert_eq!(protocol.elected(), Some(MemberId(leader)), "{id}");
            assert!(!protocol.is_electing(), "{id}");
        }
    }
}

/// Who sent a bully's message to whom, in order.
fn routes(walk: &Walk<Bully>, what: &bully::Message) -> Vec<(u32, u32)> {
    let sent = walk.sent.iter().filter(|sent| sent.message == *what);
    sent.map(|sent| (sent.from.0, sent.to.0)).collect()
}

/// The messages that the textbook counts, of those that were sent.
fn bully_count(walk: &Walk<Bully>, n: u64) -> u64 {
    let upwards = walk.count("coordinator", false);
    assert_eq!(upwards, cost::bully_announced_upwards(n, n - 2));
    walk.sent.len() as u64 - upwards
}

#[test]
fn four_of_eight_notices_five_and_six_take_over_and_six_wins() {
    let walk = elect::<Bully>(8, [7], [4]);
    let elections = [(4, 5), (4, 6), (4, 7), (5, 6), (5, 7), (6, 7)];
    assert_eq!(routes(&walk, &bully::Message::Election), elections);
    assert_eq!(routes(&walk, &bully::Message::Answer), [(5, 4), (6, 4), (6, 5)]);
    let announcements = [0, 1, 2, 3, 4, 5, 7].map(|other| (6, other));
    assert_eq!(routes(&walk, &bully::Message::Coordinator), announcements);
    assert_all_follow(&walk, 6);
}

#[test]
fn the_highest_comes_back_and_wins_at_once_with_seven_messages() {
    let mut walk = elect::<Bully>(8, [7], [4]);
    walk.sent.clear();
    walk.restart(7, member(8));
    walk.ask(7, Command::Inquire);
    walk.settle();
    assert_eq!(
        routes(&walk, &bully::Message::Coordinator),
        (0..7).map(|m| (7, m)).collect::<Vec<_>>()
    );
    assert_eq!(walk.sent.len(), 7);
    assert_all_follow(&walk, 7);
}

#[test]
fn two_notices_and_the_higher_ranks_take_over_and_silence_it() {
    let walk = elect::<Bully>(6, [5], [2]);
    let answers = routes(&walk, &bully::Message::Answer);
    assert_eq!(answers.iter().filter(|route| route.1 == 2).collect::<Vec<_>>(), [&(3, 2), &(4, 2)]);
    assert!(routes(&walk, &bully::Message::Election).contains(&(3, 5)));
    assert!(routes(&walk, &bully::Message::Election).contains(&(4, 5)));
    assert!(!routes(&walk, &bully::Message::Coordinator).iter().any(|route| route.0 == 2));
    assert_all_follow(&walk, 4);
}

#[test]
fn bully_costs_least_when_the_second_highest_notices() {
    for n in 2..=16 {
        let walk = elect::<Bully>(n, [n - 1], [n - 2]);
        assert_eq!(bully_count(&walk, n.into()), cost::bully_best(n.into()), "n = {n}");
        assert_all_follow(&walk, n - 2);
    }
}

#[test]
fn bully_costs_most_when_the_lowest_notices() {
    for n in 2..=16 {
        let walk = elect::<Bully>(n, [n - 1], [0]);
        assert_eq!(bully_count(&walk, n.into()), cost::bully_worst(n.into()), "n = {n}");
        assert_all_follow(&walk, n - 2);
    }
    assert_eq!([4, 5, 6, 8, 10].map(cost::bully_worst), [11, 19, 29, 55, 89]);
}

#[test]
fn bully_takes_one_wait_whichever_member_notices() {
    for initiator in 0..7 {
        assert_eq!(elect::<Bully>(8, [7], [initiator]).elapsed(), TIMING.answer);
    }
}

#[test]
fn bully_waits_for_the_announcement_of_a_winner_that_dies_and_elects_again() {
    let mut walk = Walk::<Bully>::new(4, [3], member(4));
    walk.ask(1, Command::Elect);
    while !walk.sent.iter().any(|sent| sent.message == bully::Message::Answer) {
        walk.step();
    }
    walk.kill(2);
    walk.settle();
    assert_all_follow(&walk, 1);
    assert_eq!(walk.elapsed(), TIMING.announcement + TIMING.answer);
}

/// The hops of the first or second pass, and the list that each carried.
fn passes(walk: &Walk<Ring>, name: &str) -> Vec<(u32, u32, Vec<u32>)> {
    let list = |message: &ring::Message| match message {
        ring::Message::Election { living } if name == "election" => Some(living.clone()),
        ring::Message::Coordinator { living, .. } if name == "coordinator" => Some(living.clone()),
        ring::Message::Inquiry { asked, .. } if name == "inquiry" => Some(asked.clone()),
        ring::Message::Election { .. }
        | ring::Message::Coordinator { .. }
        | ring::Message::Inquiry { .. }
        | ring::Message::Ack => None,
    };
    let hop = |sent: &support::walk::Sent<ring::Message>| {
        let list = list(&sent.message)?;
        Some((sent.from.0, sent.to.0, list.iter().map(|member| member.0).collect()))
    };
    walk.sent.iter().filter_map(hop).collect()
}

#[test]
fn the_list_grows_round_the_ring_of_six_skips_the_dead_five_and_elects_four() {
    let walk = elect::<Ring>(6, [5], [1]);
    let first_pass = [
        (1, 2, vec![1]),
        (2, 3, vec![1, 2]),
        (3, 4, vec![1, 2, 3]),
        (4, 5, vec![1, 2, 3, 4]),
        (4, 0, vec![1, 2, 3, 4]),
        (0, 1, vec![1, 2, 3, 4, 0]),
    ];
    assert_eq!(passes(&walk, "election"), first_pass);
    let second_pass = [(1, 2), (2, 3), (3, 4), (4, 5), (4, 0), (0, 1)];
    assert_eq!(passes(&walk, "coordinator"), second_pass.map(|(a, b)| (a, b, vec![1, 2, 3, 4, 0])));
    assert_eq!((walk.count("election", true), walk.count("election", false)), (5, 1));
    assert_eq!((walk.count("coordinator", true), walk.count("coordinator", false)), (5, 1));
    assert_all_follow(&walk, 4);
}

#[test]
fn two_lists_go_round_at_once_and_both_elect_seven() {
    let walk = elect::<Ring>(9, [8], [2, 5]);
    let starts: Vec<_> =
        passes(&walk, "election").into_iter().filter(|hop| hop.2.len() == 1).collect();
    assert_eq!(starts, [(2, 3, vec![2]), (5, 6, vec![5])]);
    for sent in &walk.sent {
        if let ring::Message::Coordinator { leader, .. } = &sent.message {
            assert_eq!(*leader, MemberId(7));
        }
    }
    assert_all_follow(&walk, 7);
}

#[test]
fn the_ring_costs_two_passes_of_the_living_for_each_initiator() {
    for n in 2..=16 {
        for initiators in 1..n {
            let walk = elect::<Ring>(n, [n - 1], 0..initiators);
            let counted = walk.count("election", true) + walk.count("coordinator", true);
            assert_eq!(counted, cost::ring(n.into(), initiators.into()), "n = {n}, {initiators}");
            assert_all_follow(&walk, n - 2);
        }
    }
    assert_eq!([4, 8].map(|n| cost::ring(n, 1)), [6, 14]);
}

#[test]
fn the_ring_takes_one_wait_for_the_dead_member_in_each_pass() {
    for initiator in 0..7 {
        assert_eq!(elect::<Ring>(8, [7], [initiator]).elapsed(), 2 * TIMING.answer);
    }
}

#[test]
fn a_list_whose_initiator_died_is_concluded_by_the_next_in_it_and_elects_a_living_member() {
    let mut walk = Walk::<Ring>::new(5, [4], member(5));
    walk.ask(3, Command::Elect);
    while walk.sent.len() < 3 {
        walk.step();
    }
    walk.kill(3);
    walk.settle();
    let last = passes(&walk, "election").pop();
    assert_eq!(last, Some((2, 0, vec![3, 0, 1, 2])));
    assert_all_follow(&walk, 2);
}

#[test]
fn a_member_that_comes_back_asks_once_round_who_leads() {
    let mut walk = elect::<Ring>(5, [2, 4], [0]);
    walk.sent.clear();
    walk.restart(2, member(5));
    walk.ask(2, Command::Inquire);
    walk.settle();
    assert_all_follow(&walk, 3);
    let hops = [
        (2, 3, vec![2]),
        (3, 4, vec![2, 3]),
        (3, 0, vec![2, 3]),
        (0, 1, vec![2, 3, 0]),
        (1, 2, vec![2, 3, 0, 1]),
    ];
    assert_eq!(passes(&walk, "inquiry"), hops);
    assert_eq!(walk.count("election", true), 0);
}

#[test]
fn a_member_that_comes_back_elects_when_the_leader_it_hears_of_is_gone() {
    let mut walk = elect::<Ring>(5, [2, 4], [0]);
    walk.kill(3);
    walk.restart(2, member(5));
    walk.ask(2, Command::Inquire);
    walk.settle();
    assert_all_follow(&walk, 2);
}

/// The hops of identifiers, and of announcements: from whom, to whom, and whose it is.
fn identifiers(walk: &Walk<ChangRoberts>, name: &str) -> Vec<(u32, u32, u32)> {
    let whose = |message: &chang_roberts::Message| match message {
        chang_roberts::Message::Election { candidate } if name == "election" => Some(*candidate),
        chang_roberts::Message::Elected { leader } if name == "elected" => Some(*leader),
        chang_roberts::Message::Inquiry { by, .. } if name == "inquiry" => Some(*by),
        chang_roberts::Message::Election { .. }
        | chang_roberts::Message::Elected { .. }
        | chang_roberts::Message::Inquiry { .. }
        | chang_roberts::Message::Ack => None,
    };
    let hop = |sent: &support::walk::Sent<chang_roberts::Message>| {
        Some((sent.from.0, sent.to.0, whose(&sent.message)?.0))
    };
    walk.sent.iter().filter_map(hop).collect()
}

/// The messages that the source counts.
fn chang_roberts_count(walk: &Walk<ChangRoberts>) -> u64 {
    walk.count("election", true) + walk.count("elected", true)
}

/// How often a member won.
fn announced(walk: &Walk<ChangRoberts>, leader: u32) -> usize {
    let sent = identifiers(walk, "elected");
    sent.iter()
        .filter(|(from, to, _)| *from == leader && !walk.dead.contains(&MemberId(*to)))
        .count()
}

#[test]
fn identifiers_are_replaced_up_to_the_highest_which_comes_back_and_is_announced() {
    let walk = elect::<ChangRoberts>(5, [], [2]);
    let first_passes =
        [(2, 3, 2), (3, 4, 3), (4, 0, 4), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 4, 4)];
    assert_eq!(identifiers(&walk, "election"), first_passes);
    let last_pass = [(4, 0, 4), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 4, 4)];
    assert_eq!(identifiers(&walk, "elected"), last_pass);
    assert_eq!(walk.sent.len() as u64, 2 * chang_roberts_count(&walk), "each is acknowledged");
    assert_all_follow(&walk, 4);
}

/// A lecture's example, of which it states that the highest identifier and the leader are 10.
#[test]
fn ten_is_the_highest_identifier_and_leads_whichever_member_begins() {
    for initiator in 0..=10 {
        let walk = elect::<ChangRoberts>(11, [], [initiator]);
        let passed_on = identifiers(&walk, "election");
        let highest_so_far: Vec<u32> =
            passed_on.iter().map(|(_, _, candidate)| *candidate).collect();
        let expected = (initiator..10).chain([10; 11]);
        assert_eq!(highest_so_far, expected.collect::<Vec<_>>());
        assert!(identifiers(&walk, "elected").iter().all(|(_, _, leader)| *leader == 10));
        assert_all_follow(&walk, 10);
    }
}

#[test]
fn the_dead_five_of_six_is_skipped_in_each_pass_and_four_wins() {
    let walk = elect::<ChangRoberts>(6, [5], [3]);
    let first_passes =
        [(3, 4, 3), (4, 5, 4), (4, 0, 4), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 4, 4)];
    assert_eq!(identifiers(&walk, "election"), first_passes);
    assert_eq!((walk.count("election", false), walk.count("elected", false)), (1, 1));
    assert_eq!(walk.elapsed(), 2 * TIMING.answer);
    assert_all_follow(&walk, 4);
}

#[test]
fn a_marked_member_discards_what_is_lower_so_that_one_wins_once_however_many_begin() {
    for initiators in 1_u32..1 << 5 {
        let all = (0..5).filter(|member| initiators >> member & 1 == 1);
        let walk = elect::<ChangRoberts>(5, [], all);
        assert_eq!(announced(&walk, 4), 1, "{initiators:05b}");
        let lowest = initiators.trailing_zeros();
        assert_eq!(chang_roberts_count(&walk), cost::chang_roberts_living(5, lowest.into()));
        assert_all_follow(&walk, 4);
    }
}

#[test]
fn chang_and_roberts_costs_least_when_the_highest_notices_and_most_when_its_successor_does() {
    for n in 2..=16 {
        for initiator in 0..n {
            let walk = elect::<ChangRoberts>(n, [], [initiator]);
            let stated = cost::chang_roberts_living(n.into(), initiator.into());
            assert_eq!(chang_roberts_count(&walk), stated, "n = {n}, {initiator}");
            assert_all_follow(&walk, n - 1);
        }
    }
    for n in 2..=64 {
        assert_eq!(cost::chang_roberts_best(n), 2 * n);
        assert_eq!(cost::chang_roberts_worst(n), 3 * n - 1);
        assert!(cost::chang_roberts_worst(n) <= cost::chang_roberts_most(n));
    }
    assert_eq!(cost::chang_roberts_worst(1), 0);
}

#[test]
fn with_the_highest_dead_several_that_notice_cost_what_the_lowest_of_them_costs() {
    for n in 2..=16 {
        for lowest in 0..n - 1 {
            for initiators in [lowest..lowest + 1, lowest..n - 1] {
                let walk = elect::<ChangRoberts>(n, [n - 1], initiators);
                let stated = cost::chang_roberts(n.into(), lowest.into());
                assert_eq!(chang_roberts_count(&walk), stated, "n = {n}, {lowest}");
                assert_all_follow(&walk, n - 2);
            }
        }
    }
}

/// Its identifier has left, and would go round for ever.
#[test]
fn the_identifier_of_a_candidate_that_died_is_discarded_before_it_and_its_predecessor_wins() {
    let mut walk = Walk::<ChangRoberts>::new(4, [], member(4));
    walk.ask(3, Command::Elect);
    walk.kill(3);
    walk.settle();
    let hops = [(3, 0, 3), (0, 1, 3), (1, 2, 3), (2, 3, 3), (2, 0, 2), (0, 1, 2), (1, 2, 2)];
    assert_eq!(identifiers(&walk, "election"), hops);
    assert_eq!(walk.elapsed(), 2 * TIMING.answer, "nobody waits for an announcement");
    assert_all_follow(&walk, 2);
}

#[test]
fn an_identifier_that_is_lost_with_a_member_is_followed_by_another_election() {
    let mut walk = Walk::<ChangRoberts>::new(4, [], member(4));
    walk.ask(3, Command::Elect);
    while identifiers(&walk, "election").len() < 2 {
        walk.step();
    }
    // It has the message, has acknowledged it, and takes it along.
    walk.step();
    walk.step();
    walk.kill(1);
    walk.settle();
    assert_all_follow(&walk, 3);
}

#[test]
fn a_member_that_comes_back_is_answered_by_the_leader_itself() {
    let mut walk = elect::<ChangRoberts>(5, [2, 4], [0]);
    walk.sent.clear();
    walk.restart(2, member(5));
    walk.ask(2, Command::Inquire);
    walk.settle();
    assert_all_follow(&walk, 3);
    let hops = [(2, 3, 2), (3, 4, 2), (3, 0, 2), (0, 1, 2), (1, 2, 2)];
    assert_eq!(identifiers(&walk, "inquiry"), hops);
    walk.sent.clear();
    walk.kill(3);
    walk.restart(2, member(5));
    walk.ask(2, Command::Inquire);
    walk.settle();
    assert_eq!(identifiers(&walk, "election").first(), Some(&(2, 3, 2)), "nobody leads");
    assert_all_follow(&walk, 2);
}
