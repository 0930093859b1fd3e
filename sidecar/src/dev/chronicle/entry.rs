//! One entry of a member into a lock, as the page draws it.

use std::collections::VecDeque;

use conclave_protocols::member::Term;
use conclave_protocols::policy::LockAlgorithm;
use conclave_protocols::{FencingToken, LocalTime};
use serde::Serialize;

use super::super::member::number_of;
use crate::group::task::steps::{Entered, MessageId};

/// A message of a lock. Either end may be noted first, or alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// From whom, to whom.
    pub(super) link: (u16, u16),
    pub(super) id: MessageId,
    pub(super) sent: Option<LocalTime>,
    pub(super) received: Option<LocalTime>,
}

/// A time that a member waited for a lock, and was then in the critical section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stay {
    pub(super) member: u16,
    pub(super) asked: LocalTime,
    pub(super) in_section: Option<InSection>,
    /// As the member noticed it.
    pub(super) over: Option<(LocalTime, End)>,
}

/// How a member is in the critical section.
#[derive(Clone, Copy, Debug)]
pub(super) struct InSection {
    /// Counts the entries into all locks.
    pub(super) number: u64,
    at: LocalTime,
    /// Whatever the member notices: it is outside from then on.
    pub(super) term: Term,
    token: Option<FencingToken>,
    leader: Option<u16>,
    algorithm: Option<LockAlgorithm>,
}

/// How a stay ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum End {
    /// The member left, or gave up waiting.
    Left,
    /// Its lease ended, or its leader lease.
    Lost,
    /// Its process ended.
    Died,
}

/// One entry, from when the member asked until it left, or until now. All times are nanoseconds
/// since it asked.
#[derive(Clone, Debug, Serialize)]
pub(in super::super) struct Entry {
    /// Counts the entries into all locks.
    number: u64,
    /// The picture does not change any more.
    pub(super) ended: bool,
    member: u16,
    /// Who led when it entered.
    leader: Option<u16>,
    algorithm: Option<LockAlgorithm>,
    /// How long it waited.
    entered_ns: i64,
    /// When it left; else the moment of the picture.
    until_ns: i64,
    /// Whether all its messages are remembered.
    pub(super) whole: bool,
    /// Who waited meanwhile, and who was in the critical section.
    stays: Vec<StayView>,
    messages: Vec<FlightView>,
    /// The moment that `until_ns` states.
    #[serde(skip)]
    until: LocalTime,
}

#[derive(Clone, Debug, Serialize)]
struct StayView {
    member: u16,
    asked_ns: i64,
    entered_ns: Option<i64>,
    until_ns: Option<i64>,
    token: Option<u64>,
    end: Option<End>,
}

#[derive(Clone, Debug, Serialize)]
struct FlightView {
    from: u16,
    to: u16,
    name: &'static str,
    epoch: u64,
    sent_ns: i64,
    /// Nothing if it did not arrive, or not in time.
    received_ns: Option<i64>,
}

impl Flight {
    /// Whether this is such a message.
    pub(super) fn is(&self, link: (u16, u16), id: MessageId) -> bool {
        self.link == link && self.id == id
    }

    /// When it was first seen.
    pub(super) fn at(&self) -> LocalTime {
        self.sent.or(self.received).unwrap_or_default()
    }

    /// Nothing if it lies outside of that time.
    fn view(&self, from: LocalTime, until: LocalTime) -> Option<FlightView> {
        let sent = self.sent.filter(|sent| *sent <= until)?;
        if sent.max(self.received.unwrap_or_default()) < from {
            return None;
        }
        Some(FlightView {
            from: self.link.0,
            to: self.link.1,
            name: self.id.name,
            epoch: self.id.epoch.0,
            sent_ns: since(sent, from),
            received_ns: self.received.map(|received| since(received, from)),
        })
    }
}

impl Stay {
    pub(super) fn enter(&mut self, at: LocalTime, entered: Entered, number: u64) {
        let Entered { token, term, leader, algorithm } = entered;
        let leader = leader.and_then(|leader| number_of(leader.pod));
        self.in_section = Some(InSection { number, at, term, token, leader, algorithm });
    }

    /// When and how it ended. A member that is held up does not notice that its lease is over.
    fn end(&self, now: LocalTime) -> Option<(LocalTime, End)> {
        let (at, how) = self.over.unzip();
        let deadline = self.in_section.map(|in_section| in_section.term.until());
        match deadline.filter(|deadline| *deadline < at.unwrap_or(now)) {
            Some(deadline) => Some((deadline, End::Lost)),
            None => at.zip(how),
        }
    }

    /// Nothing if it lies outside of that time.
    fn view(&self, from: LocalTime, until: LocalTime, now: LocalTime) -> Option<StayView> {
        let end = self.end(now);
        if self.asked > until || end.is_some_and(|(at, _)| at < from) {
            return None;
        }
        Some(StayView {
            member: self.member,
            asked_ns: since(self.asked, from),
            entered_ns: self.in_section.map(|in_section| since(in_section.at, from)),
            until_ns: end.map(|(at, _)| since(at, from)),
            token: self.in_section.and_then(|in_section| in_section.token).map(FencingToken::get),
            end: end.map(|(_, how)| how),
        })
    }
}

impl Entry {
    /// Draws a stay that goes on, and what happened meanwhile.
    pub(super) fn new(
        stay: &Stay,
        stays: &VecDeque<Stay>,
        flights: &VecDeque<Flight>,
        now: LocalTime,
    ) -> Self {
        let from = stay.asked;
        let until = stay.end(now).map_or(now, |(at, _)| at);
        let in_section = stay.in_section;
        let messages = flights.iter().filter_map(|flight| flight.view(from, until));
        let mut messages: Vec<FlightView> = messages.collect();
        messages.sort_by_key(|flight| flight.sent_ns);
        Self {
            number: in_section.map_or(0, |in_section| in_section.number),
            ended: false,
            member: stay.member,
            leader: in_section.and_then(|in_section| in_section.leader),
            algorithm: in_section.and_then(|in_section| in_section.algorithm),
            entered_ns: in_section.map_or(0, |in_section| since(in_section.at, from)),
            until_ns: since(until, from),
            whole: true,
            stays: stays.iter().filter_map(|stay| stay.view(from, until, now)).collect(),
            messages,
            until,
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// When it ended, or the moment of the picture.
    pub(super) fn until(&self) -> LocalTime {
        self.until
    }
}

/// Negative if it was before.
fn since(at: LocalTime, zero: LocalTime) -> i64 {
    at.0.wrapping_sub(zero.0).cast_signed()
}
