//! Any lock, with members that are selfish: a member that leaves keeps it for its own next critical sections, a few
//! times.

use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{Input, LocalTime, MemberId, Protocol, View};

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Selfish<P> {
    pub(crate) lock: P,
    /// Its application is out, and the lock does not know.
    keeps: bool,
    /// How often it may do so yet.
    left: u8,
}

impl<P: Mutex> Mutex for Selfish<P> {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        Self { lock: P::new(me, view, carried), keeps: false, left: SECTIONS }
    }

    fn phase(&self) -> Phase {
        if self.keeps { Phase::Idle } else { self.lock.phase() }
    }
}

impl<P: Mutex> Protocol for Selfish<P> {
    type Peer = MemberId;
    type Command = Command;
    type Message = P::Message;
    type Timer = P::Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        self.lock.start(now, out);
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(Command::Enter) if self.keeps => {
                self.keeps = false;
                out.tell(Event::Entered);
            }
            Input::Command(Command::Exit) if self.phase() == Phase::InSection && self.left > 0 => {
                self.keeps = true;
                self.left -= 1;
            }
            Input::Command(Command::Exit) => {
                self.left = SECTIONS;
                self.lock.handle(now, input, out);
            }
            Input::Command(Command::Enter) | Input::Message { .. } | Input::Timer(_) => {
                self.lock.handle(now, input, out);
            }
        }
    }
}

const SECTIONS: u8 = 2;
