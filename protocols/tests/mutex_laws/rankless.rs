//! Ricart and Agrawala's lock as some lecture notes have it: requests are compared by their times
//! alone, so that of two with the same time neither is first.

use std::collections::BTreeSet;

use conclave_protocols::mutex::ricart_agrawala::{Message, Timer};
use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{Input, LamportTime, LocalTime, MemberId, Protocol, View};

/// A lock that replies "only if the other's time is smaller".
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Rankless {
    me: MemberId,
    view: View,
    clock: LamportTime,
    phase: Phase,
    since: LamportTime,
    missing: BTreeSet<MemberId>,
    deferred: BTreeSet<(MemberId, LamportTime)>,
}

impl Mutex for Rankless {
    fn new(me: MemberId, view: View, _carried: &Carried) -> Self {
        Self {
            me,
            view,
            clock: LamportTime::default(),
            phase: Phase::Idle,
            since: LamportTime::default(),
            missing: BTreeSet::new(),
            deferred: BTreeSet::new(),
        }
    }

    fn phase(&self) -> Phase {
        self.phase
    }
}

impl Protocol for Rankless {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn handle(&mut self, _now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(Command::Enter) => {
                self.since = self.clock.tick();
                self.phase = Phase::Waiting;
                self.missing = self.view.peers(self.me).collect();
                out.send_each(self.view.peers(self.me), &Message::Request(self.since));
            }
            Input::Command(Command::Exit) => {
                self.phase = Phase::Idle;
                for (peer, since) in std::mem::take(&mut self.deferred) {
                    out.send(peer, Message::Reply(since));
                }
            }
            Input::Message { from, message: Message::Request(theirs) } => {
                self.clock.witness(theirs);
                let permits = match self.phase {
                    Phase::Idle => true,
                    Phase::Waiting => theirs < self.since,
                    Phase::InSection => false,
                };
                if permits {
                    out.send(from, Message::Reply(theirs));
                } else {
                    self.deferred.insert((from, theirs));
                }
            }
            Input::Message { from, message: Message::Reply(to) } => {
                let mine = self.phase == Phase::Waiting && to == self.since;
                if mine && self.missing.remove(&from) && self.missing.is_empty() {
                    self.phase = Phase::InSection;
                    out.tell(Event::Entered);
                }
            }
            Input::Message { message: Message::Queued(_), .. } | Input::Timer(Timer::Idle) => {}
        }
    }
}
