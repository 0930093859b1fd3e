//! An election on a ring: of the identifiers that are sent round, only the highest comes back.
//!
//! Source: Chang and Roberts, *An Improved Algorithm for Decentralized Extrema-Finding in Circular
//! Configurations of Processes*, CACM 22(5), 1979; in the form of Coulouris, Dollimore, Kindberg and
//! Blair, *Distributed Systems*, 5th edition, 15.3, with marks.
//!
//! ```text
//! to elect:         mark self; send ELECTION (self) to the successor
//! on ELECTION x:    x > self:            mark self; pass it on
//!                   x < self, unmarked:  mark self; send ELECTION (self) instead
//!                   x < self, marked:    discard it
//!                   x = self:            win; unmark self; send ELECTED (self) round
//! on ELECTED x:     unmark self; follow x; pass it on, unless x = self
//! on recovery:      send INQUIRY round
//! to pass on:       send to the successor; if it is dead, to the one after it, and so on;
//!                   discard what ends at a dead one, and if that was ELECTION, elect again
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages, N living, best | 2N: the highest notices |
//! | messages, N living, worst | 3N - 1: the lowest notices, the successor of the highest |
//! | messages, N living, several notice | what the lowest of them costs; on a ring in another order at most N(N + 1)/2 + N |
//! | time, one notices | as many transfers as messages, and Δt for each dead member in each pass |
//! | tolerates | crashes, at any time |
//! | links | reliable, any order; a living member acknowledges within Δt |
//!
//! Without the last promise two members may think themselves elected: a winner is only a nominee.
//!
//! Deviations:
//! - The source tolerates no crash. Here each hop is acknowledged, and a member that has not done so within Δt is
//!   skipped, as on the ring of lists. An acknowledgement is no message of the source, and is named apart.
//! - The source's ring is in any order. Here it is in the order of ranks: an identifier below the highest
//!   goes one step, and several that notice at once cost what the lowest of them costs alone.
//! - A message ends at the member that it names. If that one died, the message would go round for ever.
//!   The one that skips that member takes it for dead, and discards the message. It elects again if that
//!   was the identifier of a candidate.
//! - Only a marked member wins by its own identifier: a second copy of it, made when a slow member was
//!   taken for dead, elects nobody.
//! - A message is lost with the member that holds it. Each marked member waits for the announcement, 3n Δt,
//!   which is longer than three passes can take, and then elects. A mark does not hold up the highest that
//!   lives, so that its own wait suffices.
//! - The source has no recovery. An INQUIRY goes round once, and the member that leads writes itself in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::hops::{Hops, OnRing};
use super::{Command, Election, Event, Place, Timing};
use crate::ids::MemberId;
use crate::protocol::{Input, InputOf, Named, OutboxOf, Protocol};
use crate::time::LocalTime;
use crate::view::View;

/// One member's part in the algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ChangRoberts {
    me: MemberId,
    view: View,
    timing: Timing,
    state: State,
    elected: Option<MemberId>,
    hops: Hops<Message>,
}

/// What members send to each other. All but the last go round, up to the member that they name.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// "Nobody higher has seen this yet."
    Election {
        /// The highest so far.
        candidate: MemberId,
    },
    /// "This one is elected."
    Elected {
        /// The winner.
        leader: MemberId,
    },
    /// "I am back: who leads?"
    Inquiry {
        /// Who asks.
        by: MemberId,
        /// Who wrote itself in.
        leader: Option<MemberId>,
    },
    /// "I have what you passed on."
    Ack,
}

/// The timers, by what did not come in time.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer {
    /// The successor has not acknowledged.
    Ack,
    /// Nobody was announced, and no inquiry came back.
    Announcement,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    /// Takes part in no election.
    Unmarked,
    /// Has asked who leads.
    Inquiring,
    /// Has sent an identifier on.
    Marked,
}

impl ChangRoberts {
    fn elect(&mut self, out: &mut OutboxOf<Self>) {
        if self.state != State::Marked {
            self.send_marked(self.me, out);
        }
    }

    fn on_election(&mut self, candidate: MemberId, out: &mut OutboxOf<Self>) {
        if candidate > self.me {
            self.send_marked(candidate, out);
        } else if candidate < self.me {
            self.elect(out);
        } else if self.state == State::Marked {
            self.follow(self.me, out);
            self.pass_on(Message::Elected { leader: self.me }, out);
        }
    }

    fn on_elected(&mut self, leader: MemberId, out: &mut OutboxOf<Self>) {
        if leader != self.me {
            self.follow(leader, out);
            self.pass_on(Message::Elected { leader }, out);
        }
    }

    fn inquire(&mut self, out: &mut OutboxOf<Self>) {
        if self.state == State::Unmarked {
            self.state = State::Inquiring;
            self.await_announcement(out);
            self.pass_on(Message::Inquiry { by: self.me, leader: None }, out);
        }
    }

    fn on_inquiry(&mut self, by: MemberId, leader: Option<MemberId>, out: &mut OutboxOf<Self>) {
        if by != self.me {
            let myself = self.elected.filter(|leader| *leader == self.me);
            self.pass_on(Message::Inquiry { by, leader: leader.or(myself) }, out);
        } else if self.state == State::Inquiring {
            match leader {
                Some(leader) => self.follow(leader, out),
                None => self.elect(out),
            }
        }
    }

    fn elect_again(&mut self, out: &mut OutboxOf<Self>) {
        self.state = State::Unmarked;
        self.elect(out);
    }

    fn send_marked(&mut self, candidate: MemberId, out: &mut OutboxOf<Self>) {
        self.state = State::Marked;
        self.elected = None;
        self.await_announcement(out);
        self.pass_on(Message::Election { candidate }, out);
    }

    fn await_announcement(&mut self, out: &mut OutboxOf<Self>) {
        let three_passes = self.timing.answer.saturating_mul(self.view.size.saturating_mul(3));
        out.arm(Timer::Announcement, three_passes);
    }

    fn follow(&mut self, leader: MemberId, out: &mut OutboxOf<Self>) {
        self.state = State::Unmarked;
        out.disarm(Timer::Announcement);
        if self.elected.replace(leader) != Some(leader) {
            out.tell(Event::Elected(leader));
        }
    }
}

impl ChangRoberts {
    fn on_round(&mut self, from: MemberId, message: Message, out: &mut OutboxOf<Self>) {
        if from != self.me && self.view.has(from) && message.makes_sense_in(self.view) {
            out.send(from, Message::Ack);
            self.receive(message, out);
        }
    }
}

impl OnRing for ChangRoberts {
    const LATE: Timer = Timer::Ack;

    fn hops(&mut self) -> &mut Hops<Message> {
        &mut self.hops
    }

    fn answer(&self) -> Duration {
        self.timing.answer
    }

    fn receive(&mut self, message: Message, out: &mut OutboxOf<Self>) {
        match message {
            Message::Election { candidate } => self.on_election(candidate, out),
            Message::Elected { leader } => self.on_elected(leader, out),
            Message::Inquiry { by, leader } => self.on_inquiry(by, leader, out),
            Message::Ack => {}
        }
    }

    fn discards(&mut self, out: &mut OutboxOf<Self>) -> bool {
        let stray = self.hops.stray(Message::ends_at).copied();
        if let Some(Message::Election { .. }) = stray {
            self.elect_again(out);
        }
        if stray.is_some() {
            self.hops.remove();
        }
        stray.is_some()
    }
}

impl Election for ChangRoberts {
    fn new(Place { me, view, .. }: Place, timing: Timing) -> Self {
        let hops = Hops::new(me, view);
        Self { me, view, timing, state: State::Unmarked, elected: None, hops }
    }

    fn elected(&self) -> Option<MemberId> {
        self.elected
    }

    fn is_electing(&self) -> bool {
        self.state != State::Unmarked
    }
}

impl Protocol for ChangRoberts {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn handle(&mut self, _now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(Command::Elect) => self.elect(out),
            Input::Command(Command::Inquire) => self.inquire(out),
            Input::Message { from, message: Message::Ack } => self.on_ack(from, out),
            Input::Message { from, message } => self.on_round(from, message, out),
            Input::Timer(Timer::Ack) => self.skip_successor(out),
            Input::Timer(Timer::Announcement) => self.elect_again(out),
        }
    }
}

impl Message {
    /// The member that takes it off the ring.
    fn ends_at(&self) -> Option<MemberId> {
        match self {
            Self::Election { candidate: end }
            | Self::Elected { leader: end }
            | Self::Inquiry { by: end, .. } => Some(*end),
            Self::Ack => None,
        }
    }

    /// Whether members of this view can have written it.
    fn makes_sense_in(&self, view: View) -> bool {
        let leader = match self {
            Self::Inquiry { leader, .. } => *leader,
            Self::Election { .. } | Self::Elected { .. } | Self::Ack => None,
        };
        self.ends_at().into_iter().chain(leader).all(|member| view.has(member))
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Election { .. } => "election",
            Self::Elected { .. } => "elected",
            Self::Inquiry { .. } => "inquiry",
            Self::Ack => "ack",
        }
    }
}

#[cfg(test)]
mod tests;
