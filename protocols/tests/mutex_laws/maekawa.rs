//! Maekawa's algorithm: its laws, its deadlocks where nobody takes a vote back, and its costs.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use conclave_protocols::mutex::maekawa::{Maekawa, Message, Quorums};
use conclave_protocols::mutex::{Carried, Command, Mutex, Phase};
use conclave_protocols::protocol::{EffectOf, InputOf};
use conclave_protocols::sim::Simulator;
use conclave_protocols::{Effect, Input, MemberId, Named, View, cost};

use crate::any::{Lock, Sections, assert_breaks, check, count, for_each_state};
use crate::counted::{delays_in_turn, section, those_in_section};
use crate::flawed::{Flaw, Flawed};
use crate::patience::most_overtaken;
use crate::printed::Printed;
use crate::selfish::Selfish;
use crate::storm::{self, Broken};
use crate::support::Subject;
use crate::support::walk::{Sent, Walk};
use crate::support::world::Order;
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
/// is the triangle {1, 2}, {2, 3}, {3, 1} of the textbook.
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

/// The form that never asks for a vote back, and notifies nobody that it fails. It may deadlock.
type Basic = Flawed<Maekawa, NeverAsksBack>;

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct NeverAsksBack;

impl Flaw<Maekawa> for NeverAsksBack {
    fn spoil(_: &InputOf<Maekawa>, mut effects: Vec<EffectOf<Maekawa>>) -> Vec<EffectOf<Maekawa>> {
        effects.retain(|effect| match effect {
            Effect::Send { message: Message::Failed(_) | Message::Inquire(_), .. } => false,
            Effect::Send { .. } | Effect::Arm { .. } | Effect::Disarm(_) | Effect::Tell(_) => true,
        });
        effects
    }
}

fn basic(quorums: fn(u32) -> Quorums) -> Lock<Basic> {
    Lock::new(move |me, view: View, carried: &Carried| {
        Basic::around(Maekawa::with_quorums(me, view, carried, &quorums(view.size)))
    })
}

/// The triangle again, of three members that get their own votes by a message too: with that of each, which nobody
/// else asks for, each of the first three has two voters among the last three.
fn triangle_of_voters(size: u32) -> Quorums {
    assert_eq!(size, 6);
    let sets = [[0, 3, 4], [1, 4, 5], [2, 5, 3], [3, 4, 5], [3, 4, 5], [3, 4, 5]];
    let sets = sets.map(|set| set.map(MemberId).into());
    Quorums::given(sets.into()).expect("any two meet")
}

/// Whom each voter has voted for, and who waits for its vote.
type Votes = Vec<(Option<u32>, Vec<u32>)>;

/// How the votes of these members stand where nothing can happen any more and somebody waits, and how many states
/// there are. In none of them two are in the critical section.
fn deadlocks<P: Subject + Mutex>(
    lock: &Lock<P>,
    (asking, voters): (&[u8], Range<usize>),
    maekawa: fn(&P) -> &Maekawa,
) -> (BTreeSet<Votes>, usize) {
    let mut found = BTreeSet::new();
    let states = for_each_state(&lock.world(Sections::of(asking)), |group, next| {
        assert!(count(group, Phase::InSection) <= 1, "{group:#?}");
        if next.is_empty() && count(group, Phase::Waiting) > 0 {
            let queue = |one: &Maekawa| one.queue().map(|member| member.0).collect();
            let stands = |one: &Maekawa| (one.voted_for().map(|member| member.0), queue(one));
            let voters = group.members[voters.clone()].iter();
            found.insert(voters.map(|voter| stands(maekawa(&voter.protocol))).collect());
        }
    });
    (found, states)
}

/// Three ask, of whom each takes its own vote at once.
const AT_ONCE: (&[u8], Range<usize>) = (&[1, 1, 1], 0..3);

/// Three ask three others.
const BY_MESSAGE: (&[u8], Range<usize>) = (&[1, 1, 1, 0, 0, 0], 3..6);

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
    let (found, states) = deadlocks(&basic(triangle_of_voters), BY_MESSAGE, |one| &one.lock);
    assert_eq!(found, [each_for_itself(), each_for_another()].into());
    assert!(states > 2_000, "{states}");
}

#[test]
fn a_member_that_takes_its_own_vote_at_once_is_spared_one_of_them() {
    let found = deadlocks(&basic(ring), AT_ONCE, |one| &one.lock).0;
    assert_eq!(found, [each_for_itself()].into());
}

#[test]
fn the_triangle_has_no_deadlock_if_votes_are_taken_back() {
    assert_eq!(deadlocks(&triangle(), AT_ONCE, |one| one).0, BTreeSet::new());
    let voters = |me, view: View, carried: &Carried| {
        Maekawa::with_quorums(me, view, carried, &triangle_of_voters(view.size))
    };
    assert_eq!(deadlocks(&Lock::new(voters), BY_MESSAGE, |one| one).0, BTreeSet::new());
}

#[test]
fn the_basic_form_lets_one_in_at_a_time_but_not_everybody() {
    let broken: Vec<Broken> =
        (0..200).filter_map(|seed| storm::run(&basic(ring), seed).err()).collect();
    assert!(!broken.is_empty());
    assert!(broken.iter().all(|broken| matches!(broken, Broken::Waits(_))), "{broken:?}");
    for (lock, (asking, _)) in [(basic(ring), AT_ONCE), (basic(triangle_of_voters), BY_MESSAGE)] {
        assert_breaks(lock.world(Sections::of(asking)), "a member that waits enters");
    }
}

/// Only a member whose request comes too late is notified that it fails, and not one that is
/// displaced as the first in line, as the algorithm is usually described.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct TellsOnlyTheLate;

impl Flaw<Maekawa> for TellsOnlyTheLate {
    fn spoil(input: &InputOf<Maekawa>, effects: Vec<EffectOf<Maekawa>>) -> Vec<EffectOf<Maekawa>> {
        let is_late = |notified: &MemberId| match input {
            Input::Message { from, message: Message::Request(_) } => from == notified,
            Input::Message { .. } | Input::Command(_) | Input::Timer(_) => false,
        };
        let keeps = |effect: &EffectOf<Maekawa>| match effect {
            Effect::Send { to, message: Message::Failed(_) } => is_late(to),
            Effect::Send { .. } | Effect::Arm { .. } | Effect::Disarm(_) | Effect::Tell(_) => true,
        };
        effects.into_iter().filter(keeps).collect()
    }
}

/// All ask 3, and 0 asks 1 too. If 3 hears first of 2, then of 1 and last of 0, it displaces 1, which
/// holds its own vote, for which 0 waits, until it knows that it fails.
#[test]
fn unless_a_displaced_member_learns_of_it_all_may_wait() {
    let sets: [&[u32]; 4] = [&[0, 1, 3], &[1, 3], &[2, 3], &[3]];
    let sets = sets.map(|set| set.iter().copied().map(MemberId).collect());
    let quorums = Quorums::given(sets.into()).expect("all meet in the last");
    let member =
        move |me, view, carried: &Carried| Maekawa::with_quorums(me, view, carried, &quorums);
    let sections = || Sections::of([1, 1, 1, 0]);
    check(Lock::new(member.clone()).world(sections()));
    let unnotified = Lock::new(move |me, view, carried: &Carried| {
        Flawed::<_, TellsOnlyTheLate>::around(member(me, view, carried))
    });
    assert_breaks(unnotified.world(sections()), "a member that waits enters");
}

#[test]
fn the_printed_code_lets_two_in() {
    let printed = Lock::new(|me, view: View, _: &Carried| Printed::new(me, &ring(view.size)));
    assert_breaks(printed.world(Sections::of([1, 1, 0])), "at most one is in the critical section");
}

/// How many pairs of members the printed code admits together, if they ask at once.
fn pairs_admitted(quorums: &Quorums) -> usize {
    let size = u32::try_from(quorums.members()).expect("a small group");
    let pairs = (0..size).flat_map(|one| (0..one).map(move |other| (other, one)));
    let both_in_section = |(one, other): &(u32, u32)| {
        let mut walk = Walk::new(size, [], |me| Printed::new(me, quorums));
        walk.ask(*one, Command::Enter);
        walk.ask(*other, Command::Enter);
        walk.settle();
        [one, other].iter().all(|m| walk.members[**m as usize].phase() == Phase::InSection)
    };
    pairs.filter(both_in_section).count()
}

#[test]
fn the_printed_code_fails_where_two_sets_have_nobody_else_in_common() {
    let grids = [2, 3, 4].map(|side| Quorums::grid(side * side));
    assert_eq!((pairs_admitted(&ring(2)), pairs_admitted(&Quorums::grid(2))), (1, 1));
    assert_eq!(pairs_admitted(&ring(3)), 3);
    assert_eq!(grids.each_ref().map(pairs_admitted), [4, 0, 0]);
    assert_eq!(pairs_admitted(&plane()), 14);
    let all = [ring(2), ring(3), plane(), Quorums::grid(4), Quorums::grid(9), Quorums::grid(7)];
    for quorums in all {
        let members = || (0..).map(MemberId).take(quorums.members());
        let pairs = members().flat_map(|one| members().map(move |other| (other, one)));
        let alone = pairs.filter(|(other, one)| {
            let [theirs, ours] = [other, one].map(|member| quorums.of(*member));
            other < one && theirs.intersection(&ours).all(|voter| voter == one || voter == other)
        });
        assert_eq!(alone.count(), pairs_admitted(&quorums), "{quorums:?}");
    }
}

fn walk(quorums: &Quorums) -> Walk<Maekawa> {
    let size = u32::try_from(quorums.members()).expect("a small group");
    Walk::new(size, [], |me| Maekawa::with_quorums(me, view(size), &Carried::default(), quorums))
}

/// All that are in the critical section leave, until nobody is. How many that were.
fn let_all_in(walk: &mut Walk<Maekawa>) -> u32 {
    walk.settle();
    let mut entries = 0;
    while let Some(member) = those_in_section(walk) {
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
            section(&mut walk, member);
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
        section(&mut walk, size / 2);
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
fn all_enter_who_ask_at_once_at_no_more_than_twice_the_cost() {
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
fn is_known<P: Mutex>(
    sim: &Simulator<P>,
    member: MemberId,
    maekawa: impl Fn(&P) -> &Maekawa,
) -> bool {
    let size = u32::try_from(sim.nodes().count()).expect("a small group");
    Quorums::grid(size).of(member).iter().all(|voter| {
        let voter = maekawa(sim.node(*voter).expect("nobody crashes"));
        voter.voted_for() == Some(member) || voter.queue().any(|known| known == member)
    })
}

#[test]
fn nobody_enters_more_than_twice_before_one_whose_requests_have_arrived() {
    let lock = Lock::new(Maekawa::new);
    let is_known = |sim: &_, member| is_known(sim, member, |maekawa| maekawa);
    let most = (0..1_000).map(|seed| most_overtaken(&lock, seed, Duration::ZERO, is_known)).max();
    assert_eq!(most, Some(2));
}

#[test]
fn members_that_keep_the_votes_for_themselves_are_found_out() {
    let lock = Lock::new(Selfish::<Maekawa>::new);
    let is_known = |sim: &_, member| is_known(sim, member, |selfish: &Selfish<_>| &selfish.lock);
    let most = (0..200).map(|seed| most_overtaken(&lock, seed, Duration::ZERO, is_known)).max();
    assert!(most > Some(2), "{most:?}");
}

#[test]
fn where_messages_overtake_one_another_somebody_waits_for_ever() {
    let sections = Sections::of([1, 1, 0]).with_withdrawals(1);
    assert_breaks(triangle().world(sections).with_order(Order::Any), "a member that waits enters");
}

/// Of five members each asks itself and the next two.
#[test]
fn the_crash_of_a_member_that_no_candidate_asks_is_not_noticed_and_that_of_another_is() {
    let lock = Lock::new(|me, view: View, carried: &Carried| {
        Maekawa::with_quorums(me, view, carried, &ring(view.size))
    });
    check(lock.world(Sections::of([1, 1, 0, 0, 0])).with_dead(4));
    let asks_it = lock.world(Sections::of([0, 0, 1, 0, 0])).with_dead(4);
    assert_breaks(asks_it, "a member that waits enters");
    let has_votes = lock.world(Sections::of([1, 0, 0, 0, 0]).carrying(Some(1), &[])).with_dead(1);
    assert_breaks(has_votes, "a member that waits enters");
}

/// The pages have 3√n messages for an entry, and state that it pays from five members on.
#[test]
fn three_times_the_root_is_fewer_than_twice_all_others_from_five_members_on() {
    let squares = |n: u64| (9 * n, cost::ricart_agrawala(n, 1).pow(2));
    let pays = |n: &u64| squares(*n).0 < squares(*n).1;
    assert_eq!((1..=100).find(pays), Some(5));
    assert!((5..=100).all(|n| pays(&n)));
    assert_eq!(squares(4), (36, 36), "as many for four");
}

/// Sets of which one contains another are no waste where that is meant: here all ask the first, which
/// asks itself alone, so that it is a coordinator.
#[test]
fn a_set_may_contain_another() {
    let star = |size| {
        let set = |me| [MemberId(0), MemberId(me)].into();
        Quorums::given((0..size).map(set).collect()).expect("all meet in the first")
    };
    let lock = Lock::new(move |me, view: View, carried: &Carried| {
        Maekawa::with_quorums(me, view, carried, &star(view.size))
    });
    check(lock.world(Sections::of([1, 1, 1]).with_withdrawals(1)));
    let mut walk = walk(&star(5));
    section(&mut walk, 3);
    assert_eq!(walk.sent.len() as u64, cost::central(1));
}
