//! Mutual exclusion by m of n votes that are never waited for.
//!
//! Source: Tanenbaum and van Steen, *Distributed Systems*, 2nd edition, 6.3.3, "A decentralized
//! algorithm", after Lin, Lian, Chen and Zhang, *A Practical Distributed Mutual Exclusion Protocol
//! in Dynamic Peer-to-Peer Systems*, IPTPS 2004; how long to wait before another attempt: Metcalfe
//! and Boggs, *Ethernet: Distributed Packet Switching for Local Computer Networks*, CACM 19(7),
//! 1976.
//!
//! ```text
//! to enter:           send REQUEST to m coordinators, wait for the answers of all
//!   m times GRANT:    in the critical section
//!   otherwise:        send RELEASE to those that granted; try again after a random time
//! to exit:            send RELEASE to the m coordinators
//! coordinator:
//!   on REQUEST(p):    has not voted: vote for p, send GRANT; otherwise send DENY
//!   on RELEASE(p):    voted for p: forget it
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages per entry and exit | 2ak + a and the votes given back, so 2ak + a to 3ak, |
//! | | for k attempts, each of which asks a = m - 1 others |
//! | delay before entry, nobody else asks | one round trip |
//! | delay between an exit and the next entry | until somebody tries again: a pause of up to |
//! | | 640 ms, after an attempt that may come too early, and a round trip |
//! | order | none, and no promise that a member that waits enters: chance makes it likely, |
//! | | if a round trip is much shorter than the longest pause |
//! | tolerates | fewer than 2m - n coordinators that forget their votes while somebody is in the critical section |
//! | | the crash of a member that no candidate asks; of any other only the next view |
//! | links | reliable, FIFO |
//!
//! Deviations:
//!
//! - Every member is a coordinator, and so n is the size of the view. The textbook has m > n/2; here
//!   it is a majority unless [`Voting::with_votes`] sets more.
//! - A member asks itself, without a message, and the m - 1 that follow on the ring. Two stretches
//!   of more than half a ring always meet, and the load is spread.
//! - The textbook does not say what becomes of the votes of an attempt that failed. They are given back,
//!   or two candidates could keep each other out for ever.
//! - Every attempt has a number. What is answered to a request that was given up is stale.
//! - A protocol draws no random numbers. The time before another attempt is computed from the
//!   epoch, the member's rank and the number of its attempt, by the generator of the simulator: it
//!   looks random, differs between members, and is the same when a run is repeated.
//! - Under load attempts fail again and again. Lin and others have clients and replicas queue, says
//!   the abstract of their paper. A user that wants a queue takes another algorithm here.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Carried, Command, Event, GroupMutex, Mutex, PaidBy, Phase, Waits};
use crate::ids::MemberId;
use crate::protocol::{Input, InputOf, Named, OutboxOf, Protocol};
use crate::random::Random;
use crate::time::LocalTime;
use crate::view::View;

/// One member's part in the algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Voting {
    me: MemberId,
    view: View,
    /// How many votes admit a member.
    votes: u32,
    /// The number of this member's latest attempt.
    latest: AttemptNumber,
    state: State,
    /// For which attempt of whom this coordinator has voted.
    voted: Option<(MemberId, AttemptNumber)>,
}

/// What members send to each other.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// "I want in: have you a vote?"
    Request(AttemptNumber),
    /// "You have my vote."
    Grant(AttemptNumber),
    /// "Another has it."
    Deny(AttemptNumber),
    /// "Have your vote back."
    Release(AttemptNumber),
}

/// Distinguishes a member's attempts, within one view. Zero is one carried over from the view before.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct AttemptNumber(pub u64);

/// The timers.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer {
    /// It is time for another attempt.
    Retry,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum State {
    Idle,
    /// An attempt is under way.
    Asking {
        /// How many attempts this request has had before.
        failed: u32,
        missing: BTreeSet<MemberId>,
        granted: BTreeSet<MemberId>,
    },
    /// So many attempts have failed; the next is yet to come.
    Pausing {
        failed: u32,
    },
    InSection,
}

impl Voting {
    /// One member's part, with so many votes to admit a member: at least a majority, at most all.
    #[must_use]
    pub fn with_votes(me: MemberId, view: View, carried: &Carried, votes: u32) -> Self {
        let majority = view.size / 2 + 1;
        let votes = votes.max(majority).min(view.size);
        let in_view = |member: &&MemberId| view.has(**member);
        let holder = carried.holder.iter().find(in_view).copied();
        let front = holder.or_else(|| carried.waiting.iter().find(in_view).copied());
        let latest = AttemptNumber::default();
        let asking = front.filter(|front| asks(*front, me, view, votes));
        let state = if holder == Some(me) {
            State::InSection
        } else if front == Some(me) {
            let granted = asked_by(me, view, votes).collect();
            State::Asking { failed: 0, missing: BTreeSet::new(), granted }
        } else if carried.waiting.contains(&me) {
            State::Pausing { failed: 0 }
        } else {
            State::Idle
        };
        Self { me, view, votes, latest, state, voted: asking.map(|one| (one, latest)) }
    }

    /// For whom this coordinator has voted.
    pub fn voted_for(&self) -> Option<MemberId> {
        self.voted.map(|(member, _)| member)
    }

    /// What happens to a coordinator that crashes and comes back at once: its vote is forgotten.
    /// This breaks the promise that the votes are for, and is here to show when it does; nobody
    /// calls it in a real group, where a member that crashes is another one afterwards.
    pub fn forget(&mut self) {
        self.voted = None;
    }
}

/// The rules of a member that wants to enter.
impl Voting {
    fn enter(&mut self, out: &mut OutboxOf<Self>) {
        if self.state == State::Idle {
            self.attempt(0, out);
        }
    }

    fn attempt(&mut self, failed: u32, out: &mut OutboxOf<Self>) {
        self.latest = AttemptNumber(self.latest.0.saturating_add(1));
        let missing = self.asked().collect();
        self.state = State::Asking { failed, missing, granted: BTreeSet::new() };
        self.send_each(self.asked(), Message::Request(self.latest), out);
    }

    fn on_grant(&mut self, from: MemberId, number: AttemptNumber, out: &mut OutboxOf<Self>) {
        if let State::Asking { missing, granted, .. } = &mut self.state
            && number == self.latest
            && missing.remove(&from)
        {
            granted.insert(from);
            self.conclude(out);
        }
    }

    fn on_deny(&mut self, from: MemberId, number: AttemptNumber, out: &mut OutboxOf<Self>) {
        if let State::Asking { missing, .. } = &mut self.state
            && number == self.latest
            && missing.remove(&from)
        {
            self.conclude(out);
        }
    }

    /// All have answered: is this enough?
    fn conclude(&mut self, out: &mut OutboxOf<Self>) {
        let State::Asking { failed, missing, granted } = &self.state else { return };
        if !missing.is_empty() {
            return;
        }
        if granted.len() == self.votes as usize {
            self.state = State::InSection;
            return out.tell(Event::Entered);
        }
        let (failed, granted) = (failed.saturating_add(1), granted.clone());
        self.state = State::Pausing { failed };
        self.send_each(granted, Message::Release(self.latest), out);
        out.tell(Event::Queued);
        out.arm(Timer::Retry, self.pause(failed));
    }

    fn retry(&mut self, out: &mut OutboxOf<Self>) {
        if let State::Pausing { failed } = self.state {
            self.attempt(failed, out);
        }
    }

    fn exit(&mut self, out: &mut OutboxOf<Self>) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => {}
            State::Pausing { .. } => out.disarm(Timer::Retry),
            // A vote may be under way: it is given back to all that were asked, not only to those that have answered.
            State::Asking { .. } | State::InSection => {
                self.send_each(self.asked(), Message::Release(self.latest), out);
            }
        }
    }

    /// How long until the next attempt, after so many that failed: anything below a limit that
    /// doubles.
    fn pause(&self, failed: u32) -> Duration {
        let limit = FIRST_PAUSE.saturating_mul(1 << failed.saturating_sub(1).min(DOUBLINGS));
        let [epoch, rank, number] = [self.view.epoch.0, self.me.0.into(), self.latest.0];
        let seed = [rank, number].into_iter().fold(epoch, |mixed, next| {
            // Scrambled before the next part is added, so that no sum of parts is another's.
            Random::new(mixed).draw().wrapping_add(next)
        });
        Random::new(seed).below(limit)
    }

    /// The coordinators that this member asks.
    fn asked(&self) -> impl Iterator<Item = MemberId> + use<> {
        asked_by(self.me, self.view, self.votes)
    }
}

/// The rules of a coordinator.
impl Voting {
    fn on_request(&mut self, from: MemberId, number: AttemptNumber, out: &mut OutboxOf<Self>) {
        let is_free = self.voted.is_none_or(|voted| voted.0 == from && voted.1 <= number);
        if is_free {
            self.voted = Some((from, number));
            self.send(from, Message::Grant(number), out);
        } else {
            self.send(from, Message::Deny(number), out);
        }
    }

    fn on_release(&mut self, from: MemberId, number: AttemptNumber) {
        if self.voted == Some((from, number)) {
            self.voted = None;
        }
    }
}

/// How messages get about, and what they mean.
impl Voting {
    fn send_each(
        &mut self,
        to: impl IntoIterator<Item = MemberId>,
        message: Message,
        out: &mut OutboxOf<Self>,
    ) {
        for member in to {
            self.send(member, message, out);
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
            Message::Request(number) => self.on_request(from, number, out),
            Message::Grant(number) => self.on_grant(from, number, out),
            Message::Deny(number) => self.on_deny(from, number, out),
            Message::Release(number) => self.on_release(from, number),
        }
    }
}

/// Whom a member asks: itself, and those that follow on the ring.
fn asked_by(member: MemberId, view: View, votes: u32) -> impl Iterator<Item = MemberId> {
    let ring = std::iter::successors(Some(member), move |member| Some(view.successor(*member)));
    ring.zip(0..votes).map(|(member, _)| member)
}

/// Whether a member asks this coordinator.
fn asks(member: MemberId, coordinator: MemberId, view: View, votes: u32) -> bool {
    asked_by(member, view, votes).any(|asked| asked == coordinator)
}

impl Mutex for Voting {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        Self::with_votes(me, view, carried, 0)
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Idle => Phase::Idle,
            State::Asking { .. } | State::Pausing { .. } => Phase::Waiting,
            State::InSection => Phase::InSection,
        }
    }
}

impl GroupMutex for Voting {
    fn is_contended(&self) -> bool {
        false
    }

    fn latest(&self) -> u64 {
        self.latest.0
    }

    fn numbered_after(self, latest: u64) -> Self {
        Self { latest: self.latest.max(AttemptNumber(latest)), ..self }
    }

    fn is_unused(&self) -> bool {
        self.state == State::Idle && self.voted.is_none()
    }

    fn paid_by(message: &Message) -> PaidBy {
        match message {
            Message::Request(_) => PaidBy::Sender,
            Message::Grant(_) | Message::Deny(_) => PaidBy::Receiver,
            Message::Release(_) => PaidBy::Leaver,
        }
    }

    /// A vote that went elsewhere does not state that somebody is in.
    fn waiting_side(message: &Message) -> Waits {
        match message {
            Message::Request(_) => Waits::Sender,
            Message::Grant(_) | Message::Deny(_) | Message::Release(_) => Waits::Nobody,
        }
    }
}

impl Protocol for Voting {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    /// If nobody was in the critical section, the first that waited has all its votes. The others try after a time.
    fn start(&mut self, _now: LocalTime, out: &mut OutboxOf<Self>) {
        self.conclude(out);
        if let State::Pausing { failed } = self.state {
            out.arm(Timer::Retry, self.pause(failed));
        }
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
            Input::Timer(Timer::Retry) => self.retry(out),
        }
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::Grant(_) => "grant",
            Self::Deny(_) => "deny",
            Self::Release(_) => "release",
        }
    }
}

/// Below this is the time after the first attempt that failed. A few round trips in a cluster.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// How often the limit doubles: to 640 ms.
const DOUBLINGS: u32 = 6;

#[cfg(test)]
mod tests;
