//! Lamport's lock whose members spare acknowledgments: one that has sent a message with a later stamp to all
//! acknowledges no request that is earlier. The source notes that it need not.

use conclave_protocols::mutex::lamport::{Lamport, Message, Timer};
use conclave_protocols::mutex::{Carried, Command, Event, GroupMutex, Mutex, Phase};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::{Effect, Input, LamportTime, LocalTime, MemberId, Outbox, Protocol, View};

/// One member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Sparing {
    me: MemberId,
    pub(crate) lock: Lamport,
    /// The latest stamp of a message to all others, of which the view is one.
    announced: LamportTime,
}

impl Sparing {
    pub(crate) fn after(latest: u64, me: MemberId, view: View, carried: &Carried) -> Self {
        let lock = Lamport::new(me, view, carried);
        let announced = LamportTime::at(lock.latest());
        Self { me, lock: lock.numbered_after(latest), announced }
    }
}

impl Mutex for Sparing {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        Self::after(0, me, view, carried)
    }

    fn phase(&self) -> Phase {
        self.lock.phase()
    }
}

impl Protocol for Sparing {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        self.lock.start(now, out);
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        let request = match &input {
            Input::Message { from, message: Message::Request(since) } => Some((*since, *from)),
            Input::Message { .. } | Input::Command(_) | Input::Timer(_) => None,
        };
        let spared = request.is_some_and(|request| request < (self.announced, self.me));
        let mut sent = Outbox::default();
        self.lock.handle(now, input, &mut sent);
        for effect in sent.drain() {
            match effect {
                Effect::Send { message: Message::Acknowledgment(_), .. } if spared => {}
                Effect::Send { to, message } => {
                    if let Message::Request(at) | Message::Release(at) = message {
                        self.announced = at;
                    }
                    out.send(to, message);
                }
                Effect::Tell(event) => out.tell(event),
                Effect::Arm { timer, .. } | Effect::Disarm(timer) => match timer {},
            }
        }
    }
}
