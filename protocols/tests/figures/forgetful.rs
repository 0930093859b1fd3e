//! Coordinators of a vote that forget it: how many must until two are in the critical section.

use std::time::Duration;

use conclave_protocols::mutex::voting::{Message, Timer, Voting};
use conclave_protocols::mutex::{Carried, Command, Event};
use conclave_protocols::protocol::{InputOf, Outbox, OutboxOf};
use conclave_protocols::sim::Simulator;
use conclave_protocols::{Input, LocalTime, MemberId, Protocol};

use crate::measure::{T, view};

/// In a group of n, with so many votes for an entry.
pub(crate) struct Forgotten {
    pub(crate) size: u32,
    pub(crate) votes: u32,
    /// How many coordinators have to forget until a second is in the critical section too.
    pub(crate) too_many: u32,
}

/// Some groups. In each it takes 2m - n coordinators.
pub(crate) fn all() -> Vec<Forgotten> {
    let groups = [(3, 2), (5, 3), (5, 4), (7, 4), (8, 5), (8, 6), (16, 9), (32, 20), (64, 33)];
    let measure = |(size, votes)| {
        let is_in = |forget: &u32| second_enters(size, votes, *forget);
        let too_many = (0..=votes).find(is_in).expect("a second entry");
        assert_eq!(too_many, 2 * votes - size, "{votes} of {size}");
        Forgotten { size, votes, too_many }
    };
    groups.map(measure).into()
}

/// One is in the critical section; so many coordinators crash and come back at once, without memory; and
/// another asks, whose voters have as few in common with those of the first as possible. Whether it enters
/// while the first is in the critical section.
fn second_enters(size: u32, votes: u32, forget: u32) -> bool {
    let mut sim = Simulator::new(0);
    sim.set_delay(T, T);
    for me in view(size).members() {
        let voting = Voting::with_votes(me, view(size), &Carried::default(), votes);
        sim.add(me, Forgetful(voting));
    }
    let (first, second) = (MemberId(0), MemberId(size - votes));
    sim.command(first, Act::Ask(Command::Enter));
    sim.run_for(T * 2);
    assert_eq!(sim.take_notified(), [(T * 2, first, Event::Entered)]);
    for coordinator in view(size).members().skip(second.0 as usize).take(forget as usize) {
        sim.command(coordinator, Act::Forget);
    }
    sim.command(second, Act::Ask(Command::Enter));
    sim.run_for(Duration::from_secs(10));
    sim.take_notified().iter().any(|(_, who, event)| (*who, *event) == (second, Event::Entered))
}

/// A member whose coordinator can be made to forget.
struct Forgetful(Voting);

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Act {
    Ask(Command),
    Forget,
}

impl Protocol for Forgetful {
    type Peer = MemberId;
    type Command = Act;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        let input = match input {
            Input::Command(Act::Forget) => return self.0.forget(),
            Input::Command(Act::Ask(command)) => Input::Command(command),
            Input::Message { from, message } => Input::Message { from, message },
            Input::Timer(timer) => Input::Timer(timer),
        };
        let mut inner = Outbox::default();
        self.0.handle(now, input, &mut inner);
        inner.pour_into(out, |message| message, |timer| timer);
    }
}
