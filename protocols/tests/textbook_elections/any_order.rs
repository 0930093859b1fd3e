//! Chang and Roberts' election as the source has it, on rings in every order, with marks and without: what is
//! stated of rings that a group does not have, whose ring is in the order of ranks. It is a model of the source, and no test
//! of the product: that is in the laws of `election_laws.rs`, and counted in order of ranks beside this file.

use std::collections::VecDeque;

use conclave_protocols::cost;

/// What one election was.
struct Outcome {
    messages: u64,
    /// How often the highest got its own identifier back.
    wins: u64,
    /// What was sent, in order, and by whom.
    sent: Vec<(u32, Message)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Message {
    Election(u32),
    Elected(u32),
}

/// The members in the order of the ring; at these places they begin at once.
fn elect(ring: &[u32], begin: impl Fn(usize) -> bool, has_marks: bool) -> Outcome {
    let mut outcome = Outcome { messages: 0, wins: 0, sent: Vec::new() };
    let mut marked: Vec<bool> = (0..ring.len()).map(&begin).collect();
    let started = (0..ring.len()).filter(|place| begin(*place));
    let mut sent: VecDeque<(usize, Message)> =
        started.map(|place| (place, Message::Election(ring[place]))).collect();
    while let Some((from, message)) = sent.pop_front() {
        outcome.messages += 1;
        outcome.sent.push((ring[from], message));
        let place = (from + 1) % ring.len();
        let own = ring[place];
        let next = match message {
            Message::Election(one) if one == own => {
                outcome.wins += 1;
                marked[place] = false;
                Message::Elected(own)
            }
            Message::Election(one) if one < own && marked[place] && has_marks => continue,
            Message::Election(one) => {
                marked[place] = true;
                Message::Election(one.max(own))
            }
            Message::Elected(one) if one == own => continue,
            Message::Elected(one) => {
                marked[place] = false;
                Message::Elected(one)
            }
        };
        sent.push_back((place, next));
    }
    outcome
}

/// All orders of so many members.
fn orders(size: u32) -> Vec<Vec<u32>> {
    let Some(last) = size.checked_sub(1) else { return vec![vec![]] };
    let insert = |order: Vec<u32>| {
        (0..=order.len()).map(move |place| {
            let mut order = order.clone();
            order.insert(place, last);
            order
        })
    };
    orders(last).into_iter().flat_map(insert).collect()
}

/// Coulouris, Dollimore, Kindberg and Blair, figure 15.7, which is in the middle of an election: "The election was
/// started by process 17. The highest process identifier encountered so far is 24." A lecture that repeats it has 19
/// begin. It is not on a group's ring, where an identifier below the highest goes one step. The order is one
/// that fits: the next after the beginner is 24, and one below that passes it on.
#[test]
fn seventeen_begins_and_twenty_four_is_the_highest_so_far_until_twenty_eight_wins() {
    for beginner in [17, 19] {
        let ring = [3, beginner, 24, 1, 28, 15, 9, 4];
        let outcome = elect(&ring, |place| ring[place] == beginner, true);
        let so_far = [(beginner, beginner), (24, 24), (1, 24)];
        assert_eq!(outcome.sent[..3], so_far.map(|(by, one)| (by, Message::Election(one))));
        assert_eq!(outcome.sent[3], (28, Message::Election(28)));
        let (last, first): (Vec<_>, Vec<_>) =
            outcome.sent[3..].iter().copied().partition(|(_, sent)| *sent == Message::Elected(28));
        assert_eq!(first, [28, 15, 9, 4, 3, beginner, 24, 1].map(|by| (by, Message::Election(28))));
        assert_eq!(last, [28, 15, 9, 4, 3, beginner, 24, 1].map(|by| (by, Message::Elected(28))));
        assert_eq!((outcome.wins, outcome.messages), (1, 3 + 2 * 8));
    }
}

#[test]
fn with_marks_the_highest_wins_once_and_without_once_for_each_that_begins() {
    let mut tried = [0, 0];
    for ring in orders(5) {
        for set in 1_u32..1 << 5 {
            let begins = |place: usize| set >> place & 1 == 1;
            let n = ring.len() as u64;
            let marked = elect(&ring, begins, true);
            assert_eq!(marked.wins, 1, "{ring:?} {set:05b}");
            assert!(marked.messages >= cost::chang_roberts_best(n), "{ring:?} {set:05b}");
            assert!(marked.messages <= cost::chang_roberts_most(n), "{ring:?} {set:05b}");
            let several = set.count_ones() > 1;
            let unmarked = elect(&ring, begins, false);
            assert_eq!(unmarked.wins, u64::from(set.count_ones()), "{ring:?} {set:05b}");
            tried[usize::from(several)] += 1;
        }
    }
    assert_eq!(tried, [600, 3_120]);
}

#[test]
fn one_that_begins_costs_its_way_to_the_highest_and_two_passes_on_a_ring_in_any_order() {
    for ring in orders(6) {
        let n = ring.len();
        let highest = ring.iter().position(|one| *one == 5).expect("it is there");
        for beginner in 0..n {
            let way = (highest + n - beginner) % n;
            let outcome = elect(&ring, |place| place == beginner, true);
            assert_eq!(outcome.messages, (way + 2 * n) as u64, "{ring:?} {beginner}");
        }
    }
}

#[test]
fn all_that_begin_at_once_cost_most_on_a_ring_in_descending_order_and_least_in_ascending() {
    for n in 2..=64_u32 {
        let ascending: Vec<u32> = (0..n).collect();
        let descending: Vec<u32> = ascending.iter().rev().copied().collect();
        let [least, most] =
            [ascending, descending].map(|ring| elect(&ring, |_| true, true).messages);
        assert_eq!(least, cost::chang_roberts_worst(n.into()), "n = {n}");
        assert_eq!(most, cost::chang_roberts_most(n.into()), "n = {n}");
    }
    for ring in orders(6) {
        let messages = elect(&ring, |_| true, true).messages;
        assert!((17..=27).contains(&messages), "{ring:?}: {messages}");
    }
}
