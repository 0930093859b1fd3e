//! Elections as nominators: the winner is a nominee, and the leader lease makes it the leader.

use super::{AnyElection, AnyMessage, AnyTimer, Command, Event, Place, Timing};
use crate::core::{Nominator, NominatorOut};
use crate::ids::MemberId;
use crate::protocol::{Effect, Input, InputOf, Outbox, Protocol};
use crate::record::Record;
use crate::time::LocalTime;

impl AnyElection {
    fn feed(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut NominatorOut<Self>) {
        let mut effects = Outbox::default();
        self.handle(now, input, &mut effects);
        for effect in effects.drain() {
            match effect {
                Effect::Send { to, message } => out.send(to, message),
                Effect::Arm { timer, after } => out.arm(timer, after),
                Effect::Disarm(timer) => out.disarm(timer),
                Effect::Tell(Event::Elected(winner)) => out.tell(winner),
            }
        }
    }
}

impl Nominator for AnyElection {
    type Message = AnyMessage;
    type Timer = AnyTimer;

    fn new(electorate: &Record, me: MemberId, in_vain: u32) -> Self {
        let place = Place::in_record(electorate, me).after(in_vain);
        Self::new(electorate.policy.election, place, Timing::of(electorate.timing.leader_lease))
    }

    fn nominate(&mut self, now: LocalTime, out: &mut NominatorOut<Self>) {
        self.feed(now, Input::Command(Command::Elect), out);
    }

    fn receive(
        &mut self,
        now: LocalTime,
        from: MemberId,
        message: AnyMessage,
        out: &mut NominatorOut<Self>,
    ) {
        self.feed(now, Input::Message { from, message }, out);
    }

    fn fire(&mut self, now: LocalTime, timer: AnyTimer, out: &mut NominatorOut<Self>) {
        self.feed(now, Input::Timer(timer), out);
    }

    fn is_at_work(&self) -> bool {
        self.is_electing() || self.elected().is_some()
    }

    fn is_counted(message: &AnyMessage) -> bool {
        message.is_counted()
    }
}
