//! Ricart and Agrawala's mutual exclusion: everybody permits, or lets the asker wait.
//!
//! Source: Ricart and Agrawala, *An Optimal Algorithm for Mutual Exclusion in Computer Networks*,
//! CACM 24(1), 1981. Variants: Tanenbaum and van Steen, *Distributed Systems*, 2nd edition, 6.3.3
//! (an answer to every request at once); Carvalho and Roucairol, *On Mutual Exclusion in Computer
//! Networks*, CACM 26(2), 1983 (permissions that are kept).
//!
//! ```text
//! to enter:              T := clock; state := WANTED; send request (T, i) to all others
//!                        when all have replied: state := HELD
//! on request (Tj, j):    if state = HELD, or state = WANTED and (T, i) < (Tj, j): defer j
//!                        else reply to j
//! to exit:               state := RELEASED; reply to all deferred
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages per entry and exit | 2(n - 1): request, reply |
//! | with the notice where a reply is withheld | one more for each that is: queued |
//! | with permissions that are kept | from 0 to 2(n - 1): two for each permission that is not at hand |
//! | delay before entry, nobody else in | one round trip; none if all permissions are at hand |
//! | delay between an exit and the next entry | one message: reply |
//! | order | of the stamps; none with permissions that are kept, as a member that has them all enters before it hears of an older request |
//! | tolerates | no crash: one silent member blocks everyone, until a view change |
//! | links | reliable, any order |
//!
//! Deviations:
//!
//! * The stamp is drawn before the first request is sent. Drawn afterwards, as some descriptions have
//!   it, a request that arrives in between would be compared with an old one.
//! * Stamps are compared with ranks. By times alone two members with equal ones would defer each
//!   other for ever.
//! * Members give up: then they reply to all deferred, as if they had been in the critical section. Every answer names
//!   the stamp of the request that it answers, so that a reply to a request given up admits nobody.
//! * Of the requests of one member only the latest is deferred, in whatever order they arrive.
//! * What follows from silence is up to the driver: [`RicartAgrawala::silent`] lists those that have
//!   not answered. "No answer for some time counts as a reply" would admit a second member if the
//!   silent one is in the critical section. The next view leaves out the dead.
//! * The source withholds a reply in silence, so that a slow member cannot be distinguished from a dead one. Here
//!   the asker is notified that it is queued. The notice is no more than that: members to which it is never sent admit
//!   each other just as well.
//! * Tanenbaum and van Steen take the notice for a denial, and repeat a request that nothing answers. Everything may
//!   come twice here, so that covers the loss of a request, a reply or a denial; but the reply that follows a denial is
//!   not asked for again. No group repeats: where a link loses messages, its view ends.
//! * With permissions that are kept, at most one of two members has the other's. A member that asks with an older
//!   stamp gets it back also from somebody that wants in, who then asks in turn.
//! * Permissions that were not used for some time are forgotten, so that a lock that nobody uses any more
//!   takes no memory. It costs no message: a member that forgot asks again.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Carried, Command, Event, GroupMutex, Mutex, PaidBy, Permissions, Phase, Waits};
use crate::ids::{LamportTime, MemberId};
use crate::protocol::{Input, InputOf, Named, OutboxOf, Protocol};
use crate::time::LocalTime;
use crate::view::View;

/// One member's part in the algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct RicartAgrawala {
    me: MemberId,
    view: View,
    permissions: Permissions,
    clock: LamportTime,
    state: State,
    /// Whose requests wait until this member leaves, and which.
    deferred: BTreeMap<MemberId, LamportTime>,
    /// Whose permissions are at hand, if they are kept.
    permitted: BTreeSet<MemberId>,
}

/// What members send to each other. Answers name the stamp of the request.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// "I want to enter, and this is when I asked."
    Request(LamportTime),
    /// "Not before you, as far as I am concerned."
    Reply(LamportTime),
    /// "After me. I live."
    Queued(LamportTime),
}

/// The timers.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer {
    /// The permissions at hand were not used for long.
    Idle,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum State {
    Released,
    Wanted {
        since: LamportTime,
        /// Whose permissions are missing.
        missing: BTreeSet<MemberId>,
        /// Those of them that were asked and have sent nothing.
        silent: BTreeSet<MemberId>,
    },
    Held {
        since: LamportTime,
    },
}

impl RicartAgrawala {
    /// One member's part, with permissions that are good for so long, which is so at all members.
    pub fn of(permissions: Permissions, me: MemberId, view: View, carried: &Carried) -> Self {
        let (line, clock) = carried.stamped(view);
        let mut member = Self {
            me,
            view,
            permissions,
            clock,
            state: State::Released,
            deferred: BTreeMap::new(),
            permitted: BTreeSet::new(),
        };
        if let Some(place) = line.iter().position(|(_, other)| *other == me) {
            member.take_place(&line, place, carried.holder == Some(me));
        }
        member
    }

    /// All ahead in the line are yet to permit this member, and it is to permit all behind.
    fn take_place(&mut self, line: &[(LamportTime, MemberId)], place: usize, in_section: bool) {
        let (since, _) = line[place];
        let missing: BTreeSet<_> = line[..place].iter().map(|(_, ahead)| *ahead).collect();
        let behind = line[place + 1..].iter();
        self.deferred = behind.map(|(since, member)| (*member, *since)).collect();
        if self.keeps() {
            let others = self.view.peers(self.me);
            self.permitted = others.filter(|other| !missing.contains(other)).collect();
        }
        self.state = if in_section {
            State::Held { since }
        } else {
            State::Wanted { since, missing, silent: BTreeSet::new() }
        };
    }

    fn enter(&mut self, out: &mut OutboxOf<Self>) {
        let State::Released = self.state else { return };
        if self.keeps() {
            out.disarm(Timer::Idle);
        }
        let since = self.clock.tick();
        let others = self.view.peers(self.me);
        let missing: BTreeSet<_> = others.filter(|peer| !self.permitted.contains(peer)).collect();
        let silent = missing.clone();
        out.send_each(missing.iter().copied(), &Message::Request(since));
        self.state = State::Wanted { since, missing, silent };
        self.hold_if_complete(out);
    }

    fn exit(&mut self, out: &mut OutboxOf<Self>) {
        let (State::Wanted { .. } | State::Held { .. }) = self.state else { return };
        self.state = State::Released;
        for (peer, since) in std::mem::take(&mut self.deferred) {
            self.permit(peer, since, out);
        }
        if let Permissions::Kept { idle } = self.permissions
            && !self.permitted.is_empty()
        {
            out.arm(Timer::Idle, idle);
        }
    }

    /// Asks everybody again the next time, which is always right: of two members, then neither has the
    /// other's permission.
    fn forget_permissions(&mut self) {
        if self.state == State::Released {
            self.permitted.clear();
        }
    }

    fn keeps(&self) -> bool {
        matches!(self.permissions, Permissions::Kept { .. })
    }

    fn on_request(&mut self, from: MemberId, theirs: LamportTime, out: &mut OutboxOf<Self>) {
        self.clock.witness(theirs);
        let mine_is_first = match self.state {
            State::Released => false,
            State::Wanted { since, .. } => (since, self.me) < (theirs, from),
            State::Held { .. } => true,
        };
        if mine_is_first {
            self.defer(from, theirs, out);
        } else {
            self.permit(from, theirs, out);
        }
    }

    fn defer(&mut self, from: MemberId, theirs: LamportTime, out: &mut OutboxOf<Self>) {
        let latest = self.deferred.entry(from).or_default();
        *latest = theirs.max(*latest);
        out.send(from, Message::Queued(theirs));
    }

    /// Replies. A member that has the other's permission gives it back with that, and needs it anew.
    fn permit(&mut self, to: MemberId, theirs: LamportTime, out: &mut OutboxOf<Self>) {
        out.send(to, Message::Reply(theirs));
        let was_at_hand = self.permitted.remove(&to);
        if let (State::Wanted { since, missing, silent }, true) = (&mut self.state, was_at_hand) {
            missing.insert(to);
            silent.insert(to);
            out.send(to, Message::Request(*since));
        }
    }

    fn on_reply(&mut self, from: MemberId, answered: LamportTime, out: &mut OutboxOf<Self>) {
        let State::Wanted { since, missing, .. } = &mut self.state else { return };
        if *since != answered || !missing.remove(&from) {
            return;
        }
        match self.permissions {
            Permissions::ForOneEntry => {}
            Permissions::Kept { .. } => {
                self.permitted.insert(from);
            }
        }
        self.note_heard_from(from, out);
        self.hold_if_complete(out);
    }

    /// The reply is withheld.
    fn on_withheld(&mut self, from: MemberId, answered: LamportTime, out: &mut OutboxOf<Self>) {
        if let State::Wanted { since, .. } = self.state
            && since == answered
        {
            self.note_heard_from(from, out);
        }
    }

    /// A member that hears from everybody but is not permitted by all is known to wait.
    fn note_heard_from(&mut self, from: MemberId, out: &mut OutboxOf<Self>) {
        let State::Wanted { missing, silent, .. } = &mut self.state else { return };
        if silent.remove(&from) && silent.is_empty() && !missing.is_empty() {
            out.tell(Event::Queued);
        }
    }

    fn hold_if_complete(&mut self, out: &mut OutboxOf<Self>) {
        if let State::Wanted { since, missing, .. } = &self.state
            && missing.is_empty()
        {
            self.state = State::Held { since: *since };
            out.tell(Event::Entered);
        }
    }

    /// The place of this member in the order, if it waits or is in the critical section.
    pub fn turn(&self) -> Option<(LamportTime, MemberId)> {
        match self.state {
            State::Released => None,
            State::Wanted { since, .. } | State::Held { since } => Some((since, self.me)),
        }
    }

    /// The members that were asked and have sent nothing: each is slow, or dead.
    pub fn silent(&self) -> impl Iterator<Item = MemberId> + '_ {
        let silent = match &self.state {
            State::Wanted { silent, .. } => Some(silent),
            State::Released | State::Held { .. } => None,
        };
        silent.into_iter().flatten().copied()
    }

    fn is_peer(&self, member: MemberId) -> bool {
        member != self.me && self.view.has(member)
    }
}

impl Mutex for RicartAgrawala {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        Self::of(Permissions::default(), me, view, carried)
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Released => Phase::Idle,
            State::Wanted { .. } => Phase::Waiting,
            State::Held { .. } => Phase::InSection,
        }
    }
}

impl GroupMutex for RicartAgrawala {
    fn is_contended(&self) -> bool {
        !self.deferred.is_empty()
    }

    fn latest(&self) -> u64 {
        self.clock.get()
    }

    fn numbered_after(self, latest: u64) -> Self {
        Self { clock: self.clock.max(LamportTime::at(latest)), ..self }
    }

    fn is_unused(&self) -> bool {
        self.state == State::Released && self.permitted.is_empty()
    }

    fn paid_by(message: &Message) -> PaidBy {
        match message {
            Message::Request(_) => PaidBy::Sender,
            Message::Reply(_) => PaidBy::Receiver,
            Message::Queued(_) => PaidBy::Nobody,
        }
    }

    fn waiting_side(message: &Message) -> Waits {
        match message {
            Message::Request(_) => Waits::Sender,
            Message::Queued(_) => Waits::Receiver,
            Message::Reply(_) => Waits::Nobody,
        }
    }
}

impl Protocol for RicartAgrawala {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    /// The lock may have come free when the view before ended.
    fn start(&mut self, _now: LocalTime, out: &mut OutboxOf<Self>) {
        self.hold_if_complete(out);
    }

    fn handle(&mut self, _now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(Command::Enter) => self.enter(out),
            Input::Command(Command::Exit) => self.exit(out),
            Input::Message { from, .. } if !self.is_peer(from) => {}
            Input::Message { from, message: Message::Request(at) } => {
                self.on_request(from, at, out);
            }
            Input::Message { from, message: Message::Reply(to) } => self.on_reply(from, to, out),
            Input::Message { from, message: Message::Queued(to) } => {
                self.on_withheld(from, to, out);
            }
            Input::Timer(Timer::Idle) => self.forget_permissions(),
        }
    }
}

impl Named for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::Reply(_) => "reply",
            Self::Queued(_) => "queued",
        }
    }
}

#[cfg(test)]
mod tests;
