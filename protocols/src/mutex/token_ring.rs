//! Mutual exclusion by a token that goes round a ring.
//!
//! Source: Le Lann, *Distributed Systems: Towards a Formal Approach*, IFIP Congress 1977; in the
//! form of Tanenbaum and van Steen, *Distributed Systems*, 2nd edition, section "A token ring
//! algorithm"; Coulouris, Dollimore, Kindberg and Blair, *Distributed Systems: Concepts and
//! Design*, 5th ed., section 15.2, "A ring-based algorithm".
//!
//! ```text
//! the token begins at rank 0
//! on token:  if this member wants in: enter, leave, then pass the token on
//!            else pass it on at once
//! pass on:   send the token to the successor, the next higher rank; after the highest comes 0
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages per entry, if all want in | 1: a token |
//! | messages per entry, if nobody else wants in | as many tokens as the ring has steps from the token to here: 0 to n - 1, and n if it has just gone |
//! | on top, to wake a token that pauses | as many `wake`, at most |
//! | messages while nobody wants in | without end: an `idle_token` for each pause |
//! | delay before entry, nobody else in | the same number of transfers, twice if the token must be woken |
//! | delay between an exit and the next entry | 1 to n - 1 transfers |
//! | order | of the ring: not that of asking |
//! | is overtaken by | each other member once, at most, after its wake has arrived |
//! | tolerates | the crash of a member, if the token is not there and not sent there by one that was not notified ([`TokenRing::skip`]); a group tells nobody: its next view leaves out the dead |
//! | links | reliable, any order |
//!
//! Deviations:
//!
//! * The token begins with the member that was in the critical section when the view before ended, or else with the
//!   first that waited.
//! * In the textbook a token that nobody wants goes round as fast as it can. Here it pauses at each
//!   member, 50 ms at first and twice as long each time, up to a second. It also pauses after a
//!   critical section, if nobody else is known to want it. Where it pauses one may enter without a message.
//! * A request wakes the token. `wake` goes round the ring the other way, and so meets the token
//!   after as many messages as the token then needs; to notify all members would take n - 1. A member
//!   that has passed one on sends the token on at once when it comes, and passes no other on until
//!   then. The token comes without `wake` too, only later.
//! * A `wake` that crosses the token on its way would go round for nothing. So the token carries a
//!   lap, which changes when it comes to rank 0 again, or past it; a member that asks states which lap it
//!   has seen last, and from that the member before knows whether the token has yet to come there
//!   (`a_wake_that_crosses_the_token_goes_no_further`). Two laps are enough, as in the
//!   alternating-bit protocol: a `wake` that is more than a lap late may be mistaken for a new one,
//!   and then the token goes round once without a pause.
//! * A second token is ignored where there is one.
//! * Requests have no numbers: a token is no answer to any of them, and admits the member that wants to
//!   enter when it comes. If a member gave up meanwhile, it goes on from there.
//! * A token that is lost with a member is not made anew within the view, since nobody can distinguish it
//!   from one that is only slow (`a_token_that_is_sent_to_a_dead_member_stops_the_ring_for_good`).
//!   The next view has one.
//! * Nobody is notified that it is queued: nobody knows.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Carried, Command, Event, GroupMutex, Mutex, PaidBy, Phase, Waits};
use crate::ids::MemberId;
use crate::protocol::{Input, InputOf, Named, OutboxOf, Protocol};
use crate::time::LocalTime;
use crate::view::View;

/// One member's part in the algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct TokenRing {
    me: MemberId,
    view: View,
    state: State,
    /// The lap in which the token was here last.
    seen: Lap,
    /// Somebody further on has wanted the token since it was last here.
    awaited: bool,
    /// The member before has been notified of that, or that this one wants it, since it was last here.
    asked: bool,
    dead: BTreeSet<MemberId>,
}

/// What members send to each other.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// "Here is the token: somebody wants it."
    Token(Lap),
    /// "Here is the token: nobody was seen to want it."
    IdleToken {
        /// In which it is.
        lap: Lap,
        /// How long it is to pause next.
        pause: Duration,
    },
    /// "Send the token on to me. This is the lap in which I had it last."
    Wake(Lap),
}

/// The token's way from rank 0 to the highest. Each is distinguished from the one before.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Lap(bool);

/// The timers.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer {
    /// The token has paused here for long enough.
    Pause,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    /// Wants nothing, and the token is elsewhere.
    Idle,
    /// Wants in, and the token is elsewhere.
    Waiting,
    /// Has the token, and wants nothing.
    Resting {
        /// How long the token pauses here.
        pause: Duration,
    },
    /// Has the token, and is in the critical section.
    InSection,
}

impl TokenRing {
    fn enter(&mut self, out: &mut OutboxOf<Self>) {
        match self.state {
            State::Resting { .. } => {
                out.disarm(Timer::Pause);
                self.enter_section(out);
            }
            State::Idle => {
                self.state = State::Waiting;
                self.ask(out);
            }
            State::Waiting | State::InSection => {}
        }
    }

    fn exit(&mut self, out: &mut OutboxOf<Self>) {
        match self.state {
            State::InSection => self.rest(SHORTEST_PAUSE, out),
            State::Waiting => self.state = State::Idle,
            State::Idle | State::Resting { .. } => {}
        }
    }

    fn on_token(&mut self, lap: Lap, pause: Duration, out: &mut OutboxOf<Self>) {
        if self.has_token() {
            return;
        }
        self.seen = lap;
        self.asked = false;
        if self.state == State::Waiting {
            self.enter_section(out);
        } else {
            self.rest(pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE), out);
        }
    }

    fn on_wake(&mut self, from: MemberId, theirs: Lap, out: &mut OutboxOf<Self>) {
        let comes_to_them_next = theirs != self.lap_at(from);
        match self.state {
            State::Resting { .. } if comes_to_them_next => {
                out.disarm(Timer::Pause);
                self.pass_on(Message::Token, out);
            }
            State::InSection if comes_to_them_next => self.awaited = true,
            State::Idle | State::Waiting if !comes_to_them_next => {
                self.awaited = true;
                self.ask(out);
            }
            // Either it has been there since they asked, or it is on its way there.
            State::Resting { .. } | State::InSection | State::Idle | State::Waiting => {}
        }
    }

    fn pause_is_over(&mut self, out: &mut OutboxOf<Self>) {
        let State::Resting { pause } = self.state else { return };
        let pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        self.pass_on(|lap| Message::IdleToken { lap, pause }, out);
    }

    fn enter_section(&mut self, out: &mut OutboxOf<Self>) {
        self.state = State::InSection;
        out.tell(Event::Entered);
    }

    /// The token is here, and this member does not want it.
    fn rest(&mut self, pause: Duration, out: &mut OutboxOf<Self>) {
        self.state = State::Resting { pause };
        if self.awaited {
            self.pass_on(Message::Token, out);
        } else if self.successor().is_some() {
            out.arm(Timer::Pause, pause);
        }
    }

    /// Sends the token on; it stays if nobody else lives.
    fn pass_on(&mut self, token: impl FnOnce(Lap) -> Message, out: &mut OutboxOf<Self>) {
        if let Some(successor) = self.successor() {
            self.state = State::Idle;
            self.awaited = false;
            out.send(successor, token(self.lap_at(successor)));
        }
    }

    /// Lets the token know that it is wanted, unless it has been notified.
    fn ask(&mut self, out: &mut OutboxOf<Self>) {
        if self.asked {
            return;
        }
        if let Some(predecessor) = self.predecessor() {
            self.asked = true;
            out.send(predecessor, Message::Wake(self.seen));
        }
    }

    /// Takes a member out of the ring, for the rest of this view: it is dead. Nothing more is sent
    /// to it. What it sent before counts, and a token that was sent to it is lost.
    pub fn skip(&mut self, dead: MemberId, out: &mut OutboxOf<Self>) {
        let was_asked = self.asked && self.predecessor() == Some(dead);
        self.dead.insert(dead);
        if was_asked {
            self.asked = false;
            self.ask(out);
        }
    }

    /// Whether the token is here.
    pub fn has_token(&self) -> bool {
        matches!(self.state, State::Resting { .. } | State::InSection)
    }

    /// The lap in which the token comes to another member after it was here.
    fn lap_at(&self, other: MemberId) -> Lap {
        if other > self.me { self.seen } else { self.seen.next() }
    }

    fn successor(&self) -> Option<MemberId> {
        self.others().next()
    }

    fn predecessor(&self) -> Option<MemberId> {
        self.others().last()
    }

    /// The living others, as they stand on the ring after this one.
    fn others(&self) -> impl Iterator<Item = MemberId> + '_ {
        let below = self.view.members().take_while(|member| *member < self.me);
        self.view.above(self.me).chain(below).filter(|member| !self.dead.contains(member))
    }
}

impl Mutex for TokenRing {
    /// Every member knows who waits. So it stands as if their wakes had arrived already, and as if
    /// the token had come all the way round to where it begins.
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        let begin = carried.token_begins_at(view);
        let waiting = carried.waiting.iter().filter(|member| view.has(**member));
        let last = waiting.map(|member| steps(view, begin, *member)).max().unwrap_or(0);
        let mine = steps(view, begin, me);
        let state = if carried.holder == Some(me) {
            State::InSection
        } else if carried.waiting.contains(&me) {
            State::Waiting
        } else if me == begin {
            State::Resting { pause: SHORTEST_PAUSE }
        } else {
            State::Idle
        };
        Self {
            me,
            view,
            state,
            seen: if me > begin { Lap::default() } else { Lap::default().next() },
            awaited: mine < last,
            asked: me != begin && mine <= last,
            dead: BTreeSet::new(),
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Idle | State::Resting { .. } => Phase::Idle,
            State::Waiting => Phase::Waiting,
            State::InSection => Phase::InSection,
        }
    }
}

impl GroupMutex for TokenRing {
    fn is_contended(&self) -> bool {
        self.awaited
    }

    /// Only where the token is where it was at first, and nobody is known to want it. It pauses there
    /// until somebody does.
    fn is_unused(&self) -> bool {
        let begins = Self::new(self.me, self.view, &Carried::default());
        let state = match self.state {
            State::Resting { .. } => State::Resting { pause: SHORTEST_PAUSE },
            State::Idle | State::Waiting | State::InSection => self.state,
        };
        let Self { me, view, seen, awaited, asked, .. } = *self;
        begins == Self { me, view, state, seen, awaited, asked, dead: self.dead.clone() }
    }

    fn paid_by(message: &Message) -> PaidBy {
        match message {
            Message::Token(_) => PaidBy::Receiver,
            Message::IdleToken { .. } | Message::Wake(_) => PaidBy::Nobody,
        }
    }

    fn waiting_side(_message: &Message) -> Waits {
        Waits::Nobody
    }
}

impl Protocol for TokenRing {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    /// The token comes to where it begins.
    fn start(&mut self, _now: LocalTime, out: &mut OutboxOf<Self>) {
        match self.state {
            State::Waiting if !self.asked => self.enter_section(out),
            State::Resting { pause } => self.rest(pause, out),
            State::Waiting | State::Idle | State::InSection => {}
        }
    }

    fn handle(&mut self, _now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(Command::Enter) => self.enter(out),
            Input::Command(Command::Exit) => self.exit(out),
            Input::Message { from, .. } if from == self.me || !self.view.has(from) => {}
            Input::Message { message: Message::Token(lap), .. } => {
                self.on_token(lap, SHORTEST_PAUSE, out);
            }
            Input::Message { message: Message::IdleToken { lap, pause }, .. } => {
                self.on_token(lap, pause, out);
            }
            Input::Message { from, message: Message::Wake(theirs) } => {
                self.on_wake(from, theirs, out);
            }
            Input::Timer(Timer::Pause) => self.pause_is_over(out),
        }
    }
}

impl Lap {
    fn next(self) -> Self {
        Self(!self.0)
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Token(_) => "token",
            Self::IdleToken { .. } => "idle_token",
            Self::Wake(_) => "wake",
        }
    }
}

/// How many steps the token makes from one member of a view to another.
fn steps(view: View, from: MemberId, to: MemberId) -> u32 {
    if to >= from { to.0 - from.0 } else { view.size - from.0 + to.0 }
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
