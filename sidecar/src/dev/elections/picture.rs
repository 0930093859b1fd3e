//! What happened in one ballot, at all members.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocols::LocalTime;
use conclave_protocols::policy::ElectionAlgorithm;

use super::super::member::number_of;
use super::DrawableBallot;
use crate::group::task::ballots::{BallotId, BallotMessage, Begun, Outcome};

/// What happened in one ballot.
#[derive(Debug)]
pub(super) struct Picture {
    /// Counts the ballots of all elections.
    pub(super) number: u64,
    /// Which it is; nothing if no message was sent in it.
    pub(super) id: Option<BallotId>,
    pub(super) algorithm: Option<ElectionAlgorithm>,
    /// By rank, the lowest first.
    pub(super) electorate: Vec<u16>,
    /// In the order in which the first end of each was noted.
    pub(super) flights: Vec<Flight>,
    pub(super) ends: Vec<MemberEnd>,
    /// When members died, before it or in it.
    pub(super) dead: BTreeMap<u16, LocalTime>,
    /// There was more than is remembered.
    pub(super) is_cut: bool,
    begun: BTreeSet<u16>,
    at_ms: u64,
    changes: u64,
    latest: LocalTime,
}

/// A message. Either end may be noted first, or alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// From whom, to whom.
    pub(super) link: (u16, u16),
    pub(super) id: BallotMessage,
    pub(super) sent: Option<LocalTime>,
    pub(super) received: Option<LocalTime>,
}

/// How it ended for a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberEnd {
    pub(super) at: LocalTime,
    pub(super) member: u16,
    pub(super) winner: u16,
    /// What that member sent, by its own count.
    pub(super) messages: u64,
    pub(super) took: Duration,
}

/// How many messages of a ballot are remembered, with [`super::BALLOTS`] 4,096 of an election. The bully of 16
/// members sends at most 240, a ring of 16 that all begin some 1,000.
pub(super) const FLIGHTS: usize = 1024;

/// How many outcomes: several for each member, if several win in a row.
const ENDS: usize = 256;

/// A ballot that came to something and in which nothing happens for so long has ended.
pub(super) const SETTLE: Duration = Duration::from_millis(500);

impl Picture {
    pub(super) fn new(
        number: u64,
        id: Option<BallotId>,
        at_ms: u64,
        dead: BTreeMap<u16, LocalTime>,
    ) -> Self {
        Self {
            number,
            id,
            algorithm: None,
            electorate: Vec::new(),
            flights: Vec::new(),
            ends: Vec::new(),
            dead,
            is_cut: false,
            begun: BTreeSet::new(),
            at_ms,
            changes: 0,
            latest: LocalTime::default(),
        }
    }

    pub(super) fn begun(&mut self, at: LocalTime, member: u16, begun: &Begun) {
        self.begun.insert(member);
        self.algorithm = self.algorithm.or(begun.algorithm);
        if self.electorate.is_empty() {
            let numbers = begun.electorate.iter().filter_map(|one| number_of(one.pod));
            self.electorate = numbers.collect();
        }
        self.changed(at);
    }

    /// The threads of two members may have what they know written down in either order.
    pub(super) fn sent(&mut self, at: LocalTime, link: (u16, u16), id: BallotMessage) {
        let flight = self.flights.iter_mut().find(|f| f.sent.is_none() && f.is(link, id));
        match flight {
            Some(flight) => flight.sent = Some(at),
            None => self.push(Flight { link, id, sent: Some(at), received: None }),
        }
        self.changed(at);
    }

    /// Links are FIFO: of messages that cannot be distinguished, the first sent is the first received.
    pub(super) fn received(&mut self, at: LocalTime, link: (u16, u16), id: BallotMessage) {
        let flight = self.flights.iter_mut().find(|f| f.received.is_none() && f.is(link, id));
        match flight {
            Some(flight) => flight.received = Some(at),
            None => self.push(Flight { link, id, sent: None, received: Some(at) }),
        }
        self.changed(at);
    }

    pub(super) fn elected(&mut self, at: LocalTime, member: u16, outcome: Outcome) {
        let Some(winner) = number_of(outcome.winner.pod) else { return };
        self.algorithm = self.algorithm.or(outcome.algorithm);
        if self.id.is_none() && self.electorate.is_empty() {
            self.electorate = vec![member];
        }
        let Outcome { messages, took, .. } = outcome;
        if self.ends.len() < ENDS {
            self.ends.push(MemberEnd { at, member, winner, messages, took });
        } else {
            self.is_cut = true;
        }
        self.changed(at);
    }

    pub(super) fn died(&mut self, at: LocalTime, member: u16) {
        self.dead.insert(member, at);
        if !self.has_ended(at) {
            self.changes += 1;
        }
    }

    /// Whether a member has begun it, by itself or because it was called.
    pub(super) fn has_begun(&self, member: u16) -> bool {
        self.begun.contains(&member)
    }

    /// Whether a member takes part in it.
    pub(super) fn is_in(&self, member: u16) -> bool {
        let sees = |flight: &Flight| flight.link.0 == member || flight.link.1 == member;
        self.has_begun(member) || self.flights.iter().any(sees)
    }

    /// Whether a member is the only candidate of it, and has not heard so.
    pub(super) fn awaits_only(&self, member: u16) -> bool {
        self.electorate == [member] && self.ends.is_empty()
    }

    /// Whether it came to something, and nothing happens in it any more.
    pub(super) fn has_ended(&self, now: LocalTime) -> bool {
        !self.ends.is_empty() && now - self.latest >= SETTLE
    }

    pub(super) fn drawable(&self, now: LocalTime) -> DrawableBallot {
        let (number, changes, at_ms) = (self.number, self.changes, self.at_ms);
        DrawableBallot { number, changes, ended: self.has_ended(now), at_ms }
    }

    fn push(&mut self, flight: Flight) {
        if self.flights.len() < FLIGHTS {
            self.flights.push(flight);
        } else {
            self.is_cut = true;
        }
    }

    fn changed(&mut self, at: LocalTime) {
        self.latest = self.latest.max(at);
        self.changes += 1;
    }
}

impl Flight {
    /// Whether this is such a message.
    fn is(&self, link: (u16, u16), id: BallotMessage) -> bool {
        self.link == link && self.id == id
    }
}
