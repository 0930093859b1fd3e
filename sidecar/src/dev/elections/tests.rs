//! Ballots, written by hand.

use std::time::Duration;

use conclave_protocols::member::message::ElectionPart;
use conclave_protocols::policy::ElectionAlgorithm;
use conclave_protocols::{Epoch, Incarnation};
use serde_json::{Value, json};

use super::super::member::pod_uid;
use super::picture::{FLIGHTS, SETTLE};
use super::*;
use crate::group::task::ballots::{BallotMessage, Begun};
use crate::metrics::DEFAULT;

#[derive(Default)]
struct Noted {
    elections: Elections,
}

impl Noted {
    fn note(&self, at: u64, election: &str, member: u16, what: BallotEvent) {
        let election = election.to_owned();
        self.elections.note(member, BallotStep { at: LocalTime(at), election, what });
    }

    /// A member begins to nominate among so many; or it is called, or calls, to a ballot.
    fn begun(&self, at: u64, member: u16, id: BallotId, of: (u16, ElectionAlgorithm)) {
        let electorate = (0..of.0).map(process).collect();
        let begun = Begun { ballot: id, electorate, algorithm: Some(of.1) };
        self.note(at, election(id), member, BallotEvent::Begun(begun));
    }

    fn sent(&self, at: u64, id: BallotId, (from, to): (u16, u16), name: &'static str) {
        let id = message(id, name);
        self.note(at, election(id.ballot), from, BallotEvent::Sent { to: process(to), id });
    }

    fn received(&self, at: u64, id: BallotId, (from, to): (u16, u16), name: &'static str) {
        let id = message(id, name);
        let what = BallotEvent::Received { from: process(from), id };
        self.note(at, election(id.ballot), to, what);
    }

    /// A message that takes 10.
    fn flies(&self, at: u64, id: BallotId, link: (u16, u16), name: &'static str) {
        self.sent(at, id, link, name);
        self.received(at + 10, id, link, name);
    }

    fn elected(&self, at: u64, of: &str, member: u16, (winner, messages): (u16, u64)) {
        let outcome = Outcome {
            winner: process(winner),
            messages,
            took: Duration::from_nanos(at),
            algorithm: Some(ElectionAlgorithm::Bully),
        };
        self.note(at, of, member, BallotEvent::Elected(outcome));
    }

    /// The third of three is dead, the lowest notices: by the book of the bully.
    fn bully(&self, at: u64, id: BallotId) {
        self.begun(at, 0, id, (3, ElectionAlgorithm::Bully));
        self.flies(at, id, (0, 1), "election");
        self.sent(at, id, (0, 2), "election");
        self.flies(at + 10, id, (1, 0), "answer");
        self.sent(at + 10, id, (1, 2), "election");
        self.flies(at + 100, id, (1, 0), "coordinator");
        self.sent(at + 100, id, (1, 2), "coordinator");
        self.elected(at + 100, election(id), 1, (1, 4));
        self.elected(at + 110, election(id), 0, (1, 2));
    }

    /// The numbers of the ballots of an election that can be drawn, and whether each has ended.
    fn drawable(&self, of: &str, now: u64) -> Vec<(u64, bool)> {
        let all = self.elections.drawable(LocalTime(now));
        let of_election = all.into_iter().filter(|drawable| drawable.election == of);
        let ballots = of_election.flat_map(|drawable| drawable.ballots);
        ballots.map(|ballot| (ballot.number, ballot.ended)).collect()
    }

    /// The latest.
    fn drawn(&self, of: &str, now: u64) -> Value {
        let (number, _) = *self.drawable(of, now).last().expect("something to draw");
        let diagram = self.elections.diagram(of, number, LocalTime(now)).expect("it can be drawn");
        serde_json::to_value(diagram).expect("plain data")
    }
}

fn process(member: u16) -> Incarnation {
    Incarnation { pod: pod_uid(member), run: 7 }
}

fn election(id: BallotId) -> &'static str {
    if id.number.is_none() { DEFAULT } else { "reports" }
}

fn nomination(epoch: u64) -> BallotId {
    BallotId { epoch: Epoch(epoch), number: None }
}

fn ballot(number: u64) -> BallotId {
    BallotId { epoch: Epoch(3), number: Some(number) }
}

fn message(ballot: BallotId, name: &'static str) -> BallotMessage {
    let part = match name {
        "ack" => ElectionPart::Acknowledgement,
        "call" => ElectionPart::Notice,
        _ => ElectionPart::Textbook,
    };
    BallotMessage { ballot, name, part, mark: 1 }
}

fn settled(at: u64) -> u64 {
    at + u64::try_from(SETTLE.as_nanos()).expect("short")
}

#[test]
fn a_nomination_is_drawn_from_its_first_message_until_the_last_knows_who_is_elected() {
    let noted = Noted::default();
    noted.elections.died(LocalTime(400), 2);
    noted.bully(1_000, nomination(3));
    assert_eq!(noted.drawable(DEFAULT, 1_200), [(1, false)]);
    assert_eq!(noted.drawable(DEFAULT, settled(1_110)), [(1, true)]);
    let drawn = noted.drawn(DEFAULT, 1_200);
    assert_eq!(
        (&drawn["winner"], &drawn["until_ns"], &drawn["electorate"], &drawn["algorithm"]),
        (&json!(1), &json!(110), &json!([0, 1, 2]), &json!("Bully"))
    );
    assert_eq!(drawn["deaths"], json!([{"member": 2, "at_ns": -600}]));
    let counts = [&drawn["counted"], &drawn["acknowledgements"], &drawn["notices"]];
    assert_eq!(counts, [&json!(6), &json!(0), &json!(0)]);
    // By the book 5: two ask two and one, one answers, one is notified. The dead one is notified too.
    assert_eq!(drawn["formula"], json!({"messages": 5, "on_top": 1, "holds": "exactly"}));
    let own: u64 = drawn["ends"]
        .as_array()
        .expect("ends")
        .iter()
        .filter_map(|end| end["messages"].as_u64())
        .sum();
    assert_eq!(json!(own), drawn["counted"], "the members' own counts");
}

#[test]
fn a_message_that_was_lost_is_drawn_without_an_arrival_and_leaves_the_next_of_its_name_its_own() {
    let noted = Noted::default();
    noted.bully(0, nomination(3));
    let drawn = noted.drawn(DEFAULT, 200);
    let messages = drawn["messages"].as_array().expect("messages").iter();
    let (lost, arrived): (Vec<&Value>, Vec<_>) =
        messages.partition(|one| one["received_ns"].is_null());
    assert_eq!((lost.len(), arrived.len()), (3, 3));
    assert!(lost.iter().all(|one| one["to"] == json!(2)), "{lost:?}");
    // The link to the third has come back: what is sent next arrives, and not what was sent before.
    let id = ballot(1);
    noted.sent(0, id, (0, 2), "election");
    let next = BallotMessage { mark: 2, ..message(id, "election") };
    noted.note(50, "reports", 0, BallotEvent::Sent { to: process(2), id: next });
    noted.note(60, "reports", 2, BallotEvent::Received { from: process(0), id: next });
    let drawn = noted.drawn("reports", 100);
    assert_eq!(
        [&drawn["messages"][0]["received_ns"], &drawn["messages"][1]["received_ns"]],
        [&Value::Null, &json!(60)]
    );
}

#[test]
fn of_messages_that_look_the_same_the_first_sent_is_the_first_received_in_whatever_order_they_are_noted()
 {
    let noted = Noted::default();
    let (id, link) = (nomination(3), (0, 1));
    noted.received(10, id, link, "election");
    noted.sent(0, id, link, "election");
    noted.sent(20, id, link, "election");
    noted.sent(40, id, link, "election");
    noted.received(50, id, link, "election");
    let drawn = noted.drawn(DEFAULT, 60);
    let messages = drawn["messages"].as_array().expect("messages").iter();
    let ends: Vec<_> =
        messages.map(|one| (one["sent_ns"].as_u64(), one["received_ns"].as_u64())).collect();
    assert_eq!(ends, [(Some(0), Some(10)), (Some(20), Some(50)), (Some(40), None)]);
}

#[test]
fn the_next_ballot_is_another_picture_and_only_the_latest_are_remembered() {
    let noted = Noted::default();
    for number in 1..=6 {
        noted.bully(number * 1_000, ballot(number));
    }
    let numbers =
        |of| noted.drawable(of, 7_000).into_iter().map(|(number, _)| number).collect::<Vec<_>>();
    assert_eq!(numbers("reports"), [3, 4, 5, 6]);
    noted.bully(8_000, nomination(3));
    assert_eq!(numbers(DEFAULT), [7], "another election has its own");
    // What arrives late belongs to its own ballot.
    noted.received(8_500, ballot(5), (0, 2), "election");
    assert_eq!(numbers("reports"), [3, 4, 5, 6]);
    let late = noted.elections.diagram("reports", 5, LocalTime(9_000)).expect("it is remembered");
    let late = serde_json::to_value(late).expect("plain data");
    assert_eq!(late["messages"][1]["received_ns"], json!(3_500));
    assert!(noted.elections.diagram("reports", 2, LocalTime(9_000)).is_none());
    assert!(noted.elections.diagram("none", 5, LocalTime(9_000)).is_none());
}

#[test]
fn a_member_that_nominates_once_more_in_one_view_begins_another_picture() {
    let noted = Noted::default();
    let (id, of) = (nomination(3), (3, ElectionAlgorithm::Bully));
    noted.begun(0, 0, id, of);
    noted.begun(5, 1, id, of);
    assert_eq!(noted.drawable(DEFAULT, 10).len(), 1, "they take part in one");
    noted.elected(20, DEFAULT, 1, (1, 3));
    noted.begun(1_000, 0, id, of);
    noted.begun(1_005, 1, id, of);
    assert_eq!(noted.drawable(DEFAULT, 1_010), [(1, false), (2, false)]);
    assert_eq!(noted.drawn(DEFAULT, 1_010)["winner"], Value::Null, "nobody has won this one");
    // One that begins when all has been over for long was on the other side of a partition.
    noted.elected(1_020, DEFAULT, 1, (1, 3));
    noted.begun(settled(1_020) - 1, 2, id, of);
    assert_eq!(noted.drawable(DEFAULT, 1_030).len(), 2);
    let later = settled(settled(1_020));
    noted.begun(later, 3, id, of);
    assert_eq!(noted.drawable(DEFAULT, later), [(1, true), (2, true), (3, false)]);
    noted.begun(0, 0, ballot(1), of);
    noted.begun(5, 0, ballot(1), of);
    assert_eq!(noted.drawable("reports", 1_010).len(), 1, "a call that comes twice is one");
}

#[test]
fn a_ballot_of_the_one_that_calls_it_is_drawn_without_a_message() {
    let noted = Noted::default();
    noted.bully(0, ballot(1));
    noted.elected(1_000, "reports", 1, (1, 0));
    noted.elected(2_000, "reports", 1, (1, 0));
    assert_eq!(noted.drawable("reports", 2_000).len(), 3);
    let drawn = noted.drawn("reports", 2_000);
    assert_eq!(
        (&drawn["winner"], &drawn["counted"], &drawn["electorate"]),
        (&json!(1), &json!(0), &json!([1]))
    );
    // One that was called alone has a picture already.
    noted.begun(3_000, 0, ballot(2), (1, ElectionAlgorithm::Ring));
    noted.elected(3_000, "reports", 0, (0, 0));
    assert_eq!(noted.drawable("reports", 3_000).len(), 4);
    assert_eq!(noted.drawn("reports", 3_000)["algorithm"], json!("Ring"));
    // Of a ballot in which a member was not there is no outcome of it.
    noted.elected(4_000, "other", 5, (1, 3));
    assert_eq!(noted.drawable("other", 4_000), []);
}

#[test]
fn a_ballot_of_too_many_messages_says_that_it_was_cut() {
    let noted = Noted::default();
    let id = nomination(3);
    for _ in 0..FLIGHTS {
        noted.sent(0, id, (0, 1), "election");
    }
    assert_eq!(noted.drawn(DEFAULT, 10)["cut"], json!(false));
    noted.sent(0, id, (0, 1), "election");
    let drawn = noted.drawn(DEFAULT, 10);
    assert_eq!(
        (&drawn["cut"], drawn["messages"].as_array().map(Vec::len)),
        (&json!(true), Some(FLIGHTS))
    );
}

#[test]
fn only_the_elections_are_remembered_in_which_something_happened_of_late() {
    let noted = Noted::default();
    let of = |number: usize| format!("election-{number}");
    for number in 0..ELECTIONS {
        noted.elected(1, &of(number), 1, (1, 0));
    }
    noted.elected(2, &of(0), 1, (1, 0));
    noted.elected(3, &of(ELECTIONS), 1, (1, 0));
    let names: Vec<_> =
        noted.elections.drawable(LocalTime(4)).into_iter().map(|one| one.election).collect();
    assert_eq!(names.len(), ELECTIONS);
    assert!(names.contains(&of(0)), "something happened in it again");
    assert!(!names.contains(&of(1)), "nothing happened in it for longest");
}

#[test]
fn the_death_of_a_member_is_drawn_until_it_lives_again() {
    let noted = Noted::default();
    let deaths = |of| noted.drawn(of, 9_000)["deaths"].clone();
    noted.bully(0, nomination(3));
    noted.elections.died(LocalTime(5_000), 1);
    assert_eq!(deaths(DEFAULT), json!([]), "that was later");
    noted.bully(6_000, nomination(4));
    assert_eq!(deaths(DEFAULT), json!([{"member": 1, "at_ns": -1_000}]));
    noted.elections.lives(1);
    noted.bully(7_000, nomination(5));
    assert_eq!(deaths(DEFAULT), json!([]));
    noted.bully(8_000, ballot(1));
    noted.elections.died(LocalTime(8_050), 0);
    assert_eq!(deaths("reports"), json!([{"member": 0, "at_ns": 50}]));
}

/// The formula's figures: messages, what is on top, how exactly.
fn formula(noted: &Noted) -> Value {
    let drawn = noted.drawn(DEFAULT, 1_000);
    let formula = &drawn["formula"];
    if formula.is_null() {
        return Value::Null;
    }
    json!([formula["messages"], formula["on_top"], formula["holds"]])
}

#[test]
fn the_formula_of_a_ring_counts_those_that_began_a_list() {
    let id = nomination(3);
    let ring = |beginners: &[u16], dead: bool| {
        let noted = Noted::default();
        noted.begun(0, 0, id, (4, ElectionAlgorithm::Ring));
        let living: u16 = if dead { 3 } else { 4 };
        for member in 0..living {
            let at = if beginners.contains(&member) { 0 } else { 100 * u64::from(member) };
            noted.flies(at, id, (member, (member + 1) % living), "election");
            noted.flies(at + 10, id, ((member + 1) % living, member), "ack");
        }
        let drawn = noted.drawn(DEFAULT, 1_000);
        assert_eq!(
            [&drawn["counted"], &drawn["acknowledgements"]],
            [&json!(living), &json!(living)]
        );
        formula(&noted)
    };
    assert_eq!(ring(&[0], true), json!([6, 2, "at_most"]));
    assert_eq!(ring(&[0, 1, 2], true), json!([18, 6, "at_most"]));
    assert_eq!(ring(&[0], false), json!([8, 0, "at_most"]));
}

#[test]
fn the_formula_of_chang_and_roberts_goes_by_the_lowest_that_began() {
    let formula_of = |beginners: &[u16], dead: Option<u16>| {
        let noted = Noted::default();
        let id = nomination(3);
        noted.begun(0, 0, id, (4, ElectionAlgorithm::ChangRoberts));
        let living: Vec<u16> = (0..4).filter(|member| Some(*member) != dead).collect();
        for (place, member) in living.iter().enumerate() {
            let at = if beginners.contains(member) { 0 } else { 100 + 100 * place as u64 };
            let next = living[(place + 1) % living.len()];
            noted.flies(at, id, (*member, next), "election");
        }
        formula(&noted)
    };
    assert_eq!(formula_of(&[3], None), json!([8, 0, "at_most"]), "2N");
    assert_eq!(formula_of(&[0], None), json!([11, 0, "at_most"]), "3N - 1");
    assert_eq!(formula_of(&[1, 3], None), json!([10, 0, "at_most"]));
    assert_eq!(formula_of(&[0, 1, 2], Some(3)), json!([8, 3, "at_most"]));
    assert_eq!(formula_of(&[3], Some(1)), json!([6, 3, "at_most"]));
}

#[test]
fn the_formula_of_a_spanning_tree_is_exact_if_one_begins_and_the_most_there_can_be_if_several_do() {
    let formula_of = |beginners: &[u16], dead: Option<u16>| {
        let noted = Noted::default();
        let id = nomination(3);
        noted.begun(0, 0, id, (4, ElectionAlgorithm::SpanningTree));
        let living: Vec<u16> = (0..4).filter(|member| Some(*member) != dead).collect();
        for member in &living {
            let at = if beginners.contains(member) { 0 } else { 100 };
            for other in living.iter().filter(|other| *other != member) {
                noted.flies(at, id, (*member, *other), "election");
            }
        }
        formula(&noted)
    };
    assert_eq!(formula_of(&[3], None), json!([21, 0, "at_most"]), "(N - 1)(2N - 1)");
    assert_eq!(formula_of(&[0], Some(3)), json!([10, 3, "at_most"]));
    assert_eq!(formula_of(&[0, 1, 2, 3], None), json!([38, 0, "at_most"]));
    assert_eq!(formula_of(&[0, 1, 2], Some(3)), json!([15, 6, "at_most"]));
}

#[test]
fn a_case_that_the_textbook_does_not_have_has_no_figure() {
    let id = nomination(3);
    let bully = |size, present: &[u16]| {
        let noted = Noted::default();
        noted.begun(0, 0, id, (size, ElectionAlgorithm::Bully));
        let pairs = present.windows(2);
        pairs.for_each(|pair| noted.flies(0, id, (pair[0], pair[1]), "election"));
        formula(&noted)
    };
    assert_eq!(
        bully(4, &[1, 0, 2]),
        json!([11, 1, "exactly"]),
        "all but the highest, the lowest asks"
    );
    assert_eq!(bully(4, &[0, 2, 3]), Value::Null, "another than the highest is dead");
    assert_eq!(bully(4, &[0, 1]), Value::Null, "two are dead");
    assert_eq!(
        bully(3, &[1, 2, 0, 1]),
        json!([8, 2, "at_equal_delays"]),
        "all live, the lowest asks"
    );
    let lost = Noted::default();
    lost.begun(0, 0, id, (3, ElectionAlgorithm::Bully));
    for link in [(1, 2), (2, 0), (0, 1)] {
        lost.flies(0, id, link, "election");
    }
    lost.sent(0, id, (0, 2), "election");
    assert_eq!(formula(&lost), Value::Null, "one that lives was not reached");
    assert_eq!(
        bully(3, &[1, 2, 0]),
        json!([4, 0, "at_equal_delays"]),
        "all live, the middle one asks"
    );
}
