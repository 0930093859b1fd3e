//! An election on a ring: a list of the living goes round.
//!
//! Source: Le Lann, *Distributed Systems: Towards a Formal Approach*, IFIP Congress 1977; in the
//! form of Tanenbaum and van Steen, *Distributed Systems*, 2nd edition, 6.5.1.
//!
//! ```text
//! to elect:         send ELECTION [self] to the successor
//! on ELECTION list: self not in list: append self, pass it on
//!                   self in list:     leader := the highest in it;
//!                                     send COORDINATOR (leader, list) round
//! on COORDINATOR:   the first time: follow the leader, pass it on; then remove it
//! on recovery:      send INQUIRY round, or elect
//! to pass on:       send to the successor; if it is dead, to the one after it, and so on
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages, the highest rank of n dead | 2(n - 1) for each initiator, and one failed send in each pass |
//! | time | 2(n - 1) transfers, and Δt for each dead member in each pass |
//! | tolerates | crashes, at any time |
//! | links | reliable, any order; a living member acknowledges within Δt |
//!
//! Without the last promise two members may think themselves elected: a winner is only a nominee.
//!
//! Deviations:
//! - A protocol does not see that a send failed. Each hop is acknowledged, and a member that has not done so
//!   within Δt is skipped. An acknowledgement is no message of the textbook and is named apart.
//! - A member has one message under way at a time; others wait behind it, and do not try a successor
//!   again that it found dead.
//! - "Self in list" and not "self first in list" ends a pass, so that the message of a crashed
//!   initiator does not circle for ever: the next living member of the list concludes in its place.
//!   A member before that one in the list was just skipped, and is no candidate.
//! - Only a member that still waits for a leader concludes: a second copy of a list, made when a
//!   slow member was taken for dead, elects nobody.
//! - A message is lost with the member that holds it. Everybody that passed on an ELECTION waits for
//!   the announcement, 2n Δt, which is longer than two passes can take, and then elects.
//! - The textbook does not say how an INQUIRY is answered. Here the first member that knows a leader
//!   writes it in, and it counts if that leader has itself passed the INQUIRY on.

use std::collections::BTreeSet;
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
pub struct Ring {
    me: MemberId,
    view: View,
    timing: Timing,
    state: State,
    elected: Option<MemberId>,
    hops: Hops<Message>,
}

/// What members send to each other. All but the last go round, with a list of where they have been.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// "These live, as far as this has come."
    Election {
        /// Who has passed this on, the initiator first.
        living: Vec<MemberId>,
    },
    /// "This one is elected."
    Coordinator {
        /// The winner.
        leader: MemberId,
        /// Who took part.
        living: Vec<MemberId>,
        /// Who has passed this on.
        notified: Vec<MemberId>,
    },
    /// "I am back: who leads?"
    Inquiry {
        /// What the first that knew wrote in.
        leader: Option<MemberId>,
        /// Who has passed this on, the one that asks first.
        asked: Vec<MemberId>,
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
    Idle,
    /// Has asked who leads.
    Inquiring,
    /// Has passed an election on.
    Electing,
}

impl Ring {
    fn elect(&mut self, out: &mut OutboxOf<Self>) {
        if self.state != State::Electing {
            self.take_part(out);
            self.pass_on(Message::Election { living: vec![self.me] }, out);
        }
    }

    fn on_election(&mut self, mut living: Vec<MemberId>, out: &mut OutboxOf<Self>) {
        if living.contains(&self.me) {
            return self.conclude(living, out);
        }
        self.take_part(out);
        living.push(self.me);
        self.pass_on(Message::Election { living }, out);
    }

    fn conclude(&mut self, mut living: Vec<MemberId>, out: &mut OutboxOf<Self>) {
        if self.state != State::Electing {
            return;
        }
        // Initiators that crashed: this member is not first in the list, and the pass ended here.
        living = living.into_iter().skip_while(|member| *member != self.me).collect();
        let leader = living.iter().copied().max().unwrap_or(self.me);
        self.follow(leader, out);
        self.pass_on(Message::Coordinator { leader, living, notified: vec![self.me] }, out);
    }

    fn on_coordinator(
        &mut self,
        leader: MemberId,
        living: Vec<MemberId>,
        mut notified: Vec<MemberId>,
        out: &mut OutboxOf<Self>,
    ) {
        if !notified.contains(&self.me) {
            self.follow(leader, out);
            notified.push(self.me);
            self.pass_on(Message::Coordinator { leader, living, notified }, out);
        }
    }

    fn inquire(&mut self, out: &mut OutboxOf<Self>) {
        if self.state == State::Idle {
            self.state = State::Inquiring;
            self.await_announcement(out);
            self.pass_on(Message::Inquiry { leader: None, asked: vec![self.me] }, out);
        }
    }

    fn on_inquiry(
        &mut self,
        leader: Option<MemberId>,
        mut asked: Vec<MemberId>,
        out: &mut OutboxOf<Self>,
    ) {
        if !asked.contains(&self.me) {
            asked.push(self.me);
            self.pass_on(Message::Inquiry { leader: leader.or(self.elected), asked }, out);
        } else if self.state == State::Inquiring {
            match leader.filter(|leader| asked.contains(leader)) {
                Some(leader) => self.follow(leader, out),
                None => self.elect(out),
            }
        }
    }

    fn elect_again(&mut self, out: &mut OutboxOf<Self>) {
        self.state = State::Idle;
        self.elect(out);
    }

    fn take_part(&mut self, out: &mut OutboxOf<Self>) {
        self.state = State::Electing;
        self.elected = None;
        self.await_announcement(out);
    }

    fn await_announcement(&mut self, out: &mut OutboxOf<Self>) {
        let two_passes = self.timing.answer.saturating_mul(self.view.size.saturating_mul(2));
        out.arm(Timer::Announcement, two_passes);
    }

    fn follow(&mut self, leader: MemberId, out: &mut OutboxOf<Self>) {
        self.state = State::Idle;
        out.disarm(Timer::Announcement);
        if self.elected.replace(leader) != Some(leader) {
            out.tell(Event::Elected(leader));
        }
    }
}

impl Ring {
    fn on_round(&mut self, from: MemberId, message: Message, out: &mut OutboxOf<Self>) {
        if from != self.me && self.view.has(from) && message.makes_sense_in(self.view) {
            out.send(from, Message::Ack);
            self.receive(message, out);
        }
    }
}

impl OnRing for Ring {
    const LATE: Timer = Timer::Ack;

    fn hops(&mut self) -> &mut Hops<Message> {
        &mut self.hops
    }

    fn answer(&self) -> Duration {
        self.timing.answer
    }

    fn receive(&mut self, message: Message, out: &mut OutboxOf<Self>) {
        match message {
            Message::Election { living } => self.on_election(living, out),
            Message::Coordinator { leader, living, notified } => {
                self.on_coordinator(leader, living, notified, out);
            }
            Message::Inquiry { leader, asked } => self.on_inquiry(leader, asked, out),
            Message::Ack => {}
        }
    }
}

impl Election for Ring {
    fn new(Place { me, view, .. }: Place, timing: Timing) -> Self {
        let hops = Hops::new(me, view);
        Self { me, view, timing, state: State::Idle, elected: None, hops }
    }

    fn elected(&self) -> Option<MemberId> {
        self.elected
    }

    fn is_electing(&self) -> bool {
        self.state != State::Idle
    }
}

impl Protocol for Ring {
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
    /// Whether members of this view can have written it.
    fn makes_sense_in(&self, view: View) -> bool {
        let is_list = |list: &[MemberId]| {
            let distinct: BTreeSet<_> = list.iter().filter(|member| view.has(**member)).collect();
            !list.is_empty() && distinct.len() == list.len()
        };
        match self {
            Self::Election { living } => is_list(living),
            Self::Coordinator { leader, living, notified } => {
                is_list(living) && is_list(notified) && living.contains(leader)
            }
            Self::Inquiry { leader, asked } => {
                is_list(asked) && leader.is_none_or(|leader| view.has(leader))
            }
            Self::Ack => true,
        }
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Election { .. } => "election",
            Self::Coordinator { .. } => "coordinator",
            Self::Inquiry { .. } => "inquiry",
            Self::Ack => "ack",
        }
    }
}

#[cfg(test)]
mod tests;
