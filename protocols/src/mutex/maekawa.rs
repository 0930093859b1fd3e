//! Mutual exclusion by the votes of a few.
//!
//! Source: Maekawa, *A √N Algorithm for Mutual Exclusion in Decentralized Systems*, ACM TOCS 3(2),
//! 1985, as descriptions and other implementations retell it.
//!
//! ```text
//! to enter:         stamp the request; send REQUEST to all of the own quorum, oneself among them
//!                   in the critical section when all have sent LOCKED
//! to exit:          send RELEASE to all of the quorum
//! on FAILED:        the request cannot succeed yet: send RELINQUISH for each INQUIRE so far
//! on INQUIRE:       in the critical section: nothing, a RELEASE will come; failed: send RELINQUISH;
//!                   otherwise wait for what comes first, all votes or FAILED
//! voter:
//!   on REQUEST(p):  has not voted: vote for p, send LOCKED to it
//!                   otherwise queue p by its stamp, and
//!                     if p comes after the vote or after another in the queue: send FAILED to p
//!                     else: send INQUIRE to the member that has the vote, once,
//!                           and FAILED to whom p displaces as the first of the queue
//!   on RELINQUISH(p): queue p again; vote for the first of the queue, send LOCKED to it
//!   on RELEASE(p):  forget p; vote for the first of the queue, if any, send LOCKED to it
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages per entry and exit, nobody else asks | 3(K - 1): request, locked, release; quorum of K |
//! | the same, in a grid of n = k² members | 3(2√n - 2) |
//! | messages, others ask too | for each voter at most 3 more: failed; inquire, relinquish, locked |
//! | delay before entry, nobody else asks | one round trip |
//! | delay between an exit and the next entry | one round trip: release, locked; half of it, if |
//! | | the two are the only voters that they have in common |
//! | order | by stamp, at each voter, among those that wait there |
//! | overtaking | each other enters at most twice more before one whose requests have arrived |
//! | tolerates | the crash of a member that no candidate asks; of any other only the next view |
//! | links | reliable, FIFO |
//!
//! Deviations:
//!
//! - A member's own vote goes the way of all others, without a message. A member that does not take
//!   its own vote admits two (`the_printed_code_lets_two_in`).
//! - A stamp is one more than the highest that its member knows of, with the rank to distinguish
//!   equal ones. A vote states the highest that its voter has seen, so that nobody who is admitted
//!   past a request that waits there goes on overtaking it.
//! - Every message names the stamp of the request that it is about. A member that gives up while it
//!   waits sends a RELEASE; what is sent about that request later is stale
//!   (`a_vote_that_crosses_a_withdrawal_lets_nobody_in`).
//! - A member that is displaced as the first in line is sent FAILED, not only one that comes too late for it.
//!   Without that message all may wait (`unless_a_displaced_member_learns_of_it_all_may_wait`). A member
//!   that gives a vote back has failed at that voter, and is not notified.
//! - The basic form has neither INQUIRE nor FAILED. It admits one at a time too, and may leave all waiting for ever,
//!   although its queues are in the order of stamps (`the_basic_form_of_the_triangle_has_two_deadlocks`).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Carried, Command, Event, GroupMutex, Mutex, PaidBy, Phase, Waits};
use crate::ids::{LamportTime, MemberId};
use crate::protocol::{Input, InputOf, Named, OutboxOf, Protocol};
use crate::time::LocalTime;
use crate::view::View;

mod quorums;

pub use quorums::{QuorumError, Quorums};

/// One member's part in the algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Maekawa {
    me: MemberId,
    view: View,
    /// Whose votes this member needs.
    quorum: BTreeSet<MemberId>,
    /// The highest time of a request that this member knows of.
    highest: LamportTime,
    state: State,
    voter: Voter,
}

/// What members send to each other, of the request that was made at a time.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// "I want to enter, and this is when I asked."
    Request(LamportTime),
    /// "You have my vote."
    Locked {
        /// Which request it is for.
        request: LamportTime,
        /// The highest time of a request that the voter has seen.
        highest: LamportTime,
    },
    /// "Another comes before you."
    Failed(LamportTime),
    /// "Another comes before you: can you still succeed, or may I have my vote back?"
    Inquire(LamportTime),
    /// "Have your vote back, and keep my request."
    Relinquish(LamportTime),
    /// "I am out, or no longer want in."
    Release(LamportTime),
}

/// The protocol has no timers.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer {}

/// When a request was made, and by whom: the order in which voters prefer requests.
type Stamp = (LamportTime, MemberId);

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum State {
    Idle,
    Waiting(Candidacy),
    InSection { since: LamportTime },
}

/// How a request of this member stands.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Candidacy {
    since: LamportTime,
    /// Who voted for it.
    votes: BTreeSet<MemberId>,
    /// Who will vote for another before.
    failed: BTreeSet<MemberId>,
    /// Who asks for a vote back.
    inquired: BTreeSet<MemberId>,
}

/// What this member knows as a voter.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Voter {
    vote: Option<Vote>,
    /// Requests without this member's vote.
    queue: BTreeSet<Stamp>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Vote {
    stamp: Stamp,
    /// Whether it was asked back.
    inquired: bool,
}

impl Maekawa {
    /// One member's part, with these quorums instead of the grid.
    ///
    /// Every member computes its own part of the votes and queues from what was carried over: each
    /// voter has voted for the first that asks it, and all know how they stand.
    #[must_use]
    pub fn with_quorums(me: MemberId, view: View, carried: &Carried, quorums: &Quorums) -> Self {
        assert_eq!(quorums.members(), view.size as usize, "there is a quorum for each member");
        let (requests, highest) = carried.stamped(view);
        let first_at = |voter: MemberId| {
            requests.iter().copied().find(|(_, member)| quorums.asks(*member, voter))
        };
        let quorum = quorums.of(me);
        let state = match requests.iter().find(|(_, member)| *member == me) {
            None => State::Idle,
            Some((since, _)) if carried.holder == Some(me) => State::InSection { since: *since },
            Some(mine) => {
                let (votes, failed) =
                    quorum.iter().copied().partition(|voter| first_at(*voter) == Some(*mine));
                State::Waiting(Candidacy {
                    since: mine.0,
                    votes,
                    failed,
                    inquired: BTreeSet::new(),
                })
            }
        };
        let vote = first_at(me).map(|stamp| Vote { stamp, inquired: false });
        let asking = requests.iter().copied().filter(|(_, member)| quorums.asks(*member, me));
        let voter = Voter { vote, queue: asking.skip(1).collect() };
        Self { me, view, quorum, highest, state, voter }
    }

    /// Who has this member's vote.
    pub fn voted_for(&self) -> Option<MemberId> {
        self.voter.vote.map(|vote| vote.stamp.1)
    }

    /// Who waits for this member's vote, the first in line first.
    pub fn queue(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.voter.queue.iter().map(|(_, member)| *member)
    }
}

/// The rules of a member that wants to enter.
impl Maekawa {
    fn enter(&mut self, out: &mut OutboxOf<Self>) {
        let State::Idle = self.state else { return };
        let since = self.highest.tick();
        let none = BTreeSet::new;
        let candidacy = Candidacy { since, votes: none(), failed: none(), inquired: none() };
        self.state = State::Waiting(candidacy);
        self.send_all(Message::Request(since), out);
    }

    fn exit(&mut self, out: &mut OutboxOf<Self>) {
        let since = match &self.state {
            State::Idle => return,
            State::Waiting(candidacy) => candidacy.since,
            State::InSection { since } => *since,
        };
        self.state = State::Idle;
        self.send_all(Message::Release(since), out);
    }

    fn on_locked(
        &mut self,
        from: MemberId,
        request: LamportTime,
        highest: LamportTime,
        out: &mut OutboxOf<Self>,
    ) {
        self.highest = self.highest.max(highest);
        if let Some(candidacy) = self.candidacy(from, request) {
            candidacy.failed.remove(&from);
            candidacy.votes.insert(from);
            self.hold_if_complete(out);
        }
    }

    fn on_failed(&mut self, from: MemberId, request: LamportTime, out: &mut OutboxOf<Self>) {
        let Some(candidacy) = self.candidacy(from, request) else { return };
        if candidacy.votes.contains(&from) {
            return;
        }
        if candidacy.failed.is_empty() {
            out.tell(Event::Queued);
        }
        candidacy.failed.insert(from);
        self.relinquish(out);
    }

    fn on_inquire(&mut self, from: MemberId, request: LamportTime, out: &mut OutboxOf<Self>) {
        let Some(candidacy) = self.candidacy(from, request) else { return };
        if candidacy.votes.contains(&from) {
            candidacy.inquired.insert(from);
            self.relinquish(out);
        }
    }

    /// Gives back the votes that were asked for, if it is known that they are of no use yet.
    fn relinquish(&mut self, out: &mut OutboxOf<Self>) {
        let State::Waiting(candidacy) = &mut self.state else { return };
        if candidacy.failed.is_empty() {
            return;
        }
        let since = candidacy.since;
        let inquired = std::mem::take(&mut candidacy.inquired);
        candidacy.votes.retain(|voter| !inquired.contains(voter));
        candidacy.failed.extend(&inquired);
        for voter in inquired {
            self.send(voter, Message::Relinquish(since), out);
        }
    }

    fn hold_if_complete(&mut self, out: &mut OutboxOf<Self>) {
        let State::Waiting(candidacy) = &self.state else { return };
        if candidacy.votes == self.quorum {
            self.state = State::InSection { since: candidacy.since };
            out.tell(Event::Entered);
        }
    }

    /// How the request stands of which a voter speaks; nothing, if it was given up.
    fn candidacy(&mut self, voter: MemberId, request: LamportTime) -> Option<&mut Candidacy> {
        let State::Waiting(candidacy) = &mut self.state else { return None };
        let is_meant = candidacy.since == request && self.quorum.contains(&voter);
        is_meant.then_some(candidacy)
    }
}

/// The rules of a voter.
impl Maekawa {
    fn on_request(&mut self, from: MemberId, request: LamportTime, out: &mut OutboxOf<Self>) {
        self.highest = self.highest.max(request);
        if self.voter.knows(from) {
            return;
        }
        let first = self.voter.queue.first().copied();
        self.voter.queue.insert((request, from));
        match self.voter.vote {
            None => self.vote_for_first(out),
            Some(vote) => self.settle((request, from), vote, first, out),
        }
    }

    /// Notifies the members that fail because of a request that was queued, or because of the vote.
    fn settle(
        &mut self,
        (request, from): Stamp,
        vote: Vote,
        first: Option<Stamp>,
        out: &mut OutboxOf<Self>,
    ) {
        let stamp = (request, from);
        if stamp > vote.stamp || first.is_some_and(|first| stamp > first) {
            return self.send(from, Message::Failed(request), out);
        }
        self.voter.vote = Some(Vote { inquired: true, ..vote });
        if let Some((displaced, member)) = first.filter(|first| *first < vote.stamp) {
            self.send(member, Message::Failed(displaced), out);
        }
        if !vote.inquired {
            let (inquired, member) = vote.stamp;
            self.send(member, Message::Inquire(inquired), out);
        }
    }

    fn on_relinquish(&mut self, from: MemberId, request: LamportTime, out: &mut OutboxOf<Self>) {
        if self.voter.has_voted_for((request, from)) {
            self.voter.queue.insert((request, from));
            self.vote_for_first(out);
        }
    }

    fn on_release(&mut self, from: MemberId, request: LamportTime, out: &mut OutboxOf<Self>) {
        self.voter.queue.remove(&(request, from));
        if self.voter.has_voted_for((request, from)) {
            self.vote_for_first(out);
        }
    }

    fn vote_for_first(&mut self, out: &mut OutboxOf<Self>) {
        let first = self.voter.queue.pop_first();
        self.voter.vote = first.map(|stamp| Vote { stamp, inquired: false });
        if let Some((request, member)) = first {
            self.send(member, Message::Locked { request, highest: self.highest }, out);
        }
    }
}

impl Voter {
    fn has_voted_for(&self, stamp: Stamp) -> bool {
        self.vote.is_some_and(|vote| vote.stamp == stamp)
    }

    /// Whether a request of this member is here that was neither given up nor left.
    fn knows(&self, member: MemberId) -> bool {
        let mut requests = self.vote.iter().map(|vote| &vote.stamp).chain(&self.queue);
        requests.any(|(_, known)| *known == member)
    }
}

/// How messages get about, and what they mean.
impl Maekawa {
    fn send_all(&mut self, message: Message, out: &mut OutboxOf<Self>) {
        for voter in self.quorum.clone() {
            self.send(voter, message, out);
        }
    }

    /// Sends a message to a member, which may be this one.
    fn send(&mut self, to: MemberId, message: Message, out: &mut OutboxOf<Self>) {
        if to == self.me {
            self.hear(to, message, out);
        } else {
            out.send(to, message);
        }
    }

    fn hear(&mut self, from: MemberId, message: Message, out: &mut OutboxOf<Self>) {
        match message {
            Message::Request(request) => self.on_request(from, request, out),
            Message::Locked { request, highest } => self.on_locked(from, request, highest, out),
            Message::Failed(request) => self.on_failed(from, request, out),
            Message::Inquire(request) => self.on_inquire(from, request, out),
            Message::Relinquish(request) => self.on_relinquish(from, request, out),
            Message::Release(request) => self.on_release(from, request, out),
        }
    }
}

impl Mutex for Maekawa {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        Self::with_quorums(me, view, carried, &Quorums::grid(view.size))
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Idle => Phase::Idle,
            State::Waiting(_) => Phase::Waiting,
            State::InSection { .. } => Phase::InSection,
        }
    }
}

impl GroupMutex for Maekawa {
    /// Only as far as this member's own vote is wanted.
    fn is_contended(&self) -> bool {
        !self.voter.queue.is_empty()
    }

    fn latest(&self) -> u64 {
        self.highest.get()
    }

    fn numbered_after(self, latest: u64) -> Self {
        Self { highest: self.highest.max(LamportTime::at(latest)), ..self }
    }

    fn is_unused(&self) -> bool {
        self.state == State::Idle && self.voter == Voter::default()
    }

    fn paid_by(message: &Message) -> PaidBy {
        match message {
            Message::Request(_) | Message::Relinquish(_) => PaidBy::Sender,
            Message::Locked { .. } | Message::Failed(_) | Message::Inquire(_) => PaidBy::Receiver,
            Message::Release(_) => PaidBy::Leaver,
        }
    }

    /// A vote that went elsewhere does not state that somebody is in.
    fn waiting_side(message: &Message) -> Waits {
        match message {
            Message::Request(_) | Message::Relinquish(_) => Waits::Sender,
            Message::Locked { .. }
            | Message::Failed(_)
            | Message::Inquire(_)
            | Message::Release(_) => Waits::Nobody,
        }
    }
}

impl Protocol for Maekawa {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    /// The first that was carried over has all its votes, if nobody was in the critical section.
    fn start(&mut self, _now: LocalTime, out: &mut OutboxOf<Self>) {
        self.hold_if_complete(out);
    }

    fn handle(&mut self, _now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(Command::Enter) => self.enter(out),
            Input::Command(Command::Exit) => self.exit(out),
            Input::Message { from, message } => {
                if self.view.has(from) {
                    self.hear(from, message, out);
                }
            }
            Input::Timer(never) => match never {},
        }
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::Locked { .. } => "locked",
            Self::Failed(_) => "failed",
            Self::Inquire(_) => "inquire",
            Self::Relinquish(_) => "relinquish",
            Self::Release(_) => "release",
        }
    }
}

#[cfg(test)]
mod tests;
