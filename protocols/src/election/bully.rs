//! The bully algorithm: the highest living rank wins, and makes all others follow.
//!
//! Source: Garcia-Molina, *Elections in a Distributed Computing System*, IEEE Transactions on
//! Computers C-31(1), 1982; in the form of Tanenbaum and van Steen, *Distributed Systems*, 2nd
//! edition, 6.5.1, with the second wait of Coulouris, Dollimore, Kindberg and Blair, *Distributed
//! Systems*, 5th edition, 15.3.
//!
//! ```text
//! to elect:         send ELECTION to all higher ranks; wait Δt for an ANSWER
//!                   none comes: win, and send COORDINATOR to all others
//! on ANSWER:        wait Δt' for COORDINATOR; none comes: elect again
//! on ELECTION from a lower rank:
//!                   send ANSWER; elect, unless already electing
//! on COORDINATOR from a higher rank: follow it
//! on recovery:      elect
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages, the highest rank of n dead, best | n - 1: the second highest notices |
//! | messages, the highest rank of n dead, worst | (n - 1)² + n - 2: the lowest notices |
//! | time until the winner knows | Δt, and one transfer for the announcement |
//! | tolerates | crashes, at any time; restarts |
//! | links | reliable, any order; a living member answers within Δt |
//!
//! Without the last promise two members may think themselves elected: a winner is only a nominee.
//!
//! Deviations:
//! - COORDINATOR goes to the higher ranks too, where some textbooks have only the lower ones. They are
//!   taken for dead; one that lives objects to its lower by electing. Those messages come on top of
//!   the textbook's count.
//! - Messages carry no election number. A late ANSWER costs its receiver Δt', and no more.

use serde::{Deserialize, Serialize};

use super::{Command, Election, Event, Place, Timing};
use crate::ids::MemberId;
use crate::protocol::{Input, InputOf, Named, OutboxOf, Protocol};
use crate::time::LocalTime;
use crate::view::View;

/// One member's part in the algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Bully {
    me: MemberId,
    view: View,
    timing: Timing,
    state: State,
    elected: Option<MemberId>,
}

/// What members send to each other.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// "Does anybody above me live?"
    Election,
    /// "I live, and I outrank you."
    Answer,
    /// "I am elected."
    Coordinator,
}

/// The timers, by what did not come in time.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer {
    /// No higher rank answered.
    Answers,
    /// Somebody answered, but nobody announced itself.
    Announcement,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    /// Takes part in no election.
    Idle,
    /// Has asked all higher ranks whether they live.
    Asking,
    /// A higher rank lives: the election is in its hands.
    Yielding,
}

impl Bully {
    fn elect(&mut self, out: &mut OutboxOf<Self>) {
        if self.is_electing() {
            return;
        }
        self.elected = None;
        if self.view.above(self.me).next().is_none() {
            return self.win(out);
        }
        self.state = State::Asking;
        out.send_each(self.view.above(self.me), &Message::Election);
        out.arm(Timer::Answers, self.timing.answer);
    }

    fn on_election(&mut self, from: MemberId, out: &mut OutboxOf<Self>) {
        if from < self.me {
            out.send(from, Message::Answer);
            self.elect(out);
        }
    }

    fn on_answer(&mut self, from: MemberId, out: &mut OutboxOf<Self>) {
        if self.state == State::Asking && from > self.me {
            self.state = State::Yielding;
            out.disarm(Timer::Answers);
            out.arm(Timer::Announcement, self.timing.announcement);
        }
    }

    fn on_coordinator(&mut self, from: MemberId, out: &mut OutboxOf<Self>) {
        if from < self.me { self.elect(out) } else { self.follow(from, out) }
    }

    fn win(&mut self, out: &mut OutboxOf<Self>) {
        out.send_each(self.view.peers(self.me), &Message::Coordinator);
        self.follow(self.me, out);
    }

    fn elect_again(&mut self, out: &mut OutboxOf<Self>) {
        self.state = State::Idle;
        self.elect(out);
    }

    fn follow(&mut self, winner: MemberId, out: &mut OutboxOf<Self>) {
        self.state = State::Idle;
        out.disarm(Timer::Answers);
        out.disarm(Timer::Announcement);
        if self.elected.replace(winner) != Some(winner) {
            out.tell(Event::Elected(winner));
        }
    }
}

impl Election for Bully {
    fn new(Place { me, view, .. }: Place, timing: Timing) -> Self {
        Self { me, view, timing, state: State::Idle, elected: None }
    }

    fn elected(&self) -> Option<MemberId> {
        self.elected
    }

    fn is_electing(&self) -> bool {
        self.state != State::Idle
    }
}

impl Protocol for Bully {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn handle(&mut self, _now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(Command::Elect | Command::Inquire) => self.elect(out),
            Input::Message { from, .. } if from == self.me || !self.view.has(from) => {}
            Input::Message { from, message: Message::Election } => self.on_election(from, out),
            Input::Message { from, message: Message::Answer } => self.on_answer(from, out),
            Input::Message { from, message: Message::Coordinator } => {
                self.on_coordinator(from, out);
            }
            Input::Timer(Timer::Answers) => self.win(out),
            Input::Timer(Timer::Announcement) => self.elect_again(out),
        }
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Election => "election",
            Self::Answer => "answer",
            Self::Coordinator => "coordinator",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ids::Epoch;
    use crate::protocol::{Effect, EffectOf, Outbox};

    const TIMING: Timing =
        Timing { answer: Duration::from_millis(1), announcement: Duration::from_millis(2) };

    /// The second lowest of four.
    fn bully() -> Bully {
        let view = View { epoch: Epoch(1), size: 4, leader: MemberId(3) };
        Bully::new(Place::new(MemberId(1), view), TIMING)
    }

    fn handle(bully: &mut Bully, input: InputOf<Bully>) -> Vec<EffectOf<Bully>> {
        let mut out = Outbox::default();
        bully.handle(LocalTime(0), input, &mut out);
        out.drain().collect()
    }

    fn message(from: u32, message: Message) -> InputOf<Bully> {
        Input::Message { from: MemberId(from), message }
    }

    fn send(to: u32, message: Message) -> EffectOf<Bully> {
        Effect::Send { to: MemberId(to), message }
    }

    fn ask_above() -> [EffectOf<Bully>; 3] {
        let after = TIMING.answer;
        [
            send(2, Message::Election),
            send(3, Message::Election),
            Effect::Arm { timer: Timer::Answers, after },
        ]
    }

    #[test]
    fn a_lower_rank_is_answered_each_time_and_taken_over_from_once() {
        let mut bully = bully();
        let first = handle(&mut bully, message(0, Message::Election));
        assert_eq!(first[0], send(0, Message::Answer));
        assert_eq!(first[1..], ask_above());
        let again = handle(&mut bully, message(0, Message::Election));
        assert_eq!(again, [send(0, Message::Answer)]);
    }

    #[test]
    fn a_lower_coordinator_is_objected_to_and_a_higher_one_followed() {
        let mut bully = bully();
        assert_eq!(handle(&mut bully, message(0, Message::Coordinator)), ask_above());
        assert_eq!(bully.elected(), None);
        let notified = handle(&mut bully, message(2, Message::Coordinator)).pop();
        assert_eq!(notified, Some(Effect::Tell(Event::Elected(MemberId(2)))));
        assert_eq!((bully.elected(), bully.is_electing()), (Some(MemberId(2)), false));
    }

    #[test]
    fn ranks_that_have_no_say_are_ignored() {
        let mut bully = bully();
        handle(&mut bully, Input::Command(Command::Elect));
        let before = bully.clone();
        for nonsense in [
            message(2, Message::Election),
            message(0, Message::Answer),
            message(1, Message::Coordinator),
            message(4, Message::Answer),
            message(4, Message::Coordinator),
        ] {
            assert_eq!(handle(&mut bully, nonsense), []);
        }
        assert_eq!(bully, before);
    }

    #[test]
    fn an_answer_to_an_election_that_is_over_changes_nothing() {
        let mut bully = bully();
        handle(&mut bully, Input::Command(Command::Elect));
        handle(&mut bully, message(3, Message::Coordinator));
        assert_eq!(handle(&mut bully, message(2, Message::Answer)), []);
        assert_eq!(bully.elected(), Some(MemberId(3)));
    }
}
