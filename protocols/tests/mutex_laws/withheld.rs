//! Ricart and Agrawala's lock in the two forms of the textbooks, which differ from ours in what a member sends
//! whose reply has to wait: nothing, as the source has it, or a denial, as Tanenbaum and van Steen have it.
//!
//! Both are made of the lock that groups run. Without its notices it is that of the source, so the notices are no
//! more than that. With each taken for a denial, and requests repeated that nothing answers, it is the other.

use std::time::Duration;

use conclave_protocols::mutex::ricart_agrawala::{self, Message, RicartAgrawala};
use conclave_protocols::mutex::{Carried, Command, Event, GroupMutex, Mutex, Permissions, Phase};
use conclave_protocols::protocol::{EffectOf, InputOf, OutboxOf};
use conclave_protocols::{Effect, Input, LamportTime, LocalTime, MemberId, Outbox, Protocol, View};

use crate::flawed::{Flaw, Flawed};
use crate::support::Subject;

/// A form of the lock.
pub(crate) trait Form: Subject + Mutex<Message = Message> {
    fn around(lock: RicartAgrawala) -> Self;

    fn lock(&self) -> &RicartAgrawala;

    /// Whether a timer may be set though nobody wants anything.
    fn is_idle(timer: Self::Timer) -> bool;

    fn of(permissions: Permissions, me: MemberId, view: View, carried: &Carried) -> Self {
        Self::around(RicartAgrawala::of(permissions, me, view, carried))
    }

    /// With a clock that shows this.
    fn at(clock: LamportTime, me: MemberId, view: View) -> Self {
        let lock = RicartAgrawala::new(me, view, &Carried::default());
        Self::around(lock.numbered_after(clock.get()))
    }

    fn turn(&self) -> Option<(LamportTime, MemberId)> {
        self.lock().turn()
    }
}

/// The form that groups run.
impl Form for RicartAgrawala {
    fn around(lock: RicartAgrawala) -> Self {
        lock
    }

    fn lock(&self) -> &RicartAgrawala {
        self
    }

    fn is_idle(timer: Self::Timer) -> bool {
        match timer {
            ricart_agrawala::Timer::Idle => true,
        }
    }
}

/// A member that withholds its reply in silence.
pub(crate) type Silent = Flawed<RicartAgrawala, Silence>;

/// No notice is sent.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Silence;

impl Flaw<RicartAgrawala> for Silence {
    fn spoil(
        _input: &InputOf<RicartAgrawala>,
        mut effects: Vec<EffectOf<RicartAgrawala>>,
    ) -> Vec<EffectOf<RicartAgrawala>> {
        effects
            .retain(|effect| !matches!(effect, Effect::Send { message: Message::Queued(_), .. }));
        effects
    }
}

impl Form for Silent {
    fn around(lock: RicartAgrawala) -> Self {
        Self::around(lock)
    }

    fn lock(&self) -> &RicartAgrawala {
        &self.lock
    }

    fn is_idle(timer: Self::Timer) -> bool {
        RicartAgrawala::is_idle(timer)
    }
}

/// A member that takes the notice for a denial: a request has an answer at once, and one that has none after
/// [`PATIENCE`] is repeated.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Insistent {
    lock: RicartAgrawala,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Timer {
    /// Somebody has not answered.
    Answers,
    Lock(ricart_agrawala::Timer),
}

pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

impl Form for Insistent {
    fn around(lock: RicartAgrawala) -> Self {
        Self { lock }
    }

    fn lock(&self) -> &RicartAgrawala {
        &self.lock
    }

    fn is_idle(timer: Timer) -> bool {
        match timer {
            Timer::Answers => false,
            Timer::Lock(timer) => RicartAgrawala::is_idle(timer),
        }
    }
}

impl Insistent {
    fn ask_the_silent(&self, out: &mut OutboxOf<Self>) {
        let Some((since, _)) = self.lock.turn() else { return };
        if self.lock.silent().next().is_some() {
            out.send_each(self.lock.silent(), &Message::Request(since));
            out.arm(Timer::Answers, PATIENCE);
        }
    }

    fn act(
        &mut self,
        act: impl FnOnce(&mut RicartAgrawala, &mut OutboxOf<RicartAgrawala>),
        out: &mut OutboxOf<Self>,
    ) {
        let awaited = self.lock.silent().next().is_some();
        let mut sent = Outbox::default();
        act(&mut self.lock, &mut sent);
        let mut asks = false;
        for effect in sent.drain() {
            match effect {
                Effect::Send { to, message } => {
                    asks |= matches!(message, Message::Request(_));
                    out.send(to, message);
                }
                Effect::Arm { timer, after } => out.arm(Timer::Lock(timer), after),
                Effect::Disarm(timer) => out.disarm(Timer::Lock(timer)),
                Effect::Tell(event) => out.tell(event),
            }
        }
        let awaits = self.lock.silent().next().is_some();
        if awaits && asks {
            out.arm(Timer::Answers, PATIENCE);
        } else if awaited && !awaits {
            out.disarm(Timer::Answers);
        }
    }
}

impl Mutex for Insistent {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        Self::around(RicartAgrawala::new(me, view, carried))
    }

    fn phase(&self) -> Phase {
        self.lock.phase()
    }
}

impl Protocol for Insistent {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        self.act(|lock, sent| lock.start(now, sent), out);
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        let input = match input {
            Input::Timer(Timer::Answers) => return self.ask_the_silent(out),
            Input::Timer(Timer::Lock(timer)) => Input::Timer(timer),
            Input::Command(command) => Input::Command(command),
            Input::Message { from, message } => Input::Message { from, message },
        };
        self.act(|lock, sent| lock.handle(now, input, sent), out);
    }
}
