//! An election by capacity: a spanning tree grows from the member that begins, and the best is reported up it.
//!
//! Source: Vasudevan, Kurose and Towsley, *Design and Analysis of a Leader Election Algorithm for Mobile Ad Hoc
//! Networks*, ICNP 2004; in the form of Tanenbaum and van Steen, *Distributed Systems*, 2nd edition, 6.5.2, with
//! the source's indices of computations and its probes.
//!
//! ```text
//! to elect:         number + 1; join the computation (number, self) without a parent
//! to join one:      send ELECTION to all neighbours but the parent; wait for the answer of each
//! on ELECTION from j of a higher computation:   join it, with j as the parent
//!                    of the same one:           answer NOT_CHILD
//!                    of a lower one:            discard it
//! on NOT_CHILD:     the sender has answered
//! on REPORT b:      the sender has answered, and is a child; keep the best of b and what is known
//! all have answered:
//!                   send the parent REPORT (the best of self and the subtrees);
//!                   without a parent, follow the best, and send LEADER to the children
//! on LEADER x:      follow x; send it on to the children
//! nothing for Δt:   PROBE those that are waited for: children, or the parent after the report
//! on PROBE:         send REPLY, if in that computation
//! no REPLY for Δt:  it is dead. A neighbour has answered; without its parent, a member elects
//! on recovery:      elect
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | who wins | the greatest capacity; of several that have it, the highest rank |
//! | messages, m links, n living, one begins | 2(2m - (n - 1)) + n - 1 |
//! | messages, full mesh of n living, one begins | (n - 1)(2n - 1) |
//! | messages, full mesh of n living, all begin, most | n(n - 1)(n + 2)/2 + (n - 1)(n - 2)(n - 3)/3 |
//! | time, one begins, tree of depth d | 3d + 2 transfers, and Δt if a neighbour is dead |
//! | tolerates | crashes, at any time; 2Δt for each that dies while it is waited for |
//! | links | reliable, any order; a living member answers within Δt; both ends know a link |
//!
//! Without the last promise two members may think themselves elected: a winner is only a nominee. Nor is the
//! first winner the best if a member dies that has children: the source leaves out its subtree, which elects
//! again.
//!
//! Messages travel only along links between neighbours, also while members die. A wide computation is exempt, as all
//! members are neighbours in it.
//!
//! Deviations:
//! - The source's nodes move, and their links come and go. Here links stay as they are, and a member that does
//!   not reply is dead.
//! - A member that joins sends its parent REPLY at once, so that ELECTION is a probe too: a member that was dead from the
//!   beginning costs Δt, not 2Δt.
//! - In the source a node without its parent goes on as the root of its subtree, and announces its best. Here it
//!   elects again, so that both parts elect the same member if another way connects them.
//! - In the source LEADER is broadcast. Here it goes down the tree.
//! - REPLY repeats what its sender sent in that computation, so that what is lost is made good. OUTDATED is ours:
//!   a member that has forgotten how far numbers are learns it, and elects with a higher one.
//! - The source has no end of waiting while probes are answered. Here a member elects again after 4n Δt, which is
//!   longer than a computation can take: at most n - 1 transfers each down, up and down, of Δt/2, and 2Δt for each
//!   that dies.
//! - The source's links are all that there are. Here the neighbours may have been chosen to save messages
//!   ([`Place::spares`]). A source whose computations came to nothing begins its third, and each that follows, as
//!   a wide one: all members are neighbours in it, and it takes over from all that are not wide. So no death
//!   divides the members for good.

mod message;

use std::collections::BTreeSet;

pub use self::message::{Answer, Best, Index, Message};
use super::{Command, Election, Event, Place, Timing};
use crate::ids::MemberId;
use crate::protocol::{Input, InputOf, OutboxOf, Protocol};
use crate::time::LocalTime;

/// One member's part in the algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct SpanningTree {
    place: Place,
    timing: Timing,
    /// The highest computation that it knows of.
    latest: Index,
    /// Its part in that one, until it knows the outcome.
    part: Option<Part>,
    elected: Option<MemberId>,
}

/// The timers, by what did not come in time.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Timer {
    /// Not all of those that are waited for have answered.
    Answers,
}

/// A part in a computation whose outcome is not known.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Part {
    /// The source has none.
    parent: Option<MemberId>,
    /// The neighbours that have not answered. If there are none, it has reported.
    pending: BTreeSet<MemberId>,
    children: BTreeSet<MemberId>,
    best: Best,
    /// Those that were probed and have not replied.
    silent: BTreeSet<MemberId>,
    /// For so many times Δt it still waits.
    patience: u32,
}

impl SpanningTree {
    /// Whether all members are neighbours in the highest computation that it knows of.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub const fn is_wide(&self) -> bool {
        self.latest.wide
    }

    fn elect(&mut self, out: &mut OutboxOf<Self>) {
        if self.part.is_none() {
            self.begin(out);
        }
    }

    fn begin(&mut self, out: &mut OutboxOf<Self>) {
        let wide = self.latest.wide || self.place.spares && self.place.in_vain >= NARROW;
        // If another follows, this one came to nothing.
        let in_vain = self.place.in_vain.saturating_add(self.place.spares.into());
        self.place.in_vain = in_vain.min(NARROW);
        self.begin_above(Index { wide, ..self.latest }, out);
    }

    fn begin_above(&mut self, by: Index, out: &mut OutboxOf<Self>) {
        let number = by.number.saturating_add(1);
        self.join(Index { number, source: self.place.me, ..by }, None, out);
    }

    fn join(&mut self, of: Index, parent: Option<MemberId>, out: &mut OutboxOf<Self>) {
        let Place { me, view, capacity, .. } = &self.place;
        let mut pending = self.place.neighbours(of.wide);
        if let Some(parent) = parent {
            pending.remove(&parent);
            if !pending.is_empty() {
                out.send(parent, Message::Reply { of, sent: None });
            }
        }
        out.send_each(pending.iter().copied(), &Message::Election { of });
        out.arm(Timer::Answers, self.timing.answer);
        let (silent, children) = (pending.clone(), BTreeSet::new());
        let best = Best { capacity: *capacity, member: *me };
        let patience = view.size.saturating_mul(4);
        (self.latest, self.elected) = (of, None);
        self.part = Some(Part { parent, pending, children, best, silent, patience });
        self.report_if_all_answered(out);
    }

    fn on_election(&mut self, from: MemberId, of: Index, out: &mut OutboxOf<Self>) {
        match &self.part {
            _ if of > self.latest => self.join(of, Some(from), out),
            Some(part) if of == self.latest && part.parent == Some(from) => {
                out.send(from, Message::Reply { of, sent: self.answered(from) });
            }
            Some(_) if of == self.latest => out.send(from, Message::NotChild { of }),
            // Its sender has ELECTION of the higher one, or is about to.
            Some(part) if part.pending.contains(&from) => {}
            _ => out.send(from, Message::Outdated { of, by: self.latest }),
        }
    }

    /// A neighbour is no child, or one that reports this.
    fn on_answer(
        &mut self,
        from: MemberId,
        of: Index,
        report: Option<Best>,
        out: &mut OutboxOf<Self>,
    ) {
        if of != self.latest {
            return;
        }
        match (&mut self.part, self.elected) {
            (Some(part), _) if part.parent != Some(from) => {
                part.silent.remove(&from);
                if let Some(best) = report {
                    part.best = part.best.max(best);
                    part.children.insert(from);
                }
                if part.pending.remove(&from) {
                    self.report_if_all_answered(out);
                }
            }
            // It was taken for dead, and is late.
            (None, Some(leader)) if report.is_some() => {
                out.send(from, Message::Leader { of, leader });
            }
            _ => {}
        }
    }

    fn report_if_all_answered(&mut self, out: &mut OutboxOf<Self>) {
        let Some(part) = self.part.as_mut().filter(|part| part.pending.is_empty()) else { return };
        part.silent.clear();
        let best = part.best;
        match part.parent {
            Some(parent) => {
                out.send(parent, Message::Report { of: self.latest, best });
                out.arm(Timer::Answers, self.timing.answer);
            }
            None => self.follow(self.latest, best.member, out),
        }
    }

    fn on_leader(&mut self, of: Index, leader: MemberId, out: &mut OutboxOf<Self>) {
        let waits = self.part.as_ref().is_some_and(|part| part.parent.is_some());
        if of > self.latest || of == self.latest && waits {
            self.follow(of, leader, out);
        }
    }

    fn follow(&mut self, of: Index, leader: MemberId, out: &mut OutboxOf<Self>) {
        self.latest = of;
        if let Some(part) = self.part.take() {
            out.send_each(part.children, &Message::Leader { of, leader });
            out.disarm(Timer::Answers);
        }
        if self.elected.replace(leader) != Some(leader) {
            out.tell(Event::Elected(leader));
        }
    }

    /// Nothing was heard for Δt of some that are waited for.
    fn on_silence(&mut self, out: &mut OutboxOf<Self>) {
        let (of, answer) = (self.latest, self.timing.answer);
        let Some(part) = &mut self.part else { return };
        part.patience = part.patience.saturating_sub(1);
        let is_cut_off = part.parent.is_some_and(|parent| part.silent.contains(&parent));
        if is_cut_off || part.patience == 0 {
            return self.begin(out);
        }
        let reported = part.pending.is_empty().then_some(part.best);
        let dead = std::mem::take(&mut part.silent);
        part.pending.retain(|neighbour| !dead.contains(neighbour));
        part.silent = match reported {
            Some(_) => part.parent.into_iter().collect(),
            None => part.pending.clone(),
        };
        if part.silent.is_empty() {
            return self.report_if_all_answered(out);
        }
        out.send_each(part.silent.iter().copied(), &Message::Probe { of, reported });
        out.arm(Timer::Answers, answer);
    }

    fn on_probe(
        &mut self,
        from: MemberId,
        of: Index,
        reported: Option<Best>,
        out: &mut OutboxOf<Self>,
    ) {
        if of < self.latest {
            return out.send(from, Message::Outdated { of, by: self.latest });
        }
        match (of == self.latest, reported) {
            (true, Some(_)) => {
                let sent = self.elected.map(Answer::Leader);
                out.send(from, Message::Reply { of, sent });
                if self.part.is_some() {
                    self.on_answer(from, of, reported, out);
                }
            }
            (true, None) => out.send(from, Message::Reply { of, sent: self.answered(from) }),
            // ELECTION did not arrive.
            (false, None) => self.join(of, Some(from), out),
            // The sender takes this member for its parent, which has forgotten it: it is to do without.
            (false, Some(_)) => {}
        }
    }

    /// What a neighbour that waits for an answer was sent.
    fn answered(&self, neighbour: MemberId) -> Option<Answer> {
        match &self.part {
            None => self.elected.map(Answer::Leader),
            Some(part) if part.parent != Some(neighbour) => Some(Answer::NotChild),
            Some(part) => part.pending.is_empty().then_some(Answer::Report(part.best)),
        }
    }

    fn on_reply(
        &mut self,
        from: MemberId,
        of: Index,
        sent: Option<Answer>,
        out: &mut OutboxOf<Self>,
    ) {
        if let Some(Answer::Leader(leader)) = sent {
            return self.on_leader(of, leader, out);
        }
        let Some(part) = self.part.as_mut().filter(|_| of == self.latest) else { return };
        part.silent.remove(&from);
        match sent {
            Some(Answer::NotChild) => self.on_answer(from, of, None, out),
            Some(Answer::Report(best)) => self.on_answer(from, of, Some(best), out),
            Some(Answer::Leader(_)) | None => {}
        }
    }

    fn on_outdated(&mut self, of: Index, by: Index, out: &mut OutboxOf<Self>) {
        if self.part.is_some() && of == self.latest && by >= of {
            // The same attempt, with a higher number.
            self.begin_above(by, out);
        }
    }

    /// Whether that member is a neighbour in what it writes about, and can have written so.
    fn is_from_a_neighbour(&self, from: MemberId, message: &Message) -> bool {
        let Place { view, spares, .. } = self.place;
        (spares || !message.is_about_a_wide_one())
            && message.makes_sense_in(view)
            && self.place.is_neighbour(from, message.of().wide)
    }

    fn receive(&mut self, from: MemberId, message: Message, out: &mut OutboxOf<Self>) {
        match message {
            Message::Election { of } => self.on_election(from, of, out),
            Message::NotChild { of } => self.on_answer(from, of, None, out),
            Message::Report { of, best } => self.on_answer(from, of, Some(best), out),
            Message::Leader { of, leader } => self.on_leader(of, leader, out),
            Message::Probe { of, reported } => self.on_probe(from, of, reported, out),
            Message::Reply { of, sent } => self.on_reply(from, of, sent, out),
            Message::Outdated { of, by } => self.on_outdated(of, by, out),
        }
    }
}

impl Election for SpanningTree {
    fn new(place: Place, timing: Timing) -> Self {
        let latest = Index { wide: false, number: 0, source: place.me };
        Self { place, timing, latest, part: None, elected: None }
    }

    fn elected(&self) -> Option<MemberId> {
        self.elected
    }

    fn is_electing(&self) -> bool {
        self.part.is_some()
    }
}

impl Protocol for SpanningTree {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn handle(&mut self, _now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(Command::Elect | Command::Inquire) => self.elect(out),
            Input::Message { from, message } => {
                if self.is_from_a_neighbour(from, &message) {
                    self.receive(from, message, out);
                }
            }
            Input::Timer(Timer::Answers) => self.on_silence(out),
        }
    }
}

/// So many computations of a source may come to nothing before it begins a wide one.
const NARROW: u32 = 2;

#[cfg(test)]
mod tests;
