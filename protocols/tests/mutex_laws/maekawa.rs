//! Maekawa's algorithm: its laws, its deadlocks where nobody takes a vote back, and its costs.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use conclave_protocols::mutex::maekawa::{Maekawa, OwnVote, Quorums};
use conclave_protocols::mutex::{Carried, Command, Mutex, Phase};
use conclave_protocols::sim::Simulator;
use conclave_protocols::{MemberId, Named, View, cost};
use stateright::Model;

use crate::any::{Lock, Visits, assert_breaks};
use crate::counted::{delays_in_turn, visit, whoever_is_inside};
use crate::patience::most_overtaken;
use crate::printed::Printed;
use crate::support::walk::{Sent, Walk};
use crate::view;

mod grid {
    use super::*;
    crate::any::laws_of!(Lock::new(Maekawa::new), asks: [2, 2, 2]);
}

mod given {
    use super::*;
    crate::any::laws_of!(triangle(), asks: [2, 2, 2]);
}

/// Each member and those that follow on the ring until they are a majority: of three members that
/// is the triangle {1, 2}, {2, 3}, {3, 1} of the books.
fn ring(size: u32) -> Quorums {
    let set = |me: u32| (0..=size / 2).map(|step| MemberId((me + step) % size)).collect();
    Quorums::given((0..size).map(set).collect()).expect("majorities meet")
}

/// The seven points of the Fano plane: sets of three, any two of which meet in one.
fn plane() -> Quorums {
    let set = |me: u32| [0, 1, 3].map(|step| MemberId((me + step) % 7)).into();
    Quorums::given((0..7).map(set).collect()).expect("lines meet")
}

fn triangle() -> Lock<Maekawa> {
    Lock::new(|me, view: View, carried: &Carried| {
        Maekawa::with_quorums(me, view, carried, &ring(view.size))
    })
}

fn basic(own: OwnVote) -> Lock<Maekawa> {
    Lock::new(move |me, view: View, carried: &Carried| {
        Maekawa::basic(me, view, carried, &ring(view.size), own)
    })
}

/// Whom each voter has voted for, and who waits for its vote.
type Votes = Vec<(Option<u32>, Vec<u32>)>;

/// How the votes stand where nothing can happen any more and somebody waits.
fn deadlocks(lock: &Lock<Maekawa>) -> BTreeSet<Votes> {
    let world = lock.world(Visits::of([1, 1, 1]));
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut open = world.init_states();
    while let Some(group) = open.pop() {
        let mut hasher = DefaultHasher::new();
        group.hash(&mut hasher);
        if !seen.insert(hasher.finish()) {
            continue;
        }
        let next = world.next_states(&group);
        let members = || group.living().map(|(_, member)| &member.protocol);
        if next.is_empty() && members().any(|member| member.phase() == Phase::Waiting) {
            let queue = |one: &Maekawa| one.queue().map(|member| member.0).collect();
            let votes = |one: &Maekawa| (one.voted_for().map(|member| member.0), queue(one));
            found.insert(members().map(votes).collect());
        }
        open.extend(next);
    }
    found
}

/// Every voter has voted for itself.
fn each_for_itself() -> Votes {
    vec![(Some(0), vec![2]), (Some(1), vec![0]), (Some(2), vec![1])]
}

/// Every voter has voted for another, and is the one that waits.
fn each_for_another() -> Votes {
    vec![(Some(2), vec![0]), (Some(0), vec![1]), (Some(1), vec![2])]
}

#[test]
fn the_basic_form_of_the_triangle_has_two_deadlocks() {
    let found = deadlocks(&basic(OwnVote::ByMessage));
    assert_eq!(found, [each_for_itself(), each_for_another()].into());
}

#[test]
fn a_member_that_takes_its_own_vote_at_once_is_spared_one_of_them() {
    assert_eq!(deadlocks(&basic(OwnVote::AtOnce)), [each_for_itself()].into());
}

#[test]
fn the_triangle_has_no_deadlock_if_votes_are_taken_back() {
    assert_eq!(deadlocks(&triangle()), BTreeSet::new());
}

#[test]
fn the_basic_form_lets_one_in_at_a_time_but_not_everybody() {
    assert_breaks(basic(OwnVote::AtOnce).world(Visits::of([1, 1, 1])), "whoever waits gets in");
}

#[test]
fn the_printed_code_lets_two_in() {
    let printed = Lock::new(|me, view: View, _: &Carried| Printed::new(me, &ring(view.size)));
    assert_breaks(printed.world(Visits::of([1, 1, 0])), "at most one is inside");
}

/// How many pairs of members are let in together by the printed code, if they ask at once.
fn pairs_let_in(quorums: &Quorums) -> usize {
    let size = u32::try_from(quorums.members()).expect("a small group");
    let pairs = (0..size).flat_map(|one| (0..one).map(move |other| (other, one)));
    let both_inside = |(one, other): &(u32, u32)| {
        let mut walk = Walk::new(size, [], |me| Printed::new(me, quorums));
        walk.ask(*one, Command::Enter);
        walk.ask(*other, Command::Enter);
        walk.settle();
        [one, other].iter().all(|m| walk.members[**m as usize].phase() == Phase::Inside)
    };
    pairs.filter(both_inside).count()
}

#[test]
fn the_printed_code_fails_where_two_sets_have_nobody_else_in_common() {
    let grids = [2, 3, 4].map(|side| Quorums::grid(side * side));
    assert_eq!(pairs_let_in(&ring(3)), 3);
    assert_eq!(grids.each_ref().map(pairs_let_in), [4, 0, 0]);
    assert_eq!(pairs_let_in(&plane()), 14);
    let all = [ring(3), plane(), Quorums::grid(4), Quorums::grid(9), Quorums::grid(7)];
    for quorums in all {
        let members = || (0..).map(MemberId).take(quorums.members());
        let pairs = members().flat_map(|one| members().map(move |other| (other, one)));
        let alone = pairs.filter(|(other, one)| {
            let [theirs, ours] = [other, one].map(|member| quorums.of(*member));
            other < one && theirs.intersection(&ours).all(|voter| voter == one || voter == other)
        });
        assert_eq!(alone.count(), pairs_let_in(&quorums), "{quorums:?}");
    }
}

fn walk(quorums: &Quorums) -> Walk<Maekawa> {
    let size = u32::try_from(quorums.members()).expect("a small group");
    Walk::new(size, [], |me| Maekawa::with_quorums(me, view(size), &Carried::default(), quorums))
}

/// All that are inside leave, until nobody is. How many that were.
fn let_all_in(walk: &mut Walk<Maekawa>) -> u32 {
    walk.settle();
    let mut entries = 0;
    while let Some(member) = whoever_is_inside(walk) {
        walk.ask(member, Command::Exit);
        walk.settle();
        entries += 1;
    }
    entries
}

#[test]
fn an_entry_costs_three_messages_for_each_other_member_of_the_quorum() {
    for size in 2..=16 {
        let quorums = Quorums::grid(size);
        for member in 0..size {
            let mut walk = walk(&quorums);
            visit(&mut walk, member);
            let quorum = quorums.of(MemberId(member)).len() as u64;
            assert_eq!(walk.sent.len() as u64, cost::maekawa(quorum), "{member} of {size}");
        }
    }
}

#[test]
fn in_a_square_that_is_fewer_than_all_but_oneself_twice_if_there_are_more_than_four() {
    for side in [2, 3, 4, 5] {
        let size = side * side;
        let mut walk = walk(&Quorums::grid(size));
        visit(&mut walk, size / 2);
        assert_eq!(walk.sent.len() as u64, cost::maekawa_grid(side.into()));
    }
    assert_eq!([2, 3, 4, 5].map(cost::maekawa_grid), [6, 12, 18, 24]);
    assert_eq!([4, 9, 16, 25].map(|n| 2 * (n - 1)), [6, 16, 30, 48]);
}

#[test]
fn the_first_is_in_after_a_round_trip_and_the_next_a_round_trip_after_it_has_left() {
    let round_trip = Duration::from_secs(2);
    // In a small grid the first two of a row vote for each other, and a third is not needed.
    for (size, next) in
        [(3, round_trip / 2), (4, round_trip / 2), (9, round_trip), (16, round_trip)]
    {
        let delays = delays_in_turn(&Lock::new(Maekawa::new), size);
        assert_eq!(delays, (round_trip, next), "n = {size}");
    }
}

#[test]
fn all_get_in_who_ask_at_once_at_no_more_than_twice_the_cost() {
    for size in 2..=16 {
        for quorums in [Quorums::grid(size), ring(size)] {
            let mut walk = walk(&quorums);
            (0..size).rev().for_each(|member| walk.ask(member, Command::Enter));
            assert_eq!(let_all_in(&mut walk), size);
            let sets = (0..size).map(|member| quorums.of(MemberId(member)).len() as u64);
            let [least, most] =
                [cost::maekawa, cost::maekawa_most].map(|cost| sets.clone().map(cost).sum::<u64>());
            let sent = walk.sent.len() as u64;
            assert!((least..=most).contains(&sent), "{sent} of {least} to {most}, n = {size}");
        }
    }
}

#[test]
fn a_voter_sees_nine_messages_for_two_entries_if_its_vote_is_taken_back() {
    let all: BTreeSet<MemberId> = view(4).members().collect();
    let mut walk = walk(&Quorums::given(vec![all; 4]).expect("all meet"));
    walk.ask(3, Command::Enter);
    walk.ask(0, Command::Enter);
    assert_eq!(let_all_in(&mut walk), 2);
    let voter = MemberId(1);
    let touches = |sent: &&Sent<_>| sent.from == voter || sent.to == voter;
    let seen: Vec<_> = walk.sent.iter().filter(touches).map(|sent| sent.message.name()).collect();
    let recall = ["request", "inquire", "relinquish", "locked", "release", "locked"];
    for name in recall {
        assert!(seen.contains(&name), "{name}");
    }
    assert_eq!(seen.len() as u64, cost::maekawa(2) + cost::maekawa_most(2));
    assert_eq!(seen.len(), 9);
}

/// Whether the request of a member that waits has come to all its voters.
fn is_known(sim: &Simulator<Maekawa>, member: MemberId) -> bool {
    let size = u32::try_from(sim.nodes().count()).expect("a small group");
    Quorums::grid(size).of(member).iter().all(|voter| {
        let voter = sim.node(*voter).expect("nobody crashes");
        voter.voted_for() == Some(member) || voter.queue().any(|known| known == member)
    })
}

#[test]
fn nobody_enters_more_than_twice_before_one_whose_requests_have_arrived() {
    let lock = Lock::new(Maekawa::new);
    let most = (0..200).map(|seed| most_overtaken(&lock, seed, Duration::ZERO, is_known)).max();
    assert_eq!(most, Some(2));
}
