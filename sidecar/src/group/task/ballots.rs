//! What happens in elections at this member, step by step, for the page that draws it. Only `conclave dev`
//! does: elsewhere nobody listens, and nothing is done here.
//!
//! A ballot is what members take part in together: the nomination of the group's leader, or a ballot of a
//! named election. All that follows from one input has the time of that input.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use conclave_protocols::elections::election_of;
use conclave_protocols::member::message::{
    ElectionMessage, ElectionPart, Message, OfElection, PeerMessage, ServiceMessage,
};
use conclave_protocols::member::{
    ElectionEvent, Event, Member, Node, OfElection as ElectionNews, OfService, Timer,
};
use conclave_protocols::policy::{ElectionAlgorithm, Policy};
use conclave_protocols::protocol::{Effect, Input, InputOf, Named, OutboxOf};
use conclave_protocols::record::Record;
use conclave_protocols::{Epoch, Incarnation, LocalTime, MemberId};

use super::{Process, Sent};
use crate::metrics::DEFAULT;

/// Something that happened in an election at a member.
#[derive(Clone, Debug)]
pub(crate) struct BallotStep {
    pub(crate) at: LocalTime,
    /// By the name that the API has for it.
    pub(crate) election: String,
    pub(crate) what: BallotEvent,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum BallotEvent {
    /// The member begins to nominate the group's leader; or it calls, or is called, to a ballot.
    Begun(Begun),
    /// It sent a message.
    Sent { to: Incarnation, id: BallotMessage },
    /// It received one.
    Received { from: Incarnation, id: BallotMessage },
    /// It knows who was nominated.
    Elected(Outcome),
}

/// What a member knows of a ballot that it begins.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) ballot: BallotId,
    /// Who may be nominated, those that are to win last. Nothing if this member does not know.
    pub(crate) electorate: Vec<Incarnation>,
    pub(crate) algorithm: Option<ElectionAlgorithm>,
}

/// How a ballot ended for a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) winner: Incarnation,
    /// The messages that this member sent in it, as the textbook counts them.
    pub(crate) messages: u64,
    /// How long it took here.
    pub(crate) took: Duration,
    pub(crate) algorithm: Option<ElectionAlgorithm>,
}

/// Which ballot of an election it is. Several nominations in one view have the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BallotId {
    /// The view.
    pub(crate) epoch: Epoch,
    /// Its number in that view; nothing if it is a nomination of the group's leader.
    pub(crate) number: Option<u64>,
}

/// A message of a ballot, as far as a diagram shows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BallotMessage {
    pub(crate) ballot: BallotId,
    pub(crate) name: &'static str,
    pub(crate) part: ElectionPart,
    /// Distinguishes messages of one name that one member sent to another in one ballot, where they differ.
    pub(crate) mark: u64,
}

/// The election and the id of a message; nothing if it belongs to no ballot.
fn message_id(message: &PeerMessage) -> Option<(&str, BallotMessage)> {
    let about = message.of_election()?;
    let (ballot, name, mark) = if let PeerMessage::Nominator { epoch, message } = message {
        let mut hasher = DefaultHasher::new();
        message.hash(&mut hasher);
        (BallotId { epoch: *epoch, number: None }, message.name(), hasher.finish())
    } else {
        let (epoch, mark, message) = of_service(message)?;
        let number = match &message.what {
            OfElection::Nominate { ballot, .. } | OfElection::Call { ballot, .. } => *ballot,
            OfElection::Stand(_)
            | OfElection::Withdraw
            | OfElection::State { .. }
            | OfElection::Known(_)
            | OfElection::Transfer(_)
            | OfElection::HandOver => return None,
        };
        (BallotId { epoch, number: Some(number) }, message.name(), mark)
    };
    let election = about.election.unwrap_or(DEFAULT);
    Some((election, BallotMessage { ballot, name, part: about.part, mark }))
}

/// A message about a named election: its view, its number on its link.
fn of_service(message: &PeerMessage) -> Option<(Epoch, u64, &ElectionMessage)> {
    let PeerMessage::Service(envelope) = message else { return None };
    let ServiceMessage::Election(message) = &envelope.body else { return None };
    Some((envelope.epoch, envelope.number, message))
}

/// How the leader in an election is nominated.
fn algorithm(policy: &Policy, election: &str) -> Option<ElectionAlgorithm> {
    if election == DEFAULT {
        return Some(policy.election);
    }
    policy.elections.iter().find(|policy| policy.name == election).map(|policy| policy.algorithm)
}

impl Process<'_> {
    /// The member gets an input. Whether what it sends next may begin a nomination: else it goes on with one.
    pub(super) fn hear_ballot(
        &self,
        at: LocalTime,
        member: &Member,
        input: &InputOf<Member>,
    ) -> bool {
        match input {
            Input::Message { from: Node::Member(from), message: Message::Peer(message) } => {
                if self.sent.is_some()
                    && let Some((election, id)) = message_id(message)
                {
                    self.note_call(at, member, election, message);
                    self.note_ballot(at, election, BallotEvent::Received { from: *from, id });
                }
                false
            }
            Input::Timer(Timer::Nominator(_)) | Input::Message { .. } => false,
            Input::Timer(_) | Input::Command(_) => true,
        }
    }

    /// The member wants that done. `begins`: as [`Process::hear_ballot`] has it.
    pub(super) fn note_ballots(
        &self,
        at: LocalTime,
        member: &Member,
        mut begins: bool,
        out: &OutboxOf<Member>,
    ) {
        if self.sent.is_none() {
            return;
        }
        for effect in out.effects() {
            match effect {
                Effect::Send { to: Node::Member(to), message: Message::Peer(message) } => {
                    let Some((election, id)) = message_id(message) else { continue };
                    if id.ballot.number.is_none() && std::mem::take(&mut begins) {
                        self.note_nomination(at, member, id.ballot);
                    }
                    self.note_call(at, member, election, message);
                    self.note_ballot(at, election, BallotEvent::Sent { to: *to, id });
                }
                Effect::Tell(Event::Elected { winner, messages, took }) => {
                    self.note_outcome(at, member, DEFAULT, (*winner, *messages, *took));
                }
                Effect::Tell(Event::Service(OfService::Election(ElectionNews {
                    election,
                    event: ElectionEvent::Elected { winner, messages, took },
                }))) => {
                    let election = election_of(election).unwrap_or_default();
                    self.note_outcome(at, member, election, (*winner, *messages, *took));
                }
                Effect::Send { .. } | Effect::Arm { .. } | Effect::Disarm(_) | Effect::Tell(_) => {}
            }
        }
    }

    fn note_nomination(&self, at: LocalTime, member: &Member, ballot: BallotId) {
        let electorate = member.electorate().filter(|record| record.epoch == ballot.epoch);
        let algorithm = electorate.as_ref().map(|record| record.policy.election);
        let members = electorate.into_iter().flat_map(|record| record.members);
        let electorate = members.map(|info| info.incarnation).collect();
        let begun = Begun { ballot, electorate, algorithm };
        self.note_ballot(at, DEFAULT, BallotEvent::Begun(begun));
    }

    /// If it is a call: it states who takes part.
    fn note_call(&self, at: LocalTime, member: &Member, election: &str, message: &PeerMessage) {
        let Some((epoch, _, message)) = of_service(message) else { return };
        let OfElection::Call { ballot, candidates } = &message.what else { return };
        let record = member.record().filter(|record| record.epoch == epoch);
        let incarnation = |record: &Record, rank: MemberId| {
            record.members.get(rank.0 as usize).map(|info| info.incarnation)
        };
        let all = |record| candidates.iter().map(|rank| incarnation(record, *rank)).collect();
        let begun = Begun {
            ballot: BallotId { epoch, number: Some(*ballot) },
            electorate: record.and_then(all).unwrap_or_default(),
            algorithm: record.and_then(|record| algorithm(&record.policy, election)),
        };
        self.note_ballot(at, election, BallotEvent::Begun(begun));
    }

    fn note_outcome(
        &self,
        at: LocalTime,
        member: &Member,
        election: &str,
        (winner, messages, took): (Incarnation, u64, Duration),
    ) {
        let record = member.record();
        let algorithm = record.and_then(|record| algorithm(&record.policy, election));
        let outcome = Outcome { winner, messages, took, algorithm };
        self.note_ballot(at, election, BallotEvent::Elected(outcome));
    }

    fn note_ballot(&self, at: LocalTime, election: &str, what: BallotEvent) {
        if let Some(sent) = &self.sent {
            let election = election.to_owned();
            // The page may miss something.
            let _ = sent.try_send(Sent::Ballot(BallotStep { at, election, what }));
        }
    }
}
