//! One ballot, as the page draws it.

use std::collections::BTreeSet;
use std::time::Duration;

use conclave_protocols::LocalTime;
use conclave_protocols::member::message::ElectionPart;
use conclave_protocols::policy::ElectionAlgorithm;
use serde::Serialize;

use super::formula::{Formula, formula};
use super::picture::{Flight, Picture};

/// One ballot. All times are nanoseconds since its first message was sent.
#[derive(Debug, Serialize)]
pub(in super::super) struct Diagram {
    /// Counts the ballots of all elections.
    number: u64,
    ended: bool,
    algorithm: Option<ElectionAlgorithm>,
    /// By rank, the lowest first. Nobody if that is not known.
    electorate: Vec<u16>,
    /// Who was nominated, as the last to hear so heard.
    winner: Option<u16>,
    /// When the last heard so; else the moment of the last message.
    until_ns: i64,
    messages: Vec<MessageView>,
    ends: Vec<EndView>,
    /// Who was dead before, or died meanwhile.
    deaths: Vec<DeathView>,
    /// Messages sent, as the textbook counts them.
    counted: usize,
    acknowledgements: usize,
    notices: usize,
    formula: Option<Formula>,
    /// There was more than is remembered.
    cut: bool,
}

#[derive(Debug, Serialize)]
struct MessageView {
    from: u16,
    to: u16,
    name: &'static str,
    part: &'static str,
    sent_ns: i64,
    /// Nothing if it did not arrive so far.
    received_ns: Option<i64>,
}

#[derive(Debug, Serialize)]
struct EndView {
    member: u16,
    winner: u16,
    at_ns: i64,
    /// What this member sent until then, by its own count.
    messages: u64,
    took_ns: u64,
}

#[derive(Debug, Serialize)]
struct DeathView {
    member: u16,
    at_ns: i64,
}

impl Picture {
    /// The messages that the textbook counts.
    pub(super) fn counted(&self) -> impl Iterator<Item = &Flight> {
        self.flights.iter().filter(|flight| flight.id.part == ElectionPart::Textbook)
    }

    /// The members that sent or received something until then: those that were dead, cut off or held up did not.
    fn present(&self, until: LocalTime) -> BTreeSet<u16> {
        let by = |at: Option<LocalTime>| at.is_some_and(|at| at <= until);
        let sent = self.flights.iter().filter(|f| by(f.sent)).map(|flight| flight.link.0);
        let received = self.flights.iter().filter(|f| by(f.received)).map(|flight| flight.link.1);
        sent.chain(received).collect()
    }
}

impl Diagram {
    pub(super) fn of(picture: &Picture, now: LocalTime) -> Self {
        let sent = picture.flights.iter().filter_map(|flight| flight.sent);
        let received = picture.flights.iter().filter_map(|flight| flight.received);
        let ends = picture.ends.iter().map(|end| end.at);
        let from = sent.clone().chain(ends.clone()).min().unwrap_or(now);
        let until = ends.max().or_else(|| sent.chain(received).max()).unwrap_or(now);
        let mut messages: Vec<MessageView> =
            picture.flights.iter().filter_map(|flight| flight.view(from)).collect();
        messages.sort_by_key(|message| message.sent_ns);
        let count = |part| {
            let is = |flight: &&Flight| flight.id.part == part && flight.sent.is_some();
            picture.flights.iter().filter(is).count()
        };
        let deaths = picture.dead.iter().filter(|(member, at)| {
            **at <= until && (picture.electorate.contains(member) || picture.is_in(**member))
        });
        Self {
            number: picture.number,
            ended: picture.has_ended(now),
            algorithm: picture.algorithm,
            electorate: picture.electorate.clone(),
            winner: picture.ends.iter().max_by_key(|end| end.at).map(|end| end.winner),
            until_ns: since(until, from),
            messages,
            ends: picture.ends.iter().map(|end| EndView::of(end, from)).collect(),
            deaths: deaths
                .map(|(member, at)| DeathView { member: *member, at_ns: since(*at, from) })
                .collect(),
            counted: count(ElectionPart::Textbook),
            acknowledgements: count(ElectionPart::Acknowledgement),
            notices: count(ElectionPart::Notice),
            formula: formula(picture, &picture.present(until)),
            cut: picture.is_cut,
        }
    }
}

impl EndView {
    fn of(end: &super::picture::MemberEnd, from: LocalTime) -> Self {
        Self {
            member: end.member,
            winner: end.winner,
            at_ns: since(end.at, from),
            messages: end.messages,
            took_ns: nanos(end.took),
        }
    }
}

impl Flight {
    /// Nothing if its sender has not noted it.
    fn view(&self, from: LocalTime) -> Option<MessageView> {
        let part = match self.id.part {
            ElectionPart::Textbook => "textbook",
            ElectionPart::Acknowledgement => "acknowledgement",
            ElectionPart::Notice => "notice",
        };
        Some(MessageView {
            from: self.link.0,
            to: self.link.1,
            name: self.id.name,
            part,
            sent_ns: since(self.sent?, from),
            received_ns: self.received.map(|received| since(received, from)),
        })
    }
}

/// Negative if it was before.
fn since(at: LocalTime, zero: LocalTime) -> i64 {
    at.0.wrapping_sub(zero.0).cast_signed()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
