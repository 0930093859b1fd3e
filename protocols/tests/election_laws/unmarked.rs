//! Chang and Roberts' election without marks, as some texts state it: a member sends its own identifier
//! instead of each lower one, also if it has done so before. It is right about who wins, and the winner
//! wins once for each member that began. It tolerates no crash.

use conclave_protocols::election::chang_roberts::Message;
use conclave_protocols::election::{Command, Election, Event, Place, Timing};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{Input, LocalTime, MemberId, Protocol, View};
use stateright::{Checker, Model};

use crate::{COMES_BACK_ONCE, Candidate, Promises, world};

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Unmarked {
    me: MemberId,
    view: View,
    waits: bool,
    elected: Option<MemberId>,
}

impl Unmarked {
    fn send_on(&mut self, message: Message, out: &mut OutboxOf<Self>) {
        out.send(self.view.successor(self.me), message);
    }

    fn send_candidate(&mut self, candidate: MemberId, out: &mut OutboxOf<Self>) {
        self.waits = true;
        self.send_on(Message::Election { candidate }, out);
    }

    fn follow(&mut self, leader: MemberId, out: &mut OutboxOf<Self>) {
        self.waits = false;
        self.elected = Some(leader);
        out.tell(Event::Elected(leader));
        self.send_on(Message::Elected { leader }, out);
    }
}

impl Protocol for Unmarked {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = ();
    type Event = Event;

    fn handle(&mut self, _now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(_) => self.send_candidate(self.me, out),
            Input::Message { message: Message::Election { candidate }, .. } => {
                if candidate == self.me {
                    self.follow(self.me, out);
                } else {
                    self.send_candidate(candidate.max(self.me), out);
                }
            }
            Input::Message { message: Message::Elected { leader }, .. } if leader != self.me => {
                self.follow(leader, out);
            }
            Input::Message { .. } | Input::Timer(()) => {}
        }
    }
}

impl Election for Unmarked {
    fn new(Place { me, view, .. }: Place, _timing: Timing) -> Self {
        Self { me, view, waits: false, elected: None }
    }

    fn elected(&self) -> Option<MemberId> {
        self.elected
    }

    fn is_electing(&self) -> bool {
        self.waits
    }
}

impl Candidate for Unmarked {
    fn makes_sense(_message: &Message, _size: u32) -> bool {
        true
    }

    fn comes_back(message: &Message, to: MemberId) -> bool {
        *message == Message::Election { candidate: to }
    }
}

#[test]
fn without_marks_the_winner_wins_again_if_two_begin() {
    let comes_back = |initiators: &[u32]| {
        let world = world::<Unmarked>(Promises::NobodyCrashes, initiators, &[]);
        world.checker().threads(2).spawn_bfs().join().discovery(COMES_BACK_ONCE).is_some()
    };
    assert!(!comes_back(&[0]));
    assert!(!comes_back(&[3]));
    for pair in [[0, 1], [0, 3], [1, 2]] {
        assert!(comes_back(&pair), "{pair:?}");
    }
}
