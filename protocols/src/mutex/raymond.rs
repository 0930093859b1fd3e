//! Mutual exclusion by a token in a tree.
//!
//! Source: Raymond, *A Tree-Based Algorithm for Distributed Mutual Exclusion*, ACM Transactions on
//! Computer Systems 7(1), 1989. The token is called privilege there.
//!
//! ```text
//! to enter:               append self to request_q; assign; ask
//! to exit:                using := false; assign; ask
//! on request from p:      append p to request_q; assign; ask
//! on privilege:           holder := self; assign; ask
//!
//! assign:  if holder = self and not using and request_q is not empty:
//!              holder := head of request_q; asked := false
//!              if holder = self: using := true
//!              else send privilege to holder
//! ask:     if holder /= self and request_q is not empty and not asked:
//!              send request to holder; asked := true
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages per entry, if nobody else wants in | 2d: d requests, and the privilege d times, at distance d from the token |
//! | messages per entry, if all want in | nearly 4 |
//! | d at most, in the tree used here | 2 log2 n: O(log n) |
//! | delay before entry, nobody else in | 2d transfers |
//! | delay between an exit and the next entry | as many transfers as the two are apart |
//! | order | of arrival, at each member, of its neighbours and itself; none between those further away |
//! | overtaking | each other enters at most once more before one that stands in all queues on the way, if critical sections take longer than messages |
//! | tolerates | the crash of a leaf that neither has the privilege nor has asked for it; after any other the privilege, or the way to it, is lost until the next view |
//! | links | reliable, any order |
//!
//! Deviations:
//!
//! * The source works with any tree. Here it is that of a binary heap, for all members know it
//!   without a message: rank 0 is the root, and r has the children 2r + 1 and 2r + 2. A star has
//!   shorter ways, but its centre has a hand in each entry.
//! * The privilege begins with the member that was in the critical section when the view before ended, or else with
//!   the first that waited, and all pointers lead there. Every member has the requests that would be in
//!   its queue, had those that waited asked in their order.
//! * The source's processes wait until they enter. Here a member may give up: it takes itself out
//!   of its own queue. What it asked of its neighbour cannot be called back, so the privilege
//!   comes, admits the member that is first by then, and stays if nobody is. A member that asks again
//!   before it has come goes to the end of its own queue, and asks its neighbour no second time
//!   (`a_member_that_gives_up_and_asks_again_goes_to_the_end_and_asks_once`). The queue may
//!   be empty when the privilege comes, so `asked` is cleared then, and not by `assign`.
//! * Requests have no numbers: a privilege is no answer to one of them, and admits the member that
//!   is first.
//! * The source restores a failed node from what its neighbours know. Here the next view does.
//! * A privilege that was not asked for, or from elsewhere than the pointer leads, and the second
//!   request of a neighbour that is in the queue are ignored.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Carried, Command, Event, GroupMutex, Mutex, PaidBy, Phase, Waits};
use crate::ids::MemberId;
use crate::protocol::{Input, InputOf, Named, OutboxOf, Protocol};
use crate::time::LocalTime;
use crate::view::View;

/// One member's part in the algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Raymond {
    me: MemberId,
    view: View,
    /// Which way the privilege is: a neighbour, or this member.
    holder: MemberId,
    using: bool,
    /// Neighbours, and this member, in the order in which they asked; nobody twice.
    requests: VecDeque<MemberId>,
    /// Whether the holder has been asked, and has not sent the privilege yet.
    asked: bool,
}

/// What neighbours send to each other.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// "I, or somebody behind me, want the privilege."
    Request,
    /// "The privilege is yours."
    Privilege,
}

/// The protocol has no timers.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer {}

impl Raymond {
    fn enter(&mut self, out: &mut OutboxOf<Self>) {
        if self.phase() == Phase::Idle {
            self.append(self.me, out);
        }
    }

    fn exit(&mut self, out: &mut OutboxOf<Self>) {
        self.using = false;
        self.requests.retain(|member| *member != self.me);
        self.assign(out);
        self.ask(out);
    }

    fn on_request(&mut self, from: MemberId, out: &mut OutboxOf<Self>) {
        if self.is_neighbour(from) && !self.requests.contains(&from) {
            self.append(from, out);
        }
    }

    fn on_privilege(&mut self, from: MemberId, out: &mut OutboxOf<Self>) {
        if from == self.holder && self.asked {
            self.holder = self.me;
            self.asked = false;
            self.assign(out);
            self.ask(out);
        }
    }

    fn append(&mut self, member: MemberId, out: &mut OutboxOf<Self>) {
        self.requests.push_back(member);
        self.assign(out);
        self.ask(out);
    }

    /// The source's `ASSIGN_PRIVILEGE`.
    fn assign(&mut self, out: &mut OutboxOf<Self>) {
        if !self.has_token() || self.using {
            return;
        }
        let Some(first) = self.requests.pop_front() else { return };
        self.holder = first;
        if first == self.me {
            self.using = true;
            out.tell(Event::Entered);
        } else {
            out.send(first, Message::Privilege);
        }
    }

    /// The source's `MAKE_REQUEST`.
    fn ask(&mut self, out: &mut OutboxOf<Self>) {
        if !self.has_token() && !self.requests.is_empty() && !self.asked {
            self.asked = true;
            out.send(self.holder, Message::Request);
        }
    }

    /// Whether the privilege is here.
    pub fn has_token(&self) -> bool {
        self.holder == self.me
    }

    /// Which way the privilege is: a neighbour in the tree, or this member.
    pub fn holder(&self) -> MemberId {
        self.holder
    }

    /// Whether this member has asked its neighbour for the privilege and has not got it yet.
    pub fn has_asked(&self) -> bool {
        self.asked
    }

    /// Neighbours in the tree, and this member, in the order in which they want the privilege.
    pub fn requests(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.requests.iter().copied()
    }

    fn is_neighbour(&self, other: MemberId) -> bool {
        self.view.has(other) && (parent(other) == Some(self.me) || parent(self.me) == Some(other))
    }
}

impl Mutex for Raymond {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        let holder = towards(me, carried.token_begins_at(view));
        let mut requests = VecDeque::new();
        for waiting in carried.waiting.iter().filter(|member| view.has(**member)) {
            let from = towards(me, *waiting);
            let passes_here = from == me || from != holder;
            if passes_here && !requests.contains(&from) {
                requests.push_back(from);
            }
        }
        let using = carried.holder == Some(me);
        let asked = holder != me && !requests.is_empty();
        Self { me, view, holder, using, requests, asked }
    }

    fn phase(&self) -> Phase {
        if self.using {
            Phase::InSection
        } else if self.requests.contains(&self.me) {
            Phase::Waiting
        } else {
            Phase::Idle
        }
    }
}

impl GroupMutex for Raymond {
    fn is_contended(&self) -> bool {
        self.requests.iter().any(|member| *member != self.me)
    }

    /// Only where the privilege is where it was at first.
    fn is_unused(&self) -> bool {
        *self == Self::new(self.me, self.view, &Carried::default())
    }

    fn paid_by(message: &Message) -> PaidBy {
        match message {
            Message::Request => PaidBy::Sender,
            Message::Privilege => PaidBy::Receiver,
        }
    }

    /// It may ask for another.
    fn waiting_side(_message: &Message) -> Waits {
        Waits::Nobody
    }
}

impl Protocol for Raymond {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    /// Waiters may have been carried over while the lock came free.
    fn start(&mut self, _now: LocalTime, out: &mut OutboxOf<Self>) {
        self.assign(out);
        self.ask(out);
    }

    fn handle(&mut self, _now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(Command::Enter) => self.enter(out),
            Input::Command(Command::Exit) => self.exit(out),
            Input::Message { from, message: Message::Request } => self.on_request(from, out),
            Input::Message { from, message: Message::Privilege } => self.on_privilege(from, out),
            Input::Timer(never) => match never {},
        }
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Privilege => "privilege",
        }
    }
}

/// The next towards the root; the root has none.
fn parent(member: MemberId) -> Option<MemberId> {
    Some(MemberId(member.0.checked_sub(1)? / 2))
}

/// The neighbour that is on the way to another member; itself if it is the same.
fn towards(from: MemberId, to: MemberId) -> MemberId {
    if from == to {
        return to;
    }
    let path_to_root = std::iter::successors(Some(to), |member| parent(*member));
    let child = path_to_root.clone().find(|member| parent(*member) == Some(from));
    child.or_else(|| parent(from)).unwrap_or(from)
}

#[cfg(test)]
mod tests;
