//! The spanning tree without indices of computations, as the textbook states it first: a member takes part in one
//! election, whichever member began it. It elects one member if one member begins. If two do, each waits for the other
//! for ever.

use std::collections::BTreeSet;

use conclave_protocols::election::{Command, Election, Event, Place, Timing};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{Input, LocalTime, MemberId, Named, Protocol};
use stateright::{Checker, Model};

use crate::support::graph::Graph;
use crate::{Candidate, Promises, world_on};

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Untagged {
    place: Place,
    parent: Option<MemberId>,
    pending: BTreeSet<MemberId>,
    children: BTreeSet<MemberId>,
    best: (u64, MemberId),
    waits: bool,
    elected: Option<MemberId>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Message {
    Election,
    NotChild,
    Report((u64, MemberId)),
    Leader(MemberId),
}

impl Named for Message {
    fn name(&self) -> &'static str {
        "untagged"
    }
}

impl Untagged {
    fn join(&mut self, parent: Option<MemberId>, out: &mut OutboxOf<Self>) {
        self.parent = parent;
        self.waits = true;
        self.pending = self.place.neighbours.clone();
        self.pending.retain(|one| Some(*one) != parent);
        out.send_each(self.pending.iter().copied(), &Message::Election);
        self.report(out);
    }

    fn report(&mut self, out: &mut OutboxOf<Self>) {
        if self.pending.is_empty() {
            match self.parent {
                Some(parent) => out.send(parent, Message::Report(self.best)),
                None => self.follow(self.best.1, out),
            }
        }
    }

    fn follow(&mut self, leader: MemberId, out: &mut OutboxOf<Self>) {
        self.waits = false;
        self.elected = Some(leader);
        out.tell(Event::Elected(leader));
        out.send_each(self.children.iter().copied(), &Message::Leader(leader));
    }
}

impl Protocol for Untagged {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = ();
    type Event = Event;

    fn handle(&mut self, _now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(_) if self.waits => {}
            Input::Command(_) => self.join(None, out),
            Input::Message { from, message: Message::Election } => {
                if self.waits || self.elected.is_some() {
                    out.send(from, Message::NotChild);
                } else {
                    self.join(Some(from), out);
                }
            }
            Input::Message { from, message: Message::NotChild } => {
                self.pending.remove(&from);
                self.report(out);
            }
            Input::Message { from, message: Message::Report(best) } => {
                self.best = self.best.max(best);
                self.children.insert(from);
                self.pending.remove(&from);
                self.report(out);
            }
            Input::Message { message: Message::Leader(leader), .. } => self.follow(leader, out),
            Input::Timer(()) => {}
        }
    }
}

impl Election for Untagged {
    fn new(place: Place, _timing: Timing) -> Self {
        let best = (place.capacity, place.me);
        let (pending, children) = (BTreeSet::new(), BTreeSet::new());
        Self { place, parent: None, pending, children, best, waits: false, elected: None }
    }

    fn elected(&self) -> Option<MemberId> {
        self.elected
    }

    fn is_electing(&self) -> bool {
        self.waits
    }
}

impl Candidate for Untagged {
    fn makes_sense(_message: &Message, _size: u32) -> bool {
        true
    }
}

/// The best is at one end, and the sources are in the middle and at the other.
#[test]
fn without_indices_two_that_begin_elect_two() {
    const LAW: &str = "in the end all follow the best living member";
    let is_broken = |initiators: &[u32]| {
        let (graph, capacities) = (Graph::line(4), [1, 0, 0, 2]);
        let world =
            world_on::<Untagged>(graph, &capacities, Promises::NobodyCrashes, initiators, &[]);
        world.checker().threads(2).spawn_bfs().join().discovery(LAW).is_some()
    };
    assert!(!is_broken(&[0]) && !is_broken(&[2]));
    assert!(is_broken(&[0, 2]) && is_broken(&[1, 2]));
}
