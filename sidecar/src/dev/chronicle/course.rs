//! What happened to one lock of late.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use conclave_protocols::LocalTime;
use conclave_protocols::member::{Lease, Term};

use super::super::member::number_of;
use super::entry::{End, Entry, Flight, Stay};
use crate::group::task::steps::{Entered, MessageId, What};

/// What happened to one lock of late.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// In the order in which the first end of each was noted.
    flights: VecDeque<Flight>,
    /// In the order in which the members asked.
    stays: VecDeque<Stay>,
    /// All messages that were sent after this are remembered.
    forgotten: LocalTime,
    /// The last entry that has ended, while its last messages may be under way.
    ending: Option<Stay>,
    /// The last entry that has ended, with all its messages.
    last: Option<Entry>,
    /// The number of the latest step, of all locks.
    pub(super) touched: u64,
}

/// How many messages are remembered.
const FLIGHTS: usize = 512;

/// How many times that a member waited or was in the critical section are remembered.
const STAYS: usize = 64;

/// How long a message may be under way. One that takes longer is drawn as if it never arrived.
const SETTLE: Duration = Duration::from_millis(200);

impl Course {
    /// Something happened at a member. Counts the entries into all locks.
    pub(super) fn note(&mut self, at: LocalTime, member: u16, what: What, entries: &mut u64) {
        self.settle(at);
        match what {
            What::Asked => self.asked(at, member),
            What::Sent { to, id } => {
                if let Some(to) = number_of(to.pod) {
                    self.sent(at, (member, to), id);
                }
            }
            What::Received { from, id } => {
                if let Some(from) = number_of(from.pod) {
                    self.received(at, (from, member), id);
                }
            }
            What::Entered(entered) => {
                *entries += 1;
                self.entered(at, member, entered, *entries);
            }
            What::Extended { deadline } => {
                if let Some(term) = self.term(member) {
                    term.extend(deadline);
                }
            }
            What::Renewed { renewed, listed } => {
                if let Some(term) = self.term(member) {
                    term.set_renewed(at, renewed, listed);
                }
            }
            What::Left => self.over(at, member, End::Left),
            What::Lost => self.over(at, member, End::Lost),
        }
    }

    /// The lease of a member goes on.
    pub(super) fn extend(&mut self, member: u16, lease: Lease) {
        if let Some(term) = self.term(member) {
            term.renew(lease);
        }
    }

    /// For how long a member is in the critical section.
    fn term(&mut self, member: u16) -> Option<&mut Term> {
        Some(&mut self.open(member)?.in_section.as_mut()?.term)
    }

    /// A member's process has ended.
    pub(super) fn died(&mut self, at: LocalTime, member: u16) {
        self.over(at, member, End::Died);
    }

    /// The number of the entry that is to be drawn, and whether it has ended.
    pub(super) fn drawable(&mut self, now: LocalTime) -> Option<(u64, bool)> {
        self.settle(now);
        match &self.last {
            Some(last) => Some((last.number(), true)),
            None => Some((self.latest()?.in_section?.number, false)),
        }
    }

    /// The last entry that has ended; while there is none, the latest.
    pub(super) fn entry(&mut self, now: LocalTime) -> Option<Entry> {
        self.settle(now);
        match &self.last {
            Some(last) => Some(last.clone()),
            None => Some(self.draw(self.latest()?, now, false)),
        }
    }

    fn asked(&mut self, at: LocalTime, member: u16) {
        if self.open(member).is_some() {
            return;
        }
        if self.stays.len() >= STAYS {
            // Nothing is forgotten of what is still to be drawn.
            self.complete(at);
            let ended = self.stays.iter().position(|stay| stay.over.is_some());
            self.stays.remove(ended.unwrap_or(0));
        }
        self.stays.push_back(Stay { member, asked: at, in_section: None, over: None });
    }

    fn entered(&mut self, at: LocalTime, member: u16, entered: Entered, number: u64) {
        self.asked(at, member);
        if let Some(stay) = self.open(member) {
            stay.enter(at, entered, number);
        }
    }

    /// A member does not wait any more, or is no longer in the critical section.
    fn over(&mut self, at: LocalTime, member: u16, how: End) {
        let Some(stay) = self.open(member) else { return };
        stay.over = Some((at, how));
        let stay = *stay;
        if stay.in_section.is_some() {
            self.complete(at);
            self.ending = Some(stay);
        }
    }

    /// The critical section that a member waits for, or is in.
    fn open(&mut self, member: u16) -> Option<&mut Stay> {
        self.stays.iter_mut().rev().find(|stay| stay.member == member && stay.over.is_none())
    }

    fn latest(&self) -> Option<Stay> {
        let entered = self.stays.iter().filter_map(|stay| Some((stay.in_section?.number, *stay)));
        entered.max_by_key(|(number, _)| *number).map(|(_, stay)| stay)
    }

    /// The threads of two members may have what they know written down in either order.
    fn sent(&mut self, at: LocalTime, link: (u16, u16), id: MessageId) {
        let flight = self.flights.iter_mut().find(|f| f.sent.is_none() && f.is(link, id));
        match flight {
            Some(flight) => flight.sent = Some(at),
            None => self.push(Flight { link, id, sent: Some(at), received: None }),
        }
    }

    /// Links are FIFO: of messages that cannot be distinguished, the first sent is the first received.
    fn received(&mut self, at: LocalTime, link: (u16, u16), id: MessageId) {
        let flight = self.flights.iter_mut().find(|f| f.received.is_none() && f.is(link, id));
        match flight {
            Some(flight) => flight.received = Some(at),
            None => self.push(Flight { link, id, sent: None, received: Some(at) }),
        }
    }

    fn push(&mut self, flight: Flight) {
        if self.flights.len() >= FLIGHTS {
            self.complete(flight.at());
            if let Some(oldest) = self.flights.pop_front() {
                self.forgotten = self.forgotten.max(oldest.at());
            }
        }
        self.flights.push_back(flight);
    }

    /// Draws the entry that ended last, once its messages have had time to arrive.
    fn settle(&mut self, now: LocalTime) {
        let over = self.ending.as_ref().and_then(|stay| stay.over);
        if over.is_some_and(|(at, _)| now - at >= SETTLE) {
            self.complete(now);
        }
    }

    /// Draws the entry that ended last, unless a later one was drawn: a member that was held up
    /// may notice late that it is outside.
    fn complete(&mut self, now: LocalTime) {
        let Some(stay) = self.ending.take() else { return };
        let entry = self.draw(stay, now, true);
        if self.last.as_ref().is_none_or(|last| last.until() < entry.until()) {
            self.last = Some(entry);
        }
    }

    fn draw(&self, stay: Stay, now: LocalTime, ended: bool) -> Entry {
        let mut entry = Entry::new(&stay, &self.stays, &self.flights, now);
        entry.ended = ended;
        entry.whole = self.forgotten < stay.asked;
        entry
    }
}
