//! The latest ballots of each election, as all members saw them: what the page draws as a space-time diagram.
//!
//! The members are threads of one process and read one clock, so that their times can be compared.
//! Nowhere else can they.

mod diagram;
mod formula;
mod picture;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use conclave_protocols::LocalTime;
use serde::Serialize;

pub(super) use self::diagram::Diagram;
use self::picture::Picture;
use super::member::number_of;
use crate::group::task::ballots::{BallotEvent, BallotId, BallotStep, Outcome};

/// The latest ballots of each election.
#[derive(Debug, Default)]
pub(super) struct Elections {
    pictures: Mutex<Pictures>,
}

#[derive(Debug, Default)]
struct Pictures {
    /// The latest last.
    of_election: BTreeMap<String, VecDeque<Picture>>,
    /// When the processes ended of members that have none.
    dead: BTreeMap<u16, LocalTime>,
    /// Counts the ballots of all elections.
    ballots: u64,
}

/// An election of which there is something to draw.
#[derive(Debug, Serialize)]
pub(super) struct Drawable {
    election: String,
    /// Its latest ballots, the latest last.
    ballots: Vec<DrawableBallot>,
}

/// A ballot that can be drawn.
#[derive(Debug, Serialize)]
struct DrawableBallot {
    /// Counts the ballots of all elections.
    number: u64,
    /// The picture is another one when this has risen, or when `ended` has changed.
    changes: u64,
    ended: bool,
    /// When it began, in milliseconds since 1970.
    at_ms: u64,
}

/// How many elections are remembered: as many as a group has at most, and that of its leader.
const ELECTIONS: usize = 17;

/// How many ballots of each.
const BALLOTS: usize = 4;

impl Elections {
    /// Something happened in an election at a member.
    pub(super) fn note(&self, member: u16, step: BallotStep) {
        let mut pictures = self.pictures();
        let BallotStep { at, election, what } = step;
        let Some(picture) = pictures.of(&election, at, member, &what) else { return };
        match what {
            BallotEvent::Begun(begun) => picture.begun(at, member, &begun),
            BallotEvent::Sent { to, id } => {
                if let Some(to) = number_of(to.pod) {
                    picture.sent(at, (member, to), id);
                }
            }
            BallotEvent::Received { from, id } => {
                if let Some(from) = number_of(from.pod) {
                    picture.received(at, (from, member), id);
                }
            }
            BallotEvent::Elected(outcome) => picture.elected(at, member, outcome),
        }
    }

    /// A member has a process.
    pub(super) fn lives(&self, member: u16) {
        self.pictures().dead.remove(&member);
    }

    /// A member's process has ended.
    pub(super) fn died(&self, at: LocalTime, member: u16) {
        let mut pictures = self.pictures();
        pictures.dead.insert(member, at);
        for picture in pictures.of_election.values_mut().filter_map(VecDeque::back_mut) {
            picture.died(at, member);
        }
    }

    /// What there is to draw.
    pub(super) fn drawable(&self, now: LocalTime) -> Vec<Drawable> {
        let pictures = self.pictures();
        let each = pictures.of_election.iter().map(|(election, all)| Drawable {
            election: election.clone(),
            ballots: all.iter().map(|picture| picture.drawable(now)).collect(),
        });
        each.collect()
    }

    /// Draws a ballot of that number.
    pub(super) fn diagram(&self, election: &str, number: u64, now: LocalTime) -> Option<Diagram> {
        let pictures = self.pictures();
        let picture = pictures.of_election.get(election)?.iter().find(|one| one.number == number);
        picture.map(|picture| Diagram::of(picture, now))
    }

    fn pictures(&self) -> MutexGuard<'_, Pictures> {
        self.pictures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pictures {
    /// The picture that something belongs to. Nothing if it belongs to none that is remembered.
    fn of(
        &mut self,
        election: &str,
        at: LocalTime,
        member: u16,
        what: &BallotEvent,
    ) -> Option<&mut Picture> {
        let known = self.of_election.get(election);
        let find = |is: &dyn Fn(&Picture) -> bool| known?.iter().rposition(is);
        let (place, id) = match what {
            BallotEvent::Begun(begun) => {
                let place = find(&|picture| picture.id == Some(begun.ballot));
                let present = place.and_then(|place| known?.get(place));
                // A member nominates once more in the same view, the nomination before came to nothing; or it was
                // on the other side of a partition.
                let is_over = |one: &Picture| one.has_begun(member) || one.has_ended(at);
                let anew = begun.ballot.number.is_none() && present.is_some_and(is_over);
                (place.filter(|_| !anew), Some(begun.ballot))
            }
            BallotEvent::Sent { id, .. } | BallotEvent::Received { id, .. } => {
                (find(&|picture| picture.id == Some(id.ballot)), Some(id.ballot))
            }
            // The leader of the group sends nobody a call of a ballot in which it is the only candidate.
            BallotEvent::Elected(outcome) if is_alone(member, outcome) => {
                (find(&|picture| picture.awaits_only(member)), None)
            }
            BallotEvent::Elected(_) => (Some(find(&|picture| picture.is_in(member))?), None),
        };
        if place.is_none() {
            self.begin(election, id);
        }
        let all = self.of_election.get_mut(election)?;
        let place = place.unwrap_or(all.len().checked_sub(1)?);
        all.get_mut(place)
    }

    fn begin(&mut self, election: &str, id: Option<BallotId>) {
        if !self.of_election.contains_key(election) && self.of_election.len() >= ELECTIONS {
            let latest = |all: &VecDeque<Picture>| all.back().map(|picture| picture.number);
            let oldest = self.of_election.iter().min_by_key(|(_, all)| latest(all));
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.of_election.remove(&oldest);
            }
        }
        self.ballots += 1;
        let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let at_ms = u64::try_from(at_ms).unwrap_or(u64::MAX);
        let picture = Picture::new(self.ballots, id, at_ms, self.dead.clone());
        let all = self.of_election.entry(election.to_owned()).or_default();
        all.push_back(picture);
        if all.len() > BALLOTS {
            all.pop_front();
        }
    }
}

/// Whether a member was the only candidate: else the winner has sent something.
fn is_alone(member: u16, outcome: &Outcome) -> bool {
    outcome.messages == 0 && number_of(outcome.winner.pod) == Some(member)
}
