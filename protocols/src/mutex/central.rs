//! Mutual exclusion by a central coordinator.
//!
//! Source: Tanenbaum and van Steen, *Distributed Systems*, section "Mutual exclusion: a centralized
//! algorithm"; Coulouris, Dollimore, Kindberg and Blair, *Distributed Systems: Concepts and
//! Design*, 5th ed., section 15.2, "The central server algorithm".
//!
//! ```text
//! to enter:        send request to the coordinator, wait for grant
//! to exit:         send release to the coordinator
//! coordinator:
//!   on request(p): if nobody is in the critical section: in_section := p; send grant to p
//!                  else append p to the queue (and notify p that it is queued)
//!   on release(p): if the queue is empty: nobody is in the critical section
//!                  else in_section := head of the queue; send grant to it
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages per entry and exit | 3: request, grant, release |
//! | with the optional reply to a request that must wait | one more, `queued` |
//! | delay before entry, nobody else in | one round trip |
//! | delay between an exit and the next entry | one round trip: release, grant |
//! | order | of arrival at the coordinator |
//! | messages, if grants are kept | none for the member that was in the critical section last; one more, `wanted`, for each entry that another waits for, and `in use` if somebody is in the critical section |
//! | delay between an exit and the next entry, if the grant was kept | two round trips: request, wanted, release, grant |
//! | tolerates | the crash of a member that is neither in nor waiting nor the coordinator |
//! | links | reliable, FIFO |
//!
//! Deviations:
//!
//! * The coordinator is the leader of the view. It keeps its own requests in the same queue, and
//!   its messages to itself cost nothing.
//! * A request carries a number. A member that gives up while it waits sends a release with that
//!   number; a grant that crosses it on the way is then recognised as stale. Without the number the
//!   late grant would admit the member's *next* request while the coordinator has moved on
//!   (`a_grant_that_crosses_a_withdrawal_lets_nobody_in`).
//! * The textbook's coordinator cannot distinguish a dead member from a slow one. Here its driver can:
//!   [`Coordinated::expel`](super::Coordinated::expel) takes out a member whose lease is over.
//! * A request that the coordinator knows already is answered again and queued once. A newer
//!   request of a member states that it has given up the older one, or left, and that the release
//!   was lost.
//! * Some lecture notes have the coordinator order its queue by the logical clocks of those that ask (Lamport, *Time,
//!   Clocks, and the Ordering of Events in a Distributed System*, CACM 21(7), 1978). No group does:
//!   `docs/errata.md` states what that order needs, and what it is worth.
//! * A member may keep its grant when it leaves ([`Permissions::Kept`]), as clients of file servers keep
//!   their locks (Burrows, *The Chubby Lock Service for Loosely-Coupled Distributed Systems*, OSDI 2006,
//!   section 2.7; Gray and Cheriton, *Leases*, SOSP 1989). For the coordinator it is still in the critical section. It is
//!   notified when another wants to enter, and gives the grant back at once, or answers that it is in the critical
//!   section and does so when it leaves; only then is the member that asked notified that it has to wait. The
//!   coordinator's own grants are not kept, as its messages to itself cost nothing. (`central/keeping.rs`)

use serde::{Deserialize, Serialize};

use self::coordinator::Ledger;
use super::{
    Carried, Command, Coordinated, Coordination, Event, GroupMutex, Mutex, PaidBy, Permissions,
    Phase, Waits,
};
use crate::ids::MemberId;
pub use crate::ids::RequestNumber;
use crate::protocol::{InputOf, Named, OutboxOf, Protocol};
use crate::time::LocalTime;
use crate::view::View;

mod coordinator;
mod keeping;

/// One member's part in the algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Central {
    me: MemberId,
    view: View,
    permissions: Permissions,
    state: State,
    /// Another wants the grant that this member has.
    wanted: bool,
    /// The number of this member's latest request.
    latest: RequestNumber,
    /// The coordinator's ledger; empty elsewhere.
    ledger: Ledger,
}

/// What members send to each other.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// "I want in."
    Request(RequestNumber),
    /// "You are in the queue, and I live."
    Queued(RequestNumber),
    /// "You are in."
    Grant(RequestNumber),
    /// "I am out, or no longer want in."
    Release(RequestNumber),
    /// "Another wants in: do not keep this grant."
    Wanted(RequestNumber),
    /// "I am in the critical section, and shall not keep it."
    InUse(RequestNumber),
}

/// The timers.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer {
    /// The grant that was kept was not used for long.
    Idle,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    Idle,
    Waiting,
    InSection,
    /// Outside, with a grant at hand.
    Keeping,
}

impl Central {
    fn enter(&mut self, out: &mut OutboxOf<Self>) {
        match self.state {
            State::Idle => {
                self.latest = RequestNumber(self.latest.0.saturating_add(1));
                self.state = State::Waiting;
                self.send(Message::Request(self.latest), out);
            }
            State::Keeping => {
                self.state = State::InSection;
                out.disarm(Timer::Idle);
                out.tell(Event::Entered);
            }
            State::Waiting | State::InSection => {}
        }
    }

    /// A member that leaves may keep the grant. One that keeps it gives it back.
    fn exit(&mut self, out: &mut OutboxOf<Self>) {
        match (self.state, self.permissions) {
            (State::Idle, _) => {}
            (State::InSection, Permissions::Kept { idle }) if self.may_keep() => {
                self.state = State::Keeping;
                out.arm(Timer::Idle, idle);
            }
            (State::Waiting | State::InSection, _) => self.give_back(out),
            (State::Keeping, _) => {
                out.disarm(Timer::Idle);
                self.give_back(out);
            }
        }
    }

    fn give_back(&mut self, out: &mut OutboxOf<Self>) {
        self.state = State::Idle;
        self.send(Message::Release(self.latest), out);
    }

    /// `wanted`: others are known to wait.
    pub(super) fn on_grant(
        &mut self,
        number: RequestNumber,
        wanted: bool,
        out: &mut OutboxOf<Self>,
    ) {
        if self.state == State::Waiting && number == self.latest {
            self.state = State::InSection;
            self.wanted = wanted;
            out.tell(Event::Entered);
        }
    }

    fn on_queued(&mut self, number: RequestNumber, out: &mut OutboxOf<Self>) {
        if self.state == State::Waiting && number == self.latest {
            out.tell(Event::Queued);
        }
    }

    /// Sends a message to the coordinator, which may be this member.
    fn send(&mut self, message: Message, out: &mut OutboxOf<Self>) {
        if self.me == self.view.leader {
            self.coordinate(self.me, message, out);
        } else {
            out.send(self.view.leader, message);
        }
    }

    /// The member's rules.
    fn hear(&mut self, message: Message, out: &mut OutboxOf<Self>) {
        match message {
            Message::Grant(number) => self.on_grant(number, false, out),
            Message::Queued(number) => self.on_queued(number, out),
            Message::Wanted(number) => self.on_wanted(number, out),
            Message::Request(_) | Message::Release(_) | Message::InUse(_) => {}
        }
    }

    /// The number of this member's latest request.
    pub fn latest(&self) -> RequestNumber {
        self.latest
    }

    /// The same, with grants that are good for so long, which is so at all members.
    #[must_use]
    pub fn with(self, permissions: Permissions) -> Self {
        Self { permissions, ..self }
    }
}

impl Mutex for Central {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        let state = if carried.holder == Some(me) {
            State::InSection
        } else if carried.waiting.contains(&me) {
            State::Waiting
        } else {
            State::Idle
        };
        let mut ledger = Ledger::default();
        if me == view.leader {
            let number = RequestNumber::default();
            ledger.in_section = carried.holder.map(|holder| (holder, number));
            ledger.queue = carried.waiting.iter().map(|member| (*member, number)).collect();
        }
        Self {
            me,
            view,
            permissions: Permissions::default(),
            state,
            wanted: false,
            latest: RequestNumber::default(),
            ledger,
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Idle | State::Keeping => Phase::Idle,
            State::Waiting => Phase::Waiting,
            State::InSection => Phase::InSection,
        }
    }
}

impl GroupMutex for Central {
    fn is_contended(&self) -> bool {
        self.wanted || !self.ledger.queue.is_empty()
    }

    fn latest(&self) -> u64 {
        self.latest.0
    }

    fn numbered_after(self, latest: u64) -> Self {
        Self { latest: self.latest.max(RequestNumber(latest)), ..self }
    }

    fn is_unused(&self) -> bool {
        self.state == State::Idle
            && self.ledger.in_section.is_none()
            && self.ledger.queue.is_empty()
    }

    fn paid_by(message: &Message) -> PaidBy {
        match message {
            Message::Request(_) => PaidBy::Sender,
            Message::Grant(_) => PaidBy::Receiver,
            Message::Release(_) => PaidBy::Leaver,
            Message::Queued(_) | Message::Wanted(_) | Message::InUse(_) => PaidBy::Nobody,
        }
    }

    fn waiting_side(message: &Message) -> Waits {
        match message {
            Message::Request(_) => Waits::Sender,
            Message::Queued(_) => Waits::Receiver,
            Message::Grant(_) | Message::Release(_) | Message::Wanted(_) | Message::InUse(_) => {
                Waits::Nobody
            }
        }
    }

    fn coordinated(&self) -> Option<&dyn Coordinated> {
        Some(self)
    }

    fn coordinated_mut(&mut self) -> Option<&mut dyn Coordinated> {
        Some(self)
    }

    fn coordination(message: &Message) -> Option<Coordination> {
        Some(match *message {
            Message::Request(number) => Coordination::Request(number),
            Message::Grant(number) => Coordination::Grant(number),
            Message::Queued(_) => Coordination::Queued,
            Message::Release(number) => Coordination::Release(number),
            Message::Wanted(_) | Message::InUse(_) => Coordination::Other,
        })
    }

    fn request(number: RequestNumber) -> Option<Message> {
        Some(Message::Request(number))
    }

    /// The coordinator may have passed this member over, and a grant that is still under way is of no use any more.
    fn ask_again(&mut self, out: &mut OutboxOf<Self>) {
        if self.state == State::Waiting {
            self.state = State::Idle;
            self.enter(out);
        }
    }

    fn recall_again(&mut self, out: &mut OutboxOf<Self>) {
        self.want_again(out);
    }
}

impl Protocol for Central {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    /// Waiters may have been carried over while the lock came free.
    fn start(&mut self, _now: LocalTime, out: &mut OutboxOf<Self>) {
        if self.ledger.in_section.is_none() {
            self.admit(out);
        } else {
            self.recall(out);
        }
    }

    fn handle(&mut self, _now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        use crate::protocol::Input;
        match input {
            Input::Command(Command::Enter) => self.enter(out),
            Input::Command(Command::Exit) => self.exit(out),
            Input::Message {
                from,
                message: message @ (Message::Request(_) | Message::Release(_) | Message::InUse(_)),
            } => {
                if self.me == self.view.leader && self.view.has(from) {
                    self.coordinate(from, message, out);
                }
            }
            Input::Message {
                from,
                message: message @ (Message::Grant(_) | Message::Queued(_) | Message::Wanted(_)),
            } => {
                if from == self.view.leader {
                    self.hear(message, out);
                }
            }
            Input::Timer(Timer::Idle) => {
                if self.state == State::Keeping {
                    self.exit(out);
                }
            }
        }
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::Queued(_) => "queued",
            Self::Grant(_) => "grant",
            Self::Release(_) => "release",
            Self::Wanted(_) => "wanted",
            Self::InUse(_) => "in_use",
        }
    }
}

#[cfg(test)]
mod tests;
