//! A lock's course, written by hand.

use conclave_protocols::policy::LockAlgorithm;
use conclave_protocols::{Epoch, Incarnation};
use serde_json::{Value, json};

use super::super::super::member::pod_uid;
use super::*;

const LEADER: u16 = 4;

/// A moment that nobody gets to.
const FAR: u64 = 1_000_000_000_000;

#[derive(Default)]
struct Notified {
    course: Course,
    entries: u64,
}

impl Notified {
    fn note(&mut self, at: u64, member: u16, what: What) {
        self.course.note(LocalTime(at), member, what, &mut self.entries);
    }

    fn sent(&mut self, at: u64, from: u16, to: u16, name: &'static str) {
        self.note(at, from, What::Sent { to: process(to), id: id(name) });
    }

    fn received(&mut self, at: u64, from: u16, to: u16, name: &'static str) {
        self.note(at, to, What::Received { from: process(from), id: id(name) });
    }

    fn entered(&mut self, at: u64, member: u16, deadline: u64) {
        let term = Term::new(LocalTime(at), LocalTime(deadline), true);
        let (leader, algorithm) = (Some(process(LEADER)), Some(LockAlgorithm::Central));
        self.note(at, member, What::Entered(Entered { token: None, term, leader, algorithm }));
    }

    /// A member enters by the book: it asks at that time, enters at 40 more, and has left at 100 more.
    fn whole_entry(&mut self, at: u64, member: u16) {
        self.note(at, member, What::Asked);
        self.sent(at, member, LEADER, "request");
        self.received(at + 20, member, LEADER, "request");
        self.sent(at + 20, LEADER, member, "grant");
        self.received(at + 40, LEADER, member, "grant");
        self.entered(at + 40, member, FAR);
        self.note(at + 100, member, What::Left);
        self.sent(at + 100, member, LEADER, "release");
        self.received(at + 130, member, LEADER, "release");
    }

    fn drawn(&mut self, at: u64) -> Value {
        let entry = self.course.entry(LocalTime(at)).expect("something to draw");
        serde_json::to_value(entry).expect("plain data")
    }
}

fn process(member: u16) -> Incarnation {
    Incarnation { pod: pod_uid(member), run: 7 }
}

fn id(name: &'static str) -> MessageId {
    MessageId { name, epoch: Epoch(3), mark: 1 }
}

fn settled(at: u64) -> u64 {
    at + u64::try_from(SETTLE.as_nanos()).expect("short")
}

#[test]
fn an_entry_is_drawn_from_the_request_to_the_arrival_of_the_release() {
    let mut notified = Notified::default();
    notified.whole_entry(1_000, 2);
    let message = |name, from, to, sent, received| json!({"name": name, "from": from, "to": to, "epoch": 3, "sent_ns": sent, "received_ns": received});
    let drawn = notified.drawn(settled(1_100));
    assert_eq!(
        drawn["messages"],
        json!([
            message("request", 2, LEADER, 0, 20),
            message("grant", LEADER, 2, 20, 40),
            message("release", 2, LEADER, 100, 130),
        ])
    );
    let stay = json!({"member": 2, "asked_ns": 0, "entered_ns": 40, "until_ns": 100, "token": null, "end": "left"});
    assert_eq!(drawn["stays"], json!([stay]));
    assert_eq!(
        (&drawn["member"], &drawn["leader"], &drawn["algorithm"], &drawn["whole"]),
        (&json!(2), &json!(LEADER), &json!("Central"), &json!(true))
    );
}

#[test]
fn a_message_that_its_receiver_notes_before_its_sender_is_one_message() {
    let mut notified = Notified::default();
    notified.note(0, 2, What::Asked);
    notified.received(20, 2, LEADER, "request");
    notified.sent(0, 2, LEADER, "request");
    notified.entered(40, 2, FAR);
    let messages = &notified.drawn(50)["messages"];
    assert_eq!(messages.as_array().map(Vec::len), Some(1));
    assert_eq!((&messages[0]["sent_ns"], &messages[0]["received_ns"]), (&json!(0), &json!(20)));
}

#[test]
fn of_messages_that_look_the_same_the_first_sent_is_the_first_received() {
    let mut notified = Notified::default();
    notified.note(0, 2, What::Asked);
    notified.sent(0, 2, LEADER, "request");
    notified.sent(10, 2, LEADER, "request");
    notified.received(20, 2, LEADER, "request");
    notified.entered(40, 2, FAR);
    let messages = &notified.drawn(50)["messages"];
    assert_eq!(messages[0]["received_ns"], json!(20));
    assert_eq!(messages[1]["received_ns"], Value::Null, "it is under way");
}

#[test]
fn the_drawing_stands_until_the_next_entry_has_ended() {
    let mut notified = Notified::default();
    assert_eq!(notified.course.drawable(LocalTime(0)), None);
    notified.note(0, 1, What::Asked);
    assert_eq!(notified.course.drawable(LocalTime(5)), None, "nobody has entered");
    notified.entered(10, 1, FAR);
    assert_eq!(notified.course.drawable(LocalTime(20)), Some((1, false)));
    notified.note(30, 1, What::Left);
    assert_eq!(notified.course.drawable(LocalTime(40)), Some((1, false)), "a message is under way");
    let later = settled(30);
    assert_eq!(notified.course.drawable(LocalTime(later)), Some((1, true)));
    let before = notified.drawn(later);
    notified.note(later, 2, What::Asked);
    notified.sent(later, 2, LEADER, "request");
    notified.entered(later + 10, 2, FAR);
    assert_eq!(notified.course.drawable(LocalTime(later + 20)), Some((1, true)));
    assert_eq!(notified.drawn(later + 20), before);
    notified.note(later + 30, 2, What::Left);
    assert_eq!(notified.course.drawable(LocalTime(settled(later + 30))), Some((2, true)));
}

#[test]
fn an_entry_is_drawn_though_the_next_ends_before_its_messages_have_settled() {
    let mut notified = Notified::default();
    notified.whole_entry(0, 1);
    notified.whole_entry(200, 2);
    assert_eq!(notified.course.drawable(LocalTime(400)), Some((1, true)));
    assert_eq!(notified.course.drawable(LocalTime(settled(300))), Some((2, true)));
}

#[test]
fn a_member_that_is_held_up_is_drawn_in_section_until_its_lease_is_over() {
    let mut notified = Notified::default();
    notified.note(0, 1, What::Asked);
    notified.entered(10, 1, 500);
    notified
        .course
        .extend(1, Lease { stamp: LocalTime(20), until: LocalTime(1_000), ..Lease::default() });
    notified
        .course
        .extend(2, Lease { stamp: LocalTime(20), until: LocalTime(5_000), ..Lease::default() });
    notified.whole_entry(1_100, 2);
    let (later, member) = (settled(1_200), |drawn: &Value| drawn["member"].clone());
    assert_eq!(member(&notified.drawn(later)), json!(2));
    notified.note(later, 1, What::Lost);
    assert_eq!(member(&notified.drawn(settled(later))), json!(2), "the other entry ended after it");
    let lost =
        notified.course.stays.iter().find(|stay| stay.member == 1).expect("it is remembered");
    let drawn = notified.course.draw(*lost, LocalTime(later), true);
    assert_eq!(drawn.until(), LocalTime(1_000));
}

#[test]
fn the_entry_of_a_member_ends_with_its_process() {
    let mut notified = Notified::default();
    notified.note(0, 1, What::Asked);
    notified.entered(10, 1, FAR);
    notified.course.died(LocalTime(50), 1);
    let drawn = notified.drawn(settled(50));
    assert_eq!((&drawn["ended"], &drawn["until_ns"]), (&json!(true), &json!(50)));
    assert_eq!(drawn["stays"][0]["end"], json!("died"));
}

#[test]
fn an_entry_whose_first_messages_were_forgotten_says_so() {
    let mut notified = Notified::default();
    notified.note(100, 1, What::Asked);
    notified.entered(110, 1, FAR);
    assert_eq!(notified.drawn(120)["whole"], json!(true));
    for _ in 0..=FLIGHTS {
        notified.sent(120, 1, 2, "token");
    }
    assert_eq!(notified.course.flights.len(), FLIGHTS);
    assert_eq!(notified.drawn(130)["whole"], json!(false));
}

#[test]
fn an_entry_that_has_ended_is_drawn_before_its_messages_are_forgotten() {
    let mut notified = Notified::default();
    notified.whole_entry(1_000, 2);
    for _ in 0..=FLIGHTS {
        notified.sent(1_200, 1, 2, "token");
    }
    let drawn = notified.drawn(1_300);
    assert_eq!(
        (&drawn["whole"], drawn["messages"].as_array().map(Vec::len)),
        (&json!(true), Some(3))
    );
}

#[test]
fn a_holder_is_remembered_however_many_give_up_meanwhile() {
    let mut notified = Notified::default();
    notified.note(0, 1, What::Asked);
    notified.entered(10, 1, FAR);
    let tries = 3 * STAYS as u64;
    for at in 0..tries {
        notified.note(20 + at, 2, What::Asked);
        notified.note(20 + at, 2, What::Left);
    }
    notified.note(30 + tries, 1, What::Left);
    notified.note(30 + tries, 2, What::Asked);
    assert_eq!(notified.course.stays.len(), STAYS);
    let drawn = notified.drawn(settled(30 + tries));
    let stays = drawn["stays"].as_array().expect("stays").iter();
    assert_eq!(stays.filter(|stay| stay["member"] == json!(1)).count(), 1);
}
